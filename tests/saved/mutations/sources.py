"""What is mutated: the recorded artefacts, and models that today's frameworks have just written."""

from __future__ import annotations

import json
import pathlib
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import h5py

from tests.saved.artefacts import ARTEFACTS, CONFIGS, expected
from tests.saved.mutations.fresh_names import FOLDERS

_FORMATS = {"keras_h5": "h5", "more_keras_h5": "h5", "keras_v3": "keras", "keras_tf": "saved_model"}
_FORMATS |= {"keras_object": "checkpoint", "more_keras_object": "checkpoint", "v1_object": "checkpoint"}
_FORMATS |= {"v1_saver": "v1", "more_v1_saver": "v1"}


@dataclass(frozen=True)
class Source:
    """A file or folder.

    Attributes:
        name: for people.
        format: `'keras'`, `'h5'`, `'saved_model'`, `'checkpoint'` or `'v1'`.
        root: the folder, or the file if it is one.
        path: what a user would name, below the root; `''` for the root itself.
    """

    name: str
    format: str
    root: pathlib.Path
    path: str = ""

    @property
    def named(self) -> pathlib.Path:
        return self.root / self.path

    def copy(self, folder: pathlib.Path) -> pathlib.Path:
        """Copy it into a folder, and return what a user would name there."""
        if self.root.is_dir():
            shutil.copytree(self.root, folder / "copy", ignore=shutil.ignore_patterns("expected.json"))
            return folder / "copy" / self.path
        return pathlib.Path(shutil.copy(self.root, folder / self.root.name))


@dataclass
class Sources:
    """All of them.

    Attributes:
        files: models and checkpoints.
        configs: JSON values by name; those of whole optimizers end in `/get_config`.
    """

    files: list[Source]
    configs: list[tuple[str, Any]] = field(default_factory=list)

    def of(self, formats: Sequence[str]) -> list[Source]:
        return [each for each in self.files if each.format in formats]


def sources(fresh: pathlib.Path | None) -> Sources:
    """Return what is there.

    Args:
        fresh: the folder where `fresh.build` has written; None for recorded files only.
    """
    found = Sources([_recorded(folder) for folder in ARTEFACTS])
    if fresh is not None:
        found.files += [_fresh(path) for path in sorted(fresh.iterdir())]
    for path in CONFIGS:
        content = json.loads(path.read_text())
        found.configs += [(f"{path.stem}/{key}", content[key]) for key in ("get_config", "serialized") if content[key]]
        found.configs.append((path.stem, content))
    for source in found.of(("keras", "h5")):
        found.configs += [
            (f"{source.name}/{key}", json.loads(text)) for key, text in texts_of(source.format, source.named)
        ]
    return found


def texts_of(kind: str, path: pathlib.Path) -> list[tuple[str, str]]:
    """Return the configs in a file, as JSON, by their names."""
    if kind == "keras":
        with zipfile.ZipFile(path) as archive:
            return [(name, archive.read(name).decode()) for name in ("config.json", "metadata.json")]
    with h5py.File(path) as file:
        return [(key, file.attrs[key]) for key in ("model_config", "training_config")]


def _recorded(folder: pathlib.Path) -> Source:
    held = expected(folder)
    path = held.get("prefix") or held["path"]
    name = f"{folder.parent.name}/{folder.name}"
    kind = _FORMATS[folder.parent.name.partition(".")[0]]
    if kind in ("keras", "h5", "saved_model"):
        return Source(name, kind, folder / path)
    return Source(name, kind, folder, path)


def _fresh(path: pathlib.Path) -> Source:
    kind, below = FOLDERS.get(path.suffix, (path.suffix.removeprefix("."), ""))
    return Source(f"fresh {path.name}", kind, path, below)
