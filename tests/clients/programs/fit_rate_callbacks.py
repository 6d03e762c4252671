"""ReduceLROnPlateau, a schedule by hand, and early stopping over a wrapped optimizer. TF 2.4, 2.8."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow.keras import backend as K
from tensorflow.keras import mixed_precision


class Warmup(tf.keras.callbacks.Callback):
    def __init__(self, rate, steps):
        super().__init__()
        self.rate, self.steps, self.seen = rate, steps, 0

    def on_train_batch_begin(self, batch, logs=None):
        self.seen += 1
        if self.seen <= self.steps:
            K.set_value(self.model.optimizer.lr, self.rate * self.seen / self.steps)


def main(args):
    rng = np.random.RandomState(2)
    x = rng.normal(size=(20, 3)).astype("float32")
    y = x @ np.float32([[0.5], [-1.0], [2.0]])
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(3,))])
    optimizer = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(args.rate), dynamic=False, initial_scale=args.scale)
    model.compile(optimizer, "mse")
    callbacks = [
        Warmup(args.rate, 3),
        tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1, min_delta=1.0),
        tf.keras.callbacks.EarlyStopping(monitor="loss", patience=4, min_delta=0.5),
    ]
    history = model.fit(x, y, batch_size=5, epochs=args.epochs, shuffle=False, verbose=0, callbacks=callbacks)
    rates = history.history.get("lr") or history.history["learning_rate"]
    for epoch, (loss, rate) in enumerate(zip(history.history["loss"], rates)):
        print("epoch %d loss %.4f rate %.5f" % (epoch, loss, rate))
    print("kernel", model.get_weights()[0].ravel().round(4).tolist(), "scale", float(optimizer.loss_scale))
    model.optimizer.learning_rate = 0.5
    print("rate", float(K.get_value(optimizer.inner_optimizer.learning_rate)), "dynamic", optimizer.dynamic)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--scale", type=float, default=256.0)
    parser.add_argument("--epochs", type=int, default=8)
    main(parser.parse_args())
