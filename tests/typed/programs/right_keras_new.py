"""`mpls.keras` over new optimizers of tf_keras: `fit`, custom loops in `tf.function`, files, configs."""

import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras

model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
opt = mpls.keras.LossScaleOptimizer(
    tf_keras.optimizers.Adam(), initial_scale=np.float32(2**10), dynamic_growth_steps=100
)
model.compile(optimizer=opt, loss="mse")
print(float(opt.loss_scale), int(opt.dynamic_counter))


@tf.function
def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
        scaled_loss = opt.get_scaled_loss(loss)
    scaled_grads = tape.gradient(scaled_loss, model.trainable_variables)
    grads = opt.get_unscaled_gradients(scaled_grads)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


first = train_step(tf.ones([4, 4]), tf.ones([4, 1]))

weight = tf.Variable(tf.constant(1.0))
fixed = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.25), dynamic=False, initial_scale=128)
fixed.build([weight])
fixed.minimize(lambda: weight**2, [weight], None)
pairs = fixed.compute_gradients(lambda: weight**2, [weight])
fixed.apply_gradients(fixed.aggregate_gradients(pairs), skip_gradients_aggregation=True)
fixed.finalize_variable_values([weight])
fixed.clipnorm = 1.0
print(fixed.use_ema, [variable.shape for variable in fixed.variables])

scale: float = fixed.initial_scale
steps: int | None = fixed.dynamic_growth_steps
again: mpls.keras.LossScaleOptimizer = mpls.keras.LossScaleOptimizer.from_config(fixed.get_config())
again.load_state_dict(fixed.state_dict())

mpls.keras.save_model(model, "model.keras", overwrite=True)
loaded = mpls.keras.load_model("model.keras", keras="tf_keras", compile=True)
