"""Where the Keras families work: under which strategies, and in which graphs."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from mpls.errors import ReplicaContextError, UnsupportedGraphError, UnsupportedStrategyError
from mpls.upstream.tensorflow import graph_key

_SUBJECT = "LossScaleOptimizer"

# Strategies with one replica, or with a copy of each variable per replica. Under others, tf_keras would unscale
# gradients once per compute replica instead of once per variable replica.
_SUPPORTED: tuple[Any, ...] = (
    tf.distribute.MirroredStrategy,
    tf.distribute.MultiWorkerMirroredStrategy,
    tf.distribute.OneDeviceStrategy,
    tf.compat.v1.distribute.MirroredStrategy,
    tf.compat.v1.distribute.OneDeviceStrategy,
    tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy,
)

# Variables live on another device than the replica. Keras 3 supports this with one replica.
_PARAMETERS_ELSEWHERE: tuple[Any, ...] = (
    tf.distribute.ParameterServerStrategy,
    tf.distribute.experimental.CentralStorageStrategy,
)

_BUILDING = threading.RLock()

_TPU: tuple[Any, ...] = (
    tf.distribute.TPUStrategy,
    tf.distribute.experimental.TPUStrategy,
    tf.compat.v1.distribute.experimental.TPUStrategy,
)


def require_supported_strategy(adapter: Any) -> None:
    """Refuse strategies under which a Keras family would compute wrong numbers.

    Args:
        adapter: the adapter class; `works_with_parameter_servers` says whether one replica may have its variables on
            another device.

    Raises:
        UnsupportedStrategyError: the current strategy is one of them.
    """
    strategy = tf.distribute.get_strategy()
    if not tf.distribute.has_strategy() or isinstance(strategy, _SUPPORTED):
        return
    name, also = type(strategy).__name__, ""
    if isinstance(strategy, _PARAMETERS_ELSEWHERE) and adapter.works_with_parameter_servers:
        if strategy.num_replicas_in_sync == 1:
            return
        name += f" with {strategy.num_replicas_in_sync} replicas"
        also = ", or a ParameterServerStrategy or CentralStorageStrategy with one replica"
    if isinstance(strategy, _TPU):
        advice = "TPUs compute in bfloat16, which needs no loss scaling: use the optimizer unwrapped"
    else:
        advice = "Use tf.distribute.MirroredStrategy(), or wrap a tf.compat.v1.train optimizer with mpls.v1"
    raise UnsupportedStrategyError(
        f"{_SUBJECT}: the tf.distribute.Strategy must be a MirroredStrategy, MultiWorkerMirroredStrategy or "
        f"OneDeviceStrategy{also}; got {name}. {advice}. See mpls docs strategies"
    )


def require_replica_context() -> None:
    """Refuse to apply gradients outside of a replica.

    Raises:
        ReplicaContextError: the caller is in a cross-replica context.
    """
    if tf.distribute.in_cross_replica_context():
        raise ReplicaContextError(
            f"{_SUBJECT}: apply_gradients() must be called in a replica context; got a cross-replica context. "
            "Call it inside the function that strategy.run(step_fn) runs. See mpls docs strategies"
        )


def refuse_v1_graph(family: str) -> None:
    """Refuse to apply gradients where no session could run it.

    Args:
        family: what is wrapped, as it follows the word "got".

    Raises:
        UnsupportedGraphError: the caller is in a v1 graph.
    """
    if graph_key() is not None:
        raise UnsupportedGraphError(
            f"{_SUBJECT}: an optimizer in a v1 graph must be one of tf_keras.optimizers.legacy; got {family}, which "
            "returns no op that a session could run. Wrap tf_keras.optimizers.legacy.SGD(), or one of "
            "tf.compat.v1.train with mpls.v1. See mpls docs optimizer-arguments"
        )


_Pairs = list[tuple[Any, Any]]
_METHOD = "_aggregate_gradients"


def building() -> AbstractContextManager[Any]:
    """Keep other threads from building an optimizer in a block: Keras would mix up the variables of two builds.

    Replicas of a strategy are threads that wait for each other, so they take no lock; the strategy runs one at a time.
    """
    return nullcontext() if tf.distribute.has_strategy() else _BUILDING


def aggregation_of_user(wrapper: Any, adapter: Any) -> Any:
    """Return the `_aggregate_gradients` of a user's subclass, which `fit` called up to TF 2.3; or None."""
    found = getattr(type(wrapper), _METHOD, None)
    is_users = wrapper._shows_loss_scale_object and found is not getattr(adapter, _METHOD, None)
    return found if is_users else None


def as_pairs(aggregated: Any, pairs: _Pairs) -> _Pairs:
    """Return pairs of gradient and variable; up to TF 2.3, users' methods returned only the gradients.

    Args:
        aggregated: what the method returned.
        pairs: what it was given.

    Raises:
        ValueError: it has returned gradients, and not as many as it was given; of `zip`.
    """
    results = list(aggregated)
    if all(isinstance(each, tuple | list) and len(each) == 2 for each in results):
        return results
    return [(grad, variable) for grad, (_, variable) in zip(results, pairs, strict=True)]
