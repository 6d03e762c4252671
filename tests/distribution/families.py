"""The families of optimizers, each behind the few calls that a custom loop makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
import tf_keras

import mpls.keras
import mpls.v1

v1 = tf.compat.v1

LEARNING_RATE = 0.125
MOMENTUM = 0.5
GROWTH_STEPS = 2

Loss = Callable[[], Any]


@dataclasses.dataclass
class Optimizer:
    """A bare optimizer, and what applies its steps: itself or a wrapper around it."""

    inner: Any
    outer: Any
    counter: Any


class V1:
    """`tf.compat.v1.train` optimizers and the graph-mode wrapper."""

    name = "v1"
    advances_on_skip = False

    def variable(self, value: Any, name: str) -> Any:
        return tf.Variable(value, name=name)

    def bare(self) -> Optimizer:
        inner = v1.train.MomentumOptimizer(LEARNING_RATE, MOMENTUM)
        aggregation = v1.VariableAggregation.ONLY_FIRST_REPLICA
        counter = v1.Variable(0, dtype=tf.int64, trainable=False, use_resource=True, aggregation=aggregation)
        return Optimizer(inner, inner, counter)

    def scaled(self, initial_scale: float = 8.0) -> Optimizer:
        bare = self.bare()
        loss_scale = mpls.v1.DynamicLossScale(initial_scale, GROWTH_STEPS)
        return dataclasses.replace(bare, outer=mpls.v1.MixedPrecisionLossScaleOptimizer(bare.inner, loss_scale))

    def native(self, initial_scale: float = 8.0) -> Optimizer:
        bare = self.bare()
        loss_scale = v1.mixed_precision.DynamicLossScale(initial_scale, GROWTH_STEPS)
        return dataclasses.replace(
            bare, outer=v1.mixed_precision.MixedPrecisionLossScaleOptimizer(bare.inner, loss_scale)
        )

    def grads(self, opt: Optimizer, loss: Loss, variables: list[Any]) -> list[Any]:
        return [grad for grad, _ in opt.outer.compute_gradients(loss, var_list=variables)]

    def apply(self, opt: Optimizer, grads: list[Any], variables: list[Any]) -> None:
        opt.outer.apply_gradients(zip(grads, variables, strict=True), global_step=opt.counter)

    def scale(self, opt: Optimizer) -> Any:
        return opt.outer._loss_scale._current_loss_scale


class Keras:
    """What the families of `mpls.keras` share, called as in Keras 2."""

    name: str
    optimizers: Any
    native_wrapper: Any
    advances_on_skip = True

    def variable(self, value: Any, name: str) -> Any:
        return tf.Variable(value, name=name)

    def bare(self) -> Optimizer:
        inner = self.optimizers.SGD(LEARNING_RATE, momentum=MOMENTUM)
        return Optimizer(inner, inner, inner.iterations)

    def scaled(self, initial_scale: float = 8.0) -> Optimizer:
        return self._wrapped(mpls.keras.LossScaleOptimizer, initial_scale)

    def native(self, initial_scale: float = 8.0) -> Optimizer:
        return self._wrapped(self.native_wrapper, initial_scale)

    def _wrapped(self, wrapper: Any, initial_scale: float) -> Optimizer:
        bare = self.bare()
        outer = wrapper(bare.inner, initial_scale=initial_scale, dynamic_growth_steps=GROWTH_STEPS)
        return dataclasses.replace(bare, outer=outer)

    def grads(self, opt: Optimizer, loss: Loss, variables: list[Any]) -> list[Any]:
        is_scaled = opt.outer is not opt.inner
        with tf.GradientTape() as tape:
            value = opt.outer.get_scaled_loss(loss()) if is_scaled else loss()
        grads = tape.gradient(value, variables)
        return opt.outer.get_unscaled_gradients(grads) if is_scaled else grads

    def apply(self, opt: Optimizer, grads: list[Any], variables: list[Any]) -> None:
        opt.outer.apply_gradients(zip(grads, variables, strict=True))

    def apply_summed(self, opt: Optimizer, grads: list[Any], variables: list[Any]) -> None:
        """Apply gradients that are sums over the replicas."""
        opt.outer.apply_gradients(zip(grads, variables, strict=True), skip_gradients_aggregation=True)

    def slots(self, opt: Optimizer, variables: list[Any]) -> list[Any]:
        return [variable for variable in opt.inner.variables if len(variable.shape)]

    def scale(self, opt: Optimizer) -> Any:
        return opt.outer._loss_scale._current_loss_scale

    def good_steps(self, opt: Optimizer) -> Any:
        return opt.outer.dynamic_counter


class Legacy(Keras):
    """`tf_keras.optimizers.legacy`."""

    name = "legacy"
    optimizers = tf_keras.optimizers.legacy
    native_wrapper = tf_keras.mixed_precision.LossScaleOptimizer

    def apply_summed(self, opt: Optimizer, grads: list[Any], variables: list[Any]) -> None:
        opt.outer.apply_gradients(zip(grads, variables, strict=True), experimental_aggregate_gradients=False)

    def slots(self, opt: Optimizer, variables: list[Any]) -> list[Any]:
        # In `variables()`, those that were restored come in another order.
        return [opt.inner.get_slot(variable, "momentum") for variable in variables]


class New(Keras):
    """`tf_keras.optimizers`."""

    name = "new"
    optimizers = tf_keras.optimizers
    native_wrapper = tf_keras.mixed_precision.LossScaleOptimizer


class Keras3(Keras):
    """`keras.optimizers`, called as in Keras 2."""

    name = "keras3"
    optimizers = keras.optimizers
    native_wrapper = keras.optimizers.LossScaleOptimizer
    advances_on_skip = False

    def variable(self, value: Any, name: str) -> Any:
        return keras.Variable(value, name=name)


class Keras3Style(Keras3):
    """`keras.optimizers`, called as in Keras 3: gradients are unscaled when they are applied."""

    name = "keras3_style"

    def grads(self, opt: Optimizer, loss: Loss, variables: list[Any]) -> list[Any]:
        with tf.GradientTape() as tape:
            value = loss() if opt.outer is opt.inner else opt.outer.scale_loss(loss())
        return tape.gradient(value, variables)

    def apply(self, opt: Optimizer, grads: list[Any], variables: list[Any]) -> None:
        opt.outer.apply(grads, variables)


Family = V1 | Keras

V_1, LEGACY, NEW, KERAS_3, KERAS_3_STYLE = V1(), Legacy(), New(), Keras3(), Keras3Style()
FAMILIES: tuple[Family, ...] = (V_1, LEGACY, NEW, KERAS_3, KERAS_3_STYLE)
