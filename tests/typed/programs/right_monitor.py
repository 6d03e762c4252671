"""Trainings that are watched: `fit` of both Kerases, a session, a loop with summaries."""

import pathlib
import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras
import mpls.monitor
import mpls.v1

opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.1), count_steps=True)
model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(4,))])
model.compile(opt, "mse")
callback = mpls.monitor.LossScaleCallback(every=np.int64(2), messages=False)
model.fit(tf.ones([4, 4]), tf.ones([4, 1]), batch_size=1, verbose=0, callbacks=[callback])
history: list[dict[str, Any]] = callback.history
assert [reading["step"] for reading in history] == [0, 2, 4]

model_3 = keras.Sequential([keras.layers.Dense(1)])
model_3.compile(mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
model_3.fit(np.ones([4, 4]), np.ones([4, 1]), verbose=0, callbacks=[mpls.monitor.LossScaleCallback()])

folder = pathlib.Path(tempfile.mkdtemp())
with tf.Graph().as_default():
    weight = tf.compat.v1.get_variable("weight", initializer=1.0)
    inner = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    graph = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, "dynamic", count_steps=True)
    loss = weight**2
    train_op = graph.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    hook = mpls.monitor.LossScaleHook(graph, every=1, messages=False, loss=loss, summary_dir=folder)
    with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
        session.run(train_op)
readings: list[dict[str, Any]] = hook.history
assert [reading["loss"] for reading in readings] == [1.0]

callback.save(folder / "history.json")
hook.save(str(folder / "history.json"))
with tf.summary.create_file_writer(str(folder)).as_default():
    mpls.monitor.write_scalars(opt, step=1)
    mpls.monitor.write_scalars(opt, tf.constant(2, tf.int64), name="train/loss_scale")
