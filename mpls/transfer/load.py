"""`load_record`: loads the record of an optimizer into a live optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.replicas import in_replica_context
from mpls.errors import ArgumentValueError, MplsWarning, SavedStateError, UnsupportedGraphError, warn_user
from mpls.formats import algorithms
from mpls.formats.record import OptimizerRecord
from mpls.formats.validity import SEE_MIGRATION
from mpls.transfer import formulas, update_counts
from mpls.transfer.hosts import Host, dtype_of
from mpls.transfer.matching import given_variables
from mpls.transfer.scales import ScalePlan, plan_scale, set_scale
from mpls.transfer.setting_checks import checked_hyperparameters
from mpls.transfer.settings import differences, learning_rate_at, set_settings, settable, settings_of
from mpls.transfer.slots import Transfer, plan_slots
from mpls.transfer.step_counts import CountsPlan, plan_counts, set_counts
from mpls.transfer.target_optimizers import Target, assign_slots, target_of
from mpls.transfer.transfer_report import Plan, TransferReport
from mpls.transfer.unwrapping import host_of


def load_record(
    record: OptimizerRecord,
    optimizer: Any,
    variables: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    hyperparameters: bool = False,
    subject: str | None = None,
    goes_by_order: bool = False,
) -> TransferReport:
    """Load a record into a live optimizer, of the record's family or of another.

    All checks come before the first assignment. An optimizer that is not built yet is built with the variables.

    Args:
        record: the record; its loss scale is loaded into the wrapper's if both are dynamic.
        optimizer: an optimizer of tf_keras, legacy or new, or of Keras 3; bare, or in a wrapper of mpls or of its own
            Keras.
        variables: the variables that the optimizer trains, or a dict of them by their key or name in the record. By
            default those that it is built with. A list is matched with the record by name; where the names differ, by
            order or by shape.
        hyperparameters: whether to set learning rate, betas and so on from the record, where the optimizer has them.
        subject: the origin of the record, for errors and the report; by default its key.
        goes_by_order: whether the variables are in the order of the record, whatever their names are.

    Returns:
        The report of what was set, and what was not.

    Raises:
        SavedStateError: variables, slots, shapes or dtypes do not fit, or the algorithm is another. The optimizer stays
            as it was.
        ValueError: the optimizer is not built, and no variables are given; or it is called in a replica context.
        TypeError: it is not a Keras optimizer.
        RuntimeError: it is called in a graph.
    """
    require_eager()
    host = host_of(optimizer, "convert_state: optimizer", takes_v1=False)
    subject = subject or record.key
    state = _require_same_algorithm(record, host, subject)
    given, keys = given_variables(variables)
    own, theirs = settings_of(host), dict(record.hyperparameters)
    if state == "Nadam" and record.family != host.family:
        # `decay` of a legacy Nadam is its momentum schedule; in other families it would be the decay of the rate.
        theirs.pop("decay", None)
    plan = Plan()
    chosen: Mapping[str, Any] = {}
    if hyperparameters:
        chosen = checked_hyperparameters(host, settable(host, theirs, is_built=host.is_built(given)), subject)
    config = {**own, **{name: theirs[name] for name in chosen}}
    plan.differences += [f"set: {each}" for each in differences(theirs, own, record.family) if _names(each, chosen)]
    plan.differences += differences(theirs, config, record.family)
    families = record.family, host.family
    plan.differences += formulas.formula_differences(state, *families, record.hyperparameters, config)
    target = target_of(host, given, config, chosen, is_part=keys is not None)
    loading = _Loading(record, target, state, config, chosen, plan, subject)
    loading.check(keys, goes_by_order)
    return loading.assign()


def _names(difference: str, chosen: Mapping[str, Any]) -> bool:
    return difference.partition(":")[0] in chosen


class _Loading:
    """A record that is loaded into a target: `check` first, then `assign`."""

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
        self._scale, self._counts = ScalePlan(), CountsPlan()

    def check(self, keys: Sequence[str] | None, goes_by_order: bool) -> None:
        """Compute what will be assigned.

        Raises:
            SavedStateError: the record does not fit the target.
        """
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
        names = [each.name for each in self._target.described]
        sources = plan.sources or self._sources_by_order(names, goes_by_order)
        self._counts = plan_counts(record, host.wrapper, names, sources, plan)

    def _sources_by_order(self, names: Sequence[str | None], goes_by_order: bool) -> list[int | None]:
        """Return the index of each target variable's source where no slot had to be matched; None where not known."""
        is_known = goes_by_order and len(names) == len(self._record.variables)
        return list(range(len(names))) if is_known else [None] * len(names)

    def _count_steps(self) -> bool:
        """Compute the target's number of steps, and the number of updates.

        Returns:
            Whether source and target accumulate gradients over the same number of steps.

        Raises:
            SavedStateError: the number of steps is not valid, or too large for the target's counter.
        """
        record, plan = self._record, self._plan
        steps = update_counts.steps_of(record, self._state, self._config, self._subject)
        if steps is not None and record.iterations not in (None, steps):
            plan.leave_out(f"global_step {record.iterations}: by its beta powers, Adam has made {steps} steps")
        source, target = update_counts.gradient_steps(record, self._config, self._subject)
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
                f"{SEE_MIGRATION}"
            )
        return source == target

    def _learning_rate(self) -> float:
        """Return the learning rate of the target's next step, by which a v1 momentum is to be multiplied."""
        rate = learning_rate_at(self._host, self._steps or 0, self._chosen)
        has_momentum = any(np.any(value) for each in self._record.variables for value in each.slots.values())
        if rate == 0.0 and has_momentum:
            raise SavedStateError(
                f"{self._subject}: the momentum of tf.compat.v1.train.MomentumOptimizer is multiplied by the learning "
                f"rate, which must not be 0; got 0 at step {self._steps}. Convert it before the schedule is at 0. "
                f"{SEE_MIGRATION}"
            )
        if has_momentum:
            self._plan.changed.append(f"momentum: times -{rate:g}, the learning rate, as {self._host} keeps it")
        return rate

    def _plan_others(self) -> None:
        record, plan = self._record, self._plan
        there = {name.lstrip("_"): value for name, value in record.others.items()}
        for name in self._target.others:
            if algorithms.has_momentum_product(self._state) and algorithms.is_momentum_product(name):
                self._others[name], is_computed = update_counts.product_of(
                    record, self._applied, self._config, self._subject
                )
                if is_computed:
                    plan.started.append(f"{algorithms.PRODUCT}: computed from the number of steps")
            elif name.lstrip("_") in there:
                self._others[name] = there.pop(name.lstrip("_"))
            elif self._state is None:
                raise SavedStateError(
                    f"{self._subject}: the source must have {name.lstrip('_')!r}, which {self._host} needs; got "
                    f"{sorted(there)}. {SEE_MIGRATION}"
                )
        for name in there:
            is_known = algorithms.is_beta_power(name) or (
                algorithms.has_momentum_product(self._state) and algorithms.is_momentum_product(name)
            )
            if not is_known and name not in {each.lstrip("_") for each in self._target.others}:
                plan.leave_out(f"{name}: {self._host} has none")

    def assign(self) -> TransferReport:
        """Assign what `check` has computed, warn of state that is lost, and return the report."""
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
        set_counts(host.wrapper, self._counts)
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
            counts=(*self._scale.extras.items(), *self._counts.counts.items()),
            overflows=tuple(self._counts.overflows),
            left_out=tuple(plan.left_out),
            started=tuple(plan.started),
            changed=tuple(plan.changed),
            differences=tuple(plan.differences),
        )


def _counter_dtype(host: Host) -> Any:
    # Legacy optimizers create the counter, an int64, when it is read first.
    return np.int64 if host.family == "legacy" else dtype_of(host.iterations).as_numpy_dtype


def require_eager() -> None:
    """Refuse graphs and replica contexts, in which variables have no values that can be read.

    Raises:
        RuntimeError: in a graph.
        ValueError: in a replica context.
    """
    if not tf.executing_eagerly():
        raise UnsupportedGraphError(
            "convert_state: it must be called in eager mode, outside of tf.function; got a graph. Save what is in the "
            f"graph with tf.compat.v1.train.Saver, and convert the file. {SEE_MIGRATION}"
        )
    if in_replica_context():
        raise ArgumentValueError(
            "convert_state: it must be called outside of strategy.run; got a replica context. Convert before training. "
            f"{SEE_MIGRATION}"
        )


def _require_same_algorithm(record: OptimizerRecord, host: Host, subject: str) -> str | None:
    """Return the entry of `algorithms.SLOTS` whose state both have; None for an algorithm without an entry.

    Raises:
        SavedStateError: the algorithms differ; or there is no entry, and the families differ.
    """
    source = algorithms.state_of(record.algorithm)
    is_same = source == host.state if record.algorithm is not None else host.state is not None
    if host.state is None:
        is_same = record.family == host.family and record.algorithm == host.algorithm
    has_product = any(map(algorithms.is_momentum_product, record.others))
    if record.algorithm is None and has_product and not algorithms.has_momentum_product(host.state):
        is_same = False
    if not is_same:
        family = " of another family, which only the usual algorithms can change"
        raise SavedStateError(
            f"{subject}: the source must be of the target's algorithm, {host.algorithm}; got "
            f"{record.algorithm or 'Nadam'}{family if record.algorithm == host.algorithm else ''}. "
            f"Use an optimizer of the source's algorithm. {SEE_MIGRATION}"
        )
    return host.state
