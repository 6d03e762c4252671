"""Seeded mutations of the recorded configs and small files."""

from __future__ import annotations

import io
import json
import pathlib
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import h5py

from tests.saved.artefacts import ARTEFACTS, CONFIGS, expected, path_of

NUMBERS: list[Any] = [0, -1, 1, 2.5, -0.0, 1e-50, 1e39, 1e308, 10**30, 10**400, 2**63, -(2**63) - 1]
NUMBERS += [float("nan"), float("inf"), float("-inf")]
OTHERS: list[Any] = [None, True, False, "", "dynamic", "NaN", "\x00", "é" * 40, [], {}, [1, 2], {"a": 1}, [[]]]
NAMES = ["class_name", "config", "inner_optimizer", "optimizer", "loss_scale", "module", "registered_name", "name"]
NAMES += ["dynamic", "initial_scale", "dynamic_growth_steps", "loss_scale_state", "learning_rate", "extra", ""]
CLASSES = ["Adam", "LossScaleOptimizer", "LossScaleOptimizerV3", "FixedLossScale", "DynamicLossScale", "os>system", "X"]


class Mutator:
    """Changes JSON values and bytes; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self) -> Any:
        pool = self.random.choice([NUMBERS, OTHERS, CLASSES])
        return _copy(self.random.choice(pool))

    def config(self, config: Any) -> Any:
        """Return a config with one to three changes."""
        changed = {"root": _copy(config)}
        for _ in range(self.random.randint(1, 3)):
            self._change(changed)
        return changed["root"]

    def _change(self, root: dict[str, Any]) -> None:
        places = list(_places(root))
        parent, key = self.random.choice(places)
        kind = self.random.choice(("value", "value", "swap", "remove", "add", "type", "nest", "wrap"))
        if kind == "swap":
            other, other_key = self.random.choice(places)
            value = _copy(other[other_key])
            other[other_key] = _copy(parent[key])
            parent[key] = value
        elif kind == "remove" and parent is not root:
            del parent[key]
        elif kind == "add" and isinstance(parent[key], dict):
            parent[key][self.random.choice(NAMES)] = self.value()
        elif kind == "type":
            parent[key] = self.random.choice((str, repr, lambda each: [each], lambda each: {"value": each}))(
                parent[key]
            )
        elif kind == "nest":
            for _ in range(self.random.choice((1, 5, 30))):
                parent[key] = {"config": parent[key]} if self.random.random() < 0.5 else [parent[key]]
        elif kind == "wrap":
            parent[key] = {"class_name": self.random.choice(CLASSES), "config": {"inner_optimizer": parent[key]}}
        else:
            parent[key] = self.value()

    def content(self, content: bytes) -> bytes:
        """Return a file's content with bits flipped, parts cut off, blanked, doubled or in another place."""
        changed = bytearray(content)
        kind = self.random.choice(("flip", "flip", "flip", "cut", "blank", "double", "move", "huge"))
        size = len(changed)
        start = self.random.randrange(size)
        length = self.random.choice((1, 4, 8, 64, 512))
        if kind == "flip":
            for _ in range(self.random.choice((1, 1, 2, 8, 64))):
                changed[self.random.randrange(size)] ^= 1 << self.random.randrange(8)
        elif kind == "cut":
            del changed[start:]
        elif kind == "blank":
            changed[start : start + length] = bytes(len(changed[start : start + length]))
        elif kind == "double":
            changed[start:start] = changed[start : start + length]
        elif kind == "move":
            block = changed[start : start + length]
            del changed[start : start + length]
            target = self.random.randrange(len(changed) + 1)
            changed[target:target] = block
        else:
            changed[start : start + 8] = b"\xff" * len(changed[start : start + 8])
        return bytes(changed)


def _copy(value: Any) -> Any:
    # Nested values are too deep for copy.deepcopy.
    return json.loads(json.dumps(value))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a JSON value as `(container, key)`."""
    stack = [value]
    while stack:
        each = stack.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            yield each, key
            stack.append(each[key])


def config_sources() -> list[tuple[str, Any]]:
    """Return what releases have written as JSON, by name."""
    sources = []
    for path in CONFIGS:
        content = json.loads(path.read_text())
        sources += [(f"{path.stem}/{key}", content[key]) for key in ("get_config", "serialized") if content[key]]
        sources.append((path.stem, content))
    for folder in ARTEFACTS:
        path = path_of(folder)
        if path.endswith(".keras"):
            with zipfile.ZipFile(path) as archive:
                sources.append((f"{folder.name}/config.json", json.loads(archive.read("config.json"))))
        elif path.endswith(".h5"):
            with h5py.File(path) as file:
                sources.append((f"{folder.name}/training_config", json.loads(file.attrs["training_config"])))
    return sources


def mutated_config(seed: int, sources: list[tuple[str, Any]]) -> tuple[str, Any]:
    """Return the source's name and what has become of it."""
    mutator = Mutator(seed)
    name, config = mutator.random.choice(sources)
    return name, mutator.config(config)


def mutated_artefact(seed: int, folder: pathlib.Path, sources: Sequence[pathlib.Path] = ARTEFACTS) -> tuple[str, str]:
    """Write a recorded artefact with something changed into a folder that is empty.

    Returns:
        What was changed, and the path to read.
    """
    mutator = Mutator(seed)
    source = mutator.random.choice(sources)
    shutil.copytree(source, folder, dirs_exist_ok=True)
    (folder / "expected.json").unlink()
    held = expected(source)
    path = folder / (held.get("prefix") or held["path"])
    ways: list[Callable[[Mutator, pathlib.Path], str]] = [_bytes_of_some_file]
    if path.suffix == ".keras":
        ways += [_member_of_archive, _attribute_or_dataset]
    elif path.suffix == ".h5":
        ways += [_attribute_or_dataset]
    way = mutator.random.choice(ways)
    return f"{source.parent.name}/{source.name}: {way(mutator, path)}", str(path)


def _bytes_of_some_file(mutator: Mutator, path: pathlib.Path) -> str:
    folder = path.parent if path.parent.name != "variables" else path.parent.parent
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    file = mutator.random.choice(files)
    file.write_bytes(mutator.content(file.read_bytes()))
    return file.name


def _member_of_archive(mutator: Mutator, path: pathlib.Path) -> str:
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    name = mutator.random.choice(sorted(content))
    if name == "config.json":
        content[name] = json.dumps(mutator.config(json.loads(content[name]))).encode("utf-8", "replace")
    else:
        content[name] = mutator.content(content[name])
    _write_archive(path, content)
    return name


def _write_archive(path: pathlib.Path, content: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in content.items():
            archive.writestr(name, value)


def _attribute_or_dataset(mutator: Mutator, path: pathlib.Path) -> str:
    """Change an H5 file so that it stays one."""
    if path.suffix == ".h5":
        with h5py.File(path, "r+") as file:
            return _change_h5(mutator, file)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    stream = io.BytesIO(content["model.weights.h5"])
    with h5py.File(stream, "r+") as file:
        what = _change_h5(mutator, file)
    content["model.weights.h5"] = stream.getvalue()
    _write_archive(path, content)
    return what


def _change_h5(mutator: Mutator, file: Any) -> str:
    if "training_config" in file.attrs and mutator.random.random() < 0.5:
        config = mutator.config(json.loads(file.attrs["training_config"]))
        file.attrs["training_config"] = json.dumps(config).replace("\x00", "")
        return "training_config"
    names: list[str] = []
    file.visit(names.append)
    name = mutator.random.choice(sorted(names))
    del file[name]
    kind = mutator.random.choice(("remove", "scalar", "text", "shape"))
    if kind == "scalar":
        file[name] = mutator.random.choice([0, -1, 1, 0.5, -2.0, float("nan"), float("inf"), 2**40])
    elif kind == "text":
        file[name] = "text"
    elif kind == "shape":
        file.create_dataset(name, (3, 0, 5), "float64")
    return f"{name} ({kind})"
