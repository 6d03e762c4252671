"""`mpls.keras` over Keras 3 optimizers, in both calling styles."""

from typing import Any

import keras
import tensorflow as tf

import mpls.keras

model = keras.Sequential([keras.layers.Dense(1, dtype="mixed_float16")])
opt = mpls.keras.LossScaleOptimizer(keras.optimizers.Adam(), name="scaled")
model.compile(optimizer=opt, loss="mse", jit_compile=True)


def keras_3_step(opt: mpls.keras.LossScaleOptimizer, model: Any, x: tf.Tensor, y: tf.Tensor) -> float:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
        scaled_loss = opt.scale_loss(loss)
    scaled_grads = tape.gradient(scaled_loss, model.trainable_variables)
    opt.apply(scaled_grads, model.trainable_variables)
    return float(loss)


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
assert isinstance(sgd, keras.optimizers.LossScaleOptimizer)
