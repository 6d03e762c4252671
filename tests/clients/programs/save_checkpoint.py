"""CheckpointManager with model and scaled optimizer; a second run finds the last one and goes on. TF 2.3."""
import argparse
import tempfile

import numpy as np
import tensorflow as tf


class Trainer:
    def __init__(self, folder):
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(2, kernel_initializer="ones", input_shape=(3,))])
        opt = tf.keras.optimizers.Adam(0.05)
        loss_scale = tf.mixed_precision.experimental.DynamicLossScale(initial_loss_scale=2 ** 14, increment_period=3)
        self.opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(opt, loss_scale)
        self.checkpoint = tf.train.Checkpoint(step=tf.Variable(0), optimizer=self.opt, model=self.model)
        self.manager = tf.train.CheckpointManager(self.checkpoint, folder, max_to_keep=2)
        self.status = self.checkpoint.restore(self.manager.latest_checkpoint)

    @tf.function
    def step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(x) - x[:, :2]))
            scaled = self.opt.get_scaled_loss(loss)
        grads = self.opt.get_unscaled_gradients(tape.gradient(scaled, self.model.trainable_variables))
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.checkpoint.step.assign_add(1)
        return loss

    def train(self, steps):
        print("from", "scratch" if self.manager.latest_checkpoint is None else "checkpoint", int(self.checkpoint.step))
        for _ in range(steps):
            number = int(self.checkpoint.step)
            x = np.random.RandomState(number).normal(size=(4, 3)).astype("float32")
            if number == 1:
                x[0, 0] = np.inf
            loss = self.step(tf.constant(x))
            print("step %d loss %.5f scale %d" % (number, loss, self.opt.loss_scale()))
        path = self.manager.save()
        names = [name for name, _ in tf.train.list_variables(path) if "loss_scale" in name]
        print("saved", sorted(names))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Trainer(folder).train(args.steps)
        again = Trainer(folder)
        again.train(args.steps)
        again.status.assert_existing_objects_matched()
        print([round(float(value), 5) for value in again.model.get_weights()[0].ravel()], int(again.opt.iterations))


if __name__ == "__main__":
    main()
