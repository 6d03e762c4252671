"""The wrapper over `tf_keras.optimizers.legacy` optimizers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow as tf
import tf_keras

from mpls.core.autograph import as_written
from mpls.core.savers import hook_user_savers
from mpls.errors import CallOrderError
from mpls.formats.wrapper_state import BASE_OPTIMIZER
from mpls.keras.calls import drop_missing_gradients
from mpls.keras.family_members import passed_on
from mpls.keras.strategies import as_pairs, own_aggregation, require_replica_context, require_supported_strategy
from mpls.keras.tf_keras_family import TfKerasMembers, TfKerasStep, scope_of_weights
from mpls.upstream import table
from mpls.upstream.keras_packages import native_tf_keras_wrapper
from mpls.upstream.optimizers import aggregated, create_weights, fill_slot, hyperparameters_of, sums_as_keras_does
from mpls.upstream.trackables import Trackable, awaited_parts_of, part_of, track

# A base class for isinstance checks only: `compile` of tf_keras and its v1 training code test for it.
_Native: Any = native_tf_keras_wrapper(over_new=False)


class LegacyAdapter(TfKerasMembers, _Native):
    """Members of wrappers over legacy optimizers; every method that the native class defines is overridden."""

    serialized_name = "LossScaleOptimizer"
    _restored_family = "legacy"
    native_module: ClassVar[str] = _Native.__module__

    # tf_keras reads this to learn whether apply_gradients takes experimental_aggregate_gradients.
    _HAS_AGGREGATE_GRAD = True

    @staticmethod
    def deserialize_optimizer(config: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
        """Create an optimizer of this family from its config.

        Args:
            config: the serialized optimizer.
            custom_objects: classes of the user by name.
        """
        return tf_keras.optimizers.deserialize(config, custom_objects=custom_objects, use_legacy_optimizer=True)

    def _track_inner(self) -> None:
        super()._track_inner()
        hook_user_savers(self)
        track(self, _InnerAtOldPlace(self._optimizer), BASE_OPTIMIZER)

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
        """
        require_replica_context()
        require_supported_strategy(type(self))
        pairs = drop_missing_gradients(grads_and_vars)
        self._calls.warn_if_forgotten(self._loss_scale, (variable for _, variable in pairs))
        inner = self._optimizer
        if not tf.executing_eagerly() or tf.distribute.has_strategy():
            # Create variables outside of the conditional, or they would belong to its branch. Eager mode has no branch.
            _create_weights(self, pairs)
        given = pairs
        if experimental_aggregate_gradients:
            # Sum before the finite check, so that all replicas see a non-finite gradient.
            transform = table.TRANSFORM.of(inner)
            pairs = self._aggregate(pairs if transform is None else transform(pairs))
        args, kwargs = self._second_argument(name)
        kwargs = {**kwargs, "experimental_aggregate_gradients": False}
        # Skip this check without replicas: every eager step runs it.
        is_summed = experimental_aggregate_gradients and tf.distribute.has_strategy()
        are_same = is_summed and self._sums_as_keras_does()
        step = _LegacyStep(inner, self._skips_count, args, kwargs, are_same, lambda: _create_weights(self, pairs))
        return self._scaled_step(pairs, step, given)

    def _second_argument(self, name: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments by which the wrapped optimizer gets the second positional argument."""
        if self._behavior.passes_second_argument_on:
            return (name,), {}
        is_name = isinstance(name, str) or (name is not None and self._behavior.second_argument_is_name)
        if is_name:
            return (), {"name": name}
        return (() if name is None else (name,)), {}

    def _aggregate(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        own = own_aggregation(self, LegacyAdapter)
        return as_pairs(aggregated(self._optimizer, pairs) if own is None else own(self, pairs), pairs)

    def _sums_as_keras_does(self) -> bool:
        is_overridden = type(self)._aggregate_gradients is not LegacyAdapter._aggregate_gradients
        return not is_overridden and sums_as_keras_does(self._optimizer)

    def _clip_gradients(self, grads: Any) -> Any:
        # Copies of TF 2.3's training step call it; the wrapped optimizer clips when it applies them.
        return grads

    def _apply_gradients(self, *_: Any, **__: Any) -> Any:
        raise CallOrderError("LossScaleOptimizer applies gradients in apply_gradients(): call that.")

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
    minimize: Any = _Native.minimize
    get_updates: Any = _Native.get_updates

    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        pairs = list(grads_and_vars)
        return self._aggregated_as_of_release(as_pairs(aggregated(self._optimizer, pairs), pairs))

    def _restore_slot_variable(self, slot_name: str, variable: Any, slot_variable: Any) -> Any:
        return table.RESTORE_SLOT.needed_of(self._optimizer)(slot_name, variable, slot_variable)


def _create_weights(wrapper: Any, grads_and_vars: list[tuple[Any, Any]]) -> None:
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
