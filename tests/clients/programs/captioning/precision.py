"""Precision by parameters."""
import tensorflow as tf


def is_mixed(params):
    return params["dtype"] == "fp16"


def loss_scale_of(params):
    if params["loss_scale"] == "dynamic":
        return tf.mixed_precision.experimental.DynamicLossScale(increment_period=params["increment_period"])
    return tf.mixed_precision.experimental.FixedLossScale(float(params["loss_scale"]))
