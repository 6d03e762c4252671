"""`save_model`: the framework's own saving, in one step: a reader finds the old model or the new one, whole."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mpls.errors import ArgumentTypeError, ArgumentValueError, ExistingFileError, error_text
from mpls.formats.file_kinds import ARCHIVE_WEIGHTS, LEGACY_WEIGHTS
from mpls.formats.validity import ANCHOR
from mpls.keras.files.native_wrappers import native_state_written
from mpls.keras.files.optimizer_state import legacy_weights
from mpls.upstream.keras_packages import compile_settings_kept, loaded_keras, loaded_tf_keras


def save_model(model: Any, path: str | os.PathLike[str], **kwargs: Any) -> None:
    """Save a model with `model.save`, so that a crash leaves the complete old file or the complete new file.

    Examples:
        >>> import os, tempfile
        >>> import keras, mpls.keras
        >>> model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
        >>> model.compile(mpls.keras.LossScaleOptimizer(keras.optimizers.Adam()), "mse")
        >>> path = os.path.join(tempfile.mkdtemp(), "model.keras")
        >>> mpls.keras.save_model(model, path)
        >>> os.listdir(os.path.dirname(path))
        ['model.keras']

    mpls writes the model to a temporary path, flushes it to the disk, and moves it to `path`. A SavedModel is a folder.
    If it replaces another, the old folder is at `<path>.old` for a moment, and `mpls.keras.load_model(path)` also looks
    there.

    The file is the one that `model.save` writes, and loads without mpls. There are three exceptions for tf_keras, which
    does not mind them. A `.keras` file with a legacy optimizer has one more member, with the iterations and slots. A
    `.keras` file with more than three members is packed so that every Python loads it. If the optimizer has a native
    wrapper, the config also holds the current loss scale and its counter.

    Args:
        model: a model of tf_keras or Keras 3, compiled or not.
        path: a local path, with the suffix `.keras`, `.h5` or `.hdf5`; with another suffix, tf_keras writes a
            SavedModel. A string or path object. An existing file or folder is replaced.
        **kwargs: other arguments of the model's `save`, such as `include_optimizer` or `save_format`.

    Raises:
        TypeError: `model` is not a model of tf_keras or Keras 3.
        FileExistsError: `overwrite=False` is passed, and the path exists.
        OSError: the file cannot be written; the old file has not changed.

    Reproduces:
        `model.save(path)` of tf_keras and Keras 3, which write to `path` directly. In Keras 3, if a model was saved as
        H5 first, later `.keras` files of it had no optimizer.
    """
    _require_model(model)
    # Follow links, as writing into the file would.
    path = os.path.realpath(os.fspath(path))
    if not kwargs.pop("overwrite", True) and os.path.exists(path):
        raise ExistingFileError(f"mpls.keras.save_model: {path} is there already, and overwrite is False")
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    with _folder_beside(folder, name) as workspace:
        written = os.path.join(workspace, name)
        with compile_settings_kept(model), native_state_written(model):
            _save(model, written, path, kwargs)
        _complete_archive(model, written)
        flush_to_disk(written)
        replace(written, path, os.path.join(workspace, "old"))
        sync(folder)


def _save(model: Any, written: str, path: str, kwargs: dict[str, Any]) -> None:
    try:
        model.save(written, **kwargs)
    except ValueError as error:
        if "name already exists" in str(error):
            # H5 files hold variables by name, and those of Keras 3's Adafactor have the same.
            optimizer = type(getattr(model, "optimizer", None)).__name__
            advice = "Save the model as .keras, or pass include_optimizer=False"
            constraint = "not end in .h5 if two variables of the optimizer have the same name"
            text = error_text("mpls.keras.save_model: path", constraint, f"{path} ({optimizer})", advice, ANCHOR)
            raise ArgumentValueError(text) from error
        # Keras names the file that it writes, which is a temporary one.
        if written not in str(error):
            raise
        raise ArgumentValueError(str(error).replace(written, path)) from error


def _require_model(model: Any) -> None:
    modules = [module for module in (loaded_tf_keras(), loaded_keras()) if module is not None]
    if not isinstance(model, tuple(module.Model for module in modules)):
        raise ArgumentTypeError(
            error_text(
                "mpls.keras.save_model: model",
                "be a model of tf_keras or Keras 3",
                model,
                "mpls.keras.save_model(model, 'model.keras')",
                ANCHOR,
            )
        )


@contextmanager
def _folder_beside(folder: str, name: str) -> Iterator[str]:
    # A move in one step needs the same file system. A process that is killed leaves a folder of this name.
    workspace = tempfile.mkdtemp(prefix=f".{name}.", suffix=".saving", dir=folder)
    try:
        yield workspace
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _complete_archive(model: Any, path: str) -> None:
    if not path.endswith(".keras") or not zipfile.is_zipfile(path):
        return
    weights = legacy_weights(getattr(model, "optimizer", None))
    if weights is not None:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(LEGACY_WEIGHTS, weights)
    tf_keras = loaded_tf_keras()
    if tf_keras is not None and isinstance(model, tf_keras.Model) and breaks_on_some_pythons(path):
        packed = f"{path}.packed"
        pack_weights(path, packed)
        os.replace(packed, path)


def breaks_on_some_pythons(path: str) -> bool:
    """Return whether tf_keras fails on some Pythons to load a `.keras` file.

    tf_keras opens the weights, and unpacks all members if they are more than three. If the weights are not compressed,
    `zipfile` of Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 then reads them from a wrong position: it seeks from where
    the last member ended (https://github.com/python/cpython/issues/127847).
    """
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info.compress_type for info in archive.infolist()}
    return len(members) > 3 and members.get(ARCHIVE_WEIGHTS) == zipfile.ZIP_STORED


def pack_weights(source: str, target: str) -> None:
    """Write a `.keras` file again, such that tf_keras loads it on every Python.

    The weights are marked as compressed. Level 0 keeps their bytes as they are.
    """
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            kind = zipfile.ZIP_DEFLATED if info.filename == ARCHIVE_WEIGHTS else info.compress_type
            new.writestr(info.filename, old.read(info), kind, compresslevel=0)


def flush_to_disk(path: str) -> None:
    """Flush a file, or all files of a folder, to the disk, so that they survive a crash of the machine."""
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                sync(os.path.join(folder, name))
            sync(folder)
    else:
        sync(path)


def sync(path: str) -> None:
    """Flush the content of one file, or the entries of one folder."""
    if os.name == "nt" and os.path.isdir(path):
        # Windows cannot flush folders.
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(source: str, target: str, aside: str) -> None:
    """Replace what is at `target` by a file or folder.

    Args:
        source: the new file or folder, on the file system of the target.
        target: the path that it gets.
        aside: a path that is free, for a `<target>.old` that an earlier call has left.
    """
    if not os.path.isdir(source) and not os.path.isdir(target):
        os.replace(source, target)
    elif not os.path.lexists(target):
        os.rename(source, target)
    else:
        old = f"{target}.old"
        if os.path.lexists(old):
            os.rename(old, aside)
        os.rename(target, old)
        os.rename(source, target)
        shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)
