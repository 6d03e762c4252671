"""The quick ways to compute a step: which of them is taken, and what each does."""

from __future__ import annotations

import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from mpls.core.gates import gated
from mpls.upstream.tensorflow import (
    eager_tensor_class,
    elements_of,
    is_compiled_by_xla,
    is_recorded,
    kinds_of,
    quick_call,
)

# From this many elements a matrix product saves more time in XLA's programs than it takes longer to compile.
_WORTH_A_PRODUCT = 2**12
# Tensors that have fewer elements together are in the processor's cache, where products take longer.
_WORTH_PRODUCTS = 2**17
# From this many elements a sum saves more time than the conditional takes that comes with it.
_WORTH_A_SUM = 2**12
# From this many elements a sum of squares is quicker than a product with a factor, which is written and read again.
_WORTH_SQUARES = 2**12
# From this many elements copying a tensor in float32 takes longer than a conditional.
_WORTH_A_RECIPROCAL = 2**15
# From this many tensors, passing each into a conditional takes longer than a conditional that is one op.
_WORTH_ONE_OP = 32
# From this many tensors, or elements of one tensor, one function call beats one op each in eager mode.
_MANY = 4
_LARGE = 2**20
# Sets, as a function of Python compares dtypes, and none hashes them.
HALF_DTYPES = frozenset({tf.float16, tf.bfloat16})
# NumPy's own dtypes. Of others, such as bfloat16, it warns at NaNs.
_READ_BY_NUMPY = frozenset({tf.float16, tf.float32, tf.float64})


def uses_plain_ways() -> bool:
    """Return whether the ops that are made now are to be plain: XLA will compile them, and fuses them itself."""
    return is_compiled_by_xla()


def are_read_by_products(tensors: list[Any]) -> bool:
    """Return whether to look at large tensors by products, as `is_read_by_products` says of each.

    Args:
        tensors: all that are looked at in a step.
    """
    if not is_compiled_by_xla():
        return False
    elements = [tensor.shape.num_elements() for tensor in tensors]
    return None in elements or sum(elements) >= _WORTH_PRODUCTS


def is_read_by_products(tensor: Any) -> bool:
    """Return whether to multiply a tensor by a small constant vector, and look at the result.

    In programs that XLA compiles for CPUs this reads the tensor once, where a reduction writes and reads a boolean for
    each element.

    Args:
        tensor: a dense tensor of any dtype.
    """
    elements = tensor.shape.num_elements()
    is_small = elements is not None and elements < _WORTH_A_PRODUCT
    return not is_small and tensor.dtype.is_floating and _device_kinds(tensor.device) == {"CPU"}


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
    if tensor.dtype not in HALF_DTYPES or uses_plain_ways():
        return False
    elements = tensor.shape.num_elements()
    return elements is None or elements >= _WORTH_A_RECIPROCAL


def runs_as_one_op(tensors: list[Any]) -> bool:
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


def are_read_by_numpy(tensors: list[Any]) -> bool:
    """Return whether NumPy is to look at eager tensors: at few small ones, on machines without a GPU.

    Args:
        tensors: dense tensors.
    """
    if len(tensors) >= _MANY or not tf.executing_eagerly():
        return False
    return all(
        isinstance(tensor, eager_tensor_class())
        and elements_of(tensor) < _WORTH_A_SUM
        and tensor.dtype in _READ_BY_NUMPY
        and _is_default_cpu(tensor.device)
        for tensor in tensors
    )


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


def one_of(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """Run one of two branches for its side effects.

    Args:
        condition: scalar boolean tensor; if its value is known, or for a bool, there is no conditional.
        if_true: returns an op, or None.
        if_false: the same; it is the branch that is seldom taken.

    Returns:
        In a graph, an op that does it; in eager mode None.
    """
    known = condition if isinstance(condition, bool) else tf.get_static_value(condition)
    if known is not None:
        return group(if_true() if known else if_false())
    if _can_be_gated():
        return gated(condition, lambda: group(if_true()), lambda: group(if_false()))
    return group(tf.cond(condition, lambda: group(if_true()), lambda: group(_apart(if_false))))


def value_of(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], name: str) -> Any:
    """Return one of two tensors, or lists of tensors; the branches have no side effects.

    Args:
        condition: scalar boolean tensor; for a bool, there is no conditional.
        if_true: returns them.
        if_false: the same.
        name: name of the conditional: an unnamed one would shift later `cond_N` scopes and so checkpoint names.
    """
    if isinstance(condition, bool):
        return if_true() if condition else if_false()
    return tf.cond(condition, if_true, if_false, name=name)


def value_from(
    tensors: list[Any], condition: Any, if_true: Callable[..., Any], if_false: Callable[..., Any], name: str
) -> Any:
    """Return a tensor that one of two functions computes from tensors.

    `tf.cond` passes each tensor through an op of its own, in each step. A conditional that is one op passes none; it
    runs on one device, so that it is not used where there are others.

    Args:
        tensors: dense tensors.
        condition: scalar boolean tensor.
        if_true: gets the tensors, depends on nothing else and has no side effects.
        if_false: the same; it returns a tensor of the same shape and dtype, and is the branch that is seldom taken.
        name: as in `value_of`.
    """
    if not (_is_simple_graph() and len(tensors) >= _WORTH_ONE_OP and _present_kinds() == {"CPU"}):
        return value_of(condition, lambda: if_true(*tensors), lambda: _apart(lambda: if_false(*tensors)), name)
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
    branches = [tf.function(branch, autograph=False).get_concrete_function(*specs) for branch in (if_true, if_false)]
    (output,) = branches[0].outputs
    (result,) = tf.raw_ops.StatelessIf(
        cond=condition,
        input=tensors,
        Tout=[output.dtype],
        then_branch=branches[0],
        else_branch=branches[1],
        output_shapes=[output.shape],
        name=name,
    )
    return result


def _apart(build: Callable[[], Any]) -> Any:
    """Build a branch that is seldom taken, in a function's graph by one op.

    TensorFlow takes conditionals apart, and passes over each op of the branch that is not taken in each step. The call
    of a function that it must not take apart is one op, and the ops in it may be on several devices.
    """
    return _called(build) if _is_simple_graph() else build()


def apart_in_session(build: Callable[[], Any], variables: Iterable[Any]) -> Any:
    """Build a part of a branch that is seldom taken, in a session's graph by one op, as `one_of` does it elsewhere.

    There, a branch may use reference variables, which no function can, or variables of other processes.

    Args:
        build: returns an op, or None.
        variables: all that it uses, none of them a reference variable.
    """
    if not _can_be_gated():
        return build()
    jobs = {tf.DeviceSpec.from_string(variable.device).job for variable in variables}
    return _called(build) if jobs <= {None, "localhost"} else build()


def _called(build: Callable[[], Any]) -> Any:
    def run() -> Any:
        result = build()
        # Whoever waits for the call waits for all that has an effect in the function.
        return result if tf.is_tensor(result) else tf.constant(True)

    # Entered anew, so that `init_scope` leads there: out of the default graph of a program that has used TensorFlow
    # before it disables TF 2, it leads to eager mode and the variables of that.
    with tf.compat.v1.get_default_graph().as_default():
        return tf.function(run, autograph=False, experimental_attributes={"_noinline": True})()


def _can_be_gated() -> bool:
    # Functions order the ops that use a variable, and replicas have threads: neither would see the gates.
    return _is_simple_graph() and not tf.compat.v1.get_default_graph().building_function


def _is_simple_graph() -> bool:
    """Return whether ops that are made now are in a graph, without XLA and replicas."""
    return not (tf.executing_eagerly() or uses_plain_ways() or tf.distribute.has_strategy())


def group(*results: Any, name: str | None = None) -> Any:
    """Return one op that runs all results, per-replica ones among them; None in eager mode.

    Args:
        *results: ops, tensors, per-replica values of either, and None, which is ignored.
        name: name of the op.
    """
    if tf.executing_eagerly():
        return None
    ops: list[Any] = []
    for result in results:
        ops.extend(op for op in tf.distribute.get_strategy().experimental_local_results(result) if op is not None)
    return tf.group(*ops, name=name)


# Tracing takes as long as dozens of calls without it, so only a third call with the same cache key traces.
_CALLS_BEFORE = 2
_MOST_FUNCTIONS = 16


class AsOneOp:
    """A function of eager tensors that is traced, and run as one op, once it is called again with such tensors.

    In graphs, and where one op cannot do it, the function runs as it is written.

    Args:
        fn: gets a list of dense tensors and returns one. For floating-point tensors it does the same traced as in eager
            mode; it depends on nothing else and has no side effects.
    """

    def __init__(self, fn: Callable[[list[Any]], list[Any]]) -> None:
        self._fn = fn
        self._lock = threading.Lock()
        # By cache key: the traced function, or the number of calls so far; the last used one at the end.
        self._functions: OrderedDict[Any, Any] = OrderedDict()

    def __call__(self, tensors: list[Any], varying: Sequence[int] = ()) -> list[Any]:
        """Return what the function returns.

        Args:
            tensors: its argument.
            varying: indices of tensors whose shape may differ from call to call; the cache key ignores it.
        """
        function = self._function_for(tensors, varying) if runs_as_one_op(tensors) else None
        return self._fn(tensors) if function is None else function(tensors)

    def _function_for(self, tensors: list[Any], varying: Sequence[int]) -> Any:
        key = kinds_of(tensors, varying)
        with self._lock:
            known = self._functions.get(key, 0)
            if isinstance(known, int):
                known = known + 1 if known < _CALLS_BEFORE else self._traced(tensors, varying)
            self._functions[key] = known
            self._functions.move_to_end(key)
            if len(self._functions) > _MOST_FUNCTIONS:
                self._functions.popitem(last=False)
        return None if isinstance(known, int) else known

    def _traced(self, tensors: list[Any], varying: Sequence[int]) -> Any:
        if not all(tensor.dtype.is_floating for tensor in tensors):
            # They are no gradients; untraced ops raise the errors that users expect.
            return self._fn
        shapes = [None if index in varying else tensor.shape for index, tensor in enumerate(tensors)]
        specs = [tf.TensorSpec(shape, tensor.dtype) for shape, tensor in zip(shapes, tensors, strict=True)]
        function = tf.function(lambda *args: self._fn(list(args)), autograph=False)
        return quick_call(function.get_concrete_function(*specs))


# Copying larger tensors into a stack takes longer than the ops that it saves.
MOST_ELEMENTS = 512
_FEWEST_TENSORS = 4


class Stacks:
    """Dense tensors, of which small ones of the same dtype, shape and device are stacked.

    Args:
        tensors: the tensors.

    Attributes:
        tensors: the stacks, and the tensors that are in no stack.
    """

    def __init__(self, tensors: list[Any]) -> None:
        self._count = len(tensors)
        self._places = [[index] for index in range(self._count)]
        if len(tensors) >= _FEWEST_TENSORS and not uses_plain_ways():
            self._places = _grouped(tensors)
        self.tensors: list[Any] = [
            tensors[places[0]] if len(places) == 1 else _stack([tensors[place] for place in places])
            for places in self._places
        ]

    def unstacked(self, results: list[Any]) -> list[Any]:
        """Return the results for the original tensors, in their order.

        Args:
            results: the result for each of `self.tensors`, of the same shape.
        """
        unstacked: list[Any] = [None] * self._count
        for places, result in zip(self._places, results, strict=True):
            parts = [result] if len(places) == 1 else tf.raw_ops.Unpack(value=result, num=len(places))
            for place, part in zip(places, parts, strict=True):
                unstacked[place] = part
        return unstacked


def _grouped(tensors: list[Any]) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for index, tensor in enumerate(tensors):
        shape = tensor.shape
        # tuple(shape) would hold Dimension objects in programs with TF 1 behaviour, and these have no hash.
        dims = None if shape.rank is None else tuple(shape.as_list())
        groups.setdefault((tensor.dtype, dims, tensor.device), []).append(index)
    places: list[list[int]] = []
    for (_, dims, _), members in groups.items():
        is_known = dims is not None and None not in dims
        if is_known and len(members) >= _FEWEST_TENSORS and math.prod(dims) <= MOST_ELEMENTS:
            places.append(members)
        else:
            places += [[member] for member in members]
    return places


def _stack(tensors: list[Any]) -> Any:
    stacked = _unstacked_from(tensors)
    return tf.raw_ops.Pack(values=tensors) if stacked is None else stacked


def _unstacked_from(tensors: list[Any]) -> Any:
    """Return the stack that these tensors of a graph are all parts of, in their order; None if there is none."""
    if tf.executing_eagerly():
        return None
    # Functions capture eager tensors, which have no op.
    maker = getattr(tensors[0], "op", None)
    if maker is None:
        return None
    is_whole = maker.type == "Unpack" and len(maker.outputs) == len(tensors) and maker.get_attr("axis") == 0
    if is_whole and all(output is tensor for output, tensor in zip(maker.outputs, tensors, strict=True)):
        return maker.inputs[0]
    return None
