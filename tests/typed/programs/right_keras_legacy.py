"""`mpls.keras` over legacy optimizers of tf_keras: `fit`, custom loops, hyperparameters, slots."""

import tensorflow as tf
import tf_keras

import mpls.keras

model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.legacy.Adam(beta_1=0.8), initial_scale=8)
model.compile(optimizer=opt, loss="mse")
model.fit(tf.ones([8, 4]), tf.ones([8, 1]), verbose=0)

weight = tf.Variable(tf.constant(1.0))
opt.minimize(lambda: weight**2, [weight])
opt.minimize(lambda: weight**2, var_list=[weight], grad_loss=None, name="step")
with tf.GradientTape() as tape:
    scaled_loss = opt.get_scaled_loss(weight**2)
grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, [weight]))
opt.apply_gradients(zip(grads, [weight]), "a_name", experimental_aggregate_gradients=False)

opt.beta_1 = 0.5
opt.learning_rate = 0.01
assert float(opt.inner_optimizer.beta_1) == 0.5
assert float(opt.lr) == float(opt.inner_optimizer.learning_rate)
assert opt.get_slot_names() == ["m", "v"]
assert opt.get_slot(weight, "m").shape == ()
opt.set_weights(opt.get_weights())
assert len(opt.variables()) == len(opt.weights)
iterations: int = int(opt.iterations)
assert opt.dynamic and float(opt.loss_scale) == opt.initial_scale == 8.0
assert opt.dynamic_growth_steps is not None and int(opt.dynamic_counter) < opt.dynamic_growth_steps + 1
