"""Saves a compiled mixed model as SavedModel, loads it, evaluates, and fits on. TF 2.4, 2.8."""
import argparse
import shutil
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--policy", default="mixed_float16")
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args()


def main():
    args = parse_args()
    mixed_precision.set_global_policy(args.policy)
    model = tf.keras.Sequential([
        tf.keras.layers.InputLayer((2,)),
        tf.keras.layers.Dense(3, "relu", kernel_initializer=tf.constant_initializer([[0.5, -0.5, 1], [1, 0.25, -1]])),
        tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32"),
    ])
    optimizer = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.125), initial_scale=2.0 ** 14)
    model.compile(optimizer=optimizer, loss="mse")
    x = np.array([[1, 2], [0.5, -1], [-1, 0.25], [2, 0.5]], "float32")
    y = np.array([[1], [0], [1], [0.5]], "float32")
    for loss in model.fit(x, y, batch_size=2, epochs=args.epochs, shuffle=False, verbose=0).history["loss"]:
        print("loss %.4f" % loss)
    folder = tempfile.mkdtemp()
    try:
        model.save(folder)
        loaded = tf.keras.models.load_model(folder)
    finally:
        shutil.rmtree(folder)
    print("evaluate %.4f %.4f" % (model.evaluate(x, y, verbose=0), loaded.evaluate(x, y, verbose=0)))
    print([layer.dtype_policy.name if hasattr(layer, "dtype_policy") else layer._dtype_policy.name for layer in loaded.layers])
    opt = loaded.optimizer
    print(isinstance(opt, mixed_precision.LossScaleOptimizer), float(opt.loss_scale), int(opt.iterations))
    loaded.fit(x, y, batch_size=2, epochs=1, shuffle=False, verbose=0)
    print("after", float(opt.loss_scale), int(opt.iterations), np.round(loaded.get_weights()[0], 2).tolist())
    mixed_precision.set_global_policy("float32")


if __name__ == "__main__":
    main()
