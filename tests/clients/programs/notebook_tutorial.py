# %% [markdown]
# The same steps as in a course on training loops, TF 2.4 and later; cells by percent signs.

# %%
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, mixed_precision

# %%
try:
    get_ipython().run_line_magic("matplotlib", "inline")
except NameError:
    pass

# %%
mixed_precision.set_global_policy("mixed_float16")
print(mixed_precision.global_policy().compute_dtype, mixed_precision.global_policy().variable_dtype)

# %%
rng = np.random.RandomState(1)
model = keras.Sequential([
    layers.Dense(5, activation="relu", kernel_initializer=keras.initializers.Constant(rng.normal(0, 0.3, (4, 5))), input_shape=(4,)),
    layers.Dense(3, kernel_initializer=keras.initializers.Constant(rng.normal(0, 0.3, (5, 3)))),
    layers.Activation("softmax", dtype="float32"),
])
print([layer.compute_dtype for layer in model.layers])

# %%
optimizer = keras.optimizers.SGD(0.1)
optimizer = mixed_precision.LossScaleOptimizer(optimizer, initial_scale=2 ** 20)
loss_object = keras.losses.SparseCategoricalCrossentropy()
x = rng.rand(12, 4).astype("float32")
y = x[:, :3].argmax(-1)

# %%
@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_object(y, model(x))
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(scaled_gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

# %%
history = []
for step in range(8):
    loss = train_step(tf.constant(x), tf.constant(y))
    history.append((float(loss), float(optimizer.loss_scale)))
for loss, scale in history:
    print("loss %.3f scale %d" % (loss, scale))

# %%
print("inner", type(optimizer.inner_optimizer).__name__, "dynamic", optimizer.dynamic, "steps", int(optimizer.iterations))
print({key: optimizer.get_config()[key] for key in ("dynamic", "initial_scale", "dynamic_growth_steps")})
mixed_precision.set_global_policy("float32")
