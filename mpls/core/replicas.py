"""Agreement between the replicas of a `tf.distribute.Strategy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mpls.core.gradients import all_finite, finite_at_once
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


def _agree(vote: Callable[[Any], Any], grads: Any) -> Any:
    """Return whether all replicas vote 1, the same for all of them.

    Args:
        vote: returns the votes of one replica, a float32 tensor of ones and zeros: strategies cannot reduce booleans.
        grads: its argument; the caller's own where `merge_call` is forbidden, else per-replica values in cross-replica
            context.

    Returns:
        Boolean tensor of the shape of the votes.
    """
    strategy = tf.distribute.get_strategy()
    if merges_in_replica_context():
        total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, vote(grads))
    else:
        votes = strategy.extended.call_for_each_replica(vote, args=(grads,))
        total = strategy.reduce(tf.distribute.ReduceOp.SUM, votes, axis=None)
    return tf.equal(total, float(strategy.num_replicas_in_sync))


def _first_replica_finite(grads: list[Any], are_finite: Callable[[Any], Any]) -> Any:
    """Return whether the gradients are finite, where replicas have the same; only the first replica checks."""
    strategy = tf.distribute.get_strategy()
    firsts = [strategy.experimental_local_results(grad)[0] for grad in grads]
    with tf.device(strategy.extended.worker_devices[0]):
        return are_finite(firsts)


def decide_together(
    grads: Any, decide: Callable[[Any], Any], are_finite: Callable[[Any], Any] = all_finite, *, are_same: bool = False
) -> tuple[Any, ...]:
    """Return `decide(grads_finite)`, called once for all replicas, whichever context the caller is in.

    Args:
        grads: nested structure of gradients; those of the caller's replica, or per-replica values.
        decide: gets a scalar boolean tensor that is the same for all replicas; returns a tuple. A gradient that is
            finite on one replica and infinite on another makes it false.
        are_finite: returns whether the gradients of one replica are finite.
        are_same: whether all replicas are known to have the same gradients.
    """
    if not tf.distribute.has_strategy():
        return tuple(decide(are_finite(grads)))

    def vote(given: Any) -> Any:
        return tf.cast(are_finite(given), tf.float32)

    def decide_for_all(merged: Any) -> Any:
        flat, strategy = tf.nest.flatten(merged), tf.distribute.get_strategy()
        # Otherwise each machine would check by itself: if two disagreed, each would wait for the other's next
        # all-reduce.
        is_one_machine = len(strategy.extended.worker_devices) == strategy.num_replicas_in_sync
        return decide(_first_replica_finite(flat, are_finite) if are_same and is_one_machine else _agree(vote, flat))

    if merges_in_replica_context():
        return tuple(decide(_agree(vote, grads)))
    return tuple(call_in_cross_replica_context(decide_for_all, grads))


def finite_when_summed(grads: Any) -> Any:
    """Return whether a replica's gradients are finite, and so small that sums over all replicas are finite too.

    No sum is infinite if no element exceeds the largest float divided by the number of replicas.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    return finite_at_once(grads) if replicas == 1 else all_finite(grads, replicas)


def each_finite(grads: list[Any]) -> Any:
    """Return whether each gradient is finite on all replicas, a boolean tensor; from the contexts of `decide_together`.

    Args:
        grads: the gradients, without None; those of the caller's replica where `merge_call` is forbidden, else
            per-replica values in cross-replica context.
    """

    def each(given: list[Any]) -> Any:
        return tf.stack([all_finite(grad) for grad in given])

    if not tf.distribute.has_strategy():
        return each(grads)
    return _agree(lambda given: tf.cast(each(given), tf.float32), grads)
