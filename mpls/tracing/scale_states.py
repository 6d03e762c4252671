"""The loss scale and the count of good steps of wrappers of every release."""

from __future__ import annotations

from typing import Any

from mpls.tracing.step_recorder import APPLIES_ALL, BY_GRADIENTS, BY_STATE

__all__ = ["ScaleState", "numbers_of", "scale_state_of", "scale_state_of_keras_3"]

# What the count is called in TF 1.14 to 2.3 and in mpls, in TF 2.4 to 2.21 and tf_keras, and in tf.contrib.
_COUNTS = ("_num_good_steps", "_counter")
_SCALE = "_current_loss_scale"
_UNKNOWN = -1.0


class ScaleState:
    """Reads scale and count.

    Attributes:
        rule: how it is told whether a step was applied; one of `step_recorder`.
    """

    def __init__(self, rule: str, scale: Any, count: Any = _UNKNOWN) -> None:
        self.rule = rule
        self._scale = scale
        self._count = count

    def read(self) -> list[Any]:
        """Return scale and count, tensors or numbers; a count below 0 where there is none."""
        return [_value(self._scale), _value(self._count)]


def scale_state_of(wrapper: Any) -> ScaleState:
    """Return what reads the state of a wrapper with a `LossScale`, a manager or a number."""
    manager = getattr(wrapper, "_loss_scale_manager", None)
    if manager is None:
        # In mpls, the wrapper of tf.contrib hands its steps to that of TF 1, with the manager as a `LossScale`.
        manager = getattr(wrapper._loss_scale, "_manager", None)
    if manager is not None:
        variable = getattr(manager, "_loss_scale", None)
        scale = manager.get_loss_scale if variable is None else variable
        count = getattr(manager, _COUNTS[0], None)
        return ScaleState(BY_GRADIENTS, scale, _UNKNOWN if count is None else count)
    scale = wrapper._loss_scale
    if isinstance(scale, float):
        return ScaleState(APPLIES_ALL, scale)
    variable = getattr(scale, _SCALE, None)
    count = [getattr(scale, name) for name in _COUNTS if hasattr(scale, name)] if variable is not None else []
    if count:
        return ScaleState(BY_STATE, variable, count[0])
    never_skips = getattr(scale, "_loss_scale_value", None) is not None and not getattr(scale, "skip_nonfinite", False)
    return ScaleState(APPLIES_ALL if never_skips else BY_GRADIENTS, scale)


def scale_state_of_keras_3(wrapper: Any) -> ScaleState:
    """Return what reads the state of Keras 3's own wrapper, once it is built."""
    return ScaleState(BY_STATE, wrapper.dynamic_scale, wrapper.step_counter)


def numbers_of(state: list[Any]) -> list[float]:
    """Return scale and count as numbers, in eager mode."""
    return [float(each.numpy() if hasattr(each, "numpy") else each) for each in state]


def _value(held: Any) -> Any:
    if isinstance(held, float):
        return held
    if hasattr(held, "read_value"):
        return held.read_value()
    if callable(held):
        return held()
    # A variable of Keras 3 holds one of TensorFlow, which has to be read now, not when it is used.
    value = getattr(held, "value", held)
    return value.read_value() if hasattr(value, "read_value") else value
