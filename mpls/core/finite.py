"""The check whether all gradients are finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mpls.core.fast import choices
from mpls.core.fast.branches import value_of
from mpls.core.fast.one_call import OneCall
from mpls.core.fast.stacks import Stacks
from mpls.core.gradients import sparse_places, values_of

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


def no_infinity(grads: Any) -> Any:
    """Return whether no element of any gradient is infinite; as `all_finite`."""
    return _none_is(tf.math.is_inf, grads)


def no_nan(grads: Any) -> Any:
    """Return whether no element of any gradient is NaN; as `all_finite`."""
    return _none_is(tf.math.is_nan, grads)


def _none_is(kind: Callable[[Any], Any], grads: Any) -> Any:
    tensors = [_tensor(grad) for grad in tf.nest.flatten(grads) if grad is not None]
    return ~_any([tf.reduce_any(kind(tensor)) for tensor in Stacks(tensors).tensors])


def _any(checks: list[Any]) -> Any:
    return tf.reduce_any(tf.stack(checks))


@OneCall
def _check(tensors: list[Any]) -> list[Any]:
    return [_are_finite(tensors, 1)]


def _are_finite(tensors: list[Any], factor: int) -> Any:
    stacked = Stacks(tensors).tensors
    if factor != 1:
        stacked = [tensor * tf.cast(factor, tensor.dtype) for tensor in stacked]
    summed = [tensor for tensor in stacked if choices.is_read_by_sums(tensor)]
    others = [tensor for tensor in stacked if not choices.is_read_by_sums(tensor)]
    return _all([_is_finite(tensor) for tensor in others] + ([_have_finite_sums(summed)] if summed else []))


def _have_finite_sums(tensors: list[Any]) -> Any:
    """Return whether tensors of a graph are finite: if the sum of all elements is finite, else if each element is."""
    total = tf.add_n([tf.cast(tf.reduce_sum(tensor), tf.float32) for tensor in tensors])
    return _unless(tf.math.is_finite(total), lambda: _all([_is_finite(tensor) for tensor in tensors]))


def _unless(are_finite: Any, check_all: Callable[[], Any]) -> Any:
    """Return true if a cheap check has passed, and otherwise, in a conditional, the result of the full check."""
    return value_of(are_finite, lambda: tf.constant(True), check_all, "are_finite")


def _stay_finite(tensors: list[Any], factor: int) -> Any:
    """Return whether all elements are finite, and so are their products with a factor."""
    large = [tensor for tensor in tensors if choices.is_bounded_by_squares(tensor)]
    if not large:
        return _are_finite(tensors, factor)
    # If the sum of squares is finite, no element is near the largest number, and the products need not be computed.
    squares = tf.add_n([tf.cast(tf.nn.l2_loss(tensor), tf.float32) for tensor in large])
    checks = [_unless(tf.math.is_finite(squares), lambda: _are_finite(large, factor))]
    others = [tensor for tensor in tensors if not choices.is_bounded_by_squares(tensor)]
    if others:
        checks.append(_are_finite(others, factor))
    return _all(checks)


def _tensor(grad: Any) -> Any:
    values = values_of(grad)
    return values if tf.is_tensor(values) else tf.convert_to_tensor(values)


def _is_finite(tensor: Any) -> Any:
    columns = tensor.shape[-1] if tensor.shape.rank else None
    if columns is not None and columns in _COLUMNS and choices.is_read_by_products(tensor):
        # The constant is so small that no product of finite numbers is infinite; all other products are not finite.
        constant = tf.constant(2.0 ** -(columns.bit_length() + 1), tensor.dtype)
        tensor = tf.linalg.matvec(tf.reshape(tensor, [-1, columns]), tf.fill([columns], constant))
    return tf.reduce_all(tf.math.is_finite(tensor))


def _all(checks: list[Any]) -> Any:
    return checks[0] if len(checks) == 1 else tf.reduce_all(tf.stack(checks))
