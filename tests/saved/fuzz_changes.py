"""Seeded changes of bytes, of JSON values, of protobuf messages and of arrays, by what is likely to break a reader."""

from __future__ import annotations

import functools
import json
import random
from collections import defaultdict
from collections.abc import Iterator, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import Message

from mpls.formats.wrapper_state import (
    COUNTS,
    FLOAT_EXTRAS,
    INNER_KEYS,
    OPTIONS_KEY,
    SCALE_OPTIONS,
    STATE_KEY,
    STEP_OPTIONS,
    WHOLE_EXTRAS,
)
from tests.saved.fuzz_payloads import Canary, called_layer, payload

NUMBERS: list[Any] = [0, -1, 1, 2.5, -0.0, 1e-50, 1e39, 1e308, 2**31 - 1, 2**63, -(2**63) - 1, 10**30, 10**400]
NUMBERS += [float("nan"), float("inf"), float("-inf")]
OTHERS: list[Any] = [None, True, False, "", "dynamic", "NaN", "\x00", "é" * 40, [], {}, [1, 2], {"a": 1}, [[]]]
OTHERS += ["\ud800", "\x1b[31m", "\u202e\n\r", "../../x", "%s{0}", "Adam", "LossScaleOptimizerV3", "os>system"]
KEYS = ["class_name", "config", "module", "registered_name", "name", "activation", "kernel_initializer", "loss", ""]
KEYS += ["metrics", "optimizer", "learning_rate", "build_config", "layer", "cell", "vocabulary", "function", "dtype"]
KEYS += [OPTIONS_KEY, STATE_KEY, *INNER_KEYS, *SCALE_OPTIONS, *STEP_OPTIONS]
KEYS += [*WHOLE_EXTRAS, *FLOAT_EXTRAS, *COUNTS, "settings", "state"]
FLOATS = (0, 1, -1, 2.5, 1e-45, 1e38, float("inf"), float("nan"), 2.0**31, 2.0**62)
# What marks structures of H5, of archives and of tables.
SIGNATURES = (b"TREE", b"SNOD", b"HEAP", b"GCOL", b"OHDR", b"\x89HDF\r\n\x1a\n", b"FRHP", b"BTHD", b"OCHK", b"FHDB")
SIGNATURES += (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06")


def changed_bytes(r: random.Random, content: bytes) -> bytes:
    """Return content with bits flipped, parts cut off, blanked, doubled or moved, or other numbers at structures."""
    changed = bytearray(content or b"\x00" * 8)
    start, length = r.randrange(len(changed)), r.choice((1, 4, 8, 64, 512))
    kind = r.choice(("flip", "flip", "cut", "blank", "double", "move", "number", "number", "structure", "structure"))
    if kind == "flip":
        for _ in range(r.choice((1, 1, 2, 8, 64))):
            changed[r.randrange(len(changed))] ^= 1 << r.randrange(8)
    elif kind == "cut":
        del changed[start:]
    elif kind == "blank":
        changed[start : start + length] = bytes(len(changed[start : start + length]))
    elif kind == "double":
        changed[start:start] = changed[start : start + length]
    elif kind == "move":
        block = changed[start : start + length]
        del changed[start : start + length]
        target = r.randrange(len(changed) + 1)
        changed[target:target] = block
    else:
        if kind == "structure":
            places = [content.find(each, r.randrange(len(changed))) for each in SIGNATURES]
            places += [content.find(each) for each in SIGNATURES]
            start = r.choice([place for place in places if place >= 0] or [start]) + r.randrange(64)
        width, size = r.choice((1, 2, 4, 8)), len(changed)
        pool = [0, 1, 2, 0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]
        pool += [size, size - 1, size + 1, start, max(start - 8, 0), r.randrange(size)]
        changed[start : start + width] = (r.choice(pool) % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(changed)


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _value(r: random.Random) -> Any:
    return _copied(r.choice(r.choice((NUMBERS, OTHERS))))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a JSON value as `(container, key)`."""
    stack = [value]
    while stack:
        each = stack.pop()
        for key in list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ():
            yield each, key
            stack.append(each[key])


@functools.cache
def _names_of_frameworks() -> list[str]:
    import keras
    import tf_keras

    # Their loaders look up what modules import for themselves, too.
    modules: list[Any] = [tf_keras.src.losses, keras.src.saving.serialization_lib]
    for package in (tf_keras, keras):
        modules += [package.layers, package.losses, package.metrics, package.optimizers, package.initializers]
        modules += [package.regularizers, package.constraints, package.activations, package.optimizers.schedules]
    return sorted({name for module in modules for name in vars(module)})


def changed_json(r: random.Random, config: Any, canary: Canary) -> tuple[str, Any]:
    """Return what was changed in a config, and what has become of it."""
    root = {"root": _copied(config)}
    words = [_json_change(r, root, canary) for _ in range(r.choice((1, 1, 1, 2, 3)))]
    return "; ".join(words), root["root"]


def _json_change(r: random.Random, root: dict[str, Any], canary: Canary) -> str:
    every = list(_places(root))
    # As often at a place that names something as at any.
    named = [place for place in every if place[1] in KEYS] or every
    parent, key = r.choice(r.choice((every, named)))
    kind = r.choice(("value", "payload", "layer", "layer", "name", "swap", "remove", "add", "wrap"))
    layers = [each[at] for each, at in every if at == "layers" and isinstance(each[at], list) and each[at]]
    if kind == "layer" and layers:
        chosen = r.choice(layers)
        what, node = called_layer(r, canary, json.dumps(root))
        place = r.randrange(len(chosen))
        if r.random() < 0.4 and isinstance(chosen[place], dict):
            node["name"] = node["config"]["name"] = chosen[place].get("name", "spy")
            chosen[place] = node
        else:
            chosen.insert(r.choice((place, len(chosen))), node)
        return f"the layer {what}"
    if kind in ("payload", "layer"):
        what, parent[key] = payload(r, canary)
    elif kind == "name":
        what = parent[key] = r.choice(_names_of_frameworks())
        if isinstance(parent, dict) and "registered_name" in parent:
            parent["registered_name"] = r.choice((None, what))
    elif kind == "swap":
        what = "of elsewhere"
        source, at = r.choice([place for place in every if place[1] == key])
        parent[key] = _copied(source[at])
    elif kind == "remove" and parent is not root:
        what = "missing"
        del parent[key]
    elif kind == "add" and isinstance(parent[key], dict):
        name = r.choice((*KEYS, "extra"))
        what = f"with {name}"
        parent[key][name] = payload(r, canary)[1] if r.random() < 0.3 else _value(r)
    elif kind == "wrap":
        what = "wrapped"
        old = parent[key]
        wrappers = ({"config": old}, [old], str(old), {"class_name": "X", "config": old})
        parent[key] = r.choice((*wrappers, {"class_name": "LossScaleOptimizer", "config": {INNER_KEYS[0]: old}}))
    else:
        parent[key] = _value(r)
        what = f"{parent[key]!r:.40}"
    return f"{key!r}: {what}"


def changed_message(r: random.Random, message: Any, texts: Sequence[str]) -> str:
    """Change something in a protobuf message, fields of all kinds alike, and return what."""
    found: dict[tuple[str, str], list[tuple[Any, Any]]] = defaultdict(list)
    stack = [message]
    while stack:
        each = stack.pop()
        held = dict(each.ListFields())
        for field in [*held, r.choice(each.DESCRIPTOR.fields)] if each.DESCRIPTOR.fields else ():
            found[each.DESCRIPTOR.full_name, field.name].append((each, field))
        for value in held.values():
            is_list = isinstance(value, MutableSequence)
            parts = value.values() if isinstance(value, MutableMapping) else value if is_list else [value]
            stack += [part for part in parts if isinstance(part, Message)]
    kind = r.choice(sorted(found))
    owner, field = r.choice(found[kind])
    value = getattr(owner, field.name)
    if isinstance(value, Message):
        other = _copy_of(getattr(r.choice(found[kind])[0], field.name))
        owner.ClearField(field.name)
        if r.random() < 0.7:
            value.CopyFrom(other)
            value.SetInParent()
    elif isinstance(value, MutableMapping):
        entry = field.message_type.fields_by_name
        if value and r.random() < 0.5:
            del value[r.choice(sorted(value))]
        elif entry["value"].message_type and entry["key"].type == field.TYPE_STRING:
            # What is not there is made by asking for it.
            value[r.choice(texts)].CopyFrom(_copy_of(value[r.choice(sorted(value) or texts)]))
    elif isinstance(value, MutableSequence):
        _change_repeated(r, value, field, texts)
    else:
        pool = [*texts, *(getattr(other, field.name) for other, _ in found[kind])]
        setattr(owner, field.name, _scalar(r, field, value, pool))
    return ".".join(kind)


def _copy_of(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _change_repeated(r: random.Random, value: Any, field: Any, texts: Sequence[str]) -> None:
    place = r.randrange(len(value)) if value else 0
    if value and r.random() < 0.4:
        del value[place]
    elif field.message_type is not None:
        if value:
            value.add().CopyFrom(_copy_of(value[place]))
        else:
            value.add()
    elif value and r.random() < 0.7:
        value[place] = _scalar(r, field, value[place], [*texts, *value])
    else:
        value.append(_scalar(r, field, field.default_value or 0, texts))


def _scalar(r: random.Random, field: Any, old: Any, texts: Sequence[Any]) -> Any:
    if field.type == field.TYPE_BYTES:
        return changed_bytes(r, old or b"")
    if field.cpp_type == field.CPPTYPE_STRING:
        return str(r.choice(list(texts)))
    if field.cpp_type == field.CPPTYPE_BOOL:
        return not old
    if field.cpp_type == field.CPPTYPE_ENUM:
        return r.choice([*field.enum_type.values_by_number, 0])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return r.choice(FLOATS)
    is_signed = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
    end = 2 ** (64 if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32) // (1 + is_signed)
    pool = [0, 1, 2, -1, old + 1, old - 1, end - 1, -end, r.randrange(300)]
    return r.choice([number for number in pool if (-end if is_signed else 0) <= number < end])


def changed_array(r: random.Random, value: Any, values: dict[str, Any]) -> Any:
    array = np.array(value)
    kind = r.choice(("number", "number", "type", "shape", "other", "text"))
    if kind == "number" and array.dtype.kind in "fiu" and array.size:
        number = r.choice(FLOATS)
        if array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            number = int(min(max(np.nan_to_num(number), limits.min), limits.max))
        with np.errstate(over="ignore"):
            array.flat[r.randrange(array.size)] = number
        return array
    if kind == "shape":
        return np.resize(value, r.choice(((), (1,), (0,), (3,), (2, 0, 3))))
    if kind == "text":
        return np.full(np.shape(value), r.choice(("text", "", "\x1b[31m")), object)
    if kind == "other":
        return values[r.choice(list(values))]
    types = ("float32", "float16", "float64", "int64", "uint8", "bool", "complex64")
    return np.full(np.shape(value), 1, r.choice(types))
