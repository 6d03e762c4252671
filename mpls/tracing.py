"""Records what the loss-scaling optimizers of a program do at each step.

    python mpls_recorder.py OUT.json program.py --its --own=arguments

`mpls trace --recorder` prints this file for old machines: it needs Python 3.6 or later, and nothing but the TensorFlow
that the program uses, 1.13 to 2.15. `mpls trace` records by it too, on today's TensorFlow. So it imports nothing of
mpls, and annotations that Python 3.6 does not know are texts. `mpls compare` compares the traces.
"""

import argparse
import fnmatch
import functools
import json
import math
import os
import struct
import sys
import threading
import weakref
import zlib
from typing import Any, NamedTuple

# Norms of arrays in float64, digests of their bits, and how many of their elements are not finite.

# An array with at least this many elements is measured by itself; smaller ones are measured together.
LARGE = 1 << 14


class Measured(NamedTuple):
    """What was measured of a list of arrays.

    Attributes:
        norms: the Euclidean norm of each, in float64.
        digest: eight hexadecimal digits, which are the same for the same bits.
        nonfinite: the number of elements that are infinite or NaN, in all.
    """

    norms: Any
    digest: str
    nonfinite: int


def groups_of(kinds: Any) -> "list[list[int]]":
    """Return the positions of arrays that are measured together: small ones of one dtype and shape.

    Args:
        kinds: dtype and shape of each; the shape, or a size in it, is None where it is another in each step.
    """
    small: "dict[Any, list[int]]" = {}
    groups: "list[list[int]]" = []
    for at, (dtype, shape) in enumerate(kinds):
        if shape is None or is_large(shape):
            groups.append([at])
        else:
            small.setdefault((dtype, tuple(shape)), []).append(at)
    return groups + list(small.values())


def is_large(shape: Any) -> bool:
    """Return whether an array is measured by itself: it is large, or its size, with a None in it, is not known."""
    size = 1
    for each in shape:
        size *= LARGE if each is None else each
    return size >= LARGE


def measured(arrays: Any, groups: "list[list[int]]", count: int) -> Measured:
    """Measure arrays.

    Args:
        arrays: NumPy arrays of float dtypes, one for each group: the array, or those of the group stacked.
        groups: what `groups_of` returned.
        count: the number of arrays that are in the groups.
    """
    import numpy as np

    norms = [0.0] * count
    sums = []
    nonfinite = 0
    for array, positions in zip(arrays, groups):
        rows = np.ascontiguousarray(array).reshape(len(positions), -1)
        squares = _sums_of_squares(rows)
        for position, square in zip(positions, squares):
            norms[position] = math.sqrt(square)
        if not math.isfinite(sum(squares)):
            nonfinite += int(np.count_nonzero(~np.isfinite(rows)))
        sums.append(zlib.crc32(rows.reshape(-1).view(np.uint8).data))
    return Measured(norms, digest_of(sums), nonfinite)


def digest_of(sums: Any) -> str:
    """Return one digest of several CRC-32 sums."""
    return f"{zlib.crc32(struct.pack(f'<{len(sums)}I', *sums)):08x}"


def _sums_of_squares(rows: Any) -> "list[float]":
    import numpy as np

    with np.errstate(all="ignore"):
        if rows.size < LARGE or len(rows) > 1:
            wide = rows.astype(np.float64)
            squares: "list[float]" = (wide * wide).sum(axis=1).tolist()
            return squares
        # In pieces that stay in the processor's cache.
        total = 0.0
        for start in range(0, rows.size, LARGE):
            piece = rows[0, start : start + LARGE].astype(np.float64)
            # Not `np.dot`, for which NumPy may start threads.
            total += float((piece * piece).sum())
        return [total]


# Writes a trace: a JSON file with a line for each step.

FORMAT = "mpls trace"
VERSION = 1
# The line before the steps.
_STEPS = ',\n"steps": ['


class CannotTraceError(Exception):
    """A trace cannot be written where it is to go."""


class TraceWriter:
    """Writes a trace beside the place where it is to be, and moves it there when it is whole.

    Attributes:
        path: the file, as the user has named it.
        part: the file beside it.
        rows: how many steps have been written.

    Args:
        path: the file.
        head: what is known before the first step, by name.
        force: whether an existing file is replaced.

    Raises:
        CannotTraceError: there is such a file, or it cannot be written.
    """

    def __init__(self, path: str, head: Any, force: bool) -> None:
        self.path = path
        self.rows: int = 0
        self._force = force
        if not path.strip():
            raise CannotTraceError("the name of the trace is empty; give the name of a file")
        if os.path.isdir(path):
            raise CannotTraceError(f"{path} is a directory; give the name of a file")
        if not force and os.path.lexists(path):
            raise CannotTraceError(f"{path} exists already; choose another name, or replace it with --force")
        try:
            # The program may change its directory.
            self._place = os.path.join(os.getcwd(), path)
            self.part: str = f"{self._place}.part-{os.getpid()}"
            self._file = open(self.part, "w", newline="\n")  # noqa: SIM115
        except OSError as error:
            raise CannotTraceError(f"{path} cannot be written: {error.strerror}") from None
        self._file.write("{\n" + _members(head) + _STEPS)

    def add(self, row: Any) -> None:
        """Write a step, a dict."""
        self._file.write((",\n" if self.rows else "\n") + _text(row))
        # A program that is killed leaves it.
        self._file.flush()
        self.rows += 1

    def finish(self, tail: Any) -> None:
        """Write what is known after the last step, by name, and put the file in its place.

        Raises:
            CannotTraceError: meanwhile there is another such file, or this one cannot be written any more.
        """
        try:
            self._file.write("\n],\n" + _members(tail) + "\n}\n")
            self._file.close()
            if self._force or not os.path.lexists(self._place):
                os.replace(self.part, self._place)
                return
            reason = "exists by now"
        except OSError as error:
            reason = f"cannot be written: {error.strerror}"
        raise CannotTraceError(f"{self.path} {reason}; what was recorded was put into {self.part}")

    def discard(self) -> None:
        """Write nothing after all."""
        self._file.close()
        if os.path.exists(self.part):
            os.remove(self.part)


def plain_number(value: Any) -> Any:
    """Return a number as JSON has it: one that is not finite is a string, `"inf"`, `"-inf"` or `"nan"`."""
    value = float(value)
    if math.isfinite(value):
        return value
    return str(value)


def _members(values: Any) -> str:
    return ",\n".join(f"{json.dumps(name)}: {_text(value)}" for name, value in values.items())


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


# Which steps are recorded, and what a trace says of each.

# By default, the first 100 steps are recorded, and then every 100th.
SPARSE = 100
# How it is told whether a step was applied.
APPLIES_ALL, BY_STATE, BY_GRADIENTS = "all", "state", "gradients"


def was_applied(rule: str, before: Any, after: Any, nonfinite: int) -> bool:
    """Return whether a step was applied.

    Args:
        rule: `APPLIES_ALL` for a scale that never skips, `BY_STATE` for a dynamic one, `BY_GRADIENTS` for one that only
            gradients tell of.
        before: scale and count of good steps, before the step.
        after: the same, after it.
        nonfinite: the number of elements of gradients that are not finite.
    """
    if rule == APPLIES_ALL:
        return True
    if rule == BY_STATE:
        if after[0] < before[0]:
            return False
        if after[0] > before[0] or after[1] > before[1]:
            return True
    # The scale is at its floor or its ceiling.
    return nonfinite == 0


class Series:
    """The steps of one wrapper with one list of variables.

    Attributes:
        number: from 0, in the order of their first steps.
        step: the number of steps so far.
        measured: the positions of the variables that are measured.
        told: what is known of them.
        about: what the trace says of them.
    """

    def __init__(self, number: int, about: Any, pattern: Any) -> None:
        self.number = number
        self.step = 0
        names = [each["name"] for each in about["variables"]]
        self.measured: "list[int]" = [
            at for at, name in enumerate(names) if pattern is None or fnmatch.fnmatchcase(name, pattern)
        ]
        self.told = about
        self.about: "dict[str, Any]" = dict(about, variables=[about["variables"][at] for at in self.measured])


class Reading(NamedTuple):
    """What was read around a step.

    Attributes:
        rule: how it is told whether it was applied.
        before: scale and count before it; the count is negative if there is none.
        after: the same after it.
        loss: the loss, or None.
        nonfinite: the number of elements of gradients that are not finite on all replicas; None for one replica.
    """

    rule: str
    before: Any
    after: Any
    loss: Any
    nonfinite: Any


class StepRecorder:
    """Keeps count of steps, and writes those that are due.

    Args:
        writer: writes the trace.
        every: from one recorded step to the next; None for each of the first 100, and then every 100th.
        steps: how many steps of each wrapper are looked at; None for all.
        pattern: which variables are measured, as in shells; None for all.
    """

    def __init__(self, writer: TraceWriter, every: Any = None, steps: Any = None, pattern: Any = None) -> None:
        self._every = every or SPARSE
        self._first = 0 if every else SPARSE
        self._steps = steps
        self._writer = writer
        self._pattern = pattern
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._known: "dict[Any, Any]" = {}
        self.series: "list[Series]" = []

    @property
    def is_on(self) -> bool:
        """Whether steps are recorded: in the process that began it, not in its forks."""
        return os.getpid() == self._process

    def series_of(self, wrapper: Any, variables: "list[Any]") -> Series:
        """Return the series of a wrapper with these variables."""
        key = (id(wrapper), tuple(map(id, variables)))
        with self._lock:
            # Another object may have the number of one that is gone.
            found, series = self._known.get(key, (None, None))
            if found is not None and found() is wrapper:
                return series  # type: ignore[no-any-return]
            told = dict(about_wrapper(wrapper), variables=[about_variable(each) for each in variables])
            for found, series in self._known.values():
                if found() is wrapper and series.told == told:
                    break
            else:
                series = Series(len(self.series), told, self._pattern)
                self.series.append(series)
            self._known[key] = (weakref.ref(wrapper), series)
            return series  # type: ignore[no-any-return]

    def is_due(self, count: int) -> bool:
        """Return whether to record the step that has `count` steps before it."""
        is_wanted = self._steps is None or count < self._steps
        return bool(is_wanted and (count < self._first or count % self._every == 0))

    def count(self, series: Series) -> bool:
        """Count a step, and return whether it is recorded."""
        with self._lock:
            series.step += 1
            return self.is_due(series.step - 1)

    def note(self, series: Series, reading: Reading, gradients: Measured, variables: Measured) -> None:
        """Write a step.

        Args:
            series: whose it is.
            reading: what was read around it.
            gradients: what was measured of all gradients.
            variables: the same of the variables that are measured, after the step.
        """
        nonfinite = gradients.nonfinite if reading.nonfinite is None else int(reading.nonfinite)
        row = {
            "wrapper": series.number,
            "step": series.step,
            "scale": plain_number(reading.before[0]),
            "counter": int(reading.before[1]) if reading.before[1] >= 0 else None,
            "applied": was_applied(reading.rule, reading.before, reading.after, nonfinite),
            "nonfinite": nonfinite,
            "loss": None if reading.loss is None else plain_number(reading.loss),
            "gradient_norms": [plain_number(gradients.norms[at]) for at in series.measured],
            "gradients_digest": gradients.digest,
            "variable_norms": [plain_number(each) for each in variables.norms],
            "variables_digest": variables.digest,
            "scale_after": plain_number(reading.after[0]),
            "counter_after": int(reading.after[1]) if reading.after[1] >= 0 else None,
        }
        with self._lock:
            self._writer.add(row)


# The loss scale and the count of good steps of wrappers of every release.

# What the count is called in TF 1.14 to 2.3 and in mpls, in TF 2.4 to 2.21 and tf_keras, and in tf.contrib.
_COUNTS = ("_num_good_steps", "_counter")
_SCALE = "_current_loss_scale"
_UNKNOWN = -1.0


class ScaleState:
    """Reads scale and count.

    Attributes:
        rule: how it is told whether a step was applied; one of `step_recorder`.
    """

    def __init__(self, rule: str, scale: Any, count: Any = _UNKNOWN) -> None:
        self.rule = rule
        self._scale = scale
        self._count = count

    def read(self) -> "list[Any]":
        """Return scale and count, tensors or numbers; a count below 0 where there is none."""
        return [_value(self._scale), _value(self._count)]


def scale_state_of(wrapper: Any) -> ScaleState:
    """Return what reads the state of a wrapper with a `LossScale`, a manager or a number."""
    manager = getattr(wrapper, "_loss_scale_manager", None)
    if manager is None:
        # In mpls, a wrapper inside of a SyncReplicasOptimizer has the manager as a `LossScale`.
        manager = getattr(wrapper._loss_scale, "_manager", None)
    if manager is not None:
        variable = getattr(manager, "_loss_scale", None)
        scale = manager.get_loss_scale if variable is None else variable
        count = getattr(manager, _COUNTS[0], None)
        return ScaleState(BY_GRADIENTS, scale, _UNKNOWN if count is None else count)
    scale = wrapper._loss_scale
    if isinstance(scale, float):
        return ScaleState(APPLIES_ALL, scale)
    variable = getattr(scale, _SCALE, None)
    count = [getattr(scale, name) for name in _COUNTS if hasattr(scale, name)] if variable is not None else []
    if count:
        return ScaleState(BY_STATE, variable, count[0])
    never_skips = getattr(scale, "_loss_scale_value", None) is not None and not getattr(scale, "skip_nonfinite", False)
    return ScaleState(APPLIES_ALL if never_skips else BY_GRADIENTS, scale)


def scale_state_of_keras_3(wrapper: Any) -> ScaleState:
    """Return what reads the state of Keras 3's own wrapper, once it is built."""
    return ScaleState(BY_STATE, wrapper.dynamic_scale, wrapper.step_counter)


def numbers_of(state: "list[Any]") -> "list[float]":
    """Return scale and count as numbers, in eager mode."""
    return [float(each.numpy() if hasattr(each, "numpy") else each) for each in state]


def _value(held: Any) -> Any:
    if isinstance(held, float):
        return held
    if hasattr(held, "read_value"):
        return held.read_value()
    if callable(held):
        return held()
    # A variable of Keras 3 holds one of TensorFlow, which has to be read now, not when it is used.
    value = getattr(held, "value", held)
    return value.read_value() if hasattr(value, "read_value") else value


# The gradients and variables of a step: what they are called, how they are read, and which are measured together.


def about_wrapper(wrapper: Any) -> Any:
    """Return what a trace says of a wrapper."""
    inner = _inner_of(wrapper)
    return {"class": type(wrapper).__name__, "optimizer": type(inner).__name__, "framework": _framework(inner)}


def _inner_of(wrapper: Any) -> Any:
    for name in ("_optimizer", "_opt", "inner_optimizer"):
        inner = vars(wrapper).get(name)
        if inner is not None:
            return inner
    return None


def _framework(optimizer: Any) -> str:
    """Return the package that an optimizer is of, or its nearest base class; empty if there is none."""
    packages = [
        owner.__module__.split(".")[0].replace("tensorflow_core", "tensorflow") for owner in type(optimizer).__mro__
    ]
    found = [package for package in packages if package in ("tensorflow", "tf_keras", "keras")]
    return found[0] if found else ""


def about_variable(variable: Any) -> Any:
    """Return what a trace says of a variable."""
    name = getattr(variable, "path", None) or variable.name
    return {"name": name.split(":")[0], "shape": sizes_of(variable.shape), "dtype": name_of_dtype(variable.dtype)}


def sizes_of(shape: Any) -> "list[Any]":
    """Return the sizes of a shape of TensorFlow or Keras; in TF 1, they are not numbers by themselves."""
    return shape.as_list() if hasattr(shape, "as_list") else list(shape)


def name_of_dtype(dtype: Any) -> str:
    """Return the name of a dtype of TensorFlow or Keras."""
    return dtype if isinstance(dtype, str) else str(dtype.base_dtype.name)


def gradient_values(grad: Any) -> Any:
    """Return the elements of a gradient; of `IndexedSlices`, those that it holds."""
    return grad.values if hasattr(grad, "indices") and hasattr(grad, "values") else grad


def read_variable(tf: Any, variable: Any) -> Any:
    """Return the current value of a variable of any kind; those of Keras 3 have no `read_value`."""
    return variable.read_value() if hasattr(variable, "read_value") else tf.convert_to_tensor(variable)


def measured_parts(series: Series, pairs: Any) -> Any:
    """Return the variables that are measured, and which gradients, and which of these variables, together."""
    kinds = []
    for grad, variable in pairs:
        values = gradient_values(grad)
        kinds.append((name_of_dtype(values.dtype), sizes_of(variable.shape) if values is grad else None))
    variables = [pairs[at][1] for at in series.measured]
    of_variables = groups_of([(name_of_dtype(each.dtype), sizes_of(each.shape)) for each in variables])
    return variables, groups_of(kinds), of_variables


def stacked(parts: Any, groups: "list[list[int]]", stack: Any) -> "list[Any]":
    """Return for each group its only part, or what stacks them."""
    return [parts[at[0]] if len(at) == 1 else stack([parts[each] for each in at]) for at in groups]


# Reads the state before and after a step: in eager mode, in `tf.function`, and in graphs that a session runs.

_SCOPE = "mpls_trace"


class Step(NamedTuple):
    """A step that is about to be taken.

    Attributes:
        wrapper: the optimizer that scales the loss.
        pairs: unscaled gradient and variable, a list without gradients that are None.
        state_of: gets the wrapper, and returns what reads scale and count, a `ScaleState`.
        loss: a scalar tensor, or None.
        take: takes it, and returns what the wrapper does.
    """

    wrapper: Any
    pairs: Any
    state_of: Any
    loss: Any
    take: Any


def take_recorded(recorder: StepRecorder, step: Step) -> Any:
    """Take a step, and record it; return what it returns."""
    import tensorflow.compat.v1 as tf

    in_replica = tf.distribute.get_replica_context()
    if not recorder.is_on or not step.pairs or in_replica is None:
        return step.take()
    nonfinite = None
    if in_replica.num_replicas_in_sync > 1:
        grads = [gradient_values(grad) for grad, _ in step.pairs]
        found = [tf.reduce_sum(tf.cast(tf.logical_not(tf.math.is_finite(grad)), tf.float32)) for grad in grads]
        nonfinite = in_replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.add_n(found))
        if not _is_first(tf, in_replica):
            return step.take()
    variables = [variable for _, variable in step.pairs]
    series = recorder.series_of(step.wrapper, variables)
    if tf.executing_eagerly():
        return _take_eagerly(tf, recorder, series, step, nonfinite)
    return _take_in_graph(tf, recorder, series, step, nonfinite)


def _is_first(tf: Any, in_replica: Any) -> bool:
    """Return whether a replica is the first of this process."""
    number = in_replica.replica_id_in_sync_group
    if not isinstance(number, int):
        number = int(number) if tf.executing_eagerly() else tf.get_static_value(number)
    local = len(in_replica.strategy.extended.worker_devices)
    return number is None or int(number) % local == 0


def _take_eagerly(tf: Any, recorder: StepRecorder, series: Any, step: Step, nonfinite: Any) -> Any:
    if not recorder.count(series):
        return step.take()
    import numpy as np

    state = step.state_of(step.wrapper)
    before = numbers_of(state.read())
    result = step.take()
    after = numbers_of(state.read())
    reading = Reading(state.rule, before, after, None if step.loss is None else float(step.loss.numpy()), nonfinite)
    variables, of_gradients, of_variables = measured_parts(series, step.pairs)
    grads = stacked([gradient_values(grad).numpy() for grad, _ in step.pairs], of_gradients, np.stack)
    weights = stacked([read_variable(tf, each).numpy() for each in variables], of_variables, np.stack)
    gradients = measured(grads, of_gradients, len(step.pairs))
    recorder.note(series, reading, gradients, measured(weights, of_variables, len(variables)))
    return result


def _take_in_graph(tf: Any, recorder: StepRecorder, series: Any, step: Step, nonfinite: Any) -> Any:
    is_function = tf.get_default_graph().building_function
    state = step.state_of(step.wrapper)
    # Ops of the program, and variables that are made in a conditional, keep their names.
    with tf.name_scope(_SCOPE):
        before = state.read()
        if not is_function:
            # A copy, as the step changes reference variables of TF 1 in place.
            before = [tf.cast(each, tf.float64) for each in before]
    # Only control dependencies order what reads variables in graphs of TF 1.
    with tf.control_dependencies([] if is_function else [each for each in before if isinstance(each, tf.Tensor)]):
        result = step.take()
    is_op = isinstance(result, (tf.Operation, tf.Tensor))
    # What a session runs, by its name too, is the op that the step has made. It waits for the recording, and that for
    # what the op consists of.
    parts = list(result.control_inputs) if isinstance(result, tf.Operation) and not is_function else []
    with tf.name_scope(_SCOPE), tf.control_dependencies(parts or ([result] if is_op else [])):
        done = _noting(tf, recorder, series, step, [state, before, nonfinite])
    if parts:
        result._add_control_input(done.op)
    elif is_op and not is_function:
        return tf.group(result, done)
    # A function runs what it holds.
    return result


def _noting(tf: Any, recorder: StepRecorder, series: Any, step: Step, read: "list[Any]") -> Any:
    """Return an op that counts a step, which was taken, and hands it to Python if it is due.

    Args:
        tf: TensorFlow.
        recorder: what gets the step.
        series: whose it is.
        step: the step.
        read: what reads scale and count, both before the step, and the number of elements that are not finite.
    """
    state, before, nonfinite = read
    known = [step.loss, nonfinite]
    variables, of_gradients, of_variables = measured_parts(series, step.pairs)
    # TF 1.13 has it by another name.
    in_python = getattr(tf, "numpy_function", tf.py_func)

    def is_due() -> Any:
        import numpy as np

        return np.bool_(recorder.count(series))

    def note(numbers: Any, *arrays: Any) -> Any:
        import numpy as np

        found = numbers.tolist()
        loss, nonfinite = [each if has is not None else None for each, has in zip(found[4:], known)]
        gradients = measured(arrays[: len(of_gradients)], of_gradients, len(step.pairs))
        weights = measured(arrays[len(of_gradients) :], of_variables, len(variables))
        recorder.note(series, Reading(state.rule, found[:2], found[2:4], loss, nonfinite), gradients, weights)
        return np.int64(0)

    def noted() -> Any:
        values = [*before, *state.read(), *(0.0 if each is None else each for each in known)]
        numbers = tf.stack([tf.cast(each, tf.float64) for each in values])
        grads = stacked([gradient_values(grad) for grad, _ in step.pairs], of_gradients, tf.stack)
        weights = stacked([read_variable(tf, each) for each in variables], of_variables, tf.stack)
        with tf.control_dependencies([in_python(note, [numbers, *grads, *weights], tf.int64)]):
            return tf.constant(0)

    # A number without a shape; and in TF 1, the ops of a branch wait for the inputs of its condition.
    return tf.cond(tf.reshape(in_python(is_due, [], tf.bool), []), noted, lambda: tf.constant(0))


# Records the wrappers of each release, by their methods that scale a loss and apply gradients.

# Where the class of a `tf.function` is: up to TF 2.10, and since.
_FUNCTION_MODULES = (
    "tensorflow.python.eager.def_function",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function",
)
# The argument of `tf.function` for XLA, and its name up to TF 2.4.
_XLA_ARGUMENTS = ("jit_compile", "experimental_compile")
# The methods that are replaced, each with the method of `Recording` that makes what stands in for it.
_V1 = {"apply_gradients": "applying", "compute_gradients": "noting_loss"}
_KERAS = {"apply_gradients": "applying", "get_scaled_loss": "noting_loss"}
_OF_TENSORFLOW = (
    # TF 1.14 to 2.21.
    ("python.training.experimental.loss_scale_optimizer", _V1),
    # TF 1.14 to 2.3, and 2.4 to 2.21.
    ("python.keras.mixed_precision.experimental.loss_scale_optimizer", _KERAS),
    ("python.keras.mixed_precision.loss_scale_optimizer", _KERAS),
    # TF 1.13 to 1.15.
    ("contrib.mixed_precision.python.loss_scale_optimizer", _V1),
)
# The methods of the classes in a module. Up to TF 2.0, TensorFlow's sources were in a package of another name.
_METHODS = dict(
    [(package + path, methods) for package in ("tensorflow.", "tensorflow_core.") for path, methods in _OF_TENSORFLOW]
    # TF 2.6 to 2.12, 2.13 to 2.15, and tf_keras.
    + [
        (package + "mixed_precision.loss_scale_optimizer", _KERAS)
        for package in ("keras.", "keras.src.", "tf_keras.src.")
    ]
    + [(name, {"__init__": "without_xla"}) for name in _FUNCTION_MODULES]
)
_METHODS["keras.src.optimizers.loss_scale_optimizer"] = {"apply": "applying_keras_3", "scale_loss": "noting_loss"}
# The gradients that Keras3Adapter gets are unscaled already, whichever calls the program makes.
_METHODS["mpls.core.wrapper_members"] = {"_noted_loss": "noting_loss"}
_METHODS["mpls.keras.keras3"] = {"_take_step": "applying"}
_METHODS["mpls.keras.tf_keras_family"] = _METHODS["mpls.v1.optimizer"] = {"apply_gradients": "applying"}
_CLASSES = (
    *("MixedPrecisionLossScaleOptimizer", "LossScaleOptimizer", "LossScaleOptimizerV1", "LossScaleOptimizerV3"),
    *("Function", "Counted", "Keras3Adapter", "LegacyAdapter", "NewAdapter", "WrapperMembers"),
)


class Recording:
    """Replaces methods of wrappers, in modules that are loaded and as others are.

    Args:
        recorder: what gets the steps.
        say: prints a line.
    """

    def __init__(self, recorder: StepRecorder, say: Any) -> None:
        self._recorder = recorder
        self._say = say
        self._has_said = False
        self._here = threading.local()
        self._losses: "dict[Any, Any]" = {}
        self._replaced: "list[Any]" = []
        self._finder = _Finder(self)

    def begin(self) -> None:
        """Record from now on."""
        for name, module in list(sys.modules.items()):
            if module is not None and name in _METHODS:
                self.loaded(name)
        sys.meta_path.insert(0, self._finder)

    def end(self) -> None:
        """Put the methods back that were there; graphs that were built go on recording."""
        sys.meta_path.remove(self._finder)
        for owner, name, method in reversed(self._replaced):
            setattr(owner, name, method)
        self._replaced.clear()

    def loaded(self, name: str) -> None:
        """Replace the methods of a module's classes."""
        for class_name in _CLASSES:
            owner = vars(sys.modules[name]).get(class_name)
            for method, way in _METHODS[name].items():
                if isinstance(owner, type):
                    self.replace(owner, method, getattr(self, way))

    def replace(self, owner: Any, name: str, make: Any) -> None:
        """Replace a method of a class that defines it.

        Args:
            owner: the class.
            name: the method.
            make: gets the method, and returns what stands in for it.
        """
        method = vars(owner).get(name)
        if method is not None:
            self._replaced.append((owner, name, method))
            # `wraps` has AutoGraph take it for the method of the framework, which it does not convert.
            setattr(owner, name, functools.wraps(method)(make(method)))

    def applying(self, method: Any) -> Any:
        """Return what stands in for a method that gets pairs of unscaled gradient and variable."""

        def apply_gradients(wrapper: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            return self.take(wrapper, pairs, scale_state_of, lambda: method(wrapper, pairs, *args, **kwargs))

        return apply_gradients

    def applying_keras_3(self, method: Any) -> Any:
        """Return what stands in for the method of Keras 3, which unscales the gradients that it gets."""

        def apply(wrapper: Any, grads: Any, trainable_variables: Any = None) -> Any:
            import keras

            if keras.backend.backend() != "tensorflow" or not grads:
                return method(wrapper, grads, trainable_variables)
            if not wrapper.built:
                # As the method does at its beginning.
                with keras.name_scope(wrapper.name, caller=wrapper):
                    wrapper.build(trainable_variables)
            variables = wrapper._trainable_variables if trainable_variables is None else list(trainable_variables)
            scale = wrapper.dynamic_scale
            unscaled = [None if grad is None else keras.ops.divide(grad, scale) for grad in grads]
            return self.take(
                wrapper,
                list(zip(unscaled, variables)),
                scale_state_of_keras_3,
                lambda: method(wrapper, grads, trainable_variables),
            )

        return apply

    def without_xla(self, method: Any) -> Any:
        """Return what stands in for the constructor of a function, without XLA, as XLA cannot call Python."""

        def construct(function: Any, python_function: Any, *args: Any, **kwargs: Any) -> None:
            # Frameworks compile some of their own methods, in which no step is taken; those that train are made anew.
            package = str(getattr(python_function, "__module__", "")).split(".")[0]
            is_local = "<locals>" in getattr(python_function, "__qualname__", "")
            is_of_others = is_local or package not in ("tensorflow", "tf_keras", "keras")
            for name in _XLA_ARGUMENTS:
                if is_of_others and kwargs.get(name):
                    kwargs[name] = None
                    self._tell_of_xla()
            method(function, python_function, *args, **kwargs)

        return construct

    def _tell_of_xla(self) -> None:
        if not self._has_said:
            self._has_said = True
            self._say(
                "functions run without jit_compile=True, as what XLA compiles cannot be recorded; the last bits of "
                "numbers may differ from those of a run that is not recorded, and without XLA they draw other random "
                "numbers from the same seed, so dropout drops others"
            )

    def noting_loss(self, method: Any) -> Any:
        """Return what stands in for a method that gets the loss as its first argument."""

        def scale_loss(wrapper: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
            return method(wrapper, self._noted(wrapper, loss), *args, **kwargs)

        return scale_loss

    def _noted(self, wrapper: Any, loss: Any) -> Any:
        if callable(loss):
            return lambda: self._noted(wrapper, loss())
        self._losses[id(wrapper), threading.get_ident()] = loss
        return loss

    def take(self, wrapper: Any, pairs: Any, state_of: Any, take: Any) -> Any:
        """Take a step, and record it; arguments are attributes of `Step`."""
        # A method of a subclass calls that of its base class, and one wrapper may apply by another.
        loss = self._losses.pop((id(wrapper), threading.get_ident()), None)
        if getattr(self._here, "is_taking", False):
            return take()
        self._here.is_taking = True
        try:
            given = [(grad, variable) for grad, variable in pairs if grad is not None]
            return take_recorded(self._recorder, Step(wrapper, given, state_of, _usable(loss), take))
        finally:
            self._here.is_taking = False


def _usable(loss: Any) -> Any:
    """Return a loss that is a scalar tensor of the current graph or one around it; else None."""
    import tensorflow.compat.v1 as tf

    if not isinstance(loss, tf.Tensor) or loss.shape.ndims != 0:
        return None
    if tf.executing_eagerly():
        return loss if hasattr(loss, "numpy") else None
    graph = tf.get_default_graph()
    while graph is not None:
        if getattr(loss, "graph", None) is graph:
            return loss
        graph = getattr(graph, "outer_graph", None)
    return None


class _Finder:
    """Tells a recording of modules with wrappers as they are loaded."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return what the other finders do, with a loader that tells of the module."""
        if name not in _METHODS:
            return None
        for finder in sys.meta_path:
            find: Any = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                spec.loader.exec_module = self._telling(name, spec.loader.exec_module)
                return spec
        return None

    def _telling(self, name: str, execute: Any) -> Any:
        def exec_module(module: Any) -> None:
            execute(module)
            self._recording.loaded(name)

        return exec_module


# A recording from its beginning to its end: the file, the seeds, and what is said of it.

# The exit status of a program that ends well, but took no step.
NO_STEP = 1
# The options that say what is recorded.
SETTINGS = ("every", "steps", "variables", "seed")
_SEED_BITS = 32


class TracingSession:
    """Records the program that runs until `end`.

    Args:
        out: the trace.
        program: what is run, for the trace.
        options: those of `SETTINGS`, and `force`, by name.
        prefix: what lines on standard error begin with.

    Raises:
        CannotTraceError: the trace cannot be written.
    """

    def __init__(self, out: str, program: str, options: Any, prefix: str) -> None:
        settings = {name: options[name] for name in SETTINGS}
        head = {"format": FORMAT, "version": VERSION, "program": program, "settings": settings}
        self._writer = TraceWriter(out, head, options["force"])
        self._recorder = StepRecorder(self._writer, options["every"], options["steps"], options["variables"])
        self._recording = Recording(self._recorder, self.say)
        self._prefix = prefix
        self._seed = options["seed"]

    def begin(self) -> None:
        """Record from now on, and set the seeds."""
        self._recording.begin()
        if self._seed is not None:
            seed_all(self._seed)

    def end(self, failure: Any, options: Any = None) -> int:
        """Write the trace, and return the exit status of a program that had none of its own.

        Args:
            failure: the name of the error that the program ended in, or None.
            options: with which options it ran, by name.

        Raises:
            CannotTraceError: meanwhile there is another file.
        """
        if not self._recorder.is_on:
            return 0
        self._recording.end()
        if not self._writer.rows:
            self._writer.discard()
            self.say(_why_no_step())
            return NO_STEP
        wrappers = [series.about for series in self._recorder.series]
        tail = {"environment": _environment(), "options": options or {}, "wrappers": wrappers, "ended_by": failure}
        self._writer.finish(tail)
        steps, optimizers = _counted_words(self._writer.rows, "step"), _counted_words(len(wrappers), "optimizer")
        self.say(f"{steps} of {optimizers}: {self._writer.path}")
        return 0

    def say(self, text: str) -> None:
        """Print a line on standard error, unless the program has closed it."""
        stream = getattr(sys, "stderr", None)
        if stream is not None and not stream.closed:
            stream.write(f"{self._prefix}: {text}\n")


def _why_no_step() -> str:
    backend = getattr(getattr(sys.modules.get("keras"), "backend", None), "backend", None)
    # Older Kerases have no such function, or only TensorFlow's.
    name = backend() if callable(backend) else "tensorflow"
    if name != "tensorflow":
        return (
            f"Keras runs on the {name} backend, of which no step is recorded; nothing was written. Run the program "
            "with KERAS_BACKEND=tensorflow"
        )
    return (
        "the program took no step with a loss-scaling optimizer, in this process; nothing was written. Such a step "
        "calls apply_gradients() of the wrapper, as minimize() and fit() do"
    )


def _counted_words(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def seed_all(seed: int) -> None:
    """Seed Python's and NumPy's generators now, and TensorFlow's when it is loaded."""
    import random

    import numpy as np

    random.seed(seed)
    np.random.seed(seed % (1 << _SEED_BITS))
    import tensorflow.compat.v1 as tf

    tf.set_random_seed(seed)


def _environment() -> Any:
    found = {"python": sys.version.split()[0]}
    for name in ("tensorflow", "keras", "tf_keras", "numpy", "mpls"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


# The command line of this file: `python mpls_recorder.py OUT.json program.py …`.

_NAME = "mpls_recorder.py"


def add_recording_options(parser: Any) -> None:
    """Add the options that say what is recorded to a parser of arguments."""
    parser.add_argument(
        "--every",
        type=_positive_number,
        metavar="N",
        help="record every N-th step; default: the first 100 steps, then every 100th",
    )
    parser.add_argument("--steps", type=_positive_number, metavar="N", help="record only the first N steps")
    parser.add_argument(
        "--variables", metavar="PATTERN", help="measure only variables whose names match this glob, e.g. '*/kernel'"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed Python, NumPy and TensorFlow at the beginning")
    parser.add_argument("--force", action="store_true", help="replace an existing trace")


def _positive_number(text: str) -> int:
    """Return a whole number of at least 1, for a parser of arguments."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1; got {text!r}")
    return number


def main(arguments: Any) -> int:
    """Record a program, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog=_NAME,
        usage=f"python {_NAME} [OPTIONS] OUT.json (SCRIPT | -m MODULE) [ARGS ...]",
        description="Run a program, and record what its loss-scaling optimizers do at each step. "
        "Works with TensorFlow 1.13 to 2.15. `mpls compare` compares the trace with another.",
    )
    add_recording_options(parser)
    parser.add_argument("out", metavar="OUT.json", help="the trace")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT", help="what is run, and its arguments")
    options = parser.parse_args(arguments)
    program = options.program
    is_module = program[:1] == ["-m"]
    if not program[is_module:]:
        parser.error("give a program after OUT.json: a script, or -m and the name of a module")
    if not is_module and not os.path.isfile(program[0]):
        parser.error(f"no such script: {program[0]}")
    try:
        session = TracingSession(options.out, program[is_module], vars(options), _NAME)
    except CannotTraceError as error:
        parser.error(str(error))
    return _recorded(session, program, is_module)


def _recorded(session: Any, program: Any, is_module: bool) -> int:
    failure = None
    status: Any = None
    try:
        session.begin()
        _run(program, is_module)
    except SystemExit as error:
        status = error.code
        failure = None if status in (None, 0) else "SystemExit"
        raise
    except BaseException as error:
        failure = type(error).__name__
        raise
    finally:
        try:
            wanted = session.end(failure)
        except CannotTraceError as error:
            session.say(str(error))
            wanted = NO_STEP
        if wanted and failure is None:
            sys.exit(wanted)
    return 0


def _run(program: Any, is_module: bool) -> None:
    import runpy
    import types

    if is_module:
        sys.argv = program[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        return
    path = program[0]
    sys.argv = program[:]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    # Leave it there, for functions that run at exit.
    module = types.ModuleType("__main__")
    vars(module).update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(code, vars(module))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
