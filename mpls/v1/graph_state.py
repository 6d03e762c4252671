"""What a graph has of mpls, for the savers that users make in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

__all__ = ["GraphState", "NativeNames", "base_name", "non_slot_variables", "note_optimizer", "state_of"]

_Optimizer: Any = tf.compat.v1.train.Optimizer
_ATTRIBUTE = "_mpls_state"


@dataclass
class GraphState:
    """The wrappers in a graph.

    Attributes:
        optimizers: in the order in which they were made or used there.
        native_names: what TensorFlow's own wrapper would have called variables, by their names.
    """

    optimizers: list[Any] = field(default_factory=list)
    native_names: dict[str, str] = field(default_factory=dict)


def state_of(graph: Any) -> GraphState | None:
    """Return what a graph has of mpls; None if that is nothing."""
    return getattr(graph, _ATTRIBUTE, None)


def note_optimizer(optimizer: Any) -> bool:
    """Note that a wrapper is used in the current graph; return whether there is one, and not eager mode."""
    with tf.init_scope():
        if tf.executing_eagerly():
            return False
        graph = tf.compat.v1.get_default_graph()
    state = state_of(graph)
    if state is None:
        state = GraphState()
        setattr(graph, _ATTRIBUTE, state)
    if not any(each is optimizer for each in state.optimizers):
        state.optimizers.append(optimizer)
    return True


def non_slot_variables(optimizer: Any) -> list[Any]:
    """Return the variables of an optimizer, and of those that it wraps, that belong to no other: Adam's powers."""
    found: list[Any] = []
    while isinstance(optimizer, _Optimizer):
        for variable in optimizer._non_slot_dict.values():
            found.extend(getattr(variable, "values", (variable,)))
        optimizer = getattr(optimizer, "_optimizer", None) or getattr(optimizer, "_opt", None)
    return found


def base_name(name: str) -> str:
    """Return a variable's name without scopes, and without the number that made it unique."""
    return re.sub(r"_\d+$", "", name.rpartition("/")[2])


class NativeNames:
    """Notes what TensorFlow's own wrapper would have called the variables of an optimizer: where a step is built.

    It created Adam's powers inside of its conditional. Savers write them under that name too, so that it reads files.

    Args:
        optimizer: the wrapped optimizer.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        graph = tf.compat.v1.get_default_graph()
        self._state = None if tf.executing_eagerly() or tf.distribute.has_strategy() else state_of(graph)
        self._scope = ""
        if self._state is not None and not tf.compat.v1.control_flow_v2_enabled():
            # The first conditional was that of the loss scale, where mpls has none; names go on counting as there.
            graph.unique_name("cond")
            self._scope = graph.unique_name("cond", mark_as_used=False) + "/"

    def note(self) -> None:
        """Note the names, once the variables are there."""
        if self._state is None:
            return
        names = self._state.native_names
        for variable in non_slot_variables(self._optimizer):
            own = variable.op.name
            if own not in names and variable.graph is tf.compat.v1.get_default_graph():
                names[own] = self._native_name(base_name(own))

    def _native_name(self, kind: str) -> str:
        assert self._state is not None
        taken = set(self._state.native_names.values())
        name, count = self._scope + kind, 0
        while name in taken:
            count += 1
            name = f"{self._scope}{kind}_{count}"
        return name
