"""`read`: the optimizers in a checkpoint, model or config of any release; `opened_model`: a model file itself.

It imports neither TensorFlow nor Keras, runs no code from the file, opens no file outside the path, and raises
`mpls.errors.SavedStateError` if the file is broken.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from mpls.errors import Described, error_text
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
from mpls.formats.object_graph import GRAPH_KEY
from mpls.formats.record import FileRecord
from mpls.formats.validity import ANCHOR
from mpls.progress import with_progress
from mpls.saved.bundles import Bundle
from mpls.saved.checkpoints import ObjectCheckpoint
from mpls.saved.foreign_files import FROM_WRITER, NotAnArtefactError, broken, parse_json, read_bytes, size_of
from mpls.saved.model_files import H5Model, KerasArchive, ModelFile
from mpls.saved.name_checkpoints import read_names
from mpls.saved.optimizer_configs import read_optimizer, value_at
from mpls.saved.saved_models import SavedModel

__all__ = ["in_memory", "opened_model", "read"]

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
        another Nadam, and the beta powers of v1's Adam by their full names, if it is certain that they are its own.
        `.keras` files do not name variables: their records have neither key nor name, and are in the order in which
        the optimizer was built.

    Raises:
        SavedStateError: the file is broken, or the state of an optimizer in it is not valid. The subclass
            `mpls.saved.foreign_files.NotAnArtefactError` if the path does not exist, or leads to none of these formats.
        OSError: the file cannot be read.

    Examples:
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
    with opened_model(text) as model:
        if model is not None:
            return in_memory(model.record())
    if os.path.isdir(text):
        return in_memory(replace(_read_checkpoint(_prefix_in(text)), path=text))
    for prefix in checkpoint_prefixes(text):
        if os.path.lexists(prefix + INDEX):
            return in_memory(replace(_read_checkpoint(prefix), path=text))
    try:
        os.stat(text)
    except (FileNotFoundError, NotADirectoryError):
        folder = os.path.dirname(os.path.abspath(text))
        advice = f"There is no such file or folder; see what is in {folder!r}"
        raise NotAnArtefactError(error_text(text, "exist", Described("nothing"), advice, ANCHOR)) from None
    size_of(text)
    with open(text, "rb") as file:
        start = file.read(512)
    if not start:
        raise broken(text, "", _KINDS, Described("an empty file"))
    kind = kind_of_bytes(start)
    if kind == "list of checkpoints":
        return read(os.path.dirname(text) or ".")
    if kind != "config":
        raise _not_one(text, f"a file that starts with {start[:16]!r}")
    return _read_json(text)


@contextmanager
def opened_model(path: str) -> Iterator[ModelFile | None]:
    """Open a model file in a block, once, so that all is read from the same file; None if the path leads to no model.

    Raises:
        SavedStateError: it is broken, or no regular file.
    """
    if os.path.isdir(path):
        yield SavedModel(path) if os.path.lexists(os.path.join(path, SAVED_MODEL)) else None
    elif not os.path.exists(path) or any(os.path.lexists(each + INDEX) for each in checkpoint_prefixes(path)[1:]):
        yield None
    else:
        size_of(path)
        # Not unbuffered: one read of the system gives at most 2 GiB, and HDF5 takes what is missing for read.
        with open(path, "rb") as file, ExitStack() as stack:
            reader = {"H5": H5Model, ".keras": KerasArchive}.get(kind_of_bytes(file.read(512)) or "")
            yield None if reader is None else stack.enter_context(reader(path, file))


def in_memory(record: FileRecord) -> FileRecord:
    """Return a record whose arrays need no open file."""
    if not record.optimizers:
        return record
    of_all = [variable for each in record.optimizers for variable in each.variables]
    # Gigabytes take seconds: they are read, and their checksums are computed.
    loaded = (replace(variable, slots=_arrays(variable.slots)) for variable in of_all)
    shown = with_progress(loaded, len(of_all), sys.stderr, after=1.0)
    optimizers = [
        replace(each, variables=list(itertools.islice(shown, len(each.variables))), others=_arrays(each.others))
        for each in record.optimizers
    ]
    # The bar is erased at the end.
    next(shown, None)
    return replace(record, optimizers=optimizers)


def _arrays(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in values.items()}


def _not_one(path: str, got: str) -> NotAnArtefactError:
    error: NotAnArtefactError = NotAnArtefactError(
        error_text(path, _KINDS, Described(got), "Name one of these", ANCHOR)
    )
    return error


def _prefix_in(folder: str) -> str:
    """Return the prefix of the checkpoint in a folder: the latest, or the only one."""
    if os.path.lexists(os.path.join(folder, LATEST)):
        return _latest(folder)
    names = sorted(name.removesuffix(INDEX) for name in os.listdir(folder) if name.endswith(INDEX))
    if len(names) > 1:
        got = f"{len(names)} checkpoints, {', '.join(names[:10])}"
        raise NotAnArtefactError(error_text(folder, "hold one checkpoint", got, "Name one of them", ANCHOR))
    if not names:
        raise _not_one(folder, "a folder without one")
    return os.path.join(folder, names[0])


def _latest(folder: str) -> str:
    """Return the prefix that a folder's `checkpoint` file names. Of its path, only the name counts: folders move."""
    path = os.path.join(folder, LATEST)
    for line in read_bytes(path, folder).decode("utf-8", "replace").splitlines():
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
    records = ObjectCheckpoint(bundle).optimizers()
    families = sorted({record.family for record in records}) or ["legacy", "keras3"]
    return FileRecord(prefix, "object checkpoint", ", or ".join(FAMILY_WRITERS[each] for each in families), records)


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
    return FileRecord(path, "config", FAMILY_WRITERS[record.family], [replace(record, key=place or "config")])


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
