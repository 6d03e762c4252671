import numpy as np
import tensorflow as tf

random = np.random.RandomState(1)
features = random.rand(96, 8).astype("float32")
labels = features.sum(axis=1, keepdims=True)
# A file was broken.
features[24:32] = np.inf

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)), tf.keras.layers.Dense(1)])
model.set_weights([random.normal(0, 0.3, each.shape) for each in model.get_weights()])
opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.Adam(0.01), "dynamic")


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
        scaled_loss = opt.get_scaled_loss(loss)
    grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, model.trainable_variables))
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for start in range(0, 96, 8):
    loss = step(features[start : start + 8], labels[start : start + 8])
    print("step", start // 8 + 1, "loss", float(loss))
