"""Open model files: their format, the Keras that wrote them, and their configs; no code in them is run."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import Any

from mpls.errors import MissingFileError, SavedStateError, error_text
from mpls.formats.families import Framework, framework_of_version
from mpls.formats.file_kinds import (
    ARCHIVE_CONFIG,
    ARCHIVE_METADATA,
    COMPILE_CONFIG,
    MODEL_CONFIG,
    ROOT,
    SAVED_MODEL,
    TRAINING_CONFIG,
    ModelFormat,
    kind_of_bytes,
)
from mpls.formats.record import FileRecord
from mpls.formats.validity import ANCHOR
from mpls.saved.archives import KerasArchive
from mpls.saved.config_safety import OwnObjects, refuse_unsafe_configs
from mpls.saved.errors import broken
from mpls.saved.files import open_file
from mpls.saved.graph_safety import refuse_unsafe_graph
from mpls.saved.hdf5 import H5Model
from mpls.saved.saved_models import SavedModel
from mpls.saved.texts import parse_json

# On Linux, a folder of links to the open files of the process. A link stays valid if the file's path changes.
_OPEN_FILES = "/proc/self/fd"
# In bytes. Some systems hold temporary files in memory, and may have no room for more.
_LARGE = 1 << 29
_ADVICE = "Load it once it has been written; mpls.keras.save_model writes such that others never see a part"


class OpenedFile:
    """An open file.

    Args:
        path: the path, for errors.
        file: the file.
    """

    def __init__(self, path: str, file: FileIO) -> None:
        self._path, self._file = path, file
        self._before = self._state()

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    @contextmanager
    def at_a_path(self) -> Iterator[str]:
        """Return a path that leads to the open file in a block, even if another file is moved to the original path.

        Systems without `/proc/self/fd` have no such paths. The block gets the original path there.

        Raises:
            SavedStateError: the block has got the original path, and another file is there at its end.
        """
        if os.path.isdir(_OPEN_FILES):
            with tempfile.TemporaryDirectory(prefix=".mpls-", dir=self._folder()) as folder:
                # Frameworks tell the format by the suffix.
                link = os.path.join(folder, f"model{os.path.splitext(self._path)[1]}")
                os.symlink(f"{_OPEN_FILES}/{self._file.fileno()}", link)
                yield link
            return
        yield self._path
        if not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
            raise self._refusal("another one at its place")

    def _folder(self) -> str | None:
        """Return the folder in which to make the link, beside which Keras 3 may unpack weights.

        It is the file's own folder if the file is large; else None, for the system's temporary folder.
        """
        folder = os.path.dirname(os.path.abspath(self._path))
        return folder if self._before[0] > _LARGE and os.access(folder, os.W_OK) else None

    def require_unchanged(self) -> None:
        """Refuse a file that was written to since it was opened.

        Raises:
            SavedStateError: its size or its modification time has changed.
        """
        if self._state() != self._before:
            raise self._refusal("another content")

    def _refusal(self, got: str) -> SavedStateError:
        return broken(self._path, "the file", "stay as it is while it is loaded", got, _ADVICE)


@dataclass(frozen=True)
class ModelFile:
    """An open model file, whose structure has been checked.

    Attributes:
        path: the path, as the user named it.
        format: its format.
        framework: the Keras that wrote it; None if the file does not say.
        configs: the decoded JSON texts in it, by their places.
        content: the reader of its format.
        opened: the open file; None for a folder.
    """

    path: str
    format: ModelFormat
    framework: Framework | None
    configs: Mapping[str, Any]
    content: KerasArchive | H5Model | SavedModel
    opened: OpenedFile | None = None

    @property
    def legacy_weights(self) -> dict[str, Any] | None:
        """The weights of a legacy optimizer that `mpls.keras.save_model` has added, by name; None if it has not."""
        return self.content.legacy_weights if isinstance(self.content, KerasArchive) else None

    @property
    def has_wrapped_optimizer(self) -> bool:
        """Whether it holds the variables of a wrapped optimizer apart from those of the wrapper."""
        return isinstance(self.content, KerasArchive) and self.content.has_wrapped

    def refuse_unsafe(self, own: OwnObjects, *, with_compile: bool = True) -> None:
        """Refuse a file that may run code, or reach out of itself, where `load_model` loads it.

        Args:
            own: the user's own objects, which the file may name.
            with_compile: whether the model is compiled with the file's settings.

        Raises:
            SavedStateError: the file is refused.
        """
        refuse_unsafe_configs(self.path, self.format, self.configs, own, with_compile=with_compile)
        if self.format == "SavedModel":
            refuse_unsafe_graph(self.path)

    def record(self) -> FileRecord:
        """Return a record of its optimizers; the arrays can be read while the file is open.

        Raises:
            SavedStateError: the state of an optimizer is broken or not valid.
        """
        return self.content.record()


@contextmanager
def opened_model(path: str) -> Iterator[ModelFile]:
    """Open a model file or folder in a block, and check its structure.

    H5 and `.keras` files are opened once, so that all is read from the same file.

    Raises:
        MissingFileError: the path does not exist.
        SavedStateError: it is not a model file, or broken.
    """
    path = _existing(path)
    if os.path.isdir(path):
        if not os.path.exists(os.path.join(path, SAVED_MODEL)):
            raise _no_model(path, f"a folder without {SAVED_MODEL}")
        yield _saved_model(path)
        return
    with open_file(path) as file:
        opened = OpenedFile(path, file)
        start = file.read(8)
        kind = kind_of_bytes(start)
        if kind == ".keras":
            with KerasArchive(path, file, lazily=True) as archive:
                yield _archive(path, archive, opened)
        elif kind == "H5":
            with H5Model(path, file, lazily=True) as model:
                yield _h5(path, model, opened)
        else:
            raise _no_model(path, start)


def _existing(path: str) -> str:
    # `save_model` may have been killed between the two renames with which it replaces a folder.
    for each in (path, f"{path}.old"):
        if os.path.exists(each):
            return each
    advice = f"See what is in {os.path.dirname(os.path.abspath(path))!r}"
    raise MissingFileError(
        error_text("mpls.keras.load_model: path", "be that of a file or folder", path, advice, ANCHOR)
    )


def _no_model(path: str, got: object) -> SavedStateError:
    error: SavedStateError = SavedStateError(
        error_text(
            path,
            "be a model: a SavedModel folder, an H5 file or a .keras file",
            got,
            "Checkpoints are restored by tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)",
            ANCHOR,
        )
    )
    return error


def _archive(path: str, archive: KerasArchive, opened: OpenedFile) -> ModelFile:
    for name in archive.names:
        # Frameworks unpack the members into a folder.
        if name.startswith("/") or ".." in re.split(r"[/\\]", name):
            raise broken(path, name, "be a place in the archive", "one outside")
    config = _require_dict(path, ARCHIVE_CONFIG, archive.config)
    _require_dict(path, ARCHIVE_METADATA, archive.metadata)
    configs = {ARCHIVE_CONFIG: config, COMPILE_CONFIG: config.get(COMPILE_CONFIG)}
    return ModelFile(path, ".keras", framework_of_version(archive.version), configs, archive, opened)


def _h5(path: str, model: H5Model, opened: OpenedFile) -> ModelFile:
    found = {key: model.config(key) for key in (MODEL_CONFIG, TRAINING_CONFIG)}
    configs = {key: config for key, config in found.items() if model.has_config(key)}
    if MODEL_CONFIG not in configs:
        raise SavedStateError(
            error_text(
                f"{path}: {MODEL_CONFIG}",
                "be there",
                sorted(configs),
                "A file of weights only is loaded by model.load_weights(path)",
                ANCHOR,
            )
        )
    for key, config in configs.items():
        _require_dict(path, key, config)
    return ModelFile(path, "H5", framework_of_version(model.version), configs, model, opened)


def _require_dict(path: str, key: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        advice = "Copy the file again, or use an earlier one"
        raise SavedStateError(error_text(f"{path}: {key}", "be a JSON object", found, advice, ANCHOR))
    return found


def _saved_model(path: str) -> ModelFile:
    model = SavedModel(path, lazily=True)
    configs = {key: parse_json(path, key, text) for key, text in model.texts().items() if text}
    if not configs:
        raise SavedStateError(
            error_text(
                path,
                "hold a Keras model",
                "a SavedModel without Keras metadata",
                "One that model.export() or tf.saved_model.save() wrote is loaded by tf.saved_model.load(path)",
                ANCHOR,
            )
        )
    root = configs.get(ROOT)
    if isinstance(root, dict) and TRAINING_CONFIG in root:
        configs[TRAINING_CONFIG] = root[TRAINING_CONFIG]
    return ModelFile(path, "SavedModel", "tf_keras", configs, model)
