"""The names that TensorFlow's own wrappers would have given the variables of optimizers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import tensorflow as tf

from mpls.core.persistence.savers.graph_state import GraphState, Step, graph_state_of

__all__ = ["StepNames"]


class StepNames:
    """Notes the names of the variables that are created while a step is built; does nothing in eager mode.

    TensorFlow's own wrappers create them inside a conditional if the loss scale is dynamic. With control flow v1, the
    scope of the conditional, `cond` or `cond_N`, is part of their names; with control flow v2, no scope is.

    Args:
        has_conditional: whether TensorFlow's own wrapper would build a conditional, as for a dynamic loss scale.
    """

    def __init__(self, *, has_conditional: bool) -> None:
        graph = tf.compat.v1.get_default_graph()
        self._state = None if tf.executing_eagerly() else graph_state_of(graph)
        self._conditional = ""
        if self._state is None:
            return
        scope = graph.get_name_scope()
        self._scope = f"{scope}/" if scope else ""
        if has_conditional:
            # In TensorFlow, the first conditional is that of the loss scale. mpls has none, so skip its number.
            graph.unique_name("cond")
            self._conditional = graph.unique_name("cond", mark_as_used=False).removeprefix(self._scope) + "/"

    def note(self, parts: Mapping[str, str]) -> None:
        """Note the names, after the variables have been created.

        Args:
            parts: the part of each name after the scopes of the step and the conditional, by the variable's name.
                Variables that existed before the step may be among them.
        """
        state = self._state
        parts = {} if state is None else {own: part for own, part in parts.items() if own not in state.parts}
        if state is None or not parts:
            return
        if self._conditional:
            first = {own: self._scope + self._conditional + part for own, part in parts.items()}
            second = parts
        else:
            first = second = self._names_without_conditional(state, parts)
        others = _other_variables({*state.parts, *parts})
        state.steps.append(
            Step(
                scope=self._scope,
                parts=parts,
                first=_made_unique(first, {*state.first.values(), *others}),
                second=_made_unique(second, {*state.second.values(), *others}),
                is_second=tf.compat.v1.control_flow_v2_enabled(),
                is_conditional=bool(self._conditional),
            )
        )

    def _names_without_conditional(self, state: GraphState, parts: dict[str, str]) -> dict[str, str]:
        head, has_head, _ = next(iter(parts.values())).partition("/")
        alike = [step for step in state.steps if step.scope == self._scope and step.head == head]
        if not any(step.is_conditional for step in alike):
            return {own: own for own in parts}
        # Earlier steps without a conditional have taken these names.
        number = sum(not step.is_conditional for step in alike)
        if has_head and number:
            parts = {own: f"{head}_{number}/{part.partition('/')[2]}" for own, part in parts.items()}
        return {own: self._scope + part for own, part in parts.items()}


def _other_variables(own: Collection[str]) -> set[str]:
    """Return the names of a graph's variables that belong to no optimizer of mpls."""
    with tf.init_scope():
        variables = tf.compat.v1.global_variables()
    return {each.op.name for each in variables} - set(own)


def _made_unique(names: Mapping[str, str], taken: Collection[str]) -> dict[str, str]:
    """Return the names, each with the number that a graph adds if the name is taken."""
    taken = set(taken)
    unique = {}
    for own, wanted in names.items():
        name, count = wanted, 0
        while name in taken:
            count += 1
            name = f"{wanted}_{count}"
        taken.add(name)
        unique[own] = name
    return unique
