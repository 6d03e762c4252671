"""Records of saved optimizers, between the readers of files and those that put state into optimizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mpls.formats.file_kinds import Format

Family = Literal["v1", "legacy", "new", "keras3"]


@dataclass(frozen=True)
class LossScaleRecord:
    """A loss scale as a file holds it; None stands for what the file does not say.

    Attributes:
        dynamic: whether it adapts.
        scale: the current scale, positive and finite.
        good_steps: finite steps since it last changed; None for a fixed one.
        initial_scale: the scale at the start.
        growth_steps: finite steps in a row after which it grows; None for a fixed one.
        multiplier: the factor by which it grows and shrinks; None for a fixed one.
    """

    dynamic: bool
    scale: float | None = None
    good_steps: int | None = None
    initial_scale: float | None = None
    growth_steps: int | None = None
    multiplier: float | None = None


@dataclass(frozen=True)
class VariableRecord:
    """The slots of one variable.

    Attributes:
        key: the variable's key in the file, as `'model/layer_with_weights-0/kernel'`; None where the file has none.
        name: the variable's name when it was saved, as `'dense/kernel'`; None where the file does not say.
        slots: NumPy arrays of the variable's shape, by the names that the family itself gives them.
    """

    key: str | None
    name: str | None
    slots: Mapping[str, Any]


@dataclass(frozen=True)
class OptimizerRecord:
    """An optimizer, without the loss scaling around it.

    Attributes:
        key: where in the file it is, as `'optimizer'`.
        family: who wrote it: TensorFlow's v1 optimizers, legacy or new ones of tf_keras (and of the Keras in TF 1.15
            to 2.15), or Keras 3.
        algorithm: the class name in Keras, as `'Adam'`; None if the file does not say.
        iterations: the number of steps; None if the file does not say.
        hyperparameters: what the file says, as `{'learning_rate': 0.1}`; a schedule is its config.
        variables: the slots, in the order of the file.
        others: other state by name, as Nadam's momentum product and the beta powers of v1's Adam.
        loss_scale: the loss scale around it; None if it was saved without.
    """

    key: str
    family: Family
    algorithm: str | None = None
    iterations: int | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    variables: Sequence[VariableRecord] = ()
    others: Mapping[str, Any] = field(default_factory=dict)
    loss_scale: LossScaleRecord | None = None


@dataclass(frozen=True)
class FileRecord:
    """A file, or a folder, with the optimizers that it holds.

    Attributes:
        path: as the caller named it.
        format: `'object checkpoint'`, `'v1 checkpoint'`, `'SavedModel'`, `'H5'`, `'.keras'` or `'config'`.
        written_by: the releases that write this format, in words, as `'TF 1.15 to 2.2'`.
        optimizers: what it holds; empty if there are none.
    """

    path: str
    format: Format
    written_by: str
    optimizers: Sequence[OptimizerRecord]
