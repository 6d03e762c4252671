"""State and step of wrappers over Keras 3 optimizers, on every backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from mpls.core.counters import StepRecord
from mpls.core.dynamic import DynamicLossScale
from mpls.core.loss_scale import FixedLossScale, LossScale, is_fixed
from mpls.core.rule import ScaleState, UpdateRule
from mpls.core.step_options import StepOptions
from mpls.core.weights import plain
from mpls.errors import CallOrderError
from mpls.formats.wrapper_state import BAD_STEPS, COUNTS, DYNAMIC_SCALE, SEARCH_STEPS, STATE, STEP_COUNTER
from mpls.keras.family_members import FamilyMembers
from mpls.keras.marked_configs import reads_as_dynamic
from mpls.upstream import table
from mpls.upstream.optimizers import averages_of

# Variables of options, on other backends than TensorFlow; Keras' trainer passes them on.


class BackendVariable:
    """A Keras variable of a whole number, for code that reads and sets variables of TensorFlow.

    Args:
        variable: the variable, a scalar int32: JAX has no int64 unless it is told to.
    """

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.dtype: tf.DType = tf.as_dtype(keras.backend.standardize_dtype(variable.dtype))
        self.shape: tuple[int, ...] = tuple(variable.shape)

    def numpy(self) -> Any:
        """Return the value, a NumPy array."""
        return keras.ops.convert_to_numpy(self.variable)

    def assign(self, value: Any) -> None:
        """Set the value."""
        self.variable.assign(value)


def counters(values: Mapping[str, int]) -> dict[str, Any]:
    """Return new scalar int32 Keras variables by name, given their initial values."""
    return {name: keras.Variable(value, dtype="int32", trainable=False, name=name) for name, value in values.items()}


def option_variables(wrapper: FamilyMembers) -> list[Any]:
    """Return the Keras variables of options, always in the same order; none on TensorFlow."""
    owners = (vars(wrapper).get(name) for name in ("_loss_scale", "_record"))
    return [variable for owner in owners for variable in getattr(owner, "of_backend", {}).values()]


class BackendRecord(StepRecord):
    """The counters of an optimizer in Keras' variables.

    Args:
        options: what is counted; only steps are.

    Attributes:
        of_backend: the counters by name, scalar int32 Keras variables.
    """

    def __init__(self, options: StepOptions) -> None:
        super().__init__(options)
        self.of_backend: dict[str, Any] = counters(dict.fromkeys(COUNTS, 0))

    def counter(self, name: str) -> Any:
        """Return a counter, a scalar int32 Keras variable."""
        return self.of_backend[name]

    def _created_weight(self, name: str) -> Any:
        return BackendVariable(self.of_backend[name])

    def last_step_applied(self) -> Any:
        """Return whether the last step was applied, a scalar boolean tensor of the backend; false before the first."""
        applied, _, in_a_row = (ops.convert_to_tensor(self.of_backend[name]) for name in COUNTS)
        return ops.logical_and(applied > 0, ops.equal(in_a_row, 0))

    def after_step(self, before: Mapping[str, Any], is_applied: Any) -> dict[str, Any]:
        """Return the values of the counters after a step, by name.

        Args:
            before: their values before it.
            is_applied: whether it is applied, a bool or a scalar boolean tensor.
        """
        applied, skipped, in_a_row = (before[name] for name in COUNTS)
        one = ops.cast(is_applied, "int32")
        return dict(zip(COUNTS, (applied + one, skipped + 1 - one, (in_a_row + 1) * (1 - one)), strict=True))


# Loss scales.


class FixedState(FixedLossScale):
    """A fixed loss scale for every backend of Keras."""

    def __init__(self, value: float, *, skip_nonfinite: bool = False) -> None:
        LossScale.__init__(self)
        self._loss_scale_value = value
        self._skip_nonfinite = skip_nonfinite

    def __call__(self) -> Any:
        """Return the scale as a scalar float32 tensor of the backend."""
        return keras.ops.convert_to_tensor(self._loss_scale_value, dtype="float32")


class DynamicState(DynamicLossScale):
    """A dynamic loss scale whose state is in variables that Keras saves with the wrapper.

    Attributes:
        scale: scalar float32 Keras variable.
        counter: scalar integer Keras variable.
        of_backend: variables of settings, scalar int32 Keras variables by name, on other backends than TensorFlow.
    """

    is_saved_by_keras = True

    def __init__(
        self, initial_scale: float | str, growth_steps: int, scale: Any, counter: Any, **settings: Any
    ) -> None:
        super().__init__(initial_scale, growth_steps, 2.0, **settings)
        self.scale = scale
        self.counter = counter
        self.of_backend: dict[str, Any] = {}
        if keras.backend.backend() != "tensorflow":
            self.of_backend = counters({name: value for name, (value, _) in self._initial_extras().items()})

    def __call__(self) -> Any:
        """Return the scale as a scalar float32 tensor of the backend."""
        if keras.backend.backend() == "tensorflow":
            # convert_to_tensor of Keras would return the variable itself.
            return super().__call__()
        return keras.ops.convert_to_tensor(self.scale)

    def _initial_state(self) -> dict[str, tuple[Any, Any]]:
        """Return nothing: the variables are the wrapper's."""
        return {}

    def _require_adjustable(self) -> None:
        if keras.backend.backend() == "tensorflow":
            super()._require_adjustable()
        elif self._is_built_in:
            raise CallOrderError(
                "configure() must be called before the first stateless_apply() or fit() where Keras runs on "
                f"{keras.backend.backend()}: what is compiled has the settings as constants. Call it before, or run "
                "Keras on TensorFlow, with adjustable=True. See mpls docs bounds-and-dynamics"
            )

    def _read_values(self, names: Iterable[str], session: Any, call: str = "state_dict") -> dict[str, Any]:
        if keras.backend.backend() == "tensorflow":
            return super()._read_values(names, session, call)
        return {name: plain(keras.ops.convert_to_numpy(self._keras_variables()[name])) for name in names}

    def _write_values(self, values: Mapping[str, Any], session: Any, call: str = "load_state_dict") -> None:
        if keras.backend.backend() == "tensorflow":
            super()._write_values(values, session, call)
            return
        for name, value in values.items():
            self._keras_variables()[name].assign(value)

    def _keras_variables(self) -> dict[str, Any]:
        return {**dict(zip(STATE, (self.scale, self.counter), strict=True)), **self.of_backend}

    def _created_weight(self, name: str) -> Any:
        if name in self.of_backend:
            return BackendVariable(self.of_backend[name])
        own = self._keras_variables()
        return own[name].value if name in own else super()._created_weight(name)

    def variables_of_rule(self) -> ScaleState:
        """Return the Keras variables of the state, on other backends than TensorFlow."""
        return ScaleState(self.scale, self.counter, self.of_backend.get(BAD_STEPS), self.of_backend.get(SEARCH_STEPS))

    def _rule_of_counter(self) -> UpdateRule:
        """Return the current rule, with growth steps that Keras' counter can reach."""
        return self._rule(tf.as_dtype(keras.backend.standardize_dtype(self.counter.dtype)))


# Programs log the class names.
FixedState.__name__ = FixedLossScale.__name__
DynamicState.__name__ = DynamicLossScale.__name__


@dataclass
class Keras3Step:
    """Step hooks of Keras 3: a skipped step leaves `iterations` alone, unless a program asks for an older release.

    Attributes:
        optimizer: the wrapped optimizer, which sums gradients over replicas.
        is_summed: whether the gradients have been summed already.
        skips_count: whether a skipped step advances `iterations`.
        args: further positional arguments of the optimizer's own `apply_gradients`.
    """

    optimizer: Any
    is_summed: bool
    skips_count: bool
    args: tuple[Any, ...] = ()

    # Even if the user says that gradients are summed, they may differ between replicas.
    are_same: ClassVar[bool] = False

    @property
    def sums_gradients(self) -> bool:
        """Whether the wrapped optimizer sums different gradients of several replicas."""
        return not self.is_summed

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        """Call the wrapped optimizer, which advances `iterations`."""
        grads, variables = map(list, zip(*grads_and_vars, strict=True))
        if self.is_summed:
            grads = [
                grad if overwrites(variable) else _on_first_replica(grad)
                for grad, variable in zip(grads, variables, strict=True)
            ]
        if self.args:
            self.optimizer.apply_gradients(list(zip(grads, variables, strict=True)), *self.args)
        else:
            self.optimizer.apply(grads, variables)

    def skip(self) -> Any:
        """Keep averages of weights from starting at 0, and advance `iterations` if skipped steps count."""
        for variable, average in averages_of(self.optimizer):
            average.assign(average_before_a_step(self.optimizer.iterations, variable, average))
        if self.skips_count:
            table.KERAS_3_STEPS.needed_of(self.optimizer).assign_add(1)


def average_before_a_step(iterations: Any, variable: Any, average: Any) -> Any:
    """Return the average of a weight at a skipped step: the weight itself as long as no step was applied.

    Keras takes it from the first step that it applies, which it knows by `iterations`. Until then it is 0. Keras would
    go on from 0 after a skipped step that counts, and set weights to 0 at the end of a training without other steps.

    Args:
        iterations: the counter before the step.
        variable: the weight, or its value.
        average: its average, or the value of that.
    """
    return keras.ops.where(keras.ops.equal(iterations, 0), variable, average)


def _on_first_replica(grad: Any) -> Any:
    """Return the gradient on the first replica and zeros on others, so that their sum is the gradient."""
    context = tf.distribute.get_replica_context()
    if grad is None or context.num_replicas_in_sync == 1:
        return grad
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(_on_first_replica(grad.values), grad.indices, grad.dense_shape)
    return tf.where(tf.equal(context.replica_id_in_sync_group, 0), grad, tf.zeros_like(grad))


def overwrites(variable: Any) -> bool:
    """Return whether the gradient of a variable is its new value, as in float8 layers."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


_NATIVE = 2


def variables_in_files(wrapper: FamilyMembers) -> list[Any]:
    """Return the wrapper's own variables for a file; for a fixed scale, with the native wrapper's two."""
    own = list(table.OWN_VARIABLES.of(wrapper, []))
    if not is_fixed(wrapper._loss_scale) or not reads_as_dynamic(wrapper):
        return own
    with keras.name_scope(wrapper.name):
        counter = keras.Variable(0, dtype="int32", trainable=False, name=STEP_COUNTER)
        scale = keras.Variable(wrapper.initial_scale, dtype="float32", trainable=False, name=DYNAMIC_SCALE)
    return [*own, counter, scale]


def without_unknown(wrapper: FamilyMembers, store: Any) -> Any:
    """Return the variables of a `.keras` file without the native wrapper's two, which a fixed scale lacks."""
    own, known = len(table.OWN_VARIABLES.of(wrapper, [])), len(wrapper.variables) - len(option_variables(wrapper))
    if not is_fixed(wrapper._loss_scale) or len(store) != known + _NATIVE:
        return store
    kept = [index for index in range(known + _NATIVE) if not own <= index < own + _NATIVE]
    return {str(position): store[str(index)] for position, index in enumerate(kept)}
