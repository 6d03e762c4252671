"""What a transfer of state will assign, and the report of what it has done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Plan:
    """What will be assigned, and lines for the report.

    Attributes:
        slots: the values of each target variable's slots, by the names in `mpls.formats.algorithms`.
        averaged: whether the averages of variables start at the variables' values.
        left_out: state of the source that the target does not have.
        lost: the entries of `left_out` that affect training, of which the user is warned.
        started: state of the target that the source does not have.
        changed: state whose values differ from those in the source.
        differences: settings that differ.
    """

    slots: list[dict[str, Any]] = field(default_factory=list)
    averaged: bool = False
    left_out: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def leave_out(self, what: str, *, has_effect: bool = True) -> None:
        """Note state of the source that the target does not have."""
        self.left_out.append(what)
        if has_effect:
            self.lost.append(what)


@dataclass(frozen=True)
class TransferReport:
    """What a transfer has set in the target, and what it has not.

    Attributes:
        source: the source, in words.
        target: the target, in words.
        iterations: the number of steps that the target now has; None if the source did not say it, which leaves the
            target's as it was.
        slots: for each variable its name, and the slots that were set, by the target's names.
        others: other variables that were set, such as Nadam's momentum product.
        loss_scale: the scale and the counter of finite steps that were set; None if they were not.
        counts: counters of steps that were set, by name, and counts beside the scale; empty if none were.
        left_out: state of the source that the target does not have, and why.
        started: state of the target that the source does not have, and its initial value.
        changed: state that was converted, such as a momentum in other units.
        differences: settings that differ, each as `name: source's value, target's value`.
    """

    source: str
    target: str
    iterations: int | None
    slots: tuple[tuple[str, tuple[str, ...]], ...]
    others: tuple[str, ...]
    loss_scale: tuple[float, int] | None
    counts: tuple[tuple[str, int], ...]
    left_out: tuple[str, ...]
    started: tuple[str, ...]
    changed: tuple[str, ...]
    differences: tuple[str, ...]

    def __str__(self) -> str:
        """Return the report as lines of text."""
        lines = [f"{self.source} -> {self.target}"]
        lines.append("iterations: " + ("not known, left alone" if self.iterations is None else str(self.iterations)))
        lines += [f"slots of {name}: {', '.join(slots) or 'none'}" for name, slots in self.slots]
        if self.others:
            lines.append(f"also set: {', '.join(self.others)}")
        if self.loss_scale is not None:
            scale, good_steps = self.loss_scale
            lines.append(f"loss scale: {scale:g}, finite steps: {good_steps}")
        if self.counts:
            lines.append(f"counts: {', '.join(f'{name} {count}' for name, count in self.counts)}")
        for heading, entries in (
            ("left out", self.left_out),
            ("started", self.started),
            ("changed", self.changed),
            ("settings that differ", self.differences),
        ):
            lines += [f"{heading}: {entry}" for entry in entries]
        return "\n".join(lines)
