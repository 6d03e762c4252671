"""What wrappers of all families have, and what each family defines in its own way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar, cast, overload

from mpls.core.autograph import as_written
from mpls.core.counters import StepRecord
from mpls.core.dynamic import DynamicLossScale
from mpls.core.loss_scale import LossScale, StepScale, exceeds, is_dynamic, is_fixed
from mpls.core.releases import ReleaseBehavior
from mpls.core.step import StepHooks, scaled_step
from mpls.core.step_options import ReadOnly, StepOptions, read_only
from mpls.core.wrapper_members import ChangesScale, Counted, Restorable
from mpls.errors import ArgumentValueError, MissingAttributeError, error_text
from mpls.formats.wrapper_state import CURRENT_SCALE
from mpls.keras.calls import GET_SCALED_LOSS, GET_UNSCALED_GRADIENTS, ScalingCalls, first_of
from mpls.keras.strategies import require_supported_strategy
from mpls.upstream import table
from mpls.upstream.tensorflow import fixed_value_of

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
_Pairs = Iterable[tuple[Any, Any]]


class CallableList(list[Any]):
    """A list of variables that can be called, as optimizers of Keras 2 had a method where Keras 3 has a property.

    Args:
        variables: the elements.
        called: what a call returns.
    """

    def __init__(self, variables: Iterable[Any], called: list[Any]) -> None:
        super().__init__(variables)
        self._called = called

    def __call__(self) -> list[Any]:
        """Return the list of Keras 2."""
        return self._called


def delegated(name: str, doc: str) -> Any:
    """Return a property that reads and sets an attribute of the wrapped optimizer.

    Args:
        name: the attribute's name there.
        doc: the property's docstring.
    """

    def read(wrapper: Any) -> Any:
        return getattr(wrapper._optimizer, name)

    def write(wrapper: Any, value: Any) -> None:
        setattr(wrapper._optimizer, name, value)

    return property(read, write, doc=doc)


class _FamilyMethod:
    """A method that each family has in its own way, or lacks.

    On the class it is a function, which calls the method of the family. An instance finds the method of its family
    first, as the adapter class comes before this one in the order of bases. Where the family lacks it, so do instances.
    """

    def __init__(self, declared: Callable[..., Any]) -> None:
        self._name = name = declared.__name__

        @functools.wraps(declared)
        def call(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            method = getattr(type(wrapper)._family_adapter, name)
            return self.__get__(wrapper, type(wrapper)) if method is call else method(wrapper, *args, **kwargs)

        self._call = call

    def __get__(self, wrapper: Any, owner: Any) -> Any:
        if wrapper is None:
            return self._call
        raise AttributeError(f"{type(wrapper).__name__!r} object has no attribute {self._name!r}")


def _by_family(declared: _F) -> _F:
    return cast(_F, _FamilyMethod(declared))


def missing_members(cls: type) -> set[str]:
    """Return the names of the methods of other families than that of a concrete class."""
    found = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return {name for name, value in found.items() if isinstance(value, _FamilyMethod)}


class FamilyMembers(Counted, ChangesScale, Restorable):
    """Methods and properties of wrappers."""

    _optimizer: Any
    _loss_scale: Any
    _record: StepRecord | None
    _options: StepOptions
    _behavior: ReleaseBehavior
    _calls: ScalingCalls
    _shows_loss_scale_object: bool
    # Where the loss scale is shared.
    _step_scale: StepScale | None

    # On concrete classes.
    _family_adapter: ClassVar[Any]

    # Facts about a family: the native wrapper's name in files and its module, whether that knows fixed scales, and
    # whether one replica may have its variables on another device.
    serialized_name: ClassVar[str]
    native_module: ClassVar[str]
    _native_knows_fixed: ClassVar[bool]
    works_with_parameter_servers: ClassVar[bool]

    # What the constructor of the public class asks of a family.

    _init_family: Callable[[Any, str | None, StepOptions], None]
    # Of the initial scale, the growth steps, None for a fixed scale, and other settings.
    _make_loss_scale: Callable[[Any, int | None, dict[str, Any]], LossScale]
    _track_record: Callable[[], None]
    _held: Callable[[Any], Any]
    _shared: Callable[[Any], Any]
    _track_inner: Callable[[], None]
    _track_loss_scale: Callable[[], None]

    def _make_record(self, options: StepOptions) -> StepRecord:
        return StepRecord(options)

    # What shared methods ask of a family.

    _scale: Callable[[Any], Any]
    _unscale: Callable[[list[Any]], list[Any]]
    _set_iterations: Callable[[Any], None]
    _family_config: Callable[[], dict[str, Any]]
    _family_config_of_old: Callable[[], dict[str, Any]]

    # Scaling.

    @as_written
    def get_scaled_loss(self, loss: _T) -> _T:
        """Return a loss multiplied by the loss scale, for custom loops.

        `loss` is a float tensor or array of any shape, a Python float, or a function that returns one. The result has
        the dtype of the loss; for a function, it is a function. An integer loss is a `TypeError`. If a fixed scale is
        infinite in the dtype of the loss, as 2**17 is in float16, it is a `ValueError`.
        """
        self._calls.note(GET_SCALED_LOSS)
        loss = self._noted_loss(loss)
        return self._calls.checked(GET_SCALED_LOSS, loss, self._scale(loss)) if self._options.enabled else loss

    def _scale_for(self, dtype: Any) -> Any:
        if exceeds(self._loss_scale, dtype):
            raise ArgumentValueError(
                error_text(
                    "LossScaleOptimizer: a fixed initial_scale",
                    f"be at most {float(dtype.max):g} for a {dtype.name} loss",
                    self.initial_scale,
                    "Compute the loss in float32, or use initial_scale=2.0**15",
                    "float16-losses",
                )
            )
        return self._scale_of_step()

    @as_written
    def get_unscaled_gradients(self, grads: Iterable[Any]) -> list[Any]:
        """Return gradients divided by the loss scale: a list of tensors, `tf.IndexedSlices` and None, as in `grads`."""
        self._calls.note(GET_UNSCALED_GRADIENTS)
        grads = list(grads)
        if not self._options.enabled:
            return self._noted_gradients(grads)
        unscaled = self._noted_gradients(self._unscale(grads))
        self._calls.checked(GET_UNSCALED_GRADIENTS, first_of(grads), first_of(unscaled))
        return unscaled

    def _aggregated_as_of_release(self, grads_and_vars: _Pairs) -> Any:
        # Up to TF 2.3, `_aggregate_gradients` returned the gradients alone.
        return [grad for grad, _ in grads_and_vars] if self._shows_loss_scale_object else grads_and_vars

    def _raise_if_strategy_unsupported(self) -> None:
        require_supported_strategy(type(self))

    def _scale_of_step(self) -> Any:
        """Return the loss scale that multiplies a loss and divides its gradients."""
        return self._loss_scale() if self._step_scale is None else self._step_scale()

    def _scaled_step(
        self, pairs: list[tuple[Any, Any]], hooks: StepHooks, as_given: list[tuple[Any, Any]] | None = None
    ) -> Any:
        done = scaled_step(pairs, self._acting_scale, hooks, self._record, as_given)
        return done if self._step_scale is None else self._step_scale.after(done)

    def _create_state(self) -> None:
        """Create the state of the loss scale and the counters, if they do not exist yet."""
        if isinstance(self._loss_scale, DynamicLossScale):
            # This also creates the counter. Every step calls it; if both variables exist, it does nothing.
            self._loss_scale._created_weight(CURRENT_SCALE)
        if self._record is not None:
            self._record.create()

    # Methods that all families have, with arguments of their own.

    @overload
    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> Any: ...
    @overload
    def minimize(
        self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None, tape: Any = None
    ) -> Any: ...
    @_by_family
    def minimize(self, loss: Any, var_list: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the gradients of the scaled loss, unscale them, and return the result of `apply_gradients`.

        `loss` is a function that returns a scalar tensor, or the tensor itself together with `tape`. `var_list` is a
        variable, a list of variables, or a function that returns them. In `args` and `kwargs`, legacy optimizers take
        `grad_loss`, `name` and `tape`; the others take `tape`.
        """
        raise NotImplementedError

    # Users' subclasses define it with the arguments of their family.
    @_by_family
    def apply_gradients(self, grads_and_vars: _Pairs, *args: Any, **kwargs: Any) -> Any:
        """Update the loss scale, and apply the gradients or skip the step; in a v1 graph, return the op of the step.

        `grads_and_vars` are pairs of gradient and variable. Over Keras 3, the gradients are unscaled here, unless they
        come from `get_unscaled_gradients`. In `args` and `kwargs`, legacy optimizers take `name` and
        `experimental_aggregate_gradients`; the others take `skip_gradients_aggregation`. If no variable has a gradient,
        or the strategy does not work, this is a `ValueError`, and nothing has changed. If the step scales or unscales
        twice, it is a `RuntimeError`.
        """
        raise NotImplementedError

    @_by_family
    def get_weights(self) -> list[Any]:
        """Return the values of `weights`, a list of NumPy arrays."""
        raise NotImplementedError

    @_by_family
    def set_weights(self, weights: list[Any]) -> None:
        """Set the variables in `weights` to a list of arrays; another number or shape is a `ValueError`."""
        raise NotImplementedError

    # Methods over new optimizers of tf_keras, and those of Keras 3.

    @_by_family
    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """Return (gradient, variable) pairs; `loss`, `var_list`, `tape` as in `minimize`; not for legacy optimizers."""
        raise NotImplementedError

    @_by_family
    def build(self, var_list: Iterable[Any]) -> None:
        """`build` of the wrapped optimizer: create its variables; not over legacy optimizers."""
        raise NotImplementedError

    @_by_family
    def finalize_variable_values(self, var_list: Any) -> None:
        """`finalize_variable_values` of the wrapped optimizer: set averaged weights; not over legacy optimizers."""
        raise NotImplementedError

    @_by_family
    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """`exclude_from_weight_decay` of the wrapped optimizer; not over legacy optimizers."""
        raise NotImplementedError

    @_by_family
    def save_own_variables(self, store: Any) -> None:
        """`save_own_variables` of the wrapped optimizer: write a `.keras` file; not over legacy optimizers."""
        raise NotImplementedError

    @_by_family
    def load_own_variables(self, store: Any) -> None:
        """`load_own_variables` of the wrapped optimizer: read a `.keras` file; not over legacy optimizers."""
        raise NotImplementedError

    # Methods over Keras 3 optimizers.

    @_by_family
    def scale_loss(self, loss: Any) -> Any:
        """Return `loss`, a tensor or number, multiplied by the loss scale; float16 becomes float32; Keras 3 only."""
        raise NotImplementedError

    @_by_family
    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """Unscale `grads`, and apply them to `trainable_variables` as `apply_gradients` does; Keras 3 only."""
        raise NotImplementedError

    @_by_family
    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> tuple[Any, Any]:
        """Return `trainable_variables` and `optimizer_variables` after a step with `grads`; Keras 3 on JAX only."""
        raise NotImplementedError

    @_by_family
    def check_finite(self, grads: Iterable[Any]) -> Any:
        """`check_finite` of the wrapped optimizer: return whether all gradients are finite; over Keras 3 only."""
        raise NotImplementedError

    # Methods over new optimizers of tf_keras.

    @_by_family
    def aggregate_gradients(self, grads_and_vars: _Pairs) -> Any:
        """`aggregate_gradients` of the wrapped optimizer: sum over replicas; over new tf_keras optimizers only."""
        raise NotImplementedError

    # Methods over legacy optimizers.

    @_by_family
    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Return unscaled gradients of a scalar `loss` for variables `params` in a v1 graph; legacy optimizers only."""
        raise NotImplementedError

    @_by_family
    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """`get_updates` of the wrapped optimizer: return the ops of a step in a v1 graph; legacy optimizers only."""
        raise NotImplementedError

    @_by_family
    def get_slot_names(self) -> list[str]:
        """`get_slot_names` of the wrapped optimizer; over legacy optimizers only."""
        raise NotImplementedError

    @_by_family
    def get_slot(self, var: Any, slot_name: str) -> Any:
        """`get_slot` of the wrapped optimizer: return a slot variable; over legacy optimizers only."""
        raise NotImplementedError

    @_by_family
    def add_slot(self, var: Any, slot_name: str, initializer: Any = "zeros", *, shape: Any = None) -> Any:
        """`add_slot` of the wrapped optimizer; over legacy optimizers only."""
        raise NotImplementedError

    # Properties.

    share_scale_with: ReadOnly = read_only(
        "share_scale_with", None, "An argument of the constructor; this attribute cannot be read or set."
    )

    @property
    def inner_optimizer(self) -> Any:
        """The optimizer that this one wraps."""
        return self._optimizer

    @property
    def dynamic(self) -> bool:
        """Whether the loss scale is dynamic, a Python bool."""
        return is_dynamic(self._loss_scale)

    @property
    def loss_scale(self) -> Any:
        """The current loss scale, a scalar float32 tensor; with `--as-of 2.3`, a `LossScale` object."""
        loss_scale = self._acting_scale
        return loss_scale if self._shows_loss_scale_object else loss_scale()

    @property
    def dynamic_counter(self) -> Any:
        """Number of finite steps since the scale changed, a scalar integer variable; None for a fixed scale."""
        return table.GOOD_STEPS.of(self._loss_scale) if self.dynamic else None

    @property
    def initial_scale(self) -> float:
        """The loss scale at the start, a Python float."""
        loss_scale = self._loss_scale
        if is_dynamic(loss_scale):
            return float(loss_scale.initial_loss_scale)
        if is_fixed(loss_scale):
            return float(fixed_value_of(loss_scale))
        # A class of the user's own need not know.
        raise MissingAttributeError(f"A LossScaleOptimizer with a {type(loss_scale).__name__} has no initial_scale")

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Number of finite steps in a row after which the scale doubles, a Python int; None for a fixed scale."""
        return int(self._loss_scale.increment_period) if self.dynamic else None

    @property
    def iterations(self) -> Any:
        """The number of steps, a scalar integer variable; over Keras 3 without the skipped steps."""
        return self._optimizer.iterations

    @iterations.setter
    def iterations(self, value: Any) -> None:
        self._set_iterations(value)

    @property
    def variables(self) -> CallableList:
        """The variables of the wrapped optimizer, and over Keras 3 of the scale: a list that you can also call."""
        return cast(CallableList, self._optimizer.variables)

    @property
    def weights(self) -> list[Any]:
        """The variables of the wrapped optimizer, a list."""
        return list(self._optimizer.variables)

    learning_rate: Any = delegated(
        "learning_rate", "The learning rate: a scalar variable; over legacy optimizers it may be a schedule."
    )
    lr: Any = delegated("learning_rate", "The same as `learning_rate`.")
    clipnorm: Any = delegated("clipnorm", "The norm to which each unscaled gradient is clipped, a float, or None.")
    global_clipnorm: Any = delegated(
        "global_clipnorm", "The norm to which all unscaled gradients together are clipped, a float, or None."
    )
    clipvalue: Any = delegated(
        "clipvalue", "The value to which elements of unscaled gradients are clipped, a float, or None."
    )

    # Attributes over new optimizers of tf_keras, and those of Keras 3.

    use_ema: bool
    ema_momentum: float

    # Attributes over Keras 3 optimizers.

    name: str
    built: bool
    step_counter: Any
    dynamic_scale: Any
    weight_decay: float | None
    ema_overwrite_frequency: int | None
    gradient_accumulation_steps: int | None

    # The hyperparameters of the optimizers of tf_keras and Keras 3; type checkers do not know users' own.

    decay: Any
    momentum: Any
    rho: Any
    beta: Any
    beta_1: Any
    beta_2: Any
    learning_rate_power: Any
    l1_regularization_strength: Any
    l2_regularization_strength: Any


def passed_on(name: str) -> Any:
    """Return the method of this name for a family where it is that of the wrapped optimizer."""

    @functools.wraps(getattr(FamilyMembers, name))
    def call(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(wrapper._optimizer, name)(*args, **kwargs)

    return call
