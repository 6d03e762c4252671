"""Draws the course of a training with matplotlib."""

from __future__ import annotations

import math
import warnings
from typing import Any, BinaryIO

from mpls.errors import ArgumentValueError, MissingPackageError, printable
from mpls.plotting.course import Course, Points

__all__ = ["draw"]

# Told apart also by the colour-blind, and in print by their shapes.
_SCALE, _SKIPPED, _LOSS, _BAD = "#0072b2", "#d55e00", "#333333", "#cc79a7"
_MOST_MARKED = 40
_LONGEST_TITLE = 50


def draw(course: Course, file: BinaryIO, image_format: str) -> None:
    """Draw loss scale and skipped steps, and below them the loss if there is one.

    Args:
        course: what was recorded.
        file: gets the image.
        image_format: `'png'`, `'svg'` or `'pdf'`.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    has_loss = bool(course.loss or course.bad_loss)
    figure = figure_of(course.title, 2 if has_loss else 1)
    panels = panels_of(figure, 2 if has_loss else 1)
    _draw_scale(panels[0], course)
    if has_loss:
        _draw_loss(panels[1], course)
    finish(figure, panels, course.label, file, image_format)


def figure_of(title: str, panels: int) -> Any:
    """Return a figure with this number of panels, one below the other.

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


def panels_of(figure: Any, number: int) -> list[Any]:
    """Return the panels of a figure, which share the axis of steps."""
    return list(figure.subplots(number, 1, sharex=True, squeeze=False)[:, 0])


def finish(figure: Any, panels: list[Any], label: str, file: BinaryIO, image_format: str) -> None:
    """Give panels their style, and write the figure.

    Args:
        figure: what `figure_of` returned.
        panels: what `panels_of` returned.
        label: what the points are numbered by.
        file: gets the image.
        image_format: `'png'`, `'svg'` or `'pdf'`.
    """
    for axes in panels:
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=11)
        axes.margins(x=0.02)
    figure.align_ylabels()
    panels[-1].set_xlabel(label, fontsize=12)
    _number_by_whole(panels[-1])
    with warnings.catch_warnings():
        # The font lacks some scripts, in which names of files are: there it draws boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(file, format=image_format, dpi=150)


def _draw_scale(axes: Any, course: Course) -> None:
    steps, scales = _columns([point for point in course.scale if point[1] > 0])
    # A scale stays until the next reading.
    axes.step(steps, scales, where="post", color=_SCALE, linewidth=2, label="loss scale", **_dots(steps))
    marks, meaning = course.marks()
    if marks:
        label = f"{meaning} ({course.skipped[-1][1]:.12g} in all)" if course.skipped else meaning
        style = {"markersize": 9, "markeredgecolor": "white"} if len(marks) <= _MOST_MARKED else {"markersize": 5}
        axes.plot(*_columns(marks), linestyle="", marker="v", color=_SKIPPED, label=label, **style)
    axes.set_yscale("log", base=2)
    low, high = math.log2(min(scales)), math.log2(max(scales))
    # Room for at least two ticks, and above for the legend.
    axes.set_ylim(2 ** (low - 1 - 0.05 * (high - low)), 2 ** (high + 1 + 0.35 * max(2.0, high - low)))
    axes.set_ylabel("loss scale (factor)", fontsize=12)
    axes.legend(loc="upper left", ncols=2, frameon=False, fontsize=11)


def _draw_loss(axes: Any, course: Course) -> None:
    # The line breaks where there is no number.
    steps, losses = _columns(sorted([*course.loss, *((step, math.nan) for step in course.bad_loss)]))
    finite = [value for _, value in course.loss]
    if finite:
        axes.plot(steps, losses, color=_LOSS, linewidth=1.6, label="training loss", **_dots(steps))
    else:
        # Numbers on the axis would be of no loss.
        axes.set_yticks([])
    if finite and min(finite) > 0 and max(finite) > 20 * min(finite):
        axes.set_yscale("log")
    if course.bad_loss:
        at_the_bottom = axes.get_xaxis_transform()
        label = f"not finite ({len(course.bad_loss)} times)"
        places = (course.bad_loss, [0.06] * len(course.bad_loss))
        axes.plot(*places, transform=at_the_bottom, linestyle="", marker="X", markersize=8, color=_BAD, label=label)
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


def _number_by_whole(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
