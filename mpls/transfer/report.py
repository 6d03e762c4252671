"""What a transfer of state tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TransferReport:
    """What has been carried over, and what has not.

    Attributes:
        source: where the state comes from, in words.
        target: where it went.
        iterations: the number of steps that the target has now; None if the source did not say, and it was left alone.
        slots: the variables' names, each with the names of its slots that were set, as the target calls them.
        others: other state that was set, as Nadam's momentum product.
        loss_scale: the scale that was set, and the counter of finite steps; None if there was none to set.
        left_out: state of the source that the target does not have, and why.
        started: state of the target that the source does not have, and what it starts from.
        changed: what had to be computed on the way, as a momentum in other units.
        differences: settings that differ, or were set, each as `name: source's value, target's value`.
    """

    source: str
    target: str
    iterations: int | None
    slots: tuple[tuple[str, tuple[str, ...]], ...] = ()
    others: tuple[str, ...] = ()
    loss_scale: tuple[float, int | None] | None = None
    left_out: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as lines of text."""
        lines = [f"{self.source} -> {self.target}"]
        lines.append("iterations: " + ("not known, left alone" if self.iterations is None else str(self.iterations)))
        lines += [f"slots of {name}: {', '.join(slots) or 'none'}" for name, slots in self.slots]
        if self.others:
            lines.append(f"also set: {', '.join(self.others)}")
        if self.loss_scale is not None:
            scale, good_steps = self.loss_scale
            lines.append(f"loss scale: {scale:g}" + ("" if good_steps is None else f", finite steps: {good_steps}"))
        for heading, entries in (
            ("left out", self.left_out),
            ("started", self.started),
            ("changed", self.changed),
            ("settings that differ", self.differences),
        ):
            lines += [f"{heading}: {entry}" for entry in entries]
        return "\n".join(lines)
