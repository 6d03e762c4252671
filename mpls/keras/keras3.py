"""The wrapper over the optimizers of Keras 3, `keras.optimizers.Optimizer`: its state, its step, and its members.

On other backends than TensorFlow, the arithmetic is in Keras ops; the update rule is in the core.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from mpls.core import gradients
from mpls.core.autograph import as_written
from mpls.core.counters import StepRecord
from mpls.core.dynamic import DynamicLossScale, start_of
from mpls.core.gradients import as_variables
from mpls.core.loss_scale import FixedLossScale, LossScale, is_fixed, never_skips
from mpls.core.releases import ReleaseBehavior, enter_block, leave_block
from mpls.core.replicas import call_in_cross_replica_context, in_replica_context
from mpls.core.rule import ScaleState, UpdateRule, next_state
from mpls.core.state_checks import SavedObject, is_bare, require_valid_state
from mpls.core.step_options import StepOptions
from mpls.core.weights import plain
from mpls.errors import ArgumentTypeError, ArgumentValueError, CallOrderError, UnsupportedBackendError, error_text
from mpls.formats.wrapper_state import (
    BAD_STEPS,
    COUNTS,
    DYNAMIC_SCALE,
    INNER_OPTIMIZER,
    LOSS_SCALE,
    SEARCH_STEPS,
    STATE,
    STATE_OF_KERAS_3,
    STEP_COUNTER,
    STEP_RECORD,
)
from mpls.keras.arguments import settings_beyond_originals, warn_of_ignored_rule
from mpls.keras.calls import SCALE_LOSS, require_gradients, some_pairs
from mpls.keras.classes import called_class, is_of_mpls
from mpls.keras.family_members import CallableList, FamilyMembers, delegated, passed_on
from mpls.keras.marked_configs import reads_as_dynamic, who_calls, wrapped_optimizer_follows
from mpls.keras.strategies import (
    aggregation_of_user,
    as_pairs,
    building,
    refuse_v1_graph,
    require_replica_context,
    require_supported_strategy,
)
from mpls.upstream import table
from mpls.upstream.keras_packages import native_wrappers_of_keras_3, unknown_variables
from mpls.upstream.optimizers import averages_of, trained_variables
from mpls.upstream.tensorflow import fixed_value_of
from mpls.upstream.trackables import Trackable, awaited_parts_of, part_of, track, track_list

# Pickles that earlier versions wrote name these modules.
sys.modules.update({f"mpls.keras.keras3.{name}": sys.modules[__name__] for name in ("adapter", "state")})

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


# The step, on other backends than TensorFlow.


def multiplied_loss(loss: Any, scale_for: Callable[[Any], Any]) -> Any:
    """Multiply a loss, or what a callable returns, by the scale for its dtype, in that dtype."""
    if keras.backend.backend() == "tensorflow":
        return gradients.scale_loss(loss, scale_for)
    if callable(loss):
        return lambda: multiplied_loss(loss(), scale_for)
    loss = gradients.as_loss(loss, ops.convert_to_tensor)
    dtype = keras.backend.standardize_dtype(loss.dtype)
    return ops.multiply(loss, ops.cast(scale_for(tf.as_dtype(dtype)), dtype))


def unscaled_gradients(grads: list[Any], scale: Any) -> list[Any]:
    """Divide gradients by the loss scale; half-precision ones are divided in float32, and None stays None."""
    if keras.backend.backend() == "tensorflow":
        unscaled: list[Any] = gradients.unscale_gradients(grads, scale)
        return unscaled
    return [grad if grad is None else _divide(grad, scale) for grad in grads]


def _divide(grad: Any, scale: Any) -> Any:
    dtype = keras.backend.standardize_dtype(grad.dtype)
    if dtype in ("float16", "bfloat16"):
        return ops.cast(ops.divide(ops.cast(grad, "float32"), scale), dtype)
    return ops.divide(grad, ops.cast(scale, dtype))


def are_all_finite(grads: list[Any]) -> Any:
    """Return whether every element of every gradient is finite; None is ignored."""
    if keras.backend.backend() == "tensorflow":
        return gradients.all_finite(grads)
    checks = [ops.all(ops.isfinite(grad)) for grad in grads if grad is not None]
    return ops.all(ops.stack(checks)) if checks else ops.convert_to_tensor(True)


def stateless_step(wrapper: FamilyMembers, optimizer_variables: Any, grads: Any, values: Any, is_scaled: bool) -> Any:
    """Return the new values of trainable variables and of the wrapper's variables, applied or skipped.

    Args:
        wrapper: the wrapper, built.
        optimizer_variables: the values of its variables.
        grads: a gradient, or None, for each trainable variable.
        values: the values of the trainable variables.
        is_scaled: whether the gradients are still to be unscaled.

    Raises:
        ValueError: the wrapper is not built, or the numbers of values are not those of the variables.
    """
    loss_scale = wrapper._loss_scale
    if isinstance(loss_scale, DynamicState):
        # The caller is usually compiled, with the settings as constants.
        loss_scale._is_built_in = True
    return _stepped(wrapper, optimizer_variables, grads, values, is_scaled)


def _stepped(wrapper: FamilyMembers, optimizer_variables: Any, grads: Any, values: Any, is_scaled: bool) -> Any:
    grads, values, current = list(grads), list(values), list(optimizer_variables)
    inner, variables = wrapper.inner_optimizer, trained_variables(wrapper._optimizer)
    _require_fitting(wrapper, current, grads, values)
    own = len(current) - len(inner.variables)
    loss_scale = wrapper._acting_scale
    is_dynamic = isinstance(loss_scale, DynamicState)
    place_of = {id(variable): index for index, variable in enumerate(wrapper.variables)}
    state = loss_scale.variables_of_rule() if is_dynamic else None
    before = None
    if state is not None:
        before = ScaleState(*(None if each is None else current[place_of[id(each)]] for each in state))
    scale = loss_scale() if before is None else before.scale
    grads = unscaled_for(grads, variables, scale) if is_scaled and wrapper.enabled else grads
    if never_skips(loss_scale):
        values, inner_values = inner.stateless_apply(current[own:], grads, values)
        return list(values), _counted(wrapper, [*current[:own], *inner_values], place_of, True)
    grads_finite = are_all_finite(grads)
    values, inner_values = ops.cond(
        grads_finite,
        lambda: tuple(map(list, inner.stateless_apply(current[own:], grads, values))),
        lambda: (values, _skipped(wrapper, current[own:], values)),
    )
    new = [*current[:own], *inner_values]
    if state is not None and before is not None:
        after = next_state(before, grads_finite, loss_scale._rule_of_counter(), ops.where)
        for variable, value in zip(state, after, strict=True):
            if variable is not None:
                new[place_of[id(variable)]] = ops.cast(value, variable.dtype)
    return values, _counted(wrapper, new, place_of, grads_finite)


def _counted(wrapper: FamilyMembers, values: list[Any], place_of: dict[int, int], is_applied: Any) -> list[Any]:
    """Return the values of the wrapper's variables with the step counted, if it counts steps."""
    record = wrapper._record
    if not isinstance(record, BackendRecord):
        return values
    places = {name: place_of[id(variable)] for name, variable in record.of_backend.items()}
    after = record.after_step({name: values[place] for name, place in places.items()}, is_applied)
    for name, place in places.items():
        values[place] = after[name]
    return values


def _skipped(wrapper: Any, inner_values: list[Any], values: list[Any]) -> list[Any]:
    """Return the values of the wrapped optimizer's variables after a skipped step."""
    inner = wrapper.inner_optimizer
    # Variable 0 is the iteration counter.
    iterations, *others = inner_values
    place_of = {id(variable): place for place, variable in enumerate(inner.variables)}
    value_of = {id(variable): value for variable, value in zip(trained_variables(inner), values, strict=True)}
    after = [iterations + 1 if wrapper._skips_count else iterations, *others]
    for variable, average in averages_of(inner):
        place = place_of[id(average)]
        after[place] = average_before_a_step(iterations, value_of[id(variable)], inner_values[place])
    return after


def step_on_backend(wrapper: FamilyMembers, grads_and_vars: list[tuple[Any, Any]], is_scaled: bool) -> None:
    """Apply gradients or skip the step, and assign the new values."""
    built = trained_variables(wrapper._optimizer)
    given = {id(variable): grad for grad, variable in grads_and_vars}
    state = wrapper.variables
    values, state_values = _stepped(
        wrapper,
        [variable.value for variable in state],
        [given.get(id(variable)) for variable in built],
        [variable.value for variable in built],
        is_scaled,
    )
    for variable, value in zip([*built, *state], [*values, *state_values], strict=True):
        variable.assign(value)


def unscaled_for(grads: list[Any], variables: list[Any], scale: Any) -> list[Any]:
    """Divide gradients by the loss scale, but not those of float8 layers' own variables, which are new values."""
    return [
        grad if overwrites(variable) else result
        for grad, result, variable in zip(grads, unscaled_gradients(grads, scale), variables, strict=True)
    ]


def _require_fitting(wrapper: FamilyMembers, current: list[Any], grads: list[Any], values: list[Any]) -> None:
    if not wrapper.built:
        raise ArgumentValueError(
            "LossScaleOptimizer: stateless_apply() must be called on an optimizer that is built; got one that is not. "
            "Call opt.build(variables). See mpls docs keras-3"
        )
    trainable = len(trained_variables(wrapper._optimizer))
    expected = {"optimizer_variables": len(wrapper.variables), "grads": trainable, "trainable_variables": trainable}
    for name, given in zip(expected, (current, grads, values), strict=True):
        if len(given) != expected[name]:
            raise ArgumentValueError(
                f"LossScaleOptimizer.stateless_apply: {name} must hold {expected[name]} values; got {len(given)} "
                f"({type(given).__name__}). Pass the values of opt.variables and of the variables that it was built "
                "with, in their order. See mpls docs keras-3"
            )


# The members of the wrapper.

# Whether Keras is to see only the variables that a file has.
_IS_LOADING = "_is_loading_variables"

# `compile` wraps an optimizer unless it is an instance of this class. Its `__reduce__` and `load_own_variables` are
# called too.
_Native: Any = native_wrappers_of_keras_3()[0]


class _Blank(keras.optimizers.Optimizer):
    """Initializes the attributes that Keras expects of every optimizer, under the native wrapper's name."""


_Blank.__name__ = "LossScaleOptimizer"


class Keras3Adapter(FamilyMembers, _Native):
    """Members of wrappers over Keras 3 optimizers; every method that the native class defines is overridden.

    The state is in Keras variables, `step_counter` and `dynamic_scale`, in the places that the native wrapper has for
    them, so that each reads the other's files.
    """

    serialized_name = "LossScaleOptimizer"
    _restored_family = "keras3"
    # Keras looks classes up by module and name, and imports no other packages: files name the native wrapper, and load
    # as one without mpls.
    native_module = "keras.optimizers"
    _native_knows_fixed = False
    works_with_parameter_servers = True

    def _init_family(self, inner_optimizer: Any, name: str | None, options: StepOptions) -> None:
        require_known_backend()
        refuse_settings(inner_optimizer, options)
        warn_of_ignored_rule(inner_optimizer)
        # Skip the constructor of Keras' wrapper: it sets hyperparameters, which belong to the wrapped optimizer here.
        self.__dict__.update(vars(_Blank(learning_rate=0.0, name=name)))

    def _make_loss_scale(self, initial_scale: Any, growth_steps: int | None, settings: dict[str, Any]) -> LossScale:
        if growth_steps is None:
            return FixedState(initial_scale, **settings)
        refuse_off_tensorflow("adjustable", settings.get("adjustable"))
        # Create them in the native wrapper's order: files hold variables by position.
        counter = self.add_variable(shape=(), dtype="int", initializer="zeros", name=STEP_COUNTER)
        initializer = keras.initializers.Constant(start_of(initial_scale, settings))
        scale = self.add_variable(shape=(), dtype="float32", initializer=initializer, name=DYNAMIC_SCALE)
        # Bypass Keras' attribute tracking, which would save them twice.
        self.__dict__.update(step_counter=counter, dynamic_scale=scale)
        return DynamicState(initial_scale, growth_steps, scale, counter, **settings)

    @staticmethod
    def _global_policy() -> Any:
        return keras.config.dtype_policy()

    def _make_record(self, options: StepOptions) -> StepRecord:
        for name in ("track_overflows", "max_consecutive_skips", "check_unscaled"):
            refuse_off_tensorflow(name, getattr(options, name))
        on_tensorflow = keras.backend.backend() == "tensorflow"
        return super()._make_record(options) if on_tensorflow else BackendRecord(options)

    def _track_record(self) -> None:
        if keras.backend.backend() == "tensorflow":
            track(self, self._record, STEP_RECORD)

    def _held(self, loss_scale: Any) -> Any:
        if keras.backend.backend() == "tensorflow":
            return loss_scale
        # A class of the user may skip by its own `update`.
        if never_skips(loss_scale) or type(loss_scale) is FixedLossScale:
            return FixedState(fixed_value_of(loss_scale), **settings_beyond_originals(loss_scale))
        refuse_off_tensorflow("loss_scale", loss_scale, "be 'dynamic', a number or a FixedLossScale")
        return loss_scale

    def _shared(self, other: Any) -> Any:
        refuse_off_tensorflow("share_scale_with", other)
        loss_scale = other._loss_scale
        if isinstance(loss_scale, DynamicState):
            # Files hold variables by position: this optimizer's have the scale too.
            table.OWN_VARIABLES.needed_of(self).extend([loss_scale.counter, loss_scale.scale])
            self.__dict__.update(step_counter=loss_scale.counter, dynamic_scale=loss_scale.scale)
        return loss_scale

    def _track_inner(self) -> None:
        if keras.backend.backend() != "tensorflow":
            return
        # Use the native wrapper's keys in object-based checkpoints.
        track(self, self._optimizer, INNER_OPTIMIZER)
        if isinstance(self._loss_scale, DynamicState):
            for name in (STEP_COUNTER, DYNAMIC_SCALE):
                track(self, getattr(self, name), name)
            if self._loss_scale._initial_extras():
                self._track_loss_scale()
        elif self._shows_loss_scale_object or self._step_scale is not None:
            self._track_loss_scale()

    def _track_loss_scale(self) -> None:
        if isinstance(self._loss_scale, Trackable):
            track(self, self._loss_scale, LOSS_SCALE, overwrite=True)

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._check_restore()
        children: dict[str, Any] = super()._trackable_children(*args, **kwargs)
        return children

    # A checkpoint of a bare optimizer holds that optimizer's attributes where the wrapper is now. Both classes have
    # attributes of the same names.

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if is_bare(self, INNER_OPTIMIZER):
            return part_of(self._optimizer, name)
        return super()._lookup_dependency(name, *args, **kwargs)

    @property
    def _deferred_dependencies(self) -> Any:
        is_inners = is_bare(self, INNER_OPTIMIZER)
        return awaited_parts_of(self._optimizer) if is_inners else super()._deferred_dependencies

    def _valid_loss_scale(self, node: SavedObject, growth_steps: int | None) -> SavedObject | None:
        require_valid_state(node, growth_steps, STATE_OF_KERAS_3)
        loss_scale = super()._valid_loss_scale(node, growth_steps) if self._shows_loss_scale_object else None
        return node.child(DYNAMIC_SCALE) if loss_scale is None else loss_scale

    @property
    def _part_with_scale(self) -> Any:
        return vars(self).get(DYNAMIC_SCALE, self._loss_scale)

    def _set_iterations(self, value: Any) -> None:
        # Assign: the counter has been in the list of variables since the optimizer was constructed.
        steps = self._optimizer.gradient_accumulation_steps or 1
        table.KERAS_3_STEPS.needed_of(self._optimizer).assign(keras.ops.convert_to_tensor(value) * steps)

    def __dir__(self) -> list[str]:
        # Keras saves the attributes listed here: list the wrapped optimizer by its public name only.
        return [name for name in super().__dir__() if name != "_optimizer"]

    def __reduce__(self) -> Any:
        # Keras' own archive, plus the state that it leaves out for an optimizer without a model.
        _, (archive,) = super().__reduce__()
        state = self.state_dict() if hasattr(self._loss_scale, "load_state_dict") else None
        classes = called_class(type(self)), type(self._loss_scale)
        return _unpickled, (classes, self._behavior, archive.getvalue(), state)

    @staticmethod
    def deserialize_optimizer(config: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
        """Create a Keras 3 optimizer from its config.

        Args:
            config: the serialized optimizer.
            custom_objects: classes of the user by name.
        """
        if config.get("module") is None:
            return keras.optimizers.deserialize(config, custom_objects=custom_objects)
        return keras.saving.deserialize_keras_object(config, custom_objects=custom_objects)

    def _family_config(self) -> dict[str, Any]:
        inner = keras.saving.serialize_keras_object(self._optimizer)
        config = {"name": self.name, "inner_optimizer": inner}
        return config if self.dynamic else {**config, "dynamic": False}

    def _family_config_of_old(self) -> dict[str, Any]:
        return {"optimizer": keras.saving.serialize_keras_object(self._optimizer)}

    # Attributes of the wrapped optimizer.

    built: Any = delegated("built", "Whether the variables of the wrapped optimizer have been created.")
    weight_decay: Any = delegated("weight_decay", "The weight decay of the wrapped optimizer, a float, or None.")
    use_ema: Any = delegated("use_ema", "Whether the weights are averaged.")
    ema_momentum: Any = delegated("ema_momentum", "The momentum of that average, a float.")
    ema_overwrite_frequency: Any = delegated(
        "ema_overwrite_frequency", "Every how many steps the weights become their average, an int, or None."
    )
    gradient_accumulation_steps: Any = delegated(
        "gradient_accumulation_steps", "Over how many steps gradients are averaged, an int, or None."
    )

    @property
    def loss_scale_factor(self) -> None:
        """None, as the wrapper scales the loss."""
        return

    @loss_scale_factor.setter
    def loss_scale_factor(self, factor: Any) -> None:
        if factor is not None:
            raise ArgumentValueError(
                error_text(
                    "LossScaleOptimizer: loss_scale_factor",
                    "be None, as the wrapper scales the loss",
                    factor,
                    f"For a fixed scale: LossScaleOptimizer(optimizer, dynamic=False, initial_scale={factor})",
                    "fixed-scales",
                )
            )

    def build(self, var_list: Any) -> None:
        inner, variables = self._optimizer, list(var_list)
        # Keras builds an optimizer from an H5 file with no variables, after which it could never train.
        if not inner.built and variables:
            with keras.name_scope(inner.name, caller=inner):
                inner.build(variables)
        if self._record is not None and not in_replica_context():
            self._record.create_for(variables)
        if keras.backend.backend() == "tensorflow" and not trained_variables(self):
            # The native wrapper's object-based checkpoints have them too. Keras itself must not track them.
            track_list(self, table.TRAINABLE.name, variables)

    # Methods of Keras 2 optimizers, for code written for those.

    def _decayed_lr(self, var_dtype: Any) -> Any:
        return keras.ops.cast(self._optimizer.learning_rate, keras.backend.standardize_dtype(var_dtype))

    def _create_all_weights(self, var_list: Any) -> None:
        self.build(var_list)

    exclude_from_weight_decay: Any = passed_on("exclude_from_weight_decay")
    finalize_variable_values: Any = passed_on("finalize_variable_values")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> Any:
        """`update_step` of the wrapped optimizer: update a variable by its rule, without loss scaling."""
        return self._optimizer.update_step(gradient, variable, learning_rate)

    def check_finite(self, grads: Any) -> Any:
        return are_all_finite(list(grads))

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise CallOrderError(
            "LossScaleOptimizer: a gradient must be applied by the wrapped optimizer; got a call of the wrapper's own "
            "method for it. Call opt.apply(grads, variables). See mpls docs calling-styles"
        )

    _stateful_handle_finite_grads = _stateful_handle_non_finite_grads = _refuse
    _stateless_handle_finite_grads = _stateless_handle_non_finite_grads = _refuse
    _tf_apply = _common_apply = _refuse

    # Scaling a loss, and applying gradients, in either style; see `calls.py`.

    @as_written
    def scale_loss(self, loss: Any) -> Any:
        self._calls.note(SCALE_LOSS)
        loss = self._noted_loss(loss)
        scaled = keras.ops.multiply(loss, self._scale_of_step()) if self._options.enabled else loss
        return self._calls.checked(SCALE_LOSS, loss, scaled)

    def _scale(self, loss: Any) -> Any:
        return multiplied_loss(loss, self._scale_for)

    def _unscale(self, grads: list[Any]) -> list[Any]:
        variables = trained_variables(self._optimizer)
        if not any(map(overwrites, variables)):
            return unscaled_gradients(grads, self._scale_of_step())
        pairs = self._unscale_pairs(list(zip(grads, variables, strict=True)))
        return [grad for grad, _ in pairs]

    @as_written
    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        advice = "Compute gradients of opt.scale_loss(loss), and call opt.stateless_apply()"
        require_backend("tensorflow", "compute_gradients", advice)
        if tape is None and not callable(loss):
            raise ArgumentValueError(
                error_text(
                    "LossScaleOptimizer.minimize: tape",
                    "be given where the loss is a tensor",
                    tape,
                    "Pass the loss as a callable: opt.minimize(lambda: loss_fn(), variables)",
                    "calling-styles",
                )
            )
        tape = tf.GradientTape() if tape is None else tape
        with tape:
            loss = self._calls.not_scaled(loss)
            scaled_loss = self.get_scaled_loss(loss() if callable(loss) else loss)
        variables = as_variables(var_list() if callable(var_list) else var_list)
        grads = self.get_unscaled_gradients(tape.gradient(scaled_loss, variables))
        return list(zip(grads, variables, strict=True))

    def minimize(  # type: ignore[override]  # That of one family.
        self, loss: Any, var_list: Any, tape: Any = None
    ) -> None:
        """Compute the gradients of the scaled loss, unscale and apply them; on the TensorFlow backend.

        Args:
            loss: as `compute_gradients` takes it.
            var_list: as `compute_gradients` takes it.
            tape: as `compute_gradients` takes it.
        """
        self.apply_gradients(self.compute_gradients(loss, var_list, tape))

    @as_written
    def apply_gradients(
        self,
        grads_and_vars: Any,
        skip_gradients_aggregation: Any = False,
        experimental_aggregate_gradients: bool = True,
        name: Any = None,
    ) -> Any:
        """Update the loss scale, and apply the gradients or skip the step.

        Gradients that `get_unscaled_gradients` has returned are applied as they are, others are unscaled.

        Args:
            grads_and_vars: pairs of gradient and variable; those with None are left out.
            skip_gradients_aggregation: whether the gradients have been summed over replicas already, and are the same
                on all. Keras 3 itself has no such argument. A string is taken for a name. Any other value but a bool
                goes to the wrapped optimizer as the second positional argument of its own `apply_gradients`.
            experimental_aggregate_gradients: the reverse, of older code.
            name: ignored, as Keras 3 names no ops; of older code.

        Returns:
            `iterations`, as Keras does.

        Raises:
            ValueError: there is no gradient, the call is made in a cross-replica context, or the strategy does not
                work; and then nothing has changed.
            TypeError: `skip_gradients_aggregation` is not a bool, and the wrapped optimizer takes no such argument.
            RuntimeError: the calls of the step scale or unscale twice; or the call is made in a v1 graph.
        """
        del name
        pairs = some_pairs(grads_and_vars)
        second = skip_gradients_aggregation
        is_flag = second is None or isinstance(second, bool | str)
        if not is_flag:
            require_second_argument(self._optimizer, second)
        is_summed = second is True or not experimental_aggregate_gradients
        grads, variables = [grad for grad, _ in pairs], [variable for _, variable in pairs]
        self._apply(grads, variables, "apply_gradients", is_summed, () if is_flag else (second,))
        return self.iterations

    @as_written
    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        if grads := list(grads):
            self._apply(grads, self._variables_for(grads, trainable_variables), "apply")

    def _variables_for(self, grads: list[Any], trainable_variables: Any) -> list[Any]:
        if trainable_variables is None:
            if not self.built:
                raise ArgumentValueError(
                    "LossScaleOptimizer.apply: trainable_variables must be given until the optimizer is built; got "
                    "None (NoneType). Call opt.apply(grads, variables), or opt.build(variables) before. "
                    "See mpls docs keras-3"
                )
            trainable_variables = trained_variables(self._optimizer)
        if len(grads) != len(variables := list(trainable_variables)):
            raise ArgumentValueError(
                f"LossScaleOptimizer.apply: grads must be as many as the variables, {len(variables)}; got {len(grads)} "
                "(list). Call opt.apply(grads, variables). See mpls docs keras-3"
            )
        return variables

    def _apply(
        self,
        grads: list[Any],
        variables: list[Any],
        method: str,
        is_summed: bool = False,
        args: tuple[Any, ...] = (),
    ) -> Any:
        require_gradients(pairs := list(zip(grads, variables, strict=True)))
        if keras.backend.backend() == "tensorflow":
            require_replica_context()
            require_supported_strategy(type(self))
            refuse_v1_graph("one of Keras 3")
        is_scaled = self._begin_step(method, variables)
        call_in_cross_replica_context(lambda: self._build_outside(variables))
        refuse_unknown(self._optimizer, variables)
        if keras.backend.backend() != "tensorflow":
            return step_on_backend(self, pairs, is_scaled)
        if is_scaled:
            pairs = self._unscale_pairs(pairs)
            self._noted_gradients([grad for grad, _ in pairs])
        if not is_summed and (own := aggregation_of_user(self, Keras3Adapter)) is not None:
            pairs = as_pairs(own(self, pairs), pairs)
        return self._take_step(pairs, Keras3Step(self._optimizer, is_summed, self._skips_count, args))

    def _take_step(self, pairs: list[tuple[Any, Any]], step: Keras3Step) -> Any:
        return self._scaled_step(pairs, step)

    @property
    def _skips_count(self) -> bool:
        by_default = self._behavior.skipped_steps_count_in_keras_3
        return self._options.skips_count(by_default and not accumulates(self._optimizer))

    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        # For subclasses written for legacy optimizers. The wrapped optimizer sums gradients when it applies them.
        return self._aggregated_as_of_release(grads_and_vars)

    def _build_outside(self, variables: list[Any]) -> None:
        # Build outside of replicas and functions, which would own the variables.
        with tf.init_scope(), building():
            self.build(variables)
            self._create_state()

    def _unscale_pairs(self, grads_and_vars: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        if not self._options.enabled:
            return grads_and_vars
        grads, variables = map(list, zip(*grads_and_vars, strict=True))
        return list(zip(unscaled_for(grads, variables, self._scale_of_step()), variables, strict=True))

    def _begin_step(self, method: str, variables: Iterable[Any] = ()) -> bool:
        """Check the scaling calls of the step, and return whether the gradients are still scaled."""
        hides_calls = keras.backend.backend() != "tensorflow"
        is_scaled = self._calls.require_unscaled_once(self._loss_scale, method, variables, hides_calls=hides_calls)
        refuse_settings(self._optimizer, self._options)
        return is_scaled

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> tuple[Any, Any]:
        require_backend("jax", "stateless_apply", "Call opt.apply(grads, variables)")
        is_scaled = self._begin_step("stateless_apply")
        return stateless_step(self, optimizer_variables, grads, trainable_variables, is_scaled)

    # The variables, as lists, as arrays, and in files.

    @property
    def variables(self) -> CallableList:
        """The wrapper's own variables, then those of the wrapped optimizer.

        Its own end with the counter and the scale; on JAX, those of `hysteresis`, `'auto'` and `count_steps` follow.
        Called, it returns those of the wrapped optimizer alone, `iterations` the first of them.
        """
        inner = self._optimizer.variables
        if who_calls(self).writes_h5_variables or vars(self).get(_IS_LOADING):
            return CallableList([*variables_in_files(self), *inner], inner)
        own = table.OWN_VARIABLES.of(self, [])
        return CallableList([*own, *option_variables(self), *inner], inner)

    def get_weights(self) -> list[Any]:
        return [keras.ops.convert_to_numpy(variable) for variable in self.weights]

    def set_weights(self, weights: Any) -> None:
        weights = list(weights)
        variables = self.weights if len(weights) == len(self.weights) else self.variables
        shapes, given = ([tuple(value.shape) for value in values] for values in (variables, weights))
        if shapes != given:
            raise ArgumentValueError(
                error_text(
                    "LossScaleOptimizer.set_weights: weights",
                    f"have the shapes {shapes}",
                    given,
                    "Call opt.build(variables) before",
                    "keras-3",
                )
            )
        for variable, value in zip(variables, weights, strict=True):
            variable.assign(value)

    def save_own_variables(self, store: Any) -> None:
        for index, variable in enumerate([*variables_in_files(self), *self._optimizer.variables]):
            store[str(index)] = keras.ops.convert_to_numpy(variable)

    def load_own_variables(self, store: Any) -> None:
        store = without_unknown(self, store)
        saved = len(self.variables) - len(option_variables(self))
        if not wrapped_optimizer_follows.is_raised or len(store) != saved:
            # The config has the values of options.
            self.__dict__[_IS_LOADING] = bool(option_variables(self))
            try:
                _Native.load_own_variables(self, store)
            finally:
                del self.__dict__[_IS_LOADING]
            return
        for index, variable in enumerate(table.OWN_VARIABLES.of(self, [])):
            variable.assign(store[str(index)])


def _unpickled(
    classes: tuple[type, ...], behavior: ReleaseBehavior, archive: bytes, state: dict[str, Any] | None
) -> Any:
    block = object()
    enter_block(block, behavior)
    try:
        # The archive names the native wrapper where the class is one of mpls.
        names = [Keras3Adapter.serialized_name if is_of_mpls(each) else each.__name__ for each in classes]
        with keras.saving.custom_object_scope(dict(zip(names, classes, strict=True))):
            optimizer = table.UNPICKLE.needed_of(_Native)(io.BytesIO(archive))
    finally:
        leave_block(block)
    if state is not None:
        optimizer.load_state_dict(state)
    return optimizer


# Checks, made before anything changes.


def require_known_backend() -> None:
    """Refuse backends of Keras on which mpls is not tested."""
    backend, subject = keras.backend.backend(), "LossScaleOptimizer: the backend of Keras"
    if backend not in ("tensorflow", "jax"):
        advice = "Set KERAS_BACKEND=tensorflow before Keras is imported"
        raise UnsupportedBackendError(error_text(subject, "be tensorflow or jax", backend, advice, "keras-3"))


def require_backend(wanted: str, method: str, advice: str) -> None:
    """Refuse a method on another backend of Keras."""
    backend, subject = keras.backend.backend(), f"LossScaleOptimizer: {method}()"
    if backend != wanted:
        constraint = f"be called on the backend {wanted}"
        raise UnsupportedBackendError(error_text(subject, constraint, backend, advice, "keras-3"))


def accumulates(inner_optimizer: Any) -> bool:
    """Return whether an optimizer averages the gradients of several steps, and updates variables after these."""
    return bool(inner_optimizer.gradient_accumulation_steps)


def refuse_settings(inner_optimizer: Any, options: StepOptions) -> None:
    """Refuse an optimizer whose own settings do not go with a loss scale, or with the options of the wrapper."""
    _refuse_factor(inner_optimizer)
    if options.skip_counts_step and accumulates(inner_optimizer):
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: skip_counts_step",
                "be False or left out where the optimizer has gradient_accumulation_steps, as Keras would take a "
                "skipped step for one of those that it has added up",
                options.skip_counts_step,
                "Leave it out, and read skipped_steps: LossScaleOptimizer(optimizer, count_steps=True)",
                "counted-steps",
            )
        )


def _refuse_factor(inner_optimizer: Any) -> None:
    """Refuse an optimizer with a `loss_scale_factor`: it would unscale the gradients a second time."""
    factor = inner_optimizer.loss_scale_factor
    if factor is not None:
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: inner_optimizer",
                "have no loss_scale_factor of its own",
                factor,
                f"Leave it out, and pass LossScaleOptimizer(optimizer, dynamic=False, initial_scale={factor})",
                "fixed-scales",
            )
        )


def refuse_unknown(inner_optimizer: Any, variables: list[Any]) -> None:
    """Refuse variables that the optimizer was not built with, before the loss scale is updated."""
    unknown = [str(variable.name) for variable in unknown_variables(inner_optimizer, variables)]
    if unknown:
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: trainable_variables",
                "be among those that the optimizer was built with",
                unknown,
                "Call opt.build(all_variables) before the first step, or create another optimizer",
                "keras-3",
            )
        )


def require_second_argument(inner_optimizer: Any, value: Any) -> None:
    """Refuse a second positional argument of `apply_gradients` that the wrapped optimizer's own does not take."""
    parameters = inspect.signature(inner_optimizer.apply_gradients).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    if keras.backend.backend() != "tensorflow" or (len(positional) < 2 and not takes_any):
        raise ArgumentTypeError(
            error_text(
                "LossScaleOptimizer.apply_gradients: skip_gradients_aggregation",
                f"be a bool, since apply_gradients of {type(inner_optimizer).__name__} takes nothing in its place",
                value,
                "opt.apply_gradients(zip(grads, variables))",
                "second-argument",
            )
        )


def refuse_off_tensorflow(option: str, value: Any, constraint: str = "be left out") -> None:
    """Refuse an option that is set, as its state is in TensorFlow's variables, if Keras runs on another backend."""
    backend = keras.backend.backend()
    if backend == "tensorflow" or value is None or value is False:
        return
    subject, constraint = f"LossScaleOptimizer: {option}", f"{constraint} where Keras runs on {backend}"
    advice = "Its state is in TensorFlow's variables: run Keras on TensorFlow"
    raise UnsupportedBackendError(error_text(subject, constraint, value, advice, "keras-3"))
