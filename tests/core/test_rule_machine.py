"""The rule as a state machine: steps, restarts and damaged states in any order."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mpls.core.rule import FLOAT32_MAX, ScaleState, UpdateRule, next_state

FLOAT32 = np.float32


class RuleMachine(RuleBasedStateMachine):
    """Drives `next_state` in float32, and counts by itself."""

    @initialize(
        exponent=st.integers(0, 127),
        growth_steps=st.integers(-1, 4),
        multiplier=st.sampled_from([2.0, 4.0, 1024.0]),
        ceiling=st.sampled_from([FLOAT32_MAX, 2.0**127, 2.0**60]),
    )
    def start(self, exponent: int, growth_steps: int, multiplier: float, ceiling: float) -> None:
        self.settings = UpdateRule(growth_steps, multiplier, max_scale=ceiling)
        self.state = ScaleState(FLOAT32(min(2.0**exponent, ceiling)), 0)
        self.finite_in_a_row = 0
        self.is_damaged = False

    def step(self, finite: bool) -> ScaleState:
        before = self.state
        with np.errstate(over="ignore", invalid="ignore"):
            self.state = next_state(before, finite, self.settings)
        self.state = ScaleState(FLOAT32(self.state.scale), self.state.good_steps)
        return before

    @rule()
    def finite_step(self) -> None:
        before = self.step(True)
        self.finite_in_a_row += 1
        is_due = before.good_steps + 1 >= self.settings.growth_steps
        ceiling = self.settings.max_scale
        scale = min(float(before.scale), ceiling)
        grown = min(scale * self.settings.multiplier, ceiling)
        if is_due and ceiling == FLOAT32_MAX and grown == ceiling:
            # Without a ceiling, a scale stays where the product leaves float32.
            grown = scale
        if not self.is_damaged:
            assert self.state.scale == (grown if is_due else scale)
        assert self.state.good_steps == (0 if is_due else before.good_steps + 1)

    @rule()
    def overflow(self) -> None:
        before = self.step(False)
        self.finite_in_a_row = 0
        if not self.is_damaged:
            shrunk = max(float(before.scale) / self.settings.multiplier, 1.0)
            assert self.state.scale == min(shrunk, self.settings.max_scale)
        assert self.state.good_steps == 0
        # One overflow brings every state back into range.
        self.is_damaged = False

    @rule(scale=st.sampled_from([0.0, float("inf"), float("nan"), 0.25]), good_steps=st.integers(0, 10_000))
    def restore_a_damaged_state(self, scale: float, good_steps: int) -> None:
        self.state = ScaleState(FLOAT32(scale), good_steps)
        self.is_damaged = True

    @rule(exponent=st.integers(0, 127))
    def restore_another_scale_and_take_a_step(self, exponent: int) -> None:
        self.state = ScaleState(FLOAT32(2.0**exponent), self.state.good_steps)
        self.is_damaged = False
        self.finite_step()

    @invariant()
    def is_in_range(self) -> None:
        if not self.is_damaged:
            assert 1.0 <= self.state.scale <= self.settings.max_scale
            assert 0 <= self.state.good_steps < max(self.settings.growth_steps, 1)
            assert self.state.good_steps <= self.finite_in_a_row


TestRuleMachine = RuleMachine.TestCase
TestRuleMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
