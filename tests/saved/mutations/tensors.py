"""Mutations of what checkpoints hold, written by TensorFlow: checksums and sizes are right; the rest need not be."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from mpls.formats.object_graph import GRAPH_KEY, VALUE
from mpls.formats.wrapper_state import (
    BASE_OPTIMIZER,
    COUNTS,
    FLOAT_EXTRAS,
    INNER_OPTIMIZER,
    LOSS_SCALE,
    OVERFLOW_KINDS,
    OVERFLOWS,
    STATE,
    STATE_OF_KERAS_3,
    STATE_OF_MANAGERS,
    STEP_RECORD,
    WHOLE_EXTRAS,
)
from tests.saved.mutations.values import Mutator

STATES = (*STATE, *STATE_OF_KERAS_3, *STATE_OF_MANAGERS, *COUNTS, *FLOAT_EXTRAS, *WHOLE_EXTRAS, *OVERFLOW_KINDS)
ROLES = (
    *STATES,
    BASE_OPTIMIZER,
    INNER_OPTIMIZER,
    LOSS_SCALE,
    STEP_RECORD,
    OVERFLOWS,
    "iter",
    "iterations",
    "hyper",
    "",
)
NUMBERS = (0, 1, -1, 2.5, 1e-45, 1e38, float("inf"), float("nan"), 2**31 - 1, 2**62, -(2**63))
TYPES = ("float32", "float16", "float64", "int64", "int32", "uint8", "bool", "complex64")
SHAPES = ((), (1,), (0,), (3,), (1000,), (2, 0, 3))


def mutate(mutator: Mutator, path: pathlib.Path) -> str:
    """Change a SavedModel's variables, or the checkpoint that a prefix names."""
    # It imports TensorFlow, which the driver of cases of other kinds does without.
    from tests.saved.rewriting import values_of, write_values

    prefix = path / "variables" / "variables" if path.is_dir() else path
    values = values_of(prefix)
    what = [_changed(mutator, values) for _ in range(mutator.random.choice((1, 1, 2, 4)))]
    for file in prefix.parent.glob(f"{prefix.name}.*"):
        file.unlink()
    write_values(prefix, values)
    return "; ".join(what)


def _changed(mutator: Mutator, values: dict[str, Any]) -> str:
    if GRAPH_KEY in values and mutator.random.random() < 0.4:
        return _graph(mutator, values)
    name = _name(mutator, values)
    ways: list[Callable[[], Any]] = [
        lambda: _number(mutator, values[name]),
        lambda: _number(mutator, values[name]),
        lambda: _other_type(mutator, values[name]),
        lambda: np.resize(values[name], mutator.random.choice(SHAPES)),
        lambda: values[mutator.random.choice(list(values))],
    ]
    if mutator.random.random() < 0.1 and len(values) > 1:
        del values[name]
        return f"{name} left out"
    values[name] = changed = mutator.random.choice(ways)()
    return f"{name}: {np.asarray(changed).dtype}{list(np.shape(changed))} {changed!r:.40}"


def _name(mutator: Mutator, values: dict[str, Any]) -> str:
    """Return the name of a tensor: rather of one with the state of a loss scale, or of an optimizer's steps."""
    known = [name for name in values if any(f"/{state}" in f"/{name}" for state in STATES)]
    if known and mutator.random.random() < 0.7:
        return mutator.random.choice(known)
    return mutator.random.choice([name for name in values if name != GRAPH_KEY] or list(values))


def _number(mutator: Mutator, value: Any) -> Any:
    """Return the same kind of array with another number in it, as large as its type can hold."""
    array = np.array(value)
    if array.dtype.kind not in "fiu" or not array.size:
        return _other_type(mutator, value)
    number = mutator.random.choice(NUMBERS)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        number = int(min(max(np.nan_to_num(number), limits.min), limits.max))
    with np.errstate(over="ignore"):
        array.flat[mutator.random.randrange(array.size)] = number
    return array


def _other_type(mutator: Mutator, value: Any) -> Any:
    shape = np.shape(value)
    if mutator.random.random() < 0.2:
        return np.full(shape, mutator.random.choice(("text", "", "\x1b[31m")), object)
    return np.full(shape, 1, mutator.random.choice(TYPES))


def _graph(mutator: Mutator, values: dict[str, Any]) -> str:
    """Change how the objects of a checkpoint hang together: numbers, names, keys, slots, cycles."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    content = values[GRAPH_KEY]
    graph.ParseFromString(content.item() if hasattr(content, "item") else content)
    number = mutator.random.randrange(len(graph.nodes))
    node = graph.nodes[number]
    numbers = (0, number, len(graph.nodes), -1, 2**31 - 1, mutator.random.randrange(len(graph.nodes)))
    way = mutator.random.choice(("child", "role", "key", "name", "slot", "another", "object"))
    if way in ("child", "role") and node.children:
        child = mutator.random.choice(node.children)
        if way == "child":
            child.node_id = mutator.random.choice(numbers)
        else:
            child.local_name = mutator.random.choice(ROLES)
    elif way in ("key", "name") and node.attributes:
        attribute = mutator.random.choice(node.attributes)
        if way == "key":
            attribute.checkpoint_key = mutator.random.choice((*values, "nothing"))
        else:
            attribute.full_name = mutator.random.choice((*STATES, "\x1b[2J", "a" * 10_000))
    elif way == "slot":
        slot = node.slot_variables.add() if not node.slot_variables else mutator.random.choice(node.slot_variables)
        slot.original_variable_node_id = mutator.random.choice(numbers)
        slot.slot_variable_node_id = mutator.random.choice(numbers)
        slot.slot_name = mutator.random.choice(("m", "momentum", ""))
    elif way == "another":
        node.attributes.add(name=VALUE, full_name="x", checkpoint_key=mutator.random.choice(list(values)))
    else:
        child = node.children.add()
        child.node_id, child.local_name = mutator.random.choice(numbers), mutator.random.choice(ROLES)
    values[GRAPH_KEY] = graph.SerializeToString()
    return f"object {number}: {way}"
