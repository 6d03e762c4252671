"""State and step of wrappers over Keras 3 optimizers, on the TensorFlow backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import tensorflow as tf

from mpls.core.dynamic import DynamicLossScale
from mpls.core.loss_scale import FixedLossScale, LossScale
from mpls.core.releases import ReleaseBehavior


class FixedState(FixedLossScale):
    """A fixed loss scale on whatever backend Keras runs."""

    def __init__(self, value: float) -> None:
        LossScale.__init__(self)
        self._loss_scale_value = value

    def __call__(self) -> Any:
        """Return the scale as a scalar float32 tensor of the backend."""
        return keras.ops.convert_to_tensor(self._loss_scale_value, dtype="float32")


class DynamicState(DynamicLossScale):
    """A dynamic loss scale whose state is in variables that Keras saves with the wrapper.

    Attributes:
        scale: scalar float32 Keras variable.
        counter: scalar integer Keras variable.
    """

    is_saved_by_keras = True

    def __init__(self, initial_scale: float, growth_steps: int, scale: Any, counter: Any) -> None:
        super().__init__(initial_scale, growth_steps, 2.0)
        self.scale = scale
        self.counter = counter

    def __call__(self) -> Any:
        """Return the scale as a scalar float32 tensor of the backend."""
        if keras.backend.backend() == "tensorflow":
            # Keras' own conversion would return the variable.
            return super().__call__()
        return keras.ops.convert_to_tensor(self.scale)

    def _create_weights(self) -> None:
        """Do nothing: the variables are the wrapper's."""

    def _read_state(self, session: Any) -> tuple[float, int]:
        if keras.backend.backend() == "tensorflow":
            return super()._read_state(session)
        return float(keras.ops.convert_to_numpy(self.scale)), int(keras.ops.convert_to_numpy(self.counter))

    def _write_state(self, scale: float, good_steps: int, session: Any) -> None:
        if keras.backend.backend() == "tensorflow":
            super()._write_state(scale, good_steps, session)
        else:
            self.scale.assign(scale)
            self.counter.assign(good_steps)

    def _created_weight(self, name: str) -> Any:
        return {"current_loss_scale": self.scale, "good_steps": self.counter}[name].value


# Programs log them.
FixedState.__name__ = FixedLossScale.__name__
DynamicState.__name__ = DynamicLossScale.__name__


@dataclass
class Keras3Step:
    """Step hooks of Keras 3: a skipped step leaves `iterations` alone, unless a program asks for an older release.

    Attributes:
        optimizer: the wrapped optimizer, which sums gradients over replicas.
        is_summed: whether they have been summed already.
        behavior: how the wrapper behaves.
        args: what goes to the optimizer's own `apply_gradients` as further positional arguments.
    """

    optimizer: Any
    is_summed: bool
    behavior: ReleaseBehavior
    args: tuple[Any, ...] = ()

    # Where a user says that they are summed, nobody knows.
    are_same: ClassVar[bool] = False

    @property
    def sums_gradients(self) -> bool:
        """Whether the wrapped optimizer's sum is more than the gradient of one replica."""
        return not self.is_summed

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        """Call the wrapped optimizer, which advances `iterations`."""
        grads, variables = map(list, zip(*grads_and_vars, strict=True))
        if self.is_summed:
            grads = [
                grad if overwrites(variable) else _on_first_replica(grad)
                for grad, variable in zip(grads, variables, strict=True)
            ]
        if self.args:
            self.optimizer.apply_gradients(list(zip(grads, variables, strict=True)), *self.args)
        else:
            self.optimizer.apply(grads, variables)

    def skip(self) -> Any:
        """Do nothing, or advance `iterations`."""
        if self.behavior.skipped_steps_count_in_keras_3:
            self.optimizer._iterations.assign_add(1)


def _on_first_replica(grad: Any) -> Any:
    """Return a gradient there, and zeros on the other replicas: the sum that is still to come is the gradient."""
    context = tf.distribute.get_replica_context()
    if grad is None or context.num_replicas_in_sync == 1:
        return grad
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(_on_first_replica(grad.values), grad.indices, grad.dense_shape)
    return tf.where(tf.equal(context.replica_id_in_sync_group, 0), grad, tf.zeros_like(grad))


def overwrites(variable: Any) -> bool:
    """Return whether what comes as the gradient of a variable is its new value, as with float8 layers."""
    return bool(getattr(variable, "overwrite_with_gradient", False))
