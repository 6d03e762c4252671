"""Subclasses that cannot stand in for what they derive from."""

from typing import Any

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1


class Half(mpls.v1.LossScale):
    def __call__(self) -> Any:
        return 0.5

    def update(self, grads: Any) -> bool:  # error: override | reportIncompatibleMethodOverride
        return True


Half()  # error: abstract | reportAbstractUsage


class Named(mpls.v1.DynamicLossScale):
    def get_config(self) -> str:  # error: override | reportIncompatibleMethodOverride
        return str(super().nonsense())  # error: misc | reportAttributeAccessIssue


class Wrapper(mpls.keras.LossScaleOptimizer):
    def get_scaled_loss(self) -> Any:  # error: override | reportIncompatibleMethodOverride
        return super().get_scaled_loss()  # error: call-arg | reportCallIssue

    def apply_gradients(self) -> Any:  # error: override | -
        return super().aply_gradients([])  # error: misc | reportAttributeAccessIssue


class Graph(mpls.v1.MixedPrecisionLossScaleOptimizer):
    def apply_gradients(self, grads_and_vars: Any) -> Any:  # error: override | reportIncompatibleMethodOverride
        return super().apply_gradients(grads_and_vars, step=None)  # error: call-arg | reportCallIssue


class Manager(mpls.contrib.LossScaleManager):
    def get_loss_scale(self) -> float:
        return 8.0


Manager()  # error: abstract | reportAbstractUsage
