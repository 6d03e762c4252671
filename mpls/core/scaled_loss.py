"""A loss scale read once: the factor of the loss, and the divisor of its gradients."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mpls.core.fast.branches import group
from mpls.core.gradients import largest_scale, scale_loss
from mpls.core.loss_scale import LossScale, is_fixed
from mpls.core.persistence.state_dict import plain
from mpls.core.program_calls import read
from mpls.core.replicas import call_in_cross_replica_context, merges_in_replica_context
from mpls.core.weights import Lock, Stateful, Weights
from mpls.upstream.tensorflow import fixed_value_of
from mpls.upstream.trackables import Trackable

if TYPE_CHECKING:
    _Base = object
else:
    _Base = Trackable

# The name of the variable.
STEP_SCALE = "step_scale"


class LossScaling:
    """A loss scale read once, so that the gradients are divided by the number that multiplied the loss.

    A fixed scale that is infinite in the loss's dtype would make every step overflow; it is lowered to the largest
    power of two that the dtype holds. A dynamic scale is used as it is, since it shrinks by itself.

    Attributes:
        scale: scalar float32 tensor to divide the gradients by; final once the loss has been computed.
    """

    def __init__(self, loss_scale: LossScale) -> None:
        self._loss_scale = loss_scale
        self.scale = read(loss_scale)

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss, or the callable that computes it, multiplied by the scale."""
        return scale_loss(loss, self._scale_for)

    def _scale_for(self, dtype: Any) -> Any:
        if exceeds(self._loss_scale, dtype):
            self.scale = tf.constant(largest_scale(dtype), tf.float32)
        return self.scale


class StepScale(Stateful, _Base):
    """The value of a shared loss scale for one of the optimizers that share it, which changes with its own steps only.

    So the number that multiplies a loss divides its gradients, whatever steps the other optimizers take in between, and
    in whichever function, graph or thread the two happen.

    Args:
        loss_scale: the shared loss scale.
    """

    def __init__(self, loss_scale: Any) -> None:
        super().__init__()
        self._variables = Weights()
        self._lock = Lock()
        self._loss_scale = loss_scale
        self._times_set = self._times_set_now()

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        # In a graph, the shared variable has no value before a session has run.
        is_eager = tf.executing_eagerly()
        initial = plain(self._loss_scale()) if is_eager else self._loss_scale.initial_loss_scale
        return {STEP_SCALE: (initial, tf.float32)}

    def _times_set_now(self) -> int:
        # TensorFlow's own classes cannot be set.
        return getattr(self._loss_scale, "_times_set", 0)

    def __call__(self) -> Any:
        """Return the value, a scalar float32 tensor."""
        if is_fixed(self._loss_scale):
            return self._loss_scale()
        if tf.executing_eagerly() and self._times_set != self._times_set_now():
            self._follow()
        return tf.convert_to_tensor(self._created_weight(STEP_SCALE))

    def create(self) -> None:
        """Create the variable of the current graph, or of eager mode, if it does not exist yet."""
        if not is_fixed(self._loss_scale):
            self._created_weight(STEP_SCALE)

    def after(self, step: Any) -> Any:
        """Take over the shared value after a step of the optimizer.

        Args:
            step: the op of the step; None in eager mode.

        Returns:
            An op that does both; None in eager mode.
        """
        if is_fixed(self._loss_scale):
            return step
        with tf.control_dependencies([] if step is None else [step]):
            follows = self._follow() if merges_in_replica_context() else call_in_cross_replica_context(self._follow)
        return group(step, follows)

    def _follow(self) -> Any:
        self._times_set = self._times_set_now()
        return self._created_weight(STEP_SCALE).assign(self._loss_scale())


def exceeds(loss_scale: Any, dtype: Any) -> bool:
    """Return whether a loss scale is fixed at a value that is infinite in the loss's dtype."""
    return is_fixed(loss_scale) and dtype.is_floating and fixed_value_of(loss_scale) > _max_of(dtype)


# `dtype.max` takes longer than scaling a loss.
@functools.cache
def _max_of(dtype: Any) -> float:
    return float(dtype.max)
