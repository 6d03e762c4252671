"""The wrapper over the new optimizers of tf_keras, `tf_keras.optimizers.Optimizer`."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf
import tf_keras

from mpls.core.autograph import as_written
from mpls.core.gradients import as_variables
from mpls.core.step_options import StepOptions
from mpls.errors import CallOrderError
from mpls.formats.wrapper_state import WRAPPER_V3
from mpls.keras.arguments import warn_of_ignored_rule
from mpls.keras.calls import drop_missing_gradients, some_pairs
from mpls.keras.family_members import delegated, passed_on
from mpls.keras.marked_configs import wrapped_optimizer_follows
from mpls.keras.strategies import (
    as_pairs,
    building,
    own_aggregation,
    refuse_v1_graph,
    require_replica_context,
    require_supported_strategy,
)
from mpls.keras.tf_keras_family import TfKerasMembers, TfKerasStep
from mpls.upstream.keras_packages import native_tf_keras_wrapper
from mpls.upstream.optimizers import runs_with_dtensor

# A base class for isinstance checks only: tf_keras tests for it in `compile` and when it converts optimizers.
_Native: Any = native_tf_keras_wrapper(over_new=True)


class NewAdapter(TfKerasMembers, _Native):
    """Members of wrappers over new optimizers; every method that the native class defines is overridden."""

    serialized_name = WRAPPER_V3
    _restored_family = "new"
    native_module: ClassVar[str] = _Native.__module__

    @staticmethod
    def deserialize_optimizer(config: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
        """Create an optimizer of this family from its config.

        Args:
            config: the serialized optimizer.
            custom_objects: classes of the user by name.
        """
        # tf_keras itself does not look for all of its classes: Lion and Adafactor are missing.
        cls = getattr(tf_keras.optimizers, str(config.get("class_name")), None)
        own = {cls.__name__: cls} if isinstance(cls, type) else {}
        objects = {**own, **(custom_objects or {})}
        return tf_keras.optimizers.deserialize(config, custom_objects=objects, use_legacy_optimizer=False)

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
    def apply_gradients(self, grads_and_vars: Any, skip_gradients_aggregation: Any = False, **kwargs: Any) -> Any:
        """Update the loss scale, and apply the gradients or skip the step.

        Args:
            grads_and_vars: pairs of unscaled gradient and variable; those with None are left out.
            skip_gradients_aggregation: whether the gradients have been summed over replicas already. If they have,
                replicas still agree on whether to skip. What is not a bool goes to the wrapped optimizer as its second
                positional argument, as with the experimental class up to TF 2.8; as of TF 2.10 and later, only a string
                does, and what else is not a bool counts as one.
            **kwargs: `experimental_aggregate_gradients`, the reverse, of older code; others go to the wrapped
                optimizer.

        Returns:
            In a graph, the op that does it; in eager mode None.

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
        is_aggregated = (
            not kwargs.pop("experimental_aggregate_gradients", True)
            or (is_bool and skip_gradients_aggregation)
            or runs_with_dtensor(self._optimizer)
        )
        given, are_same = present, False
        if not is_aggregated:
            # Sum before the finite check, so that all replicas see a non-finite gradient.
            present, are_same = self._aggregate(present)
        args = () if is_bool else (skip_gradients_aggregation,)
        kwargs = {**kwargs, "skip_gradients_aggregation": True}
        step = TfKerasStep(self._optimizer, self._skips_count, args, kwargs, are_same)
        return self._scaled_step(present, step, given)

    # It calls the methods above.
    minimize: Any = _Native.minimize

    def _aggregate(self, pairs: list[tuple[Any, Any]]) -> tuple[list[tuple[Any, Any]], bool]:
        """Return pairs of summed gradient and variable, and whether Keras itself has summed them."""
        own = own_aggregation(self, NewAdapter)
        if own is not None:
            return as_pairs(own(self, pairs), pairs), False
        aggregate = self._optimizer.aggregate_gradients
        is_keras = getattr(aggregate, "__func__", None) is tf_keras.optimizers.Optimizer.aggregate_gradients
        return as_pairs(aggregate(pairs), pairs), is_keras

    def _apply_gradients(self, *_: Any, **__: Any) -> Any:
        raise CallOrderError("LossScaleOptimizer applies gradients in apply_gradients(): call that.")

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
