"""Finds the API by strings: getattr along a path, importlib, and a table of candidates. TF 2.3, 2.4."""
import functools
import importlib

import tensorflow as tf

CANDIDATES = {
    "set_policy": ["keras.mixed_precision.experimental.set_policy", "keras.mixed_precision.set_global_policy"],
    "optimizer": ["keras.mixed_precision.experimental.LossScaleOptimizer", "keras.mixed_precision.LossScaleOptimizer"],
    "v1": ["train.experimental.MixedPrecisionLossScaleOptimizer", "compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer"],
    "none": ["keras.mixed_precision.experimental.no_such_name"],
}


def find(path):
    return functools.reduce(getattr, path.split("."), tf)


def first(kind):
    for path in CANDIDATES[kind]:
        try:
            return path, find(path)
        except AttributeError:
            continue
    return None, None


def main():
    for kind in sorted(CANDIDATES):
        path, symbol = first(kind)
        print(kind, "callable" if callable(symbol) else symbol)
    module = importlib.import_module("tensorflow.keras.mixed_precision.experimental")
    wrapper = first("optimizer")[1]
    print(getattr(module, "LossScaleOptimizer") is wrapper, hasattr(module, "no_such_name"))
    v = tf.Variable([1.0, 3.0])
    opt = wrapper(tf.keras.optimizers.get({"class_name": "SGD", "config": {"learning_rate": 0.1, "momentum": 0.5}}), "dynamic")
    for k in (1.0, float("nan"), 0.5):
        with tf.GradientTape() as tape:
            scaled = getattr(opt, "get_" + "scaled_loss")(tf.reduce_sum(v * v) * k)
        grads = getattr(opt, "get_unscaled_gradients")(tape.gradient(scaled, [v]))
        opt.apply_gradients(zip(grads, [v]))
        print("k", k, "v %.5f %.5f" % tuple(v.numpy()), "scale %d" % opt.get_scaled_loss(tf.constant(1.0)))


if __name__ == "__main__":
    main()
