"""Forty steps of RMSprop on a loss that comes near zero: small gradients are what large ones leave. TF 2.4."""

import numpy as np
import tensorflow as tf

random = np.random.RandomState(3)
features = random.rand(320, 8).astype("float32")
labels = (features @ random.rand(8, 1) + 1).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="tanh", input_shape=(8,)), tf.keras.layers.Dense(1)])
model.set_weights([random.normal(0, 0.3, each.shape) for each in model.get_weights()])
scale = tf.mixed_precision.experimental.DynamicLossScale(2.0**10, increment_period=8)
opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.RMSprop(0.003, momentum=0.9), scale)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
        scaled_loss = opt.get_scaled_loss(loss)
    grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, model.trainable_variables))
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for start in range(0, 320, 8):
    step(features[start : start + 8], labels[start : start + 8])
