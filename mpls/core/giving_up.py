"""What happens when too many steps in a row are skipped: an error, a warning or a call of the user's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mpls.errors import MplsWarning, TrainingStuckError, warn_user

__all__ = ["RECENT", "Stuck", "asserted", "give_up"]

# How many of the last scales are kept.
RECENT = 8
_SEE = "See MIGRATION.md#giving-up"


@dataclass(frozen=True)
class Stuck:
    """What is known when an optimizer gives up; the argument of a function that is passed as `on_give_up`.

    Attributes:
        consecutive_skips: how many steps in a row were skipped.
        nonfinite_losses: in how many of them the loss itself was not finite, or any of several that were scaled since
            the step before; None if no loss is known.
        recent_scales: the scales of the last skipped steps, the latest last.
        variables: the names of the variables whose gradients were not finite in the last of them.

    Example:
        >>> import tensorflow as tf
        >>> import mpls.monitor, mpls.v1
        >>> def tell(stuck: mpls.monitor.Stuck) -> None:
        ...     print(stuck.consecutive_skips, stuck.nonfinite_losses, stuck.recent_scales)
        >>> weight = tf.Variable(1.0)
        >>> opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
        ...     tf.compat.v1.train.GradientDescentOptimizer(0.25), "dynamic", max_consecutive_skips=1, on_give_up=tell)
        >>> for _ in range(2):
        ...     opt.minimize(lambda: weight * float("nan"), var_list=[weight])
        2 2 (32768.0, 16384.0)
    """

    consecutive_skips: int
    nonfinite_losses: int | None
    recent_scales: tuple[float, ...]
    variables: tuple[str, ...]

    def __str__(self) -> str:
        scales = ", ".join(f"{scale:g}" for scale in self.recent_scales)
        shown = ", ".join(self.variables[:5]) + (
            f" and {len(self.variables) - 5} others" if len(self.variables) > 5 else ""
        )
        return (
            f"LossScaleOptimizer: {self.consecutive_skips} steps in a row were skipped, as gradients were not finite. "
            f"{self._cause()} Last scales: {scales}. Variables: {shown or 'not known'}. {_SEE}"
        )

    def _cause(self) -> str:
        if self.nonfinite_losses is None:
            return "Whether the loss was finite is not known."
        if self.nonfinite_losses == 0:
            return (
                "The loss was finite in all of them, so the gradients overflow: the scale is too high, or its floor "
                "min_scale is."
            )
        return (
            f"The loss itself was not finite in {self.nonfinite_losses} of them, which no loss scale can mend: look "
            "for the op, the input or the learning rate that makes it infinite or NaN."
        )


def give_up(stuck: Stuck, how: str | Callable[[Stuck], Any]) -> None:
    """Raise, warn, or call the user's function.

    Raises:
        TrainingStuckError: `how` is `'raise'`.
    """
    if callable(how):
        how(stuck)
    elif how == "warn":
        warn_user(str(stuck), MplsWarning)
    else:
        raise TrainingStuckError(str(stuck))


def asserted(is_fine: Any, count: Any, losses: Any, scales: Any, names: Sequence[str], are_finite: Any) -> Any:
    """Return an op of a graph that fails if too many steps in a row were skipped; compiled by XLA, it does nothing."""
    return tf.debugging.Assert(
        is_fine,
        [
            "LossScaleOptimizer: steps in a row that were skipped, as gradients were not finite:",
            count,
            "of which the loss itself was not finite in (-1: not known):",
            losses,
            "last scales:",
            scales,
            f"whether the gradients of {', '.join(names)} were finite:",
            are_finite,
            _SEE,
        ],
        summarize=64,
    )
