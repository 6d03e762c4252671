"""The families of optimizers, each behind the same few methods.

A new family is one more `Host` in `HOSTS`. The methods take the scaled optimizer and the bare one of the control
alike; where the two are called differently, `is_scaled` tells them apart.
"""

from __future__ import annotations

import abc
import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.errors import MplsDeprecationWarning

from .setups import Scaling

v1 = tf.compat.v1

LEARNING_RATE = 0.1
MOMENTUM = 0.9


class Host(abc.ABC):
    """One family: how its optimizers are built, called and read.

    Attributes:
        name: part of the test ids.
        bare_name: the name of the first family with the same bare optimizers; such families share their controls.
        advances_on_skip: whether a skipped step advances the step counter.
    """

    name: str
    bare_name: str
    advances_on_skip: bool

    @abc.abstractmethod
    def make_inner(self, kind: str) -> Any:
        """Return a bare optimizer: `sgd`, `momentum` or `adam`."""

    @abc.abstractmethod
    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        """Return the optimizer with loss scaling around it."""

    @abc.abstractmethod
    def make_counter(self, inner: Any) -> Any:
        """Return the variable that counts steps."""

    @abc.abstractmethod
    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        """Take a step in one call; return the op of a graph."""

    @abc.abstractmethod
    def gradients(self, opt: Any, loss: Callable[[], Any], variables: list[Any], is_scaled: bool) -> list[Any]:
        """Return unscaled gradients, as a custom loop computes them."""

    @abc.abstractmethod
    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        """Apply unscaled gradients; return the op of a graph."""

    @abc.abstractmethod
    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        """Return the variables of an optimizer, but for the step counter and hyperparameters, by name."""

    def initial_slot(self, name: str) -> float:
        """Return the number that fills a new slot."""
        return 0.0

    def scale(self, opt: Any) -> Any:
        """Return the variable that holds a dynamic scale, or the tensor of a fixed one."""
        loss_scale = opt._loss_scale
        return getattr(loss_scale, "_current_loss_scale", None) if opt_is_dynamic(opt) else loss_scale()

    def good_steps(self, opt: Any) -> Any:
        """Return the variable that counts finite steps; None for a fixed scale."""
        return opt._loss_scale._num_good_steps if opt_is_dynamic(opt) else None


def opt_is_dynamic(opt: Any) -> bool:
    return isinstance(opt._loss_scale, mpls.v1.DynamicLossScale)


class V1Host(Host):
    name = bare_name = "v1"
    advances_on_skip = False

    def make_inner(self, kind: str) -> Any:
        return {
            "sgd": lambda: v1.train.GradientDescentOptimizer(LEARNING_RATE),
            "momentum": lambda: v1.train.MomentumOptimizer(LEARNING_RATE, MOMENTUM),
            "adam": lambda: v1.train.AdamOptimizer(LEARNING_RATE),
        }[kind]()

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        if scaling.growth_steps is None:
            return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scaling.initial)
        loss_scale = mpls.v1.DynamicLossScale(scaling.initial, scaling.growth_steps)
        return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, loss_scale)

    def make_counter(self, inner: Any) -> Any:
        return v1.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            use_resource=True,
            aggregation=v1.VariableAggregation.ONLY_FIRST_REPLICA,
            name="step",
        )

    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        return opt.minimize(self._loss(loss), var_list=variables, global_step=counter)

    def gradients(self, opt: Any, loss: Callable[[], Any], variables: list[Any], is_scaled: bool) -> list[Any]:
        return [grad for grad, _ in opt.compute_gradients(self._loss(loss), var_list=variables)]

    @staticmethod
    def _loss(loss: Callable[[], Any]) -> Any:
        # Session code has a tensor, eager code and functions have a callable.
        return loss if v1.executing_eagerly_outside_functions() else loss()

    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        if not aggregate:
            # There is no such argument; the table of exclusions expects the refusal.
            return opt.apply_gradients(grads_and_vars, experimental_aggregate_gradients=False)
        return opt.apply_gradients(grads_and_vars, global_step=counter)

    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        slots = {
            f"{key}/{name}": slot
            for key, variable in variables.items()
            for name in inner.get_slot_names()
            if (slot := inner.get_slot(variable, name)) is not None
        }
        # Adam's powers of its betas; another optimizer in the same graph makes their names unique by a suffix.
        # `variables()` would leave out those that a function has created under a strategy.
        others = inner._non_slot_variables()
        slots.update({variable.name.split(":")[0].rstrip("_0123456789"): variable for variable in others})
        return slots

    def initial_slot(self, name: str) -> float:
        return {"beta1_power": 0.9, "beta2_power": 0.999}.get(name, 0.0)


class KerasHost(Host):
    """`mpls.keras.LossScaleOptimizer` over tf_keras' legacy or new optimizers."""

    advances_on_skip = True

    def __init__(self, layer: str, family: str) -> None:
        self.name = f"{layer}_{family}"
        self.bare_name = f"keras_{family}"
        self.is_legacy = family == "legacy"

    def make_inner(self, kind: str) -> Any:
        optimizers = tf_keras.optimizers.legacy if self.is_legacy else tf_keras.optimizers
        return {
            "sgd": lambda: optimizers.SGD(LEARNING_RATE),
            "momentum": lambda: optimizers.SGD(LEARNING_RATE, MOMENTUM),
            "adam": lambda: optimizers.Adam(LEARNING_RATE),
        }[kind]()

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        return mpls.keras.LossScaleOptimizer(
            inner,
            dynamic=scaling.growth_steps is not None,
            initial_scale=scaling.initial,
            dynamic_growth_steps=scaling.growth_steps,
        )

    def make_counter(self, inner: Any) -> Any:
        return inner.iterations

    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        return opt.minimize(loss, variables)

    def gradients(self, opt: Any, loss: Callable[[], Any], variables: list[Any], is_scaled: bool) -> list[Any]:
        with tf.GradientTape() as tape:
            value = opt.get_scaled_loss(loss()) if is_scaled else loss()
        grads = tape.gradient(value, variables)
        return opt.get_unscaled_gradients(grads) if is_scaled else grads

    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        if aggregate:
            return opt.apply_gradients(grads_and_vars)
        keyword = (
            {"experimental_aggregate_gradients": False} if self.is_legacy else {"skip_gradients_aggregation": True}
        )
        return opt.apply_gradients(grads_and_vars, **keyword)

    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        if not self.is_legacy:
            own = (variable for variable in inner.variables if variable.shape.rank)
            return {f"{index}": variable for index, variable in enumerate(own)}
        slots = {}
        for key, variable in variables.items():
            for name in inner.get_slot_names():
                # Variables without a gradient have none.
                with contextlib.suppress(KeyError):
                    slots[f"{key}/{name}"] = inner.get_slot(variable, name)
        return slots


class ExperimentalHost(KerasHost):
    """`mpls.experimental.LossScaleOptimizer`, called as code of TF 1.14 to 2.8 calls it."""

    def __init__(self, family: str) -> None:
        super().__init__("experimental", family)

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        loss_scale = scaling.initial
        if scaling.growth_steps is not None:
            loss_scale = mpls.experimental.DynamicLossScale(scaling.initial, scaling.growth_steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MplsDeprecationWarning)
            return mpls.experimental.LossScaleOptimizer(inner, loss_scale)


HOSTS: dict[str, Host] = {
    host.name: host
    for host in (
        V1Host(),
        KerasHost("keras", "legacy"),
        KerasHost("keras", "new"),
        ExperimentalHost("legacy"),
        ExperimentalHost("new"),
    )
}
