"""Which optimizers, variables and steps of two traces are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpls.errors import MplsError, printable
from mpls.saved.traces import Trace, TracedStep, TracedWrapper

__all__ = ["IncomparableTracesError", "PairedStep", "Pairing", "paired"]


class IncomparableTracesError(MplsError, ValueError):
    """Two traces are of different programs, or have no step in common."""


@dataclass(frozen=True)
class PairedStep:
    """A step that both traces have.

    Attributes:
        wrapper: the number of the optimizer in the old trace.
        old: the step there.
        new: the step in the new trace.
        order: for each variable of the old trace, its position in the new one.
    """

    wrapper: int
    old: TracedStep
    new: TracedStep
    order: tuple[int, ...]


@dataclass(frozen=True)
class Pairing:
    """What two traces have in common.

    Attributes:
        steps: those that both have, in the order of the old trace.
        missing: by number of an optimizer in the old trace, the steps that only one of the two runs took: their number
            in the old trace, and in the new one. Where one trace was to stop earlier, what is beyond is not counted.
    """

    steps: tuple[PairedStep, ...]
    missing: dict[int, tuple[int, int]]

    def leaves_out(self, at: int) -> bool:
        """Return whether a trace lacks steps between the paired step at an index and the optimizer's one before it."""
        step = self.steps[at]
        before = [each.old.step for each in self.steps[:at] if each.wrapper == step.wrapper]
        return step.old.step > (before[-1] if before else 0) + 1


def paired(old: Trace, new: Trace) -> Pairing:
    """Pair what two traces have.

    Optimizers belong together in the order of their first steps; variables by their names if these are the same in
    both, else in order. Shapes have to be the same.

    Raises:
        IncomparableTracesError: these are traces of different programs.
    """
    if len(old.wrappers) != len(new.wrappers):
        raise IncomparableTracesError(
            f"{printable(old.path)} has {len(old.wrappers)} optimizers that scale a loss, and {printable(new.path)} "
            f"has {len(new.wrappers)}: these are different programs, or only parts of one"
        )
    orders = [_order(*each, number) for number, each in enumerate(zip(old.wrappers, new.wrappers, strict=True))]
    by_place = {(step.wrapper, step.step): step for step in new.steps}
    steps = tuple(
        PairedStep(step.wrapper, step, by_place[step.wrapper, step.step], orders[step.wrapper])
        for step in old.steps
        if (step.wrapper, step.step) in by_place
    )
    if not steps:
        raise IncomparableTracesError(
            f"{printable(old.path)} and {printable(new.path)} have no step in common; record both with the same "
            "--every and --steps"
        )
    return Pairing(steps, _missing(old, new, len(orders)))


def _order(old: TracedWrapper, new: TracedWrapper, number: int) -> tuple[int, ...]:
    names = [[each.name for each in wrapper.variables] for wrapper in (old, new)]
    has_same_names = sorted(names[0]) == sorted(names[1]) and len(set(names[0])) == len(names[0])
    order = tuple(names[1].index(name) if has_same_names else at for at, name in enumerate(names[0]))
    if len(names[0]) != len(names[1]):
        raise IncomparableTracesError(
            f"optimizer {number} has {len(names[0])} measured variables in the old trace and {len(names[1])} in the "
            "new one: these are different programs, or were recorded with different --variables"
        )
    for at, variable in enumerate(old.variables):
        other = new.variables[order[at]]
        if variable.shape != other.shape:
            raise IncomparableTracesError(
                f"variable {at} of optimizer {number} is {printable(variable.name)} of shape {_shown(variable.shape)} "
                f"in the old trace, and {printable(other.name)} of shape {_shown(other.shape)} in the new one: these "
                "are different programs"
            )
    return order


def _shown(shape: Sequence[int | None]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _missing(old: Trace, new: Trace, count: int) -> dict[int, tuple[int, int]]:
    """Return how many steps each run took, where these are not as many."""
    limits = [trace.settings.get("steps") for trace in (old, new)]
    limit = min([each for each in limits if isinstance(each, int)], default=None)
    everies = [each if isinstance(each, int) else 1 for each in (trace.settings.get("every") for trace in (old, new))]
    found = {}
    for number in range(count):
        last = [max((step.step for step in trace.steps if step.wrapper == number), default=0) for trace in (old, new)]
        if limit is not None:
            last = [min(each, limit) for each in last]
        # If the runs recorded different steps in between, the last steps may differ although the runs agree.
        if abs(last[0] - last[1]) >= (1 if everies[0] == everies[1] else max(everies)):
            found[number] = (last[0], last[1])
    return found
