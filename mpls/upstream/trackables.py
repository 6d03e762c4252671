"""TensorFlow's trackable objects, which object-based checkpoints hold, and their children."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.upstream import table
from mpls.upstream.private import look_up

__all__ = [
    "Trackable",
    "awaited_parts_of",
    "part_of",
    "parts_of",
    "restore_awaited",
    "show_in_place_of",
    "track",
    "track_list",
]


def _internal(name: str) -> Any:
    return look_up(look_up(tf, "__internal__"), name)


# The base class of all trackable objects.
Trackable: Any = table.TRACKABLE.of(_internal("tracking")) or tf.Module.__mro__[-2]


def track_list(owner: Any, name: str, values: list[Any]) -> None:
    """Set a tracked list attribute, bypassing the `__setattr__` of the owner's class."""
    wrap = table.WRAP.of(_internal("tracking"))
    owner.__dict__[name] = values if wrap is None else wrap(values)
    if wrap is not None:
        track(owner, owner.__dict__[name], name, overwrite=True)


def track(owner: Any, part: Any, name: str, *, overwrite: bool = False) -> None:
    """Track an object as a child of another, under a name."""
    add = table.TRACK.of(owner)
    if add is not None:
        add(part, name, overwrite=overwrite)


def parts_of(owner: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the trackable children of an object by name; arguments are TensorFlow's."""
    children = table.CHILDREN.of(owner)
    return {} if children is None else children(*args, **kwargs)


def part_of(owner: Any, name: str) -> Any:
    """Return the trackable child of an object under a name; None if there is none."""
    look_for = table.LOOKUP.of(owner)
    return None if look_for is None else look_for(name)


def awaited_parts_of(owner: Any) -> Any:
    """Return the deferred dependencies of an object: the checkpoint positions of future children, by name."""
    return table.DEFERRED.of(owner, {})


def restore_awaited(owner: Any, name: str, part: Any) -> None:
    """Restore a new child of an object from a checkpoint that was restored before the child existed."""
    restore = table.HANDLE_DEFERRED.of(owner)
    if restore is not None:
        restore(name=name, trackable=part)


def show_in_place_of(owner: Any, part: Any) -> None:
    """Have object-based checkpoints see the wrapped optimizer instead of the wrapper, as tf_keras' own wrappers do."""
    # The attribute is that of DelegatingTrackableMixin, their base class (TensorFlow 2.4 to 2.21), whose own `__init__`
    # would track it.
    vars(owner)["_trackable"] = part
