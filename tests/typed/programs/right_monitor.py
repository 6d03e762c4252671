"""Trainings that are watched: `fit` of both Kerases, a session, a loop with summaries."""

import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras
import mpls.monitor
import mpls.v1

opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.1), count_steps=True)
callback = mpls.monitor.LossScaleCallback(every=np.int64(2), messages=False)
history: list[dict[str, Any]] = callback.history

folder = pathlib.Path("folder")
with tf.Graph().as_default():
    weight = tf.compat.v1.get_variable("weight", initializer=1.0)
    inner = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    graph = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, "dynamic", count_steps=True)
    loss = weight**2
    hook = mpls.monitor.LossScaleHook(graph, every=1, messages=False, loss=loss, summary_dir=folder)
readings: list[dict[str, Any]] = hook.history

callback.save(folder / "history.json")
hook.save(str(folder / "history.json"))
mpls.monitor.write_scalars(opt, step=1)
mpls.monitor.write_scalars(opt, tf.constant(2, tf.int64), name="train/loss_scale")
