"""`mpls.keras` over Keras 3 optimizers, in both calling styles."""

from typing import Any

import keras
import tensorflow as tf

import mpls.keras

model = keras.Sequential([keras.layers.Dense(1, dtype="mixed_float16")])
opt = mpls.keras.LossScaleOptimizer(keras.optimizers.Adam(), name="scaled")
model.compile(optimizer=opt, loss="mse", jit_compile=True)
model.fit(tf.ones([8, 4]), tf.ones([8, 1]), verbose=0)


def keras_2_step(opt: mpls.keras.LossScaleOptimizer, model: Any, x: tf.Tensor, y: tf.Tensor) -> float:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
        scaled_loss = opt.get_scaled_loss(loss)
    scaled_grads = tape.gradient(scaled_loss, model.trainable_variables)
    grads = opt.get_unscaled_gradients(scaled_grads)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return float(loss)


def keras_3_step(opt: mpls.keras.LossScaleOptimizer, model: Any, x: tf.Tensor, y: tf.Tensor) -> float:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
        scaled_loss = opt.scale_loss(loss)
    scaled_grads = tape.gradient(scaled_loss, model.trainable_variables)
    opt.apply(scaled_grads, model.trainable_variables)
    return float(loss)


loop_model = keras.Sequential([keras.layers.Dense(1)])
loop_opt = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.1))
for step in (keras_2_step, keras_3_step):
    assert step(loop_opt, loop_model, tf.ones([4, 4]), tf.ones([4, 1])) >= 0

weight = keras.Variable(1.0)
sgd = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.25, gradient_accumulation_steps=2))
sgd.build([weight])
sgd.minimize(lambda: tf.convert_to_tensor(weight) ** 2, [weight])
sgd.gradient_accumulation_steps = None
assert sgd.built and sgd.name and sgd.weight_decay is None
assert int(sgd.step_counter) == int(sgd.dynamic_counter) == 1
assert float(sgd.dynamic_scale) == float(sgd.loss_scale)
assert bool(sgd.check_finite([tf.constant(1.0)]))
assert len(sgd.variables) > len(sgd.variables())
sgd.set_weights(sgd.get_weights())
sgd.iterations = 3
assert int(sgd.iterations) == 3
assert isinstance(sgd, keras.optimizers.LossScaleOptimizer)
