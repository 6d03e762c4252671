"""What kind of model file a path is, which Keras wrote it, and the configs in it; nothing of it runs."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from mpls.errors import MissingFileError, SavedStateError, error_text
from mpls.saved.h5_vetting import check_h5
from mpls.saved.validity import ANCHOR, broken, reading_foreign_bytes

Format = Literal["SavedModel", "H5", ".keras"]
Framework = Literal["tf_keras", "keras"]

# Beside the members that Keras writes, which reads only those that it knows: what tf_keras does not save of legacy
# optimizers.
WEIGHTS_MEMBER = "optimizer_weights.npz"


@dataclass(frozen=True)
class ModelFile:
    """A model file.

    Attributes:
        path: as the user named it.
        format: its format.
        framework: the Keras that wrote it; None if the file does not say.
        configs: the JSON texts in it, decoded, by where they are.
        members: the names of an archive's members.
    """

    path: str
    format: Format
    framework: Framework | None
    configs: Mapping[str, Any]
    members: tuple[str, ...] = ()


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
    if not isinstance(version, str) or not version[:1].isdigit():
        return None
    return "keras" if int(version.partition(".")[0]) >= 3 else "tf_keras"


def _decoded(path: str, key: str, text: Any) -> Any:
    with reading_foreign_bytes(path, key, "be JSON"):
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text)


def _archive(path: str) -> ModelFile:
    with reading_foreign_bytes(path, "the archive", "be a whole zip file"), zipfile.ZipFile(path) as archive:
        members = tuple(archive.namelist())
        # Reads all, and compares the checksums.
        damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"{damaged} is damaged")
        texts = {name: archive.read(name) for name in ("config.json", "metadata.json")}
    config, metadata = (_decoded(path, name, text) for name, text in texts.items())
    for name, found in (("config.json", config), ("metadata.json", metadata)):
        _require_dict(path, name, found)
    configs = {"config.json": config, "compile_config": config.get("compile_config")}
    return ModelFile(path, ".keras", _framework_of(metadata.get("keras_version")), configs, members)


def _h5(path: str) -> ModelFile:
    h5py: Any = import_module("h5py")
    texts: dict[str, Any] = {}
    check_h5(path, path)
    with reading_foreign_bytes(path, "the file", "be a whole HDF5 file"), h5py.File(path, "r") as file:
        for key in ("model_config", "training_config"):
            if key in file.attrs:
                texts[key] = file.attrs[key]
        version = file.attrs.get("keras_version")
    configs = {key: _decoded(path, key, text) for key, text in texts.items()}
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
    return ModelFile(path, "H5", _framework_of(version), configs)


def _require_dict(path: str, key: str, found: Any) -> None:
    if not isinstance(found, dict):
        advice = "Copy the file again, or use an earlier one"
        raise SavedStateError(error_text(f"{path}: {key}", "be a JSON object", found, advice, ANCHOR))


def _saved_model(path: str) -> ModelFile:
    from tf_keras.protobuf import saved_metadata_pb2

    metadata = saved_metadata_pb2.SavedMetadata()
    beside = os.path.join(path, "keras_metadata.pb")
    texts: dict[str, str] = {}
    if os.path.exists(beside):
        _parse(path, "keras_metadata.pb", metadata)
        texts = {node.node_path or str(node.node_id): node.metadata for node in metadata.nodes}
    else:
        # Up to TF 2.4 it is in the graph.
        texts = _texts_of_graph(path)
    configs = {key: _decoded(path, key, text) for key, text in texts.items() if text}
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


def _parse(path: str, name: str, message: Any) -> None:
    with reading_foreign_bytes(path, name, "be whole"), open(os.path.join(path, name), "rb") as file:
        text = file.read()
    try:
        message.ParseFromString(text)
    except Exception as error:
        # DecodeError, of a package that is TensorFlow's own dependency.
        raise broken(path, name, "be whole", f"{type(error).__name__}: {error}") from error


def _texts_of_graph(path: str) -> dict[str, str]:
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel()
    _parse(path, "saved_model.pb", proto)
    texts: dict[str, str] = {}
    for graph in proto.meta_graphs:
        for number, node in enumerate(graph.object_graph_def.nodes):
            if node.WhichOneof("kind") == "user_object" and node.user_object.identifier.startswith("_tf_keras_"):
                texts["root" if number == 0 else f"node {number}"] = node.user_object.metadata
    return texts
