"""What becomes of steps, as users choose it: whether they are counted, and what a skipped one advances."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from mpls.core.numbers import to_bool

__all__ = ["NO_OPTIONS", "StepOptions", "checked_options"]

_ANCHOR = "counted-steps"


@dataclass(frozen=True)
class StepOptions:
    """Options of an optimizer that scales the loss.

    Attributes:
        count_steps: whether applied and skipped steps are counted.
        skip_counts_step: whether a skipped step advances the step counter, `iterations` or `global_step`; None for what
            the family does.
    """

    count_steps: bool = False
    skip_counts_step: bool | None = None

    def skips_count(self, by_default: bool) -> bool:
        """Return whether a skipped step advances the counter.

        Args:
            by_default: what the family does.
        """
        return by_default if self.skip_counts_step is None else self.skip_counts_step

    def changed(self) -> dict[str, Any]:
        """Return those that are not the defaults, for configs."""
        return {
            each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default
        }


NO_OPTIONS = StepOptions()


def checked_options(subject: str, count_steps: Any = False, skip_counts_step: Any = None) -> StepOptions:
    """Return the options that a user has given.

    Args:
        subject: the public name that the user called, for errors.
        count_steps: a bool.
        skip_counts_step: a bool, or None.

    Raises:
        TypeError: one of them is of another type.
    """
    if skip_counts_step is not None:
        to_bool(skip_counts_step, f"{subject}: skip_counts_step", _ANCHOR)
    return StepOptions(to_bool(count_steps, f"{subject}: count_steps", _ANCHOR), skip_counts_step)
