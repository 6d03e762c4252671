"""Records of saved optimizers: what the readers of files return, and what is loaded into live optimizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpls.formats.families import Family
from mpls.formats.file_kinds import Format


@dataclass(frozen=True)
class LossScaleRecord:
    """A loss scale in a file, or of a live wrapper; an attribute is None if the file does not say it.

    Attributes:
        dynamic: whether the scale changes in training.
        scale: the current scale, positive and finite.
        good_steps: finite steps since the scale last changed; None for a fixed scale.
        initial_scale: the scale at the start of training.
        growth_steps: finite steps in a row after which the scale grows; None for a fixed scale.
        multiplier: the factor by which the scale grows and shrinks; None for a fixed scale.
        options: what only mpls has, by name: arguments that are not the defaults, as `'min_scale'`, and variables that
            come with them, as `'bad_steps'`.
    """

    dynamic: bool
    scale: float | None = None
    good_steps: int | None = None
    initial_scale: float | None = None
    growth_steps: int | None = None
    multiplier: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class VariableRecord:
    """The slots of one variable.

    Attributes:
        key: the variable's key in the file, as `'model/layer_with_weights-0/kernel'`; None if the file has none.
        name: the variable's name when it was saved, as `'dense/kernel'`; None if the file does not say.
        slots: arrays of the variable's shape, by the names that the family gives to slots: NumPy arrays, or what NumPy
            reads as one (`mpls.saved.containers.StoredArray`).
    """

    key: str | None
    name: str | None
    slots: Mapping[str, Any]


@dataclass(frozen=True)
class OptimizerRecord:
    """A saved optimizer.

    Attributes:
        key: where in the file it is, as `'optimizer'`.
        family: the family that saved it.
        algorithm: the class name in Keras, as `'Adam'`; None if the file does not say.
        iterations: the number of steps; None if the file does not say.
        hyperparameters: the settings that the file says, as `{'learning_rate': 0.1}`; a schedule is its config.
        variables: the slots, in the order of the file.
        others: other state by name, such as Nadam's momentum product and the beta powers of v1's Adam.
        loss_scale: the loss scale of its wrapper; None if it was saved without a wrapper.
        options: arguments of the wrapper that only mpls has and that concern its steps, as `'count_steps'`.
        counts: the counters of its steps, by name; empty if they were not counted.
        possible_steps: beta powers and a global step, by the names of their variables, that may belong to this
            optimizer or to another of the file.
        possible_scales: loss scales of which the same is true.
    """

    key: str
    family: Family
    algorithm: str | None = None
    iterations: int | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    variables: Sequence[VariableRecord] = ()
    others: Mapping[str, Any] = field(default_factory=dict)
    loss_scale: LossScaleRecord | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    possible_steps: Mapping[str, Any] = field(default_factory=dict)
    possible_scales: Mapping[str, LossScaleRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class FileRecord:
    """A file or a folder, and the optimizers in it.

    Attributes:
        path: as the caller named it.
        format: the format of the file.
        written_by: the releases that may have written it, in words, as `'TF 1.14 or later'`.
        optimizers: the optimizers in it; empty if it holds none.
    """

    path: str
    format: Format
    written_by: str
    optimizers: Sequence[OptimizerRecord]
