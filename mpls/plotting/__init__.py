"""`mpls plot`: draws the loss scale of a training that was recorded. Loads no TensorFlow."""

from __future__ import annotations

import io
import os
import pathlib

from mpls.comparing import Trace
from mpls.errors import MissingFileError, MplsError, printable
from mpls.plotting.course import Course, UnreadableCourseError
from mpls.plotting.event_files import course_of_events
from mpls.plotting.recorded_steps import course_of_trace
from mpls.plotting.text_files import course_of_csv, course_of_json

__all__ = ["CannotPlotError", "plot", "plot_traces", "read_course"]

_SUFFIXES = (".png", ".svg", ".pdf")


class CannotPlotError(MplsError, OSError):
    """The plot cannot be written where it is to go."""


def plot(path: str, out: str, *, force: bool = False) -> str:
    """Draw the course of a training.

    Args:
        path: a directory of TensorBoard's event files, a CSV file of `CSVLogger`, a history in JSON, or a trace.
        out: the image, `.png`, `.svg` or `.pdf`.
        force: whether an existing file is replaced.

    Returns:
        One sentence that says what was drawn.

    Raises:
        MissingFileError: there is nothing at `path`.
        UnreadableCourseError: what is there holds no loss scale, or is broken.
        CannotPlotError: `out` exists already, or has another suffix.
        MissingPackageError: matplotlib is not installed.
        OSError: a file cannot be read or written.
    """
    target = _target(out, force=force)
    course = read_course(path)
    from mpls.plotting.drawing import draw

    image = io.BytesIO()
    draw(course, image, target.suffix[1:].lower())
    _write(image, target, force=force)
    return printable(f"{course.summary()}: {out}")


def plot_traces(old: Trace, new: Trace, first: int | None, out: str, *, force: bool = False) -> str:
    """Draw two traces in one image.

    Args:
        old: the one.
        new: the other.
        first: the first step in which they differ; None if there is none.
        out: the image, `.png`, `.svg` or `.pdf`.
        force: whether an existing file is replaced.

    Returns:
        One sentence that says what was drawn.

    Raises:
        CannotPlotError: `out` exists already, or has another suffix.
        MissingPackageError: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    target = _target(out, force=force)
    from mpls.plotting.two_courses import draw_two

    image = io.BytesIO()
    draw_two(course_of_trace(old), course_of_trace(new), first, image, target.suffix[1:].lower())
    _write(image, target, force=force)
    return printable(f"both are drawn in {out}")


def _target(out: str, *, force: bool) -> pathlib.Path:
    target = pathlib.Path(out)
    if target.suffix.lower() not in _SUFFIXES:
        raise CannotPlotError(f"{printable(out)} must end in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}")
    if not force and os.path.lexists(target):
        raise CannotPlotError(f"{printable(out)} exists already; choose another name, or replace it with --force")
    return target


def _write(image: io.BytesIO, target: pathlib.Path, *, force: bool) -> None:
    try:
        with target.open("wb" if force else "xb") as file:
            file.write(image.getvalue())
    except FileExistsError:
        raise CannotPlotError(f"{printable(str(target))} exists already; replace it with --force") from None


def read_course(path: str) -> Course:
    """Read what was recorded; arguments and errors are those of `plot`."""
    place = pathlib.Path(path)
    if not place.exists():
        raise MissingFileError(f"there is nothing at {printable(path)}")
    if place.is_dir():
        return course_of_events(place)
    if "tfevents" in place.name:
        raise UnreadableCourseError(f"{printable(path)} is one event file; give the directory that it is in")
    if not place.is_file():
        # A pipe may never end, or never begin.
        raise UnreadableCourseError(f"{printable(path)} is not a regular file")
    if place.suffix.lower() == ".json":
        return course_of_json(place)
    return course_of_csv(place)
