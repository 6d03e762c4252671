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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from mpls.comparing import Trace, is_trace, read_trace
from mpls.errors import ArgumentValueError, MissingFileError, MissingPackageError, MplsError, printable
from mpls.formats.training_history import LOSS, SCALE, SKIPPED, STEP

__all__ = ["CannotPlotError", "Course", "UnreadableCourseError", "plot", "plot_traces", "read_course"]

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
    target = _target(out, force=force)
    course = read_course(path)
    image = io.BytesIO()
    _draw([course], None, image, target.suffix[1:].lower())
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
    image = io.BytesIO()
    _draw([_course_of_trace(old), _course_of_trace(new)], first, image, target.suffix[1:].lower())
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
    if unit is None or SCALE not in columns:
        wanted = f"the columns {STEP!r} or 'epoch', and {SCALE!r}"
        raise UnreadableCourseError(
            f"{name} lacks {wanted}; LossScaleCallback() goes before CSVLogger in the list of callbacks"
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
_BLUE, _ORANGE, _BLACK, _PINK, _YELLOW = "#0072b2", "#d55e00", "#333333", "#cc79a7", "#e69f00"
_MOST_MARKED = 40
_LONGEST_TITLE = 50


class _Style(NamedTuple):
    """How the lines of a training are drawn, and what they are called."""

    scale: str
    loss: str
    color_of_scale: str
    color_of_marks: str
    color_of_loss: str
    width: float


def _styles(courses: Sequence[Course]) -> list[_Style]:
    if len(courses) == 1:
        return [_Style("loss scale", "training loss", _BLUE, _ORANGE, _BLACK, 2.0)]
    titles = [printable(course.title).replace("$", r"\$") for course in courses]
    names = [f"{which}: {title}" for which, title in zip(("old", "new"), titles, strict=True)]
    # The new run is thinner, so that the old one shows beside it where both are the same.
    colors_and_widths = ((_YELLOW, 4.0), (_BLUE, 1.6))
    return [
        _Style(name, name, color, color, color, width)
        for name, (color, width) in zip(names, colors_and_widths, strict=True)
    ]


def _draw(courses: Sequence[Course], first: int | None, file: BinaryIO, image_format: str) -> None:
    """Draw loss scales and skipped steps of one or two trainings, and below them the losses if there are any.

    Args:
        courses: what was recorded; the old training before the new one.
        first: the first step in which two differ; None if there is none.
        file: gets the image.
        image_format: `'png'`, `'svg'` or `'pdf'`.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    has_loss = any(course.loss or course.bad_loss for course in courses)
    figure = _figure_of(" and ".join(course.title for course in courses), 2 if has_loss else 1)
    panels = list(figure.subplots(2 if has_loss else 1, 1, sharex=True, squeeze=False)[:, 0])
    for course, style in zip(courses, _styles(courses), strict=True):
        _draw_scale(panels[0], course, style)
        if has_loss:
            _draw_loss(panels[1], course, style)
    if first is not None:
        panels[0].axvline(first, color=_PINK, linestyle="--", linewidth=1.4, label=f"first difference: step {first}")
    scales = [math.log2(scale) for course in courses for _, scale in course.scale if scale > 0]
    low, high = min(scales), max(scales)
    panels[0].set_yscale("log", base=2)
    # Room for at least two ticks, and above for the legend.
    panels[0].set_ylim(2 ** (low - 1 - 0.05 * (high - low)), 2 ** (high + 1 + 0.35 * max(2.0, high - low)))
    panels[0].set_ylabel("loss scale (factor)", fontsize=12)
    panels[0].legend(loc="upper left", ncols=2, frameon=False, fontsize=11)
    if has_loss:
        _finish_losses(panels[1], courses)
    _finish(figure, panels, courses[0].label, file, image_format)


def _figure_of(title: str, panels: int) -> Any:
    """Return a figure for this number of panels, one below the other.

    Raises:
        MissingPackageError: matplotlib is not installed.
        ArgumentValueError: it refuses its own settings.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError(
            "drawing needs matplotlib, which is not installed; install it with: pip install 'mpls[plot]'"
        ) from None
    except ValueError as error:
        reason = printable(str(error).partition("\n")[0])
        raise ArgumentValueError(f"matplotlib refuses its settings, such as MPLBACKEND: {reason}") from None
    figure = Figure(figsize=(8, 2 + 2 * panels), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"Loss scale of {_shortened(printable(title))}", fontsize=14, parse_math=False)
    return figure


def _finish(figure: Any, panels: list[Any], label: str, file: BinaryIO, image_format: str) -> None:
    """Give panels their style, and write the figure."""
    from matplotlib.ticker import MaxNLocator

    for axes in panels:
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=11)
        axes.margins(x=0.02)
    figure.align_ylabels()
    panels[-1].set_xlabel(label, fontsize=12)
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    with warnings.catch_warnings():
        # The font lacks some scripts, in which names of files are: there it draws boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(file, format=image_format, dpi=150)


def _draw_scale(axes: Any, course: Course, style: _Style) -> None:
    steps, scales = _columns([point for point in course.scale if point[1] > 0])
    # A scale stays until the next reading.
    line = {"color": style.color_of_scale, "linewidth": style.width, "label": style.scale}
    axes.step(steps, scales, where="post", **line, **_dots(steps))
    marks, meaning = course.marks()
    if marks:
        label = f"{meaning} ({course.skipped[-1][1]:.12g} in all)" if course.skipped else meaning
        shape = {"markersize": 9, "markeredgecolor": "white"} if len(marks) <= _MOST_MARKED else {"markersize": 5}
        axes.plot(*_columns(marks), linestyle="", marker="v", color=style.color_of_marks, label=label, **shape)


def _draw_loss(axes: Any, course: Course, style: _Style) -> None:
    # The line breaks where there is no number.
    steps, losses = _columns(sorted([*course.loss, *((step, math.nan) for step in course.bad_loss)]))
    if course.loss:
        line = {"color": style.color_of_loss, "linewidth": style.width, "label": style.loss}
        axes.plot(steps, losses, **line, **_dots(steps))
    if course.bad_loss:
        at_the_bottom = axes.get_xaxis_transform()
        label = f"not finite ({len(course.bad_loss)} times)"
        places = (course.bad_loss, [0.06] * len(course.bad_loss))
        axes.plot(*places, transform=at_the_bottom, linestyle="", marker="X", markersize=8, color=_PINK, label=label)


def _finish_losses(axes: Any, courses: Sequence[Course]) -> None:
    finite = [value for course in courses for _, value in course.loss]
    if not finite:
        # Numbers on the axis would be of no loss.
        axes.set_yticks([])
    elif min(finite) > 0 and max(finite) > 20 * min(finite):
        axes.set_yscale("log")
    axes.set_ylabel("loss", fontsize=12)
    axes.legend(loc="upper right", ncols=2, frameon=False, fontsize=11)


def _shortened(title: str) -> str:
    """Return a title that fits: its beginning and its end."""
    half = _LONGEST_TITLE // 2
    return title if len(title) <= _LONGEST_TITLE else f"{title[:half]}\u2026{title[-half:]}"


def _columns(points: Points) -> tuple[list[float], list[float]]:
    return [step for step, _ in points], [value for _, value in points]


def _dots(steps: list[float]) -> dict[str, Any]:
    return {"marker": "o", "markersize": 4} if len(steps) <= _MOST_MARKED else {}
