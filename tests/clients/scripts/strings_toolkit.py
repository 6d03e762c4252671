# A toolkit that looks names up by strings, newest spelling first, so that it runs on several releases; and that has a
# subclass of the scaling optimizer, whose loss_scale() it calls, and which it makes only if the policy is mixed.
# Written for TF 2.1 to 2.3.
import json

import tensorflow as tf


def tf_any(*symbols):
    for symbol in symbols:
        found = tf
        for part in symbol.split("."):
            found = getattr(found, part, None)
            if found is None:
                break
        if found is not None:
            return found
    return None


def tf_supports(symbol):
    return tf_any(symbol) is not None


def enable_mixed_precision():
    set_policy = tf_any("keras.mixed_precision.experimental.set_policy", "keras.mixed_precision.set_global_policy")
    set_policy("mixed_float16")


LossScaleOptimizer = tf_any(
    "keras.mixed_precision.experimental.LossScaleOptimizer",
    "contrib.mixed_precision.LossScaleOptimizer",
)


class _LossScaleOptimizer(LossScaleOptimizer):
    def get_scale(self):
        return self.loss_scale()

    def _decayed_lr(self, var_dtype):
        return self._optimizer._decayed_lr(var_dtype)

    def apply_gradients(self, grads_and_vars, name=None, **kwargs):
        self.applied = getattr(self, "applied", 0) + 1
        return super(_LossScaleOptimizer, self).apply_gradients(list(grads_and_vars), name=name, **kwargs)


def make_optimizer():
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True)
    policy = tf_any("keras.mixed_precision.experimental.global_policy")()
    if policy.name == "mixed_float16":
        optimizer = _LossScaleOptimizer(optimizer, loss_scale="dynamic")
    return optimizer


enable_mixed_precision()
print(json.dumps({"seen": "contrib", "value": tf_supports("contrib.mixed_precision.LossScaleOptimizer")}))
optimizer = make_optimizer()
kernel, bias = tf.Variable([[1.0], [2.0]]), tf.Variable([0.5])
for k in (1.0, float("inf"), 2.0, 3.0):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.matmul([[1.0, 0.5]], kernel) + bias) * k
        scaled = optimizer.get_scaled_loss(loss)
    grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, [kernel, bias]))
    optimizer.apply_gradients(zip(grads, [kernel, bias]))
    weights = kernel.numpy().ravel().tolist() + bias.numpy().tolist()
    line = {"step": k, "scale": float(optimizer.get_scale()), "iterations": int(optimizer.iterations)}
    print(json.dumps(dict(line, weights=weights)))
rates = [float(optimizer.learning_rate.numpy()), float(optimizer.lr.numpy())]
print(json.dumps({"seen": "rates", "value": rates}))
print(json.dumps({"seen": "applied", "value": optimizer.applied}))
