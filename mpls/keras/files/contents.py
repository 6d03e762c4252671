"""A model file, open: of what kind it is, which Keras wrote it, and the configs in it; nothing of it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mpls.errors import MissingFileError, SavedStateError, error_text
from mpls.formats.families import Framework, framework_of_version
from mpls.formats.file_kinds import SAVED_MODEL, ModelFormat, kind_of_bytes
from mpls.formats.record import FileRecord
from mpls.formats.validity import ANCHOR
from mpls.keras.files.pinning import PinnedFile
from mpls.saved.archives import KerasArchive
from mpls.saved.errors import broken
from mpls.saved.files import open_file
from mpls.saved.hdf5 import H5Model
from mpls.saved.saved_models import SavedModel
from mpls.saved.texts import parse_json


@dataclass(frozen=True)
class ModelFile:
    """A model file, which has been looked at as a whole.

    Attributes:
        path: as the user named it.
        format: its format.
        framework: the Keras that wrote it; None if the file does not say.
        configs: the JSON texts in it, decoded, by where they are.
        content: what reads it.
        pinned: the file itself, open; None of a folder.
    """

    path: str
    format: ModelFormat
    framework: Framework | None
    configs: Mapping[str, Any]
    content: KerasArchive | H5Model | SavedModel
    pinned: PinnedFile | None = None

    @property
    def arrays(self) -> int | None:
        """How many arrays are in it; None if nobody has counted."""
        return None if isinstance(self.content, SavedModel) else self.content.arrays

    @property
    def legacy_weights(self) -> dict[str, Any] | None:
        """The arrays that `mpls.keras.save_model` adds for legacy optimizers; None if there are none."""
        return self.content.legacy_weights if isinstance(self.content, KerasArchive) else None

    @property
    def has_wrapped_optimizer(self) -> bool:
        """Whether the variables of a wrapped optimizer are there by themselves, beside those of the wrapper."""
        return isinstance(self.content, KerasArchive) and self.content.has_wrapped

    def record(self) -> FileRecord:
        """Return the optimizers in it; their arrays are read while the file is open.

        Raises:
            SavedStateError: it holds state that no optimizer can have.
        """
        return self.content.record()


@contextmanager
def opened_model(path: str) -> Iterator[ModelFile]:
    """Open what is at a path, once: all that is known of it is read from the same file.

    Raises:
        MissingFileError: there is nothing.
        SavedStateError: it is no model file, or a broken one.
    """
    path = _existing(path)
    if os.path.isdir(path):
        if not os.path.exists(os.path.join(path, SAVED_MODEL)):
            raise _no_model(path, f"a folder without {SAVED_MODEL}")
        yield _saved_model(path)
        return
    with open_file(path) as file:
        pinned = PinnedFile(path, file)
        start = file.read(8)
        kind = kind_of_bytes(start)
        if kind == ".keras":
            with KerasArchive(path, file, lazily=True) as archive:
                yield _archive(path, archive, pinned)
        elif kind == "H5":
            with H5Model(path, file, lazily=True) as model:
                yield _h5(path, model, pinned)
        else:
            raise _no_model(path, start)


def _existing(path: str) -> str:
    # While it replaces a folder, `save_model` may have been killed between two moves.
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


def _archive(path: str, archive: KerasArchive, pinned: PinnedFile) -> ModelFile:
    for name in archive.names:
        # Frameworks unpack them.
        if name.startswith("/") or ".." in name.split("/"):
            raise broken(path, name, "be a place in the archive", "one outside")
    config = _require_dict(path, "config.json", archive.config)
    _require_dict(path, "metadata.json", archive.metadata)
    configs = {"config.json": config, "compile_config": config.get("compile_config")}
    return ModelFile(path, ".keras", framework_of_version(archive.version), configs, archive, pinned)


def _h5(path: str, model: H5Model, pinned: PinnedFile) -> ModelFile:
    found = {key: model.config(key) for key in ("model_config", "training_config")}
    configs = {key: config for key, config in found.items() if model.has_config(key)}
    if "model_config" not in configs:
        raise SavedStateError(
            error_text(
                f"{path}: model_config",
                "be there",
                sorted(configs),
                "A file of weights only is loaded by model.load_weights(path)",
                ANCHOR,
            )
        )
    for key, config in configs.items():
        _require_dict(path, key, config)
    return ModelFile(path, "H5", framework_of_version(model.version), configs, model, pinned)


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
    root = configs.get("root")
    if isinstance(root, dict) and "training_config" in root:
        configs["training_config"] = root["training_config"]
    return ModelFile(path, "SavedModel", "tf_keras", configs, model)
