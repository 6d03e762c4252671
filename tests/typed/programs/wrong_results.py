"""Wrong use of what calls return."""

from typing import Any

import tf_keras

import mpls
import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1

opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD())
text: str = opt.initial_scale  # error: assignment | reportAssignmentType
steps: int = opt.dynamic_growth_steps  # error: assignment | reportAssignmentType
pairs: dict[str, Any] = opt.get_unscaled_gradients([])  # error: assignment | reportAssignmentType
config: list[Any] = opt.get_config()  # error: assignment | reportAssignmentType
weights: dict[str, Any] = opt.weights  # error: assignment | reportAssignmentType
loaded: str = opt.load_state_dict({})  # error: assignment, func-returns-value | reportAssignmentType
opt.apply([], []).numpy()  # error: attr-defined | reportAttributeAccessIssue
number: float = opt.get_scaled_loss("loss")  # error: assignment | reportAssignmentType
other: mpls.v1.MixedPrecisionLossScaleOptimizer = opt  # error: assignment | reportAssignmentType

dynamic = mpls.v1.DynamicLossScale()
fixed: mpls.v1.FixedLossScale = dynamic  # error: assignment | reportAssignmentType
op, should_apply, more = dynamic.update([])  # error: misc | reportAssignmentType
policy: str = mpls.keras.global_policy()  # error: assignment | reportAssignmentType
old_policy = mpls.experimental.Policy("float32")
loss_scale: mpls.v1.LossScale = old_policy.loss_scale  # error: assignment | reportAssignmentType
old_policy.loss_scale()  # error: misc | reportOptionalCall

report: str = mpls.convert_state(opt, opt)  # error: assignment | reportAssignmentType
print(mpls.installed().names)  # error: union-attr | reportOptionalMemberAccess
release: int = mpls.install().as_of  # error: assignment | reportAssignmentType
with mpls.uninstall():  # error: attr-defined, func-returns-value | reportGeneralTypeIssues
    pass
with mpls.install() as inside:
    inside.contrib = True  # error: misc | reportAttributeAccessIssue


def initial_scale_of(scale: mpls.v1.LossScale) -> float:
    return float(scale.initial_loss_scale)  # error: attr-defined | reportAttributeAccessIssue


def scale_of(scale: mpls.v1.LossScale | None) -> float:
    return float(scale())  # error: misc | reportOptionalCall


def opt_of(candidate: object) -> mpls.keras.LossScaleOptimizer:
    if isinstance(candidate, mpls.v1.MixedPrecisionLossScaleOptimizer):
        return candidate  # error: return-value | reportReturnType
    raise TypeError
