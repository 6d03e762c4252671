"""The families of optimizers, each behind the same few methods.

A new family is one more `Host` in `HOSTS`. The methods take the scaled optimizer and the bare one of the control
alike; where the two are called differently, `is_scaled` tells them apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow as tf

import mpls.keras
import mpls.v1
from tests.keras.families import OPTIMIZERS

from .setups import Scaling, Term

v1 = tf.compat.v1

LEARNING_RATE = 0.1
MOMENTUM = 0.9


class Host:
    """One family: how its optimizers are built, called and read; where nothing else is said, as those of Keras are.

    Attributes:
        name: part of the test ids.
        bare_name: the name of the first family with the same bare optimizers; such families share their controls.
        optimizers: the module that has them.
        advances_on_skip: whether a skipped step advances the step counter.
        clips_in_optimizer: whether the bare optimizer clips gradients, since custom loops see only scaled ones.
        is_built_first: whether bare optimizers must have their variables before a replica takes the first step.
        unaggregated: what says that gradients are not to be summed over replicas.
    """

    name: str
    bare_name: str
    optimizers: Any
    advances_on_skip: bool
    clips_in_optimizer = False
    is_built_first = False
    unaggregated: ClassVar[dict[str, bool]] = {"skip_gradients_aggregation": True}

    def make_variable(self, term: Term, name: str) -> Any:
        """Return a variable of the kind that users of the family have."""
        return term.make(name)

    def make_inner(self, kind: str, clip_norm: float | None) -> Any:
        """Return a bare optimizer, `sgd`, `momentum` or `adam`; it clips if it is `clips_in_optimizer`."""
        clipping = {"global_clipnorm": clip_norm} if self.clips_in_optimizer else {}
        return {
            "sgd": lambda: self.optimizers.SGD(LEARNING_RATE),
            "momentum": lambda: self.optimizers.SGD(LEARNING_RATE, MOMENTUM),
            "adam": lambda: self.optimizers.Adam(LEARNING_RATE, **clipping),
        }[kind]()

    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        """Return the optimizer with loss scaling around it."""
        return mpls.keras.LossScaleOptimizer(
            inner,
            dynamic=scaling.growth_steps is not None,
            initial_scale=scaling.initial,
            dynamic_growth_steps=scaling.growth_steps,
            **scaling.options,
        )

    def build(self, opt: Any, variables: list[Any]) -> None:
        """Have an optimizer create its variables before the first step, as users do where it cannot."""
        opt.build(variables)

    def make_counter(self, inner: Any) -> Any:
        """Return the variable that counts steps."""
        return inner.iterations

    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        """Take a step in one call; return the op of a graph."""
        return opt.minimize(loss, variables)

    def gradients(self, opt: Any, loss: Callable[[], Any], variables: list[Any], is_scaled: bool) -> list[Any]:
        """Return unscaled gradients, as a custom loop computes them."""
        with tf.GradientTape() as tape:
            value = opt.get_scaled_loss(loss()) if is_scaled else loss()
        grads = tape.gradient(value, variables)
        return opt.get_unscaled_gradients(grads) if is_scaled else grads

    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        """Apply unscaled gradients; return the op of a graph."""
        return opt.apply_gradients(grads_and_vars, **({} if aggregate else self.unaggregated))

    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        """Return the variables of an optimizer, but for the step counter and hyperparameters, by name."""
        own = (variable for variable in inner.variables if len(variable.shape))
        return {f"{index}": variable for index, variable in enumerate(own)}

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
        of_scale: dict[str, Any] = dict(scaling.of_scale)
        loss_scale: Any = scaling.initial
        if scaling.growth_steps is not None:
            loss_scale = mpls.v1.DynamicLossScale(scaling.initial, scaling.growth_steps, scaling.multiplier, **of_scale)
        elif of_scale:
            loss_scale = mpls.v1.FixedLossScale(scaling.initial, **of_scale)
        return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, loss_scale, **dict(scaling.of_steps))

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


class LegacyHost(Host):
    """`mpls.keras.LossScaleOptimizer` over legacy optimizers of tf_keras."""

    name = bare_name = "keras_legacy"
    optimizers = OPTIMIZERS["legacy"]
    advances_on_skip = True
    unaggregated: ClassVar[dict[str, bool]] = {"experimental_aggregate_gradients": False}

    def build(self, opt: Any, variables: list[Any]) -> None:
        opt._create_all_weights(variables)

    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        slots = {}
        for key, variable in variables.items():
            for name in inner.get_slot_names():
                # Variables without a gradient have none.
                with contextlib.suppress(KeyError):
                    slots[f"{key}/{name}"] = inner.get_slot(variable, name)
        return slots


class NewHost(Host):
    """`mpls.keras.LossScaleOptimizer` over new optimizers of tf_keras."""

    name = bare_name = "keras_new"
    optimizers = OPTIMIZERS["new"]
    advances_on_skip = True


class Keras3Host(Host):
    """`mpls.keras.LossScaleOptimizer` over optimizers of Keras 3, called as in Keras 2."""

    name = bare_name = "keras3"
    optimizers = OPTIMIZERS["keras3"]
    advances_on_skip = False
    is_built_first = True

    def make_variable(self, term: Term, name: str) -> Any:
        return keras.Variable(term.initial(), dtype=term.dtype.name, name=name)

    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        if hasattr(opt, "minimize"):
            return opt.minimize(loss, variables)
        # Bare ones have no such method.
        return opt.apply(self.gradients(opt, loss, variables, is_scaled=False), variables)


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
        return opt.apply(grads, variables, **({} if aggregate else self.unaggregated))


HOSTS: dict[str, Host] = {
    host.name: host for host in (V1Host(), LegacyHost(), NewHost(), Keras3Host(), Keras3ApplyHost())
}
