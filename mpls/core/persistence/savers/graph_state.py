"""The wrappers that are used in a v1 graph, and the names of their variables, for the savers that users make in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from mpls.upstream import table
from mpls.upstream.tensorflow import key_of_graph

__all__ = ["GraphState", "Step", "graph_state_of", "loss_scale_variables", "note_optimizer"]

_ATTRIBUTE = "_mpls_state"


@dataclass(frozen=True, eq=False)
class Step:
    """The variables of an optimizer that were created when a training step was built.

    Attributes:
        scope: the name scope in which the step was built, with a slash; empty if there is none.
        parts: the last part of each variable's name, by its name in this graph. The names in all files end with it.
        first: the names that TensorFlow's own wrapper gives the variables with control flow v1, by those in this graph.
        second: the same with control flow v2.
        is_second: whether the step was built with control flow v2.
        is_conditional: whether TensorFlow's own wrapper creates the variables inside a conditional.
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
        """The last parts of the variables' names, by the names in this graph."""
        return {own: part for step in self.steps for own, part in step.parts.items()}

    @property
    def first(self) -> dict[str, str]:
        """The names that TensorFlow's own wrapper gives them with control flow v1, by the names in this graph."""
        return {own: name for step in self.steps for own, name in step.first.items()}

    @property
    def second(self) -> dict[str, str]:
        """The same with control flow v2."""
        return {own: name for step in self.steps for own, name in step.second.items()}

    @property
    def native_names(self) -> dict[str, str]:
        """The same with the control flow of each step, without variables that have the same name in this graph."""
        names = {
            own: name for step in self.steps for own, name in (step.second if step.is_second else step.first).items()
        }
        return {own: name for own, name in names.items() if name != own}


def graph_state_of(graph: Any) -> GraphState | None:
    """Return the state of mpls in a graph; None if no wrapper is used in it."""
    return getattr(graph, _ATTRIBUTE, None)


def note_optimizer(optimizer: Any) -> bool:
    """Note that a wrapper is used in the current graph; return False in eager mode, where there is no graph."""
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
    key = key_of_graph(graph)
    # TensorFlow's own class has the attribute too.
    weights = table.SCALE_WEIGHTS.of(loss_scale, {})
    return {name: each for (name, of_graph), each in weights.items() if of_graph == key}
