"""`.keras` files, read in memory: nothing is unpacked to the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mpls.formats.algorithms import keras_release
from mpls.formats.record import Family, FileRecord, OptimizerRecord
from mpls.saved.arrays import read_arrays
from mpls.saved.configs import read_optimizer
from mpls.saved.errors import reading_foreign_bytes
from mpls.saved.files import size_of
from mpls.saved.h5_vetting import check_h5
from mpls.saved.hdf5 import opened, slots_by_order, with_weights
from mpls.saved.limits import unpacked_limit
from mpls.saved.texts import parse_json
from mpls.saved.validity import count_of_variable
from mpls.saved.zips import Archive

WEIGHTS = "model.weights.h5"
# What mpls.keras.save_model adds, since tf_keras leaves the weights of legacy optimizers out.
LEGACY_WEIGHTS = "optimizer_weights.npz"


def read_archive(path: str) -> FileRecord:
    """Read a `.keras` file.

    Raises:
        SavedStateError: it is broken, or holds state that no optimizer can have.
    """
    size_of(path)
    with Archive(path, path) as archive:
        return _read(path, archive)


def _read(path: str, archive: Archive) -> FileRecord:
    config = _parsed(path, archive, "config.json")
    metadata = _parsed(path, archive, "metadata.json") if "metadata.json" in archive else None
    version = metadata.get("keras_version") if isinstance(metadata, Mapping) else None
    written_by = keras_release(version)
    compiled = config.get("compile_config") if isinstance(config, Mapping) else None
    described = compiled.get("optimizer") if isinstance(compiled, Mapping) else None
    # What is left of what the file may become.
    left = unpacked_limit(archive.size) - archive.unpacked
    if described is None:
        if WEIGHTS in archive:
            check_h5(f"{path}/{WEIGHTS}", archive.read(WEIGHTS), left, archive.stored_size(WEIGHTS))
        return FileRecord(path, ".keras", written_by, ())
    family: Family | None = "keras3" if isinstance(version, str) and version.startswith("3") else None
    record = read_optimizer(path, "config.json/compile_config/optimizer", described, family).optimizer
    if WEIGHTS in archive:
        with opened(f"{path}/{WEIGHTS}", archive.read(WEIGHTS), left, archive.stored_size(WEIGHTS)) as content:
            record = with_weights(f"{path}/{WEIGHTS}", content, record)
    if record.family == "legacy" and LEGACY_WEIGHTS in archive:
        place = f"{path}/{LEGACY_WEIGHTS}"
        record = _with_legacy_weights(read_arrays(place, archive.read(LEGACY_WEIGHTS), left), place, record)
    return FileRecord(path, ".keras", written_by, [replace(record, key="optimizer")])


def _parsed(path: str, archive: Archive, name: str) -> Any:
    return parse_json(path, name, archive.read(name), archive.stored_size(name))


def _with_legacy_weights(arrays: dict[str, Any], path: str, optimizer: OptimizerRecord) -> OptimizerRecord:
    """Return a legacy optimizer with the weights that `get_weights` has returned: its iterations, then its slots."""
    if not arrays:
        return optimizer
    names = [f"arr_{number}" for number in range(len(arrays))]
    with reading_foreign_bytes(path, "the arrays", "be numbered"):
        arrays = {name: arrays[name] for name in names}
    iterations = count_of_variable(path, "arr_0", arrays.pop("arr_0"))
    cache = {"momentum_cache": arrays.pop("arr_1")} if optimizer.algorithm == "Nadam" and "arr_1" in arrays else {}
    variables, others = slots_by_order(optimizer, arrays)
    return replace(optimizer, iterations=iterations, variables=variables, others={**others, **cache})
