"""Open model files: `.keras` and H5 files, and what all model files have in common; no code in them is run.

`.keras` files have the variables of an optimizer by number, H5 files by name.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, BinaryIO

from mpls.formats.algorithms import MOMENTUM_PRODUCTS, algorithm_named, has_momentum_product, layout, slot_and_variable
from mpls.formats.families import Family, Framework, framework_of_version, keras_release
from mpls.formats.file_kinds import (
    ARCHIVE_ARRAYS,
    ARCHIVE_CONFIG,
    ARCHIVE_METADATA,
    ARCHIVE_WEIGHTS,
    COMPILE_CONFIG,
    COMPILED_OPTIMIZER,
    KERAS_VERSION,
    LEGACY_WEIGHTS,
    MODEL_CONFIG,
    MODEL_WEIGHTS,
    OPTIMIZER_VARS,
    OPTIMIZER_WEIGHTS,
    TRAINING_CONFIG,
    TRAINING_OPTIMIZER,
    WRAPPED_VARS,
    ModelFormat,
)
from mpls.formats.record import FileRecord, LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.formats.wrapper_state import INNER_KEYS, STATE_OF_KERAS_3
from mpls.saved.config_safety import OwnObjects, refuse_unsafe_configs
from mpls.saved.containers import Archive, H5Content, h5_content, in_order, read_arrays
from mpls.saved.foreign_files import broken, parse_json
from mpls.saved.optimizer_configs import read_optimizer, value_at
from mpls.saved.plain_numbers import count_of_variable, good_steps_of_variable, number_of_variable, scale_of_variable

_SCALE, _GOOD_STEPS = STATE_OF_KERAS_3
_PRODUCT = MOMENTUM_PRODUCTS["keras3"]


class ModelFile:
    """An open model file or folder.

    Args:
        path: the path, as the user named it.
        file: the file, open; it stays open. None for a folder.

    Attributes:
        path: the path.
        file: the file.
        format: its format.
        version: the version of the Keras that wrote it; None if the file does not say.
        has_wrapped_optimizer: whether it holds the variables of a wrapped optimizer apart from those of the wrapper.
        is_of_weights: whether of an optimizer it can hold weights only, and no config.
        legacy_weights: the weights of a legacy optimizer that `mpls.keras.save_model` has added, by name; None if it
            has not.
    """

    format: ModelFormat
    version: str | None = None
    has_wrapped_optimizer = False
    is_of_weights = False
    legacy_weights: Mapping[str, Any] | None = None

    def __init__(self, path: str, file: BinaryIO | None = None) -> None:
        self.path = path
        self.file = file
        self._before = self._state()
        self._stack = ExitStack()

    def __enter__(self) -> ModelFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _state(self) -> tuple[int, int] | None:
        status = None if self.file is None else os.fstat(self.file.fileno())
        return None if status is None else (status.st_size, status.st_mtime_ns)

    def require_unchanged(self) -> None:
        """Refuse a file that was written to since it was opened: its size or its modification time has changed."""
        if self._state() != self._before:
            raise self.changed("another content")

    def changed(self, got: str) -> Exception:
        """Return the error for a file that is not what was opened."""
        advice = "Load it once it has been written; mpls.keras.save_model writes such that others never see a part"
        return broken(self.path, "the file", "stay as it is while it is loaded", got, advice)

    @functools.cached_property
    def configs(self) -> dict[str, Any]:
        """The values of the JSON texts in it, by their places."""
        raise NotImplementedError

    @property
    def framework(self) -> Framework:
        """The Keras that wrote it."""
        found = framework_of_version(self.version)
        if found is None:
            advice = f"Say which Keras wrote it: mpls.keras.load_model({self.path!r}, keras='tf_keras')"
            raise broken(self.path, KERAS_VERSION, "be that of a Keras, as '2.15.0' or '3.6.0'", self.version, advice)
        return found

    def require_whole(self) -> None:
        """Refuse a file that is no whole model."""
        for key, config in self.configs.items():
            if key != COMPILE_CONFIG and not isinstance(config, dict):
                raise broken(self.path, key, "be a JSON object", config)

    def refuse_unsafe(self, own: OwnObjects, *, with_compile: bool = True) -> None:
        """Refuse a file that may run code, or reach out of itself, where `load_model` loads it.

        Args:
            own: the user's own objects, which the file may name.
            with_compile: whether the model is compiled with the file's settings.
        """
        refuse_unsafe_configs(self.path, self.format, self.configs, own, with_compile=with_compile)

    def record(self) -> FileRecord:
        """Return a record of the file and of its optimizers; the arrays can be read while the file is open."""
        raise NotImplementedError


class KerasArchive(ModelFile):
    """A `.keras` file. The constructor reads the JSON texts and checks all members; none gets a name on the disk."""

    format: ModelFormat = ".keras"

    def __init__(self, path: str, file: BinaryIO) -> None:
        super().__init__(path, file)
        self._content: H5Content | None = None
        self._texts: dict[str, Any] = {}
        with ExitStack() as stack:
            archive = Archive(path, file)
            self._names = archive.names
            for name in archive.names:
                place = f"{path}/{name}"
                if name in (ARCHIVE_CONFIG, ARCHIVE_METADATA):
                    self._texts[name] = parse_json(path, name, archive.read(name))
                elif name == ARCHIVE_WEIGHTS:
                    source = stack.enter_context(archive.open(name))
                    self._content = stack.enter_context(h5_content(place, source, archive.left))
                    self.has_wrapped_optimizer: bool = f"{WRAPPED_VARS}/0" in self._content.datasets
                elif name in (LEGACY_WEIGHTS, ARCHIVE_ARRAYS):
                    arrays = read_arrays(place, archive.read(name), archive.left)
                    if name == LEGACY_WEIGHTS:
                        self.legacy_weights: Mapping[str, Any] | None = arrays
                else:
                    archive.check(name)
            self._stack = stack.pop_all()
        self.is_of_weights: bool = value_at(self.configs, COMPILED_OPTIMIZER) is None
        version = value_at(self._texts.get(ARCHIVE_METADATA), [KERAS_VERSION])
        self.version: str | None = version if isinstance(version, str) else None

    @functools.cached_property
    def configs(self) -> dict[str, Any]:
        """The config of the model, and that of `compile` apart from it."""
        config = self._texts.get(ARCHIVE_CONFIG)
        return {ARCHIVE_CONFIG: config, COMPILE_CONFIG: value_at(config, [COMPILE_CONFIG])}

    def require_whole(self) -> None:
        """Refuse a file that is no whole model."""
        for name in self._names:
            # Frameworks unpack the members into a folder.
            if name.startswith("/") or ".." in re.split(r"[/\\]", name):
                raise broken(self.path, name, "be a place in the archive", "one outside")
        if not isinstance(metadata := self._texts.get(ARCHIVE_METADATA), dict):
            raise broken(self.path, ARCHIVE_METADATA, "be a JSON object", metadata)
        if ARCHIVE_WEIGHTS not in self._names and ARCHIVE_ARRAYS not in self._names:
            raise broken(self.path, ARCHIVE_WEIGHTS, "be in the file", "nothing")
        super().require_whole()

    def record(self) -> FileRecord:
        """Return a record of the file and of its optimizer."""
        path, written_by, config = self.path, keras_release(self.version), self._texts.get(ARCHIVE_CONFIG)
        if config is None:
            raise broken(path, ARCHIVE_CONFIG, "be in the file", "nothing", "Name a file that Model.save has written")
        described = value_at(config, COMPILED_OPTIMIZER)
        if described is None:
            alone = None if self._content is None else _weights_only(f"{path}/{ARCHIVE_WEIGHTS}", self._content)
            return FileRecord(path, ".keras", written_by, () if alone is None else [alone])
        place = "/".join((ARCHIVE_CONFIG, *COMPILED_OPTIMIZER))
        record = read_optimizer(path, place, described, self._family(described))
        is_users_wrapper = value_at(described, ("config", INNER_KEYS[0])) is not None
        if self.has_wrapped_optimizer and record.loss_scale is None and not is_users_wrapper:
            # `compile` had wrapped the optimizer. The config has what `compile` was given.
            record = replace(record, loss_scale=LossScaleRecord(dynamic=True))
        if self._content is not None:
            record = _with_weights(f"{path}/{ARCHIVE_WEIGHTS}", self._content, record)
        if record.family == "legacy" and self.legacy_weights:
            record = _with_legacy_weights(f"{path}/{LEGACY_WEIGHTS}", self.legacy_weights, record)
        return FileRecord(path, ".keras", written_by, [replace(record, key="optimizer")])

    def _family(self, described: Any) -> Family | None:
        """Return the family of the optimizer; None to tell it from its config."""
        framework = framework_of_version(self.version)
        if framework == "keras":
            return "keras3"
        if framework == "tf_keras" and isinstance(described, str):
            # tf_keras writes the variables of new optimizers only.
            return "new" if self._content is not None and OPTIMIZER_VARS in self._content.groups else "legacy"
        return None


class H5Model(ModelFile):
    """An H5 file of a model, or of its weights.

    Attributes:
        content: what is in it.
    """

    format: ModelFormat = "H5"

    def __init__(self, path: str, file: BinaryIO) -> None:
        super().__init__(path, file)
        with ExitStack() as stack:
            self.content: H5Content = stack.enter_context(h5_content(path, file))
            self.version: str | None = self.content.text(KERAS_VERSION)
            self.is_of_weights: bool = not self.content.has(MODEL_CONFIG)
            self._stack = stack.pop_all()

    @functools.cached_property
    def configs(self) -> dict[str, Any]:
        """The configs of the model and of its training."""
        texts = {key: self.content.text(key) for key in (MODEL_CONFIG, TRAINING_CONFIG)}
        return {key: parse_json(self.path, key, text) for key, text in texts.items() if text is not None}

    def require_whole(self) -> None:
        """Refuse a file that is no whole model."""
        if self.is_of_weights:
            advice = "A file of weights only is loaded by model.load_weights(path)"
            raise broken(self.path, MODEL_CONFIG, "be there", "nothing", advice)
        super().require_whole()

    def record(self) -> FileRecord:
        """Return a record of the file and of its optimizer."""
        path, content, text = self.path, self.content, self.content.text(TRAINING_CONFIG)
        training = None if text is None else parse_json(path, TRAINING_CONFIG, text)
        config = value_at(training, TRAINING_OPTIMIZER[1:])
        has_weights, written_by = OPTIMIZER_WEIGHTS in content.groups, keras_release(self.version)
        if config is None and has_weights:
            raise broken(path, TRAINING_CONFIG, "describe the optimizer whose weights the file holds", training)
        if config is None:
            alone = _weights_only(path, content)
            return FileRecord(path, "H5", written_by, () if alone is None else [alone])
        family: Family | None = "keras3" if framework_of_version(self.version) == "keras" else None
        record = read_optimizer(path, "/".join(TRAINING_OPTIMIZER), config, family)
        if has_weights:
            record = _with_named_weights(path, content, record)
        return FileRecord(path, "H5", written_by, [replace(record, key=OPTIMIZER_WEIGHTS)])


def _with_named_weights(path: str, content: H5Content, optimizer: OptimizerRecord) -> OptimizerRecord:
    """Return an optimizer with its weights in a model's H5 file, which has them by name."""
    is_keras_3, known = optimizer.family == "keras3", optimizer.loss_scale
    weights = [key for key in content.datasets if key.startswith(f"{MODEL_WEIGHTS}/") and key.count("/") > 1]
    model = {key.split("/", 2)[2].partition(":")[0]: key for key in weights}
    if is_keras_3:
        # The names of slots have underscores instead of slashes.
        model = {name.replace("/", "_"): key for name, key in model.items()}
    iterations: int | None = None
    scale: float | None = None
    good_steps: int | None = None
    slots: dict[str, dict[str, Any]] = {}
    hyperparameters, others = dict(optimizer.hyperparameters), {}
    for name in content.names(OPTIMIZER_WEIGHTS, "weight_names"):
        key = f"{OPTIMIZER_WEIGHTS}/{name}"
        plain, array = name.partition(":")[0], content.array(key)
        last = plain.rpartition("/")[2]
        if last in ("iter", "iteration"):
            # In Keras 3, the wrapper has a counter too. It comes first, and the optimizer's replaces it here.
            iterations = count_of_variable(path, key, array)
        elif last == _SCALE:
            scale = scale_of_variable(path, key, array)
        elif last == _GOOD_STEPS:
            good_steps = good_steps_of_variable(path, key, array, None if known is None else known.growth_steps)
        elif last == "learning_rate" and array.shape == ():
            hyperparameters[last] = number_of_variable(path, key, array)
        else:
            slot, variable = _slot_named(plain, optimizer.family, model)
            if slot is None or variable is None:
                # In Keras 3, the variable of Nadam's product has the default name.
                is_product = has_momentum_product(optimizer.algorithm) and last.partition("_")[0] == "variable"
                others[_PRODUCT if is_product else last] = array
            else:
                slots.setdefault(variable, {})[slot] = array
    # A fixed scale has these variables too, because Keras expects them; they have no meaning.
    if scale is not None and (known is None or known.dynamic):
        known = replace(known or LossScaleRecord(dynamic=True), scale=scale, good_steps=good_steps)
    variables = []
    for name, values in slots.items():
        key_of_variable = model.get(name)
        called = key_of_variable.split("/", 2)[2] if key_of_variable is not None and is_keras_3 else name
        variables.append(VariableRecord(key_of_variable, called, values))
    return replace(
        optimizer,
        iterations=iterations,
        hyperparameters=hyperparameters,
        variables=variables,
        others=others,
        loss_scale=known,
    )


def _slot_named(name: str, family: Family, model: Mapping[str, str]) -> tuple[str | None, str | None]:
    if family != "legacy":
        return slot_and_variable(family, name)
    variable, _, slot = name.rpartition("/")
    parts = variable.split("/")
    # The optimizer's name comes first, which the user may have chosen.
    for start in range(len(parts)):
        if "/".join(parts[start:]) in model:
            return slot, "/".join(parts[start:])
    for start, part in enumerate(parts[:-1], 1):
        if algorithm_named(part) is not None:
            return slot, "/".join(parts[start:])
    return None, None


def _with_weights(path: str, content: H5Content, optimizer: OptimizerRecord) -> OptimizerRecord:
    """Return an optimizer with its numbered weights in a `.keras` or `.weights.h5` file."""
    outer, inner = _numbered(content, OPTIMIZER_VARS), _numbered(content, WRAPPED_VARS)
    is_keras_3, loss_scale = optimizer.family == "keras3", optimizer.loss_scale
    if is_keras_3 and inner and (loss_scale is None or loss_scale.dynamic):
        # The first two variables are the iterations and the learning rate of the wrapper, which have no meaning.
        if len(outer) < 4:
            raise broken(path, OPTIMIZER_VARS, "hold the state of the loss scale", f"{len(outer)} variables")
        loss_scale = loss_scale or LossScaleRecord(dynamic=True)
        counter, scale = outer[2], outer[3]
        loss_scale = replace(
            loss_scale,
            scale=scale_of_variable(path, scale, content.array(scale)),
            good_steps=good_steps_of_variable(path, counter, content.array(counter), loss_scale.growth_steps),
        )
    weights = inner if is_keras_3 and inner else outer or inner
    if not weights:
        return replace(optimizer, loss_scale=loss_scale)
    hyperparameters = dict(optimizer.hyperparameters)
    iterations = count_of_variable(path, weights[0], content.array(weights[0]))
    arrays = {name: content.array(name) for name in weights[1:]}
    has_rate = is_keras_3 and not isinstance(hyperparameters.get("learning_rate"), dict)
    if has_rate and arrays and arrays[weights[1]].shape == ():
        hyperparameters["learning_rate"] = number_of_variable(path, weights[1], arrays.pop(weights[1]))
    variables, others = _slots_by_order(optimizer, arrays)
    return replace(
        optimizer,
        iterations=iterations,
        hyperparameters=hyperparameters,
        variables=variables,
        others=others,
        loss_scale=loss_scale,
    )


def _weights_only(path: str, content: H5Content) -> OptimizerRecord | None:
    """Return the optimizer in weights of which the file says neither the settings nor the slots; None if none."""
    names = _numbered(content, OPTIMIZER_VARS)
    if not names:
        return None
    called = content.text("name", WRAPPED_VARS if WRAPPED_VARS in content.groups else OPTIMIZER_VARS)
    # Keras 3, unlike tf_keras, writes the optimizer's name, and its learning rate as a variable.
    is_keras_3 = called is not None or (len(names) > 1 and content.array(names[1]).shape == ())
    record = _with_weights(path, content, OptimizerRecord("optimizer", "keras3" if is_keras_3 else "new"))
    return replace(record, algorithm=algorithm_named(called))


def _numbered(content: H5Content, group: str) -> list[str]:
    """Return the names of the datasets `0`, `1` and so on of a group, as many as the group has datasets."""
    count = sum(name.rpartition("/")[0] == group for name in content.datasets)
    return [f"{group}/{number}" for number in range(count)]


def _with_legacy_weights(path: str, arrays: Mapping[str, Any], optimizer: OptimizerRecord) -> OptimizerRecord:
    """Return a legacy optimizer with the arrays that its `get_weights` returned: iterations, Nadam's product, slots."""
    arrays = in_order(path, arrays)
    first, *names = arrays
    iterations = count_of_variable(path, first, arrays.pop(first))
    has_product = has_momentum_product(optimizer.algorithm) and len(names) > 0
    product = {MOMENTUM_PRODUCTS["legacy"]: arrays.pop(names[0])} if has_product else {}
    variables, others = _slots_by_order(optimizer, arrays)
    return replace(optimizer, iterations=iterations, variables=variables, others={**others, **product})


def _slots_by_order(
    optimizer: OptimizerRecord, arrays: Mapping[str, Any]
) -> tuple[list[VariableRecord], dict[str, Any]]:
    """Return the slots in arrays, by the order in which the algorithm creates them, and the other arrays by name.

    If the number of arrays or their shapes do not fit the algorithm, there are no slots, and all arrays are others.
    """
    groups = layout(optimizer.family, optimizer.algorithm, optimizer.hyperparameters)
    kinds = sum(len(group) for group in groups or ())
    if groups is None or kinds == 0:
        return [], dict(arrays)
    slots: list[dict[str, Any]] = [{} for _ in range(len(arrays) // kinds)]
    remaining = iter(arrays.items())
    for group in groups:
        for values in slots:
            for slot in group:
                values[slot] = next(remaining)[1]
    others = dict(remaining)
    if has_momentum_product(optimizer.algorithm) and len(others) == 1:
        others = {_PRODUCT: others.popitem()[1]}
    elif others or any(len({value.shape for value in values.values()}) > 1 for values in slots):
        return [], dict(arrays)
    return [VariableRecord(None, None, values) for values in slots], others
