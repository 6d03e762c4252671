"""Whether two runs agree, and where they first differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mpls.comparing.pairing import PairedStep, Pairing, paired
from mpls.saved.traces import Trace

__all__ = ["DEFAULT_TOLERANCE", "Comparison", "Difference", "compared"]

# Sums of float32 in another order differ by less in small models.
DEFAULT_TOLERANCE = 1e-5
# A norm that is this small beside that of all is what cancellation has left.
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Difference:
    """A quantity that differs in a step.

    Attributes:
        quantity: `scale`, `counter`, `loss`, `nonfinite`, `gradients`, `applied`, `scale_after`, `counter_after`,
            `variables`, or `steps`.
        at: the place among the paired steps.
        step: the step; None for `steps`.
        variable: the position of the variable in the old trace; None where the quantity is not of one.
        old: the value in the old trace.
        new: the value in the new one.
    """

    quantity: str
    at: int
    step: PairedStep | None
    variable: int | None
    old: float | bool | None
    new: float | bool | None

    @property
    def relative(self) -> float | None:
        """The relative difference; None where there is none."""
        if isinstance(self.old, bool) or isinstance(self.new, bool) or self.old is None or self.new is None:
            return None
        return relative(self.old, self.new)


@dataclass(frozen=True)
class Comparison:
    """What two traces have in common, and where they first differ.

    Attributes:
        old: the one trace.
        new: the other.
        tolerance: the largest relative difference of losses and norms that counts as none.
        pairing: the steps of both.
        first: the first difference; None if they agree.
        largest: the largest relative difference of losses and norms before it.
        same_bits: the number of steps, from the first, in which gradients and variables have the same bits.
        knows_losses: whether both have the loss of every step.
        counts_differ: whether steps that overflow in both have different numbers of non-finite elements.
    """

    old: Trace
    new: Trace
    tolerance: float
    pairing: Pairing
    first: Difference | None
    largest: float
    same_bits: int
    knows_losses: bool
    counts_differ: bool


def compared(old: Trace, new: Trace, tolerance: float = DEFAULT_TOLERANCE) -> Comparison:
    """Compare two traces.

    Scale, counter, and whether a step was applied and had gradients that are not finite, have to be the same. Losses
    and norms may differ by the tolerance, relative to the larger; norms also to a thousandth of the norm of all. Where
    the bits are the same, nothing differs.

    Raises:
        IncomparableTracesError: these are traces of different programs.
    """
    pairing = paired(old, new)
    largest, first = 0.0, None
    for at, step in enumerate(pairing.steps):
        found = list(_differing(at, step))
        too_large = [each for each, size in found if size > tolerance]
        if too_large:
            first = too_large[0]
            break
        largest = max([largest, *(size for _, size in found)])
    if first is None and pairing.missing:
        number = min(pairing.missing)
        first = Difference("steps", len(pairing.steps), None, None, *pairing.missing[number])
    same = next((at for at, step in enumerate(pairing.steps) if not _has_same_bits(step)), len(pairing.steps))
    return Comparison(
        old,
        new,
        tolerance,
        pairing,
        first,
        largest,
        same,
        all(None not in (step.old.loss, step.new.loss) for step in pairing.steps),
        any(step.old.nonfinite != step.new.nonfinite and step.old.nonfinite for step in pairing.steps),
    )


def relative(old: float, new: float, floor: float = 0.0) -> float:
    """Return a relative difference: 0 for equal numbers and for two that are not finite."""
    if old == new or not (math.isfinite(old) or math.isfinite(new)):
        return 0.0
    if not (math.isfinite(old) and math.isfinite(new)):
        return math.inf
    return abs(old - new) / max(abs(old), abs(new), floor)


def total(norms: tuple[float, ...]) -> float:
    """Return the norm of all, from those of each."""
    return math.hypot(*norms)


def _differing(at: int, step: PairedStep) -> Iterator[tuple[Difference, float]]:
    """Yield what differs in a step, in the order in which it comes about, each with its relative difference."""
    old, new = step.old, step.new

    def exactly(
        quantity: str, one: float | bool | None, other: float | bool | None
    ) -> Iterator[tuple[Difference, float]]:
        if one != other and not (one is None or other is None):
            yield Difference(quantity, at, step, None, one, other), math.inf

    yield from exactly("scale", old.scale, new.scale)
    yield from exactly("counter", old.counter, new.counter)
    if old.loss is not None and new.loss is not None:
        size = relative(old.loss, new.loss)
        if size:
            yield Difference("loss", at, step, None, old.loss, new.loss), size
    if bool(old.nonfinite) != bool(new.nonfinite):
        yield Difference("nonfinite", at, step, None, old.nonfinite, new.nonfinite), math.inf
    if old.gradients_digest != new.gradients_digest:
        yield from _norms("gradients", at, step, old.gradient_norms, new.gradient_norms)
    yield from exactly("applied", old.applied, new.applied)
    yield from exactly("scale_after", old.scale_after, new.scale_after)
    yield from exactly("counter_after", old.counter_after, new.counter_after)
    if old.variables_digest != new.variables_digest:
        yield from _norms("variables", at, step, old.variable_norms, new.variable_norms)


def _norms(
    quantity: str, at: int, step: PairedStep, old: tuple[float, ...], new: tuple[float, ...]
) -> Iterator[tuple[Difference, float]]:
    all_of_them = max(total(old), total(new))
    floor = _NEGLIGIBLE * all_of_them if math.isfinite(all_of_them) else 0.0
    found = []
    for place, one in enumerate(old):
        other = new[step.order[place]]
        size = relative(one, other, floor)
        if size:
            found.append((Difference(quantity, at, step, place, one, other), size))
    # The one that differs most is the one to look at.
    yield from sorted(found, key=lambda each: -each[1])


def _has_same_bits(step: PairedStep) -> bool:
    old, new = step.old, step.new
    return (old.gradients_digest, old.variables_digest) == (new.gradients_digest, new.variables_digest)
