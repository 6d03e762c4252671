"""compile wraps the optimizer with the policy's loss scale; a callback logs it. TF 2.2, 2.3."""
import argparse

import numpy as np
import tensorflow as tf


class ScaleLogger(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        optimizer = self.model.optimizer
        wrapped = isinstance(optimizer, tf.keras.mixed_precision.experimental.LossScaleOptimizer)
        scale = optimizer.loss_scale().numpy() if wrapped else 1.0
        print("epoch %d loss %.4f scale %g lr %.4f" % (epoch, logs["loss"], scale, tf.keras.backend.get_value(optimizer.lr)))


def build(rng):
    def init(*shape):
        return tf.constant_initializer(rng.normal(0, 0.4, shape))

    return tf.keras.Sequential([
        tf.keras.layers.Dense(8, activation="relu", kernel_initializer=init(6, 8), input_shape=(6,)),
        tf.keras.layers.Dense(3, kernel_initializer=init(8, 3)),
        tf.keras.layers.Activation("linear", dtype="float32"),
    ])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=4, type=int)
    parser.add_argument("--fp16", default="dynamic")
    args = parser.parse_args()
    policy = tf.keras.mixed_precision.experimental.Policy("mixed_float16", loss_scale=args.fp16)
    tf.keras.mixed_precision.experimental.set_policy(policy)
    rng = np.random.RandomState(0)
    x = rng.normal(size=(32, 6)).astype("float32")
    y = np.argmax(x[:, :3], -1)
    # Blows the first batches up in half precision.
    x[:2] *= 300
    model = build(rng)
    model.compile(
        optimizer=tf.keras.optimizers.SGD(0.05, momentum=0.9),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    schedule = tf.keras.callbacks.LearningRateScheduler(lambda epoch, lr: 0.05 / (1 + epoch))
    model.fit(x, y, batch_size=16, epochs=args.epochs, shuffle=False, verbose=0, callbacks=[schedule, ScaleLogger()])
    print("iterations", int(model.optimizer.iterations))


if __name__ == "__main__":
    main()
