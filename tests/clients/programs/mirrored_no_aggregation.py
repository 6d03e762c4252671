"""Sums the gradients itself, clips the sum, and applies without aggregation. TF 2.3, 2.4."""
import numpy as np
import tensorflow as tf

LR, REPLICAS = 0.2, 2


class SimpleTrainer:
    def __init__(self, strategy):
        self.strategy = strategy
        with strategy.scope():
            self.weights = tf.Variable([0.5, -0.5, 1.0])
            optimizer = tf.keras.optimizers.Adam(LR, epsilon=1e-3)
            self.optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, "dynamic")
            self.global_step = tf.Variable(0, dtype=tf.int64, trainable=False)

    def _minimize(self, tape, loss):
        scaled = tape.gradient(loss, [self.weights])
        grads = self.optimizer.get_unscaled_gradients(scaled)
        grads = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, grads)
        grads, norm = tf.clip_by_global_norm(grads, 0.5)
        self.optimizer.apply_gradients([(grads[0], self.weights)], experimental_aggregate_gradients=False)
        return norm

    @tf.function
    def train(self, batch):
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.tensordot(x, self.weights, 1))) / REPLICAS
                scaled = self.optimizer.get_scaled_loss(loss)
            return loss, self._minimize(tape, scaled)

        loss, norm = self.strategy.run(step, args=(batch,))
        self.global_step.assign_add(1)
        return self.strategy.reduce("SUM", loss, None), self.strategy.reduce("MEAN", norm, None)


def main():
    cpus = tf.config.experimental.list_physical_devices("CPU")
    tf.config.experimental.set_virtual_device_configuration(
        cpus[0], [tf.config.experimental.VirtualDeviceConfiguration()] * REPLICAS)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    trainer = SimpleTrainer(strategy)
    rng = np.random.RandomState(31)
    x = rng.normal(size=(20, 3)).astype("float32")
    x[9] = np.nan
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(4))
    for batch in data:
        loss, norm = trainer.train(batch)
        print("step %d loss %.4f norm %.4f" % (trainer.global_step.numpy(), loss, norm))
    print("weights", [round(float(value), 4) for value in trainer.weights.numpy()], trainer.optimizer.iterations.numpy())
    with strategy.scope():
        print("scale", float(trainer.optimizer.get_scaled_loss(tf.constant(1.0))))


if __name__ == "__main__":
    main()
