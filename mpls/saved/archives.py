"""`.keras` files: the configs, the weights and the optimizer in the archive, which is not unpacked to disk."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from io import FileIO
from typing import Any

from mpls.formats.algorithms import MOMENTUM_PRODUCTS, has_momentum_product
from mpls.formats.families import Family, framework_of_version, keras_release
from mpls.formats.file_kinds import (
    ARCHIVE_ARRAYS,
    ARCHIVE_CONFIG,
    ARCHIVE_METADATA,
    ARCHIVE_WEIGHTS,
    COMPILED_OPTIMIZER,
    KERAS_VERSION,
    LEGACY_WEIGHTS,
    OPTIMIZER_VARS,
    WRAPPED_VARS,
)
from mpls.formats.record import FileRecord, LossScaleRecord, OptimizerRecord
from mpls.formats.wrapper_state import INNER_KEYS
from mpls.saved.arrays import in_order, read_arrays
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.h5_content import Content, content_of
from mpls.saved.numbered_weights import slots_by_order, with_weights
from mpls.saved.optimizer_configs import read_optimizer, value_at
from mpls.saved.plain_numbers import count_of_variable
from mpls.saved.texts import parse_json
from mpls.saved.zips import Archive


class KerasArchive:
    """An open `.keras` file; the constructor checks all of it: the JSON texts, the weights, and every checksum.

    Args:
        path: the path, for errors.
        file: the file, open and unbuffered. It stays open.
        lazily: whether arrays are `StoredArray`s, which read the file each time that their numbers are needed.

    Attributes:
        names: the names of its members.
        config: the value of `config.json`; None if it is missing.
        metadata: the value of `metadata.json`; None if it is missing.
        version: the version of the Keras that wrote it; None if the file does not say.
        has_wrapped: whether the H5 file holds the variables of a wrapped optimizer apart from those of the wrapper.
        legacy_weights: the weights of a legacy optimizer that `mpls.keras.save_model` has added, by name; None if it
            has not.

    Raises:
        SavedStateError: it is broken, refers to other files, or would unpack to far more than its size allows.
    """

    def __init__(self, path: str, file: FileIO, *, lazily: bool = False) -> None:
        self._path = path
        self.has_wrapped = False
        self.legacy_weights: dict[str, Any] | None = None
        self._content: Content | None = None
        with ExitStack() as stack:
            archive = Archive(path, file)
            self.names = archive.names
            texts: dict[str, Any] = {}
            for name in archive.names:
                place = f"{path}/{name}"
                if name in (ARCHIVE_CONFIG, ARCHIVE_METADATA):
                    texts[name] = parse_json(path, name, archive.read(name))
                elif name == ARCHIVE_WEIGHTS:
                    opened = content_of(place, archive.open(name), archive.left, lazily=lazily)
                    self._content = stack.enter_context(opened)
                    self.has_wrapped = f"{WRAPPED_VARS}/0" in self._content.datasets
                elif name == LEGACY_WEIGHTS:
                    self.legacy_weights = read_arrays(place, archive.open(name), archive.left, lazily=lazily)
                elif name == ARCHIVE_ARRAYS:
                    read_arrays(place, archive.open(name), archive.left, lazily=True)
                else:
                    archive.check(name)
            self.config, self.metadata = texts.get(ARCHIVE_CONFIG), texts.get(ARCHIVE_METADATA)
            self._stack = stack.pop_all()
        version = self.metadata.get(KERAS_VERSION) if isinstance(self.metadata, Mapping) else None
        self.version = version if isinstance(version, str) else None

    def __enter__(self) -> KerasArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def record(self) -> FileRecord:
        """Return a record of the file and of its optimizer.

        Raises:
            SavedStateError: `config.json` is missing, or the state of the optimizer is not valid.
        """
        path, written_by = self._path, keras_release(self.version)
        if self.config is None:
            raise broken(path, ARCHIVE_CONFIG, "be in the file", "nothing", "Name a file that Model.save has written")
        described = value_at(self.config, COMPILED_OPTIMIZER)
        if described is None:
            return FileRecord(path, ".keras", written_by, ())
        place = "/".join((ARCHIVE_CONFIG, *COMPILED_OPTIMIZER))
        record = read_optimizer(path, place, described, self._family(described)).optimizer
        if self.has_wrapped and record.loss_scale is None and not _is_users_wrapper(described):
            # `compile` had wrapped the optimizer. The config has what `compile` was given.
            record = replace(record, loss_scale=LossScaleRecord(dynamic=True))
        if self._content is not None:
            record = with_weights(f"{path}/{ARCHIVE_WEIGHTS}", self._content, record)
        if record.family == "legacy" and self.legacy_weights is not None:
            record = _with_legacy_weights(dict(self.legacy_weights), f"{path}/{LEGACY_WEIGHTS}", record)
        return FileRecord(path, ".keras", written_by, [replace(record, key="optimizer")])

    def _family(self, described: Any) -> Family | None:
        """Return the family of the optimizer; None to tell it from its config."""
        framework = framework_of_version(self.version)
        if framework == "keras":
            return "keras3"
        if framework == "tf_keras" and isinstance(described, str):
            # tf_keras writes the variables of new optimizers only.
            return "new" if self._content is not None and self._content.has_group(OPTIMIZER_VARS) else "legacy"
        return None


def _is_users_wrapper(described: Any) -> bool:
    """Return whether a config is that of a wrapper of a user's class, whose settings are not known here."""
    config = described.get("config") if isinstance(described, Mapping) else None
    return isinstance(config, Mapping) and INNER_KEYS[0] in config


def _with_legacy_weights(arrays: dict[str, Any], path: str, optimizer: OptimizerRecord) -> OptimizerRecord:
    """Return a legacy optimizer with the arrays that its `get_weights` returned: iterations, Nadam's product, slots."""
    if not arrays:
        return optimizer
    with reading_foreign_bytes(path, "the arrays", "be numbered"):
        arrays = in_order(arrays)
    first, *names = arrays
    iterations = count_of_variable(path, first, arrays.pop(first))
    has_product = has_momentum_product(optimizer.algorithm) and len(names) > 0
    product = {MOMENTUM_PRODUCTS["legacy"]: arrays.pop(names[0])} if has_product else {}
    variables, others = slots_by_order(optimizer, arrays)
    return replace(optimizer, iterations=iterations, variables=variables, others={**others, **product})
