"""Loss scaling around a `tf.compat.v1.train.Optimizer`."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, SupportsFloat, SupportsInt

import tensorflow as tf

from mpls.core.autograph import as_written
from mpls.core.counters import StepRecord, Stuck
from mpls.core.fast import group
from mpls.core.gradients import as_variables, require_gradient, unscale_gradients
from mpls.core.identifiers import get_required
from mpls.core.loss_scale import FixedLossScale, LossScale, LossScaling, changes_nothing, is_known_unread, never_skips
from mpls.core.replicas import call_in_cross_replica_context
from mpls.core.savers import StepNames, hook_user_savers
from mpls.core.scaling_calls import ScalingCalls
from mpls.core.state_checks import SavedObject, is_bare
from mpls.core.step import scaled_step
from mpls.core.step_options import StepOptions, checked_options, explained_arguments, settings_of_loss_scale
from mpls.core.weights import TrackableBase
from mpls.core.wrapper_members import ChangesScale, Counted, RestorableWithSlots
from mpls.errors import (
    ArgumentValueError,
    CallOrderError,
    MplsWarning,
    ReplicaContextError,
    advise_user,
    error_text,
    warn_user,
)
from mpls.formats.algorithms import BETA_1_POWER
from mpls.formats.wrapper_state import BASE_OPTIMIZER, LOSS_SCALE, STEP_OPTIONS
from mpls.upstream.optimizers import add_slots, inner_of, powers_of, set_inner, uses_locking
from mpls.upstream.tensorflow import id_of_variable, native_v1_class
from mpls.upstream.trackables import awaited_parts_of, part_of, parts_of, track

_Optimizer: Any = tf.compat.v1.train.Optimizer
_COMPUTE = "compute_gradients"
_SUBJECT = "MixedPrecisionLossScaleOptimizer"

if TYPE_CHECKING:

    class NativeWrapper(TrackableBase):
        """What wrappers have from `tf.compat.v1.train.Optimizer`, which has no types."""

        GATE_NONE: ClassVar[int]
        GATE_OP: ClassVar[int]
        GATE_GRAPH: ClassVar[int]

        def minimize(self, *args: Any, **kwargs: Any) -> Any:
            """Call `compute_gradients` and `apply_gradients`."""

        def get_name(self) -> str:
            """Return the name of the wrapped optimizer."""

    _Base = NativeWrapper
else:
    # A base class for isinstance checks in TensorFlow and in users' code; all of its methods are overridden.
    NativeWrapper = native_v1_class("MixedPrecisionLossScaleOptimizer") or tf.compat.v1.train.Optimizer
    _Base = object


class WrapperMembers(RestorableWithSlots, Counted, _Base):
    """What the wrappers of v1 and contrib share: gradients, steps that are applied or skipped, and checkpoints."""

    _restored_family = "v1"
    # How errors name the class.
    _subject: ClassVar[str]
    _optimizer: Any

    def _wrap(self, opt: Any, loss_scale: LossScale, options: StepOptions) -> None:
        _Optimizer.__init__(self, uses_locking(opt), opt.get_name())
        self._optimizer = opt
        track(self, opt, BASE_OPTIMIZER)
        self._loss_scale = loss_scale
        self._count_with(options)
        self._no_scaling = None if options.enabled else FixedLossScale(1.0)
        self._ids_with_slots: list[Any] | None = None
        self._calls = ScalingCalls([_COMPUTE], warns=options.enabled)
        hook_user_savers(self)

    @as_written
    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = tf.compat.v1.train.Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Compute the gradients of the scaled loss, unscale them, and apply them or skip the step.

        Args:
            loss: as in `compute_gradients`.
            global_step: as in `apply_gradients`.
            var_list: list or tuple of the variables to update; by default as in `compute_gradients`.
            gate_gradients: as in `compute_gradients`; ignored in eager mode.
            aggregation_method: as in `compute_gradients`; ignored in eager mode.
            colocate_gradients_with_ops: as in `compute_gradients`; ignored in eager mode.
            name: as in `apply_gradients`.
            grad_loss: as in `compute_gradients`; ignored in eager mode, with a warning.

        Returns:
            What `apply_gradients` returns.

        Raises:
            ValueError: an object in `var_list` is not a `tf.Variable`, or no variable has a gradient.
        """
        for each in () if var_list is None else tf.nest.flatten(var_list):
            if not isinstance(each, tf.Variable):
                raise ArgumentValueError(
                    error_text(
                        f"{type(self).__name__}.minimize: var_list",
                        "be a list or tuple of tf.Variable objects",
                        each,
                        "Pass opt.minimize(loss, var_list=[variable]), and list(variable) for a partitioned one",
                        "optimizer-arguments",
                    )
                )
        if grad_loss is not None and tf.executing_eagerly():
            advise_user(
                f"{type(self).__name__}: minimize() ignores grad_loss in eager mode, as documented; the original "
                "multiplied the gradients by it. Multiply the loss: opt.minimize(lambda: loss() * weight). "
                "See mpls docs optimizer-arguments",
                MplsWarning,
            )
            grad_loss = None
        return super().minimize(
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )

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

        The scale is read once. So the gradients are divided by the same scale, even if another worker changes it in
        between. If a fixed scale is infinite in the dtype of the loss, the largest power of two in this dtype is used.

        Args:
            loss: scalar tensor of any float dtype, or a function without arguments that returns one. In eager mode, it
                must be a function.
            var_list: a variable, or a list or nest of variables; by default the trainable variables of the graph, or
                those that the function reads.
            gate_gradients: `GATE_NONE`, `GATE_OP` or `GATE_GRAPH`.
            aggregation_method: how gradient terms are combined, a `tf.AggregationMethod`.
            colocate_gradients_with_ops: whether to place gradients where the ops are.
            grad_loss: the gradient of the loss, a tensor with the shape of the loss; by default ones.

        Returns:
            Pairs of gradient and variable. A gradient is a tensor in the dtype of the variable, a `tf.IndexedSlices`,
            or None.

        Raises:
            RuntimeError: `loss` is a tensor in eager mode.
            ValueError: `gate_gradients` is not one of the constants, or there are no variables.
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
        """Update the loss scale, and apply the gradients or skip the step.

        Args:
            grads_and_vars: pairs of unscaled gradient and variable from `compute_gradients`.
            global_step: a variable that an applied step increments.
            name: name of the returned op; by default the name of the wrapped optimizer.

        Returns:
            In a graph, the op of the step, which is also in `GraphKeys.TRAIN_OP`; in eager mode None.

        Raises:
            ValueError: there is no pair or no gradient; nothing has changed then.
            RuntimeError: the call is made in a cross-replica context; the error is also a ValueError.
        """
        if tf.distribute.in_cross_replica_context():
            raise ReplicaContextError(
                f"{self._subject}: apply_gradients() must be called in a replica context; got a cross-replica context. "
                "Call it inside the function that strategy.run(step_fn) runs. See mpls docs strategies"
            )
        grads_and_vars = tuple(grads_and_vars)
        if with_gradient := [variable for grad, variable in grads_and_vars if grad is not None]:
            _warn_if_forgotten(self._calls, self._loss_scale, with_gradient)
        applies_always = never_skips(self._acting_scale)
        if _is_sync_replicas(self._optimizer) and not (applies_always and self._record is None):
            # On the mean of the workers' gradients: what one worker has found is no step.
            decide_on_mean = MixedPrecisionLossScaleOptimizer(inner_of(self._optimizer), self._loss_scale)
            decide_on_mean._calls = ScalingCalls([_COMPUTE], warns=False)
            decide_on_mean._options, decide_on_mean._record = self._options, self._record
            decide_on_mean._no_scaling = self._no_scaling
            return _apply_through_sync_replicas(self._optimizer, decide_on_mean, grads_and_vars, global_step, name)
        if applies_always:
            names = StepNames(has_conditional=False)
            train_op = _apply_always(self._optimizer, self._record, grads_and_vars, global_step, name)
            names.note(_names_of_powers(self._optimizer))
            return train_op
        advice = "Check that the loss depends on the variables: tf.gradients(loss, variables)"
        require_gradient(grads_and_vars, self._subject, advice)
        return self._apply_or_skip(grads_and_vars, global_step, self.get_name() if name is None else name)

    def _apply_or_skip(self, grads_and_vars: tuple[tuple[Any, Any], ...], global_step: Any, name: str) -> Any:
        with_gradient = [variable for grad, variable in grads_and_vars if grad is not None]
        hook_user_savers(self)
        names = StepNames(has_conditional=True)
        self._prepare_inner_slots(with_gradient)
        names.note(_names_of_powers(self._optimizer))
        train_ops_before = _train_ops()
        hooks = _InnerStep(self._optimizer, global_step, f"{name}-wrapped", self._options.skip_counts_step)
        step = scaled_step(grads_and_vars, self._acting_scale, hooks, self._record)
        train_op = group(step, _restore_accumulator_steps(grads_and_vars, global_step, after=step), name=name)
        _publish_train_op(train_op, train_ops_before)
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
            The slot variable, with the shape of `var`; None if the slot does not exist.
        """
        return inner_of(self).get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the wrapped optimizer's slots, sorted."""
        names: list[str] = inner_of(self).get_slot_names()
        return names

    # Object-based checkpoints: those of the native wrapper, and those of the wrapped optimizer alone.

    def __dir__(self) -> list[str]:
        # Object-based checkpoints ask every object that lists this name for its slots. `base_optimizer` already lists
        # it; finding the slots twice would be an error.
        return [name for name in super().__dir__() if name != "get_slot_names"]

    def _check_saved_object(self, node: SavedObject) -> None:
        super()._check_saved_object(node)
        found = node.graph.nodes[node.number]
        has_powers = BASE_OPTIMIZER in found.children or BETA_1_POWER in found.children
        if has_powers or not found.slots or not isinstance(self._optimizer, tf.compat.v1.train.AdamOptimizer):
            return
        if not vars(self).get("_has_told_of_missing_powers"):
            vars(self)["_has_told_of_missing_powers"] = True
            warn_user(
                f"{node.subject} holds the slots of an Adam but not its beta powers, as mpls.contrib saved it up to "
                "mpls 0.3: the slots are restored, but the bias correction starts anew, so that the next steps have "
                "another length. See mpls docs my-checkpoints",
                MplsWarning,
            )

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._check_restore()
        children: dict[str, Any] = super()._trackable_children(*args, **kwargs)
        return children

    # A checkpoint of a bare optimizer holds that optimizer's parts where the wrapper is now.

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        found = super()._lookup_dependency(name, *args, **kwargs)
        if found is None and is_bare(self, BASE_OPTIMIZER):
            return part_of(self._optimizer, name)
        return found

    @property
    def _deferred_dependencies(self) -> Any:
        if is_bare(self, BASE_OPTIMIZER):
            return awaited_parts_of(self._optimizer)
        return super()._deferred_dependencies


class MixedPrecisionLossScaleOptimizer(ChangesScale, WrapperMembers, NativeWrapper):
    """Wrap a `tf.compat.v1.train.Optimizer` so that it scales the loss and unscales the gradients.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> weight = tf.Variable(2.0)
        >>> opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
        ...     tf.compat.v1.train.GradientDescentOptimizer(0.25), "dynamic")
        >>> opt.minimize(lambda: weight ** 2, var_list=[weight])
        >>> float(weight)
        1.0

    `compute_gradients` multiplies the loss by the loss scale and divides the gradients by it. `apply_gradients` updates
    the loss scale. If a gradient is infinite or NaN, a dynamic scale skips the step on all replicas: variables, slots
    and `global_step` do not change. A fixed scale skips no steps.

    The wrapper works in a v1 graph with a Session, in eager mode and inside `tf.function`. Optimizers such as
    `SyncReplicasOptimizer` may be inside the wrapper or around it. One wrapper works in several graphs.

    Args:
        opt: the optimizer to wrap.
        loss_scale: `'dynamic'`; a number of at least 1 for a fixed scale; or a `LossScale` object, which is not copied.
        count_steps: as in `mpls.keras`.
        skip_counts_step: whether a skipped step advances `global_step`; by default it does not.
        track_overflows: as in `mpls.keras`.
        max_consecutive_skips: as in `mpls.keras`.
        on_give_up: as in `mpls.keras`.
        check_unscaled: as in `mpls.keras`.
        enabled: whether to scale the loss; if not, the wrapper only calls `opt`, and `loss_scale` keeps its state; see
            `mpls docs disabling`.

    Raises:
        ValueError: `opt` is not a `tf.compat.v1.train.Optimizer`, `loss_scale` is not one of these, or an option is out
            of range.
        TypeError: `loss_scale` is a tensor, or an option is not a bool.

    Reproduces:
        `tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer` and
        `tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer`, TF 1.14 to 2.21, without their defects: see
        `mpls docs differences`. TensorFlow does not have the options.
    """

    _subject = _SUBJECT

    @explained_arguments(_SUBJECT, settings_of_loss_scale(_SUBJECT), "bounds-and-dynamics")
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
        require_optimizer(opt, _SUBJECT)
        scale = get_required(loss_scale, f"{_SUBJECT}: loss_scale")
        values = count_steps, skip_counts_step, track_overflows, max_consecutive_skips, on_give_up, check_unscaled
        given = dict(zip(STEP_OPTIONS, (*values, enabled), strict=True))
        options = checked_options(_SUBJECT, given, skips=not never_skips(scale))
        self._wrap(opt, scale, options)
        track(self, scale, LOSS_SCALE)

    def _doing_dynamic_loss_scaling(self) -> bool:
        return not never_skips(self._acting_scale)

    def _scale_loss(self, loss: Any) -> Any:
        self._calls.note(_COMPUTE)
        return LossScaling(self._acting_scale).scale_loss(loss)

    def _unscale_grads(self, grads: Iterable[Any]) -> list[Any]:
        unscaled: list[Any] = unscale_gradients(list(grads), self._acting_scale())
        return unscaled

    def variables(self) -> list[Any]:
        """Return the variables of the wrapped optimizer, those of the loss scale and the counters, in this graph."""
        own = [*parts_of(self._loss_scale).values(), *(self._record.variables() if self._record is not None else ())]
        return [*self._optimizer.variables(), *own]

    # What is left of the methods of TensorFlow's own class: it applies single gradients, this one leaves that to the
    # wrapped optimizer.

    def _distributed_apply(self, *_: Any, **__: Any) -> NoReturn:
        raise ReplicaContextError(
            "MixedPrecisionLossScaleOptimizer: gradients must be applied with apply_gradients() in a replica context. "
            "Call opt.apply_gradients(grads_and_vars). See mpls docs strategies"
        )

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise CallOrderError(
            "MixedPrecisionLossScaleOptimizer: a gradient must be applied by the wrapped optimizer; got a call of the "
            "wrapper's own method for it. Call opt.apply_gradients(grads_and_vars). See mpls docs strategies"
        )

    _scale_grad = _apply_gradients = _refuse
    _apply_dense = _apply_sparse = _resource_apply_dense = _resource_apply_sparse = _refuse


def require_optimizer(opt: Any, subject: str) -> None:
    """Refuse what is not a `tf.compat.v1.train.Optimizer`."""
    if isinstance(opt, tf.compat.v1.train.Optimizer):
        return
    advice = (
        "Wrap Keras optimizers with mpls.keras.LossScaleOptimizer(opt), and others not at all: "
        "MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.AdamOptimizer(), 'dynamic')"
    )
    raise ArgumentValueError(
        error_text(f"{subject}: opt", "be a tf.compat.v1.train.Optimizer", opt, advice, "optimizer-arguments")
    )


def _names_of_powers(optimizer: Any) -> dict[str, str]:
    """Return the names of the non-slot variables of an optimizer, Adam's beta powers, in the current graph.

    Variables of the optimizers that it wraps are included. In eager mode there are none.

    Returns:
        By each name, its last part without the number that makes it unique. The variable's names in files of other
        wrappers end with it.
    """
    names: dict[str, str] = {}
    if tf.executing_eagerly():
        return names
    graph = tf.compat.v1.get_default_graph()
    while isinstance(optimizer, _Optimizer):
        for variable in powers_of(optimizer).values():
            for each in getattr(variable, "values", (variable,)):
                # A function may use eager variables, which have no graph.
                if getattr(each, "graph", None) is graph:
                    names[each.op.name] = re.sub(r"_\d+$", "", each.op.name.rpartition("/")[2])
        optimizer = inner_of(optimizer)
    return names


class _InnerStep:
    """Step hooks of the v1 family: a skipped step leaves `global_step` alone, unless it is to count."""

    sums_gradients, are_same = True, False

    def __init__(self, optimizer: Any, global_step: Any, name: str, skip_counts_step: bool | None) -> None:
        self._optimizer = optimizer
        self._global_step = global_step
        self._name = name
        self._skip_counts_step = bool(skip_counts_step)

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        """Return the op that applies the gradients and increments `global_step`; None in eager mode."""
        return self._optimizer.apply_gradients(grads_and_vars, self._global_step, self._name)

    def skip(self) -> Any:
        """Return an op that does nothing, or increments `global_step`."""
        if not self._skip_counts_step or self._global_step is None:
            return tf.no_op()
        return self._global_step.assign_add(1, read_value=False)


def _train_ops() -> list[Any]:
    """Return the ops in `GraphKeys.TRAIN_OP`."""
    return list(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.TRAIN_OP))


def _publish_train_op(op: Any, before: list[Any]) -> None:
    """Leave in `GraphKeys.TRAIN_OP` the op that a session can run, not the one inside the conditional."""
    if not tf.executing_eagerly():
        tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.TRAIN_OP)[:] = [*before, op]


def _warn_if_forgotten(calls: ScalingCalls, loss_scale: Any, variables: Iterable[Any]) -> None:
    """Begin a new step, and warn if the one that ends has scaled no loss, unless the program may have done it itself.

    Args:
        calls: the calls of the optimizer.
        loss_scale: that of the optimizer.
        variables: those that have a gradient.
    """
    step = calls.end_step(variables)
    if step.is_scaled or changes_nothing(loss_scale) or not is_known_unread(loss_scale):
        return
    if not calls.scaling.isdisjoint(step.elsewhere()):
        return
    calls.warn_once(
        "LossScaleOptimizer: apply_gradients() was called, but compute_gradients() never was in this step, so the "
        "gradients were computed without loss scaling. Use opt.minimize(loss), or compute them with "
        "grads_and_vars = opt.compute_gradients(loss, variables). See mpls docs forgotten-scaling"
    )


def _apply_always(
    optimizer: Any, record: StepRecord | None, grads_and_vars: Any, global_step: Any, name: str | None
) -> Any:
    """Apply a step that is never skipped, and count it if there is a record; arguments as in `apply_gradients`."""
    if record is None:
        return optimizer.apply_gradients(grads_and_vars, global_step, name)
    before, name = _train_ops(), optimizer.get_name() if name is None else name
    # Strategies take equal strings of two replicas for different ones if they are different objects.
    applied = optimizer.apply_gradients(grads_and_vars, global_step, sys.intern(f"{name}-wrapped"))
    # A step that waits for the gradients of other workers is not applied yet.
    with tf.control_dependencies([] if applied is None else [applied]):
        train_op = group(applied, record.applied_by_all(), name=name)
    _publish_train_op(train_op, before)
    return train_op


_SyncReplicas: Any = tf.compat.v1.train.SyncReplicasOptimizer

_TAKE_OPS = {
    "AccumulatorTakeGradient": tf.raw_ops.AccumulatorSetGlobalStep,
    "ResourceAccumulatorTakeGradient": tf.raw_ops.ResourceAccumulatorSetGlobalStep,
    # The op for dense accumulators also sets the step of sparse ones.
    "SparseAccumulatorTakeGradient": tf.raw_ops.AccumulatorSetGlobalStep,
}


def _is_sync_replicas(optimizer: Any) -> bool:
    """Return whether the optimizer collects gradients from workers before it applies them."""
    return isinstance(optimizer, _SyncReplicas)


def _apply_through_sync_replicas(
    sync: Any, decide_on_mean: Any, grads_and_vars: Any, global_step: Any, name: str | None
) -> Any:
    """Let a `SyncReplicasOptimizer` collect the gradients, and another optimizer apply their mean.

    Args:
        sync: the user's `SyncReplicasOptimizer`.
        decide_on_mean: what applies the mean in place of the optimizer that `sync` wraps.
        grads_and_vars: this worker's pairs.
        global_step: as `SyncReplicasOptimizer.apply_gradients` takes it.
        name: as `SyncReplicasOptimizer.apply_gradients` takes it.

    Returns:
        What `SyncReplicasOptimizer.apply_gradients` returns. Its hook, its queue runner and its initialization ops are
        in `sync`, where they always are.
    """
    collector = copy.copy(sync)
    kept = set_inner(collector, decide_on_mean)
    train_op = collector.apply_gradients(list(grads_and_vars), global_step, name)
    vars(sync).update({key: value for key, value in vars(collector).items() if key != kept})
    return train_op


def _restore_accumulator_steps(grads_and_vars: Any, global_step: Any, after: Any) -> Any:
    """Return an op that sets the accumulators that gradients were taken from to `global_step`.

    Args:
        grads_and_vars: pairs of gradient and variable.
        global_step: the variable that an applied step has incremented.
        after: the op that has applied or skipped the step.

    Returns:
        The op; None where no gradient comes out of an accumulator.
    """
    if tf.executing_eagerly() or global_step is None:
        return None
    origins = [_origin(grad) for grad, _ in grads_and_vars]
    takes = [op for op in origins if op is not None and op.type in _TAKE_OPS]
    if not takes:
        return None
    with tf.control_dependencies([after]):
        step = tf.cast(tf.identity(tf.compat.v1.convert_to_tensor(global_step)), tf.int64)
        return tf.group(*[_TAKE_OPS[op.type](handle=op.inputs[0], new_global_step=step) for op in takes])


def _origin(grad: Any) -> Any:
    tensor = grad.values if isinstance(grad, tf.IndexedSlices) else grad
    return getattr(tensor, "op", None)
