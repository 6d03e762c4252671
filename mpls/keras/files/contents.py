"""What kind of model file a path is, which Keras wrote it, and the configs in it; nothing of it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from mpls.errors import MissingFileError, SavedStateError, error_text
from mpls.formats.validity import ANCHOR
from mpls.saved.archives import LEGACY_WEIGHTS, WEIGHTS
from mpls.saved.arrays import check_arrays
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.h5_vetting import check_h5
from mpls.saved.limits import unpacked_limit
from mpls.saved.saved_models import metadata_texts
from mpls.saved.texts import parse_json
from mpls.saved.zips import Archive

Format = Literal["SavedModel", "H5", ".keras"]
Framework = Literal["tf_keras", "keras"]

# Beside the members that Keras writes, which reads only those that it knows: what tf_keras does not save of legacy
# optimizers.
WEIGHTS_MEMBER = LEGACY_WEIGHTS
# What Keras reads where there is no H5 file.
_ARRAYS = "model.weights.npz"


@dataclass(frozen=True)
class ModelFile:
    """A model file.

    Attributes:
        path: as the user named it.
        format: its format.
        framework: the Keras that wrote it; None if the file does not say.
        configs: the JSON texts in it, decoded, by where they are.
        members: the names of an archive's members.
        arrays: how many arrays are in it; None if nobody has counted.
    """

    path: str
    format: Format
    framework: Framework | None
    configs: Mapping[str, Any]
    members: tuple[str, ...] = ()
    arrays: int | None = None


def open_model(path: str) -> ModelFile:
    """Return what is at a path.

    Raises:
        MissingFileError: there is nothing.
        SavedStateError: it is no model file, or a broken one.
    """
    if not os.path.exists(path):
        # While it replaces a folder, `save_model` may have been killed between two moves.
        if not os.path.exists(f"{path}.old"):
            subject, advice = (
                "mpls.keras.load_model: path",
                f"See what is in {os.path.dirname(os.path.abspath(path))!r}",
            )
            raise MissingFileError(error_text(subject, "be that of a file or folder", path, advice, ANCHOR))
        path = f"{path}.old"
    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, "saved_model.pb")):
            return _saved_model(path)
    else:
        with open(path, "rb") as file:
            start = file.read(8)
        if start[:4] == b"PK\x03\x04":
            return _archive(path)
        if start == b"\x89HDF\r\n\x1a\n":
            return _h5(path)
    raise SavedStateError(
        error_text(
            path,
            "be a model: a SavedModel folder, an H5 file or a .keras file",
            "a folder without saved_model.pb" if os.path.isdir(path) else start,
            "Checkpoints are restored by tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)",
            ANCHOR,
        )
    )


def _framework_of(version: Any) -> Framework | None:
    if isinstance(version, bytes):
        version = version.decode("utf-8", "replace")
    major = re.match(r"([0-9]{1,4})\.", version) if isinstance(version, str) else None
    if major is None:
        return None
    return "keras" if int(major[1]) >= 3 else "tf_keras"


def _archive(path: str) -> ModelFile:
    """Read the texts, and check everything that the framework would unpack."""
    with Archive(path, path) as archive:
        left = unpacked_limit(archive.size) - archive.unpacked
        texts: dict[str, Any] = {}
        arrays = None
        for name in archive.names:
            if name.startswith("/") or ".." in name.split("/"):
                raise broken(path, name, "be a place in the archive", "one outside")
            place, size = f"{path}/{name}", archive.stored_size(name)
            if name in ("config.json", "metadata.json"):
                texts[name] = parse_json(path, name, archive.read(name), size)
            elif name == WEIGHTS:
                arrays = len(check_h5(place, archive.read(name), left, size).datasets)
            elif name in (WEIGHTS_MEMBER, _ARRAYS):
                check_arrays(place, archive.read(name), left)
            else:
                archive.check(name)
        members = archive.names
    for name in ("config.json", "metadata.json"):
        _require_dict(path, name, texts.get(name))
    config, metadata = texts["config.json"], texts["metadata.json"]
    configs = {"config.json": config, "compile_config": config.get("compile_config")}
    return ModelFile(path, ".keras", _framework_of(metadata.get("keras_version")), configs, members, arrays)


def _h5(path: str) -> ModelFile:
    h5py: Any = import_module("h5py")
    texts: dict[str, Any] = {}
    arrays = len(check_h5(path, path).datasets)
    with reading_foreign_bytes(path, "the file", "be a whole HDF5 file"), h5py.File(path, "r") as file:
        for key in ("model_config", "training_config"):
            if key in file.attrs:
                texts[key] = file.attrs[key]
        version = file.attrs.get("keras_version")
    configs = {}
    for key, text in texts.items():
        with reading_foreign_bytes(path, key, "be a text"):
            configs[key] = parse_json(path, key, text if isinstance(text, str) else bytes(text))
    if "model_config" not in configs:
        raise SavedStateError(
            error_text(
                f"{path}: model_config",
                "be there",
                sorted(texts),
                "A file of weights only is loaded by model.load_weights(path)",
                ANCHOR,
            )
        )
    for key, found in configs.items():
        _require_dict(path, key, found)
    return ModelFile(path, "H5", _framework_of(version), configs, arrays=arrays)


def _require_dict(path: str, key: str, found: Any) -> None:
    if not isinstance(found, dict):
        advice = "Copy the file again, or use an earlier one"
        raise SavedStateError(error_text(f"{path}: {key}", "be a JSON object", found, advice, ANCHOR))


def _saved_model(path: str) -> ModelFile:
    texts = metadata_texts(path)
    configs = {key: parse_json(path, key, text) for key, text in texts.items() if text}
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
    return ModelFile(path, "SavedModel", "tf_keras", configs)
