"""Scale a loss, unscale gradients, and say whether all are finite: dense, sparse and None; every float dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# float16 loses everything below 2**-24, and both lose bits of a scale that is no power of two.
_HALF_DTYPES = (tf.float16, tf.bfloat16)


def scale_loss(loss: Any, scale: Any | Callable[[Any], Any]) -> Any:
    """Multiply a loss by the loss scale, in the loss's own dtype.

    Args:
        loss: tensor of any shape and numeric dtype, or a callable that takes nothing and returns one.
        scale: scalar float32 tensor; or a callable that is given the loss's dtype and returns it. It is called when
            the loss is there, so that a callable loss is multiplied by the scale of the moment in which it runs.

    Returns:
        The scaled loss, of the loss's shape and dtype; for a callable loss, a callable that returns it.

    Raises:
        AttributeError: `loss` is neither callable nor has a dtype, as with the originals.
    """
    if callable(loss):

        def scaled_loss() -> Any:
            return scale_loss(loss(), scale)

        return scaled_loss
    value = scale(loss.dtype) if callable(scale) else scale
    return loss * tf.cast(value, loss.dtype)


def largest_scale(dtype: Any) -> float:
    """Return the largest power of two that a loss of this dtype can be multiplied by: 2**15 for float16."""
    return math.ldexp(1.0, math.frexp(float(dtype.max))[1] - 1) if dtype.is_floating else math.inf


def unscale_gradients(grads: Any, scale: Any) -> Any:
    """Divide gradients by the loss scale.

    float16 and bfloat16 gradients are divided in float32 and rounded once, so that a scale whose reciprocal
    a half-precision number cannot hold still gives the right gradient. The division, where the originals
    multiplied by a reciprocal, stays right up to the largest float32 scale, whose reciprocal is denormal and would be
    flushed to zero.

    Args:
        grads: nested structure of dense tensors, `tf.IndexedSlices` (which stay sparse) and None (which stays
            None), of any float dtype.
        scale: scalar float32 tensor; a constant in a graph is at most 2**126.

    Returns:
        The same structure, each gradient in its own dtype.

    Raises:
        AttributeError: a gradient has no dtype, as Python numbers have none.
    """
    return tf.nest.map_structure(lambda grad: _unscale(grad, scale), grads)


def _unscale(grad: Any, scale: Any) -> Any:
    if grad is None:
        return None
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(_unscale(grad.values, scale), grad.indices, grad.dense_shape)
    grad = tf.convert_to_tensor(grad, grad.dtype)
    if grad.dtype in _HALF_DTYPES:
        return tf.cast(tf.cast(grad, tf.float32) / scale, grad.dtype)
    if grad.dtype.is_floating or grad.dtype.is_complex:
        return grad / tf.cast(scale, grad.dtype)
    # TensorFlow differentiates no integers; where a user hands one in, it is multiplied as the originals did.
    return grad * tf.cast(1.0 / scale, grad.dtype)


def all_finite(grads: Any) -> Any:
    """Return whether every element of every gradient is finite.

    Args:
        grads: nested structure of dense tensors, `tf.IndexedSlices` (only the values are looked at, never
            densified), NumPy arrays, numbers, and None (ignored).

    Returns:
        Scalar boolean tensor; true for an empty structure, for None alone and for zero-size tensors.
    """
    checks = [_is_finite(grad) for grad in tf.nest.flatten(grads) if grad is not None]
    if not checks:
        return tf.constant(True)
    return checks[0] if len(checks) == 1 else tf.reduce_all(tf.stack(checks))


def _is_finite(grad: Any) -> Any:
    values = grad.values if isinstance(grad, tf.IndexedSlices) else grad
    return tf.reduce_all(tf.math.is_finite(values))
