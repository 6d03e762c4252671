"""Copies of the recorded artefacts with something in them changed."""

from __future__ import annotations

import io
import json
import pathlib
import shutil
import zipfile
from collections.abc import Mapping
from typing import Any

import h5py
import tensorflow as tf

from tests.saved.artefacts import DATA

SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


def rewrite_checkpoint(source: pathlib.Path, target: pathlib.Path, changes: Mapping[str, Any]) -> None:
    """Write a copy by TensorFlow itself; None leaves a key out."""
    reader = tf.train.load_checkpoint(str(source))
    values = {key: reader.get_tensor(key) for key in sorted(reader.get_variable_to_shape_map())}
    assert values.keys() >= changes.keys()
    kept = {key: tf.constant(value) for key, value in {**values, **changes}.items() if value is not None}
    slices = [""] * len(kept)
    tf.raw_ops.SaveV2(prefix=str(target), tensor_names=[*kept], shape_and_slices=slices, tensors=[*kept.values()])


def checkpoint(name: str, folder: pathlib.Path, changes: Mapping[str, Any]) -> pathlib.Path:
    """Return the prefix of a changed copy of a recorded checkpoint."""
    source = next((DATA / "artefacts" / name).glob("*.index")).with_suffix("")
    rewrite_checkpoint(source, folder / "ckpt", changes)
    return folder / "ckpt"


def saved_model(name: str, folder: pathlib.Path, changes: Mapping[str, Any]) -> pathlib.Path:
    """Return a changed copy of a recorded SavedModel."""
    source, target = DATA / "artefacts" / name / "saved_model", folder / "saved_model"
    shutil.copytree(source, target)
    for file in (target / "variables").iterdir():
        file.unlink()
    rewrite_checkpoint(source / "variables" / "variables", target / "variables" / "variables", changes)
    return target


def h5(name: str, folder: pathlib.Path, datasets: Mapping[str, Any], **attributes: Any) -> pathlib.Path:
    """Return a changed copy of a recorded H5 file; None removes a dataset or an attribute."""
    target = folder / "model.h5"
    shutil.copy(DATA / "artefacts" / name / "model.h5", target)
    with h5py.File(target, "r+") as file:
        _change(file, datasets)
        for key, value in attributes.items():
            del file.attrs[key]
            if value is not None:
                file.attrs[key] = value
    return target


def _change(file: Any, datasets: Mapping[str, Any]) -> None:
    for key, value in datasets.items():
        del file[key]
        if value is not None:
            file[key] = value


def archive(name: str, folder: pathlib.Path, datasets: Mapping[str, Any], **members: bytes | None) -> pathlib.Path:
    """Return a changed copy of a recorded .keras file; members by their names without what follows the dot."""
    target = folder / "model.keras"
    with zipfile.ZipFile(DATA / "artefacts" / name / "model.keras") as source:
        content = {key: source.read(key) for key in source.namelist()}
    stream = io.BytesIO(content["model.weights.h5"])
    with h5py.File(stream, "r+") as file:
        _change(file, datasets)
    content["model.weights.h5"] = stream.getvalue()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written:
        for key, value in content.items():
            replaced = members.get(key.partition(".")[0], value)
            if replaced is not None:
                written.writestr(key, replaced)
    return target


def config(name: str) -> dict[str, Any]:
    """Return the serialized wrapper of a recorded config."""
    return dict(json.loads((DATA / "configs" / f"{name}.json").read_text())["serialized"])
