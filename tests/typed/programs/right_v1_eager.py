"""`mpls.v1` in eager mode and in `tf.function`, and loss scales by themselves."""

from typing import Any

import numpy as np
import tensorflow as tf

import mpls.v1

weight = tf.Variable(tf.constant(2.0))
scale = mpls.v1.DynamicLossScale(initial_loss_scale=8, increment_period=2, multiplier=2.0)
opt = mpls.v1.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.25), scale)
opt.minimize(lambda: weight**2, var_list=[weight])

pairs = opt.compute_gradients(lambda: weight**2, [weight], opt.GATE_OP)
opt.apply_gradients((grad, variable) for grad, variable in pairs)


@tf.function
def train_step() -> None:
    opt.minimize(lambda: weight**2, var_list=[weight])


train_step()
_, should_apply = scale.update([tf.constant(float("inf"))])
if not should_apply:
    scale.load_state_dict({"dynamic": True, "scale": 8.0, "good_steps": 0})
assert float(scale()) == scale.initial_loss_scale == 8.0
period: int = scale.increment_period
factor: float = scale.multiplier

# NumPy numbers are numbers, and so are strings that spell one.
mpls.v1.DynamicLossScale(np.float32(8), np.int64(2))
mpls.v1.DynamicLossScale("128", increment_period=0)
fixed = mpls.v1.FixedLossScale(np.float32(8))
config: dict[str, Any] = fixed.get_config()
again: mpls.v1.FixedLossScale = mpls.v1.FixedLossScale.from_config(config)
always: bool = fixed.update([])[1]
for number in (128, 128.0, np.float32(128), np.array(128)):
    plain = tf.compat.v1.train.GradientDescentOptimizer(0.25)
    assert mpls.v1.MixedPrecisionLossScaleOptimizer(plain, number).state_dict()["scale"] == 128.0


class Plain(tf.compat.v1.train.GradientDescentOptimizer):
    pass


def wrap(inner: Any, loss_scale: Any) -> mpls.v1.MixedPrecisionLossScaleOptimizer:
    return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, 8)


mpls.v1.register_loss_scale_wrapper(Plain, wrap, mpls.v1.MixedPrecisionLossScaleOptimizer)
