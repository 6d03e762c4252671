"""The course of a training that `mpls trace` has recorded."""

from __future__ import annotations

import pathlib

from mpls.comparing import Trace
from mpls.errors import printable
from mpls.formats.training_history import LOSS, SCALE, SKIPPED, STEP
from mpls.plotting.course import Course, course_of_columns

__all__ = ["course_of_trace"]


def course_of_trace(trace: Trace) -> Course:
    """Return the course of a trace's first optimizer.

    The number of skipped steps is known if every step was recorded.

    Raises:
        UnreadableCourseError: it has no loss scale above 0.
    """
    steps = [each for each in trace.steps if each.wrapper == 0]
    has_all = [each.step for each in steps] == list(range(1, len(steps) + 1))
    rows, skipped = [], 0
    for each in steps:
        skipped += not each.applied
        row = {SCALE: each.scale} if each.loss is None else {SCALE: each.scale, LOSS: each.loss}
        rows.append((each.step, {**row, SKIPPED: skipped} if has_all else row))
    title = pathlib.Path(trace.path).name
    return course_of_columns(title, STEP, rows, f"{printable(trace.path)} has no loss scale above 0")
