"""What the options promise, in a few lines of Python floats: the tests compare each family with it."""

from __future__ import annotations

import dataclasses
from typing import Any

MAX = 3.4028234663852886e38


@dataclasses.dataclass
class Model:
    """A dynamic loss scale with all settings, and the counters of an optimizer."""

    scale: float
    growth_steps: int = 2000
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    min_scale: float = 1.0
    max_scale: float = MAX
    hysteresis: int = 1
    consecutive_hysteresis: bool = False
    skip_counts_step: bool = False
    good: int = 0
    bad: int = 0
    applied: int = 0
    skipped: int = 0
    in_a_row: int = 0
    # Finite steps after which it grows while it searches; None if it does not.
    search: int | None = None

    def step(self, is_finite: bool) -> None:
        is_last_skip = not is_finite and self.bad + 1 >= self.hysteresis
        if not is_last_skip and (self.scale > self.max_scale or self.scale < self.min_scale != 1):
            # A checkpoint has brought it.
            self.scale = min(max(self.scale, self.min_scale), self.max_scale)
        if is_finite:
            self.applied += 1
            self.in_a_row = 0
            self.good += 1
            if self.consecutive_hysteresis:
                self.bad = 0
            if self.good >= min(self.growth_steps, self.search or self.growth_steps):
                self.good = self.bad = 0
                before, grown = self.scale, self.scale * self.growth_factor
                if grown <= MAX or self.max_scale < MAX:
                    self.scale = min(grown, self.max_scale)
                if self.search and self.scale <= before:
                    self.search = 2**30
            return
        self.skipped += 1
        self.in_a_row += 1
        self.good = 0
        self.bad += 1
        if self.bad >= self.hysteresis:
            self.bad = 0
            self.scale = min(max(self.scale * self.backoff_factor, self.min_scale), self.max_scale)
            if self.search:
                self.search = self.search * 32 if self.search < self.growth_steps // 32 else 2**30

    def configure(self, **settings: Any) -> None:
        for name, value in settings.items():
            setattr(self, name, value)
        moved = min(max(self.scale, self.min_scale), self.max_scale)
        if moved != self.scale:
            self.scale, self.good, self.bad = moved, 0, 0
        self.good = min(self.good, self.growth_steps - 1)

    def set_scale(self, scale: float) -> None:
        self.scale, self.good, self.bad = scale, 0, 0
        self.search = self.search and 2**30

    @property
    def counter(self) -> int:
        return self.applied + (self.skipped if self.skip_counts_step else 0)

    def shown(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "applied_steps": self.applied,
            "skipped_steps": self.skipped,
            "consecutive_skips": self.in_a_row,
            "last_step_applied": self.applied > 0 and self.in_a_row == 0,
            "counter": self.counter,
        }
