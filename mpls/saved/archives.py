"""`.keras` files, read where they lie: nothing is unpacked to the disk."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from io import FileIO
from typing import Any

from mpls.formats.algorithms import keras_release
from mpls.formats.families import framework_of_version
from mpls.formats.record import Family, FileRecord, OptimizerRecord
from mpls.saved.arrays import read_arrays
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.h5_content import Content, content_of
from mpls.saved.h5_vetting import check_h5
from mpls.saved.hdf5 import WRAPPED, slots_by_order, with_weights
from mpls.saved.memory_limits import unpacked_limit
from mpls.saved.optimizer_configs import read_optimizer
from mpls.saved.plain_numbers import count_of_variable
from mpls.saved.texts import parse_json
from mpls.saved.zips import Archive

WEIGHTS = "model.weights.h5"
# What Keras reads where there is no H5 file.
_ARRAYS = "model.weights.npz"
# What mpls.keras.save_model adds, since tf_keras leaves the weights of legacy optimizers out.
LEGACY_WEIGHTS = "optimizer_weights.npz"
_CONFIG, _METADATA = "config.json", "metadata.json"


class KerasArchive:
    """A `.keras` file, open, and all of it looked at: its texts, its weights, every checksum.

    Args:
        path: what errors call it.
        file: the file, open, without a buffer. It stays open.
        lazily: whether its arrays are read when they are asked for their numbers, while it is open.

    Attributes:
        names: those of its members.
        size: its bytes.
        unpacked: those of its members, unpacked.
        config: what `config.json` says; None if it is missing.
        metadata: what `metadata.json` says; None if it is missing.
        version: the Keras that wrote it, as it says; None if it does not.
        arrays: how many arrays the H5 file in it holds; None if there is none.
        has_wrapped: whether the variables of a wrapped optimizer are there by themselves.
        legacy_weights: the arrays that `mpls.keras.save_model` has added; None if it has not.

    Raises:
        SavedStateError: it is broken, or packed such that it would take more memory than files of its size do.
    """

    def __init__(self, path: str, file: FileIO, *, lazily: bool = False) -> None:
        self._path = path
        self.arrays: int | None = None
        self.has_wrapped = False
        self.legacy_weights: dict[str, Any] | None = None
        self._content: Content | None = None
        with ExitStack() as stack:
            archive = Archive(path, file)
            self.names, self.size, self.unpacked = archive.names, archive.size, archive.unpacked
            texts: dict[str, Any] = {}
            # What is left of what the file may become.
            left = unpacked_limit(archive.size) - archive.unpacked
            for name in archive.names:
                place = f"{path}/{name}"
                if name in (_CONFIG, _METADATA):
                    texts[name] = parse_json(path, name, archive.read(name), archive.stored_size(name))
                elif name == WEIGHTS:
                    source = archive.open(name)
                    structure = check_h5(place, source, left, archive.stored_size(name))
                    self.arrays = len(structure.datasets)
                    self.has_wrapped = f"{WRAPPED}/0" in structure.datasets
                    self._content = stack.enter_context(content_of(place, source, structure, lazily=lazily))
                elif name == LEGACY_WEIGHTS:
                    self.legacy_weights = read_arrays(place, archive.open(name), left, lazily=lazily)
                elif name == _ARRAYS:
                    read_arrays(place, archive.open(name), left, lazily=True)
                else:
                    archive.check(name)
            self.config, self.metadata = texts.get(_CONFIG), texts.get(_METADATA)
            self._stack = stack.pop_all()
        version = self.metadata.get("keras_version") if isinstance(self.metadata, Mapping) else None
        self.version = version if isinstance(version, str) else None

    def __enter__(self) -> KerasArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def record(self) -> FileRecord:
        """Return the optimizer in it.

        Raises:
            SavedStateError: there is no config, or it holds state that no optimizer can have.
        """
        path, written_by = self._path, keras_release(self.version)
        if self.config is None:
            raise broken(path, _CONFIG, "be in the file", "nothing", "Name a file that Model.save has written")
        compiled = self.config.get("compile_config") if isinstance(self.config, Mapping) else None
        described = compiled.get("optimizer") if isinstance(compiled, Mapping) else None
        if described is None:
            return FileRecord(path, ".keras", written_by, ())
        family: Family | None = "keras3" if framework_of_version(self.version) == "keras" else None
        record = read_optimizer(path, "config.json/compile_config/optimizer", described, family).optimizer
        if self._content is not None:
            record = with_weights(f"{path}/{WEIGHTS}", self._content, record)
        if record.family == "legacy" and self.legacy_weights is not None:
            record = _with_legacy_weights(dict(self.legacy_weights), f"{path}/{LEGACY_WEIGHTS}", record)
        return FileRecord(path, ".keras", written_by, [replace(record, key="optimizer")])


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
