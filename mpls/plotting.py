"""`mpls plot`: reads the loss scale of a training that was recorded, and draws it. Loads no TensorFlow."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import pathlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from mpls.comparing import Trace, is_trace, read_trace
from mpls.errors import MissingFileError, MissingPackageError, MplsError, printable
from mpls.formats.training_history import LOSS, SCALE, SKIPPED, STEP

__all__ = ["CannotPlotError", "Course", "UnreadableCourseError", "plot", "read_course"]

_SUFFIXES = (".png", ".svg", ".pdf")


class CannotPlotError(MplsError, OSError):
    """The plot cannot be written where it is to go."""


def plot(path: str, out: str, *, force: bool = False) -> str:
    """Draw the course of a training.

    Args:
        path: a CSV file of `CSVLogger`, a history in JSON, or a trace.
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
    target = pathlib.Path(out)
    if target.suffix.lower() not in _SUFFIXES:
        raise CannotPlotError(f"{printable(out)} must end in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}")
    exists = CannotPlotError(f"{printable(out)} exists already; choose another name, or replace it with --force")
    if not force and os.path.lexists(target):
        raise exists
    course = read_course(path)
    image = io.BytesIO()
    _draw(course, image, target.suffix[1:].lower())
    try:
        with target.open("wb" if force else "xb") as file:
            file.write(image.getvalue())
    except FileExistsError:
        raise exists from None
    return printable(f"{course.summary()}: {out}")


def read_course(path: str) -> Course:
    """Read what was recorded; arguments and errors are those of `plot`."""
    place = pathlib.Path(path)
    if not place.exists():
        raise MissingFileError(f"there is nothing at {printable(path)}")
    if place.is_dir() or "tfevents" in place.name:
        raise UnreadableCourseError(f"{printable(path)} is for TensorBoard, which draws it: tensorboard --logdir DIR")
    if not place.is_file():
        # A pipe may never end, or never begin.
        raise UnreadableCourseError(f"{printable(path)} is not a regular file")
    if place.suffix.lower() == ".json":
        return _course_of_json(place)
    return _course_of_csv(place)


# What was recorded.

Points = list[tuple[float, float]]
# Scales and losses are float32. Axes overflow near the limits of float64.
_INFINITE = 2.0**128
_LARGEST_STEP = 2.0**63


class UnreadableCourseError(MplsError, ValueError):
    """A file holds no course of a training, or is broken."""


@dataclass
class Course:
    """What was recorded, in order.

    Attributes:
        title: where it is from.
        unit: what the points are numbered by, `'step'`, `'epoch'` or `'reading'`.
        scale: the loss scale.
        skipped: the number of skipped steps so far; empty if it was not recorded.
        loss: the loss where it was finite; empty if it was not recorded.
        bad_loss: where the loss was not finite, steps or epochs.
        within: the first and the last step or epoch, in words, where the points are numbered by readings.
    """

    title: str
    unit: str
    scale: Points
    skipped: Points = field(default_factory=list)
    loss: Points = field(default_factory=list)
    bad_loss: list[float] = field(default_factory=list)
    within: str = ""

    @property
    def label(self) -> str:
        """What the axis of steps is called."""
        return f"{self.unit} ({self.within})" if self.within else self.unit

    def marks(self) -> tuple[Points, str]:
        """Return where steps were skipped, each with the scale there, and what the marks are called."""
        scales = dict(self.scale)
        if self.skipped:
            first = [(0.0, 0.0), *self.skipped][:-1]
            steps = [step for (_, before), (step, now) in zip(first, self.skipped, strict=True) if now > before]
            return [(step, scales[step]) for step in steps if step in scales], "steps were skipped"
        falls = [now for before, now in itertools.pairwise(self.scale) if now[1] < before[1]]
        return falls, "scale came down: steps were skipped"

    def summary(self) -> str:
        """Return what there is to see, in words."""
        scales = [value for _, value in self.scale]
        skipped = f", skipped steps: {self.skipped[-1][1]:.12g}" if self.skipped else ""
        places = f"{self.unit} {self.scale[0][0]:.12g} to {self.scale[-1][0]:.12g}"
        places += f" ({self.within})" if self.within else ""
        return f"{places}: loss scale {min(scales):.12g} to {max(scales):.12g}{skipped}"


def _course_of_rows(title: str, unit: str, rows: Iterable[tuple[Any, Mapping[str, Any]]], missing: str) -> Course:
    """Return the course that rows tell; if a step does not follow the one before, the rows are numbered instead.

    Args:
        title: where they are from.
        unit: what they are numbered by.
        rows: each with its step or epoch.
        missing: the error if none has a loss scale.

    Raises:
        UnreadableCourseError: there is no loss scale.
    """
    numbered = ((_as_number(place), row) for place, row in rows)
    read = [(step, row) for step, row in numbered if step is not None and abs(step) <= _LARGEST_STEP]
    steps, within = [step for step, _ in read], ""
    if any(later <= step for step, later in itertools.pairwise(steps)):
        # Steps stay where they are if nothing counts them, and go back in a training that was resumed.
        unit, within = "reading", f"{unit} {min(steps):.12g} to {max(steps):.12g}"
        read = [(float(number), row) for number, (_, row) in enumerate(read, 1)]
    scale, skipped, loss = (_points_of(name, read) for name in (SCALE, SKIPPED, LOSS))
    bad_loss = [step for step, value in loss if not _is_finite(value)]
    scale, skipped, loss = ([point for point in points if _is_finite(point[1])] for points in (scale, skipped, loss))
    if not any(value > 0 for _, value in scale):
        raise UnreadableCourseError(missing)
    return Course(title, unit, scale, skipped, loss, bad_loss, within)


def _points_of(name: str, rows: Iterable[tuple[float, Mapping[str, Any]]]) -> Points:
    # `save` writes null for a number that is not finite.
    values = ((step, math.nan if row[name] is None else _as_number(row[name])) for step, row in rows if name in row)
    return [(step, value) for step, value in values if value is not None]


def _is_finite(value: float) -> bool:
    return abs(value) < _INFINITE


def _as_number(value: Any) -> float | None:
    """Return a number, or None for what is none, such as the `NA` of `CSVLogger`."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _course_of_trace(trace: Trace) -> Course:
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
    return _course_of_rows(title, STEP, rows, f"{printable(trace.path)} has no loss scale above 0")


# In text files.

# Between the columns of a CSV file.
_SEPARATORS = ",;\t|"


def _course_of_json(path: pathlib.Path) -> Course:
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
        return _course_of_trace(read_trace(str(path)))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableCourseError(f"{name} is not a list of objects, as LossScaleCallback.save(path) writes it")
    missing = f"{name} has no object with {STEP!r} and {SCALE!r}, as LossScaleCallback.save(path) writes them"
    return _course_of_rows(path.name, STEP, ((row.get(STEP), row) for row in rows), missing)


def _course_of_csv(path: pathlib.Path) -> Course:
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
    unit = next((each for each in (STEP, "epoch") if each in columns), None)
    if unit is None:
        raise UnreadableCourseError(f"{name} has neither a column {STEP!r} nor a column 'epoch'")
    if SCALE not in columns:
        raise UnreadableCourseError(
            f"{name} has no column {SCALE!r}; LossScaleCallback() without a name, before CSVLogger, writes it"
        )
    return _course_of_rows(path.name, unit, ((row[unit], row) for row in rows), f"{name} has no number in {SCALE!r}")


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableCourseError(
            f"{printable(str(path))} is not text; give a CSV file, a history in JSON, or a trace"
        ) from None


# Drawing with matplotlib.

# Told apart also by the colour-blind, and in print by their shapes.
_BLUE, _ORANGE, _BLACK, _PINK = "#0072b2", "#d55e00", "#333333", "#cc79a7"
_MOST_MARKED = 40


def _draw(course: Course, file: BinaryIO, image_format: str) -> None:
    """Draw loss scale and skipped steps of a training, and below them the loss if there is any.

    Args:
        course: what was recorded.
        file: gets the image.
        image_format: `'png'`, `'svg'` or `'pdf'`.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise MissingPackageError(
            "drawing needs matplotlib, which is not installed; install it with: pip install 'mpls[plot]'"
        ) from None
    has_loss = bool(course.loss or course.bad_loss)
    number = 2 if has_loss else 1
    figure = Figure(figsize=(8, 2 + 2 * number), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"Loss scale of {printable(course.title)}", fontsize=14, parse_math=False)
    panels = list(figure.subplots(number, 1, sharex=True, squeeze=False)[:, 0])
    _draw_scale(panels[0], course)
    if has_loss:
        _draw_loss(panels[1], course)
    for axes in panels:
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=11)
        axes.margins(x=0.02)
    figure.align_ylabels()
    panels[-1].set_xlabel(course.label, fontsize=12)
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    with warnings.catch_warnings():
        # The font lacks some scripts, in which names of files are: there it draws boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(file, format=image_format, dpi=150)


def _draw_scale(axes: Any, course: Course) -> None:
    steps, scales = _columns([point for point in course.scale if point[1] > 0])
    # A scale stays until the next reading.
    axes.step(steps, scales, where="post", color=_BLUE, linewidth=2, label="loss scale", **_dots(steps))
    marks, meaning = course.marks()
    if marks:
        label = f"{meaning} ({course.skipped[-1][1]:.12g} in all)" if course.skipped else meaning
        shape = {"markersize": 9, "markeredgecolor": "white"} if len(marks) <= _MOST_MARKED else {"markersize": 5}
        axes.plot(*_columns(marks), linestyle="", marker="v", color=_ORANGE, label=label, **shape)
    low, high = math.log2(min(scales)), math.log2(max(scales))
    axes.set_yscale("log", base=2)
    # Room for at least two ticks, and above for the legend.
    axes.set_ylim(2 ** (low - 1 - 0.05 * (high - low)), 2 ** (high + 1 + 0.35 * max(2.0, high - low)))
    axes.set_ylabel("loss scale (factor)", fontsize=12)
    axes.legend(loc="upper left", ncols=2, frameon=False, fontsize=11)


def _draw_loss(axes: Any, course: Course) -> None:
    # The line breaks where there is no number.
    steps, losses = _columns(sorted([*course.loss, *((step, math.nan) for step in course.bad_loss)]))
    finite = [value for _, value in course.loss]
    if finite:
        axes.plot(steps, losses, color=_BLACK, linewidth=2, label="training loss", **_dots(steps))
        if min(finite) > 0 and max(finite) > 20 * min(finite):
            axes.set_yscale("log")
    else:
        # Numbers on the axis would be of no loss.
        axes.set_yticks([])
    if course.bad_loss:
        at_the_bottom = axes.get_xaxis_transform()
        label = f"not finite ({len(course.bad_loss)} times)"
        places = (course.bad_loss, [0.06] * len(course.bad_loss))
        axes.plot(*places, transform=at_the_bottom, linestyle="", marker="X", markersize=8, color=_PINK, label=label)
    axes.set_ylabel("loss", fontsize=12)
    axes.legend(loc="upper right", ncols=2, frameon=False, fontsize=11)


def _columns(points: Points) -> tuple[list[float], list[float]]:
    return [step for step, _ in points], [value for _, value in points]


def _dots(steps: list[float]) -> dict[str, Any]:
    return {"marker": "o", "markersize": 4} if len(steps) <= _MOST_MARKED else {}
