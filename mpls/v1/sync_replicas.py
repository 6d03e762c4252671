"""What loss scaling has to know of `tf.compat.v1.train.SyncReplicasOptimizer`.

It collects the gradients of all workers in accumulators, and the chief applies their mean. Two things follow. Around
it, a loss scale must decide on the mean, on the chief, not on what one worker found: a worker that kept its gradient
back would leave the others waiting for ever. And where the step is skipped, `global_step` stays while the accumulators
have counted on, and would refuse every later gradient as stale; they have to be set back.
"""

from __future__ import annotations

import copy
from typing import Any

import tensorflow as tf

from mpls.upstream.optimizers import set_inner

_SyncReplicas: Any = tf.compat.v1.train.SyncReplicasOptimizer

_TAKE_OPS = {
    "AccumulatorTakeGradient": tf.raw_ops.AccumulatorSetGlobalStep,
    "ResourceAccumulatorTakeGradient": tf.raw_ops.ResourceAccumulatorSetGlobalStep,
    # The op for dense accumulators also sets the step of sparse ones.
    "SparseAccumulatorTakeGradient": tf.raw_ops.AccumulatorSetGlobalStep,
}


def is_sync_replicas(optimizer: Any) -> bool:
    """Return whether the optimizer collects gradients from workers before it applies them."""
    return isinstance(optimizer, _SyncReplicas)


def apply_through_sync_replicas(
    sync: Any, decide_on_mean: Any, grads_and_vars: Any, global_step: Any, name: str | None
) -> Any:
    """Let a `SyncReplicasOptimizer` collect the gradients, and another optimizer apply their mean.

    Args:
        sync: the user's `SyncReplicasOptimizer`.
        decide_on_mean: what applies the mean in place of the optimizer that `sync` wraps.
        grads_and_vars: this worker's pairs.
        global_step: as `SyncReplicasOptimizer.apply_gradients` takes it.
        name: as `SyncReplicasOptimizer.apply_gradients` takes it.

    Returns:
        What `SyncReplicasOptimizer.apply_gradients` returns. Its hook, its queue runner and its initialization ops are
        in `sync`, where they always are.
    """
    collector = copy.copy(sync)
    kept = set_inner(collector, decide_on_mean)
    train_op = collector.apply_gradients(list(grads_and_vars), global_step, name)
    vars(sync).update({key: value for key, value in vars(collector).items() if key != kept})
    return train_op


def restore_accumulator_steps(grads_and_vars: Any, global_step: Any, after: Any) -> Any:
    """Return an op that sets the accumulators that gradients were taken from to `global_step`.

    Args:
        grads_and_vars: pairs of gradient and variable.
        global_step: the variable that an applied step has incremented.
        after: the op that has applied or skipped the step.

    Returns:
        The op; None where no gradient comes out of an accumulator.
    """
    if tf.executing_eagerly() or global_step is None:
        return None
    origins = [_origin(grad) for grad, _ in grads_and_vars]
    takes = [op for op in origins if op is not None and op.type in _TAKE_OPS]
    if not takes:
        return None
    with tf.control_dependencies([after]):
        step = tf.cast(tf.identity(tf.compat.v1.convert_to_tensor(global_step)), tf.int64)
        return tf.group(*[_TAKE_OPS[op.type](handle=op.inputs[0], new_global_step=step) for op in takes])


def _origin(grad: Any) -> Any:
    tensor = grad.values if isinstance(grad, tf.IndexedSlices) else grad
    return getattr(tensor, "op", None)
