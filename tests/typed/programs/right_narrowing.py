"""What `isinstance` says of wrappers, loss scales and policies."""

from __future__ import annotations

from typing import Any

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
print(scale_of(opt), initial_scale_of(mpls.v1.FixedLossScale(4)), loss_scale_of(mpls.keras.Policy("mixed_float16")))
