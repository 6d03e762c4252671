# A Keras model in a TF1 program: model.compile gets an optimizer of tf.train inside of MixedPrecisionLossScaleOptimizer.
# Written for TF 1.15.
import json

import numpy as np
import tensorflow as tf

scaling = tf.train.experimental.DynamicLossScale(1024.0, increment_period=2)
optimizer = tf.train.GradientDescentOptimizer(0.1)
optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(optimizer, scaling)
model = tf.keras.models.Sequential([tf.keras.layers.Dense(1, use_bias=False, input_shape=(2,))])
model.compile(optimizer=optimizer, loss=lambda y_true, y_pred: tf.reduce_mean(y_true * y_pred, axis=-1))
tf.keras.backend.get_session().run(tf.global_variables_initializer())
model.set_weights([np.array([[1.0], [0.5]], "float32")])
for k in (1.0, float("inf"), 2.0, 3.0):
    model.train_on_batch(np.array([[1.0, 2.0]], "float32"), np.array([[k]], "float32"))
    scale = float(tf.keras.backend.get_value(scaling()))
    print(json.dumps({"step": k, "scale": scale, "weights": model.get_weights()[0].ravel().tolist()}))
