"""The families of optimizers, each behind the same few methods.

A new family is one more `Host` in `HOSTS`. The methods take the scaled optimizer and the bare one of the control
alike; where the two are called differently, `is_scaled` tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import mpls.v1

from .host import LEARNING_RATE, MOMENTUM, Host
from .keras_hosts import Keras3ApplyHost, Keras3Host, KerasHost
from .setups import Scaling

v1 = tf.compat.v1


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


HOSTS: dict[str, Host] = {
    host.name: host for host in (V1Host(), KerasHost("legacy"), KerasHost("new"), Keras3Host(), Keras3ApplyHost())
}
