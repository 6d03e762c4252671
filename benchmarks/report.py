"""What is shown of a run of the benchmark: tables on the terminal, a JSON file and a plot."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
import tf_keras

from benchmarks.steps import BARE, FLOOR, MPLS, ORIGINAL
from benchmarks.timing import Samples

# Where the original costs less than this share of the bare step, its overhead is noise.
SMALL_SHARE = 0.05
# The share of the original's overhead that is the aim, and how close to the floor mpls is to come where the floor is
# above that share.
AIM = 0.5
NEAR_FLOOR = 1.15


def row_of(name: str, samples: Samples) -> dict[str, Any]:
    """Return what the samples of one kind of step say, as plain numbers.

    Returns:
        `name`; `builds` and `rounds`, how often the candidates were built and how many rounds there were each time; for
        each candidate its median and quartiles, in seconds; `overhead` of the floor, the original and mpls in seconds,
        over the bare step; and `ratio`, that of mpls to that of the original, with a 90 % interval, and `cpu_ratio`,
        the same of the time that all processors together spent.
    """
    builds, rounds = samples.seconds[BARE].shape
    row: dict[str, Any] = {"name": name, "builds": builds, "rounds": rounds, "seconds": {}, "overhead": {}}
    for candidate in samples.seconds:
        row["seconds"][candidate] = [samples.median(candidate), *samples.quartiles(candidate)]
        if candidate != BARE:
            row["overhead"][candidate] = samples.overhead(candidate, BARE)
    row["ratio"] = row["cpu_ratio"] = None
    if ORIGINAL in samples.seconds:
        row["ratio"] = samples.ratio(MPLS, ORIGINAL, BARE)
        row["cpu_ratio"] = Samples(samples.cpu_seconds).ratio(MPLS, ORIGINAL, BARE)[0]
    return row


def is_small(row: dict[str, Any]) -> bool:
    """Return whether the original's overhead is less than 5 % of the bare step."""
    return bool(row["overhead"][ORIGINAL] < SMALL_SHARE * row["seconds"][BARE][0])


def is_out_of_reach(row: dict[str, Any]) -> bool:
    """Return whether the floor is above half of the original's overhead."""
    return bool(row["overhead"].get(FLOOR, 0.0) > AIM * row["overhead"][ORIGINAL])


def of_floor(row: dict[str, Any]) -> float:
    """Return the overhead of mpls as a share of the floor."""
    return float(row["overhead"][MPLS] / row["overhead"][FLOOR])


HEADER = ["", "none, ms", "floor, %", "original, %", "mpls, %", "ratio", "90 % of it", "CPU ratio", "of the floor"]


def line_of(row: dict[str, Any]) -> list[str]:
    """Return a row as cells of a table: overheads as shares of the bare step.

    Where the floor is above half of the original, the last cell is the overhead of mpls as a share of the floor.
    """
    bare = row["seconds"][BARE][0]
    shares = [
        f"{100 * row['overhead'][each] / bare:.1f}" if each in row["overhead"] else "-"
        for each in (FLOOR, ORIGINAL, MPLS)
    ]
    if row["ratio"] is None:
        return [row["name"], f"{1e3 * bare:.3f}", *shares, "-", "", "", ""]
    ratio, low, high = row["ratio"]
    floor = f"{of_floor(row):.2f}" if is_out_of_reach(row) else ""
    cells = [*shares, f"{ratio:.2f}", f"{low:.2f} to {high:.2f}", f"{row['cpu_ratio']:.2f}"]
    note = "original under 5 %" if is_small(row) else floor
    return [row["name"], f"{1e3 * bare:.3f}", *cells, note]


SUMMARY_HEADER = ["", "compared", "median ratio", "worst", "up to 0.5", "floor above", "near floor", "slower"]


def summary_of(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return one line for each mode of each family, one for each family, each mode, and all, as cells of a table.

    How many kinds of steps have an original; of those where it costs more than 5 % of the bare step, the median of the
    ratios and the worst one, how many are up to 0.5, of how many of the others the floor itself is above 0.5 of the
    original, in how many of these mpls takes at most 1.15 of the floor, and in how many mpls is slower than the
    original, the whole 90 % interval above one.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["ratio"] is not None:
            family, mode = row["name"].split("/")[:2]
            for name in (f"{family}/{mode}", family, f"all/{mode}", "all"):
                groups.setdefault(name, []).append(row)
    order = sorted(groups, key=lambda name: (name.startswith("all"), "/" not in name))
    return [[name, *_summary_of(groups[name])] for name in order]


def _summary_of(compared: list[dict[str, Any]]) -> list[str]:
    costly = [row for row in compared if not is_small(row)]
    ratios = [row["ratio"][0] for row in costly]
    others = [row for row in costly if row["ratio"][0] > AIM]
    out_of_reach = [row for row in others if is_out_of_reach(row)]
    near = sum(of_floor(row) <= NEAR_FLOOR for row in out_of_reach)
    slower = sum(row["ratio"][1] > 1 for row in costly)
    extremes = [f"{of(ratios):.2f}" if ratios else "-" for of in (statistics.median, max)]
    half = f"{len(costly) - len(others)} of {len(costly)}"
    floors = [f"{len(out_of_reach)} of {len(others)}", f"{near} of {len(out_of_reach)}"]
    return [str(len(compared)), *extremes, half, *floors, str(slower)]


def documented(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a table for a document: for each family and mode, the median of the ratios and the worst."""
    cells = {name: f"{median}, at most {worst}" for name, _, median, worst, *_ in summary_of(rows)}
    modes = [name.removeprefix("all/") for name in cells if name.startswith("all/")]
    lines = [f"| | {' | '.join(modes)} | all |", "|---|" + "---|" * (len(modes) + 1)]
    for family in cells:
        if "/" not in family and family != "all":
            of_family = [cells.get(f"{family}/{mode}", "") for mode in modes] + [cells[family]]
            lines.append(f"| {family} | " + " | ".join(of_family) + " |")
    return [line.replace("  ", " ") for line in lines]


def machine(threads: int) -> dict[str, Any]:
    """Return what was measured, and on what."""
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "tf_keras": tf_keras.__version__,
        "keras": keras.__version__,
        "processor": platform.machine(),
        "processors": threads,
    }


def write_json(path: Path, results: dict[str, Any]) -> None:
    """Write everything that was measured."""
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def write_plot(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Plot the overheads of original and mpls, one point per kind of step, on logarithmic axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if ORIGINAL in row["overhead"]:
            points = by_kind.setdefault("/".join(row["name"].split("/")[:2]), [])
            points.append((row["overhead"][ORIGINAL] * 1e3, row["overhead"][MPLS] * 1e3))
    smallest = 1e-3
    for index, (kind, points) in enumerate(sorted(by_kind.items())):
        x, y = zip(*[[max(value, smallest) for value in point] for point in points], strict=True)
        axes.scatter(x, y, s=18, marker="os^Dv"[index % 5], label=kind)
    ends = [smallest, max([value for points in by_kind.values() for point in points for value in point] + [1.0])]
    axes.plot(ends, ends, color="gray", linewidth=1, label="the same")
    axes.plot(ends, [end / 2 for end in ends], color="gray", linewidth=1, linestyle="--", label="half")
    axes.set(xscale="log", yscale="log", xlabel="overhead of the original, ms", ylabel="overhead of mpls, ms")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
