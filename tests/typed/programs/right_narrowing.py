"""What `isinstance` says of wrappers, loss scales and policies."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

import mpls.experimental
import mpls.keras
import mpls.v1


def scale_of(opt: object) -> float:
    if isinstance(opt, mpls.keras.LossScaleOptimizer):
        return float(opt.loss_scale)
    if isinstance(opt, mpls.v1.MixedPrecisionLossScaleOptimizer):
        return float(opt.state_dict()["scale"])
    if isinstance(opt, mpls.v1.LossScale):
        return float(opt())
    return 1.0


def initial_scale_of(loss_scale: mpls.v1.LossScale | None) -> float:
    if loss_scale is None:
        return 1.0
    if isinstance(loss_scale, mpls.v1.DynamicLossScale):
        return loss_scale.initial_loss_scale
    return float(loss_scale())


def wrapped(inner: Any, opt: mpls.keras.LossScaleOptimizer | None) -> mpls.keras.LossScaleOptimizer:
    if isinstance(opt, mpls.keras.LossScaleOptimizer):
        return opt
    return mpls.keras.LossScaleOptimizer(inner)


def loss_scale_of(policy: mpls.keras.Policy) -> mpls.v1.LossScale | None:
    return policy.loss_scale if isinstance(policy, mpls.experimental.Policy) else None


opt = wrapped(tf_keras.optimizers.SGD(), None)
assert scale_of(opt) == scale_of(wrapped(None, opt)) == 32768.0
graph = mpls.v1.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.25), 8)
assert scale_of(graph) == 8.0
assert scale_of(tf_keras.optimizers.SGD()) == 1.0
assert scale_of(mpls.v1.FixedLossScale(4)) == initial_scale_of(mpls.v1.FixedLossScale(4)) == 4.0
assert initial_scale_of(mpls.v1.DynamicLossScale(2)) == 2.0
assert loss_scale_of(mpls.keras.Policy("mixed_float16")) is None
assert initial_scale_of(loss_scale_of(mpls.experimental.Policy("mixed_float16"))) == 32768.0
