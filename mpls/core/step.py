"""The scaled step that all optimizers share: check, agree over replicas, update the scale, apply or skip."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import tensorflow as tf

from mpls.core.loss_scale import DynamicLossScale, LossScale
from mpls.core.replicas import merges_in_replica_context

GradsAndVars = Iterable[tuple[Any, Any]]


class StepHooks(Protocol):
    """What an optimizer family adds to the step that they all share."""

    @property
    def sums_gradients(self) -> bool:
        """Whether `apply` sums the gradients over replicas; if not, that has been done."""

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        """Apply finite gradients; called in a replica context, returns an op or None."""

    def skip(self) -> Any:
        """Advance what a skipped step advances; called once for all replicas, returns an op or None."""


class _Sealed:
    """Hides variables from a strategy, which would hand each replica its own copy of a mirrored variable.

    Optimizers expect the mirrored variables themselves, in a replica context too.
    """

    __slots__ = ("variables",)

    def __init__(self, variables: list[Any]) -> None:
        self.variables = variables


def scaled_step(grads_and_vars: GradsAndVars, loss_scale: LossScale, hooks: StepHooks) -> Any:
    """Update the loss scale, then apply the gradients or skip the step.

    The loss scale decides: `loss_scale.update(gradients)` sees the gradients of all replicas and says whether to
    apply. If it says so with a tensor, one conditional does one or the other on all replicas; if with a Python bool,
    there is none. Nothing else in the package branches on gradients.

    Args:
        grads_and_vars: pairs of unscaled gradient, None included, and variable. In a replica context, those of the
            replica, aggregated or not.
        loss_scale: the state and the rule.
        hooks: how to apply and what to do on a skipped step.

    Returns:
        In a graph, an op that does all of it; in eager mode None.
    """
    pairs = list(grads_and_vars)
    grads = [grad for grad, _ in pairs]
    sealed = _Sealed([variable for _, variable in pairs])
    if merges_in_replica_context() or not tf.distribute.has_strategy():
        return _update_and_apply(grads, sealed, loss_scale, hooks, _call)

    def step(strategy: Any, merged_grads: list[Any], merged_variables: Any) -> Any:
        # The conditional stands in cross-replica context: a branch inside a replica could not call merge_call,
        # as optimizers do.
        call_for_each_replica = strategy.extended.call_for_each_replica
        return _update_and_apply(merged_grads, merged_variables, loss_scale, hooks, call_for_each_replica)

    return tf.distribute.get_replica_context().merge_call(step, args=(grads, sealed))


def _update_and_apply(
    grads: list[Any],
    sealed: _Sealed,
    loss_scale: LossScale,
    hooks: StepHooks,
    call_for_each_replica: Callable[..., Any],
) -> Any:
    update_op, should_apply = _update(loss_scale, grads, hooks)

    def apply_in_replica(replica_grads: list[Any], variables: _Sealed) -> Any:
        return hooks.apply(list(zip(replica_grads, variables.variables, strict=True)))

    def apply() -> Any:
        return call_for_each_replica(apply_in_replica, args=(grads, sealed))

    return group(_choose(should_apply, apply, hooks.skip), update_op)


def _update(loss_scale: Any, grads: list[Any], hooks: StepHooks) -> Any:
    # Subclasses of users say themselves what an update is.
    if hooks.sums_gradients and type(loss_scale).update is DynamicLossScale.update:
        return loss_scale._update_before_sum(grads)
    return loss_scale.update(grads)


def _call(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return fn(*args)


def _choose(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    known = condition if isinstance(condition, bool) else tf.get_static_value(condition)
    if known is not None:
        return if_true() if known else if_false()
    return tf.cond(condition, lambda: group(if_true()), lambda: group(if_false()))


def group(*results: Any, name: str | None = None) -> Any:
    """Return one op that runs all results, per-replica ones among them; None in eager mode.

    Args:
        *results: ops, tensors, per-replica values of either, and None, which is ignored.
        name: name of the op.
    """
    if tf.executing_eagerly():
        return None
    ops: list[Any] = []
    for result in results:
        ops.extend(op for op in tf.distribute.get_strategy().experimental_local_results(result) if op is not None)
    return tf.group(*ops, name=name)
