"""`load_record`: loads the record of an optimizer into a live one: target, matching of variables, slots, assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.replicas import in_replica_context
from mpls.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    MplsWarning,
    SavedStateError,
    UnsupportedGraphError,
    error_text,
    warn_user,
)
from mpls.formats import algorithms
from mpls.formats.algorithms import AVERAGE, MOMENTUM_PRODUCTS, expected_slots, has_momentum_product
from mpls.formats.record import OptimizerRecord, VariableRecord
from mpls.formats.validity import ANCHOR, SEE_DOCS
from mpls.saved.containers import StoredArray
from mpls.transfer import formulas
from mpls.transfer.hosts import Host, Place, as_numpy, dtype_of, host_of, name_of
from mpls.transfer.scales import ScalePlan, plan_counts, plan_scale, set_counts, set_scale
from mpls.transfer.settings import differences, learning_rate_at, settings_of
from mpls.transfer.transfer_report import Plan, TransferReport


def load_record(
    record: OptimizerRecord,
    optimizer: Any,
    variables: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
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
    host = host_of(optimizer, "convert_state: optimizer")
    subject = subject or record.key
    state = _require_same_algorithm(record, host, subject)
    given, keys = given_variables(variables)
    config, theirs = settings_of(host), dict(record.hyperparameters)
    if state == "Nadam" and record.family != host.family:
        # `decay` of a legacy Nadam is its momentum schedule; in other families it would be the decay of the rate.
        theirs.pop("decay", None)
    plan = Plan()
    plan.differences += differences(theirs, config, record.family)
    families = record.family, host.family
    plan.differences += formulas.formula_differences(state, *families, record.hyperparameters, config)
    target = target_of(host, given, config, is_part=keys is not None)
    loading = _Loading(record, target, state, config, subject, keys, goes_by_order, plan)
    loading.check()
    return loading.assign()


@dataclass
class _Loading:
    """A record that is loaded into a target: `check` first, then `assign`."""

    _record: OptimizerRecord
    _target: Target
    _state: str | None
    _config: Mapping[str, Any]
    _subject: str
    _keys: Sequence[str] | None
    _goes_by_order: bool
    _plan: Plan
    _others: dict[str, Any] = field(default_factory=dict)
    _steps: int | None = field(init=False)
    _applied: int = field(init=False)
    _scale: ScalePlan = field(init=False)
    _counts: Mapping[str, int] = field(init=False)

    @property
    def _host(self) -> Host:
        return self._target.host

    def check(self) -> None:
        """Compute what will be assigned.

        Raises:
            SavedStateError: the record does not fit the target.
        """
        record, host, plan = self._record, self._host, self._plan
        self._count_steps()
        # The momentum of v1 is a sum of gradients, which a step multiplies by the learning rate. The Keras families
        # multiply each gradient by minus the learning rate before they add it.
        sums_gradients = self._state == "SGD" and record.family == "v1"
        momentum_factor = -self._learning_rate() if sums_gradients else 1.0
        self._plan_slots(momentum_factor)
        self._plan_others()
        self._scale = plan_scale(record, host.wrapper, plan, self._subject)
        self._counts = plan_counts(record, host.wrapper, plan)

    def _count_steps(self) -> None:
        """Compute the number of steps, and the number of updates.

        Raises:
            SavedStateError: the number of steps is not valid, or too large for the target's counter.
        """
        record, plan = self._record, self._plan
        now = 0 if self._host.counter is None else int(as_numpy(self._host.counter))
        steps = formulas.steps_of(record, self._state, self._config, self._subject, now)
        if steps is not None and record.iterations not in (None, steps):
            plan.leave_out(f"global_step {record.iterations}: by its beta powers, Adam has made {steps} steps")
        if steps is None and record.possible_steps:
            possible = formulas.possible_steps(record, self._config, self._subject)
            left_out = f"{formulas.described(possible)}: the file does not say to which optimizer they belong"
            plan.leave_out(left_out, has_effect=now not in possible.values())
            steps = now
        self._steps = steps
        self._applied = (steps or 0) // formulas.gradient_steps(record, self._config, self._subject)
        # Legacy optimizers create the counter, an int64, when it is read first.
        counter = np.int64 if self._host.family == "legacy" else dtype_of(self._host.iterations).as_numpy_dtype
        if steps is not None and steps > np.iinfo(counter).max:
            raise SavedStateError(
                f"{self._subject}: the number of steps must fit the optimizer's counter; got {steps}. {SEE_DOCS}"
            )

    def _learning_rate(self) -> float:
        """Return the learning rate of the target's next step, by which a v1 momentum is to be multiplied."""
        rate = learning_rate_at(self._host, self._steps or 0)
        has_momentum = any(np.any(value) for each in self._record.variables for value in each.slots.values())
        if rate == 0.0 and has_momentum:
            raise SavedStateError(
                f"{self._subject}: the momentum of tf.compat.v1.train.MomentumOptimizer is multiplied by the learning "
                f"rate, which must not be 0; got 0 at step {self._steps}. Convert it before the schedule is at 0. "
                f"{SEE_DOCS}"
            )
        if has_momentum:
            self._plan.changed.append(f"momentum: times -{rate:g}, the learning rate, as {self._host} keeps it")
        return rate

    def _plan_slots(self, momentum_factor: float) -> None:
        """Add the slots that will be set to the plan, and lines for the report.

        Args:
            momentum_factor: the factor from the source's momentum to the target's.

        Raises:
            SavedStateError: variables, slots, shapes or dtypes do not fit.
        """
        plan, targets = self._plan, self._target.places
        family = self._record.family
        sources = [
            {algorithms.slot_called(self._state, family, name): value for name, value in source.slots.items()}
            for source in self._record.variables
        ]
        wanted = {name for target in targets for name in target.slots}
        there = {name for source in sources for name in source}
        self._require_slots(wanted - there)
        self._note_left_out(there - wanted)
        carried = wanted & there
        plan.slots += [{} for _ in targets]
        if not carried:
            return
        rounded = False
        for index, target, slots in zip(self._matched(), targets, plan.slots, strict=True):
            for name in sorted(carried & set(target.slots)):
                value = self._value(sources[index], index, name)
                if name == "momentum" and momentum_factor != 1.0:
                    array = np.asarray(value)
                    value = (array * momentum_factor).astype(array.dtype)
                slots[name] = fitted(value, target.slots[name], self._slot_subject(index, name))
                rounded |= is_rounded(value, slots[name])
        if rounded:
            plan.changed.append("slots: rounded to the dtype of the target's")

    def _value(self, source: Mapping[str, Any], index: int, name: str) -> Any:
        if name not in source:
            raise SavedStateError(
                f"{self._slot_subject(index, name)} must be there, as for other variables; the source has "
                f"{sorted(source) or 'no slots'}. Pass the variables that have it, as a dict: "
                f"variables={{key of the source: variable}}. {SEE_DOCS}"
            )
        return source[name]

    def _slot_subject(self, index: int, name: str) -> str:
        source = self._record.variables[index]
        return f"{self._subject}: slot {name!r} of {source.key or source.name or f'variable {index}'}"

    def _require_slots(self, missing: set[str]) -> None:
        plan = self._plan
        missing = missing - algorithms.unused_slots(self._state, self._config)
        if AVERAGE in missing:
            self._plan.averaged = True
            plan.started.append("averages of the variables: from the variables as they are")
        needed = missing - {AVERAGE}
        if needed:
            raise SavedStateError(
                f"{self._subject}: the source must have the slots {sorted(needed)}, which {self._host} needs with "
                "its settings; got none. Give the target the settings of the source, or start it anew. "
                f"{SEE_DOCS}"
            )

    def _note_left_out(self, extra: set[str]) -> None:
        plan = self._plan
        settings = self._record.hyperparameters
        unused = algorithms.unused_slots(self._state, settings)
        if "momentum" not in settings:
            # The source does not say its momentum: v1 optimizers and a new SGD have the slot even if it is 0.
            unused = unused | {"momentum"}
        for name in sorted(extra):
            plan.leave_out(f"slot {name!r}: {self._host} has none with its settings", has_effect=name not in unused)

    def _matched(self) -> list[int]:
        sources, targets = self._record.variables, self._target.places
        names = [each.name for each in targets]
        if self._keys is not None:
            found = match_keys(sources, names, self._keys, self._subject)
            for index in sorted(set(range(len(sources))) - set(found)):
                self._plan.leave_out(
                    f"slots of {sources[index].key or sources[index].name}: not among the variables given"
                )
            return found
        return match(
            sources,
            names,
            [{tuple(slot.shape) for slot in each.slots.values()} for each in targets],
            family=self._record.family,
            goes_by_order=self._goes_by_order,
            subject=self._subject,
        )

    def _plan_others(self) -> None:
        record, plan = self._record, self._plan
        there = {name.lstrip("_"): value for name, value in record.others.items()}
        for name in self._target.others:
            if algorithms.has_momentum_product(self._state) and algorithms.is_momentum_product(name):
                self._others[name], is_computed = formulas.product_of(
                    record, self._applied, self._config, self._subject
                )
                if is_computed:
                    plan.started.append(f"{algorithms.PRODUCT}: computed from the number of steps")
            elif name.lstrip("_") in there:
                self._others[name] = there.pop(name.lstrip("_"))
            elif self._state is None:
                raise SavedStateError(
                    f"{self._subject}: the source must have {name.lstrip('_')!r}, which {self._host} needs; got "
                    f"{sorted(there)}. {SEE_DOCS}"
                )
        for name in there:
            is_known = algorithms.beta_of_power(name) is not None or (
                algorithms.has_momentum_product(self._state) and algorithms.is_momentum_product(name)
            )
            if not is_known and name not in {each.lstrip("_") for each in self._target.others}:
                plan.leave_out(f"{name}: {self._host} has none")

    def assign(self) -> TransferReport:
        """Assign what `check` has computed, warn of state that is lost, and return the report."""
        host, plan = self._host, self._plan
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
        names = [each.name or f"variable {index}" for index, each in enumerate(self._target.places)]
        own = algorithms.slot_names(self._state, host.family) if self._state else {}
        slots = [tuple(own.get(slot, slot) for slot in each) for each in slots]
        return TransferReport(
            source=self._subject,
            target=str(host),
            iterations=self._steps,
            slots=tuple(zip(names, slots, strict=True)),
            others=tuple(name.lstrip("_") for name in self._others),
            loss_scale=(self._scale.scale, self._scale.good_steps) if self._scale.is_set else None,
            counts=(*self._scale.extras.items(), *self._counts.items()),
            left_out=tuple(plan.left_out),
            started=tuple(plan.started),
            changed=tuple(plan.changed),
            differences=tuple(plan.differences),
        )


def require_eager() -> None:
    """Refuse graphs and replica contexts, in which variables have no values that can be read.

    Raises:
        RuntimeError: in a graph.
        ValueError: in a replica context.
    """
    if not tf.executing_eagerly():
        raise UnsupportedGraphError(
            "convert_state: it must be called in eager mode, outside of tf.function; got a graph. Save what is in the "
            f"graph with tf.compat.v1.train.Saver, and convert the file. {SEE_DOCS}"
        )
    if in_replica_context():
        raise ArgumentValueError(
            "convert_state: it must be called outside of strategy.run; got a replica context. Convert before training. "
            f"{SEE_DOCS}"
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
            f"Use an optimizer of the source's algorithm. {SEE_DOCS}"
        )
    return host.state


@dataclass(frozen=True)
class Target:
    """A live optimizer that will get state.

    Attributes:
        host: the optimizer.
        variables: the variables that the user has passed; None for all that it is built with.
        is_built: whether it has its slots.
        places: its variables and their slots.
        others: the names of its other variables.
    """

    host: Host
    variables: Sequence[Any] | None
    is_built: bool
    places: Sequence[Place]
    others: Sequence[str]


def target_of(host: Host, variables: Sequence[Any] | None, config: Mapping[str, Any], *, is_part: bool) -> Target:
    """Return a target with the slots that it has or will have; the optimizer stays as it is.

    Args:
        host: the optimizer.
        variables: the variables that the user has passed, or None.
        config: its settings.
        is_part: whether the variables may be a part of those that it is built with.

    Raises:
        ValueError: it is not built and there are no variables, or the variables are not those that it is built with.
    """
    is_built = host.is_built(variables)
    if not is_built and variables is None:
        advice = "convert_state(source, optimizer, model.trainable_variables)"
        raise ArgumentValueError(
            error_text("convert_state: variables", "be given for an optimizer that is not built", None, advice, ANCHOR)
        )
    if is_built:
        if host.family != "legacy" and variables is not None and not is_part:
            _require_all(host, variables)
        return Target(host, variables, True, host.places(variables), list(host.others()))
    given = list(variables or ())
    if host.state is not None and type(host.inner).__module__.partition(".")[0] in ("tf_keras", "keras"):
        slots = expected_slots(host.state, host.family, config)
        places = [
            Place(name_of(each), {name: tf.TensorSpec(each.shape, dtype_of(each)) for name in slots}) for each in given
        ]
        others = [MOMENTUM_PRODUCTS[host.family]] if has_momentum_product(host.state) else []
        return Target(host, given, False, places, others)
    # A user's class says its slots only by building them, and an error must leave the optimizer as it was. So build a
    # copy.
    copied = _copy_of(host)
    copied.build(given)
    # The slots of the copy are freed.
    places = [
        Place(each.name, {name: tf.TensorSpec(slot.shape, dtype_of(slot)) for name, slot in each.slots.items()})
        for each in copied.places(given)
    ]
    return Target(host, given, False, places, list(copied.others()))


def _copy_of(host: Host) -> Host:
    try:
        other = host.inner.from_config(host.inner.get_config())
    except (TypeError, ValueError, NotImplementedError) as error:
        advice = f"Call optimizer.build(variables) before, or define get_config: {error}"
        constraint = "be built, or one that its config makes again"
        raise ArgumentValueError(
            error_text("convert_state: optimizer", constraint, host.inner, advice, ANCHOR)
        ) from error
    return type(host)(other, other)


def _require_all(host: Host, variables: Sequence[Any]) -> None:
    built_with = len(host.places())
    if len(variables) != built_with:
        advice = "Pass all of them, or none"
        constraint = f"be the {built_with} that the optimizer is built with"
        raise ArgumentValueError(
            error_text("convert_state: variables", constraint, [name_of(each) for each in variables], advice, ANCHOR)
        )


def assign_slots(target: Target, slots: Sequence[Mapping[str, Any]], *, starts_averages: bool) -> list[tuple[str, ...]]:
    """Build a target if it is not built, and assign its slots.

    Args:
        target: the target.
        slots: the values of each variable's slots, by the names in `mpls.formats.algorithms`.
        starts_averages: whether the averages of variables are set to the variables' values.

    Returns:
        For each variable, the sorted names of its slots that got values of `slots`.
    """
    if not target.is_built:
        target.host.build(list(target.variables or ()))
    assigned = []
    for place, values in zip(target.host.places(target.variables), slots, strict=True):
        for name, value in values.items():
            place.slots[name].assign(np.asarray(value))
        if starts_averages and AVERAGE in place.slots and place.variable is not None:
            place.slots[AVERAGE].assign(place.variable.numpy())
        assigned.append(tuple(sorted(values)))
    return assigned


def fitted(value: Any, variable: Any, subject: str) -> Any:
    """Return a value as an array of a variable's shape and dtype.

    Floats may be rounded to another precision, but not become infinite; integers keep their values.

    Args:
        value: an array or a number. A `StoredArray` that fits as it is stays one, and is not read.
        variable: the variable, or its `tf.TensorSpec`.
        subject: the value in words, for the error.

    Raises:
        SavedStateError: the shape differs, or the numbers do not fit the dtype.
    """
    array, shape, dtype = _unread(value), variable.shape, dtype_of(variable)
    if tuple(array.shape) != tuple(shape):
        raise SavedStateError(
            f"{subject} must have the shape {list(shape)}; got {list(array.shape)}. Match the variables by a dict: "
            f"variables={{key of the source: variable}}. {SEE_DOCS}"
        )
    target = dtype.as_numpy_dtype
    if array.dtype == target:
        return array
    if not _is_same_kind(array.dtype, dtype):
        raise SavedStateError(
            f"{subject} must be {dtype.name}; got {array.dtype}. Is it of another variable, or another file? {SEE_DOCS}"
        )
    array = np.asarray(array)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        converted = array.astype(target)
    is_lost = np.isfinite(array) & ~np.isfinite(converted) if dtype.is_floating else converted != array
    if np.any(is_lost):
        raise SavedStateError(
            f"{subject} must fit into {dtype.name}; got {np.max(np.abs(array))}. Use variables of "
            f"{array.dtype}. {SEE_DOCS}"
        )
    return converted


def _unread(value: Any) -> Any:
    """Return a value as an array, without reading a `StoredArray`."""
    return value if isinstance(value, StoredArray) else np.asarray(value)


def _is_same_kind(dtype: Any, target: Any) -> bool:
    try:
        own = tf.as_dtype(dtype)
    except TypeError:
        return False
    return bool((own.is_floating and target.is_floating) or (own.is_integer and target.is_integer))


def is_rounded(value: Any, converted: Any) -> bool:
    """Return whether a conversion was to a smaller dtype."""
    array = _unread(value)
    return bool(array.dtype.itemsize > converted.dtype.itemsize)


Shape = tuple[int, ...]


def match(
    sources: Sequence[VariableRecord],
    names: Sequence[str | None],
    shapes: Sequence[set[Shape]],
    *,
    family: str,
    goes_by_order: bool,
    subject: str,
) -> list[int]:
    """Return the index of each target variable's source.

    Args:
        sources: the variables of the source.
        names: the names of the target's variables.
        shapes: for each target variable, the set of the shapes of its slots.
        family: the family of the source.
        goes_by_order: whether sources and targets are in the same order, so that names do not matter.
        subject: the origin of the sources, for the error.

    Raises:
        SavedStateError: the numbers of variables differ, or neither names nor order nor shapes tell the pairs.
    """
    # Files number the variables of new and Keras 3 optimizers; variables of other families with keys are in any order.
    is_ordered = family in ("new", "keras3") or all(each.key is None for each in sources)
    if len(sources) != len(names):
        problem = f"have as many variables as the optimizer, {len(names)}; got {len(sources)}"
    elif goes_by_order:
        return list(range(len(names)))
    else:
        own = [each.name or each.key for each in sources]
        found = _by_name(own, names)
        if found is not None:
            return found
        problem = "name the variables as the target does, or have them in an order; got other names"
        if is_ordered and _fit_shapes(sources, shapes):
            contradiction = _contradiction(own, names)
            if contradiction is None:
                return list(range(len(names)))
            problem = f"have equal names at equal places; got {contradiction!r} at another place"
        elif is_ordered:
            problem = "have the shapes of the target's variables, one by one; got others"
        elif (by_shape := _by_shape(sources, shapes)) is not None:
            return by_shape
    raise SavedStateError(
        f"{subject}: the source must {problem}. The source has {_listed(sources)}. The target has "
        f"{_listed_target(names, shapes)}. Say which is which: variables={{key of the source: variable}}. "
        f"{SEE_DOCS}"
    )


def match_keys(
    sources: Sequence[VariableRecord], names: Sequence[str | None], keys: Sequence[str], subject: str
) -> list[int]:
    """Return the index of each target variable's source, if the user has given the keys of the sources.

    Args:
        sources: the variables of the source.
        names: the names of the target's variables, for the error.
        keys: the key or the name of each target variable's source.
        subject: the origin of the sources, for the error.

    Raises:
        SavedStateError: a key is not that of one source, or two keys are of the same source.
    """
    found = []
    for key in keys:
        indices = [i for i, each in enumerate(sources) if each.key == key]
        indices = indices or [i for i, each in enumerate(sources) if each.name and _tidy(each.name) == _tidy(key)]
        if len(indices) != 1 or indices[0] in found:
            raise SavedStateError(
                f"{subject}: the keys of `variables` must each be the key or the name of one variable of the source; "
                f"got {key!r}. The source has {_listed(sources)}. The target has {', '.join(map(str, names))}. "
                f"{SEE_DOCS}"
            )
        found += indices
    return found


def _by_name(own: Sequence[str | None], names: Sequence[str | None]) -> list[int] | None:
    ours, theirs = _plain(own), _plain(names)
    if ours is None or theirs is None or set(ours) != set(theirs) or len(set(ours)) != len(ours):
        return None
    return [ours.index(name) for name in theirs]


def _plain(names: Sequence[str | None]) -> Sequence[str | None] | None:
    """Return names without the leading scopes that all of them share; None if a name is missing."""
    parts = [_tidy(name).split("/") for name in names if name]
    if len(parts) != len(names):
        return None
    while all(len(each) > 1 for each in parts) and len({each[0] for each in parts}) == 1 and parts:
        parts = [each[1:] for each in parts]
    return ["/".join(each) for each in parts]


def _tidy(name: str) -> str:
    return name.partition(":")[0].strip("/")


def _fit_shapes(sources: Sequence[VariableRecord], shapes: Sequence[set[Shape]]) -> bool:
    return all(_shapes_of(source) <= shape for source, shape in zip(sources, shapes, strict=True))


def _shapes_of(source: VariableRecord) -> set[Shape]:
    return {tuple(value.shape) for value in source.slots.values()}


def _contradiction(own: Sequence[str | None], names: Sequence[str | None]) -> str | None:
    """Return a name that is unique on both sides but at different positions; None if there is none."""
    sides = [_plain(side) or [_tidy(name) if name else None for name in side] for side in (own, names)]
    ours, theirs = sides
    once = Counter(ours)
    for index, name in enumerate(theirs):
        if name is not None and once[name] == 1 and theirs.count(name) == 1 and ours.index(name) != index:
            return name
    return None


def _by_shape(sources: Sequence[VariableRecord], shapes: Sequence[set[Shape]]) -> list[int] | None:
    ours = [frozenset(_shapes_of(each)) for each in sources]
    theirs = [frozenset(each) for each in shapes]
    if len(set(ours)) != len(ours) or set(ours) != set(theirs):
        return None
    return [ours.index(each) for each in theirs]


def _listed(sources: Sequence[VariableRecord]) -> str:
    return ", ".join(f"{each.key or each.name} {_shown(_shapes_of(each))}" for each in sources) or "none"


def _listed_target(names: Sequence[str | None], shapes: Sequence[set[Shape]]) -> str:
    return ", ".join(f"{name} {_shown(shape)}" for name, shape in zip(names, shapes, strict=True)) or "none"


def _shown(shapes: Any) -> str:
    return " and ".join(str(list(shape)) for shape in sorted(shapes))


def given_variables(variables: Sequence[Any] | Mapping[str, Any] | None) -> tuple[list[Any] | None, list[str] | None]:
    """Return the variables that a user has passed as a list, and their keys in the source if they are a dict.

    Raises:
        ArgumentTypeError: it is a single variable, or cannot be iterated over.
    """
    if variables is None:
        return None, None
    if hasattr(variables, "assign") or not isinstance(variables, Iterable):
        raise ArgumentTypeError(
            error_text(
                "convert_state: variables",
                "be a list of variables, or a dict of them by their keys in the source",
                variables,
                "convert_state(source, optimizer, [variable])",
                "another-keras",
            )
        )
    if isinstance(variables, Mapping):
        return list(variables.values()), list(variables)
    return list(variables), None
