# A compiled model with a scaling optimizer is saved in the H5 format, and loaded with the optimizer's class among the custom
# objects; training goes on from there.
# Written for TF 2.1 to 2.8.
import json
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer


def loss_fn(y_true, y_pred):
    return tf.reduce_mean(y_pred * y_true, axis=-1)


def fit(run, model, factors):
    x = np.array([[1.0, 2.0], [0.5, -1.0]], "float32")
    for k in factors:
        model.fit(x, np.full([2, 1], k, "float32"), batch_size=2, epochs=1, verbose=0)
        weights = model.get_weights()[0].ravel().tolist()
        scale = float(model.optimizer.get_scaled_loss(tf.constant(1.0)))
        line = {"step": k, "scale": scale, "iterations": int(model.optimizer.iterations), "weights": weights}
        print(json.dumps(dict(line, run=run)))


inf = float("inf")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, input_shape=(2,))])
model.set_weights([np.array([[1.0], [0.5]], "float32")])
model.compile(LossScaleOptimizer(tf.keras.optimizers.SGD(0.125, momentum=0.5), "dynamic"), loss=loss_fn)
fit("saved", model, (1.0, inf, 0.5))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, sys.argv[1] if len(sys.argv) > 1 else "model.h5")
    model.save(path)
    objects = {"LossScaleOptimizer": LossScaleOptimizer, "loss_fn": loss_fn}
    loaded = tf.keras.models.load_model(path, custom_objects=objects)
print(json.dumps({"seen": "loaded", "value": isinstance(loaded.optimizer, LossScaleOptimizer)}))
fit("loaded", loaded, (0.5, inf, 1.0))
