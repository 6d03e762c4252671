"""Private parts of tf_keras, except for those of optimizers."""

from __future__ import annotations

from typing import Any

from mpls.upstream import table
from mpls.upstream.kerases import loaded_tf_keras

__all__ = [
    "is_dtensor_strategy_set",
    "keras_graph_session",
    "native_tf_keras_wrapper",
    "track_in_keras_graph",
]


def native_tf_keras_wrapper(*, over_new: bool) -> Any:
    """Return tf_keras' concrete wrapper over legacy or new optimizers; only their base class has a public name.

    tf_keras tests for the base class in `Model.compile`, for the concrete legacy class in its v1 training code, and for
    the other concrete class where it turns new optimizers into legacy ones (Keras 2.9, tf_keras 2.16 to 2.21).
    """
    return (table.WRAPPERS_OVER_NEW if over_new else table.WRAPPERS).needed()


def track_in_keras_graph(variable: Any) -> None:
    """Have the session of tf_keras' v1 graph mode initialize a variable; nothing to do in eager mode."""
    track_variable = table.TRACK_VARIABLE.load()
    if track_variable is not None:
        track_variable(variable)


def keras_graph_session() -> Any:
    """Return the session of tf_keras' v1 graph mode, in which it has initialized what it tracks."""
    get_session = table.GET_SESSION.load()
    return None if get_session is None else get_session()


def is_dtensor_strategy_set() -> bool:
    """Return whether the current strategy is one of DTensor's, which tf_keras supports."""
    if loaded_tf_keras() is None:
        return False
    is_dtensor = table.IS_DTENSOR.load()
    return is_dtensor is not None and bool(is_dtensor())
