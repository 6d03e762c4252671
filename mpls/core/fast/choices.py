"""Which of several ways to compute the same thing is taken: chosen here and nowhere else.

Some fast ways need an op that not every device and compiler has. They are taken only for ops that run at once, where
the device is known: nobody knows who will compile a graph, or where it will run. Others read better alone than in a
compiled program. The plain ones are there for those; `plain_ways` takes them everywhere.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from mpls.flags import Flag
from mpls.upstream import elements_of, is_compiled_by_xla, is_recorded, kernels_of

SUMMARY_OP = "DebugNumericSummaryV2"
# Elements from which on XLA's programs read products faster than they take longer to compile.
_WORTH_A_PRODUCT = 2**12
# Elements from which on to read with all processors saves more time than the conditional takes that comes with it.
_WORTH_A_SUM = 2**21
# Elements from which on to write and read a product takes longer than another op.
_WORTH_SQUARES = 2**12
# Elements that take about as long to read and write as a switch takes.
_SMALL = 2**14
# Tensors for which a call takes less time than an op for each; or, in fewer, elements.
_MANY = 4
_LARGE = 2**20

# Of the dtypes that every device can sum.
_SUMMED = frozenset((tf.float16, tf.bfloat16, tf.float32, tf.float64))

_asks_for_plain = Flag("_asks_for_plain")
_runs_at_once = Flag("_runs_at_once")


def plain_ways() -> AbstractContextManager[None]:
    """Take the plain ways in a block, of this thread: what they compute is the same, to the last bit."""
    return _asks_for_plain.raised()


def run_at_once() -> AbstractContextManager[None]:
    """Say that the graph that a block makes is part of no other, and runs in eager mode on the tensors' device."""
    return _runs_at_once.raised()


def uses_plain_ways() -> bool:
    """Return whether ops that are made now will be compiled by XLA, which fuses plain ops, or are asked to be plain."""
    return _asks_for_plain.is_raised or is_compiled_by_xla()


def has_summary(tensor: Any) -> bool:
    """Return whether one op that reads a tensor once can tell if it is finite: in eager mode, where a kernel is there.

    Args:
        tensor: a dense tensor; where its device is not known, any device of this process may get it.
    """
    is_placed = tf.executing_eagerly() or _runs_at_once.is_raised
    if not is_placed or uses_plain_ways() or not tensor.dtype.is_floating:
        return False
    return all((kind, tensor.dtype.base_dtype) in _summary_kernels() for kind in _device_kinds(tensor.device))


def is_read_by_sums(tensor: Any) -> bool:
    """Return whether to sum a tensor is the best way to tell that it is finite, if the sum is.

    A sum reads with all processors and has kernels everywhere, but needs another look behind it, in a conditional.

    Args:
        tensor: a dense tensor of any dtype.
    """
    if uses_plain_ways() or tensor.dtype.base_dtype not in _SUMMED:
        return False
    if not has_summary(tensor):
        return not tf.executing_eagerly()
    is_large = _elements(tensor) >= _WORTH_A_SUM and tensor.dtype in (tf.float32, tf.float64)
    return is_large and _device_kinds(tensor.device) == {"CPU"}


def is_small_alone(tensors: list[Any]) -> bool:
    """Return whether there is one tensor only, so small that in a graph nothing is worth a third op.

    Args:
        tensors: dense tensors.
    """
    if len(tensors) > 1 or tf.executing_eagerly():
        return False
    elements = tensors[0].shape.num_elements()
    return elements is not None and elements < _SMALL


def is_read_by_products(tensor: Any) -> bool:
    """Return whether a matrix product is the best way to read a tensor.

    That is so in a program that XLA compiles for CPUs: it splits reductions, and writes and reads their operands, but
    not those of products.

    Args:
        tensor: a dense tensor of any float dtype.
    """
    elements = tensor.shape.num_elements()
    is_small = elements is not None and elements < _WORTH_A_PRODUCT
    if _asks_for_plain.is_raised or not tensor.dtype.is_floating or is_small:
        return False
    return is_compiled_by_xla() and _device_kinds(tensor.device) == {"CPU"}


def is_bounded_by_squares(tensor: Any) -> bool:
    """Return whether to sum the squares of a tensor is the best way to find that no element is near the largest number.

    That reads a tensor once, where its product with a factor has to be written and read again. Half precision has too
    small a range for squares.

    Args:
        tensor: a dense tensor of any dtype.
    """
    if uses_plain_ways() or tensor.dtype not in (tf.float32, tf.float64):
        return False
    return _elements(tensor) >= _WORTH_SQUARES


def needs_barriers() -> bool:
    """Return whether a branch that is made now needs a barrier in it to stay a branch.

    XLA runs one of elementwise ops alone in any case, and then selects between the old variables, which it copies, and
    the new ones.
    """
    return is_compiled_by_xla()


def updates_in_python() -> bool:
    """Return whether the state of a loss scale is better computed by Python: in eager mode, on one device."""
    return tf.executing_eagerly() and not tf.distribute.has_strategy()


def runs_in_one_call(tensors: list[Any]) -> bool:
    """Return whether a function of these tensors is better called as one op than op by op.

    That is so in eager mode, on machines whose first processor is where ops are by default, for many tensors, and for
    large ones, which then are read on all processors. A tape that is recording has to see the ops themselves.

    Args:
        tensors: what goes in.
    """
    if not tf.executing_eagerly() or not all(isinstance(tensor, tf.__internal__.EagerTensor) for tensor in tensors):
        return False
    if len(tensors) < _MANY and all(elements_of(tensor) < _LARGE for tensor in tensors):
        return False
    if _asks_for_plain.is_raised or is_recorded() or tf.distribute.has_strategy():
        return False
    devices = {tensor.device for tensor in tensors}
    return len(devices) == 1 and _is_default_cpu(devices.pop())


def runs_branches_whole(tensors: list[Any], devices: set[str]) -> bool:
    """Return whether the branches of a conditional are to run as one function each, on one device.

    TensorFlow otherwise inlines both, and gives each tensor that goes in a switch of its own. It has to where a branch
    spans devices; and it should where tensors are large: a function's ops do not reuse the memory of what goes in.

    Args:
        tensors: what goes in.
        devices: those of all ops in the branches and of all that goes in; empty strings for those not known.
    """
    known = {device for device in devices if device}
    if uses_plain_ways() or len(known) > 1 or not _is_local_cpu(known.pop() if known else ""):
        return False
    elements = [tensor.shape.num_elements() for tensor in tensors]
    return None not in elements and sum(elements) <= _SMALL * len(elements)


def _elements(tensor: Any) -> int:
    """Return the number of elements; where it is not known, none."""
    if isinstance(tensor, tf.__internal__.EagerTensor):
        return elements_of(tensor)
    return tensor.shape.num_elements() or 0


@functools.lru_cache(maxsize=256)
def _is_default_cpu(device: str) -> bool:
    return _is_local_cpu(device) and tf.DeviceSpec.from_string(device).device_index == 0 and _present_kinds() == {"CPU"}


def _is_local_cpu(device: str) -> bool:
    spec = tf.DeviceSpec.from_string(device)
    return spec.job in (None, "localhost") and _device_kinds(device) == {"CPU"}


@functools.lru_cache(maxsize=256)
def _device_kinds(device: str) -> frozenset[str]:
    kind = tf.DeviceSpec.from_string(device).device_type if device else None
    return frozenset({kind}) if kind else _present_kinds()


@functools.cache
def _present_kinds() -> frozenset[str]:
    # Without starting the devices, which users configure later.
    return frozenset(device.device_type for device in tf.config.list_physical_devices() if "XLA" not in device.name)


@functools.cache
def _summary_kernels() -> frozenset[tuple[str, Any]]:
    return kernels_of(SUMMARY_OP)
