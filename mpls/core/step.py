"""The scaled step that all optimizers share: check, agree over replicas, update the scale, apply or skip."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import tensorflow as tf

from mpls.core import fast
from mpls.core.counters import Known, StepRecord
from mpls.core.fast import Stacks, group, one_of
from mpls.core.gradients import values_of, with_values
from mpls.core.loss_scale import (
    LossScale,
    decide_step,
    floor_of,
    never_skips,
    note_applied,
    read,
    tell_of_skips,
    variables_of,
)
from mpls.core.replicas import merges_in_replica_context
from mpls.upstream.tensorflow import captured, hidden_from_xla

GradsAndVars = Iterable[tuple[Any, Any]]


class StepHooks(Protocol):
    """What an optimizer family adds to the step that they all share."""

    @property
    def sums_gradients(self) -> bool:
        """Whether `apply` sums the gradients over replicas; if not, they are summed already, or not at all."""

    @property
    def are_same(self) -> bool:
        """Whether it is known that all replicas have the same gradients."""

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        """Apply finite gradients; called in a replica context, returns an op or None."""

    def skip(self) -> Any:
        """Advance the step counter, if skipped steps count; called once for all replicas, returns an op or None."""


class _Sealed:
    """Hides variables from a strategy, which would replace mirrored variables by the component of each replica.

    Optimizers expect the mirrored variables themselves, in a replica context too.
    """

    __slots__ = ("variables",)

    def __init__(self, variables: list[Any]) -> None:
        self.variables = variables


def scaled_step(
    grads_and_vars: GradsAndVars,
    loss_scale: LossScale,
    hooks: StepHooks,
    record: StepRecord | None = None,
    as_given: list[tuple[Any, Any]] | None = None,
) -> Any:
    """Update the loss scale, then apply the gradients or skip the step.

    The loss scale decides: it sees the gradients of all replicas and says whether to apply. If it says so with a
    tensor, one conditional applies or skips on all replicas; with a Python bool there is no conditional. On TensorFlow
    no other conditional of the package applies or skips a step; Keras 3 on JAX, where a step returns new values, has
    its own in `mpls.keras.keras3`. A scale that never skips is
    not asked: the step is always applied.

    Args:
        grads_and_vars: pairs of unscaled gradient, None included, and variable. In a replica context, those of the
            replica, aggregated or not.
        loss_scale: the state and the rule.
        hooks: how to apply and what to do on a skipped step.
        record: what counts the steps; None to count none.
        as_given: the pairs before any sum over replicas, if these are others.

    Returns:
        In a graph, an op that does all of it; in eager mode None.
    """
    pairs = list(grads_and_vars)
    if never_skips(loss_scale):
        return group(hooks.apply(pairs), None if record is None else record.applied_by_all())
    with_gradient = [variable for grad, variable in pairs if grad is not None]
    names = [] if record is None else record.created_for_step(with_gradient)
    grads = [grad for grad, _ in pairs]
    sealed = _Sealed([variable for _, variable in pairs])
    # What is known of the step is passed through `merge_call` with the gradients.
    known: Known = ([], [], [])
    if record is not None:
        given = [grad for grad in grads if grad is not None]
        unsummed = given if as_given is None else [grad for grad, _ in as_given]
        known = record.known_of(names, given, unsummed, with_gradient)
    if merges_in_replica_context() or not tf.distribute.has_strategy():
        return _update_and_apply(grads, sealed, known, loss_scale, hooks, record, names, _call)

    def step(strategy: Any, merged_grads: list[Any], merged_variables: Any, merged_known: Known) -> Any:
        # The conditional is in cross-replica context: inside a replica, its branches could not call merge_call, as
        # optimizers do.
        call_for_each_replica = strategy.extended.call_for_each_replica
        return _update_and_apply(
            merged_grads, merged_variables, merged_known, loss_scale, hooks, record, names, call_for_each_replica
        )

    return tf.distribute.get_replica_context().merge_call(step, args=(grads, sealed, known))


def _update_and_apply(
    grads: list[Any],
    sealed: _Sealed,
    known: Known,
    loss_scale: Any,
    hooks: StepHooks,
    record: StepRecord | None,
    names: list[str],
    call_for_each_replica: Callable[..., Any],
) -> Any:
    def apply_in_replica(replica_grads: list[Any], variables: _Sealed) -> Any:
        return hooks.apply(list(zip(replica_grads, variables.variables, strict=True)))

    def apply(given: list[Any]) -> Any:
        return call_for_each_replica(apply_in_replica, args=(given, sealed))

    flags = known[-1]
    # The flags belong to each replica's own gradients, before any sum over replicas.
    are_same = hooks.are_same and not flags
    wants_scale = record is not None and record.gives_up
    scale = read(loss_scale) if wants_scale else None
    # `update` of TensorFlow's and users' own classes changes the scale at once, not in a branch.
    with tf.control_dependencies([scale] if tf.is_symbolic_tensor(scale) else []):
        decision = decide_step(loss_scale, [*grads, *flags], when_summed=hooks.sums_gradients, are_same=are_same)
    unpack = _pack(grads)

    def note_skip() -> Any:
        # Read the scale of the step before it changes: TensorFlow inlines branches, which then do not wait for inputs.
        with tf.control_dependencies([tf.identity(scale)] if tf.is_symbolic_tensor(scale) else []):
            advanced = decision.advance(False)
        floor = floor_of(loss_scale) if wants_scale else None
        return group(advanced, record and record.skipped(names, unpack, known, scale, floor))

    def skip() -> Any:
        own_variables = [*variables_of(loss_scale), *([] if record is None else record.variables())]
        done = group(fast.apart_in_session(note_skip, own_variables), hooks.skip())
        # With `max_consecutive_skips`, the user is told in another way.
        if tf.executing_eagerly() and not wants_scale:
            tell_of_skips(loss_scale)
        return done

    def take() -> Any:
        note_applied(loss_scale)
        return group(decision.advance(True), apply(unpack()), record and record.applied())

    done = one_of(decision.should_apply, take, skip)
    return done if decision.update_op is None else group(done, decision.update_op)


def _pack(grads: list[Any]) -> Callable[[], list[Any]]:
    """Return a function that returns the gradients; in a branch of a graph, it unstacks the small ones.

    A stack is captured by the branch as one tensor. All gradients that come out belong to the branch's graph, as
    strategies require of tensors that they sum.

    Args:
        grads: the gradients, None among them.
    """
    if tf.executing_eagerly() or tf.distribute.has_strategy():
        return lambda: grads
    given = [grad for grad in grads if grad is not None]
    stacks = Stacks([values_of(grad) for grad in given])
    # XLA reads sizes through the values of a sparse gradient, and cannot read through a barrier. It makes no stacks.
    dense = [place for place, grad in enumerate(given) if not isinstance(grad, tf.IndexedSlices)]

    def unpack() -> list[Any]:
        tensors = captured(stacks.tensors)
        if dense and fast.uses_plain_ways():
            # It would turn a branch of elementwise ops into a select between old variables, which it copies, and new.
            tensors[dense[0]] = hidden_from_xla(tensors[dense[0]])
        unstacked = iter(stacks.unstacked(tensors))
        return [None if grad is None else with_values(grad, next(unstacked)) for grad in grads]

    return unpack


def _call(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return fn(*args)
