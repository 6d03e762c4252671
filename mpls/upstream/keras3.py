"""Private parts of Keras 3."""

from __future__ import annotations

from typing import Any

from mpls.upstream import table
from mpls.upstream.kerases import loaded_keras

__all__ = [
    "serialize_as_keras_policy",
    "unknown_variables",
]


def serialize_as_keras_policy(cls: type) -> None:
    """Have files of Keras 3 name its own policy instead of a class of ours, so that it loads them without mpls.

    Layers need only the name of a policy that is loaded (Keras 3.6 to 3.15). tf_keras goes by the name of the class.
    """
    if loaded_keras() is not None:
        table.KERAS_NAMES.load({})[cls] = "keras.DTypePolicy"


def unknown_variables(optimizer: Any, variables: list[Any]) -> list[Any]:
    """Return the variables that a Keras 3 optimizer was not built with; it refuses them when it applies gradients.

    Its own check tells by a ValueError, whose text cannot be made inside of a function before Keras 3.13.
    """
    key_of, indices = table.KERAS_3_KEY.of(optimizer), table.INDICES.of(optimizer)
    if None in (key_of, indices):
        return []
    return [each for each in variables if key_of(each) not in indices]
