"""Files as a stranger might send them: seeded mutations of what releases and today's frameworks have written.

`make(kind, seed, ...)` writes one; `KINDS` lists the kinds. The same seed gives the same change. Whatever a mutation
puts in that could do harm does it in the canary's folder, which is watched.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from mpls.formats.object_graph import GRAPH_KEY
from mpls.formats.wrapper_state import COUNTS, STATE, STATE_OF_KERAS_3
from mpls.saved.bundles import masked_crc32c
from tests.saved.artefacts import ARTEFACTS, CONFIGS, expected, name_of
from tests.saved.fuzz_changes import changed_array, changed_bytes, changed_json, changed_message
from tests.saved.fuzz_payloads import Canary

# Seeds below it do without the models of today's frameworks, which take a while to write.
RECORDED_ONLY = 40
MODELS = ("keras", "h5", "saved_model")
_FORMATS = {"keras_h5": "h5", "more_keras_h5": "h5", "keras_v3": "keras", "keras_tf": "saved_model", "v1_saver": "v1"}
_FORMATS |= {"more_v1_saver": "v1"}
# What of today's is written to which path.
_FILES = {"saved_model": "model", "keras": "model.keras", "h5": "model.h5", "checkpoint": "ckpt"}
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
OPS = ["WriteFile", "ReadFile", "PyFunc", "EagerPyFunc", "MatchingFiles", "SaveV2", "RestoreV2", "PrintV2", "Const"]
OPS += ["NoOp", "InitializeTableFromTextFileV2", "Abort", "Unknown", "XlaLaunch", "planted_op"]
ROLES = ["_create_resource", "_initialize", "_destroy_resource", "__call__", "optimizer", "variables", "table"]
ROLES += ["loss_scale", "base_optimizer", "inner_optimizer", "iter", *STATE, *STATE_OF_KERAS_3, *COUNTS]


@dataclass(frozen=True)
class Source:
    """What is mutated: a file or a folder, which is `path` below `folder`."""

    name: str
    format: str
    folder: pathlib.Path
    path: str

    @property
    def named(self) -> pathlib.Path:
        return self.folder / self.path

    def copy(self, folder: pathlib.Path) -> pathlib.Path:
        """Copy it and what is beside it into a folder, and return what a user would name there."""
        if self.format == "json":
            return pathlib.Path(shutil.copy(self.named, folder / "config.json"))
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("expected.json"), dirs_exist_ok=True)
        return folder / self.path


@functools.cache
def recorded() -> list[Source]:
    """Return what old releases have written."""
    found = [Source(path.stem, "json", path.parent, path.name) for path in CONFIGS]
    for folder in ARTEFACTS:
        held = expected(folder)
        kind = _FORMATS.get(folder.parent.name.partition(".")[0], "checkpoint")
        found.append(Source(name_of(folder), kind, folder, held.get("prefix") or held["path"]))
    return found


@functools.cache
def fresh(folder: pathlib.Path) -> list[Source]:
    """Return what today's frameworks write, which is in a folder, or is written there now."""
    if not folder.exists():
        made = pathlib.Path(tempfile.mkdtemp(dir=folder.parent))
        _write_fresh(made)
        # Another process may have been faster.
        with contextlib.suppress(OSError):
            made.rename(folder)
    kinds = [(path, path.suffix.removeprefix(".")) for path in sorted(folder.iterdir()) if path.is_dir()]
    return [Source(f"fresh {path.name}", kind, path, _FILES[kind]) for path, kind in kinds]


def _write_fresh(folder: pathlib.Path) -> None:
    """Write models with what the recorded files lack."""
    import tensorflow as tf

    from tests.saved import honest_models
    from tests.untrusted import models

    made: list[tuple[str, Any]] = [*honest_models.small(folder), ("tables", honest_models.tables())]
    made += [(framework, models.model(framework)) for framework in ("tf_keras", "keras")]
    lacking = {"keras": ("saved_model",), "tables": ("keras", "h5"), "text": ("h5",)}
    for name, model in made:
        for kind, path in _FILES.items():
            if kind not in lacking.get(name, ()):
                target = folder / f"{name}.{kind}" / path
                target.parent.mkdir()
                if kind == "checkpoint":
                    tf.train.Checkpoint(model=model).write(str(target))
                else:
                    models.save(model, str(target))


def _texts_of(path: pathlib.Path) -> dict[str, str]:
    """Return the configs in a file as JSON texts."""
    if path.is_dir():
        nodes = enumerate(_metadata(path)[2])
        return {str(number): node.metadata for number, node in nodes if node.metadata.startswith("{")}
    if path.suffix == ".json":
        return {"": path.read_text()}
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name).decode() for name in ("config.json", "metadata.json")}
    with h5py.File(path) as file:
        return {key: file.attrs[key] for key in ("model_config", "training_config") if key in file.attrs}


def _set_text(path: pathlib.Path, key: str, text: str) -> None:
    plain = text.encode("utf-8", "replace").decode()
    if path.is_dir():
        file, message, nodes = _metadata(path)
        nodes[int(key)].metadata = plain
        file.write_bytes(message.SerializeToString())
    elif path.suffix == ".json":
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    elif path.suffix == ".keras":
        _write_members(path, {**_members_of(path), key: text.encode("utf-8", "surrogatepass")})
    else:
        with h5py.File(path, "r+") as file:
            # HDF5 ends texts at a zero.
            file.attrs[key] = plain.replace("\x00", "")


def _metadata(path: pathlib.Path) -> tuple[pathlib.Path, Any, list[Any]]:
    """Return what a SavedModel says of its Keras model: in a file of its own, or up to TF 2.4 in the graph's."""
    from tensorflow.core.protobuf import saved_model_pb2
    from tf_keras.protobuf import saved_metadata_pb2

    file = path / "keras_metadata.pb"
    message: Any = saved_metadata_pb2.SavedMetadata()
    if not file.exists():
        file, message = path / "saved_model.pb", saved_model_pb2.SavedModel()
    message.ParseFromString(file.read_bytes())
    if file.name == "keras_metadata.pb":
        return file, message, list(message.nodes)
    held = message.meta_graphs[0].object_graph_def.nodes
    return file, message, [node.user_object for node in held if node.WhichOneof("kind") == "user_object"]


def _config(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    texts = _texts_of(path)
    if not texts:
        return "nothing"
    # The first is the model.
    key = r.choice((next(iter(texts)), *texts))
    config = json.loads(texts[key])
    if path.suffix == ".json":
        config = r.choice([config, *[config[name] for name in ("get_config", "serialized") if config[name]]])
    what, config = changed_json(r, config, canary)
    text = json.dumps(config)
    if r.random() < 0.15:
        # What only a text can hold.
        odd = r.choice(('"\\ud800"', "1e400", "NaN", "9" * 5000, "[" * 2000 + "]" * 2000, "\x00", "\ufeff", "{", "]"))
        old = r.choice(("null", "true", "false", "1", "0.01", "{", "}"))
        what, text = f"{what}; {odd!r:.20} for {old}", text.replace(old, odd, 1)
        if r.random() < 0.3:
            text = text.replace('"class_name": ', '"class_name": "os.system", "class_name": ')
    _set_text(path, key, text)
    return f"{key}: {what}"


def _bytes(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    file = r.choice(_files(path))
    file.write_bytes(changed_bytes(r, file.read_bytes()))
    return f"{file.name}: bytes"


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    if path.is_file():
        return [path]
    root = path if path.is_dir() else path.parent
    return sorted(file for file in root.rglob("*") if file.is_file())


def _folder(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    file = r.choice(files := _files(path))
    way = r.choice(("missing", "empty", "link", "link", "other", "folder", "pipe", "beside"))
    if way == "beside":
        file = file.parent / r.choice(("saved_model.pb", "keras_metadata.pb", "fingerprint.pb", "checkpoint", "assets"))
    other = r.choice(files).read_bytes()
    if file.is_dir():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    if way == "link":
        file.symlink_to(canary.secret(r.choice((".txt", ".bin", ".h5"))))
    elif way == "folder":
        file.mkdir()
    elif way == "pipe":
        os.mkfifo(file)
    elif way != "missing":
        file.write_bytes(b"" if way == "empty" else other)
    return f"{file.name}: {way}"


def _graph(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    """Change a SavedModel's graphs and objects, or how the objects of a checkpoint hang together."""
    from tensorflow.core.protobuf import saved_model_pb2

    secret = canary.secret(".txt")
    texts = [*OPS, *ROLES, *ROLES, secret, str(canary.touched), "../" * 12 + secret, "\x1b[2J"]
    if not path.is_dir():
        return _tensors(r, path, canary, of_graph=texts)
    message: Any = saved_model_pb2.SavedModel()
    file = path / "saved_model.pb"
    message.ParseFromString(file.read_bytes())
    what = _planted(r, message.meta_graphs[0], canary) if r.random() < 0.4 else ""
    parts = [message, message, message.meta_graphs[0].object_graph_def, message.meta_graphs[0].graph_def.library]
    for _ in range(r.choice((1, 1, 2, 4)) if not what or r.random() < 0.3 else 0):
        what += f" {changed_message(r, r.choice(parts), texts)}"
    file.write_bytes(message.SerializePartialToString())
    # It would give the changes away, and is not needed.
    (path / "fingerprint.pb").unlink(missing_ok=True)
    return what


def _planted(r: random.Random, graph: Any, canary: Canary) -> str:
    """Have functions and the graph read or write a file when they run, and have some run while the model is loaded."""
    functions = list(graph.graph_def.library.function)
    early = [each for each in functions if "creator" in each.signature.name or "initializer" in each.signature.name]
    reads = r.random() < 0.4
    for function in functions if r.random() < 0.5 else [r.choice(early or functions)]:
        _add_op(function.node_def, canary, reads, ":output:0")
        function.control_ret["planted"] = "planted_op"
        function.signature.control_output.append("planted")
        function.signature.is_stateful = True
    _add_op(graph.graph_def.node, canary, reads, "")
    role = r.choice(("saver", "init", "asset", "resource", "none"))
    if role == "saver":
        graph.saver_def.restore_op_name = "planted_op"
    elif role == "init":
        graph.collection_def["saved_model_main_op"].node_list.value.append("planted_op")
    elif role == "asset":
        asset = graph.asset_file_def.add(filename="../" * 12 + canary.secret(".txt"))
        asset.tensor_info.name = "planted_name:0"
        r.choice(graph.object_graph_def.nodes).asset.asset_file_def_index = len(graph.asset_file_def) - 1
    elif role == "resource":
        nodes = graph.object_graph_def.nodes
        called = [number for number, node in enumerate(nodes) if node.WhichOneof("kind") == "function"]
        made = r.choice(nodes)
        made.resource.device = ""
        for name in ("_create_resource", "_initialize") if called else ():
            made.children.add(node_id=r.choice(called), local_name=name)
    return f"{'ReadFile' if reads else 'WriteFile'} ({role})"


def _add_op(nodes: Any, canary: Canary, reads: bool, ending: str) -> None:
    from tensorflow.core.framework import types_pb2

    path = canary.secret(".txt") if reads else str(canary.touched)
    for name, value in (("planted_name", path), ("planted_value", "text")):
        node = nodes.add(name=name, op="Const")
        node.attr["dtype"].type = types_pb2.DT_STRING
        tensor = node.attr["value"].tensor
        tensor.dtype = types_pb2.DT_STRING
        tensor.tensor_shape.SetInParent()
        tensor.string_val.append(value.encode())
    # In functions inputs have the outputs' names.
    inputs = [f"planted_name{ending}", f"planted_value{ending}"]
    nodes.add(name="planted_op", op="ReadFile" if reads else "WriteFile", input=inputs[: 1 if reads else 2])


def _tensors(r: random.Random, path: pathlib.Path, canary: Canary, of_graph: Sequence[str] = ()) -> str:
    """Change what a checkpoint holds: its checksums are right, the rest need not be."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    from tests.saved.rewriting import values_of, write_values

    prefix = path / "variables" / "variables" if path.is_dir() else path
    if not of_graph and r.random() < 0.3:
        return _index(r, prefix.with_name(f"{prefix.name}.index"))
    values = values_of(prefix)
    for _ in range(r.choice((1, 1, 2, 4))):
        known = [name for name in values if any(f"/{state}" in f"/{name}" for state in ROLES)]
        name = r.choice(r.choice((known or list(values), list(values))))
        if of_graph and GRAPH_KEY in values:
            name, graph = GRAPH_KEY, trackable_object_graph_pb2.TrackableObjectGraph()
            content = values[GRAPH_KEY]
            graph.ParseFromString(content.item() if hasattr(content, "item") else content)
            what = changed_message(r, graph, [*of_graph, *values])
            values[GRAPH_KEY] = graph.SerializePartialToString()
        elif r.random() < 0.1 and len(values) > 1:
            del values[name]
            what = "left out"
        else:
            values[name] = changed_array(r, values[name], values)
            what = f"{values[name]!r:.40}"
    for file in prefix.parent.glob(f"{prefix.name}.*"):
        file.unlink()
    write_values(prefix, values)
    return f"{name}: {what}"


def _index(r: random.Random, file: pathlib.Path) -> str:
    """Change bytes in the first block of a checkpoint's index, and have its checksum be right."""
    content = file.read_bytes()
    # Behind its type and checksum starts the next one, at the first number of the footer, in bytes of seven bits.
    footer, size = content[-48:], -5
    for place in range(next(place for place, byte in enumerate(footer) if byte < 0x80) + 1):
        size += (footer[place] & 0x7F) << 7 * place
    block = changed_bytes(r, content[:size])[:size].ljust(size, b"\x00")
    checksum = masked_crc32c(block, content[size : size + 1]).to_bytes(4, "little")
    file.write_bytes(block + content[size : size + 1] + checksum + content[size + 5 :])
    return "index: bytes, with their checksum"


def _hdf5(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    if path.suffix == ".keras":
        members = _members_of(path)
        inner = path.parent / "inner.h5"
        inner.write_bytes(members["model.weights.h5"])
        what = _hdf5(r, inner, canary)
        members["model.weights.h5"] = inner.read_bytes()
        _write_members(path, members, r.choice(_METHODS))
        inner.unlink()
        return what
    if r.random() < 0.4:
        path.write_bytes(changed_bytes(r, path.read_bytes()))
        return "bytes of HDF5"
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        leaves = [name for name in names if isinstance(file[name], h5py.Dataset)]
        name = r.choice(leaves if leaves and r.random() < 0.7 else names or ["x"])
        old = file.require_group(name) if name == "x" else file[name]
        shape = old.shape if isinstance(old, h5py.Dataset) else (3,)
        change = r.choice((_link, _link, _dataset, _dataset, _attribute, _name))
        return f"{name}: {change(r, file, name, shape, canary)}"


def _link(r: random.Random, file: Any, name: str, shape: Any, canary: Canary) -> str:
    """Put something that is elsewhere in the place of a dataset or a group."""
    kind = r.choice(("external", "external", "raw", "raw", "virtual", "soft", "hard", "cycle"))
    if kind == "cycle":
        group = file[name.rpartition("/")[0] or "/"]
        group["again"] = r.choice((group, file, h5py.SoftLink(group.name)))
        return kind
    del file[name]
    if kind == "external":
        file[name] = h5py.ExternalLink(canary.secret(".h5"), r.choice(("/secret", "/")))
    elif kind == "raw":
        size = max(int(np.prod(shape)) * 4, 4)
        file.create_dataset(name, shape, np.float32, external=[(canary.secret(".bin"), 0, size)])
    elif kind == "virtual" and shape:
        layout = h5py.VirtualLayout(shape, np.float32)
        layout[...] = h5py.VirtualSource(canary.secret(".h5"), "secret", shape)
        file.create_virtual_dataset(name, layout)
    elif kind == "hard":
        file[name] = file
    else:
        file[name] = h5py.SoftLink(r.choice(("/", f"/{name}", "/nothing", "../..")))
    return kind


def _dataset(r: random.Random, file: Any, name: str, shape: Any, canary: Canary) -> str:
    """Have a dataset be of another type, shape, size or way to be packed."""
    del file[name]
    types: list[Any] = [h5py.vlen_dtype(np.float32), h5py.string_dtype(), np.dtype("V16"), h5py.ref_dtype, "g", ">f2"]
    types += [np.dtype([("a", "f4"), ("b", "i8", (3,))]), np.complex64, h5py.enum_dtype({"A": 1}, "i4")]
    kind = r.choice(("type", "type", "type", "gone", "group", "scalar", "shape", "fill", "claim", "chunks", "packed"))
    if kind == "type":
        file.create_dataset(name, shape, r.choice(types))
    elif kind == "group":
        file.create_group(f"{name}/vars/0")
    elif kind == "scalar":
        file[name] = r.choice([0, -1, 0.5, -2.0, float("nan"), float("inf"), 2**40, "text", h5py.Empty("f4")])
    elif kind == "shape":
        file.create_dataset(name, r.choice(((3, 0, 5), (1,), (), (1,) * 32)), "float64")
    elif kind == "fill":
        file.create_dataset(name, shape, "float32", fillvalue=r.choice((0.5, np.nan, np.inf, -1, 1e38)))
    elif kind == "chunks":
        file.create_dataset(name, (2**31, 2**10), "float32", chunks=(1024, 1))
    elif kind in ("claim", "packed"):
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        # Contiguous, and of which nothing is in the file.
        settings.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
        if kind == "packed":
            settings.set_chunk((4,))
            # Filters that are not HDF5's: whoever needs one looks for a library.
            settings.set_filter(r.choice((307, 32001, 32015, 999)), h5py.h5z.FLAG_OPTIONAL, (1,))
        space = h5py.h5s.create_simple(r.choice(((2**28,), (2**40,), (0, 2**40))) if kind == "claim" else (4,))
        h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F32LE, space, settings)
    return kind


def _attribute(r: random.Random, file: Any, name: str, shape: Any, canary: Canary) -> str:
    """Change what the file says of itself: names of layers and of weights, versions, configs."""
    owners = [file]
    file.visititems(lambda _, each: owners.append(each) if isinstance(each, h5py.Group) else None)
    pairs = [(owner, key) for owner in owners for key in owner.attrs]
    extra = r.choice(("layer_names", "weight_names", "layer_names0", "keras_version", "backend", "vars"))
    owner, key = r.choice([*pairs, (file, extra), (file[name], extra)])
    values: list[Any] = [np.array([b"../x", b"/", b".", b""]), 2**40, h5py.Empty("S10"), np.array([b"\xff\xd8"], "S2")]
    values += [np.zeros([2, 2, 2], "f4"), np.array(["é\u202e", ""], h5py.string_dtype()), file.ref, None, "x" * 100_000]
    values += ["2.4.0", "3.0.0", "9" * 500, "²", "", "3"]
    if key in owner.attrs:
        del owner.attrs[key]
    value = r.choice(values)
    if value is not None:
        owner.attrs[key] = value
    return f"the attribute {key} of {owner.name}: {value!r:.40}"


def _name(r: random.Random, file: Any, name: str, shape: Any, canary: Canary) -> str:
    names = (b"\xff\xfe", b"a" * 60_000, "é\u202e".encode(), b" ", b"\x1b[2J", b"vars\xd8", b"...")
    chosen = r.choice(names)
    parent = file[name.rpartition("/")[0] or "/"]
    # As bytes: they need not be text.
    parent.id.links.create_hard(chosen, parent.id, name.rpartition("/")[2].encode())
    if r.random() < 0.5:
        del file[name]
    return f"also as {chosen[:20]!r}"


def _members_of(path: pathlib.Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _write_members(path: pathlib.Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, value in members.items():
            archive.writestr(name, value)


def _zip(r: random.Random, path: pathlib.Path, canary: Canary) -> str:
    members = _members_of(path)
    name = r.choice(sorted(members))
    value = members[name]
    kind = r.choice(("bytes", "bytes", "member", "missing", "missing", "twice", "names", "asset", "around", "comment"))
    if kind in ("bytes", "around"):
        content = path.read_bytes()
        more = r.choice((b"\x00" * 100, b"PK\x03\x04" * 20, r.randbytes(5000), content))
        path.write_bytes(r.choice((more + content, content + more)) if kind == "around" else changed_bytes(r, content))
        return kind
    if kind == "twice":
        # Another of the same length, whose name is made equal below.
        members["?" * len(name)] = r.choice((b"", b"{}", changed_bytes(r, value)))
    elif kind == "member":
        members[name] = changed_bytes(r, value)
    elif kind == "missing":
        del members[name]
        if r.random() < 0.5:
            members[r.choice((name.upper(), f"x/{name}", name + "x", "/"))] = value
    elif kind == "names":
        names = [
            "../../escaped",
            str(canary.touched),
            "assets/../../../escaped",
            "..\\escaped",
            "a" * 60_000,
            "assets/",
        ]
        names += ["con/aux", "assets/layers/../../../escaped", "é\u202e", "model.weights.h5/x", "\x1b[2J"]
        members |= dict.fromkeys(r.sample(names, 3), b"text")
    elif kind == "asset":
        place = r.choice(("assets/layers/string_lookup/", "assets/layers/text_vectorization/", "assets/", "layers/"))
        held = r.choice((b"one\ntwo", b"\xff\xfe\x00", b""))
        members[place + r.choice(("vocabulary.txt", "../../../escaped", "idf_weights.npy", "x" * 200))] = held
    _write_members(path, members, r.choice(_METHODS))
    if kind == "twice":
        path.write_bytes(path.read_bytes().replace(b"?" * len(name), name.encode()))
    if kind == "comment":
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = r.choice((b"x" * 65_000, b"PK\x05\x06" + b"\x00" * 18))
    return f"{name}: {kind}"


_Way = Callable[[random.Random, pathlib.Path, Canary], str]
# The change, what it is made to, and how often.
WAYS: dict[str, tuple[_Way, tuple[str, ...], int]] = {
    "config": (_config, (*MODELS, "keras", "h5", "json"), 6),
    "bytes": (_bytes, (*MODELS, "checkpoint", "v1"), 3),
    "hdf5": (_hdf5, ("keras", "h5"), 4),
    "zip": (_zip, ("keras",), 2),
    "folder": (_folder, ("saved_model", "checkpoint", "v1"), 2),
    "graph": (_graph, ("saved_model", "saved_model", "checkpoint"), 3),
    "tensors": (_tensors, ("saved_model", "checkpoint", "v1"), 3),
}
# What is done with which formats.
ACTIONS = {"inspect": (*MODELS, "checkpoint", "v1", "json"), "load_model": MODELS}
ACTIONS |= {"convert_state": (*MODELS, "checkpoint")}
KINDS = [f"{action}/{way}" for action in ACTIONS for way in WAYS]
_SHARES = {"inspect": 4, "load_model": 5, "convert_state": 1}


def spread(count: int, actions: Sequence[str] = tuple(ACTIONS)) -> list[tuple[str, int]]:
    """Return kinds and seeds of about so many cases, all kinds of these actions among them."""
    shares = {f"{action}/{way}": _SHARES[action] * WAYS[way][2] for action in actions for way in WAYS}
    total = sum(shares.values())
    return [(kind, seed) for kind, share in shares.items() for seed in range(max(round(count * share / total), 1))]


def make(kind: str, seed: int, folder: pathlib.Path, canary: Canary, of_today: pathlib.Path) -> tuple[str, str, str]:
    """Write the case of a kind and seed into an empty folder; today's frameworks write theirs to `of_today`.

    Returns:
        What was changed, what is to be read, and the same before it was changed.
    """
    r, (action, way) = random.Random(f"{kind} {seed}"), kind.split("/")
    change, formats, _ = WAYS[way]
    wanted = r.choice([each for each in formats if each in ACTIONS[action]])
    # State is in models that are compiled.
    prefixes = ("fresh wrapped", "fresh tf_keras", "fresh keras") if action == "convert_state" else ("fresh",)
    new = [each for each in (fresh(of_today) if seed >= RECORDED_ONLY else ()) if each.name.startswith(prefixes)]
    old, new = ([each for each in found if each.format == wanted] for found in (recorded(), new))
    source = r.choice(r.choice((old, new or old)))
    path = source.copy(folder)
    what = change(r, path, canary)
    return f"{source.name}: {what}", str(path), str(source.named)
