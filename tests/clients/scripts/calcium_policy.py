# A generative model of calcium signals: a policy that is asked for its loss scale, of which the private variable goes into
# a summary, and an optimizer whose step counter is set from a checkpoint.
# Written for TF 2.1 to 2.3.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mixed_precision


class Summary(object):
    def __init__(self, policy):
        self._policy = policy

    def scale(self):
        return float(self._policy.loss_scale._current_loss_scale.numpy())


class Optimizer(object):
    def __init__(self, policy, learning_rate):
        self.policy = policy
        self.optimizer = tf.keras.optimizers.Adam(learning_rate, epsilon=1e-7)
        self._mixed_precision = policy.name == "mixed_float16"
        if self._mixed_precision:
            self.optimizer = mixed_precision.LossScaleOptimizer(self.optimizer, loss_scale="dynamic")

    @property
    def iterations(self):
        return self.optimizer.iterations

    @iterations.setter
    def iterations(self, value):
        self.optimizer.iterations = value

    def get_scaled_loss(self, loss):
        return self.optimizer.get_scaled_loss(loss) if self._mixed_precision else loss

    def update(self, grads, variables):
        if self._mixed_precision:
            grads = self.optimizer.get_unscaled_gradients(grads)
        self.optimizer.apply_gradients(zip(grads, variables))


policy = mixed_precision.Policy("mixed_float16")
mixed_precision.set_policy(policy)
print(json.dumps({"seen": "dtypes", "value": [policy.compute_dtype, policy.variable_dtype, policy.name]}))
print(json.dumps({"seen": "the policy's scale", "value": Summary(policy).scale()}))
print(json.dumps({"seen": "the global policy", "value": mixed_precision.global_policy() is policy}))

generator = Optimizer(policy, 0.01)
generator.iterations = tf.Variable(5, dtype=tf.int64, trainable=False, name="iterations")
weights = tf.Variable([1.0, 1.0])


@tf.function
def train(k):
    with tf.GradientTape() as tape:
        loss = generator.get_scaled_loss(tf.reduce_sum(weights) * k)
    generator.update(tape.gradient(loss, [weights]), [weights])


for k in (1.0, float("inf"), 2.0):
    train(tf.constant(k))
    scale = float(generator.get_scaled_loss(tf.constant(1.0)))
    line = {"step": k, "scale": scale, "iterations": int(generator.iterations), "weights": weights.numpy().tolist()}
    print(json.dumps(line))
mixed_precision.set_policy("float32")
print(json.dumps({"seen": "after reset", "value": mixed_precision.global_policy().name}))
