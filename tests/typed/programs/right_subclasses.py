"""Subclasses of loss scales, managers and wrappers, as users write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tf_keras

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1


class Halving(mpls.v1.LossScale):
    def __init__(self, start: float = 1024.0) -> None:
        super().__init__()
        self._start = start
        self._value = self._add_weight("value", start, tf.float32)

    def __call__(self) -> tf.Tensor:
        return tf.convert_to_tensor(self._value)

    def update(self, grads: Any) -> tuple[Any, bool]:
        self._value.assign(self._value / 2)
        return None, True

    def get_config(self) -> dict[str, Any]:
        return {"start": self._start}


class Counting(mpls.experimental.DynamicLossScale):
    updates = 0

    def update(self, grads: Any) -> tuple[Any, tf.Tensor]:
        self.updates += 1
        return super().update(grads)


class Constant(mpls.contrib.LossScaleManager):
    def get_loss_scale(self) -> tf.Tensor:
        return tf.constant(8.0)

    def update_loss_scale(self, finite_grads: Any) -> Any:
        return tf.no_op()


class Clipping(mpls.keras.LossScaleOptimizer):
    """As code for legacy optimizers has it."""

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        pairs = [(tf.clip_by_norm(grad, 0.5), variable) for grad, variable in grads_and_vars]
        return super().apply_gradients(pairs, name, experimental_aggregate_gradients=experimental_aggregate_gradients)


class Noting(mpls.keras.LossScaleOptimizer):
    """As code for new ones has it, with arguments of its own."""

    def __init__(self, inner_optimizer: Any, factor: float = 1.0, **kwargs: Any) -> None:
        super().__init__(inner_optimizer, **kwargs)
        self.factor = factor
        self.norms: list[float] = []

    def get_scaled_loss(self, loss: Any) -> Any:
        return super().get_scaled_loss(loss)

    def get_unscaled_gradients(self, grads: Iterable[Any]) -> list[Any]:
        unscaled = super().get_unscaled_gradients(grads)
        self.norms.append(float(tf.norm(unscaled[0])))
        return unscaled

    def apply_gradients(self, grads_and_vars: Any, clip_norm: float = 0.5, **kwargs: Any) -> Any:
        return super().apply_gradients(grads_and_vars, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


class Graph(mpls.v1.MixedPrecisionLossScaleOptimizer):
    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Any:
        return super().apply_gradients(grads_and_vars, global_step, name)


halving: Halving = Halving.from_config({"start": 512.0})
weight = tf.Variable(tf.constant(1.0))
graph = Graph(tf.compat.v1.train.GradientDescentOptimizer(0.25), halving)
graph.minimize(lambda: weight**2, var_list=[weight])
counting = Counting(8)
mpls.v1.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.25), counting).minimize(
    lambda: weight**2, var_list=[weight]
)
managed = mpls.contrib.LossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.25), Constant())
managed.minimize(lambda: weight**2, var_list=[weight])

noting = Noting(tf_keras.optimizers.SGD(0.25), 3.0, initial_scale=8)
copied: Noting = Noting.from_config(noting.get_config())
