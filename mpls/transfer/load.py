"""Records of optimizers into live optimizers, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.replicas import in_replica_context
from mpls.errors import ArgumentValueError, MplsWarning, SavedStateError, UnsupportedGraphError, warn_user
from mpls.formats import algorithms
from mpls.formats.record import OptimizerRecord
from mpls.transfer import counts, formulas
from mpls.transfer.hosts import Host, dtype_of, host_of
from mpls.transfer.matching import given_variables
from mpls.transfer.scales import ScalePlan, plan_scale, set_scale
from mpls.transfer.settings import differences, learning_rate_at, made, set_settings, settable, settings_of
from mpls.transfer.slots import Plan, Transfer, plan_slots
from mpls.transfer.target_optimizers import Target, assign_slots, target_of


@dataclass(frozen=True)
class TransferReport:
    """What has been carried over, and what has not.

    Attributes:
        source: where the state comes from, in words.
        target: where it went.
        iterations: the number of steps that the target has now; None if the source did not say, and it was left alone.
        slots: the variables' names, each with the names of its slots that were set, as the target calls them.
        others: other state that was set, as Nadam's momentum product.
        loss_scale: the scale that was set, and the counter of finite steps; None if there was none to set.
        left_out: state of the source that the target does not have, and why.
        started: state of the target that the source does not have, and what it starts from.
        changed: what had to be computed on the way, as a momentum in other units.
        differences: settings that differ, or were set, each as `name: source's value, target's value`.
    """

    source: str
    target: str
    iterations: int | None
    slots: tuple[tuple[str, tuple[str, ...]], ...] = ()
    others: tuple[str, ...] = ()
    loss_scale: tuple[float, int | None] | None = None
    left_out: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as lines of text."""
        lines = [f"{self.source} -> {self.target}"]
        lines.append("iterations: " + ("not known, left alone" if self.iterations is None else str(self.iterations)))
        lines += [f"slots of {name}: {', '.join(slots) or 'none'}" for name, slots in self.slots]
        if self.others:
            lines.append(f"also set: {', '.join(self.others)}")
        if self.loss_scale is not None:
            scale, good_steps = self.loss_scale
            lines.append(f"loss scale: {scale:g}" + ("" if good_steps is None else f", finite steps: {good_steps}"))
        for heading, entries in (
            ("left out", self.left_out),
            ("started", self.started),
            ("changed", self.changed),
            ("settings that differ", self.differences),
        ):
            lines += [f"{heading}: {entry}" for entry in entries]
        return "\n".join(lines)


def load_record(
    record: OptimizerRecord,
    optimizer: Any,
    variables: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    hyperparameters: bool = False,
    subject: str | None = None,
    goes_by_order: bool = False,
) -> TransferReport:
    """Put a record into a live optimizer, of the same family as the record's or of another.

    Everything is checked before anything is assigned. An optimizer that is not built yet is built with the variables.

    Args:
        record: what is to go in; its loss scale goes into a wrapper's, if both are dynamic.
        optimizer: of tf_keras, legacy or new, or of Keras 3; bare, or in a wrapper of mpls or of its own Keras.
        variables: the variables that it trains; or a dict of them by the key, or the name, in the record. By default
            those that it is built with. A list is matched with the record by name, and by order where names do not
            tell.
        hyperparameters: whether to set learning rate and the like from the record, where the optimizer has them.
        subject: where the record is from, for errors and the report; by default its key.
        goes_by_order: whether the variables are in the order of the record, whatever they are called.

    Returns:
        What was carried over, and what was not.

    Raises:
        SavedStateError: variables, slots, shapes or dtypes do not fit, or the algorithm is another; the optimizer is
            as it was.
        ValueError: the optimizer is not built, and there are no variables.
        TypeError: it is no Keras optimizer.
        RuntimeError: it is called in a graph.
    """
    require_eager()
    host = host_of(optimizer, "convert_state: optimizer", takes_v1=False)
    subject = subject or record.key
    state = _require_same_algorithm(record, host, subject)
    given, keys = given_variables(variables)
    own, theirs = settings_of(host), dict(record.hyperparameters)
    if state == "Nadam" and record.family != host.family:
        # Its schedule of the momentum, which is no setting elsewhere.
        theirs.pop("decay", None)
    plan = Plan()
    chosen = made(host, settable(host, theirs, is_built=host.is_built(given))) if hyperparameters else {}
    config = {**own, **{name: theirs[name] for name in chosen}}
    plan.differences += [f"set: {each}" for each in differences(theirs, own) if _names(each, chosen)]
    plan.differences += differences(theirs, config)
    families = record.family, host.family
    plan.differences += formulas.formula_differences(state, *families, record.hyperparameters, config)
    target = target_of(host, given, config, chosen, is_part=keys is not None)
    loading = _Loading(record, target, state, config, chosen, plan, subject)
    loading.check(keys, goes_by_order)
    return loading.assign()


def _names(difference: str, chosen: Mapping[str, Any]) -> bool:
    return difference.partition(":")[0] in chosen


class _Loading:
    """A record on its way into a target: first all checks, then all assignments."""

    def __init__(
        self,
        record: OptimizerRecord,
        target: Target,
        state: str | None,
        config: Mapping[str, Any],
        chosen: Mapping[str, Any],
        plan: Plan,
        subject: str,
    ) -> None:
        self._record, self._target, self._host, self._state = record, target, target.host, state
        self._config, self._chosen, self._plan, self._subject = config, chosen, plan, subject
        self._steps: int | None = None
        self._applied = 0
        self._others: dict[str, Any] = {}
        self._scale = ScalePlan()

    def check(self, keys: Sequence[str] | None, goes_by_order: bool) -> None:
        """Work out what will be assigned, or raise."""
        record, host, plan = self._record, self._host, self._plan
        keeps_accumulators = self._count_steps()
        momentum_factor = 1.0
        if formulas.accumulates_gradients(self._state, record.family):
            momentum_factor = -self._learning_rate()
        plan_slots(
            Transfer(
                record,
                self._target.described,
                self._state,
                str(host),
                self._config,
                keys,
                goes_by_order,
                self._subject,
                momentum_factor,
                keeps_accumulators,
            ),
            plan,
        )
        self._plan_others()
        self._scale = plan_scale(record.loss_scale, host.wrapper, plan, self._subject)

    def _count_steps(self) -> bool:
        """Count steps as the target does; return whether accumulated gradients fit it."""
        record, plan = self._record, self._plan
        steps = counts.steps_of(record, self._state, self._config, self._subject)
        if steps is not None and record.iterations not in (None, steps):
            plan.leave_out(f"global_step {record.iterations}: by its beta powers, Adam has made {steps} steps")
        source, target = counts.gradient_steps(record, self._config)
        if steps is None:
            return source == target
        self._applied = steps // source
        self._steps = steps if source == target else self._applied * target
        if self._steps != steps:
            plan.changed.append(
                f"iterations: {steps} -> {self._steps}, which count each of the {target} steps of an update "
                f"(the source's: {source})"
            )
        if self._steps > np.iinfo(_counter_dtype(self._host)).max:
            raise SavedStateError(
                f"{self._subject}: the number of steps must fit the optimizer's counter; got {self._steps}. "
                "See MIGRATION.md#my-checkpoints"
            )
        return source == target

    def _learning_rate(self) -> float:
        """Return the rate of the target's next step, which the momentum of v1 is multiplied by at that step."""
        rate = learning_rate_at(self._host, self._steps or 0, self._chosen)
        has_momentum = any(np.any(value) for each in self._record.variables for value in each.slots.values())
        if rate == 0.0 and has_momentum:
            raise SavedStateError(
                f"{self._subject}: the momentum of tf.compat.v1.train.MomentumOptimizer is multiplied by the learning "
                f"rate, which must not be 0; got 0 at step {self._steps}. Convert it before the schedule is at 0. "
                "See MIGRATION.md#my-checkpoints"
            )
        if has_momentum:
            self._plan.changed.append(f"momentum: times -{rate:g}, the learning rate, as {self._host} keeps it")
        return rate

    def _plan_others(self) -> None:
        record, plan = self._record, self._plan
        there = {name.lstrip("_"): value for name, value in record.others.items()}
        for name in self._target.others:
            if self._state == "Nadam" and counts.is_product(name):
                self._others[name], is_computed = counts.product_of(record, self._applied, self._config)
                if is_computed:
                    plan.started.append(f"{algorithms.PRODUCT}: computed from the number of steps")
            elif name.lstrip("_") in there:
                self._others[name] = there.pop(name.lstrip("_"))
            elif self._state is None:
                raise SavedStateError(
                    f"{self._subject}: the source must have {name.lstrip('_')!r}, which {self._host} needs; got "
                    f"{sorted(there)}. See MIGRATION.md#my-checkpoints"
                )
        for name in there:
            is_known = counts.is_power(name) or (self._state == "Nadam" and counts.is_product(name))
            if not is_known and name not in {each.lstrip("_") for each in self._target.others}:
                plan.leave_out(f"{name}: {self._host} has none")

    def assign(self) -> TransferReport:
        """Assign what was worked out; nothing fails from here on."""
        host, plan = self._host, self._plan
        set_settings(host, self._chosen)
        slots = assign_slots(self._target, plan.slots, starts_averages=plan.averaged)
        counter = host.iterations
        if self._steps is not None and counter is not None:
            counter.assign(self._steps)
        live = host.others()
        for name, value in self._others.items():
            live[name].assign(np.asarray(value).astype(dtype_of(live[name]).as_numpy_dtype))
        host.settle(self._applied)
        if self._scale.is_set:
            set_scale(host.wrapper, self._scale)
        if plan.lost:
            warn_user(f"convert_state left out what the target does not have: {'; '.join(plan.lost)}.", MplsWarning)
        if self._scale.warning:
            warn_user(self._scale.warning, MplsWarning)
        names = [each.name or f"variable {index}" for index, each in enumerate(self._target.described)]
        own = algorithms.slot_names(self._state, host.family) if self._state else {}
        slots = [tuple(own.get(slot, slot) for slot in each) for each in slots]
        return TransferReport(
            source=self._subject,
            target=str(host),
            iterations=self._steps,
            slots=tuple(zip(names, slots, strict=True)),
            others=tuple(name.lstrip("_") for name in self._others),
            loss_scale=(self._scale.scale, self._scale.good_steps) if self._scale.is_set else None,
            left_out=tuple(plan.left_out),
            started=tuple(plan.started),
            changed=tuple(plan.changed),
            differences=tuple(plan.differences),
        )


def _counter_dtype(host: Host) -> Any:
    # Legacy optimizers make it when it is asked for, an int64.
    return np.int64 if host.family == "legacy" else dtype_of(host.iterations).as_numpy_dtype


def require_eager() -> None:
    """Refuse graphs and replica contexts, in which values are not known."""
    if not tf.executing_eagerly():
        raise UnsupportedGraphError(
            "convert_state: it must be called in eager mode, outside of tf.function; got a graph. Save what is in the "
            "graph with tf.compat.v1.train.Saver, and convert the file. See MIGRATION.md#my-checkpoints"
        )
    if in_replica_context():
        raise ArgumentValueError(
            "convert_state: it must be called outside of strategy.run; got a replica context. Convert before training. "
            "See MIGRATION.md#my-checkpoints"
        )


def _require_same_algorithm(record: OptimizerRecord, host: Host, subject: str) -> str | None:
    """Return the algorithm whose state both have, of those that every family knows; None for others."""
    source = algorithms.state_of(record.algorithm)
    is_same = source == host.state if record.algorithm is not None else host.state is not None
    if host.state is None:
        is_same = record.family == host.family and record.algorithm == host.algorithm
    if record.algorithm is None and host.state != "Nadam" and any(map(counts.is_product, record.others)):
        is_same = False
    if not is_same:
        family = " of another family, which only the usual algorithms can change"
        raise SavedStateError(
            f"{subject}: the source must be of the target's algorithm, {host.algorithm}; got "
            f"{record.algorithm or 'Nadam'}{family if record.algorithm == host.algorithm else ''}. "
            "Use an optimizer of the source's algorithm. See MIGRATION.md#my-checkpoints"
        )
    return host.state
