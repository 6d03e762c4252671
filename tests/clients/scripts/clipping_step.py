# The same in its simplest form: an inner optimizer of which only apply_gradients is overridden, with a second argument,
# and the module imported as a whole, as a speech recogniser of 2020 did.
# Written for TF 2.1 to 2.3.
import json

import tensorflow as tf
import tensorflow.keras.mixed_precision.experimental as mixed_precision


class ClippingSGD(tf.keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars, clip_norm=0.5, **kwargs):
        grads, variables = zip(*grads_and_vars)
        grads, _ = tf.clip_by_global_norm(grads, clip_norm)
        return super().apply_gradients(list(zip(grads, variables)), **kwargs)


weights = tf.Variable([1.0, 2.0])
embedding = tf.Variable([[0.5], [1.5], [2.5]])
optimizer = mixed_precision.LossScaleOptimizer(ClippingSGD(0.1), "dynamic")


@tf.function
def train_step(factor):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weights) * factor + tf.reduce_sum(tf.gather(embedding, [0, 2, 2]))
        scaled_loss = optimizer.get_scaled_loss(loss)
    variables = [weights, embedding]
    grads = optimizer.get_unscaled_gradients(tape.gradient(scaled_loss, variables))
    grads = [tf.convert_to_tensor(grad) for grad in grads]
    optimizer.apply_gradients(zip(grads, variables), 2.0)


for k in (1.0, float("inf"), 2.0):
    train_step(tf.constant(k))
    scale = float(optimizer.get_scaled_loss(tf.constant(1.0)))
    values = weights.numpy().tolist() + embedding.numpy().ravel().tolist()
    print(json.dumps({"step": k, "scale": scale, "iterations": int(optimizer.iterations), "weights": values}))
