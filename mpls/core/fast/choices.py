"""Which quick way to compute something is taken, and where.

The plain way to compute something is ops that every device and compiler has, one for each tensor. Each function here
says where another way is quicker, and still works: a graph may later be compiled by XLA, or run on another device.
`python -m benchmarks --ablate` measures what each way saves; tests and it replace these functions to switch a way off.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from mpls.upstream.tensorflow import eager_tensor_class, elements_of, is_compiled_by_xla, is_recorded

# From this many elements a matrix product saves more time in XLA's programs than it takes longer to compile.
_WORTH_A_PRODUCT = 2**12
# From this many elements a sum saves more time than the conditional takes that comes with it.
_WORTH_A_SUM = 2**14
# From this many elements a sum of squares is quicker than a product with a factor, which is written and read again.
_WORTH_SQUARES = 2**12
# From this many elements copying a tensor in float32 takes longer than a conditional.
_WORTH_A_RECIPROCAL = 2**15
# From this many tensors, or elements of one tensor, one function call beats one op each in eager mode.
_MANY = 4
_LARGE = 2**20


def uses_plain_ways() -> bool:
    """Return whether the ops that are made now are to be plain: XLA will compile them, and fuses them itself."""
    return is_compiled_by_xla()


def is_read_by_products(tensor: Any) -> bool:
    """Return whether to multiply a tensor by a small constant vector, and look at the result.

    In programs that XLA compiles for CPUs this reads the tensor once, where a reduction writes and reads a boolean for
    each element.

    Args:
        tensor: a dense tensor of any dtype.
    """
    elements = tensor.shape.num_elements()
    is_small = elements is not None and elements < _WORTH_A_PRODUCT
    if is_small or not tensor.dtype.is_floating:
        return False
    return is_compiled_by_xla() and _device_kinds(tensor.device) == {"CPU"}


def is_read_by_sums(tensor: Any) -> bool:
    """Return whether to sum a tensor of a graph to prove that it is finite, and look at each element if that fails.

    The sum reads the tensor with all processors and writes nothing, where a look at each element writes and reads
    booleans. Sums of half-precision numbers are infinite too soon.

    Args:
        tensor: a dense tensor of any dtype.
    """
    if tf.executing_eagerly() or uses_plain_ways() or tensor.dtype not in (tf.float32, tf.float64):
        return False
    return (tensor.shape.num_elements() or 0) >= _WORTH_A_SUM


def is_bounded_by_squares(tensor: Any) -> bool:
    """Return whether to sum the squares of a tensor to prove that its product with a factor is finite.

    The sum reads the tensor once, where the product is written and read again. Squares of half-precision numbers are
    infinite too soon.

    Args:
        tensor: a dense tensor of any dtype.
    """
    if uses_plain_ways() or tensor.dtype not in (tf.float32, tf.float64):
        return False
    return (tensor.shape.num_elements() or 0) >= _WORTH_SQUARES


def is_unscaled_by_reciprocal(tensor: Any) -> bool:
    """Return whether to multiply a tensor by the reciprocal of the scale, where that is exact.

    A half-precision tensor is otherwise copied in float32, divided and copied back.

    Args:
        tensor: a dense tensor of any dtype.
    """
    if uses_plain_ways() or tensor.dtype not in (tf.float16, tf.bfloat16):
        return False
    elements = tensor.shape.num_elements()
    return elements is None or elements >= _WORTH_A_RECIPROCAL


def needs_barriers() -> bool:
    """Return whether a branch that is made now needs an optimization barrier to stay a branch.

    XLA would turn a branch of elementwise ops into a select between the old variables, which it copies, and the new.
    """
    return is_compiled_by_xla()


def runs_in_one_call(tensors: list[Any]) -> bool:
    """Return whether a function of eager tensors is quicker as one op than op by op.

    It is for many tensors, and for large ones, which then are read on all processors; on machines without a GPU, whose
    first processor is the default device. A gradient tape that is recording has to see the ops themselves.

    Args:
        tensors: the arguments.
    """
    if not tf.executing_eagerly() or not all(isinstance(tensor, eager_tensor_class()) for tensor in tensors):
        return False
    if len(tensors) < _MANY and all(elements_of(tensor) < _LARGE for tensor in tensors):
        return False
    if uses_plain_ways() or is_recorded() or tf.distribute.has_strategy():
        return False
    devices = {tensor.device for tensor in tensors}
    return len(devices) == 1 and _is_default_cpu(devices.pop())


@functools.lru_cache(maxsize=256)
def _is_default_cpu(device: str) -> bool:
    spec = tf.DeviceSpec.from_string(device)
    is_first_cpu = spec.device_type == "CPU" and spec.device_index == 0
    return is_first_cpu and spec.job in (None, "localhost") and _present_kinds() == {"CPU"}


@functools.lru_cache(maxsize=256)
def _device_kinds(device: str) -> frozenset[str]:
    """Return the kinds of devices, as `'CPU'`, that a tensor may be on; for an empty string, all that there are."""
    kind = tf.DeviceSpec.from_string(device).device_type if device else None
    return frozenset({kind}) if kind else _present_kinds()


@functools.cache
def _present_kinds() -> frozenset[str]:
    # This does not initialize the devices, which users may still configure.
    return frozenset(device.device_type for device in tf.config.list_physical_devices() if "XLA" not in device.name)
