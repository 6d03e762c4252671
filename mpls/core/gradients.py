"""Scale a loss and unscale gradients: dense, sparse and None; every float dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mpls.core.fast import choices
from mpls.core.fast.branches import value_of
from mpls.core.fast.calls import OneCall
from mpls.core.fast.stacks import Stacks

# float16 loses everything below 2**-24, and both lose bits of a scale that is no power of two.
_HALF_DTYPES = (tf.float16, tf.bfloat16)
# Elements from which on a copy costs more than a conditional.
_LARGE = 2**15
# Powers of two whose reciprocals are float16 numbers, denormal ones included.
_SMALLEST_EXACT, _LARGEST_EXACT = 2.0**-15, 2.0**24
# The bits of a float32 that are all zero in powers of two.
_MANTISSA = 2**23 - 1


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
    if isinstance(loss, tf.Tensor) and loss.dtype.is_floating:
        return _product(loss, value)
    return loss * tf.cast(value, loss.dtype)


def _product(tensor: Any, scale: Any) -> Any:
    # Without operators and casts that change nothing, which take longer than the op on small tensors.
    factor = scale if scale.dtype is tensor.dtype else tf.cast(scale, tensor.dtype)
    return tf.raw_ops.Mul(x=tensor, y=factor)


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
    # To look for nested structures takes longer than to unscale a gradient.
    is_flat = type(grads) is list and all(grad is None or isinstance(grad, _GRADIENTS) for grad in grads)
    flat = grads if is_flat else [_as_tensor(grad) for grad in tf.nest.flatten(grads)]
    given = [grad for grad in flat if grad is not None]
    values = iter(_unscale_all([values_of(grad) for grad in given], scale, sparse_places(given)))
    unscaled = [None if grad is None else with_values(grad, next(values)) for grad in flat]
    return unscaled if is_flat else tf.nest.pack_sequence_as(grads, unscaled)


_GRADIENTS = (tf.Tensor, tf.IndexedSlices)


def _as_tensor(grad: Any) -> Any:
    is_tensor = grad is None or isinstance(grad, tf.IndexedSlices) or tf.is_tensor(grad)
    return grad if is_tensor else tf.convert_to_tensor(grad, grad.dtype)


def values_of(grad: Any) -> Any:
    """Return what is numbers of a gradient: of `tf.IndexedSlices` the values, otherwise all."""
    return grad.values if isinstance(grad, tf.IndexedSlices) else grad


def sparse_places(grads: list[Any]) -> list[int]:
    """Return where the `tf.IndexedSlices` are, whose values may have another length in each step."""
    return [place for place, grad in enumerate(grads) if isinstance(grad, tf.IndexedSlices)]


def with_values(grad: Any, values: Any) -> Any:
    """Return a gradient with other numbers: `tf.IndexedSlices` stay sparse."""
    if not isinstance(grad, tf.IndexedSlices):
        return values
    return tf.IndexedSlices(values, grad.indices, grad.dense_shape)


def _unscale_all(tensors: list[Any], scale: Any, sparse: list[int]) -> list[Any]:
    if not tensors:
        return []
    known = tf.get_static_value(scale)
    is_exact = known is not None and _has_exact_reciprocal(known) and not choices.uses_plain_ways()
    if tf.executing_eagerly():
        return (_multiply_eagerly if is_exact else _divide_eagerly)([*tensors, scale], sparse)
    if known is not None:
        # A fixed scale: nothing else is done to these gradients for which it would pay to stack them.
        return (_multiply if is_exact else _divide)(tensors, scale)
    return _in_stacks(_unscale_in_graph, [*tensors, scale])


@OneCall
def _multiply_eagerly(tensors_and_scale: list[Any]) -> list[Any]:
    return _in_stacks(_multiply, tensors_and_scale)


@OneCall
def _divide_eagerly(tensors_and_scale: list[Any]) -> list[Any]:
    return _in_stacks(_divide, tensors_and_scale)


def _in_stacks(unscale: Callable[[list[Any], Any], list[Any]], tensors_and_scale: list[Any]) -> list[Any]:
    *tensors, scale = tensors_and_scale
    stacks = Stacks(tensors)
    return stacks.unstacked(unscale(stacks.tensors, scale))


def _divide(tensors: list[Any], scale: Any) -> list[Any]:
    return [_unscale(tensor, scale) for tensor in tensors]


def _multiply(tensors: list[Any], scale: Any) -> list[Any]:
    """Unscale tensors by a scale with an exact reciprocal.

    Large gradients of half precision are not copied in float32, and a known scale spares divisions and casts.
    """
    known = tf.get_static_value(scale)
    # There is one object for each dtype, and to hash it takes longer than all the rest.
    dtypes = {id(tensor.dtype): tensor.dtype for tensor in tensors}
    factors = {
        key: tf.cast(1.0 / scale, dtype) if known is None else tf.constant(1.0 / float(known), dtype)
        for key, dtype in dtypes.items()
        if dtype.is_floating
    }

    def unscale(tensor: Any) -> Any:
        factor = factors.get(id(tensor.dtype))
        return _unscale(tensor, scale) if factor is None else tf.raw_ops.Mul(x=tensor, y=factor)

    return [unscale(tensor) for tensor in tensors]


def _unscale_in_graph(tensors: list[Any], scale: Any) -> list[Any]:
    """Unscale tensors; large ones of half precision without a copy in float32, where the scale allows it."""
    large = [] if choices.uses_plain_ways() else [tensor for tensor in tensors if _is_large_half(tensor)]
    if not large:
        return _divide(tensors, scale)
    is_exact = _has_exact_reciprocal(scale)
    multiplied = value_of(is_exact, lambda: _multiply(large, scale), lambda: _divide(large, scale), large, "unscaled")
    unscaled = iter(multiplied)
    return [next(unscaled) if _is_large_half(tensor) else _unscale(tensor, scale) for tensor in tensors]


def _is_large_half(tensor: Any) -> bool:
    return tensor.dtype in _HALF_DTYPES and (tensor.shape.num_elements() or _LARGE) >= _LARGE


def _has_exact_reciprocal(scale: Any) -> Any:
    """Return whether the scale is a power of two, with a reciprocal that every float dtype holds exactly.

    To multiply by it then gives the same bits as to divide, in float32 where the gradient is of half precision.
    """
    # Not tf.is_tensor, which takes longer than all the rest to say that a number is none.
    if not isinstance(scale, tf.Tensor):
        return math.frexp(float(scale))[0] == 0.5 and _SMALLEST_EXACT <= scale <= _LARGEST_EXACT
    is_power_of_two = tf.equal(tf.bitwise.bitwise_and(tf.bitcast(scale, tf.int32), _MANTISSA), 0)
    return is_power_of_two & (scale >= _SMALLEST_EXACT) & (scale <= _LARGEST_EXACT)


def _unscale(grad: Any, scale: Any) -> Any:
    # Without the operator, which spends more time on conversions than the op on small tensors.
    if grad.dtype in _HALF_DTYPES:
        return tf.cast(tf.raw_ops.RealDiv(x=tf.cast(grad, tf.float32), y=scale), grad.dtype)
    if grad.dtype.is_floating or grad.dtype.is_complex:
        return tf.raw_ops.RealDiv(x=grad, y=tf.cast(scale, grad.dtype))
    # TensorFlow differentiates no integers; where a user hands one in, it is multiplied as the originals did.
    return grad * tf.cast(1.0 / scale, grad.dtype)
