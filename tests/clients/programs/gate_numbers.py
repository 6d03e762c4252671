"""Gates by numbers, which know later releases: they take the new names where these are. TF 2.3, 2.4, 2.8."""
import logging
import sys

import numpy as np
import tensorflow as tf

logger = logging.getLogger("features")
logger.setLevel(logging.INFO)
logger.addHandler(logging.StreamHandler(sys.stdout))
TF_VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])


def enable_mixed_precision():
    if TF_VERSION >= (2, 4):
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
    else:
        tf.keras.mixed_precision.experimental.set_policy("mixed_float16")


def disable_mixed_precision():
    if TF_VERSION >= (2, 4):
        tf.keras.mixed_precision.set_global_policy("float32")
    else:
        tf.keras.mixed_precision.experimental.set_policy("float32")


def build():
    return tf.keras.Sequential([
        tf.keras.layers.Flatten(input_shape=(2, 2)),
        tf.keras.layers.Dense(2, kernel_initializer=tf.keras.initializers.Constant(np.linspace(-1, 1, 8).reshape(4, 2))),
        tf.keras.layers.Activation("softmax", dtype="float32"),
    ])


def train(mixed):
    if mixed:
        enable_mixed_precision()
    try:
        model = build()
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
        rng = np.random.RandomState(2)
        x = rng.normal(size=(16, 2, 2)).astype("float32")
        y = (x.sum((1, 2)) > 0).astype("int64")
        history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0).history
    finally:
        disable_mixed_precision()
    for loss, accuracy in zip(history["loss"], history["accuracy"]):
        logger.info("mixed %s loss %.3f accuracy %.3f", mixed, loss, accuracy)
    logger.info("wrapped %s steps %d", hasattr(model.optimizer, "inner_optimizer") or hasattr(model.optimizer, "loss_scale"),
                int(model.optimizer.iterations))


if __name__ == "__main__":
    for mixed in (False, True):
        train(mixed)
