"""What a graph has of mpls, for the savers that users make in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

__all__ = ["GraphState", "Step", "graph_state_of", "loss_scale_variables", "note_optimizer"]

_ATTRIBUTE = "_mpls_state"


@dataclass(frozen=True, eq=False)
class Step:
    """The optimizer's variables that were made with a step.

    Attributes:
        scope: the name scope in which it was built, with a slash, or nothing.
        parts: what all names of a variable end with, by the name that it has here.
        first: what TensorFlow's own wrapper calls it with the first control flow, by the name that it has here.
        second: the same with the second.
        is_second: whether the step was built with the second.
        is_conditional: whether TensorFlow's own wrapper makes them inside of a conditional.
    """

    scope: str
    parts: dict[str, str]
    first: dict[str, str]
    second: dict[str, str]
    is_second: bool
    is_conditional: bool

    @property
    def head(self) -> str:
        """The scope of the optimizer itself, or the name of the first variable."""
        return next(iter(self.parts.values())).partition("/")[0]


@dataclass
class GraphState:
    """The wrappers in a graph.

    Attributes:
        optimizers: in the order in which they were made or used there.
        steps: in the order in which they were built.
    """

    optimizers: list[Any] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def parts(self) -> dict[str, str]:
        """What all names of the optimizers' variables end with, by the names that they have here."""
        return {own: part for step in self.steps for own, part in step.parts.items()}

    @property
    def first(self) -> dict[str, str]:
        """What TensorFlow's own wrapper calls them with the first control flow, by the names that they have here."""
        return {own: name for step in self.steps for own, name in step.first.items()}

    @property
    def second(self) -> dict[str, str]:
        """The same with the second control flow."""
        return {own: name for step in self.steps for own, name in step.second.items()}

    @property
    def native_names(self) -> dict[str, str]:
        """The same with the control flow of the steps, without those that have the same name here."""
        names = {
            own: name for step in self.steps for own, name in (step.second if step.is_second else step.first).items()
        }
        return {own: name for own, name in names.items() if name != own}


def graph_state_of(graph: Any) -> GraphState | None:
    """Return what a graph has of mpls; None if that is nothing."""
    return getattr(graph, _ATTRIBUTE, None)


def note_optimizer(optimizer: Any) -> bool:
    """Note that a wrapper is used in the current graph; return whether there is one, and not eager mode."""
    with tf.init_scope():
        if tf.executing_eagerly():
            return False
        graph = tf.compat.v1.get_default_graph()
    state = graph_state_of(graph)
    if state is None:
        state = GraphState()
        setattr(graph, _ATTRIBUTE, state)
    if not any(each is optimizer for each in state.optimizers):
        state.optimizers.append(optimizer)
    return True


def loss_scale_variables(loss_scale: Any, graph: Any) -> dict[str, Any]:
    """Return the variables that a dynamic loss scale has in a graph, by their names in object-based checkpoints."""
    found: dict[str, Any] = loss_scale._weights_in(graph)
    return found
