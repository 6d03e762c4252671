"""The Keras families: `mpls.keras` over tf_keras and Keras 3."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import mpls.keras
from tests.keras.families import OPTIMIZERS

from .host import LEARNING_RATE, MOMENTUM, Host
from .setups import Scaling, Term


class _Called(Host):
    """What is the same over optimizers of tf_keras and of Keras 3.

    Attributes:
        optimizers: the module that has them.
    """

    optimizers: Any

    def make_inner(self, kind: str, clip_norm: float | None) -> Any:
        clipping = {"global_clipnorm": clip_norm} if self.clips_in_optimizer else {}
        return {
            "sgd": lambda: self.optimizers.SGD(LEARNING_RATE),
            "momentum": lambda: self.optimizers.SGD(LEARNING_RATE, MOMENTUM),
            "adam": lambda: self.optimizers.Adam(LEARNING_RATE, **clipping),
        }[kind]()

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        return mpls.keras.LossScaleOptimizer(inner, **_keywords(scaling))

    def make_counter(self, inner: Any) -> Any:
        return inner.iterations

    def gradients(self, opt: Any, loss: Callable[[], Any], variables: list[Any], is_scaled: bool) -> list[Any]:
        with tf.GradientTape() as tape:
            value = opt.get_scaled_loss(loss()) if is_scaled else loss()
        grads = tape.gradient(value, variables)
        return opt.get_unscaled_gradients(grads) if is_scaled else grads

    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        own = (variable for variable in inner.variables if len(variable.shape))
        return {f"{index}": variable for index, variable in enumerate(own)}


class KerasHost(_Called):
    """`mpls.keras.LossScaleOptimizer` over tf_keras' legacy or new optimizers."""

    advances_on_skip = True

    def __init__(self, family: str) -> None:
        self.name = self.bare_name = f"keras_{family}"
        self.is_legacy = family == "legacy"
        self.optimizers = OPTIMIZERS[family]

    def build(self, opt: Any, variables: list[Any]) -> None:
        if self.is_legacy:
            opt._create_all_weights(variables)
        else:
            opt.build(variables)

    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        return opt.minimize(loss, variables)

    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        if aggregate:
            return opt.apply_gradients(grads_and_vars)
        keyword = (
            {"experimental_aggregate_gradients": False} if self.is_legacy else {"skip_gradients_aggregation": True}
        )
        return opt.apply_gradients(grads_and_vars, **keyword)

    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        if not self.is_legacy:
            return super().slots(inner, variables)
        slots = {}
        for key, variable in variables.items():
            for name in inner.get_slot_names():
                # Variables without a gradient have none.
                with contextlib.suppress(KeyError):
                    slots[f"{key}/{name}"] = inner.get_slot(variable, name)
        return slots


class Keras3Host(_Called):
    """`mpls.keras.LossScaleOptimizer` over optimizers of Keras 3, called as in Keras 2."""

    name = bare_name = "keras3"
    optimizers = keras.optimizers
    advances_on_skip = False
    is_built_first = True

    def make_variable(self, term: Term, name: str) -> Any:
        return keras.Variable(term.initial(), dtype=term.dtype.name, name=name)

    def build(self, opt: Any, variables: list[Any]) -> None:
        opt.build(variables)

    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        if hasattr(opt, "minimize"):
            return opt.minimize(loss, variables)
        # Bare ones have no such method.
        return opt.apply(self.gradients(opt, loss, variables, is_scaled=False), variables)

    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        return opt.apply_gradients(grads_and_vars, **({} if aggregate else {"skip_gradients_aggregation": True}))


class Keras3ApplyHost(Keras3Host):
    """The same optimizers, called as in Keras 3."""

    name = bare_name = "keras3_apply"
    clips_in_optimizer = True

    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        is_scaled = isinstance(opt, keras.optimizers.LossScaleOptimizer)
        return opt.apply(self.gradients(opt, loss, variables, is_scaled), variables)

    def gradients(self, opt: Any, loss: Callable[[], Any], variables: list[Any], is_scaled: bool) -> list[Any]:
        with tf.GradientTape() as tape:
            value = opt.scale_loss(loss()) if is_scaled else loss()
        return tape.gradient(value, variables)

    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        grads, variables = zip(*grads_and_vars, strict=True)
        return opt.apply(grads, variables, **({} if aggregate else {"skip_gradients_aggregation": True}))


def _keywords(scaling: Scaling) -> dict[str, Any]:
    return {
        "dynamic": scaling.growth_steps is not None,
        "initial_scale": scaling.initial,
        "dynamic_growth_steps": scaling.growth_steps,
        **scaling.options,
    }
