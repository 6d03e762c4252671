"""`.keras` files, read in memory: nothing is unpacked to the disk."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mpls.saved.configs import parse_json, read_optimizer
from mpls.saved.files import TEXT_LIMIT, size_of
from mpls.saved.hdf5 import opened
from mpls.saved.names import keras_release
from mpls.saved.record import Family, FileRecord, OptimizerRecord
from mpls.saved.validity import broken, check_count, reading_foreign_bytes
from mpls.saved.weights import slots_by_order, with_weights

_WEIGHTS = "model.weights.h5"
# What mpls.keras.save_model adds, since tf_keras leaves the weights of legacy optimizers out.
_LEGACY_WEIGHTS = "optimizer_weights.npz"
_BEST_COMPRESSION = 1100
_SLACK = 1 << 20


def read_archive(path: str) -> FileRecord:
    """Read a `.keras` file.

    Raises:
        SavedStateError: it is broken, or holds state that no optimizer can have.
    """
    size_of(path)
    metadata = parse_json(path, "metadata.json", _member(path, "metadata.json", TEXT_LIMIT) or b"{}")
    config_text = _member(path, "config.json", TEXT_LIMIT)
    if config_text is None:
        raise broken(path, "config.json", "be in the file", "nothing", "Name a file that Model.save has written")
    config = parse_json(path, "config.json", config_text)
    version = metadata.get("keras_version") if isinstance(metadata, Mapping) else None
    written_by = keras_release(version)
    compiled = config.get("compile_config") if isinstance(config, Mapping) else None
    described = compiled.get("optimizer") if isinstance(compiled, Mapping) else None
    if described is None:
        return FileRecord(path, ".keras", written_by, ())
    family: Family | None = "keras3" if isinstance(version, str) and version.startswith("3") else None
    record = read_optimizer(path, "config.json/compile_config/optimizer", described, family).optimizer
    weights = _member(path, _WEIGHTS, None)
    if weights is not None:
        with opened(f"{path}/{_WEIGHTS}", weights) as content:
            record = with_weights(f"{path}/{_WEIGHTS}", content, record)
    arrays = _member(path, _LEGACY_WEIGHTS, None) if record.family == "legacy" else None
    if arrays is not None:
        record = _with_legacy_weights(f"{path}/{_LEGACY_WEIGHTS}", arrays, record)
    return FileRecord(path, ".keras", written_by, [replace(record, key="optimizer")])


def _member(path: str, name: str, limit: int | None) -> bytes | None:
    """Return the content of a file in the archive, or None."""
    with reading_foreign_bytes(path, name, "be whole"), zipfile.ZipFile(path) as archive:
        if name not in archive.namelist():
            return None
        info = archive.getinfo(name)
        possible = info.compress_size * _BEST_COMPRESSION + _SLACK
        if info.file_size > (possible if limit is None else min(possible, limit)):
            raise broken(path, name, "be of a plausible size", f"{info.file_size} bytes")
        with archive.open(info) as file:
            content = file.read(info.file_size)
            # The checksum is looked at only at the end.
            if file.read(1) or len(content) != info.file_size:
                raise broken(path, name, f"have {info.file_size} bytes", len(content))
        return content


def _with_legacy_weights(path: str, content: bytes, optimizer: OptimizerRecord) -> OptimizerRecord:
    """Return a legacy optimizer with the weights that `get_weights` has returned: its iterations, then its slots."""
    arrays: dict[str, Any] = {}
    with reading_foreign_bytes(path, "the arrays", "be whole"), zipfile.ZipFile(io.BytesIO(content)) as archive:
        for number in range(len(archive.namelist())):
            name = f"arr_{number}"
            arrays[name] = _array(path, f"{name}.npy", archive)
    if not arrays:
        return optimizer
    iterations = check_count(path, "arr_0", arrays.pop("arr_0"))
    cache = {"momentum_cache": arrays.pop("arr_1")} if optimizer.algorithm == "Nadam" and "arr_1" in arrays else {}
    variables, others = slots_by_order(optimizer, arrays)
    return replace(optimizer, iterations=iterations, variables=variables, others={**others, **cache})


def _array(path: str, name: str, archive: zipfile.ZipFile) -> Any:
    info = archive.getinfo(name)
    if info.file_size > info.compress_size * _BEST_COMPRESSION + _SLACK:
        raise broken(path, name, "be of a plausible size", f"{info.file_size} bytes")
    stream = io.BytesIO(archive.read(info))
    if np.lib.format.read_magic(stream) != (1, 0):
        raise broken(path, name, "be an array of NumPy's format 1.0", "another")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    values = stream.read()
    if dtype.kind not in "iufb" or is_fortran or int(np.prod(shape, dtype=object)) * dtype.itemsize != len(values):
        raise broken(path, name, "be a plain array of numbers", f"dtype {dtype} and shape {shape}")
    return np.frombuffer(values, dtype).reshape(shape)
