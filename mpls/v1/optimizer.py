"""Loss scaling around a `tf.compat.v1.train.Optimizer`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, SupportsFloat, SupportsInt

import tensorflow as tf

from mpls.core.autograph import as_written
from mpls.core.counters import Stuck
from mpls.core.fast import group
from mpls.core.gradients import as_variables, unscale_gradients
from mpls.core.loss_scale import FixedLossScale, LossScale, LossScaling, never_skips
from mpls.core.replicas import call_in_cross_replica_context
from mpls.core.savers import StepNames, hook_user_savers
from mpls.core.scaling_calls import ScalingCalls
from mpls.core.state_checks import check_when_attached
from mpls.core.step import scaled_step
from mpls.core.step_options import checked_options, telling_places
from mpls.core.wrapper_members import Counted
from mpls.errors import ReplicaContextError
from mpls.formats.wrapper_state import BASE_OPTIMIZER, LOSS_SCALE
from mpls.upstream.optimizers import add_slots, inner_of, uses_locking
from mpls.upstream.tensorflow import id_of_variable
from mpls.upstream.trackables import parts_of, track
from mpls.v1.applying import (
    InnerStep,
    apply_always,
    branches_may_capture,
    publish_train_op,
    train_ops,
    warn_if_forgotten,
)
from mpls.v1.argument_checks import CheckedMinimize, checked_loss_scale, require_a_gradient, require_optimizer
from mpls.v1.refused_methods import Refusing
from mpls.v1.sync_replicas import apply_through_sync_replicas, is_sync_replicas, restore_accumulator_steps
from mpls.v1.tracking import NativeWrapper, Tracking, names_of_powers

_Optimizer: Any = tf.compat.v1.train.Optimizer
_COMPUTE = "compute_gradients"


class MixedPrecisionLossScaleOptimizer(Tracking, Counted, CheckedMinimize, Refusing, NativeWrapper):
    """Wrap a `tf.compat.v1.train.Optimizer` so that it scales the loss and unscales the gradients.

    Example:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> weight = tf.Variable(2.0)
        >>> opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
        ...     tf.compat.v1.train.GradientDescentOptimizer(0.25), "dynamic")
        >>> opt.minimize(lambda: weight ** 2, var_list=[weight])
        >>> float(weight)
        1.0

    `compute_gradients` multiplies the loss by the loss scale and divides the gradients by it; `apply_gradients` updates
    the loss scale and, if it is dynamic and a gradient is not finite, skips the step: variables, slots and
    `global_step` stay as they are. Under a strategy a non-finite gradient on one replica makes all skip. A fixed
    scale never skips.

    It works in a v1 graph with a Session, in eager mode and inside `tf.function`; around and inside optimizers that
    wrap others, `SyncReplicasOptimizer` among them; and in a graph other than the one it was built in.

    Args:
        opt: the optimizer to wrap.
        loss_scale: `'dynamic'`, a number of at least 1 for a fixed scale, or a `LossScale`, which is used as it is, not
            copied.
        count_steps: as in `mpls.keras`.
        skip_counts_step: whether a skipped step advances `global_step`; by default it does not.
        track_overflows: as in `mpls.keras`.
        max_consecutive_skips: as in `mpls.keras`.
        on_give_up: as in `mpls.keras`.
        check_unscaled: as in `mpls.keras`.
        enabled: whether to scale the loss; if not, a step is that of `opt` alone, and `loss_scale` keeps its state; see
            `mpls docs disabling`.

    Raises:
        ValueError: `opt` is no `tf.compat.v1.train.Optimizer`, `loss_scale` is none of these, or an option is out of
            its range.
        TypeError: `loss_scale` is a tensor; or an option is no bool.

    Reproduces:
        `tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer` and
        `tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer`, TF 1.14 to 2.21. There, float16 variables
        crashed, `update` of users' own LossScale classes was not called, slots were not found through the wrapper,
        Adam's beta powers were created inside the conditional, and reference variables did not work with control
        flow v2. The options are of mpls.
    """

    @telling_places("MixedPrecisionLossScaleOptimizer")
    def __init__(
        self,
        opt: Any,
        loss_scale: LossScale | SupportsFloat | Literal["dynamic"],
        *,
        count_steps: bool = False,
        skip_counts_step: bool | None = None,
        track_overflows: bool = False,
        max_consecutive_skips: SupportsInt | None = None,
        on_give_up: Literal["raise", "warn"] | Callable[[Stuck], Any] = "raise",
        check_unscaled: bool = False,
        enabled: bool = True,
    ) -> None:
        subject = "MixedPrecisionLossScaleOptimizer"
        require_optimizer(opt, subject)
        scale = checked_loss_scale(loss_scale, subject)
        options = checked_options(
            subject,
            count_steps,
            skip_counts_step,
            track_overflows,
            max_consecutive_skips,
            on_give_up,
            check_unscaled,
            enabled,
            skips=not never_skips(scale),
        )
        _Optimizer.__init__(self, uses_locking(opt), opt.get_name())
        self._optimizer = opt
        self._loss_scale = scale
        self._count_with(options)
        self._no_scaling = None if options.enabled else FixedLossScale(1.0)
        self._ids_with_slots: list[Any] | None = None
        self._calls = ScalingCalls([_COMPUTE], warns=options.enabled)
        track(self, opt, BASE_OPTIMIZER)
        track(self, scale, LOSS_SCALE)
        # The loss scale may be TensorFlow's own class, which does not check checkpoints.
        check_when_attached(self)
        hook_user_savers(self)

    def _doing_dynamic_loss_scaling(self) -> bool:
        return not never_skips(self._acting_scale)

    def _scale_loss(self, loss: Any) -> Any:
        self._calls.note(_COMPUTE)
        return LossScaling(self._acting_scale).scale_loss(loss)

    def _unscale_grads(self, grads: Iterable[Any]) -> list[Any]:
        unscaled: list[Any] = unscale_gradients(list(grads), self._acting_scale())
        return unscaled

    @as_written
    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = _Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Compute the gradients of the scaled loss, and unscale them.

        The scale is read once, so that what multiplies the loss is what divides the gradients, also where another
        worker changes it in between. A fixed scale that a float16 loss cannot hold is lowered to the largest power
        of two that it can.

        Args:
            loss: scalar tensor of any float dtype, or a callable that takes nothing and returns one; in eager mode
                it must be a callable.
            var_list: a variable, or a list or nest of them, to differentiate by; by default the trainable ones of the
                graph, or those that the callable reads.
            gate_gradients: `GATE_NONE`, `GATE_OP` or `GATE_GRAPH`.
            aggregation_method: how gradient terms are combined, a `tf.AggregationMethod`.
            colocate_gradients_with_ops: whether to place gradients where the ops are.
            grad_loss: tensor of the loss's shape, the gradient that arrives at the loss.

        Returns:
            Pairs of gradient, in the dtype of its variable, `tf.IndexedSlices` or None, and variable.

        Raises:
            RuntimeError: `loss` is a tensor in eager mode.
            ValueError: `gate_gradients` is none of the constants, or there are no variables.
        """
        self._calls.note(_COMPUTE)
        scaling = LossScaling(self._loss_scale) if self.enabled else None
        loss = self._noted_loss(loss)
        grads_and_vars = self._optimizer.compute_gradients(
            loss if scaling is None else scaling.scale_loss(loss),
            var_list=None if var_list is None else as_variables(var_list),
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        grads = [grad for grad, _ in grads_and_vars]
        grads = self._noted_gradients(grads if scaling is None else unscale_gradients(grads, scaling.scale))
        return [(grad, variable) for grad, (_, variable) in zip(grads, grads_and_vars, strict=True)]

    @as_written
    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Any:
        """Update the loss scale, and apply the gradients if they are finite; a scale that never skips always applies.

        Args:
            grads_and_vars: pairs of unscaled gradient, None included, and variable, as `compute_gradients`
                returns them.
            global_step: variable that an applied step increments; a skipped step leaves it alone.
            name: name of the returned op; by default that of the wrapped optimizer.

        Returns:
            In a graph, the op that does it, which is also the one in `GraphKeys.TRAIN_OP`; in eager mode None.

        Raises:
            ValueError: there is no pair or no gradient, and then nothing has changed.
            RuntimeError: the call is made in a cross-replica context; the error is a ValueError too.
        """
        if tf.distribute.in_cross_replica_context():
            raise ReplicaContextError(
                "MixedPrecisionLossScaleOptimizer: apply_gradients() must be called in a replica context; got a "
                "cross-replica context. Call it inside the function that strategy.run(step_fn) runs. "
                "See mpls docs strategies"
            )
        grads_and_vars = tuple(grads_and_vars)
        if with_gradient := [variable for grad, variable in grads_and_vars if grad is not None]:
            warn_if_forgotten(self._calls, self._loss_scale, with_gradient)
        applies_always = not self._doing_dynamic_loss_scaling()
        if is_sync_replicas(self._optimizer) and not (applies_always and self._record is None):
            # On the mean of the workers' gradients: what one worker has found is no step.
            decide_on_mean = MixedPrecisionLossScaleOptimizer(inner_of(self._optimizer), self._loss_scale)
            decide_on_mean._calls = ScalingCalls([_COMPUTE], warns=False)
            decide_on_mean._options, decide_on_mean._record = self._options, self._record
            decide_on_mean._no_scaling = self._no_scaling
            return apply_through_sync_replicas(self._optimizer, decide_on_mean, grads_and_vars, global_step, name)
        if applies_always:
            names = StepNames(has_conditional=False)
            train_op = apply_always(self._optimizer, self._record, grads_and_vars, global_step, name)
            names.note(names_of_powers(self._optimizer))
            return train_op
        require_a_gradient(grads_and_vars)
        return self._apply_or_skip(grads_and_vars, global_step, self.get_name() if name is None else name)

    def _apply_or_skip(self, grads_and_vars: tuple[tuple[Any, Any], ...], global_step: Any, name: str) -> Any:
        with_gradient = [variable for grad, variable in grads_and_vars if grad is not None]
        hook_user_savers(self)
        names = StepNames(has_conditional=True)
        self._prepare_inner_slots(with_gradient)
        names.note(names_of_powers(self._optimizer))
        train_ops_before = train_ops()
        hooks = InnerStep(self._optimizer, global_step, f"{name}-wrapped", self._options.skip_counts_step)
        with branches_may_capture([*with_gradient, global_step]):
            step = scaled_step(grads_and_vars, self._acting_scale, hooks, self._record)
        train_op = group(step, restore_accumulator_steps(grads_and_vars, global_step, after=step), name=name)
        publish_train_op(train_op, train_ops_before)
        return train_op

    def _prepare_inner_slots(self, variables: list[Any]) -> None:
        # Remember the variables: looking up hundreds of slots would dominate an eager step.
        ids = [id(self._optimizer), *(id_of_variable(variable) for variable in variables)]
        if tf.executing_eagerly() and None not in ids and ids == self._ids_with_slots:
            return

        def create() -> None:
            self._create_inner_slots(variables)
            # Set this last: either all replicas take this path, or none.
            self._ids_with_slots = ids

        call_in_cross_replica_context(create)

    def _create_inner_slots(self, variables: list[Any]) -> None:
        """Create the wrapped optimizer's slots outside of the conditional.

        There, the names would depend on the control flow around it, and with a skipped first step nothing
        would exist in eager mode.
        """
        opt = self._optimizer
        with tf.init_scope():
            while isinstance(opt, _Optimizer):
                add_slots(opt, variables)
                opt = inner_of(opt)

    def get_slot(self, var: Any, name: str) -> Any:
        """Return a slot variable of the wrapped optimizer.

        Args:
            var: the variable that it belongs to.
            name: the slot's name, `'momentum'` for example.

        Returns:
            The slot variable, of the shape of `var`; None if there is none.
        """
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the wrapped optimizer's slots, sorted."""
        names: list[str] = self._optimizer.get_slot_names()
        return names

    def variables(self) -> list[Any]:
        """Return the variables of the wrapped optimizer, those of the loss scale and the counters, in this graph."""
        own = [*parts_of(self._loss_scale).values(), *(self._record.variables() if self._record is not None else ())]
        return [*self._optimizer.variables(), *own]
