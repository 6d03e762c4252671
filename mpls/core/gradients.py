"""Arithmetic on losses and gradients of every float dtype: scale, unscale, and check that all are finite."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core import fast
from mpls.core.fast import AsOneOp, Stacks, value_from, value_of
from mpls.errors import ArgumentValueError, TensorArgumentError, error_text
from mpls.upstream.tensorflow import eager_tensor_class

# Powers of two whose reciprocals are float16 numbers, denormal ones included.
_SMALLEST_EXACT, _LARGEST_EXACT = 2.0**-15, 2.0**24
_NUMBERS = (float, int, np.ndarray, np.generic)
# The bits of a float32 that are all zero in powers of two.
_MANTISSA = 2**23 - 1


def scale_loss(loss: Any, scale: Any | Callable[[Any], Any]) -> Any:
    """Multiply a loss by the loss scale, in the loss's own dtype.

    Args:
        loss: tensor or array of any shape and float dtype, a Python float, or a callable that takes nothing and
            returns one.
        scale: scalar float32 tensor; or a callable that takes the loss's dtype and returns one. It is called once the
            loss is known: a callable loss is multiplied by the scale at the time of its call.

    Returns:
        The scaled loss, of the loss's shape and dtype; for a callable loss, a callable that returns it.

    Raises:
        TypeError: `loss` is an integer, or of an integer dtype; a ValueError too, as with the optimizers of TF 1.
        AttributeError: `loss` is not a number, is not callable and has no dtype, as with the originals.
    """
    if callable(loss):

        def scaled_loss() -> Any:
            return scale_loss(loss(), scale)

        return scaled_loss
    loss = as_loss(loss, tf.convert_to_tensor)
    value = scale(loss.dtype) if callable(scale) else scale
    factor = _cast(value, loss.dtype)
    # In eager mode the operator takes twice as long as the op.
    return tf.raw_ops.Mul(x=loss, y=factor) if isinstance(loss, eager_tensor_class()) else loss * factor


def _cast(scale: Any, dtype: Any) -> Any:
    """Return a scale in a dtype; a scalar that has it, which `tf.cast` would look at for as long as an op takes."""
    return scale if scale.dtype == dtype else tf.cast(scale, dtype)


def as_loss(loss: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a loss as a tensor.

    Args:
        loss: a tensor, or a number or array, which `convert` makes one.
        convert: the function that does.

    Raises:
        TypeError: it is an integer, or of an integer dtype.
    """
    given = loss
    if isinstance(loss, _NUMBERS):
        loss = convert(loss)
    if not _can_be_scaled(loss.dtype):
        advice = "Cast it: tf.cast(loss, tf.float32)"
        raise TensorArgumentError(
            error_text("LossScaleOptimizer: loss", "have a float dtype", given, advice, "integer-losses")
        )
    return loss


# `is_floating` takes longer than scaling a loss.
@functools.cache
def _can_be_scaled(dtype: Any) -> bool:
    base = tf.as_dtype(dtype).base_dtype
    return bool(base.is_floating or base.is_complex)


def as_variables(var_list: Any) -> Any:
    """Return one variable, or a nest of them, as a list; for a callable that returns these, one that returns a list."""
    if callable(var_list):
        return lambda: as_variables(var_list())
    is_nest = isinstance(var_list, Mapping) or hasattr(var_list, "assign")
    return tf.nest.flatten(var_list if is_nest else list(var_list))


def require_gradient(grads_and_vars: Iterable[tuple[Any, Any]], subject: str, advice: str) -> None:
    """Refuse, before the loss scale changes, pairs without any gradient, as the wrapped optimizer would.

    Args:
        grads_and_vars: the pairs.
        subject: the public name of the wrapper, for the error.
        advice: how to compute gradients, for the error.

    Raises:
        ValueError: none has one.
    """
    pairs = list(grads_and_vars)
    if any(grad is not None for grad, _ in pairs):
        return
    names = [str(getattr(variable, "name", variable)) for _, variable in pairs]
    subject, constraint = f"{subject}: grads_and_vars", "hold at least one gradient that is not None"
    raise ArgumentValueError(error_text(subject, constraint, names, advice, "no-gradients"))


def largest_scale(dtype: Any) -> float:
    """Return the largest power of two that a loss of this dtype can be multiplied by: 2**15 for float16."""
    return math.ldexp(1.0, math.frexp(float(dtype.max))[1] - 1) if dtype.is_floating else math.inf


def unscale_gradients(grads: Any, scale: Any) -> Any:
    """Divide gradients by the loss scale.

    float16 and bfloat16 gradients are divided in float32 and rounded once. This is right also for scales with a
    reciprocal that these dtypes cannot hold. The originals multiplied by the reciprocal; a division is right up to the
    largest float32 scale, whose reciprocal is denormal and flushed to zero.

    Args:
        grads: nested structure of dense tensors, `tf.IndexedSlices` (which stay sparse) and None (which stays
            None), of any float dtype.
        scale: scalar float32 tensor; a constant in a graph is at most 2**126.

    Returns:
        The same structure, each gradient in its own dtype.

    Raises:
        AttributeError: a gradient has no dtype, as Python numbers have none.
    """
    flat = [_as_tensor(grad) for grad in tf.nest.flatten(grads)]
    given = [grad for grad in flat if grad is not None]
    values = iter(_unscale_all([values_of(grad) for grad in given], scale, sparse_places(given)))
    unscaled = [None if grad is None else with_values(grad, next(values)) for grad in flat]
    # What is a list already need not be packed, which takes as long as two ops of eager mode.
    is_flat = type(grads) is list and len(grads) == len(flat) and not any(map(tf.nest.is_nested, grads))
    return unscaled if is_flat else tf.nest.pack_sequence_as(grads, unscaled)


def _as_tensor(grad: Any) -> Any:
    is_tensor = grad is None or isinstance(grad, tf.IndexedSlices) or tf.is_tensor(grad)
    return grad if is_tensor else tf.convert_to_tensor(grad, grad.dtype)


def values_of(grad: Any) -> Any:
    """Return the dense tensor of a gradient: the values of `tf.IndexedSlices`, otherwise the gradient itself."""
    return grad.values if isinstance(grad, tf.IndexedSlices) else grad


def sparse_places(grads: list[Any]) -> list[int]:
    """Return the indices of the `tf.IndexedSlices`, whose values may have another length in each step."""
    return [place for place, grad in enumerate(grads) if isinstance(grad, tf.IndexedSlices)]


def with_values(grad: Any, values: Any) -> Any:
    """Return a gradient with other values; `tf.IndexedSlices` stay sparse."""
    if not isinstance(grad, tf.IndexedSlices):
        return values
    return tf.IndexedSlices(values, grad.indices, grad.dense_shape)


def _unscale_all(tensors: list[Any], scale: Any, sparse: list[int]) -> list[Any]:
    if not tensors:
        return []
    if tf.executing_eagerly():
        return _unscale_as_one_op([*tensors, scale], sparse)
    if tf.get_static_value(scale) is not None:
        # The scale is fixed: no finite check follows that could use the stacks too, and stacking costs more than it
        # saves.
        return _unscale_each(tensors, scale)
    return _unscale_stacked([*tensors, scale])


def _unscale_stacked(tensors_and_scale: list[Any]) -> list[Any]:
    *tensors, scale = tensors_and_scale
    stacks = Stacks(tensors)
    return stacks.unstacked(_unscale_each(stacks.tensors, scale))


_unscale_as_one_op = AsOneOp(_unscale_stacked)


def _unscale_each(tensors: list[Any], scale: Any) -> list[Any]:
    """Unscale tensors; large ones of half precision without a copy in float32, where the scale allows it."""
    large = [tensor for tensor in tensors if fast.is_unscaled_by_reciprocal(tensor)]
    if not large:
        return _divide(tensors, scale)
    known = tf.get_static_value(scale)
    is_exact = _has_exact_reciprocal(scale if known is None else float(known))
    multiplied = value_of(is_exact, lambda: _multiply(large, scale), lambda: _divide(large, scale), "unscaled")
    unscaled = iter(multiplied)
    return [next(unscaled) if fast.is_unscaled_by_reciprocal(tensor) else _unscale(tensor, scale) for tensor in tensors]


def _divide(tensors: list[Any], scale: Any) -> list[Any]:
    return [_unscale(tensor, scale) for tensor in tensors]


def _multiply(tensors: list[Any], scale: Any) -> list[Any]:
    """Unscale tensors by a scale with an exact reciprocal."""
    reciprocal = tf.math.reciprocal(scale)
    return [tensor * tf.cast(reciprocal, tensor.dtype) for tensor in tensors]


def _has_exact_reciprocal(scale: Any) -> Any:
    """Return whether the scale is a power of two with a reciprocal that float16 and bfloat16 hold exactly.

    Multiplying by the reciprocal then gives the same bits as dividing in float32.

    Args:
        scale: scalar float32 tensor, or a float.

    Returns:
        Scalar boolean tensor; a bool for a float.
    """
    if not tf.is_tensor(scale):
        return math.frexp(scale)[0] == 0.5 and _SMALLEST_EXACT <= scale <= _LARGEST_EXACT
    is_power_of_two = tf.equal(tf.bitwise.bitwise_and(tf.bitcast(scale, tf.int32), _MANTISSA), 0)
    return is_power_of_two & (scale >= _SMALLEST_EXACT) & (scale <= _LARGEST_EXACT)


def _unscale(grad: Any, scale: Any) -> Any:
    if grad.dtype in fast.HALF_DTYPES:
        # float16 loses everything below 2**-24, and both lose bits of a scale that is no power of two.
        return tf.cast(tf.cast(grad, tf.float32) / scale, grad.dtype)
    if grad.dtype.is_floating or grad.dtype.is_complex:
        # In eager mode the operator takes several times as long as the op.
        return tf.raw_ops.RealDiv(x=grad, y=_cast(scale, grad.dtype))
    # Integers have no gradients; one that a user passes is multiplied by the reciprocal, as in the originals.
    return grad * tf.cast(1.0 / scale, grad.dtype)


# Columns for which a matrix product is used: with fewer, its result is nearly as large as the matrix; with more, its
# constant vector is denormal in float16.
_COLUMNS = range(8, 2**13)


def all_finite(grads: Any, factor: int = 1) -> Any:
    """Return whether every element of every gradient is finite.

    Args:
        grads: nested structure of dense tensors, `tf.IndexedSlices` (only the values are looked at, never
            densified), NumPy arrays, numbers, and None (ignored).
        factor: from 1 to 2**60; elements whose product with it is not finite count as not finite.

    Returns:
        Scalar boolean tensor; true for an empty structure, for None alone and for zero-size tensors.
    """
    given = [grad for grad in tf.nest.flatten(grads) if grad is not None]
    if not given:
        return tf.constant(True)
    tensors = [_tensor(grad) for grad in given]
    return _check(tensors, sparse_places(given))[0] if factor == 1 else _stay_finite(tensors, factor)


def finite_at_once(grads: list[Any]) -> Any:
    """Return what `all_finite` does; a bool where NumPy looks, which takes a tenth of the time of ops in eager mode.

    Args:
        grads: tensors, `tf.IndexedSlices` and None.
    """
    tensors = [values_of(grad) for grad in grads if grad is not None]
    if fast.are_read_by_numpy(tensors):
        return all(np.isfinite(tensor.numpy()).all() for tensor in tensors)
    return all_finite(grads)


def no_infinity(grads: Any) -> Any:
    """Return whether no element of any gradient is infinite; as `all_finite`."""
    return _none_is(tf.math.is_inf, grads)


def no_nan(grads: Any) -> Any:
    """Return whether no element of any gradient is NaN; as `all_finite`."""
    return _none_is(tf.math.is_nan, grads)


def _none_is(kind: Callable[[Any], Any], grads: Any) -> Any:
    tensors = [_tensor(grad) for grad in tf.nest.flatten(grads) if grad is not None]
    return ~tf.reduce_any(tf.stack([tf.reduce_any(kind(reals_of(tensor))) for tensor in Stacks(tensors).tensors]))


@AsOneOp
def _check(tensors: list[Any]) -> list[Any]:
    return [_are_finite(tensors, 1)]


def _are_finite(tensors: list[Any], factor: int) -> Any:
    stacked = [reals_of(tensor) for tensor in Stacks(tensors).tensors]
    if factor != 1:
        stacked = [tensor * tf.cast(factor, tensor.dtype) for tensor in stacked]
    summed = [tensor for tensor in stacked if fast.is_read_by_sums(tensor)]
    others = [tensor for tensor in stacked if not fast.is_read_by_sums(tensor)]
    by_products = fast.are_read_by_products(others)
    checks = [_is_finite(tensor, by_products=by_products) for tensor in others]
    return _all(checks + ([_have_finite_sums(summed)] if summed else []))


def _have_finite_sums(tensors: list[Any]) -> Any:
    """Return whether tensors of a graph are finite: if the sum of all elements is finite, else if each element is."""
    total = tf.add_n([tf.cast(tf.reduce_sum(tensor), tf.float32) for tensor in tensors])
    return _unless(tf.math.is_finite(total), lambda *given: _all([_is_finite(tensor) for tensor in given]), tensors)


def _unless(are_finite: Any, check_all: Callable[..., Any], tensors: list[Any]) -> Any:
    """Return true if a cheap check has passed, and otherwise, in a conditional, the result of the full check."""
    return value_from(tensors, are_finite, lambda *_: tf.constant(True), check_all, "are_finite")


def _stay_finite(tensors: list[Any], factor: int) -> Any:
    """Return whether all elements are finite, and so are their products with a factor."""
    large = [tensor for tensor in tensors if fast.is_bounded_by_squares(tensor)]
    if not large:
        return _are_finite(tensors, factor)
    # If the sum of squares is finite, no element is near the largest number, and the products need not be computed.
    squares = tf.add_n([tf.cast(tf.nn.l2_loss(tensor), tf.float32) for tensor in large])
    checks = [_unless(tf.math.is_finite(squares), lambda *given: _are_finite(list(given), factor), large)]
    others = [tensor for tensor in tensors if not fast.is_bounded_by_squares(tensor)]
    if others:
        checks.append(_are_finite(others, factor))
    return _all(checks)


def reals_of(tensor: Any) -> Any:
    """Return a tensor; for a complex one its real and imaginary parts, as TensorFlow looks at floats only."""
    return tf.stack([tf.math.real(tensor), tf.math.imag(tensor)]) if tensor.dtype.is_complex else tensor


def _tensor(grad: Any) -> Any:
    values = values_of(grad)
    return values if tf.is_tensor(values) else tf.convert_to_tensor(values)


def _is_finite(tensor: Any, *, by_products: bool = False) -> Any:
    # Eager tensors make it anew each time.
    shape = tensor.shape
    columns = shape[-1] if shape.rank else None
    if by_products and columns is not None and columns in _COLUMNS and fast.is_read_by_products(tensor):
        # The constant is so small that no product of finite numbers is infinite; all other products are not finite.
        constant = tf.constant(2.0 ** -(columns.bit_length() + 1), tensor.dtype)
        tensor = tf.linalg.matvec(tf.reshape(tensor, [-1, columns]), tf.fill([columns], constant))
        shape = tensor.shape
    if not shape.rank:
        return tf.reduce_all(tf.math.is_finite(tensor))
    # In eager mode the functions take several times as long as the ops, and a list as long as both.
    return tf.raw_ops.All(input=tf.raw_ops.IsFinite(x=tensor), axis=np.arange(shape.rank, dtype=np.int32))


def _all(checks: list[Any]) -> Any:
    return checks[0] if len(checks) == 1 else tf.reduce_all(tf.stack(checks))
