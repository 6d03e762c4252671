# A translation toolkit that lives on private modules: a dynamic loss scale revised with _assign_if_finite and
# _op_in_graph_mode, a scaling optimizer revised for all-reduce, which builds a class of the same name and calls from_config.
# Written for TF 2.1 to 2.3.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer, Policy, global_policy
from tensorflow.python.keras.mixed_precision.experimental import loss_scale_optimizer, policy
from tensorflow.python.keras.mixed_precision.experimental.loss_scale_optimizer import LossScaleOptimizer as Base
from tensorflow.python.training.experimental.loss_scale import (
    DynamicLossScale,
    _assign_if_finite,
    _op_in_graph_mode,
    get_loss_scale_weights,
)

try:
    from tensorflow.python.keras.mixed_precision.experimental import device_compatibility_check

    # As an all-reduce library does, which must not touch the devices yet.
    device_compatibility_check.log_device_compatibility_check = lambda *args, **kwargs: None
except ImportError:
    device_compatibility_check = None

assert loss_scale_optimizer.LossScaleOptimizer is LossScaleOptimizer is Base


class RevisedDynamicLossScale(DynamicLossScale):
    """Counts all gradients of a step in one number, and never goes below 4."""

    def update(self, grads):
        is_finite = tf.math.is_finite(tf.linalg.global_norm(tf.nest.flatten(grads)))

        def update_if_finite():
            def grow():
                new_scale = self._current_loss_scale * self._multiplier
                return tf.group(
                    _assign_if_finite(self._current_loss_scale, new_scale), self._num_good_steps.assign(0)
                )

            should_grow = self._num_good_steps + 1 >= self._increment_period
            return tf.cond(should_grow, grow, lambda: _op_in_graph_mode(self._num_good_steps.assign_add(1)))

        def update_if_not_finite():
            new_scale = tf.maximum(self._current_loss_scale / self._multiplier, 4.0)
            return tf.group(self._num_good_steps.assign(0), self._current_loss_scale.assign(new_scale))

        return tf.cond(is_finite, update_if_finite, update_if_not_finite), is_finite


class HorovodDistributedLossScaleOptimizer(LossScaleOptimizer):
    def __init__(self, optimizer, loss_scale, reduce_fn):
        super(HorovodDistributedLossScaleOptimizer, self).__init__(optimizer, loss_scale)
        self._reduce_fn = reduce_fn

    def get_unscaled_gradients(self, grads):
        return super(HorovodDistributedLossScaleOptimizer, self).get_unscaled_gradients(self._reduce_fn(grads))


def distributed(optimizer):
    """As the all-reduce library does: a class of the same name, made from the config."""
    base = optimizer.__class__

    def apply_gradients(self, *args, **kwargs):
        return base.apply_gradients(self, *args, **kwargs)

    created = type(base.__name__, (base,), {"apply_gradients": apply_gradients})
    return created.from_config(optimizer.get_config())


def steps(run, optimizer, variable, factors):
    @tf.function
    def train_step(factor):
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(tf.reduce_sum(variable) * factor)
        grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [variable]))
        optimizer.apply_gradients(zip(grads, [variable]))

    for k in factors:
        train_step(tf.constant(k))
        line = {"step": k, "scale": float(optimizer._loss_scale()), "iterations": int(optimizer.iterations)}
        line.update(weights=variable.numpy().tolist(), run=run, good_steps=int(optimizer.loss_scale._num_good_steps))
        print(json.dumps(line))


policy.set_policy(Policy("mixed_float16"))
print(json.dumps({"seen": "global policy", "value": global_policy().name}))
inf = float("inf")
scale = RevisedDynamicLossScale(8.0, increment_period=2)
optimizer = HorovodDistributedLossScaleOptimizer(
    tf.keras.optimizers.SGD(0.1), scale, reduce_fn=lambda grads: [grad * 1.0 for grad in grads]
)
print(json.dumps({"seen": "same object", "value": optimizer.loss_scale is scale}))
steps("revised", optimizer, tf.Variable([1.0, 2.0]), (1.0, inf, inf, 2.0, 1.0, 1.0))
print(json.dumps({"seen": "number of weights", "value": len(get_loss_scale_weights(scale))}))

optimizer = distributed(Base(tf.keras.optimizers.SGD(0.25), DynamicLossScale(1024.0, increment_period=3)))
print(json.dumps({"seen": "rebuilt", "value": [type(optimizer).__name__, optimizer._loss_scale._increment_period]}))
steps("rebuilt", optimizer, tf.Variable([1.0, 2.0]), (1.0, inf, 2.0))

# A loss scale that is put in later on, and tracked in place of the first.
replaced = DynamicLossScale(64.0, increment_period=1)
optimizer = LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), "dynamic")
optimizer._loss_scale = replaced
optimizer._track_trackable(replaced, "loss_scale", overwrite=True)
steps("replaced", optimizer, tf.Variable([1.0]), (1.0, inf))
private = optimizer.loss_scale._current_loss_scale
print(json.dumps({"seen": "replaced", "value": [float(replaced().numpy()), float(private.numpy())]}))
