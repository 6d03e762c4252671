"""The adapter class for Keras 3 optimizers: how Keras sees a wrapper, its state and its files."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import keras

from mpls.core.counters import StepRecord
from mpls.core.dynamic import start_of
from mpls.core.loss_scale import FixedLossScale, LossScale, StepScale, never_skips
from mpls.core.releases import ReleaseBehavior, enter_block, leave_block
from mpls.core.replicas import in_replica_context
from mpls.core.state_checks import SavedObject, check_when_attached, is_bare, require_valid_state
from mpls.core.step_options import StepOptions
from mpls.core.wrapper_members import Restorable
from mpls.errors import CallOrderError
from mpls.formats.wrapper_state import (
    DYNAMIC_SCALE,
    INNER_OPTIMIZER,
    LOSS_SCALE,
    STATE_OF_KERAS_3,
    STEP_COUNTER,
    STEP_RECORD,
)
from mpls.keras.arguments import settings_beyond_originals
from mpls.keras.classes import is_own, public_class
from mpls.keras.ignored_rules import warn_of_ignored_rule
from mpls.keras.keras3 import ops
from mpls.keras.keras3.applying import Applying
from mpls.keras.keras3.backend_state import BackendRecord
from mpls.keras.keras3.refusals import (
    refuse_factor_of_wrapper,
    refuse_off_tensorflow,
    refuse_settings,
    refuse_sharing,
    require_known_backend,
    require_tensorflow_for,
)
from mpls.keras.keras3.state import DynamicState, FixedState
from mpls.keras.keras3.variables import VariableMethods
from mpls.keras.members import delegated
from mpls.upstream import table
from mpls.upstream.keras_packages import native_wrappers_of_keras_3
from mpls.upstream.optimizers import trained_variables
from mpls.upstream.tensorflow import fixed_value_of
from mpls.upstream.trackables import Trackable, awaited_parts_of, part_of, track, track_list

# `compile` wraps an optimizer unless it is an instance of this class. Its `__reduce__` and `load_own_variables` are
# called too.
_Native: Any = native_wrappers_of_keras_3()[0]


class _Blank(keras.optimizers.Optimizer):
    """Initializes the attributes that Keras expects of every optimizer, under the native wrapper's name."""


_Blank.__name__ = "LossScaleOptimizer"


class Keras3Adapter(Restorable, VariableMethods, Applying, _Native):
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

    if TYPE_CHECKING:
        # The public class defines these.
        dynamic: bool
        _behavior: ReleaseBehavior
        _shows_loss_scale_object: bool
        _step_scale: Any

    def _init_family(self, inner_optimizer: Any, name: str | None, options: StepOptions) -> None:
        require_known_backend()
        refuse_settings(inner_optimizer, options)
        warn_of_ignored_rule(inner_optimizer)
        # Skip the constructor of Keras' wrapper: it sets hyperparameters, which belong to the wrapped optimizer here.
        self.__dict__.update(vars(_Blank(learning_rate=0.0, name=name)))

    def _make_loss_scale(self, initial_scale: Any, growth_steps: int | None, settings: dict[str, Any]) -> LossScale:
        if growth_steps is None:
            return FixedState(initial_scale, **settings)
        if keras.backend.backend() != "tensorflow":
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
        if keras.backend.backend() != "tensorflow":
            for name in ("track_overflows", "max_consecutive_skips", "check_unscaled"):
                refuse_off_tensorflow(name, getattr(options, name))
            return BackendRecord(options)
        return StepRecord(options)

    def _track_record(self) -> None:
        if keras.backend.backend() == "tensorflow":
            track(self, self._record, STEP_RECORD)

    def _held(self, loss_scale: Any) -> Any:
        if keras.backend.backend() == "tensorflow":
            # The loss scale may be TensorFlow's own class, which does not check checkpoints.
            check_when_attached(self)
            return loss_scale
        if isinstance(loss_scale, FixedLossScale) and never_skips(loss_scale):
            return FixedState(fixed_value_of(loss_scale), **settings_beyond_originals(loss_scale))
        require_tensorflow_for(loss_scale)
        return loss_scale

    def _shared(self, other: Any) -> Any:
        if keras.backend.backend() != "tensorflow":
            refuse_sharing(other)
        loss_scale = other._loss_scale
        if isinstance(loss_scale, DynamicState):
            # Files hold variables by position: this optimizer's have the scale too.
            table.OWN_VARIABLES.needed_of(self).extend([loss_scale.counter, loss_scale.scale])
            self.__dict__.update(step_counter=loss_scale.counter, dynamic_scale=loss_scale.scale)
        return loss_scale

    @staticmethod
    def _make_step_scale(loss_scale: Any) -> StepScale:
        return StepScale(loss_scale)

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
        classes = public_class(type(self)), type(self._loss_scale)
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

    built = delegated("built", "Whether the variables of the wrapped optimizer have been created.")
    weight_decay = delegated("weight_decay", "The weight decay of the wrapped optimizer, a float, or None.")
    use_ema = delegated("use_ema", "Whether the weights are averaged.")
    ema_momentum = delegated("ema_momentum", "The momentum of that average, a float.")
    ema_overwrite_frequency = delegated(
        "ema_overwrite_frequency", "Every how many steps the weights become their average, an int, or None."
    )
    gradient_accumulation_steps = delegated(
        "gradient_accumulation_steps", "Over how many steps gradients are averaged, an int, or None."
    )

    loss_scale_factor = property(lambda _: None, refuse_factor_of_wrapper, doc="None, as the wrapper scales the loss.")

    def build(self, var_list: Any) -> None:
        """Create the wrapped optimizer's variables, if they have not been created yet.

        Args:
            var_list: the variables that will be optimized.
        """
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

    def finalize_variable_values(self, var_list: Any) -> None:
        """Overwrite variables by their averages, if the wrapped optimizer keeps them.

        Args:
            var_list: the variables.
        """
        self._optimizer.finalize_variable_values(var_list)

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Exclude variables from the wrapped optimizer's weight decay; before it is built.

        Args:
            var_list: variables.
            var_names: parts of names of variables.
        """
        self._optimizer.exclude_from_weight_decay(var_list, var_names)

    def check_finite(self, grads: Any) -> Any:
        """Return whether all gradients are finite, a scalar boolean tensor; None among them is ignored."""
        return ops.all_finite(list(grads))

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> Any:
        """Update a variable by the rule of the wrapped optimizer, without loss scaling.

        Args:
            gradient: the unscaled gradient.
            variable: the variable, one that the optimizer is built with.
            learning_rate: the learning rate.

        Returns:
            What the wrapped optimizer returns.
        """
        return self._optimizer.update_step(gradient, variable, learning_rate)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise CallOrderError(
            "LossScaleOptimizer: a gradient must be applied by the wrapped optimizer; got a call of the wrapper's own "
            "method for it. Call opt.apply(grads, variables). See mpls docs calling-styles"
        )

    _stateful_handle_finite_grads = _stateful_handle_non_finite_grads = _refuse
    _stateless_handle_finite_grads = _stateless_handle_non_finite_grads = _refuse
    _tf_apply = _common_apply = _refuse


def _unpickled(
    classes: tuple[type, ...], behavior: ReleaseBehavior, archive: bytes, state: dict[str, Any] | None
) -> Any:
    block = object()
    enter_block(block, behavior)
    try:
        # The archive names the native wrapper where the class is one of mpls.
        names = [Keras3Adapter.serialized_name if is_own(each) else each.__name__ for each in classes]
        with keras.saving.custom_object_scope(dict(zip(names, classes, strict=True))):
            optimizer = table.UNPICKLE.needed_of(_Native)(io.BytesIO(archive))
    finally:
        leave_block(block)
    if state is not None:
        optimizer.load_state_dict(state)
    return optimizer
