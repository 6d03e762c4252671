"""Checkpoints of `tf.compat.v1.train.Saver` with the v1 wrapper: what users restore and write with their own savers.

Savers know variables by name. Four kinds of file differ from what a graph of mpls has, in the state that the wrapper
knows: one written without loss scaling has no loss scale; and Adam's beta powers are under `beta1_power` in one written
without, or by mpls, under `cond_1/beta1_power` in one that TensorFlow's own wrapper has written with the first control
flow, and outside of name scopes in one that it has written with the second.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.arrival import warn_of_fresh_scale
from mpls.upstream_saving import hook_savers, object_keys_by_name, saved_also_as
from mpls.v1.filling import Entry, Filling, fill, numbers_in
from mpls.v1.graph_state import GraphState, note_optimizer, state_of

__all__ = ["watch_savers"]


def watch_savers(optimizer: Any) -> None:
    """Have savers of the current graph know a wrapper's state; nothing to do in eager mode."""
    if note_optimizer(optimizer):
        hook_savers(_native_copies, _feeds_for)


def _native_copies(var_list: Any) -> list[Any]:
    """Return what a saver of these variables writes too, for TensorFlow's own wrapper."""
    state = state_of(tf.compat.v1.get_default_graph())
    if state is None or not isinstance(var_list, list | tuple | dict):
        return []
    variables = list(var_list.values() if isinstance(var_list, dict) else var_list)
    by_name = {variable.op.name: variable for variable in variables if isinstance(variable, tf.Variable)}
    taken = set(var_list) if isinstance(var_list, dict) else set(by_name)
    return [
        saved_also_as(by_name[own], native)
        for own, native in state.native_names.items()
        if own in by_name and native not in taken
    ]


def _feeds_for(graph: Any, saver_def: Any, path: str) -> dict[Any, Any] | Exception:
    """Return what a saver has to be fed to restore a file that lacks what mpls can fill in, or how it has to fail.

    Raises:
        SavedStateError: the file holds a loss scale that cannot be.
    """
    state = state_of(graph)
    if state is None:
        return {}
    try:
        reader = tf.train.load_checkpoint(path)
    except (tf.errors.OpError, RuntimeError, ValueError):
        # The saver says so itself.
        return {}
    found = set(reader.get_variable_to_shape_map())
    entries = _entries(graph.get_operation_by_name(saver_def.restore_op_name))
    is_object_based = "_CHECKPOINTABLE_OBJECT_GRAPH" in found
    _refuse_bad_numbers(path, entries, state, graph, object_keys_by_name(path) if is_object_based else {}, found)
    missing = [entry for entry in entries if entry.name not in found]
    if is_object_based or not missing:
        return {}
    filling = fill(entries, missing, state, graph, reader)
    if isinstance(filling, str):
        # TensorFlow would say it of the first of all missing keys, which might be one that does no harm.
        return tf.errors.NotFoundError(None, None, f"Key {filling} not found in checkpoint")
    _tell_of_fresh_scales(path, missing, state, graph)
    return _feeds(entries, filling, reader)


def _refuse_bad_numbers(
    path: str, entries: list[Entry], state: GraphState, graph: Any, keys: dict[str, str], found: set[str]
) -> None:
    numbers = numbers_in(state, graph)
    for entry in entries:
        key = keys.get(entry.name, entry.name)
        for number in (numbers[name] for name in entry.variables if name in numbers):
            if key in found:
                number.refuse_bad(path, key)


def _tell_of_fresh_scales(path: str, missing: list[Entry], state: GraphState, graph: Any) -> None:
    lacking = {name for entry in missing for name in entry.variables}
    told: list[Any] = []
    for name, number in numbers_in(state, graph).items():
        optimizer = number.optimizer
        if name in lacking and not vars(optimizer).get("_has_told_of_fresh_scale"):
            vars(optimizer)["_has_told_of_fresh_scale"] = True
            told.append(optimizer)
            warn_of_fresh_scale(path, float(number.initial))


def _entries(restore_op: Any) -> list[Entry]:
    """Return what a restore op reads."""
    entries = []
    queue, seen = [restore_op], {restore_op.name}
    for op in queue:
        if op.type == "RestoreV2":
            names, slices = (tf.get_static_value(op.inputs[index]) for index in (1, 2))
            for output, name, part in zip(op.outputs, names, slices, strict=True):
                entries.append(Entry(output, name.decode(), part.decode(), _assigned_variables(output)))
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


def _feeds(entries: list[Entry], filling: Filling, reader: Any) -> dict[Any, Any]:
    """Return tensors of the graph and what stands for them: no op is added, the graph may be finalized."""
    by_op: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_op[entry.output.op.name].append(entry)
    feeds: dict[Any, Any] = {}
    for of_op in by_op.values():
        if any(entry.name in filling.values or entry.name in filling.names for entry in of_op):
            # One op reads many tensors, and fails for one that is missing: it does not run if all are fed.
            feeds.update(_values(of_op, filling, reader))
    return feeds


def _values(entries: list[Entry], filling: Filling, reader: Any) -> dict[Any, Any]:
    values = {}
    for entry in entries:
        if not entry.output.consumers():
            continue
        value = filling.values.get(entry.name)
        if value is None:
            value = _part(reader.get_tensor(filling.names.get(entry.name, entry.name)), entry.slice)
        # A feed would be cast without a word.
        if tf.as_dtype(np.asarray(value).dtype) == entry.output.dtype.base_dtype:
            values[entry.output] = value
    return values


def _part(value: Any, part: str) -> Any:
    """Return the part of a tensor that a partitioned variable reads: `'10 4 0,5:-'`."""
    if not part:
        return value
    bounds = (each.partition(",") for each in part.split(" ")[-1].split(":"))
    return value[
        tuple(slice(None) if start == "-" else slice(int(start), int(start) + int(n)) for start, _, n in bounds)
    ]
