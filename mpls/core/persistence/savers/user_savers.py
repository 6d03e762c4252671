"""Checkpoints that users write and restore with their own `tf.compat.v1.train.Saver`.

Savers find variables by name. Two kinds of files lack names of a graph with wrappers of mpls: files that were written
without loss scaling have no loss scale; and in files of TensorFlow's own wrappers, variables that are created inside of
conditionals have other names, such as `cond_1/beta1_power` or `cond_1/SGD/iter`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.loss_scale import is_dynamic
from mpls.core.persistence.object_checkpoints import warn_of_missing_scale
from mpls.core.persistence.savers.graph_state import GraphState, graph_state_of, loss_scale_variables, note_optimizer
from mpls.core.persistence.savers.missing_keys import RestoredTensor, Substitutes, substitutes_for
from mpls.core.persistence.savers.scale_variables import ScaleVariable, keys_without_copies, scale_variables_in
from mpls.core.persistence.savers.variable_keys import find_keys
from mpls.formats.object_graph import GRAPH_KEY
from mpls.upstream.name_savers import hook_savers, object_keys_by_name, saved_also_as

__all__ = ["hook_user_savers"]


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
        if own in by_name and (key == own or key.endswith(f"/{own}")):
            copies[key.removesuffix(own) + native] = by_name[own]
    copies.update(_replicas_of_scales(state, set(by_name)))
    if copies.keys() & set(by_key or by_name) or _has_others_of_a_kind(state, by_name):
        # TensorFlow's own wrapper would take some for variables of another optimizer. If all are missing, it fails.
        return []
    return [saved_also_as(variable, name) for name, variable in copies.items()]


def _replicas_of_scales(state: GraphState, names: set[str]) -> dict[str, Any]:
    """Return the variables of mirrored loss scales on other replicas, by name; wrappers of later releases read them."""
    graph = tf.compat.v1.get_default_graph()
    loss_scales = [each._loss_scale for each in state.optimizers if is_dynamic(each._loss_scale)]
    mirrored = [each for scale in loss_scales for each in loss_scale_variables(scale, graph).values()]
    replicas = [other for each in mirrored if each.op.name in names for other in getattr(each, "values", ())]
    return {each.op.name: each for each in replicas if each.op.name not in names}


def _has_others_of_a_kind(state: GraphState, names: Iterable[str]) -> bool:
    """Return whether other optimizers have numbered names that TensorFlow's own wrapper would not have caused."""
    others = set(names) - set(state.parts)
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
    keys_of_scales = keys_without_copies(_variables(entries, _used(numbers)), numbers, found)
    _refuse_invalid_scales(path, entries, numbers, keys_of_scales, found)
    of_optimizers = _variables(entries, state.parts)
    keys = find_keys(of_optimizers, state, path, reader)
    if keys is None:
        return _not_found(next(name for name in of_optimizers if name not in found), path)
    substitutes = substitutes_for(entries, {**keys, **keys_of_scales}, state, numbers, found)
    if isinstance(substitutes, str):
        # TensorFlow would name the first of all missing keys, which may be one that mpls can replace.
        return _error(f"Key {substitutes} not found in checkpoint")
    _warn_of_missing_scales(path, entries, substitutes, numbers)
    return _feeds(entries, substitutes, reader)


def _used(numbers: dict[str, ScaleVariable]) -> list[str]:
    return [name for name, number in numbers.items() if number.is_used]


def _variables(entries: list[RestoredTensor], names: Collection[str]) -> dict[str, str]:
    """Return the names of those variables that a saver restores, by key; for a mirrored one, the name in the key."""
    found = {}
    for entry in entries:
        known = [name for name in entry.variables if name in names]
        if known:
            found[entry.name] = next((name for name in known if entry.name.endswith(name)), known[0])
    return found


def _not_found(key: str, path: str) -> Exception:
    return _error(
        f"Key {key} not found in checkpoint, nor, without doubt, what TensorFlow's own wrapper has called it: build "
        f"the optimizers in the order and the scopes of the program that wrote {path}. See MIGRATION.md#savers"
    )


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
                number.refuse_invalid(path, key)


def _warn_of_missing_scales(
    path: str, entries: list[RestoredTensor], substitutes: Substitutes, numbers: dict[str, ScaleVariable]
) -> None:
    lacking = {name for entry in entries if entry.name in substitutes.values for name in entry.variables}
    for name, number in numbers.items():
        optimizer = number.optimizer
        if name in lacking and number.is_used and not vars(optimizer).get("_has_told_of_missing_scale"):
            vars(optimizer)["_has_told_of_missing_scale"] = True
            warn_of_missing_scale(path, f"starts fresh, at {float(number.initial)}")


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


def _feeds(entries: list[RestoredTensor], substitutes: Substitutes, reader: Any) -> dict[Any, Any]:
    """Return the values to feed, by tensor of the graph. No op is added, so the graph may be finalized."""
    by_op: dict[str, list[RestoredTensor]] = defaultdict(list)
    for entry in entries:
        by_op[entry.output.op.name].append(entry)
    feeds: dict[Any, Any] = {}
    for of_op in by_op.values():
        if any(entry.name in substitutes.values for entry in of_op):
            # One op reads many tensors, and fails if one is missing. It does not run if all of them are fed.
            feeds.update(_values(of_op, substitutes, reader))
        elif any(entry.name in substitutes.names for entry in of_op):
            keys = [substitutes.names.get(entry.name, entry.name).encode() for entry in of_op]
            feeds[of_op[0].output.op.inputs[1]] = np.array(keys, object)
    return feeds


def _values(entries: list[RestoredTensor], substitutes: Substitutes, reader: Any) -> dict[Any, Any]:
    values = {}
    for entry in entries:
        if not entry.output.consumers():
            continue
        value = substitutes.values.get(entry.name)
        if value is None:
            value = _part(reader.get_tensor(substitutes.names.get(entry.name, entry.name)), entry.slice)
        # TensorFlow would cast a feed of another dtype silently.
        if tf.as_dtype(np.asarray(value).dtype) == entry.output.dtype.base_dtype:
            values[entry.output] = value
    return values


def _part(value: Any, part: str) -> Any:
    """Return the slice of a tensor that a partitioned variable reads, given as `'10 4 0,5:-'`."""
    if not part:
        return value
    bounds = (each.partition(",") for each in part.split(" ")[-1].split(":"))
    return value[
        tuple(slice(None) if start == "-" else slice(int(start), int(start) + int(n)) for start, _, n in bounds)
    ]
