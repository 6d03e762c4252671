"""How it is told whether a step was applied, and which steps are due."""

from __future__ import annotations

import pathlib

import pytest

from mpls.tracing import (
    APPLIES_ALL,
    BY_GRADIENTS,
    BY_STATE,
    CannotTraceError,
    StepRecorder,
    TraceWriter,
    was_applied,
)


@pytest.mark.parametrize(
    ("rule", "before", "after", "nonfinite", "is_applied"),
    [
        (BY_STATE, (8, 0), (8, 1), 0, True),
        (BY_STATE, (8, 3), (16, 0), 0, True),
        (BY_STATE, (8, 3), (4, 0), 1, False),
        # What the wrapper did counts, not what the gradients are: releases looked at sums, or at one replica.
        (BY_STATE, (8, 3), (4, 0), 0, False),
        (BY_STATE, (8, 3), (8, 4), 1, True),
        # At the floor, and at the ceiling.
        (BY_STATE, (1, 3), (1, 0), 1, False),
        (BY_STATE, (2.0**127, 3), (2.0**127, 0), 0, True),
        (BY_GRADIENTS, (8, -1), (4, -1), 1, False),
        (BY_GRADIENTS, (8, 2), (8, 0), 1, False),
        (BY_GRADIENTS, (8, -1), (8, -1), 0, True),
        (APPLIES_ALL, (8, -1), (8, -1), 1, True),
    ],
)
def test_whether_a_step_was_applied(
    rule: str, before: tuple[float, int], after: tuple[float, int], nonfinite: int, is_applied: bool
) -> None:
    assert was_applied(rule, before, after, nonfinite) is is_applied


@pytest.mark.parametrize(
    ("every", "steps", "expected"),
    [
        (None, None, [*range(100), 100, 200]),
        (1, None, list(range(250))),
        (50, None, [0, 50, 100, 150, 200]),
        (None, 101, list(range(101))),
        (50, 60, [0, 50]),
    ],
)
def test_which_steps_are_due(tmp_path: pathlib.Path, every: int | None, steps: int | None, expected: list[int]) -> None:
    writer = TraceWriter(str(tmp_path / "trace.json"), {}, False)
    recorder = StepRecorder(writer, every, steps)
    writer.discard()
    assert [count for count in range(250) if recorder.is_due(count)] == expected


def test_what_appears_meanwhile_is_kept(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.json"
    writer = TraceWriter(str(path), {}, False)
    path.write_text("another")
    with pytest.raises(CannotTraceError, match="exists by now; what was recorded was put into"):
        writer.finish({})
    assert path.read_text() == "another"
    assert len(list(tmp_path.iterdir())) == 2
