"""Reads the state before and after a step: in eager mode, in `tf.function`, and in graphs that a session runs."""

from __future__ import annotations

from typing import Any

from mpls.tracing.measures import is_large, measured
from mpls.tracing.scale_states import numbers_of
from mpls.tracing.step_recorder import Reading, StepRecorder
from mpls.tracing.step_tensors import (
    about_variable,
    gradient_values,
    groups_of_gradients,
    groups_of_variables,
    measured_by_python,
    read_variable,
    sizes_of,
    stacked,
)

__all__ = ["Step", "take_recorded"]

_SCOPE = "mpls_trace"


class Step:
    """A step that is about to be taken.

    Attributes:
        wrapper: the optimizer that scales the loss.
        pairs: unscaled gradient and variable, a list without gradients that are None.
        state: returns what reads scale and count, a `ScaleState`.
        loss: a scalar tensor, or None.
        about: returns what the trace says of the wrapper.
        take: takes it, and returns what the wrapper does.
    """

    def __init__(self, wrapper: Any, pairs: Any, state: Any, loss: Any, about: Any, take: Any) -> None:
        self.wrapper = wrapper
        self.pairs: list[tuple[Any, Any]] = [(grad, variable) for grad, variable in pairs if grad is not None]
        self.state = state
        self.loss = loss
        self.about = about
        self.take = take


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
    series = recorder.series_of(
        step.wrapper, variables, lambda: dict(step.about(), variables=[about_variable(each) for each in variables])
    )
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

    state = step.state()
    before = numbers_of(state.read())
    result = step.take()
    after = numbers_of(state.read())
    reading = Reading(state.rule, before, after, None if step.loss is None else float(step.loss.numpy()), nonfinite)
    groups = groups_of_gradients(step.pairs)
    grads = stacked([gradient_values(grad).numpy() for grad, _ in step.pairs], groups, np.stack)
    found = measured(grads, groups, len(step.pairs))
    recorder.note(series, reading, found, measured_by_python(tf, _to_measure(series, step)))
    return result


def _to_measure(series: Any, step: Step) -> list[Any]:
    return [step.pairs[at][1] for at in series.measured]


def _take_in_graph(tf: Any, recorder: StepRecorder, series: Any, step: Step, nonfinite: Any) -> Any:
    is_function = tf.get_default_graph().building_function
    state = step.state()
    # Ops of the program, and variables that are made in a conditional, keep their names.
    with tf.name_scope(_SCOPE):
        before = state.read()
        if not is_function:
            # A copy, as the step changes reference variables of TF 1 in place.
            before = [tf.cast(each, tf.float64) for each in before]
        note = GraphNote(recorder, series, step, state, before, nonfinite)
        count = None if recorder.is_always_due else _counted(tf, series)
        due = None if count is None else recorder.due(tf, count)
        noted = [_if_due(tf, due, lambda: note.op_before(tf, count))] if note.measures_first else []
    # Only control dependencies order what reads variables in graphs of TF 1.
    read = [] if is_function else [each for each in before if isinstance(each, tf.Tensor)]
    with tf.control_dependencies([*noted, *read]):
        result = step.take()
    return _followed(tf, result, note, due, count)


def _followed(tf: Any, result: Any, note: GraphNote, due: Any, count: Any) -> Any:
    """Return what a step has returned, or what stands for it, with the recording after it."""
    is_function = tf.get_default_graph().building_function
    is_op = isinstance(result, (tf.Operation, tf.Tensor))
    # A conditional costs less without all variables among its inputs. Python reads them where this op waits for the
    # step, which takes longer for a step that is due.
    is_readable = is_op and is_function and tf.executing_eagerly_outside_functions()
    note.reads_by_python = is_readable and due is not None
    # What a session runs, by its name too, is the op that the step has made. It waits for the recording, and that for
    # what the op consists of.
    parts = list(result.control_inputs) if isinstance(result, tf.Operation) and not is_function else []
    waits_for = parts or ([result] if is_op else [])
    with tf.name_scope(_SCOPE), tf.control_dependencies(waits_for):
        done = note.op_after(tf, None) if due is None else _if_due(tf, due, lambda: note.op_after(tf, count))
    if parts:
        result._add_control_input(done.op)
    elif is_op and not is_function:
        return tf.group(result, done)
    # A function runs what it holds.
    return result


def _if_due(tf: Any, due: Any, make: Any) -> Any:
    """Return an op that runs another, if a step is due."""

    def noted() -> Any:
        with tf.control_dependencies([make()]):
            return tf.constant(0)

    # In TF 1, the ops of a branch wait for the inputs of its condition.
    return tf.cond(tf.identity(due), noted, lambda: tf.constant(0))


def _counted(tf: Any, series: Any) -> Any:
    """Return the number of steps before this one, from a variable that no Saver and no initializer knows."""
    from tensorflow.python.ops import gen_resource_variable_ops as ops

    def handle() -> Any:
        return ops.var_handle_op(dtype=tf.int64, shape=[], shared_name=f"mpls_trace_{series.number}")

    with tf.init_scope():
        is_eager = tf.executing_eagerly()
        if is_eager and not series.has_counter:
            ops.assign_variable_op(handle(), tf.constant(series.step, tf.int64))
            series.has_counter = True
    counter = handle()
    if is_eager:
        count = ops.read_variable_op(counter, tf.int64)
    else:
        # Each session has its own, which nothing has initialized.
        is_there, zero = ops.var_is_initialized_op(counter), tf.constant(0, tf.int64)
        count = tf.cond(is_there, lambda: ops.read_variable_op(counter, tf.int64), lambda: tf.identity(zero))
    with tf.control_dependencies([count]), tf.control_dependencies([ops.assign_variable_op(counter, count + 1)]):
        return tf.identity(count)


class GraphNote:
    """Hands a step of a graph to Python.

    Attributes:
        measures_first: whether large gradients are measured before the step, which can then overwrite them in place;
            for small ones, a second conditional would cost more.
        reads_by_python: whether Python reads the variables, once the step is taken.
    """

    def __init__(
        self, recorder: StepRecorder, series: Any, step: Step, state: Any, before: Any, nonfinite: Any
    ) -> None:
        self._recorder = recorder
        self._series = series
        self._step = step
        self._state = state
        self._before = before
        self._nonfinite = nonfinite
        self._groups = groups_of_gradients(step.pairs)
        has_large = any(is_large(sizes_of(variable.shape)) for _, variable in step.pairs)
        self.measures_first: bool = has_large and not recorder.is_always_due
        self._found: Any = None
        self.reads_by_python = False

    def op_before(self, tf: Any, count: Any) -> Any:
        """Return an op that measures the gradients; `count` is the number of steps before this one."""
        return _call_python(tf, self._measure, [count, *self._gradients(tf)])

    def op_after(self, tf: Any, count: Any) -> Any:
        """Return an op that hands the step over, which reads the state when it runs.

        Args:
            tf: TensorFlow.
            count: the number of steps before it, a scalar tensor; None if Python counts.
        """
        known = [self._step.loss, self._nonfinite, None if self.measures_first else count]
        values = [*self._before, *self._state.read(), *(0.0 if each is None else each for each in known)]
        numbers = tf.stack([tf.cast(each, tf.float64) for each in values])
        grads = [] if self.measures_first else self._gradients(tf)
        variables = _to_measure(self._series, self._step)
        groups = groups_of_variables(variables)
        weights = (
            [] if self.reads_by_python else stacked([read_variable(tf, each) for each in variables], groups, tf.stack)
        )
        note = self._function([each is not None for each in known], len(grads), variables, groups)
        return _call_python(tf, note, [numbers, *grads, *weights])

    def _gradients(self, tf: Any) -> list[Any]:
        """Return the gradients, those stacked that are measured together."""
        return stacked([gradient_values(grad) for grad, _ in self._step.pairs], self._groups, tf.stack)

    def _measure(self, count: Any, *grads: Any) -> Any:
        import numpy as np

        self._recorder.counted(self._series, int(count))
        self._found = measured(grads, self._groups, len(self._step.pairs))
        return np.int64(0)

    def _function(self, is_known: list[bool], number: int, variables: list[Any], groups: Any) -> Any:
        """Return the function of Python that gets the values; the arguments are those that the op has."""

        def note(numbers: Any, *arrays: Any) -> Any:
            import numpy as np
            import tensorflow.compat.v1 as tf

            state = numbers.tolist()
            loss, nonfinite, count = [each if has else None for each, has in zip(state[4:], is_known)]
            if count is not None:
                self._recorder.counted(self._series, int(count))
            elif not self.measures_first:
                self._recorder.count(self._series)
            if not self.measures_first:
                self._found = measured(arrays[:number], self._groups, len(self._step.pairs))
            if self.reads_by_python:
                weights = measured_by_python(tf, variables)
            else:
                weights = measured(arrays[number:], groups, len(variables))
            reading = Reading(self._state.rule, state[:2], state[2:4], loss, nonfinite)
            self._recorder.note(self._series, reading, self._found, weights)
            return np.int64(0)

        return note


def _call_python(tf: Any, function: Any, values: list[Any]) -> Any:
    """Return an op that calls a function of Python with arrays; TF 1.13 has it by another name."""
    return getattr(tf, "numpy_function", tf.py_func)(function, values, tf.int64)
