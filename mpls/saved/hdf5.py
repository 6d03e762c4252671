"""H5 files of models, and the optimizer in them, whose weights they have by name."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from io import FileIO
from typing import Any

from mpls.formats.algorithm_names import algorithm_named, slot_and_variable
from mpls.formats.algorithms import MOMENTUM_PRODUCTS, has_momentum_product
from mpls.formats.families import Family, framework_of_version, keras_release
from mpls.formats.file_kinds import (
    KERAS_VERSION,
    MODEL_WEIGHTS,
    OPTIMIZER_WEIGHTS,
    TRAINING_CONFIG,
    TRAINING_OPTIMIZER,
)
from mpls.formats.record import FileRecord, LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.formats.wrapper_state import STATE_OF_KERAS_3
from mpls.saved.errors import broken
from mpls.saved.h5_content import Content, content_of
from mpls.saved.numbered_weights import read_weights_only
from mpls.saved.optimizer_configs import read_optimizer, value_at
from mpls.saved.plain_numbers import count_of_variable, good_steps_of_variable, number_of_variable, scale_of_variable
from mpls.saved.texts import parse_json

_SCALE, _GOOD_STEPS = STATE_OF_KERAS_3
_PRODUCT = MOMENTUM_PRODUCTS["keras3"]


class H5Model:
    """An open H5 file of a model.

    Args:
        path: the path, for errors.
        file: the file, open and unbuffered. It stays open.
        lazily: whether arrays other than scalars are `StoredArray`s, which read the file each time that their numbers
            are needed.

    Attributes:
        file: the open `h5py.File`.
        version: the version of the Keras that wrote it; None if the file does not say.

    Raises:
        SavedStateError: it is broken, or refers to other files.
    """

    def __init__(self, path: str, file: FileIO, *, lazily: bool = False) -> None:
        self._path = path
        self._configs: dict[str, Any] = {}
        with ExitStack() as stack:
            self._content = stack.enter_context(content_of(path, file, lazily=lazily))
            self._stack = stack.pop_all()
        self.file: Any = self._content.file
        self.version = self._content.text(KERAS_VERSION)

    def __enter__(self) -> H5Model:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def has_config(self, key: str) -> bool:
        """Return whether the file has an attribute with a JSON text."""
        return self._content.text(key) is not None

    def config(self, key: str) -> Any:
        """Return the value of an attribute with a JSON text, the same object at each call; None if it is missing.

        Raises:
            SavedStateError: the text is not JSON.
        """
        if key not in self._configs:
            text = self._content.text(key)
            self._configs[key] = None if text is None else parse_json(self._path, key, text)
        return self._configs[key]

    def record(self) -> FileRecord:
        """Return a record of the file and of its optimizer.

        Raises:
            SavedStateError: the optimizer's config or state is not valid.
        """
        return _read(self._path, self._content, self.version, self.config(TRAINING_CONFIG))


def _read(path: str, content: Content, version: str | None, training: Any) -> FileRecord:
    written_by = keras_release(version)
    config = value_at(training, TRAINING_OPTIMIZER[1:])
    if config is None:
        if content.has_group(OPTIMIZER_WEIGHTS):
            raise broken(path, TRAINING_CONFIG, "describe the optimizer whose weights the file holds", training)
        alone = read_weights_only(path, content)
        return FileRecord(path, "H5", written_by, () if alone is None else [alone])
    is_keras_3 = framework_of_version(version) == "keras"
    family: Family | None = "keras3" if is_keras_3 else None
    record = read_optimizer(path, "/".join(TRAINING_OPTIMIZER), config, family).optimizer
    if content.has_group(OPTIMIZER_WEIGHTS):
        record = _Weights(path, content, record).record()
    return FileRecord(path, "H5", written_by, [replace(record, key=OPTIMIZER_WEIGHTS)])


class _Weights:
    """The weights of an optimizer in a model's H5 file, which has them by name."""

    def __init__(self, path: str, content: Content, optimizer: OptimizerRecord) -> None:
        self.path = path
        self.content = content
        self.optimizer = optimizer
        self.names = content.names(OPTIMIZER_WEIGHTS, "weight_names")
        self.model = self._model_weights()

    def _model_weights(self) -> dict[str, str]:
        """Return the keys of the model's weights by their names; in Keras 3, with underscores instead of slashes."""
        found = {}
        for key in self.content.datasets:
            if key.startswith(f"{MODEL_WEIGHTS}/") and key.count("/") > 1:
                name = key.split("/", 2)[2].partition(":")[0]
                found[name.replace("/", "_") if self.optimizer.family == "keras3" else name] = key
        return found

    def record(self) -> OptimizerRecord:
        iterations: int | None = None
        scale: float | None = None
        good_steps: int | None = None
        slots: dict[str, dict[str, Any]] = {}
        hyperparameters = dict(self.optimizer.hyperparameters)
        others: dict[str, Any] = {}
        for name in self.names:
            key = f"{OPTIMIZER_WEIGHTS}/{name}"
            plain, array = name.partition(":")[0], self.content.array(key)
            last = plain.rpartition("/")[2]
            if last in ("iter", "iteration"):
                # In Keras 3, the wrapper has a counter too. It comes first, and the optimizer's replaces it here.
                iterations = count_of_variable(self.path, key, array)
            elif last == _SCALE:
                scale = scale_of_variable(self.path, key, array)
            elif last == _GOOD_STEPS:
                good_steps = good_steps_of_variable(self.path, key, array, self._growth_steps())
            elif last == "learning_rate" and array.shape == ():
                hyperparameters[last] = number_of_variable(self.path, key, array)
            else:
                slot, variable = self._slot(plain)
                if slot is None or variable is None:
                    # In Keras 3, the variable of Nadam's product has the default name.
                    is_product = has_momentum_product(self.optimizer.algorithm) and last.partition("_")[0] == "variable"
                    others[_PRODUCT if is_product else last] = array
                else:
                    slots.setdefault(variable, {})[slot] = array
        return replace(
            self.optimizer,
            iterations=iterations,
            hyperparameters=hyperparameters,
            variables=[self._variable(name, values) for name, values in slots.items()],
            others=others,
            loss_scale=self._loss_scale(scale, good_steps),
        )

    def _growth_steps(self) -> int | None:
        return None if self.optimizer.loss_scale is None else self.optimizer.loss_scale.growth_steps

    def _slot(self, name: str) -> tuple[str | None, str | None]:
        if self.optimizer.family != "legacy":
            return slot_and_variable(self.optimizer.family, name)
        variable, _, slot = name.rpartition("/")
        parts = variable.split("/")
        # The optimizer's name comes first, which the user may have chosen.
        for start in range(len(parts)):
            if "/".join(parts[start:]) in self.model:
                return slot, "/".join(parts[start:])
        for start, part in enumerate(parts[:-1], 1):
            if algorithm_named(part) is not None:
                return slot, "/".join(parts[start:])
        return None, None

    def _variable(self, name: str, slots: dict[str, Any]) -> VariableRecord:
        key = self.model.get(name)
        if key is not None and self.optimizer.family == "keras3":
            name = key.split("/", 2)[2]
        return VariableRecord(key, name, slots)

    def _loss_scale(self, scale: float | None, good_steps: int | None) -> LossScaleRecord | None:
        known = self.optimizer.loss_scale
        # A fixed scale has these variables too, because Keras expects them; they have no meaning.
        if scale is None or (known is not None and not known.dynamic):
            return known
        known = known or LossScaleRecord(dynamic=True)
        return replace(known, scale=scale, good_steps=good_steps)
