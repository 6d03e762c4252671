"""The wrapper over the optimizers of Keras 3, `keras.optimizers.Optimizer`."""

from __future__ import annotations

import inspect
import io
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from mpls.core.autograph import as_written
from mpls.core.counters import StepRecord
from mpls.core.dynamic import start_of
from mpls.core.gradients import as_variables
from mpls.core.loss_scale import FixedLossScale, LossScale, never_skips
from mpls.core.releases import ReleaseBehavior, enter_block, leave_block
from mpls.core.replicas import call_in_cross_replica_context, in_replica_context
from mpls.core.state_checks import SavedObject, is_bare, require_valid_state
from mpls.core.step_options import StepOptions
from mpls.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CallOrderError,
    UnsupportedBackendError,
    error_text,
)
from mpls.formats.wrapper_state import (
    DYNAMIC_SCALE,
    INNER_OPTIMIZER,
    LOSS_SCALE,
    STATE_OF_KERAS_3,
    STEP_COUNTER,
    STEP_RECORD,
)
from mpls.keras.arguments import settings_beyond_originals, warn_of_ignored_rule
from mpls.keras.calls import SCALE_LOSS, require_gradients, some_pairs
from mpls.keras.classes import called_class, is_of_mpls
from mpls.keras.family_members import CallableList, FamilyMembers, delegated, passed_on
from mpls.keras.keras3 import ops
from mpls.keras.keras3.state import (
    BackendRecord,
    DynamicState,
    FixedState,
    Keras3Step,
    option_variables,
    overwrites,
    variables_in_files,
    without_unknown,
)
from mpls.keras.marked_configs import who_calls, wrapped_optimizer_follows
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
from mpls.upstream.optimizers import trained_variables
from mpls.upstream.tensorflow import fixed_value_of
from mpls.upstream.trackables import Trackable, awaited_parts_of, part_of, track, track_list

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
        if isinstance(loss_scale, FixedLossScale) and never_skips(loss_scale):
            return FixedState(fixed_value_of(loss_scale), **settings_beyond_originals(loss_scale))
        refuse_off_tensorflow("loss_scale", loss_scale, "be 'dynamic' or a number")
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

    def _require_valid_loss_scale(self, node: SavedObject, growth_steps: int | None) -> bool:
        require_valid_state(node, growth_steps, STATE_OF_KERAS_3)
        if self._shows_loss_scale_object and super()._require_valid_loss_scale(node, growth_steps):
            return True
        return node.child(DYNAMIC_SCALE) is not None

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
        return ops.all_finite(list(grads))

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
        return ops.scale_loss(loss, self._scale_for)

    def _unscale(self, grads: list[Any]) -> list[Any]:
        variables = trained_variables(self._optimizer)
        if not any(map(overwrites, variables)):
            return ops.unscale(grads, self._scale_of_step())
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
            return ops.apply(self, pairs, is_scaled)
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
        return list(zip(ops.unscale_for(grads, variables, self._scale_of_step()), variables, strict=True))

    def _begin_step(self, method: str, variables: Iterable[Any] = ()) -> bool:
        """Check the scaling calls of the step, and return whether the gradients are still scaled."""
        hides_calls = keras.backend.backend() != "tensorflow"
        is_scaled = self._calls.require_unscaled_once(self._loss_scale, method, variables, hides_calls=hides_calls)
        refuse_settings(self._optimizer, self._options)
        return is_scaled

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> tuple[Any, Any]:
        require_backend("jax", "stateless_apply", "Call opt.apply(grads, variables)")
        is_scaled = self._begin_step("stateless_apply")
        return ops.stateless_apply(self, optimizer_variables, grads, trainable_variables, is_scaled)

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
