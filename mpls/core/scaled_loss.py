"""A loss scale read once: the factor of the loss, and the divisor of its gradients."""

from __future__ import annotations

import functools
import threading
from typing import Any

import tensorflow as tf

from mpls.core.gradients import largest_scale, scale_loss
from mpls.core.graph_local import GraphLocal
from mpls.core.loss_scale import LossScale, is_fixed
from mpls.core.program_calls import read
from mpls.upstream.tensorflow import fixed_value_of


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


class StepScale(GraphLocal):
    """The value of a shared loss scale in one optimizer's step: what multiplies the loss divides the gradients.

    Another optimizer may update the scale between the two. The value belongs to a graph or a thread; replicas that are
    traced together each have their own.
    """

    def of(self, loss_scale: Any) -> Any:
        """Return the value; the first call of a step reads it."""
        store, replica = self._store(), str(threading.get_ident())
        if replica not in store:
            store[replica] = loss_scale()
        return store[replica]

    def end_step(self) -> None:
        """Forget the value: the optimizer takes its step."""
        self._store().pop(str(threading.get_ident()), None)


def exceeds(loss_scale: Any, dtype: Any) -> bool:
    """Return whether a loss scale is fixed at a value that is infinite in the loss's dtype."""
    return is_fixed(loss_scale) and dtype.is_floating and fixed_value_of(loss_scale) > _max_of(dtype)


# `dtype.max` takes longer than scaling a loss.
@functools.cache
def _max_of(dtype: Any) -> float:
    return float(dtype.max)
