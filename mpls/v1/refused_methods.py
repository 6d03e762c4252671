"""The methods by which TensorFlow's own wrapper applies single gradients; ours leaves that to the wrapped optimizer."""

from __future__ import annotations

from typing import Any, NoReturn

from mpls.errors import CallOrderError, ReplicaContextError


class Refusing:
    """Mixin that goes before TensorFlow's own class, and overrides what is left of its methods."""

    def _distributed_apply(self, *_: Any, **__: Any) -> NoReturn:
        raise ReplicaContextError(
            "MixedPrecisionLossScaleOptimizer: gradients must be applied with apply_gradients() in a replica context. "
            "Call opt.apply_gradients(grads_and_vars). See mpls docs strategies"
        )

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise CallOrderError(
            "MixedPrecisionLossScaleOptimizer: a gradient must be applied by the wrapped optimizer; got a call of the "
            "wrapper's own method for it. Call opt.apply_gradients(grads_and_vars). See mpls docs strategies"
        )

    _scale_grad = _apply_gradients = _refuse
    _apply_dense = _apply_sparse = _resource_apply_dense = _resource_apply_sparse = _refuse
