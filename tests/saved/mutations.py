"""Seeded changes of files that releases have written, such as a stranger might make, and what no file may reach.

`changed(kind, seed, ...)` writes a changed copy; `KINDS` lists the kinds. The same seed gives the same change.
"""

from __future__ import annotations

import codecs
import functools
import json
import marshal
import pathlib
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, Sequence
from typing import Any, NamedTuple

import h5py
import numpy as np
from google.protobuf.message import Message

from mpls.formats.object_graph import GRAPH_KEY
from mpls.formats.wrapper_state import COUNTS, INNER_KEYS, OPTIONS_KEY, SCALE_OPTIONS, STATE, STATE_KEY, STEP_OPTIONS
from tests.saved.artefacts import ARTEFACTS, CONFIGS, expected
from tests.untrusted.payloads import CODE, PAYLOADS, SPY

NUMBERS: list[Any] = [0, -1, 1, 2.5, 1e-50, 1e39, 1e308, 2**31 - 1, 2**63, -(2**63) - 1, 10**400]
NUMBERS += [float("nan"), float("inf"), float("-inf")]
OTHERS: list[Any] = [None, True, "", "dynamic", "\x00", [], {}, [1, 2], {"a": 1}, "\ud800", "\x1b[31m", "../../x"]
OTHERS += ["%s{0}", "Adam", "LossScaleOptimizerV3", "os>system"]
KEYS = ["class_name", "config", "module", "registered_name", "name", "activation", "kernel_initializer", "loss"]
KEYS += ["metrics", "optimizer", "learning_rate", "build_config", "layer", "cell", "vocabulary", "function", "dtype"]
KEYS += [OPTIONS_KEY, STATE_KEY, *INNER_KEYS, *SCALE_OPTIONS, *STEP_OPTIONS, *COUNTS, "settings", "state"]
# What marks structures of H5 and of archives.
SIGNATURES = (b"TREE", b"SNOD", b"HEAP", b"GCOL", b"OHDR", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"PK\x01\x02")
# Names in graphs that mean something to TensorFlow's loader, and ops that reach out of a model.
NAMES = ["WriteFile", "ReadFile", "PyFunc", "MatchingFiles", "SaveV2", "RestoreV2", "PrintV2", "NoOp"]
NAMES += ["_create_resource", "_initialize", "__call__", "optimizer", "loss_scale", "base_optimizer", "iter", *STATE]


# What the numbers in files elsewhere are.
SECRET = 31337


class Canary:
    """A folder that no file may reach, and a module that touches it if Python imports it.

    Attributes:
        folder: holds `secret.*`.
        modules: to be in `sys.path`.
    """

    def __init__(self, base: pathlib.Path) -> None:
        self.folder, self.modules = base / "outside", base / "modules"
        self.touched = self.folder / "touched"
        self.folder.mkdir(parents=True)
        self.modules.mkdir(parents=True)
        (self.modules / f"{SPY}.py").write_text(f"open({str(self.touched)!r}, 'w').close()")
        np.full(4096, SECRET, np.float32).tofile(self.secret(".bin"))
        pathlib.Path(self.secret(".txt")).write_text("secret\n")
        with h5py.File(self.secret(".h5"), "w") as file:
            file["secret"] = np.full(4, SECRET, np.float32)

    def secret(self, ending: str) -> str:
        return str(self.folder / f"secret{ending}")

    def payload(self, r: random.Random) -> tuple[str, Any]:
        """Return what it is, and a node for any place of a config that would touch the folder or read from it."""
        what = r.choice(sorted(PAYLOADS))
        command = f"lambda *args, **kwargs: __import__('os').system({f'touch {self.touched}'!r})"
        code = codecs.encode(marshal.dumps(compile(command, "<lambda>", "eval").co_consts[0]), "base64").decode("ascii")
        text = json.dumps(PAYLOADS[what]).replace(json.dumps(CODE), json.dumps(code))
        text = text.replace('"elsewhere.txt"', json.dumps(self.secret(".txt")))
        return what, json.loads(text.replace('"elsewhere"', json.dumps(str(self.folder))))

    def called_layer(self) -> tuple[str, Any]:
        """Return what it is, and a layer of tf_keras that touches the folder as soon as it is made."""
        settings = {"name": "spy", "trainable": True, "dtype": "float32", "function": "io.write_file"}
        call = ["_CONSTANT_VALUE", -1, str(self.touched), {"contents": "text"}]
        return "a call", {"class_name": "TFOpLambda", "name": "spy", "config": settings, "inbound_nodes": [call]}


class Source(NamedTuple):
    """What is changed: a file or a folder, which is `path` below `folder`."""

    format: str
    folder: pathlib.Path
    path: str

    def copied(self, target: pathlib.Path) -> pathlib.Path:
        """Copy it and what is beside it into a folder, and return what a user would name there."""
        if self.format == "json":
            return pathlib.Path(shutil.copy(self.folder / self.path, target / "config.json"))
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns("expected.json"), dirs_exist_ok=True)
        return target / self.path


@functools.cache
def sources() -> list[Source]:
    """Return what releases have written."""
    formats = {"keras_h5": "h5", "more_keras_h5": "h5", "keras_v3": "keras", "keras_tf": "saved_model"}
    found = [Source("json", path.parent, path.name) for path in CONFIGS]
    for folder in ARTEFACTS:
        held = expected(folder)
        kind = formats.get(folder.parent.name.partition(".")[0], "checkpoint")
        found.append(Source(kind, folder, held.get("prefix") or held["path"]))
    return found


def changed_bytes(r: random.Random, content: bytes) -> bytes:
    """Return content with bits flipped, a part cut off, blanked or doubled, or another number near a structure."""
    changed = bytearray(content or bytes(8))
    start, length = r.randrange(len(changed)), r.choice((1, 4, 8, 64, 512))
    kind = r.choice(("flip", "flip", "cut", "blank", "double", "number", "structure", "structure"))
    if kind == "flip":
        for _ in range(r.choice((1, 2, 8, 64))):
            changed[r.randrange(len(changed))] ^= 1 << r.randrange(8)
    elif kind == "cut":
        del changed[start:]
    elif kind == "blank":
        changed[start : start + length] = bytes(len(changed[start : start + length]))
    elif kind == "double":
        changed[start:start] = changed[start : start + length]
    else:
        if kind == "structure":
            places = [content.find(each, start) for each in SIGNATURES]
            start = r.choice([place for place in places if place >= 0] or [start]) + r.randrange(64)
        width = r.choice((1, 2, 4, 8))
        pool = [0, 1, 2, 0xFF, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1, len(changed), start, r.randrange(512)]
        changed[start : start + width] = (r.choice(pool) % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(changed)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a JSON value as `(container, key)`."""
    stack = [value]
    while stack:
        each = stack.pop()
        for key in list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ():
            yield each, key
            stack.append(each[key])


def changed_json(r: random.Random, config: Any, canary: Canary) -> tuple[str, str]:
    """Return what was changed in a config, and the text that it has become."""
    root = {"root": config}
    every = list(_places(root))
    # As often at a place that names something as at any.
    named = [place for place in every if place[1] in KEYS] or every
    parent, key = r.choice(r.choice((every, named)))
    kind = r.choice(("value", "payload", "payload", "layer", "layer", "elsewhere", "remove", "add", "wrap"))
    layers = [each[at] for each, at in every if at == "layers" and isinstance(each[at], list) and each[at]]
    if kind == "layer" and layers:
        what, node = canary.called_layer()
        r.choice(layers).append(node)
    elif kind in ("payload", "layer"):
        what, parent[key] = canary.payload(r)
    elif kind == "elsewhere":
        what, (source, at) = "of elsewhere", r.choice([place for place in every if place[1] == key])
        parent[key] = json.loads(json.dumps(source[at]))
    elif kind == "remove" and parent is not root:
        what = "missing"
        del parent[key]
    elif kind == "add" and isinstance(parent[key], dict):
        what = r.choice(KEYS)
        parent[key][what] = r.choice(r.choice((NUMBERS, OTHERS)))
    elif kind == "wrap":
        what = "wrapped"
        wrappers = ({"config": parent[key]}, [parent[key]], {INNER_KEYS[0]: parent[key]})
        parent[key] = r.choice((*wrappers, {"class_name": "LossScaleOptimizer", "config": wrappers[2]}))
    else:
        parent[key] = r.choice(r.choice((NUMBERS, OTHERS)))
        what = f"{parent[key]!r:.40}"
    text = json.dumps(root["root"])
    if r.random() < 0.1:
        # What only a text can hold.
        odd = r.choice(('"\\ud800"', "1e400", "NaN", "9" * 5000, "[" * 2000 + "]" * 2000, "\x00", "{", "]"))
        text = text.replace(r.choice(("null", "true", "1", "{", "}")), odd, 1)
        what += f" and {odd!r:.20}"
    return f"{key!r}: {what}", text


def _config(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    if path.suffix == ".json":
        what, text = changed_json(r, json.loads(path.read_text())["serialized"], canary)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    elif path.suffix == ".keras":
        members = _members_of(path)
        what, text = changed_json(r, json.loads(members["config.json"]), canary)
        _write_members(path, {**members, "config.json": text.encode("utf-8", "surrogatepass")})
    elif path.is_dir():
        file, message, nodes = _metadata(path)
        node = r.choice(nodes)
        what, text = changed_json(r, json.loads(node.metadata), canary)
        node.metadata = text.encode("utf-8", "replace").decode()
        file.write_bytes(message.SerializeToString())
    else:
        with h5py.File(path, "r+") as file:
            key = r.choice([each for each in ("model_config", "training_config") if each in file.attrs] or [""])
            what, text = changed_json(r, json.loads(file.attrs[key]) if key else {}, canary)
            # HDF5 ends texts at a zero.
            file.attrs[key or "model_config"] = text.encode("utf-8", "replace").replace(b"\x00", b"")
    return what


def _metadata(path: pathlib.Path) -> tuple[pathlib.Path, Any, list[Any]]:
    """Return what a SavedModel says of its Keras model: in a file of its own, or up to TF 2.4 in the graph's."""
    from tensorflow.core.protobuf import saved_model_pb2
    from tf_keras.protobuf import saved_metadata_pb2

    file = path / "keras_metadata.pb"
    message: Any = saved_metadata_pb2.SavedMetadata()
    if not file.exists():
        file, message = path / "saved_model.pb", saved_model_pb2.SavedModel()
    message.ParseFromString(file.read_bytes())
    nodes = message.nodes if file.name == "keras_metadata.pb" else message.meta_graphs[0].object_graph_def.nodes
    held = [each if hasattr(each, "metadata") else each.user_object for each in nodes]
    return file, message, [each for each in held if each.metadata.startswith("{")]


def _bytes(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    file = r.choice(_files(path))
    file.write_bytes(changed_bytes(r, file.read_bytes()))
    return f"{file.name}: bytes"


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    root = path if path.is_dir() else path.parent
    return [path] if path.is_file() else sorted(file for file in root.rglob("*") if file.is_file())


def _hdf5(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    if path.suffix == ".keras":
        members = _members_of(path)
        inner = path.parent / "inner.h5"
        inner.write_bytes(members["model.weights.h5"])
        what = _hdf5(r, inner, canary)
        _write_members(path, {**members, "model.weights.h5": inner.read_bytes()})
        inner.unlink()
        return what
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        name = r.choice([each for each in names if isinstance(file[each], h5py.Dataset)] or names or ["x"])
        shape = getattr(file.require_group(name) if name == "x" else file[name], "shape", (3,))
        kind = r.choice(("external", "raw", "soft", "cycle", "text", "type", "shape", "number", "claim", "attribute"))
        if kind in ("cycle", "attribute"):
            owner = file[name.rpartition("/")[0] or "/"]
            if kind == "cycle":
                owner["again"] = file
            else:
                owner.attrs[r.choice(("layer_names", "weight_names", "keras_version", "vars"))] = r.choice(
                    (np.array([b"../x", b"/", b""]), 2**40, h5py.Empty("S10"), np.array([b"\xff\xd8"], "S2"), "9" * 500)
                )
            return f"{name}: {kind}"
        del file[name]
        if kind == "external":
            file[name] = h5py.ExternalLink(canary.secret(".h5"), r.choice(("/secret", "/")))
        elif kind == "raw":
            size = max(int(np.prod(shape)) * 4, 4)
            file.create_dataset(name, shape, np.float32, external=[(canary.secret(".bin"), 0, size)])
        elif kind == "soft":
            file[name] = h5py.SoftLink(r.choice(("/", f"/{name}", "/nothing", "../..")))
        elif kind == "claim":
            file.create_dataset(name, (2**31, 2**10), "float32", chunks=(1024, 1))
        elif kind == "shape":
            file.create_dataset(name, r.choice(((3, 0, 5), (1,), (), (1,) * 32)), "float64")
        elif kind == "number":
            file.create_dataset(name, shape, "float32", fillvalue=r.choice((np.nan, np.inf, -1, 1e38)))
        else:
            types: list[Any] = [h5py.vlen_dtype(np.float32), np.dtype("V16"), h5py.ref_dtype, ">f2", np.complex64]
            file.create_dataset(name, shape, h5py.string_dtype() if kind == "text" else r.choice(types))
        return f"{name}: {kind}"


def _members_of(path: pathlib.Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _write_members(path: pathlib.Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, value)


def _graph(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    """Change the graphs and objects of a SavedModel."""
    from tensorflow.core.protobuf import saved_model_pb2

    file, message = path / "saved_model.pb", saved_model_pb2.SavedModel()
    message.ParseFromString(file.read_bytes())
    graph = message.meta_graphs[0]
    part = r.choice((message, graph.object_graph_def, graph.graph_def.library))
    what = changed_message(r, part, [*NAMES, canary.secret(".txt"), str(canary.touched)])
    file.write_bytes(message.SerializePartialToString())
    # It would give the changes away, and is not needed.
    (path / "fingerprint.pb").unlink(missing_ok=True)
    return what


def _tensors(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    """Change a value or the object graph of a checkpoint, whose checksums are right then."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    from tests.saved.rewriting import values_of, write_values

    prefix = path / "variables" / "variables" if path.is_dir() else path
    values = values_of(prefix)
    # As often a number of a loss scale or an optimizer as any.
    of_state = [each for each in values if any(name in each for name in NAMES)] or list(values)
    name = r.choice(r.choice((of_state, list(values))))
    if GRAPH_KEY in values and r.random() < 0.4:
        graph, content = trackable_object_graph_pb2.TrackableObjectGraph(), values[GRAPH_KEY]
        graph.ParseFromString(content.item() if hasattr(content, "item") else content)
        name, what = GRAPH_KEY, changed_message(r, graph, [*NAMES, *values])
        values[GRAPH_KEY] = graph.SerializePartialToString()
    elif r.random() < 0.1 and len(values) > 1:
        what = "left out"
        del values[name]
    else:
        array = np.array(values[name])
        with np.errstate(all="ignore"):
            odd = np.float64(r.choice((0, -1, 1e38, np.inf, np.nan, 2.0**62)))
            same = np.full_like(array, odd) if array.dtype.kind in "fiu" else array
        types = ("float16", "float64", "int64", "uint8", "bool", "complex64")
        others = [np.full(array.shape, 1, r.choice(types)), np.zeros(r.choice(((), (0,), (3,), (2, 0, 3))), np.float32)]
        values[name] = r.choice(
            (same, same, *others, np.full(array.shape, "text", object), values[r.choice([*values])])
        )
        what = f"{values[name]!r:.40}"
    for file in prefix.parent.glob(f"{prefix.name}.*"):
        file.unlink()
    write_values(prefix, values)
    return f"{name}: {what}"


def changed_message(r: random.Random, message: Any, texts: Sequence[str]) -> str:
    """Change something in a protobuf message, fields of all kinds alike, and return what."""
    found: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    stack = [message]
    while stack:
        each = stack.pop()
        held = dict(each.ListFields())
        for field in [*held, r.choice(each.DESCRIPTOR.fields)] if each.DESCRIPTOR.fields else ():
            found.setdefault((each.DESCRIPTOR.full_name, field.name), []).append((each, field))
        for value in held.values():
            is_list = isinstance(value, MutableSequence)
            parts = value.values() if isinstance(value, MutableMapping) else value if is_list else [value]
            stack += [part for part in parts if isinstance(part, Message)]
    kind = r.choice(sorted(found))
    owner, field = r.choice(found[kind])
    value = getattr(owner, field.name)
    if isinstance(value, Message):
        other = getattr(r.choice(found[kind])[0], field.name).SerializePartialToString()
        owner.ClearField(field.name)
        value.MergeFromString(other if r.random() < 0.7 else b"")
    elif isinstance(value, MutableMapping):
        if value:
            del value[r.choice(sorted(value))]
    elif isinstance(value, MutableSequence):
        if value and r.random() < 0.5:
            del value[r.randrange(len(value))]
        elif field.message_type is not None:
            value.add().MergeFrom(r.choice(list(value)))
        else:
            value.append(_scalar(r, field, field.default_value or 0, texts))
    else:
        pool = [*texts, *(getattr(other, field.name) for other, _ in found[kind])]
        setattr(owner, field.name, _scalar(r, field, value, pool))
    return ".".join(kind)


def _scalar(r: random.Random, field: Any, old: Any, texts: Sequence[Any]) -> Any:
    if field.type == field.TYPE_BYTES:
        return changed_bytes(r, old or b"")
    if field.cpp_type == field.CPPTYPE_STRING:
        return str(r.choice(list(texts)))
    if field.cpp_type == field.CPPTYPE_BOOL:
        return not old
    if field.cpp_type == field.CPPTYPE_ENUM:
        return r.choice([*field.enum_type.values_by_number])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return r.choice((0, 1, -1, 1e38, float("inf"), float("nan")))
    is_signed = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
    end = 2 ** (64 if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32) // (1 + is_signed)
    pool = [0, 1, 2, -1, old + 1, old - 1, end - 1, -end, r.randrange(300)]
    return r.choice([number for number in pool if (-end if is_signed else 0) <= number < end])


_Way = Callable[[random.Random, pathlib.Path, Canary], str]
# The change, what it is made to, and how often.
WAYS: dict[str, tuple[_Way, tuple[str, ...], int]] = {
    "config": (_config, ("keras", "h5", "saved_model", "json"), 6),
    "bytes": (_bytes, ("keras", "h5", "saved_model", "checkpoint"), 3),
    "hdf5": (_hdf5, ("keras", "h5"), 4),
    "graph": (_graph, ("saved_model",), 3),
    "tensors": (_tensors, ("saved_model", "checkpoint"), 3),
}
# What is done with which formats.
ACTIONS = {
    "inspect": ("keras", "h5", "saved_model", "checkpoint", "json"),
    "load_model": ("keras", "h5", "saved_model"),
}
KINDS = [f"{action}/{way}" for action in ACTIONS for way in WAYS]


def spread(count: int, actions: Sequence[str]) -> list[tuple[str, int]]:
    """Return kinds and seeds of about so many cases, all kinds of these actions among them."""
    kinds = [each for each in KINDS if each.partition("/")[0] in actions]
    shares = {kind: WAYS[kind.partition("/")[2]][2] for kind in kinds}
    total = sum(shares.values())
    return [(kind, seed) for kind in kinds for seed in range(max(round(count * shares[kind] / total), 1))]


def changed(kind: str, seed: int, folder: pathlib.Path, canary: Canary) -> tuple[str, pathlib.Path]:
    """Write the case of a kind and seed into an empty folder.

    Returns:
        What was changed, and what is to be read.
    """
    r, (action, way) = random.Random(f"{kind} {seed}"), kind.split("/")
    change, formats, _ = WAYS[way]
    wanted = r.choice([each for each in formats if each in ACTIONS[action]])
    source = r.choice([each for each in sources() if each.format == wanted])
    path = source.copied(folder)
    return f"{source.path}: {change(r, path, canary)}", path
