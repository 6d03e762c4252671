"""Patches `compile`, so that it wraps the optimizers of models whose policy has a loss scale."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import mpls.keras
from mpls.errors import without_deprecations
from mpls.keras.experimental_wrapper import LossScaleOptimizer
from mpls.patches import Layer, Target, WhileNeeded
from mpls.upstream import table
from mpls.upstream.keras_packages import compile_hooks, loaded_keras, loaded_tf_keras


def patch_compile(policy: Any, policy_class: type) -> None:
    """Patch `compile` of each Keras that is loaded, so that it wraps with the loss scale of the model's policy.

    Models whose policy is of another class are compiled by Keras as usual.

    Args:
        policy: a policy with a loss scale; `compile` stays patched until all of them have been freed.
        policy_class: the class of policies with a loss scale.
    """
    _policy_classes.add(policy_class)
    _while_needed.hold_for(policy)


def restore_compile() -> None:
    """Undo `patch_compile`: `compile` is Keras' own again, until a policy with a loss scale is made or set."""
    _while_needed.undo()


_policy_classes: set[type] = set()


def _hooks() -> list[Target]:
    return [(owner, name, _hook(_REPLACEMENTS[name])) for owner, name in compile_hooks()]


_while_needed = WhileNeeded(_hooks)


def _hook(replacement: Callable[..., Any]) -> Callable[[Layer], Any]:
    def patched(layer: Layer) -> Any:
        @functools.wraps(layer.original)
        def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
            if layer.is_on and isinstance(self.dtype_policy, tuple(_policy_classes)):
                return replacement(layer.original, self, *args, **kwargs)
            return layer.original(self, *args, **kwargs)

        return hook

    return patched


def _get_optimizer(original: Any, model: Any, optimizer: Any) -> Any:
    """Replace `_get_optimizer` of tf_keras' models: look up the optimizers, and wrap them."""
    del original
    return tf.nest.map_structure(lambda each: _wrap(_of_tf_keras(each), model), optimizer)


def _set_optimizer(original: Any, model: Any, optimizer: Any) -> None:
    """Replace `_set_optimizer` of tf_keras' models in v1 graph mode, in the same way."""
    del original
    if isinstance(optimizer, list | tuple):
        model.optimizer = [_wrap(_of_tf_keras(each), model) for each in optimizer]
    else:
        model.optimizer = _wrap(_of_tf_keras(optimizer), model)


def _of_tf_keras(optimizer: Any) -> Any:
    tf_keras: Any = loaded_tf_keras()
    return tf_keras.optimizers.get(optimizer)


def _compile(original: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace `compile` of Keras 3: wrap the optimizer, and keep `compile` from wrapping it itself."""
    keras: Any = loaded_keras()
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    if call.arguments.get("auto_scale_loss"):
        call.arguments["auto_scale_loss"] = False
        optimizer = keras.optimizers.get(call.arguments["optimizer"])
        call.arguments["optimizer"] = optimizer and _wrap(optimizer, model)
    return original(*call.args, **call.kwargs)


_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    table.TF_KERAS_COMPILE.name: _get_optimizer,
    table.TF_KERAS_COMPILE_V1.name: _set_optimizer,
    "compile": _compile,
}


def _wrap(optimizer: Any, model: Any) -> Any:
    loss_scale = model.dtype_policy.loss_scale
    if loss_scale is None or isinstance(optimizer, mpls.keras.LossScaleOptimizer):
        return optimizer
    with without_deprecations():
        return LossScaleOptimizer(optimizer, loss_scale)
