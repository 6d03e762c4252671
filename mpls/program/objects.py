"""Tells by a path what kind of object calling it returns: an optimizer, a wrapper, a policy or a model."""

from __future__ import annotations

import functools

from mpls.names import named
from mpls.program.tables import OPTIMIZERS, is_in

__all__ = [
    "EXPERIMENTAL_WRAPPER",
    "LEGACY_OPTIMIZER",
    "MODEL",
    "NEW_WRAPPER",
    "OPTIMIZER",
    "POLICY",
    "keras_path",
    "kind_of",
]

OPTIMIZER = "optimizer"
LEGACY_OPTIMIZER = "legacy optimizer"
EXPERIMENTAL_WRAPPER = "experimental wrapper"
NEW_WRAPPER = "new wrapper"
POLICY = "policy"
MODEL = "model"

_OF_TARGET = {
    "mpls.experimental:LossScaleOptimizer": EXPERIMENTAL_WRAPPER,
    "mpls.v1:enable_mixed_precision_graph_rewrite": EXPERIMENTAL_WRAPPER,
    "mpls.keras:LossScaleOptimizer": NEW_WRAPPER,
    "mpls.experimental:Policy": POLICY,
    "mpls.experimental:global_policy": POLICY,
    "mpls.experimental:get_layer_policy": POLICY,
    "mpls.keras:Policy": POLICY,
    "mpls.keras:global_policy": POLICY,
}
_OPTIMIZERS = {f"keras.optimizers.{name}" for name in OPTIMIZERS}
_MODELS = {f"keras.{name}" for name in ("Model", "Sequential", "models.Model", "models.Sequential")}
_MODELS |= {f"keras.models.{name}" for name in ("load_model", "clone_model", "model_from_json")}
_LEGACY = {f"keras.optimizers.legacy.{name}" for name in OPTIMIZERS}


def keras_path(path: str) -> str:
    """Return a path in Keras as `keras.…`, whether spelled with `tf` or not; "" for a path outside Keras."""
    for root in ("tf.compat.v1.", "tf.compat.v2.", "tf."):
        if path.startswith(root):
            path = path.removeprefix(root)
            return path if path == "keras" or path.startswith("keras.") else ""
    return path if path == "keras" or path.startswith("keras.") else ""


@functools.cache
def kind_of(path: str) -> str:
    """Return the kind of object that calling a path returns; "" for none of these kinds."""
    row = named(path)
    if row is not None and row.target in _OF_TARGET:
        # `tf_keras.….LossScaleOptimizer` is tf_keras' own wrapper.
        is_theirs = path.startswith("tf_keras.") and _OF_TARGET[row.target] == NEW_WRAPPER
        return "" if is_theirs else _OF_TARGET[row.target]
    within = path.replace("tf.optimizers.", "tf.keras.optimizers.", 1)
    if is_in(keras_path(within), _LEGACY):
        return LEGACY_OPTIMIZER
    if is_in(keras_path(within), _MODELS):
        return MODEL
    return OPTIMIZER if is_in(keras_path(within), _OPTIMIZERS) else ""
