"""Courses of trainings in CSV files of `CSVLogger` and in histories in JSON."""

from __future__ import annotations

import csv
import io
import json
import pathlib
from typing import Any

from mpls.comparing import is_trace, read_trace
from mpls.errors import printable
from mpls.formats.training_history import SCALE, STEP
from mpls.plotting.course import Course, UnreadableCourseError, course_of_columns
from mpls.plotting.recorded_steps import course_of_trace

__all__ = ["course_of_csv", "course_of_json"]

_EPOCH = "epoch"
_SEPARATORS = ",;\t|"


def course_of_json(path: pathlib.Path) -> Course:
    """Read a history, a list of objects with `step` and `loss_scale`; or a trace.

    Raises:
        UnreadableCourseError: it is something else, or is not whole.
        OSError: it cannot be read.
    """
    name = printable(str(path))
    try:
        rows = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise UnreadableCourseError(f"{name} is not complete JSON ({printable(str(error))})") from None
    if is_trace(rows):
        return course_of_trace(read_trace(str(path)))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableCourseError(f"{name} is not a list of objects, as LossScaleCallback.save(path) writes it")
    missing = f"{name} has no object with {STEP!r} and {SCALE!r}, as LossScaleCallback.save(path) writes them"
    return course_of_columns(path.name, STEP, ((row.get(STEP), row) for row in rows), missing)


def course_of_csv(path: pathlib.Path) -> Course:
    """Read a file of `CSVLogger`, with any separator, or another with a column `step` or `epoch`.

    Raises:
        UnreadableCourseError: it has no such columns.
        OSError: it cannot be read.
    """
    name = printable(str(path))
    text = _text(path)
    head = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=head.count)
    reader = csv.DictReader(io.StringIO(text), delimiter=separator, restval="")
    try:
        rows: list[dict[str, Any]] = list(reader)
    except csv.Error as error:
        raise UnreadableCourseError(f"{name} is no CSV ({printable(str(error))})") from None
    columns = list(reader.fieldnames or ())
    unit = next((each for each in (STEP, _EPOCH) if each in columns), None)
    if unit is None or SCALE not in columns:
        wanted = f"the columns {STEP!r} or {_EPOCH!r}, and {SCALE!r}"
        raise UnreadableCourseError(
            f"{name} lacks {wanted}; LossScaleCallback() goes before CSVLogger in the list of callbacks"
        )
    return course_of_columns(path.name, unit, ((row[unit], row) for row in rows), f"{name} has no number in {SCALE!r}")


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableCourseError(
            f"{printable(str(path))} is not text; give a CSV file, a history in JSON, or a directory of event files"
        ) from None
