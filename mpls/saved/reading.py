"""`read`: the optimizers in a checkpoint, model or config of any release.

It imports neither TensorFlow nor Keras, runs no code from the file, opens no file outside the path, and raises
`mpls.errors.SavedStateError` if the file is broken.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mpls.errors import error_text
from mpls.formats.families import FAMILY_WRITERS
from mpls.formats.file_kinds import (
    COMPILED_OPTIMIZER,
    INDEX,
    LATEST,
    LATEST_KEY,
    SAVED_MODEL,
    TRAINING_OPTIMIZER,
    checkpoint_prefixes,
    kind_of_bytes,
)
from mpls.formats.object_graph import GRAPH_KEY, WRITERS_OF_LAYOUT, WRITERS_OF_OLD_LAYOUT
from mpls.formats.record import FileRecord, OptimizerRecord
from mpls.formats.validity import ANCHOR
from mpls.saved.archives import KerasArchive
from mpls.saved.bundles import Bundle
from mpls.saved.checkpoints import ObjectCheckpoint
from mpls.saved.errors import FROM_WRITER, NotAnArtefactError, broken
from mpls.saved.files import open_file, read_bytes
from mpls.saved.hdf5 import H5Model
from mpls.saved.name_checkpoints import read_names
from mpls.saved.optimizer_configs import read_optimizer, value_at
from mpls.saved.saved_models import SavedModel
from mpls.saved.texts import parse_json

__all__ = ["read"]

_KINDS = (
    "be a checkpoint's prefix, a folder with a checkpoint, a SavedModel folder, an H5 file, a .keras file or a config "
    "in JSON"
)


def read(path: str | os.PathLike[str]) -> FileRecord:
    """Return the optimizers, slots and loss scales in a file or folder.

    Args:
        path: a checkpoint of `tf.train.Checkpoint` or of `tf.compat.v1.train.Saver` (its prefix as `'run/ckpt-1'`, its
            `.index` file, or its folder, which stands for the latest checkpoint); a SavedModel folder; an H5 file; a
            `.keras` file; or a JSON file with a config of an optimizer, of training or of a model.

    Returns:
        Plain numbers and NumPy arrays. What the file does not say is None, empty or missing: object-based checkpoints
        have no settings of a loss scale, and H5 and `.keras` files of tf_keras have no current scale. `algorithm` is
        the class name in Keras, also for v1 optimizers (`'SGD'` for `MomentumOptimizer`). Slots have the names of the
        family: `'m'`, `'v'` and `'momentum'` in legacy and v1 optimizers, `'m'`, `'v'` or `'velocity'` in new ones,
        `'momentum'` and `'velocity'` in Keras 3. `others` has `'momentum_cache'` of a legacy Nadam, `'_u_product'` of
        another Nadam, and the beta powers of v1's Adam by their full names. `.keras` files do not name variables:
        their records have neither key nor name, and are in the order in which the optimizer was built.

    Raises:
        SavedStateError: the file is broken, or the state of an optimizer in it is not valid. The subclass
            `mpls.saved.errors.NotAnArtefactError` if the path does not exist, or leads to none of these formats.

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
    for prefix in checkpoint_prefixes(text):
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
    """Return the prefix that a folder's `checkpoint` file names. Of its path, only the name counts: folders move."""
    path = os.path.join(folder, LATEST)
    for line in read_bytes(path, folder, 1 << 22).decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == LATEST_KEY:
            prefix = os.path.join(folder, os.path.basename(value.strip().strip('"')))
            if not os.path.lexists(prefix + INDEX):
                constraint = f"name a checkpoint in {folder}"
                raise broken(path, LATEST_KEY, constraint, value.strip(), "Name the checkpoint itself")
            return prefix
    raise broken(path, LATEST_KEY, "be there", "nothing", "Name the checkpoint itself")


def _read_checkpoint(prefix: str) -> FileRecord:
    bundle = Bundle(prefix)
    if GRAPH_KEY not in bundle:
        records = read_names(bundle)
        return FileRecord(prefix, "v1 checkpoint", FAMILY_WRITERS["v1"], records)
    checkpoint = ObjectCheckpoint(bundle)
    records = checkpoint.optimizers()
    return FileRecord(prefix, "object checkpoint", _writers(checkpoint, records), records)


def _writers(checkpoint: ObjectCheckpoint, records: list[OptimizerRecord]) -> str:
    families = {record.family for record in records}
    if len(families) != 1:
        return f"{FAMILY_WRITERS['legacy']}, or {FAMILY_WRITERS['keras3']}"
    family = families.pop()
    if family == "legacy" and any(record.loss_scale for record in records):
        is_old = any(checkpoint.is_old_layout(record.key) for record in records)
        return WRITERS_OF_OLD_LAYOUT if is_old else WRITERS_OF_LAYOUT
    return FAMILY_WRITERS[family]


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
    """Return the place of an optimizer's config in a JSON object, and the config itself.

    The result is `(None, None)` for a model's config without an optimizer, and `('', content)` for other objects.
    """
    for way in (
        ("serialized",),
        ("get_config",),
        COMPILED_OPTIMIZER,
        TRAINING_OPTIMIZER,
        TRAINING_OPTIMIZER[1:],
    ):
        value = value_at(content, way)
        if value is not None:
            return "/".join(way), value
    settings = content.get("config")
    if isinstance(settings, Mapping) and ("layers" in settings or "build_config" in content):
        return None, None
    if isinstance(settings, list):
        return None, None
    return "", content
