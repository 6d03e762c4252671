"""What files hold of a fixed scale over a Keras 3 optimizer: the variables of the native wrapper, which is dynamic."""

from __future__ import annotations

from typing import Any

import keras

from mpls.core.loss_scale import is_fixed
from mpls.keras.state_in_files import reads_as_dynamic

_NATIVE = 2


def variables_in_files(wrapper: Any) -> list[Any]:
    """Return the wrapper's own variables, with the two that the native one has: files are read by position."""
    own = list(wrapper._variables)
    if not is_fixed(wrapper._loss_scale) or not reads_as_dynamic(wrapper):
        return own
    with keras.name_scope(wrapper.name):
        counter = keras.Variable(0, dtype="int32", trainable=False, name="step_counter")
        scale = keras.Variable(wrapper.initial_scale, dtype="float32", trainable=False, name="dynamic_scale")
    return [*own, counter, scale]


def without_unknown(wrapper: Any, store: Any) -> Any:
    """Return what a `.keras` file holds for a wrapper, without the two variables that one of a fixed scale has not."""
    own, known = len(wrapper._variables), len(wrapper.variables)
    if not is_fixed(wrapper._loss_scale) or len(store) != known + _NATIVE:
        return store
    kept = [index for index in range(known + _NATIVE) if not own <= index < own + _NATIVE]
    return {str(position): store[str(index)] for position, index in enumerate(kept)}
