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

import keras
import tensorflow as tf
import tf_keras
from tensorflow.python.keras.mixed_precision.loss_scale_optimizer import LossScaleOptimizerV1
from tensorflow.python.keras.optimizer_v2.gradient_descent import SGD

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.errors import MplsDeprecationWarning

from .setups import Scaling, Term

v1 = tf.compat.v1

LEARNING_RATE = 0.1
MOMENTUM = 0.9


class Host(abc.ABC):
    """One family: how its optimizers are built, called and read.

    Attributes:
        name: part of the test ids.
        bare_name: the name of the first family with the same bare optimizers; such families share their controls.
        advances_on_skip: whether a skipped step advances the step counter.
        clips_in_optimizer: whether the bare optimizer clips gradients, since custom loops see only scaled ones.
        is_built_first: whether bare optimizers must have their variables before a replica takes the first step.
    """

    name: str
    bare_name: str
    advances_on_skip: bool
    clips_in_optimizer = False
    is_built_first = False

    def make_variable(self, term: Term, name: str) -> Any:
        """Return a variable of the kind that users of the family have."""
        return term.make(name)

    @abc.abstractmethod
    def make_inner(self, kind: str, clip_norm: float | None) -> Any:
        """Return a bare optimizer, `sgd`, `momentum` or `adam`; it clips if it is `clips_in_optimizer`."""

    @abc.abstractmethod
    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        """Return the optimizer with loss scaling around it."""

    @abc.abstractmethod
    def wrap_natively(self, inner: Any, scaling: Scaling) -> Any:
        """Return the optimizer with the original's dynamic loss scaling around it."""

    @property
    def native_host(self) -> Host:
        """The host that knows how the original is called."""
        return self

    @abc.abstractmethod
    def build(self, opt: Any, variables: list[Any]) -> None:
        """Have an optimizer create its variables before the first step, as users do where it cannot."""

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

    def make_inner(self, kind: str, clip_norm: float | None) -> Any:
        return {
            "sgd": lambda: v1.train.GradientDescentOptimizer(LEARNING_RATE),
            "momentum": lambda: v1.train.MomentumOptimizer(LEARNING_RATE, MOMENTUM),
            "adam": lambda: v1.train.AdamOptimizer(LEARNING_RATE),
        }[kind]()

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        if scaling.growth_steps is None:
            return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scaling.initial)
        loss_scale = mpls.v1.DynamicLossScale(scaling.initial, scaling.growth_steps, scaling.multiplier)
        return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, loss_scale)

    def wrap_natively(self, inner: Any, scaling: Scaling) -> Any:
        loss_scale = v1.mixed_precision.DynamicLossScale(scaling.initial, scaling.growth_steps, scaling.multiplier)
        return v1.mixed_precision.MixedPrecisionLossScaleOptimizer(inner, loss_scale)

    def build(self, opt: Any, variables: list[Any]) -> None:
        opt._create_slots(variables)

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

    def make_inner(self, kind: str, clip_norm: float | None) -> Any:
        optimizers = tf_keras.optimizers.legacy if self.is_legacy else tf_keras.optimizers
        return {
            "sgd": lambda: optimizers.SGD(LEARNING_RATE),
            "momentum": lambda: optimizers.SGD(LEARNING_RATE, MOMENTUM),
            "adam": lambda: optimizers.Adam(LEARNING_RATE),
        }[kind]()

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        return mpls.keras.LossScaleOptimizer(inner, **_keywords(scaling))

    def wrap_natively(self, inner: Any, scaling: Scaling) -> Any:
        return tf_keras.mixed_precision.LossScaleOptimizer(inner, **_keywords(scaling))

    def build(self, opt: Any, variables: list[Any]) -> None:
        if self.is_legacy:
            opt._create_all_weights(variables)
        else:
            opt.build(variables)

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


class Keras3Host(Host):
    """`mpls.keras.LossScaleOptimizer` over optimizers of Keras 3, called as in Keras 2."""

    name = bare_name = "keras3"
    advances_on_skip = False
    is_built_first = True

    def make_variable(self, term: Term, name: str) -> Any:
        return keras.Variable(term.initial(), dtype=term.dtype.name, name=name)

    def make_inner(self, kind: str, clip_norm: float | None) -> Any:
        return {
            "sgd": lambda: keras.optimizers.SGD(LEARNING_RATE),
            "momentum": lambda: keras.optimizers.SGD(LEARNING_RATE, MOMENTUM),
            "adam": lambda: keras.optimizers.Adam(
                LEARNING_RATE, global_clipnorm=clip_norm if self.clips_in_optimizer else None
            ),
        }[kind]()

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        return mpls.keras.LossScaleOptimizer(inner, **_keywords(scaling))

    def wrap_natively(self, inner: Any, scaling: Scaling) -> Any:
        return keras.optimizers.LossScaleOptimizer(inner, **_keywords(scaling))

    @property
    def native_host(self) -> Host:
        return HOSTS["keras3_apply"]

    def build(self, opt: Any, variables: list[Any]) -> None:
        opt.build(variables)

    def make_counter(self, inner: Any) -> Any:
        return inner.iterations

    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        if hasattr(opt, "minimize"):
            return opt.minimize(loss, variables)
        # Bare ones have no such method.
        return opt.apply(self.gradients(opt, loss, variables, is_scaled=False), variables)

    def gradients(self, opt: Any, loss: Callable[[], Any], variables: list[Any], is_scaled: bool) -> list[Any]:
        with tf.GradientTape() as tape:
            value = opt.get_scaled_loss(loss()) if is_scaled else loss()
        grads = tape.gradient(value, variables)
        return opt.get_unscaled_gradients(grads) if is_scaled else grads

    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        # Bare ones always sum gradients over replicas; the table of exclusions expects the refusal.
        return opt.apply_gradients(grads_and_vars, **({} if aggregate else {"skip_gradients_aggregation": True}))

    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        own = (variable for variable in inner.variables if len(variable.shape))
        return {f"{index}": variable for index, variable in enumerate(own)}


class Keras3ApplyHost(Keras3Host):
    """The same optimizers, called as in Keras 3."""

    name = "keras3_apply"
    bare_name = "keras3_apply"
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
    # No Keras wrapper takes a multiplier; the table of exclusions expects the refusal.
    more = {} if scaling.multiplier == 2 else {"multiplier": scaling.multiplier}
    return {
        "dynamic": scaling.growth_steps is not None,
        "initial_scale": scaling.initial,
        "dynamic_growth_steps": scaling.growth_steps,
        **more,
    }


def _wrap_experimentally(inner: Any, scaling: Scaling) -> Any:
    """Return `mpls.experimental.LossScaleOptimizer`, called as code of TF 1.14 to 2.8 calls it."""
    loss_scale = scaling.initial
    if scaling.growth_steps is not None:
        loss_scale = mpls.experimental.DynamicLossScale(scaling.initial, scaling.growth_steps, scaling.multiplier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MplsDeprecationWarning)
        return mpls.experimental.LossScaleOptimizer(inner, loss_scale)


def _wrap_experimentally_natively(scaling: Scaling) -> Any:
    """Return what TensorFlow keeps of the original, which takes optimizers of its own Keras only."""
    loss_scale = v1.mixed_precision.DynamicLossScale(scaling.initial, scaling.growth_steps, scaling.multiplier)
    return LossScaleOptimizerV1(SGD(LEARNING_RATE), loss_scale)


class ExperimentalHost(KerasHost):
    def __init__(self, family: str) -> None:
        super().__init__("experimental", family)

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        return _wrap_experimentally(inner, scaling)

    def wrap_natively(self, inner: Any, scaling: Scaling) -> Any:
        return _wrap_experimentally_natively(scaling)


class ExperimentalKeras3Host(Keras3Host):
    name = "experimental_keras3"

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        return _wrap_experimentally(inner, scaling)

    def wrap_natively(self, inner: Any, scaling: Scaling) -> Any:
        return _wrap_experimentally_natively(scaling)

    @property
    def native_host(self) -> Host:
        return self


HOSTS: dict[str, Host] = {
    host.name: host
    for host in (
        V1Host(),
        KerasHost("keras", "legacy"),
        KerasHost("keras", "new"),
        Keras3Host(),
        Keras3ApplyHost(),
        ExperimentalHost("legacy"),
        ExperimentalHost("new"),
        ExperimentalKeras3Host(),
    )
}
