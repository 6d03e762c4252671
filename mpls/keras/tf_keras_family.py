"""The wrappers over the optimizers of tf_keras: legacy ones and new ones."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tensorflow as tf
import tf_keras

from mpls.core.autograph import as_written
from mpls.core.dynamic import DynamicLossScale
from mpls.core.gradients import as_variables, scale_loss, unscale_gradients
from mpls.core.loss_scale import FixedLossScale, LossScale, is_dynamic, is_loss_scale, never_skips
from mpls.core.replicas import in_replica_context
from mpls.core.savers import StepNames, hook_user_savers
from mpls.core.step_options import StepOptions
from mpls.core.wrapper_members import RestorableWithSlots
from mpls.errors import ArgumentTypeError, CallOrderError, NotPicklableError, error_text
from mpls.formats.wrapper_state import BASE_OPTIMIZER, LOSS_SCALE, STEP_RECORD, WRAPPER_V3
from mpls.keras.arguments import warn_of_ignored_rule
from mpls.keras.calls import GET_SCALED_LOSS, GET_UNSCALED_GRADIENTS, drop_missing_gradients, some_pairs
from mpls.keras.family_members import FamilyMembers, delegated, passed_on
from mpls.keras.marked_configs import wrapped_optimizer_follows
from mpls.keras.strategies import (
    aggregation_of_user,
    as_pairs,
    building,
    refuse_v1_graph,
    require_replica_context,
    require_supported_strategy,
)
from mpls.optimizer_members import AGGREGATION_OF_LEGACY
from mpls.upstream import table
from mpls.upstream.keras_packages import keras_graph_session, native_tf_keras_wrapper, track_in_keras_graph
from mpls.upstream.optimizers import (
    aggregated,
    create_weights,
    fill_slot,
    hyperparameters_of,
    name_of_legacy,
    sums_as_keras_does,
)
from mpls.upstream.tensorflow import graph_key, weights_of
from mpls.upstream.trackables import Trackable, awaited_parts_of, part_of, parts_of, show_in_place_of, track

# Base classes for isinstance checks only: tf_keras tests for them in `compile`, in its v1 training code, and when it
# converts optimizers.
_NativeOverLegacy: Any = native_tf_keras_wrapper(over_new=False)
_NativeOverNew: Any = native_tf_keras_wrapper(over_new=True)


class TfKerasMembers(RestorableWithSlots, FamilyMembers):
    """State, configs, and how checkpoints see the wrapper."""

    _native_knows_fixed = True
    works_with_parameter_servers = False

    def _init_family(self, inner_optimizer: Any, name: str | None, options: StepOptions) -> None:
        del inner_optimizer, options
        if name is not None:
            raise ArgumentTypeError(
                error_text(
                    "LossScaleOptimizer: name",
                    "be left out for an optimizer of tf_keras, whose wrappers have none",
                    name,
                    "LossScaleOptimizer(optimizer)",
                    "optimizer-arguments",
                )
            )

    @classmethod
    def deserialize_optimizer(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
        """Create an optimizer of this family from its config.

        Args:
            config: the serialized optimizer.
            custom_objects: classes of the user by name.
        """
        is_legacy = cls._restored_family == "legacy"
        # tf_keras itself does not look for all of its new classes: Lion and Adafactor are missing.
        found = None if is_legacy else getattr(tf_keras.optimizers, str(config.get("class_name")), None)
        objects = {**({found.__name__: found} if isinstance(found, type) else {}), **(custom_objects or {})}
        return tf_keras.optimizers.deserialize(config, custom_objects=objects, use_legacy_optimizer=is_legacy)

    def _make_loss_scale(self, initial_scale: Any, growth_steps: int | None, settings: dict[str, Any]) -> LossScale:
        if growth_steps is None:
            return FixedLossScale._unbounded(initial_scale, **settings)
        return DynamicLossScale(initial_scale, growth_steps, 2.0, **settings)

    @staticmethod
    def _global_policy() -> Any:
        return tf_keras.mixed_precision.global_policy()

    def _track_record(self) -> None:
        track(self._optimizer, self._record, STEP_RECORD, overwrite=True)

    def _held(self, loss_scale: Any) -> Any:
        for variable in weights_of(loss_scale) if is_loss_scale(loss_scale) else ():
            track_in_keras_graph(variable)
        return loss_scale

    @staticmethod
    def _shared(other: Any) -> Any:
        return other._loss_scale

    def _track_inner(self) -> None:
        # Checkpoints hold the wrapped optimizer in the wrapper's place, with the loss scale as one of its parts.
        show_in_place_of(self, self._optimizer)
        is_object = self._shows_loss_scale_object or self._step_scale is not None
        if isinstance(self._loss_scale, DynamicLossScale) or is_object:
            self._track_loss_scale()

    def _track_loss_scale(self) -> None:
        if isinstance(self._loss_scale, Trackable):
            track(self._optimizer, self._loss_scale, LOSS_SCALE, overwrite=True)

    def _create_own_weights(self, variables: list[Any]) -> None:
        """Create the state of the loss scale, and what is counted of the variables, with that of the optimizer.

        Checkpoints have them from then on. Under a strategy, a `tf.function` that creates variables is traced twice:
        creating them before its first call avoids that.
        """
        if not in_replica_context():
            self._create_state()
            if self._record is not None:
                self._record.create_for(variables)

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._check_restore()
        inner = self._optimizer
        children: dict[str, Any] = parts_of(inner, *args, **kwargs)
        # New optimizers cache their children, possibly before they were wrapped.
        own = {name: part_of(inner, name) for name in (LOSS_SCALE, STEP_RECORD)}
        return {**children, **{name: part for name, part in own.items() if part is not None}}

    @property
    def _skips_count(self) -> bool:
        return self._options.skips_count(self._behavior.skipped_steps_count)

    def _session_of_state(self, session: Any) -> Any:
        if session is None and graph_key() is not None and tf.compat.v1.get_default_session() is None:
            return keras_graph_session()
        return session

    def _set_iterations(self, value: Any) -> None:
        self._optimizer.iterations = value

    def _apply_gradients(self, *_: Any, **__: Any) -> Any:
        raise CallOrderError("LossScaleOptimizer applies gradients in apply_gradients(): call that.")

    # Users' code reads these.

    @property
    def _loss_has_been_scaled(self) -> bool:
        return GET_SCALED_LOSS in self._calls.ever

    @property
    def _gradients_have_been_unscaled(self) -> bool:
        return GET_UNSCALED_GRADIENTS in self._calls.ever

    def _scale(self, loss: Any) -> Any:
        return scale_loss(loss, self._scale_for)

    def _unscale(self, grads: list[Any]) -> list[Any]:
        unscaled: list[Any] = unscale_gradients(grads, self._scale_of_step())
        return unscaled

    def _unscale_pairs(self, grads_and_vars: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        # Call the public method, which users' subclasses override.
        grads = self.get_unscaled_gradients([grad for grad, _ in grads_and_vars])
        return [(grad, variable) for grad, (_, variable) in zip(grads, grads_and_vars, strict=True)]

    def __copy__(self) -> Any:
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise NotPicklableError(
            "LossScaleOptimizer: an optimizer that is pickled must be one of Keras 3; got one of tf_keras, which "
            "cannot be pickled by itself either. Pickle the model, or opt.get_config() and opt.state_dict(). "
            "See mpls docs state-in-a-dict"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        vars(copied).update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return copied

    def _family_config(self) -> dict[str, Any]:
        inner = tf_keras.optimizers.serialize(self._optimizer)
        return {"inner_optimizer": inner, "dynamic": is_dynamic(self._loss_scale)}

    def _family_config_of_old(self) -> dict[str, Any]:
        serialized = tf_keras.optimizers.serialize(self._optimizer)
        return {"optimizer": {key: serialized[key] for key in ("class_name", "config")}}


@dataclass
class TfKerasStep:
    """Step hooks: how the wrapped optimizer is called, and what a skipped step advances.

    Attributes:
        optimizer: the wrapped optimizer.
        skips_count: whether a skipped step advances `iterations`, as from TF 2.3 on.
        args: its positional arguments after the pairs.
        kwargs: its keyword arguments.
        are_same: whether Keras itself has summed the gradients, so that all replicas have the same.
    """

    optimizer: Any
    skips_count: bool
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    are_same: bool = False

    sums_gradients: ClassVar[bool] = False

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        """Call the wrapped optimizer, which advances `iterations`."""
        return self.optimizer.apply_gradients(grads_and_vars, *self.args, **self.kwargs)

    def skip(self) -> Any:
        """Advance `iterations`, or do nothing."""
        return self.optimizer.iterations.assign_add(1, read_value=False) if self.skips_count else None


def scope_of_weights(wrapper: FamilyMembers) -> AbstractContextManager[Any]:
    """Return the name scope in which a wrapped legacy optimizer's variables are to be made.

    They get the names that they have without the wrapper. In a graph, the names that tf_keras' own wrapper would give
    them are noted too.
    """
    inner = wrapper._optimizer
    name = name_of_legacy(inner)
    scope: AbstractContextManager[Any]
    scope = tf.name_scope(name) if tf.executing_eagerly() else _noted(wrapper, name)
    return scope


@contextmanager
def _noted(wrapper: FamilyMembers, name: str) -> Iterator[None]:
    hook_user_savers(wrapper)
    is_fixed = never_skips(wrapper._acting_scale)
    names = StepNames(has_conditional=not is_fixed)
    before = _global_variables()
    scope = name
    if is_fixed:
        # The wrapped optimizer enters the scope itself, outside of any conditional, which uses up a unique name.
        scope = tf.compat.v1.get_default_graph().unique_name(name, mark_as_used=False) + "/"
    with tf.name_scope(scope) as prefix:
        yield
    made = {each.op.name for each in _global_variables()} - {each.op.name for each in before}
    names.note({own: f"{name}/{own.removeprefix(prefix)}" for own in sorted(made) if own.startswith(prefix)})


def _global_variables() -> list[Any]:
    with tf.init_scope():
        # A tf.function in eager mode has no v1 variable names to record.
        return [] if tf.executing_eagerly() else list(tf.compat.v1.global_variables())


class LegacyAdapter(TfKerasMembers, _NativeOverLegacy):
    """Members of wrappers over legacy optimizers; every method that the native class defines is overridden."""

    serialized_name = "LossScaleOptimizer"
    _restored_family = "legacy"
    native_module: ClassVar[str] = _NativeOverLegacy.__module__

    # tf_keras reads this to learn whether apply_gradients takes experimental_aggregate_gradients.
    _HAS_AGGREGATE_GRAD = True

    def _track_inner(self) -> None:
        super()._track_inner()
        hook_user_savers(self)
        track(self, _InnerAtOldPlace(self._optimizer), BASE_OPTIMIZER)
        parameters = inspect.signature(self._optimizer.apply_gradients).parameters.values()
        self._sums_once = any(
            each.name == AGGREGATION_OF_LEGACY or each.kind is each.VAR_KEYWORD for each in parameters
        )

    @as_written
    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        tape = tf.GradientTape() if tape is None else tape
        with tape:
            scaled_loss = self.get_scaled_loss(self._calls.not_scaled(loss))
        compute_gradients = table.COMPUTE_GRADIENTS.needed_of(self._optimizer)
        grads_and_vars = compute_gradients(scaled_loss, var_list, grad_loss, tape=tape)
        return self._unscale_pairs(grads_and_vars)

    @as_written
    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        grads = self._optimizer.get_gradients(self.get_scaled_loss(self._calls.not_scaled(loss)), params)
        unscaled: list[Any] = self.get_unscaled_gradients(grads)
        return unscaled

    @as_written
    def apply_gradients(
        self, grads_and_vars: Any, name: Any = None, experimental_aggregate_gradients: bool = True
    ) -> Any:
        """Update the loss scale, and apply the gradients or skip the step.

        Args:
            grads_and_vars: pairs of unscaled gradient and variable; those with None are left out.
            name: name of the returned op. What is not a string goes to the wrapped optimizer as its second positional
                argument, as up to TF 2.9.
            experimental_aggregate_gradients: whether to sum the gradients over replicas. If not, replicas still agree
                on whether to skip.

        Returns:
            In a graph, the op that does it; in eager mode None.

        Raises:
            ValueError: every gradient is None, the call is made in a cross-replica context, or the strategy does not
                work; and then nothing has changed.
            TypeError: several replicas train, and `apply_gradients` of the wrapped optimizer is of TF 2.1 and earlier:
                it does not take the last argument.
        """
        require_replica_context()
        require_supported_strategy(type(self))
        self._require_single_sum()
        pairs = drop_missing_gradients(grads_and_vars)
        self._calls.warn_if_forgotten(self._loss_scale, (variable for _, variable in pairs))
        inner = self._optimizer
        if not tf.executing_eagerly() or tf.distribute.has_strategy():
            # Create variables outside of the conditional, or they would belong to its branch. Eager mode has no branch.
            _create_weights(self, pairs)
        given = pairs
        if experimental_aggregate_gradients and self._sums_once:
            # Sum before the finite check, so that all replicas see a non-finite gradient.
            transform = table.TRANSFORM.of(inner)
            pairs = self._aggregate(pairs if transform is None else transform(pairs))
        args, kwargs = self._second_argument(name)
        if self._sums_once:
            kwargs = {**kwargs, AGGREGATION_OF_LEGACY: False}
        # Skip this check without replicas: every eager step runs it.
        is_summed = experimental_aggregate_gradients and tf.distribute.has_strategy()
        are_same = is_summed and self._sums_as_keras_does()
        step = _LegacyStep(inner, self._skips_count, args, kwargs, are_same, lambda: _create_weights(self, pairs))
        return self._scaled_step(pairs, step, given)

    def _require_single_sum(self) -> None:
        """Refuse replicas if the wrapped optimizer would sum what is summed, as it cannot be told not to."""
        if self._sums_once or tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return
        raise ArgumentTypeError(
            error_text(
                "LossScaleOptimizer: inner_optimizer",
                f"have an apply_gradients that takes {AGGREGATION_OF_LEGACY} where several replicas train",
                self._optimizer,
                f"Give it the argument {AGGREGATION_OF_LEGACY}=True, and pass it to super().apply_gradients",
                "strategies",
            )
        )

    def _second_argument(self, name: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments by which the wrapped optimizer gets the second positional argument."""
        if self._behavior.passes_second_argument_on:
            return (name,), {}
        is_name = isinstance(name, str) or (name is not None and self._behavior.second_argument_is_name)
        if is_name:
            return (), {"name": name}
        return (() if name is None else (name,)), {}

    def _aggregate(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        own = aggregation_of_user(self, LegacyAdapter)
        return as_pairs(aggregated(self._optimizer, pairs) if own is None else own(self, pairs), pairs)

    def _sums_as_keras_does(self) -> bool:
        is_overridden = type(self)._aggregate_gradients is not LegacyAdapter._aggregate_gradients
        return not is_overridden and sums_as_keras_does(self._optimizer)

    def _clip_gradients(self, grads: Any) -> Any:
        # Copies of TF 2.3's training step call it; the wrapped optimizer clips when it applies them.
        return grads

    # The public class decides, for all families, which attributes are read from the wrapped optimizer.

    __getattribute__: Any = object.__getattribute__
    __setattr__: Any = object.__setattr__
    __dir__: Any = object.__dir__

    @property
    def _hyper(self) -> dict[str, Any]:
        return hyperparameters_of(self._optimizer)

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        return table.GET_HYPER.needed_of(self._optimizer)(name, dtype)

    def _set_hyper(self, name: str, value: Any) -> None:
        table.SET_HYPER.needed_of(self._optimizer)(name, value)

    def _decayed_lr(self, var_dtype: Any) -> Any:
        return table.DECAYED_RATE.needed_of(self._optimizer)(var_dtype)

    # Weights and slots belong to the wrapped optimizer.

    @property
    def weights(self) -> list[Any]:
        """The variables of the wrapped optimizer: iterations, then slots; not those of the loss scale."""
        weights: list[Any] = self._optimizer.weights
        return weights

    def variables(self) -> list[Any]:  # type: ignore[override]  # A method, as with legacy optimizers.
        """Return the same as `weights`."""
        variables: list[Any] = self._optimizer.variables()
        return variables

    get_weights: Any = passed_on("get_weights")
    set_weights: Any = passed_on("set_weights")
    get_slot_names: Any = passed_on("get_slot_names")
    get_slot: Any = passed_on("get_slot")
    # Optimizers of users that override it need not take a shape.
    add_slot: Any = passed_on("add_slot")

    def add_weight(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = "zeros",
        trainable: bool | None = None,
        synchronization: Any = tf.VariableSynchronization.AUTO,
        aggregation: Any = tf.VariableAggregation.NONE,
    ) -> Any:
        """`add_weight` of the wrapped optimizer: add a variable to it, which checkpoints hold too."""
        return self._optimizer.add_weight(name, shape, dtype, initializer, trainable, synchronization, aggregation)

    def _create_all_weights(self, var_list: Any) -> None:
        variables = list(var_list)
        create_weights(self._optimizer, variables)
        self._create_own_weights(variables)

    # These call the methods above.
    minimize: Any = _NativeOverLegacy.minimize
    get_updates: Any = _NativeOverLegacy.get_updates

    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        pairs = list(grads_and_vars)
        return self._aggregated_as_of_release(as_pairs(aggregated(self._optimizer, pairs), pairs))

    def _restore_slot_variable(self, slot_name: str, variable: Any, slot_variable: Any) -> Any:
        return table.RESTORE_SLOT.needed_of(self._optimizer)(slot_name, variable, slot_variable)


def _create_weights(wrapper: FamilyMembers, grads_and_vars: list[tuple[Any, Any]]) -> None:
    with scope_of_weights(wrapper), tf.init_scope():
        create_weights(wrapper._optimizer, [variable for _, variable in grads_and_vars])


@dataclass
class _LegacyStep(TfKerasStep):
    """Step hooks: slots exist after a skipped first step too.

    Attributes:
        create_weights: creates the wrapped optimizer's variables.
    """

    create_weights: Callable[[], None] = lambda: None

    def skip(self) -> Any:
        """Advance `iterations`, which a skipped first step of eager mode creates outside of the optimizer's names."""
        skipped = super().skip()
        if tf.executing_eagerly():
            self.create_weights()
        return skipped


class _InnerAtOldPlace(Trackable):
    """A child of the wrapper with the name that the wrapped optimizer has in checkpoints of TF 1.15 to 2.2.

    It restores the wrapped optimizer from them. When a checkpoint is written it has no children, so that the checkpoint
    is that of the native wrapper.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def get_slot_names(self) -> list[str]:
        names: list[str] = self._optimizer.get_slot_names()
        return names

    def _create_or_restore_slot_variable(self, slot_variable_position: Any, *args: Any, **kwargs: Any) -> Any:
        return fill_slot(self._optimizer, slot_variable_position, *args, **kwargs)

    def _lookup_dependency(self, name: str, *_: Any, **__: Any) -> Any:
        return part_of(self._optimizer, name)

    @property
    def _deferred_dependencies(self) -> Any:
        # Iterations and hyperparameters may be created after the restore.
        return awaited_parts_of(self._optimizer)


class NewAdapter(TfKerasMembers, _NativeOverNew):
    """Members of wrappers over new optimizers; every method that the native class defines is overridden."""

    serialized_name = WRAPPER_V3
    _restored_family = "new"
    native_module: ClassVar[str] = _NativeOverNew.__module__

    def _init_family(self, inner_optimizer: Any, name: str | None, options: StepOptions) -> None:
        super()._init_family(inner_optimizer, name, options)
        warn_of_ignored_rule(inner_optimizer)

    @as_written
    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        tape = tf.GradientTape() if tape is None else tape
        with tape:
            scaled_loss = self.get_scaled_loss(self._calls.not_scaled(loss))
        grads_and_vars = self._optimizer.compute_gradients(scaled_loss, as_variables(var_list), tape=tape)
        return self._unscale_pairs(grads_and_vars)

    @as_written
    def apply_gradients(self, grads_and_vars: Any, skip_gradients_aggregation: Any = False, **kwargs: Any) -> None:
        """Update the loss scale, and apply the gradients or skip the step.

        Args:
            grads_and_vars: pairs of unscaled gradient and variable; those with None are left out.
            skip_gradients_aggregation: whether the gradients have been summed over replicas already. If they have,
                replicas still agree on whether to skip. What is not a bool goes to the wrapped optimizer as its second
                positional argument, as with the experimental class up to TF 2.8; as of TF 2.10 and later, only a string
                does, and what else is not a bool counts as one.
            **kwargs: `experimental_aggregate_gradients`, the reverse, of older code; others go to the wrapped
                optimizer.

        Raises:
            ValueError: there is no gradient, the call is made in a cross-replica context, or the strategy does not
                work; and then nothing has changed.
            RuntimeError: the call is made in a v1 graph, where new optimizers of tf_keras return no op to run.
        """
        require_replica_context()
        require_supported_strategy(type(self))
        pairs = some_pairs(grads_and_vars)
        present = drop_missing_gradients(pairs)
        refuse_v1_graph("a new one of tf_keras")
        self._calls.warn_if_forgotten(self._loss_scale, (variable for _, variable in present))
        with tf.init_scope():
            self.build([variable for _, variable in pairs])
        if self._behavior.second_argument_is_name and not isinstance(skip_gradients_aggregation, str):
            skip_gradients_aggregation = bool(skip_gradients_aggregation)
        is_bool = isinstance(skip_gradients_aggregation, bool)
        is_aggregated = not kwargs.pop("experimental_aggregate_gradients", True) or (
            is_bool and skip_gradients_aggregation
        )
        given, are_same = present, False
        if not is_aggregated:
            # Sum before the finite check, so that all replicas see a non-finite gradient.
            present, are_same = self._aggregate(present)
        args = () if is_bool else (skip_gradients_aggregation,)
        kwargs = {**kwargs, "skip_gradients_aggregation": True}
        step = TfKerasStep(self._optimizer, self._skips_count, args, kwargs, are_same)
        # Functions of programs return what this returns, which must be no op, as it is with tf_keras' own wrapper.
        self._scaled_step(present, step, given)

    # It calls the methods above.
    minimize: Any = _NativeOverNew.minimize

    def _aggregate(self, pairs: list[tuple[Any, Any]]) -> tuple[list[tuple[Any, Any]], bool]:
        """Return pairs of summed gradient and variable, and whether Keras itself has summed them."""
        own = aggregation_of_user(self, NewAdapter)
        if own is not None:
            return as_pairs(own(self, pairs), pairs), False
        aggregate = self._optimizer.aggregate_gradients
        is_keras = getattr(aggregate, "__func__", None) is tf_keras.optimizers.Optimizer.aggregate_gradients
        return as_pairs(aggregate(pairs), pairs), is_keras

    aggregate_gradients: Any = passed_on("aggregate_gradients")
    exclude_from_weight_decay: Any = passed_on("exclude_from_weight_decay")
    finalize_variable_values: Any = passed_on("finalize_variable_values")
    set_weights: Any = passed_on("set_weights")
    # Contents of .keras files. The native wrapper fails on files of models that were never trained.
    save_own_variables: Any = passed_on("save_own_variables")

    def build(self, var_list: Any) -> None:
        variables = list(var_list)
        with building():
            self._optimizer.build(variables)
            self._create_own_weights(variables)

    def update_step(self, gradient: Any, variable: Any) -> Any:
        """`update_step` of the wrapped optimizer: update a variable by its rule, without loss scaling."""
        return self._optimizer.update_step(gradient, variable)

    def add_variable(self, shape: Any, dtype: Any = None, initializer: Any = "zeros", name: str | None = None) -> Any:
        """`add_variable` of the wrapped optimizer: add a variable to it, which checkpoints and files hold too."""
        return self._optimizer.add_variable(shape, dtype, initializer, name)

    def add_variable_from_reference(
        self, model_variable: Any, variable_name: str, shape: Any = None, initial_value: Any = None
    ) -> Any:
        """`add_variable_from_reference` of the wrapped optimizer: add one that belongs to a variable of the model."""
        return self._optimizer.add_variable_from_reference(model_variable, variable_name, shape, initial_value)

    def get_weights(self) -> list[Any]:
        return [variable.numpy() for variable in self._optimizer.variables]

    def load_own_variables(self, store: Any) -> None:
        if not wrapped_optimizer_follows.is_raised:
            self._optimizer.load_own_variables(store)

    # Methods of legacy optimizers, for code written for those.

    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        return self._aggregated_as_of_release(self.aggregate_gradients(grads_and_vars))

    def _decayed_lr(self, var_dtype: Any) -> Any:
        return tf.cast(self._optimizer.learning_rate, var_dtype)

    def _create_all_weights(self, var_list: Any) -> None:
        self.build(list(var_list))

    use_ema: Any = delegated("use_ema", "Whether the weights are averaged.")
    ema_momentum: Any = delegated("ema_momentum", "The momentum of that average, a float.")
