"""Draws the courses of two trainings over each other with matplotlib."""

from __future__ import annotations

import math
from typing import Any, BinaryIO

from mpls.plotting.course import Course, Points
from mpls.plotting.drawing import figure_of, finish, panels_of

__all__ = ["draw_two"]

# The new run is thinner, so that the old one shows beside it where both are the same.
_OLD, _NEW, _FIRST = "#e69f00", "#0072b2", "#cc79a7"
_WIDTHS = (4.0, 1.6)


def draw_two(old: Course, new: Course, first: int | None, file: BinaryIO, image_format: str) -> None:
    """Draw loss scales, skipped steps and losses of two trainings.

    Args:
        old: the one.
        new: the other.
        first: the first step in which they differ; None if there is none.
        file: gets the image.
        image_format: `'png'`, `'svg'` or `'pdf'`.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    names = ["scale"]
    names += ["skipped"] if old.skipped and new.skipped else []
    names += ["loss"] if old.loss or new.loss else []
    figure = figure_of(f"{old.title} and {new.title}", len(names))
    panels = dict(zip(names, panels_of(figure, len(names)), strict=True))
    labels = {"scale": "loss scale (factor)", "skipped": "skipped steps so far", "loss": "loss"}
    for name, axes in panels.items():
        for course, which, color, width in zip((old, new), ("old", "new"), (_OLD, _NEW), _WIDTHS, strict=True):
            points = getattr(course, name)
            if name == "loss":
                # The line breaks where there is no number.
                points = sorted([*points, *((step, math.nan) for step in course.bad_loss)])
            _draw(axes, points, f"{which}: {course.title}", color, width, is_stepped=name != "loss")
        if first is not None:
            axes.axvline(first, color=_FIRST, linestyle="--", linewidth=1.4, label=f"first difference: step {first}")
        axes.set_ylabel(labels[name], fontsize=12)
    if all(value > 0 for course in (old, new) for _, value in course.scale):
        panels["scale"].set_yscale("log", base=2)
    panels["scale"].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=9)
    finish(figure, list(panels.values()), old.label, file, image_format)


def _draw(axes: Any, points: Points, label: str, color: str, width: float, *, is_stepped: bool) -> None:
    places, values = [step for step, _ in points], [value for _, value in points]
    draw = axes.step if is_stepped else axes.plot
    draw(places, values, color=color, linewidth=width, label=label, **({"where": "post"} if is_stepped else {}))
