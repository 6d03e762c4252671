"""Read what any release has saved: checkpoints, models and configs.

`read` is the only function here that others need. It imports neither TensorFlow nor Keras, runs nothing that a file
holds, opens nothing outside the path, and raises `mpls.errors.SavedStateError` over whatever is broken.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mpls.errors import error_text
from mpls.formats.file_kinds import INDEX, LATEST, SAVED_MODEL, kind_of_bytes
from mpls.formats.object_graph import GRAPH_KEY
from mpls.formats.record import FileRecord, OptimizerRecord
from mpls.formats.validity import ANCHOR
from mpls.saved.archives import KerasArchive
from mpls.saved.bundles import Bundle
from mpls.saved.checkpoints import ObjectCheckpoint
from mpls.saved.errors import FROM_WRITER, NotAnArtefactError, broken
from mpls.saved.files import open_file, read_bytes
from mpls.saved.hdf5 import H5Model
from mpls.saved.name_checkpoints import read_names
from mpls.saved.optimizer_configs import read_optimizer
from mpls.saved.saved_models import SavedModel
from mpls.saved.texts import parse_json

__all__ = ["read"]

_KINDS = (
    "be a checkpoint's prefix, a folder with a checkpoint, a SavedModel folder, an H5 file, a .keras file or a config "
    "in JSON"
)


def read(path: str | os.PathLike[str]) -> FileRecord:
    """Return which optimizers, slots and loss scales a file or a folder holds.

    Args:
        path: a checkpoint (its prefix as `'run/ckpt-1'`, its `.index` file, or the folder, whose latest one is taken),
            of `tf.train.Checkpoint` or of `tf.compat.v1.train.Saver`; a SavedModel folder; an H5 file; a `.keras` file;
            or a JSON file with a config of an optimizer, of training or of a model.

    Returns:
        Plain numbers and NumPy arrays. What the file does not say is None, empty or missing: object-based checkpoints
        hold no settings of a loss scale, and H5 and `.keras` files of tf_keras no current scale. `algorithm` is the
        Keras class, also for v1 optimizers (`'SGD'` for `MomentumOptimizer`). Slots have the names of the family:
        `'m'`, `'v'` and `'momentum'` in legacy and v1 optimizers, `'m'`, `'v'` or `'velocity'` in new ones,
        `'momentum'` and `'velocity'` in Keras 3. `others` holds `'momentum_cache'` of a legacy and `'_u_product'` of
        another Nadam, and the beta powers of v1's Adam by their full names. `.keras` files name no variables: theirs
        have neither key nor name, and come in the order in which the optimizer was built.

    Raises:
        SavedStateError: what is there is broken, or cannot be the state of an optimizer. A subclass,
            `mpls.saved.errors.NotAnArtefactError`, if there is nothing, or nothing of these kinds.

    Example:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "config.json"
        >>> inner = {"class_name": "SGD", "config": {"learning_rate": 0.5}}
        >>> config = {"inner_optimizer": inner, "dynamic": True, "initial_scale": 64.0, "dynamic_growth_steps": 5}
        >>> _ = path.write_text(json.dumps(config))
        >>> optimizer, = read(path).optimizers
        >>> optimizer.algorithm, optimizer.loss_scale.initial_scale
        ('SGD', 64.0)
    """
    text = os.fspath(path)
    if os.path.isdir(text):
        return _read_folder(text)
    for prefix in _prefixes(text):
        if os.path.lexists(prefix + INDEX):
            return replace(_read_checkpoint(prefix), path=text)
    if not os.path.exists(text):
        raise _not_one(text, "nothing")
    with open_file(text) as file:
        start = file.read(512)
        kind = kind_of_bytes(start)
        if kind == "H5":
            with H5Model(text, file) as model:
                return model.record()
        if kind == ".keras":
            with KerasArchive(text, file) as archive:
                return archive.record()
    if kind == "config":
        return _read_json(text)
    if kind == "list of checkpoints":
        return _read_folder(os.path.dirname(text) or ".")
    raise _not_one(text, f"a file that starts with {start[:16]!r}")


def _not_one(path: str, got: str) -> NotAnArtefactError:
    error: NotAnArtefactError = NotAnArtefactError(error_text(path, _KINDS, got, "Name one of these", ANCHOR))
    return error


def _prefixes(path: str) -> list[str]:
    prefixes = [path]
    if path.endswith(INDEX):
        prefixes.append(path.removesuffix(INDEX))
    head, separator, rest = path.rpartition(".data-")
    if separator and rest.replace("-of-", "").isdecimal():
        prefixes.append(head)
    return prefixes


def _read_folder(path: str) -> FileRecord:
    if os.path.lexists(os.path.join(path, SAVED_MODEL)):
        return SavedModel(path).record()
    if os.path.lexists(os.path.join(path, LATEST)):
        return replace(_read_checkpoint(_latest(path)), path=path)
    found = sorted(name.removesuffix(INDEX) for name in os.listdir(path) if name.endswith(INDEX))
    if len(found) == 1:
        return replace(_read_checkpoint(os.path.join(path, found[0])), path=path)
    if found:
        got = f"{len(found)} checkpoints, {', '.join(found[:10])}"
        raise NotAnArtefactError(error_text(path, "hold one checkpoint", got, "Name one of them", ANCHOR))
    raise _not_one(path, "a folder without one")


def _latest(folder: str) -> str:
    """Return the prefix that a folder's `checkpoint` file names; it may have been written when it lay elsewhere."""
    path = os.path.join(folder, LATEST)
    key = "model_checkpoint_path"
    for line in read_bytes(path, folder, 1 << 22).decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            prefix = os.path.join(folder, os.path.basename(value.strip().strip('"')))
            if not os.path.lexists(prefix + INDEX):
                raise broken(path, key, f"name a checkpoint in {folder}", value.strip(), "Name the checkpoint itself")
            return prefix
    raise broken(path, key, "be there", "nothing", "Name the checkpoint itself")


def _read_checkpoint(prefix: str) -> FileRecord:
    bundle = Bundle(prefix)
    if GRAPH_KEY not in bundle:
        records = read_names(bundle)
        return FileRecord(prefix, "v1 checkpoint", "TF 1, or tf.compat.v1", records)
    checkpoint = ObjectCheckpoint(bundle)
    records = checkpoint.optimizers()
    return FileRecord(prefix, "object checkpoint", _writers(checkpoint, records), records)


def _writers(checkpoint: ObjectCheckpoint, records: list[OptimizerRecord]) -> str:
    families = {record.family for record in records}
    if families == {"keras3"}:
        return "Keras 3"
    if families == {"new"}:
        return "TF 2.11 to 2.15, or tf_keras"
    if families == {"v1"}:
        return "TF 1, or tf.compat.v1"
    if families == {"legacy"}:
        if any(checkpoint.is_old_layout(record.key) for record in records):
            return "TF 1.15 to 2.2"
        return "TF 2.3 or later" if any(record.loss_scale for record in records) else "TF 1.14 or later"
    return "TF 1.14 or later, or Keras 3"


def _read_json(path: str) -> FileRecord:
    content: Any = parse_json(path, "the file", read_bytes(path))
    if not isinstance(content, Mapping):
        raise broken(path, "the file", "be a config", content, FROM_WRITER)
    place, config = _optimizer_in(content)
    if place is None:
        return FileRecord(path, "config", "Keras", ())
    if config is None:
        raise broken(path, place, "be a config of an optimizer", None, FROM_WRITER)
    record = read_optimizer(path, place, config)
    return FileRecord(path, "config", record.written_by, [replace(record.optimizer, key=place or "config")])


def _optimizer_in(content: Mapping[str, Any]) -> tuple[str | None, Any]:
    """Return where in a config one of an optimizer is, and that; None where it is one of a model without any."""
    for way in (
        ("serialized",),
        ("get_config",),
        ("compile_config", "optimizer"),
        ("training_config", "optimizer_config"),
        ("optimizer_config",),
    ):
        value: Any = content
        for key in way:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return "/".join(way), value
    settings = content.get("config")
    if isinstance(settings, Mapping) and ("layers" in settings or "build_config" in content):
        return None, None
    if isinstance(settings, list):
        return None, None
    return "", content
