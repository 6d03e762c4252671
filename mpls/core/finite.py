"""Whether gradients are finite, all of them, read once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mpls.core.fast import choices
from mpls.core.fast.branches import value_of
from mpls.core.fast.calls import OneCall
from mpls.core.fast.stacks import Stacks
from mpls.core.gradients import sparse_places, values_of

# A summary reads its tensor in one thread: in graphs, large ones are read in pieces, by several. So many pieces, of all
# tensors together, that threads are busy to the end, and no more, as each is ops to build.
_PIECE_ELEMENTS = 2**17
_PIECES = 8
# With fewer, a product's result is nearly as large as what it reads; with more, its factor is denormal in float16.
_COLUMNS = range(8, 2**13)
# Of the summary op: two numbers, an id and whether anything is not finite.
_HEALTH = 2


def all_finite(grads: Any, factor: int = 1) -> Any:
    """Return whether every element of every gradient is finite.

    Args:
        grads: nested structure of dense tensors, `tf.IndexedSlices` (only the values are looked at, never
            densified), NumPy arrays, numbers, and None (ignored).
        factor: from 1 to 2**60; elements that are not finite if multiplied by it count as not finite.

    Returns:
        Scalar boolean tensor; true for an empty structure, for None alone and for zero-size tensors.
    """
    given = [grad for grad in tf.nest.flatten(grads) if grad is not None]
    if not given:
        return tf.constant(True)
    tensors = [_tensor(grad) for grad in given]
    return _check(tensors, sparse_places(given))[0] if factor == 1 else _stay_finite(tensors, factor)


@OneCall
def _check(tensors: list[Any]) -> list[Any]:
    return [_are_finite(tensors, 1)]


def _are_finite(tensors: list[Any], factor: int) -> Any:
    packed = Stacks(tensors).tensors
    if factor != 1:
        packed = [tensor * tf.cast(factor, tensor.dtype) for tensor in packed]
    if choices.is_small_alone(packed):
        return _is_finite(packed[0])
    summed, others = _split(packed, choices.is_read_by_sums)
    checks = [_have_finite_sums(summed)] if summed else []
    return _all(checks + _looks(others))


def _looks(tensors: list[Any]) -> list[Any]:
    """Return booleans that are all true if tensors are finite; none of them needs another look."""
    with_summary, plain = _split(tensors, choices.has_summary)
    damage = [_have_no_damage(_pieces(with_summary))] if with_summary else []
    return damage + [_is_finite(tensor) for tensor in plain]


def _have_finite_sums(tensors: list[Any]) -> Any:
    """Return whether tensors are finite, which they are if their sums are; where these are not, look again."""
    sums = [tf.reduce_sum(tensor) for tensor in tensors]
    if tf.executing_eagerly():
        return tf.constant(True) if all(math.isfinite(each.numpy()) for each in sums) else _all(_looks(tensors))
    # One that float32 does not hold is looked at again.
    total = tf.add_n([tf.cast(each, tf.float32) for each in sums])
    return _unless(tf.math.is_finite(total), lambda: _all(_looks(tensors)))


def _stay_finite(tensors: list[Any], factor: int) -> Any:
    """Return whether all elements are finite, multiplied by a factor too; without a product of what is large."""
    large, others = _split(tensors, choices.is_bounded_by_squares)
    if not large:
        return _are_finite(tensors, factor)
    # Of elements whose squares have a finite sum, none is near the largest number.
    squares = tf.add_n([tf.cast(tf.nn.l2_loss(tensor), tf.float32) for tensor in large])
    checks = [_unless(tf.math.is_finite(squares), lambda: _are_finite(large, factor))]
    if others:
        checks.append(_are_finite(others, factor))
    return _all(checks)


def _unless(are_finite: Any, look_again: Callable[[], Any]) -> Any:
    """Return whether all is finite, in a graph: what a first look says is so; at the rest, it takes another one."""
    return value_of(are_finite, lambda: tf.constant(True), look_again, [], "are_finite")


def _split(tensors: list[Any], applies: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    """Return the tensors of which something holds, and the others; each is asked once."""
    chosen: list[Any] = []
    others: list[Any] = []
    for tensor in tensors:
        (chosen if applies(tensor) else others).append(tensor)
    return chosen, others


def _tensor(grad: Any) -> Any:
    values = values_of(grad)
    return values if tf.is_tensor(values) else tf.convert_to_tensor(values)


def _is_finite(tensor: Any) -> Any:
    columns = tensor.shape[-1] if tensor.shape.rank else None
    if columns is not None and columns in _COLUMNS and choices.is_read_by_products(tensor):
        # A sum with anything in it that is not finite is not finite; the others are below the largest number.
        factor = tf.constant(2.0 ** -(columns.bit_length() + 1), tensor.dtype)
        tensor = tf.linalg.matvec(tf.reshape(tensor, [-1, columns]), tf.fill([columns], factor))
    return tf.reduce_all(tf.math.is_finite(tensor))


def _all(checks: list[Any]) -> Any:
    return checks[0] if len(checks) == 1 else tf.reduce_all(tf.stack(checks))


def _have_no_damage(tensors: list[Any]) -> Any:
    summaries = [
        tf.raw_ops.DebugNumericSummaryV2(input=tensor, tensor_debug_mode=_HEALTH, tensor_id=0) for tensor in tensors
    ]
    total = summaries[0] if len(summaries) == 1 else tf.raw_ops.AddN(inputs=summaries)
    if tf.executing_eagerly():
        return tf.constant(not total.numpy()[1])
    # The axis, as the op does not say that it returns a vector: to find that out takes ops of its own.
    return tf.equal(tf.reduce_sum(total, axis=0), 0.0)


def _pieces(tensors: list[Any]) -> list[Any]:
    """Return the parts of tensors that are read one by one; they share their memory."""
    if tf.executing_eagerly():
        return tensors
    least = max(_PIECE_ELEMENTS, sum(tensor.shape.num_elements() or 0 for tensor in tensors) // _PIECES)
    return [piece for tensor in tensors for piece in _pieces_of(tensor, least)]


def _pieces_of(tensor: Any, least: int) -> list[Any]:
    elements = tensor.shape.num_elements()
    count = (elements or 0) // least
    if count < 2:
        return [tensor]
    flat = tf.reshape(tensor, [-1])
    # Slices that start where the processor's vectors do are not copied.
    size = -(-elements // count // 1024) * 1024
    return [tf.slice(flat, [start], [min(size, elements - start)]) for start in range(0, elements, size)]
