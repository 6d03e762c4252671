"""Prints what each layer computes in, under policies that are given to layers and set globally. TF 2.3."""
import collections

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mp

Row = collections.namedtuple("Row", "layer policy compute variable output")


class Scale(tf.keras.layers.Layer):
    """Multiplies by a weight; casts nothing itself."""

    def build(self, input_shape):
        self.gamma = self.add_weight("gamma", shape=(), initializer="ones")

    def call(self, inputs):
        return inputs * self.gamma


class Careful(tf.keras.layers.Layer):
    def __init__(self, **kwargs):
        super(Careful, self).__init__(autocast=False, dtype="float32", **kwargs)

    def call(self, inputs):
        return tf.exp(tf.cast(inputs, tf.float32))


def rows(layers, x):
    for layer in layers:
        y = layer(x)
        policy = mp.get_layer_policy(layer)
        yield Row(layer.name, policy.name, policy.compute_dtype, policy.variable_dtype, y.dtype.name)


def main():
    default = mp.global_policy()
    mixed = mp.Policy("mixed_float16")
    print("default", default.name, default.loss_scale)
    print("mixed", mixed.name, mixed.should_cast_variables if hasattr(mixed, "should_cast_variables") else True)
    x = tf.constant(np.ones((2, 3), "float32"))
    dense = tf.keras.layers.Dense(2, dtype=mixed, kernel_initializer="ones", name="dense_mixed")
    for row in rows([dense, Scale(dtype="float16", name="scale_half"), Scale(name="scale"), Careful(name="careful")], x):
        print(" ".join(row))
    mp.set_policy("mixed_float16")
    try:
        for row in rows([Scale(name="scale_global"), Careful(name="careful_global"),
                         tf.keras.layers.Dense(1, dtype="float32", name="dense_float32")], x):
            print(" ".join(row))
        print("has a scale", mp.global_policy().loss_scale is not None)
    finally:
        mp.set_policy(default)
    print("restored", mp.global_policy().name)


if __name__ == "__main__":
    main()
