"""Agreement between the replicas of a `tf.distribute.Strategy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mpls.core.gradients import all_finite
from mpls.upstream.tensorflow import strategy_needs_no_merge_call


def in_replica_context() -> bool:
    """Return whether the caller runs as one replica of a strategy, inside of a function given to `strategy.run`."""
    return tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()


def merges_in_replica_context() -> bool:
    """Return whether the caller is in a replica context of a strategy that forbids `merge_call`."""
    return in_replica_context() and strategy_needs_no_merge_call()


def call_in_cross_replica_context(fn: Callable[..., Any], *args: Any) -> Any:
    """Call `fn(*args)` once for all replicas, whichever context the caller is in.

    Args:
        fn: called by one replica for all; it gets the replicas' arguments as per-replica values.
        *args: its arguments.

    Returns:
        What `fn` returned, for every replica.
    """
    if not in_replica_context():
        return fn(*args)
    return tf.distribute.get_replica_context().merge_call(lambda _, *merged: fn(*merged), args)


def all_replicas_finite(grads: Any, are_finite: Callable[[Any], Any] = all_finite) -> Any:
    """Return whether the gradients of every replica are finite; for cross-replica context.

    Args:
        grads: nested structure of gradients, per-replica values among them.
        are_finite: returns it for the gradients of one replica.

    Returns:
        Scalar boolean tensor, the same for all replicas. A gradient that is finite on one replica and infinite on
        another makes it false.
    """
    if not tf.distribute.has_strategy():
        return are_finite(grads)
    strategy = tf.distribute.get_strategy()
    # Strategies cannot reduce booleans.
    votes = strategy.extended.call_for_each_replica(_vote, args=(are_finite, tf.nest.flatten(grads)))
    return _is_unanimous(strategy.reduce(tf.distribute.ReduceOp.SUM, votes, axis=None))


def first_replica_finite(grads: Any, are_finite: Callable[[Any], Any] = all_finite) -> Any:
    """Return the result of `all_replicas_finite` if replicas have the same gradients; only the first replica checks."""
    strategy = tf.distribute.get_strategy()
    if len(strategy.extended.worker_devices) < strategy.num_replicas_in_sync:
        # Each machine checks by itself: if two disagreed, each would wait for the other's next all-reduce.
        return all_replicas_finite(grads, are_finite)
    firsts = [strategy.experimental_local_results(grad)[0] for grad in tf.nest.flatten(grads)]
    with tf.device(strategy.extended.worker_devices[0]):
        return are_finite(firsts)


def all_replicas_finite_without_merge(grads: Any, are_finite: Callable[[Any], Any] = all_finite) -> Any:
    """Return the result of `all_replicas_finite`, from a replica context in which `merge_call` is forbidden."""
    context = tf.distribute.get_replica_context()
    return _is_unanimous(context.all_reduce(tf.distribute.ReduceOp.SUM, _vote(are_finite, grads)))


def decide_together(
    grads: Any, decide: Callable[[Any], Any], are_finite: Callable[[Any], Any] = all_finite, *, are_same: bool = False
) -> tuple[Any, ...]:
    """Return `decide(grads_finite)`, called once for all replicas, whichever context the caller is in.

    Args:
        grads: nested structure of gradients; those of the caller's replica, or per-replica values.
        decide: gets a scalar boolean tensor that is the same for all replicas; returns a tuple.
        are_finite: returns whether the gradients of one replica are finite.
        are_same: whether all replicas are known to have the same gradients.
    """
    if merges_in_replica_context():
        return tuple(decide(all_replicas_finite_without_merge(grads, are_finite)))
    if tf.distribute.has_strategy():
        find_finite = first_replica_finite if are_same else all_replicas_finite
        return tuple(call_in_cross_replica_context(lambda merged: decide(find_finite(merged, are_finite)), grads))
    return tuple(decide(are_finite(grads)))


def finite_when_summed(grads: Any) -> Any:
    """Return whether a replica's gradients are finite, and so small that sums over all replicas are finite too.

    No sum is infinite if no element exceeds the largest float divided by the number of replicas.
    """
    return all_finite(grads, tf.distribute.get_strategy().num_replicas_in_sync)


def each_finite(grads: list[Any]) -> Any:
    """Return whether each gradient is finite on all replicas, a boolean tensor; from the contexts of `decide_together`.

    Args:
        grads: the gradients, without None; those of the caller's replica where `merge_call` is forbidden, else
            per-replica values in cross-replica context.
    """
    total = tf.distribute.ReduceOp.SUM
    if merges_in_replica_context():
        return _is_unanimous(tf.distribute.get_replica_context().all_reduce(total, _votes(grads)))
    if not tf.distribute.has_strategy():
        return tf.stack([all_finite(grad) for grad in grads])
    strategy = tf.distribute.get_strategy()
    votes = strategy.extended.call_for_each_replica(_votes, args=(grads,))
    return _is_unanimous(strategy.reduce(total, votes, axis=None))


def _votes(grads: list[Any]) -> Any:
    return tf.stack([_vote(all_finite, grad) for grad in grads])


def _vote(are_finite: Callable[[Any], Any], grads: Any) -> Any:
    return tf.cast(are_finite(grads), tf.float32)


def _is_unanimous(votes: Any) -> Any:
    return tf.equal(votes, float(tf.distribute.get_strategy().num_replicas_in_sync))
