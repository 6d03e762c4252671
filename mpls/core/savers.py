"""Checkpoints that users write and restore with their own `tf.compat.v1.train.Saver`.

Savers find variables by name. Two kinds of files lack names of a graph with wrappers of mpls: files that were written
without loss scaling have no loss scale; and in files of TensorFlow's own wrappers, variables that are created inside of
conditionals have other names, such as `cond_1/beta1_power` or `cond_1/SGD/iter`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from mpls.core.dynamic import DynamicLossScale, growth_steps_for_files
from mpls.core.loss_scale import is_dynamic
from mpls.core.state_checks import WITHOUT_SCALE, read_value, warn_of_unrestored_scale
from mpls.errors import SavedStateError
from mpls.formats.object_graph import GRAPH_KEY
from mpls.formats.validity import ANCHOR, check_count, check_good_steps, check_scale
from mpls.formats.wrapper_state import CURRENT_SCALE, GOOD_STEPS
from mpls.upstream import table
from mpls.upstream.tensorflow import key_of_graph
from mpls.upstream.trackables import hook_savers, object_keys_by_name, saved_also_as

_ATTRIBUTE = "_mpls_state"
_SCALE_KEY = re.compile(rf"(^|/){CURRENT_SCALE}(_\d+)?$")


@dataclass(frozen=True, eq=False)
class Step:
    """The variables of an optimizer that were created when a training step was built.

    Attributes:
        scope: the name scope in which the step was built, with a slash; empty if there is none.
        parts: the last part of each variable's name, by its name in this graph. The names in all files end with it.
        first: the names that TensorFlow's own wrapper gives the variables with control flow v1, by those in this graph.
        second: the same with control flow v2.
        is_second: whether the step was built with control flow v2.
        is_conditional: whether TensorFlow's own wrapper creates the variables inside a conditional.
    """

    scope: str
    parts: dict[str, str]
    first: dict[str, str]
    second: dict[str, str]
    is_second: bool
    is_conditional: bool

    @property
    def head(self) -> str:
        """The scope of the optimizer itself, or the name of the first variable."""
        return next(iter(self.parts.values())).partition("/")[0]


@dataclass
class GraphState:
    """The wrappers in a graph.

    Attributes:
        optimizers: in the order in which they were made or used there.
        steps: in the order in which they were built.
    """

    optimizers: list[Any] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def names(self, kind: Literal["parts", "first", "second"]) -> dict[str, str]:
        """Return names of the optimizers' variables, by the names in this graph; `Step` says which."""
        return {own: name for step in self.steps for own, name in getattr(step, kind).items()}

    @property
    def native_names(self) -> dict[str, str]:
        """The first or the second names, by the control flow of each step, without those that are the same here."""
        names = {
            own: name for step in self.steps for own, name in (step.second if step.is_second else step.first).items()
        }
        return {own: name for own, name in names.items() if name != own}


def graph_state_of(graph: Any) -> GraphState | None:
    """Return the state of mpls in a graph; None if no wrapper is used in it."""
    return getattr(graph, _ATTRIBUTE, None)


def note_optimizer(optimizer: Any) -> bool:
    """Note that a wrapper is used in the current graph; return False in eager mode, where there is no graph."""
    with tf.init_scope():
        if tf.executing_eagerly():
            return False
        graph = tf.compat.v1.get_default_graph()
    state = graph_state_of(graph)
    if state is None:
        state = GraphState()
        setattr(graph, _ATTRIBUTE, state)
    if not any(each is optimizer for each in state.optimizers):
        state.optimizers.append(optimizer)
    return True


def loss_scale_variables(loss_scale: Any, graph: Any) -> dict[str, Any]:
    """Return the variables that a dynamic loss scale has in a graph, by their names in object-based checkpoints."""
    key = key_of_graph(graph)
    # TensorFlow's own class has the attribute too.
    weights = table.SCALE_WEIGHTS.of(loss_scale, {})
    return {name: each for (name, of_graph), each in weights.items() if of_graph == key}


class StepNames:
    """Notes the names of the variables that are created while a step is built; does nothing in eager mode.

    TensorFlow's own wrappers create them inside a conditional if the loss scale is dynamic. With control flow v1, the
    scope of the conditional, `cond` or `cond_N`, is part of their names; with control flow v2, no scope is.

    Args:
        has_conditional: whether TensorFlow's own wrapper would build a conditional, as for a dynamic loss scale.
    """

    def __init__(self, *, has_conditional: bool) -> None:
        graph = tf.compat.v1.get_default_graph()
        self._state = None if tf.executing_eagerly() else graph_state_of(graph)
        self._conditional = ""
        if self._state is None:
            return
        scope = graph.get_name_scope()
        self._scope = f"{scope}/" if scope else ""
        if has_conditional:
            # In TensorFlow, the first conditional is that of the loss scale. mpls has none, so skip its number.
            graph.unique_name("cond")
            self._conditional = graph.unique_name("cond", mark_as_used=False).removeprefix(self._scope) + "/"

    def note(self, parts: Mapping[str, str]) -> None:
        """Note the names, after the variables have been created.

        Args:
            parts: the part of each name after the scopes of the step and the conditional, by the variable's name.
                Variables that existed before the step may be among them.
        """
        state = self._state
        if state is None:
            return
        known = state.names("parts")
        parts = {own: part for own, part in parts.items() if own not in known}
        if not parts:
            return
        if self._conditional:
            first = {own: self._scope + self._conditional + part for own, part in parts.items()}
            second = parts
        else:
            first = second = self._names_without_conditional(state, parts)
        with tf.init_scope():
            variables = tf.compat.v1.global_variables()
        others = {each.op.name for each in variables} - {*known, *parts}
        state.steps.append(
            Step(
                scope=self._scope,
                parts=parts,
                first=_made_unique(first, {*state.names("first").values(), *others}),
                second=_made_unique(second, {*state.names("second").values(), *others}),
                is_second=tf.compat.v1.control_flow_v2_enabled(),
                is_conditional=bool(self._conditional),
            )
        )

    def _names_without_conditional(self, state: GraphState, parts: dict[str, str]) -> dict[str, str]:
        head, has_head, _ = next(iter(parts.values())).partition("/")
        alike = [step for step in state.steps if step.scope == self._scope and step.head == head]
        if not any(step.is_conditional for step in alike):
            return {own: own for own in parts}
        # Earlier steps without a conditional have taken these names.
        number = sum(not step.is_conditional for step in alike)
        if has_head and number:
            parts = {own: f"{head}_{number}/{part.partition('/')[2]}" for own, part in parts.items()}
        return {own: self._scope + part for own, part in parts.items()}


def _made_unique(names: Mapping[str, str], taken: Collection[str]) -> dict[str, str]:
    """Return the names, each with the number that a graph adds if the name is taken."""
    unique = {}
    for own, wanted in names.items():
        name, count = wanted, 0
        while name in taken:
            count += 1
            name = f"{wanted}_{count}"
        unique[own] = name
    return unique


_Check = Callable[[Any, str], Any]


@dataclass(frozen=True)
class ScaleVariable:
    """A variable of a loss scale.

    Attributes:
        optimizer: the wrapper that has the loss scale.
        loss_scale: the loss scale; or the record of steps.
        is_used: whether the optimizer scales with it, so that a file has to have it.
        initial: its initial value.
        check: refuses an invalid value; gets the value, and the file and the key for the error.
    """

    optimizer: Any
    loss_scale: Any
    is_used: bool
    initial: float
    check: _Check


def scale_variables_in(state: GraphState, graph: Any) -> dict[str, ScaleVariable]:
    """Return the variables of loss scales in a graph, by name: for each loss scale, the scale and then the counter.

    Counters of steps follow.
    """
    found: dict[str, ScaleVariable] = {}
    for optimizer in state.optimizers:
        parts = vars(optimizer)
        loss_scale, replaced, record = (parts.get(name) for name in ("_loss_scale", "_replaced_loss_scale", "_record"))
        rows = [
            *((loss_scale, True, row) for row in _rows_of(loss_scale, graph)),
            *((replaced, False, row) for row in _rows_of(replaced, graph)),
            # A file written without these options lacks only these variables.
            *((loss_scale, False, row) for row in _extras_of(loss_scale, graph)),
            *((replaced, False, row) for row in _extras_of(replaced, graph, is_used=False)),
            *((record, False, row) for row in _rows_of(record, graph)),
        ]
        for owner, is_used, (variable, initial, check) in rows:
            found[variable.op.name] = ScaleVariable(optimizer, owner, is_used, initial, check)
    return found


def _rows_of(owner: Any, graph: Any) -> list[tuple[Any, float, _Check]]:
    if not is_dynamic(owner):
        own = getattr(owner, "_saved_numbers", list)
        return [row for row in own() if row[0].graph is graph]
    weights = loss_scale_variables(owner, graph)
    growth_steps = growth_steps_for_files(owner)
    rows: dict[str, tuple[float, _Check]] = {
        CURRENT_SCALE: (float(owner.initial_loss_scale), check_scale),
        GOOD_STEPS: (0, lambda value, subject: check_good_steps(value, subject, growth_steps)),
    }
    return [(weights[name], *row) for name, row in rows.items() if name in weights]


def _extras_of(loss_scale: Any, graph: Any, *, is_used: bool = True) -> list[tuple[Any, float, _Check]]:
    """Return the rows for variables of a dynamic loss scale that the originals had not.

    Args:
        loss_scale: the loss scale.
        graph: the graph.
        is_used: whether an optimizer scales with it, so that the user is told of a bound that is replaced.
    """
    extras = loss_scale._initial_extras() if isinstance(loss_scale, DynamicLossScale) else {}
    weights = loss_scale_variables(loss_scale, graph) if extras else {}
    return [
        (weights[name], initial, _of_setting(loss_scale, name, is_used) if dtype.is_floating else check_count)
        for name, (initial, dtype) in extras.items()
        if name in weights
    ]


def _of_setting(loss_scale: DynamicLossScale, name: str, is_used: bool) -> _Check:
    """Return the check of an adjustable setting, which also tells of a bound that is replaced."""

    def check(value: Any, subject: str) -> None:
        check_scale(value, subject)
        if is_used:
            loss_scale._tell_of_replaced({name: value}, subject)

    return check


def keys_without_copies(
    wanted: Mapping[str, str], numbers: Mapping[str, ScaleVariable], found: set[str]
) -> dict[str, str]:
    """Return other keys for the variables of loss scales, if the program that wrote a file had no second loss scales.

    From TF 2.4 on, the experimental wrapper does not use the loss scale that it is given, but makes a second one. Both
    count in the numbers of names, as in `good_steps_1`.

    Args:
        wanted: the names of the variables that are used, by the keys that a saver reads.
        numbers: the variables of loss scales in the graph, by name.
        found: the keys in the file.
    """
    names: dict[str, list[str]] = defaultdict(list)
    for name in numbers:
        names[re.sub(r"_\d+$", "", name)].append(name)
    once: dict[str, str] = {}
    for alike in names.values():
        alike.sort(key=lambda name: (len(name), name))
        once.update(zip((name for name in alike if numbers[name].is_used), alike, strict=False))
    keys = {key: key.removesuffix(own) + once[own] for key, own in wanted.items() if key.endswith(own)}
    is_there = found.issuperset(wanted) or not found.issuperset(keys.values())
    return {} if is_there else {key: other for key, other in keys.items() if key != other}


@dataclass(frozen=True)
class RestoredTensor:
    """One tensor that a saver reads from a file.

    Attributes:
        output: the tensor, of a `RestoreV2` op.
        name: the key in the file.
        slice: the slice that is read, in the form that savers use; empty for the whole tensor.
        variables: the names of the variables that it is assigned to.
    """

    output: Any
    name: str
    slice: str
    variables: tuple[str, ...]


def substitutes_for(
    entries: list[RestoredTensor], keys: dict[str, str], numbers: dict[str, ScaleVariable], found: set[str]
) -> dict[str, Any] | str:
    """Return what is restored in place of all keys that a file lacks.

    Args:
        entries: the tensors that a saver reads.
        keys: the keys in the file of the variables of wrappers, by the keys of the entries.
        numbers: the variables of loss scales in the graph, by name.
        found: the keys in the file.

    Returns:
        By the missing key, another key of the file or a value, a NumPy array; or the first missing key for which there
        is none.
    """
    present = {name for entry in entries if entry.name in found or entry.name in keys for name in entry.variables}
    unread = found - {*numbers, *keys.values(), *(entry.name for entry in entries)}
    has_other_scale = any(_SCALE_KEY.search(key) for key in unread)
    substitutes: dict[str, Any] = {name: key for name, key in keys.items() if name != key}
    for entry in entries:
        if entry.name in found or entry.name in keys:
            continue
        number = next((numbers[name] for name in entry.variables if name in numbers), None)
        if number is None:
            return entry.name
        is_half = any(numbers[name].loss_scale is number.loss_scale for name in present & set(numbers))
        if number.is_used and (is_half or has_other_scale):
            # The file has the scale and not the counter, or the reverse, which no release writes; or the scale has
            # another name in it.
            return entry.name
        substitutes[entry.name] = np.asarray(number.initial, entry.output.dtype.as_numpy_dtype)
    return substitutes


def find_keys(wanted: Mapping[str, str], state: GraphState, path: str, reader: Any) -> dict[str, str] | None:
    """Return the keys of the optimizers' variables in a file.

    The file may have them under the names of this graph, under those of TensorFlow's own wrapper with control flow v1
    or v2, or with other numbers of the conditionals, if the graph that wrote it had other conditionals.

    Args:
        wanted: the names of the variables, by the keys that a saver reads.
        state: the state of mpls in the graph.
        path: the file.
        reader: the reader of the file.

    Returns:
        The keys in the file, by the keys that a saver reads; None if the file lacks some, or has several candidates.

    Raises:
        SavedStateError: it has different values under two kinds of names.
    """
    in_file = set(reader.get_variable_to_shape_map())
    found = []
    for names in ({}, state.names("first"), state.names("second")):
        keys = {key: _renamed(key, own, names.get(own, own)) for key, own in wanted.items()}
        if in_file.issuperset(keys.values()):
            found.append(keys)
    parts = state.names("parts")
    for other in found[1:]:
        _require_same(found[0], other, {key: parts[own] for key, own in wanted.items()}, path, reader)
    return found[0] if found else _find_renumbered(wanted, state, reader)


def _renamed(key: str, own: str, name: str) -> str:
    """Return a key with another name of the variable; a prefix that the user has put before the name stays."""
    return key.removesuffix(own) + name if _ends_with(key, own) else key


def _ends_with(key: str, name: str) -> bool:
    return key == name or key.endswith(f"/{name}")


def _require_same(keys: dict[str, str], others: dict[str, str], parts: dict[str, str], path: str, reader: Any) -> None:
    """Refuse a file with different values under two kinds of names.

    Savers of mpls write the same value under both. If they wrote the second name for another optimizer, the file has
    its value under that optimizer's own name too.

    Args:
        keys: the keys in the file under the names of this graph, by the keys that a saver reads.
        others: the same under the second kind of names.
        parts: the parts of the names that are the same in all files.
        path: the file.
        reader: the reader of the file.
    """
    shapes = reader.get_variable_to_shape_map()

    def is_same(one: str, other: str) -> bool:
        has_same_shape = shapes[one] == shapes[other]
        return bool(has_same_shape and reader.get_tensor(one).tobytes() == reader.get_tensor(other).tobytes())

    for wanted, key in keys.items():
        other, part = others[wanted], parts[wanted]
        if key == other or is_same(key, other):
            continue
        of_others = (each for each in shapes if each not in (key, other) and _ends_with(each, part))
        if any(is_same(each, other) for each in of_others):
            continue
        raise SavedStateError(
            f"{path}: {key} and {other} must have the same value, as either may be that of the same variable of this "
            "graph; got two. Restore it with a saver of all variables, from a graph that has the optimizers of the one "
            f"that wrote it. See mpls docs {ANCHOR}"
        )


def _find_renumbered(wanted: Mapping[str, str], state: GraphState, reader: Any) -> dict[str, str] | None:
    """Return the keys in conditionals with other numbers, or the only candidates in the file; None if it is unclear."""
    places: dict[Step, tuple[str, ...]] = {}
    for step in state.steps:
        parts = {step.parts[own] for own in wanted.values() if own in step.parts}
        if parts:
            places[step] = _places(step.scope, parts, reader)
    chosen: dict[Step, str] = {}
    for same in set(places.values()):
        # The numbers count the steps in the order in which they were built.
        steps = [step for step, each in places.items() if each == same]
        if len(steps) != len(same):
            return None
        chosen.update(zip(steps, same, strict=True))
    if len(set(chosen.values())) != len(chosen):
        return None
    prefixes = {own: prefix for step, prefix in chosen.items() for own in step.parts}
    parts_of = state.names("parts")
    return {key: _renamed(key, own, prefixes[own] + parts_of[own]) for key, own in wanted.items()}


def _places(scope: str, parts: set[str], reader: Any) -> tuple[str, ...]:
    """Return the prefixes under which a file has all these parts of names: those of conditionals if there are any."""
    held: dict[str, set[str]] = defaultdict(set)
    for key in reader.get_variable_to_shape_map():
        for part in parts:
            if _ends_with(key, part):
                held[key.removesuffix(part)].add(part)
    whole = [prefix for prefix, found in held.items() if found == parts]
    numbers = {prefix: re.fullmatch(rf"{re.escape(scope)}cond(?:_(\d+))?/", prefix) for prefix in whole}
    conditionals = {prefix: int(match[1] or 0) for prefix, match in numbers.items() if match}
    if conditionals:
        return tuple(sorted(conditionals, key=lambda prefix: conditionals[prefix]))
    are_same = all(len({reader.get_tensor(prefix + part).tobytes() for prefix in whole}) == 1 for part in parts)
    return tuple(whole[:1] if are_same else whole)


def hook_user_savers(optimizer: Any) -> None:
    """Patch `Saver` so that savers of the current graph handle a wrapper's state; does nothing in eager mode."""
    if note_optimizer(optimizer):
        hook_savers(_native_copies, _feeds_for)


def _native_copies(var_list: Any) -> list[Any]:
    """Return the copies that a saver of these variables also writes, under the names of TensorFlow's own wrapper."""
    state = graph_state_of(tf.compat.v1.get_default_graph())
    if state is None or not isinstance(var_list, list | tuple | dict):
        return []
    by_key = var_list if isinstance(var_list, dict) else {}
    variables = list(by_key.values() or var_list)
    by_name = {variable.op.name: variable for variable in variables if isinstance(variable, tf.Variable)}
    keys = {each.op.name: key for key, each in by_key.items() if isinstance(each, tf.Variable)}
    copies = {}
    for own, native in state.native_names.items():
        key = keys.get(own, own)
        if own in by_name and _ends_with(key, own):
            copies[key.removesuffix(own) + native] = by_name[own]
    if copies.keys() & set(by_key or by_name) or _has_others_of_a_kind(state, by_name):
        # TensorFlow's own wrapper would take some for variables of another optimizer. If all are missing, it fails.
        return []
    return [saved_also_as(variable, name) for name, variable in copies.items()]


def _has_others_of_a_kind(state: GraphState, names: Iterable[str]) -> bool:
    """Return whether other optimizers have numbered names that TensorFlow's own wrapper would not have caused."""
    others = set(names) - set(state.names("parts"))
    heads = {re.escape(step.scope + step.head) for step in state.steps if step.is_conditional}
    return any(re.match(rf"{head}_\d+(/|$)", name) for head in heads for name in others)


def _feeds_for(graph: Any, saver_def: Any, path: str) -> dict[Any, Any] | Exception:
    """Return the feeds with which a saver restores a file that lacks some keys, or the error with which it must fail.

    Raises:
        SavedStateError: the file holds an invalid loss scale.
    """
    state = graph_state_of(graph)
    if state is None:
        return {}
    try:
        reader = tf.train.load_checkpoint(path)
    except (tf.errors.OpError, RuntimeError, ValueError):
        # The saver raises its own error.
        return {}
    found = set(reader.get_variable_to_shape_map())
    entries = _entries(graph.get_operation_by_name(saver_def.restore_op_name))
    numbers = scale_variables_in(state, graph)
    if GRAPH_KEY in found:
        _refuse_invalid_scales(path, entries, numbers, object_keys_by_name(path), found)
        return {}
    keys_of_scales = keys_without_copies(
        _variables(entries, [name for name, number in numbers.items() if number.is_used]), numbers, found
    )
    _refuse_invalid_scales(path, entries, numbers, keys_of_scales, found)
    of_optimizers = _variables(entries, state.names("parts"))
    keys = find_keys(of_optimizers, state, path, reader)
    advice = f"build the optimizers in the order and the scopes of the program that wrote {path}. See mpls docs savers"
    if keys is None:
        key = next(name for name in of_optimizers if name not in found)
        return _error(
            f"Key {key} not found in checkpoint, nor, without doubt, what TensorFlow's own wrapper has called it: "
            + advice
        )
    substitutes = substitutes_for(entries, {**keys, **keys_of_scales}, numbers, found)
    if isinstance(substitutes, str):
        # TensorFlow would name the first of all missing keys, which may be one that mpls can replace.
        is_of_scale = substitutes in _variables(entries, numbers)
        return _error(f"Key {substitutes} not found in checkpoint" + (f": {advice}" if is_of_scale else ""))
    feeds = _feeds(path, entries, substitutes, reader)
    _warn_of_missing_scales(path, entries, substitutes, numbers)
    return feeds


def _variables(entries: list[RestoredTensor], names: Collection[str]) -> dict[str, str]:
    """Return the names of those variables that a saver restores, by key."""
    known = ((entry.name, name) for entry in entries for name in entry.variables if name in names)
    return dict(known)


def _error(message: str) -> Exception:
    error: Exception = tf.errors.NotFoundError(None, None, message)
    return error


def _refuse_invalid_scales(
    path: str, entries: list[RestoredTensor], numbers: dict[str, ScaleVariable], keys: dict[str, str], found: set[str]
) -> None:
    for entry in entries:
        key = keys.get(entry.name, entry.name)
        for number in (numbers[name] for name in entry.variables if name in numbers):
            if key in found:
                number.check(read_value(path, key), f"{path}: {key}")


def _warn_of_missing_scales(
    path: str, entries: list[RestoredTensor], substitutes: dict[str, Any], numbers: dict[str, ScaleVariable]
) -> None:
    lacking = {name for entry in entries if _is_value(substitutes.get(entry.name)) for name in entry.variables}
    for name, number in numbers.items():
        optimizer = number.optimizer
        if name in lacking and number.is_used and not vars(optimizer).get("_has_told_of_missing_scale"):
            vars(optimizer)["_has_told_of_missing_scale"] = True
            warn_of_unrestored_scale(path, f"{WITHOUT_SCALE} starts fresh, at {float(number.initial)}")


def _entries(restore_op: Any) -> list[RestoredTensor]:
    """Return the tensors that a restore op reads."""
    entries = []
    queue, seen = [restore_op], {restore_op.name}
    for op in queue:
        if op.type == "RestoreV2":
            # Do not use tf.get_static_value: TensorFlow refuses feeds for tensors whose value it has returned.
            names, slices = (tf.make_ndarray(op.inputs[index].op.get_attr("value")) for index in (1, 2))
            for output, name, part in zip(op.outputs, names, slices, strict=True):
                entries.append(RestoredTensor(output, name.decode(), part.decode(), _assigned_variables(output)))
            continue
        for before in (*op.control_inputs, *(tensor.op for tensor in op.inputs)):
            if before.name not in seen:
                seen.add(before.name)
                queue.append(before)
    return entries


def _assigned_variables(output: Any) -> tuple[str, ...]:
    queue, names = [output], []
    for tensor in queue:
        for op in tensor.consumers():
            if op.type in ("Assign", "AssignVariableOp"):
                names.append(op.inputs[0].op.name)
            else:
                queue.extend(op.outputs)
    return tuple(names)


def _is_value(substitute: Any) -> bool:
    return isinstance(substitute, np.ndarray)


def _feeds(path: str, entries: list[RestoredTensor], substitutes: dict[str, Any], reader: Any) -> dict[Any, Any]:
    """Return the values to feed, by tensor of the graph. No op is added, so the graph may be finalized."""
    by_op: dict[str, list[RestoredTensor]] = defaultdict(list)
    for entry in entries:
        by_op[entry.output.op.name].append(entry)
    feeds: dict[Any, Any] = {}
    for of_op in by_op.values():
        if any(_is_value(substitutes.get(entry.name)) for entry in of_op):
            # One op reads many tensors, and fails if one is missing. It does not run if all of them are fed.
            feeds.update(_values(path, of_op, substitutes, reader))
        elif any(entry.name in substitutes for entry in of_op):
            keys = [substitutes.get(entry.name, entry.name).encode() for entry in of_op]
            feeds[of_op[0].output.op.inputs[1]] = np.array(keys, object)
    return feeds


def _values(path: str, entries: list[RestoredTensor], substitutes: dict[str, Any], reader: Any) -> dict[Any, Any]:
    values = {}
    for entry in entries:
        value = substitutes.get(entry.name, entry.name)
        if not _is_value(value):
            value = _part(reader.get_tensor(value), entry.slice)
        # TensorFlow would cast a feed of another dtype silently.
        wanted, dtype = entry.output.dtype.base_dtype, tf.as_dtype(np.asarray(value).dtype)
        if dtype != wanted:
            raise SavedStateError(
                f"{path}: {entry.name} must be {wanted.name}, as its variable in this graph is; got {dtype.name}. See "
                f"mpls docs {ANCHOR}"
            )
        values[entry.output] = value
    return values


def _part(value: Any, part: str) -> Any:
    """Return the slice of a tensor that a partitioned variable reads, given as `'10 4 0,5:0,4'`."""
    if not part:
        return value
    bounds = (map(int, each.split(",")) for each in part.rpartition(" ")[2].split(":"))
    return value[tuple(slice(start, start + number) for start, number in bounds)]
