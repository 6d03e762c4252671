# A recommender with embeddings on another server: a subclass of the scaling optimizer with its own __getattribute__ and
# get_unscaled_gradients, applied twice a step, once to dense variables and once to embeddings, so that it counts twice.
# Written for TF 2.3; ran on TF 2.1 to 2.3. Optimizers that learn of variables one by one are called legacy since TF 2.9.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer

optimizers = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
DynamicLossScale = tf.mixed_precision.experimental.DynamicLossScale


class EmbeddingLossScaleOptimizer(LossScaleOptimizer):
    def __init__(self, optimizer, loss_scale):
        super(EmbeddingLossScaleOptimizer, self).__init__(optimizer, loss_scale)
        self._unscaled = 0

    def __getattribute__(self, name):
        if name == "embedding_scale":
            return object.__getattribute__(self, "_loss_scale")()
        return super(EmbeddingLossScaleOptimizer, self).__getattribute__(name)

    def get_unscaled_gradients(self, grads):
        self._unscaled += 1
        return super(EmbeddingLossScaleOptimizer, self).get_unscaled_gradients(grads)


dense = tf.Variable([1.0, 2.0])
table = tf.Variable([[0.5], [1.5], [2.5]])
optimizer = EmbeddingLossScaleOptimizer(optimizers.SGD(0.1), DynamicLossScale(8192.0, increment_period=4))


@tf.function
def train_step(factor):
    rows = tf.nn.embedding_lookup(table, [0, 2])
    loss = tf.reduce_sum(dense) * factor + tf.reduce_sum(rows)
    loss = optimizer.get_scaled_loss(loss)
    dense_grads, table_grads = tf.gradients(loss, [dense]), tf.gradients(loss, [table])
    dense_grads = optimizer.get_unscaled_gradients(dense_grads)
    table_grads = optimizer.get_unscaled_gradients(table_grads)
    optimizer.apply_gradients(zip(dense_grads, [dense]))
    optimizer.apply_gradients(zip(table_grads, [table]))


for k in (1.0, 2.0, float("inf"), 2.0, 1.0):
    train_step(tf.constant(k))
    values = dense.numpy().tolist() + table.numpy().ravel().tolist()
    line = {"step": k, "scale": float(optimizer.embedding_scale), "iterations": int(optimizer.iterations)}
    print(json.dumps(dict(line, weights=values)))
print(json.dumps({"seen": "unscaled", "value": optimizer._unscaled}))
