"""Messages about a loss scale: at most one line for each change that is seen, which says whether it is normal."""

from __future__ import annotations

import logging
import math

# Falls in a row from which on the log warns, and then again at each doubling of them.
_MANY_FALLS = 3
# Steps skipped in a row, while the scale stays, from which on the log warns, and then again at each doubling.
_MANY_SKIPS = 10
_LOGGER = logging.getLogger("mpls")


class ScaleMessages:
    """Logs changes of a scale to the logger `mpls`.

    Args:
        factor: by which the scale shrinks, above 1; it tells how often it has fallen between two readings.
    """

    def __init__(self, factor: float = 2.0) -> None:
        self._factor = factor
        self._last: float | None = None
        self._top = 0.0
        self._falls = 0
        self._warns_at = _MANY_FALLS
        self._warns_at_skips = _MANY_SKIPS
        self._times_set = 0

    def note(self, scale: float, where: str, consecutive_skips: int | None = None, times_set: int = 0) -> None:
        """Log a line if the scale has changed since the last call, or stays while many steps are skipped.

        Args:
            scale: the scale now.
            where: when it was read, for the line: `"in step 100"`.
            consecutive_skips: steps skipped since the last applied one; None if they are not counted.
            times_set: how often the program itself has set the scale so far.
        """
        before, self._last = self._last, scale
        was_set, self._times_set = times_set != self._times_set, times_set
        if before is None or scale == before or (math.isnan(scale) and math.isnan(before)):
            self._note_skips(scale, where, consecutive_skips or 0)
            return
        change = f"loss scale {before:g} -> {scale:g} {where}"
        if was_set:
            self._falls, self._warns_at = 0, _MANY_FALLS
            _LOGGER.info("%s: the program has set it since the last reading.", change)
            return
        if scale > before:
            self._falls, self._warns_at = 0, _MANY_FALLS
            _LOGGER.info("%s: gradients were finite for many steps, so it grows. This is normal.", change)
            return
        if self._falls == 0:
            self._top = before
        self._falls += self._falls_between(before, scale)
        if self._falls >= self._warns_at:
            while self._warns_at <= self._falls:
                self._warns_at *= 2
            _LOGGER.warning(self._warning(change))
        else:
            _LOGGER.info(
                "%s: gradients were not finite, and the step was skipped. This is normal: every growth ends in one "
                "skipped step once the scale is at its limit, and a scale that starts too high falls to it.",
                change,
            )

    def _note_skips(self, scale: float, where: str, skips: int) -> None:
        if skips < self._warns_at_skips:
            self._warns_at_skips = _MANY_SKIPS if skips < _MANY_SKIPS else self._warns_at_skips
            return
        while self._warns_at_skips <= skips:
            self._warns_at_skips *= 2
        _LOGGER.warning(
            f"loss scale stays at {scale:g} {where}, and the last {skips} steps were all skipped, so nothing is "
            "learned. Gradients that stay infinite or NaN are a fault of the model or its input, or the scale may not "
            "fall any more: track_overflows=True says of which variables, max_consecutive_skips when to stop. "
            "See mpls docs monitoring"
        )

    def _warning(self, change: str) -> str:
        return (
            f"{change}: it has fallen {self._falls} times in a row, from {self._top:g}. In the first steps this only "
            "means that it started too high. Later, gradients that stay infinite or NaN are a fault of the model or "
            "its input: track_overflows=True says of which variables, max_consecutive_skips when to stop. "
            "See mpls docs monitoring"
        )

    def _falls_between(self, before: float, scale: float) -> int:
        if not (scale > 0 and math.isfinite(before)):
            return 1
        return max(1, round(math.log(before / scale, self._factor)))
