"""A case: a mutated file, and what is to be done with it."""

from __future__ import annotations

import json
import pathlib
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.saved.mutations import archives, configs, folders, hdf5, tensors
from tests.saved.mutations.canary import Canary
from tests.saved.mutations.payloads import Payloads
from tests.saved.mutations.sources import Source, Sources, texts_of
from tests.saved.mutations.values import Mutator

_MODELS = ("keras", "h5", "saved_model")
_ALL = (*_MODELS, "checkpoint", "v1")
_WEIGHTS = "model.weights.h5"

# What is done with how many of a thousand cases, and with what.
KINDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "inspect/values": (70, ()),
    "inspect/configs": (70, ("keras", "h5", "h5", "saved_model")),
    "inspect/bytes": (70, _ALL),
    "inspect/hdf5": (80, ("keras", "h5")),
    "inspect/zip": (60, ("keras",)),
    "inspect/folders": (60, ("saved_model", "checkpoint", "v1")),
    "inspect/tensors": (60, ("saved_model", "checkpoint", "checkpoint", "v1", "v1")),
    "load_model/configs": (150, ("keras", "keras", "h5", "h5", "saved_model")),
    "load_model/bytes": (40, _MODELS),
    "load_model/hdf5": (80, ("keras", "h5")),
    "load_model/zip": (50, ("keras",)),
    "load_model/folders": (50, ("saved_model",)),
    "load_model/tensors": (20, ("saved_model",)),
    "convert_state/configs": (20, ("keras", "h5")),
    "convert_state/bytes": (20, _ALL),
    "convert_state/hdf5": (25, ("keras", "h5")),
    "convert_state/zip": (10, ("keras",)),
    "convert_state/folders": (15, ("saved_model", "checkpoint")),
    "convert_state/tensors": (20, ("saved_model", "checkpoint")),
    "from_config/configs": (50, ()),
}


@dataclass(frozen=True)
class Case:
    """What was made.

    Attributes:
        kind: one of `KINDS`.
        seed: its seed.
        what: of what, and what was changed.
        path: what is to be read.
        honest: the same before it was changed.
    """

    kind: str
    seed: int
    what: str
    path: str
    honest: str


ACTIONS = ("inspect", "load_model", "convert_state", "from_config")


def spread(count: int, actions: Sequence[str] = ACTIONS) -> list[tuple[str, int]]:
    """Return kinds and seeds of so many cases, all kinds of these actions among them."""
    shares = {kind: share for kind, (share, _) in KINDS.items() if kind.partition("/")[0] in actions}
    total = sum(shares.values())
    found = []
    for kind, share in shares.items():
        found += [(kind, seed) for seed in range(max(count * share // total, 1))]
    largest = max(shares, key=lambda kind: shares[kind])
    start = sum(kind == largest for kind, _ in found)
    return found + [(largest, start + number) for number in range(count - len(found))]


def make(kind: str, seed: int, folder: pathlib.Path, canary: Canary, sources: Sources) -> Case:
    """Write the case of a kind and seed into an empty folder."""
    mutator = Mutator(f"{kind} {seed}")
    payloads = Payloads(mutator.random, canary)
    _, formats = KINDS[kind]
    way = kind.partition("/")[2]
    if not formats:
        name, config = mutator.random.choice(_whole_configs(kind, sources))
        if way == "values":
            what, text = "values", json.dumps(mutator.config(config))
        else:
            what, config = configs.mutated(mutator, payloads, config, _values(sources))
            text = json.dumps(config)
        path = folder / "config.json"
        path.write_text(text)
        return Case(kind, seed, f"{name}: {what}", str(path), "")
    wanted = mutator.random.choice(formats)
    source = mutator.random.choice(sources.of((wanted,)))
    path = source.copy(folder)
    ways: dict[str, Callable[[], str]] = {
        "configs": lambda: _config(mutator, payloads, source, path, sources),
        "bytes": lambda: _bytes(mutator, path),
        "hdf5": lambda: _hdf5(mutator, source, path, canary),
        "zip": lambda: archives.mutate(mutator, path, canary),
        "folders": lambda: folders.mutate(mutator, path, canary),
        "tensors": lambda: tensors.mutate(mutator, path),
    }
    what = ways[way]()
    return Case(kind, seed, f"{source.name}: {what}", str(path), str(source.named))


def _whole_configs(kind: str, sources: Sources) -> list[tuple[str, Any]]:
    if kind.startswith("from_config"):
        return [each for each in sources.configs if each[0].endswith("/get_config")]
    return sources.configs


def _values(sources: Sources) -> list[Any]:
    return [config for _, config in sources.configs]


def _bytes(mutator: Mutator, path: pathlib.Path) -> str:
    root = path if path.is_dir() else path.parent
    file = path if path.is_file() else mutator.random.choice(sorted(each for each in root.rglob("*") if each.is_file()))
    file.write_bytes(mutator.content(file.read_bytes()))
    return f"{file.name}: bytes"


def _hdf5(mutator: Mutator, source: Source, path: pathlib.Path, canary: Canary) -> str:
    if source.format == "h5":
        return hdf5.mutate(mutator, path, canary)
    members = archives.members_of(path)
    inner = path.parent / "inner.h5"
    inner.write_bytes(members[_WEIGHTS])
    what = hdf5.mutate(mutator, inner, canary)
    members[_WEIGHTS] = inner.read_bytes()
    inner.unlink()
    archives.write(path, members, mutator.random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return f"{_WEIGHTS}: {what}"


def _config(mutator: Mutator, payloads: Payloads, source: Source, path: pathlib.Path, sources: Sources) -> str:
    if source.format == "saved_model":
        return _metadata(mutator, payloads, path, sources)
    texts = dict(texts_of(source.format, path))
    key = mutator.random.choice([name for name in texts if name != "metadata.json"])
    if "metadata.json" in texts and mutator.random.random() < 0.1:
        key = "metadata.json"
    what, text = _changed(mutator, payloads, texts[key], sources)
    if source.format == "h5":
        hdf5.set_text(path, key, text)
    else:
        members = archives.members_of(path)
        members[key] = text.encode("utf-8", "surrogatepass")
        archives.write(path, members, mutator.random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return f"{key}: {what}"


def _changed(mutator: Mutator, payloads: Payloads, text: str, sources: Sources) -> tuple[str, str]:
    what, config = configs.mutated(mutator, payloads, json.loads(text), _values(sources))
    odd, written = configs.text(mutator, config)
    return what + odd, written


def _metadata(mutator: Mutator, payloads: Payloads, path: pathlib.Path, sources: Sources) -> str:
    """Change what a SavedModel says of its Keras model: in a file of its own, or up to TF 2.4 in the graph's."""
    from tensorflow.core.protobuf import saved_model_pb2
    from tf_keras.protobuf import saved_metadata_pb2

    beside = path / "keras_metadata.pb"
    message: Any = saved_metadata_pb2.SavedMetadata() if beside.exists() else saved_model_pb2.SavedModel()
    file = beside if beside.exists() else path / "saved_model.pb"
    message.ParseFromString(file.read_bytes())
    if beside.exists():
        nodes = list(message.nodes)
    else:
        held = message.meta_graphs[0].object_graph_def.nodes
        nodes = [node.user_object for node in held if node.WhichOneof("kind") == "user_object"]
    # The first is the model.
    texts = [node for node in nodes if node.metadata.startswith("{")]
    node = texts[0] if mutator.random.random() < 0.5 else mutator.random.choice(texts)
    what, text = _changed(mutator, payloads, node.metadata, sources)
    # Text in these is UTF-8.
    node.metadata = text.encode("utf-8", "replace").decode()
    file.write_bytes(message.SerializeToString())
    return f"{file.name}: {what}"


def keep(case: Case, folder: pathlib.Path) -> None:
    """Copy a case's files to where they stay."""
    shutil.copytree(pathlib.Path(case.path).parent, folder, dirs_exist_ok=True, symlinks=True)
