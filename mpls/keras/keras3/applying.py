"""How a wrapper over a Keras 3 optimizer scales a loss, unscales gradients and applies them, in either style."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from mpls.core.autograph import as_written
from mpls.core.counters import StepRecord
from mpls.core.gradients import as_variables
from mpls.core.releases import ReleaseBehavior
from mpls.core.replicas import call_in_cross_replica_context
from mpls.core.step_options import StepOptions
from mpls.errors import ArgumentValueError, error_text
from mpls.keras.calls import SCALE_LOSS, ScalingCalls, require_gradients, some_pairs
from mpls.keras.keras3 import ops
from mpls.keras.keras3.refusals import (
    accumulates,
    refuse_settings,
    refuse_unknown,
    refuse_v1_graph,
    require_second_argument,
    require_stateless_backend,
    require_tensorflow,
)
from mpls.keras.keras3.state import Keras3Step, overwrites
from mpls.keras.strategies import (
    as_pairs,
    building,
    own_aggregation,
    require_replica_context,
    require_supported_strategy,
)
from mpls.upstream.optimizers import trained_variables


class Applying:
    """Methods of both calling styles, which `calls.py` distinguishes."""

    _optimizer: Any
    _loss_scale: Any
    _behavior: ReleaseBehavior
    _calls: ScalingCalls
    _options: StepOptions
    _record: StepRecord | None

    if TYPE_CHECKING:
        # The public class or the family defines these.
        built: bool
        iterations: Any
        _acting_scale: Any
        get_scaled_loss: Callable[[Any], Any]
        _scale_for: Callable[[Any], Any]
        get_unscaled_gradients: Callable[[Iterable[Any]], list[Any]]
        build: Callable[[Any], None]
        _create_state: Callable[[], None]
        _scale_of_step: Callable[[], Any]
        _scaled_step: Callable[[list[tuple[Any, Any]], Any], Any]
        _aggregated_as_of_release: Callable[[Any], Any]
        _noted_loss: Callable[[Any], Any]
        _noted_gradients: Callable[[list[Any]], list[Any]]

    @as_written
    def scale_loss(self, loss: Any) -> Any:
        """Multiply a loss by the loss scale, as `fit` does; `apply` and `apply_gradients` unscale the gradients.

        Args:
            loss: a tensor of any shape and float dtype, or a number.

        Returns:
            The scaled loss; a float16 loss comes back in float32, in which every scale is finite.
        """
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
        if len(grads) != len(variables):
            raise ArgumentValueError(
                "LossScaleOptimizer.get_unscaled_gradients: grads must hold one for each variable where float8 layers "
                f"are trained, {len(variables)}; got {len(grads)} (list). Use scale_loss() and "
                "opt.apply(grads, variables), which knows the variables. See mpls docs calling-styles"
            )
        pairs = self._unscale_pairs(list(zip(grads, variables, strict=True)))
        return [grad for grad, _ in pairs]

    @as_written
    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """Compute the gradients of the scaled loss, and unscale them; on the TensorFlow backend.

        Args:
            loss: scalar tensor of any float dtype, recorded on `tape`, or a callable that takes nothing and
                returns one.
            var_list: a variable, or a list or nest of them, or a callable that returns them.
            tape: a `tf.GradientTape`, which is needed for a tensor.

        Returns:
            Pairs of gradient, in the dtype of its variable, `tf.IndexedSlices` or None, and variable.

        Raises:
            ValueError: `loss` is a tensor and there is no tape.
            NotImplementedError: Keras runs on another backend.
        """
        require_tensorflow("compute_gradients")
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

    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> None:
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
                on all. Keras 3 itself has no such argument. A string is taken for a name; what else is no bool goes to
                the wrapped optimizer as the second positional argument of its own `apply_gradients`.
            experimental_aggregate_gradients: the reverse, of older code.
            name: ignored, as Keras 3 names no ops; of older code.

        Returns:
            `iterations`, as Keras does.

        Raises:
            ValueError: there is no gradient, the call is made in a cross-replica context, or the strategy does not
                work; and then nothing has changed.
            TypeError: `skip_gradients_aggregation` is no bool, and the wrapped optimizer takes no such argument.
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
        """Unscale the gradients, update the loss scale, and apply the gradients or skip the step.

        Args:
            grads: list of gradients of the scaled loss: tensors, `tf.IndexedSlices` and None. With an empty list,
                nothing happens.
            trainable_variables: the variables that they are for; by default those that the optimizer was built with.

        Raises:
            ValueError: there is no gradient but None, their number is not that of the variables, the call is made in a
                cross-replica context, or the strategy does not work; and then nothing has changed.
            RuntimeError: the calls of the step scale or unscale twice; or the call is made in a v1 graph.
        """
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
            refuse_v1_graph()
        is_scaled = self._begin_step(method, variables)
        call_in_cross_replica_context(lambda: self._build_outside(variables))
        refuse_unknown(self._optimizer, variables)
        if keras.backend.backend() != "tensorflow":
            return ops.apply(self, pairs, is_scaled)
        if is_scaled:
            pairs = self._unscale_pairs(pairs)
            self._noted_gradients([grad for grad, _ in pairs])
        if not is_summed and (own := own_aggregation(self, Applying)) is not None:
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
        """Unscale and apply gradients, or skip the step, without changing anything; on the JAX backend.

        Args:
            optimizer_variables: the values of `variables`.
            grads: list of gradients of the scaled loss.
            trainable_variables: the values of the variables that the optimizer was built with.

        Returns:
            The new values of `trainable_variables` and of `optimizer_variables`.

        Raises:
            ValueError: the optimizer is not built, or the numbers of values differ from those of the variables.
            RuntimeError: the calls of the step scale or unscale twice.
            NotImplementedError: Keras runs on TensorFlow, on which no Keras optimizer has it.
        """
        require_stateless_backend()
        is_scaled = self._begin_step("stateless_apply")
        return ops.stateless_apply(self, optimizer_variables, grads, trainable_variables, is_scaled)
