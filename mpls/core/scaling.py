"""One scaling of one loss."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from mpls.core.gradients import largest_scale, scale_loss
from mpls.core.loss_scale import LossScale, is_fixed


class LossScaling:
    """One reading of a loss scale: what multiplies the loss is what divides its gradients.

    A fixed scale that is infinite in the loss's dtype could only produce infinities, at every step; here it is
    lowered to the largest power of two that the dtype holds. A dynamic one is left alone: it comes down by itself.

    Attributes:
        scale: scalar float32 tensor, what to divide the gradients by once the loss has been computed.
    """

    def __init__(self, loss_scale: LossScale) -> None:
        self._loss_scale = loss_scale
        self.scale = loss_scale()

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss, or the callable that computes it, multiplied by the scale."""
        return scale_loss(loss, self._scale_for)

    def _scale_for(self, dtype: Any) -> Any:
        if exceeds(self._loss_scale, dtype):
            self.scale = tf.constant(largest_scale(dtype), tf.float32)
        return self.scale


def exceeds(loss_scale: Any, dtype: Any) -> bool:
    """Return whether a loss scale is fixed at a value that is infinite in the loss's dtype."""
    return is_fixed(loss_scale) and dtype.is_floating and loss_scale._loss_scale_value > _max_of(dtype)


# To ask a dtype takes longer than to scale a loss.
@functools.cache
def _max_of(dtype: Any) -> float:
    return float(dtype.max)
