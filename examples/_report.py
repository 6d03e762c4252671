"""What both examples show of their runs: command line, progress bar, underflow, table and plot."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, PercentFormatter
from tqdm import tqdm

FLOAT32 = "float32"
UNSCALED = "float16 without scaling"
SCALED = "float16 + mpls"

FULL_STEPS = 4500
QUICK_STEPS = 40
MEASUREMENTS = 60


# --- command line ---------------------------------------------------------------------------------


class Options(NamedTuple):
    """What the user asked for."""

    steps: int
    seed: int
    out: Path


def command_line(description: str, default_out: str, arguments: Sequence[str] | None = None) -> Options:
    """Read the arguments, or print what is wrong with them and exit with status 2."""
    parser = argparse.ArgumentParser(
        description=description.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--steps", type=_integer_from(1), default=FULL_STEPS, help="training steps of each run, at least 1"
    )
    length.add_argument(
        "--quick",
        dest="steps",
        action="store_const",
        const=QUICK_STEPS,
        default=argparse.SUPPRESS,
        help=f"only {QUICK_STEPS} steps: everything runs, nothing is learned",
    )
    parser.add_argument("--seed", type=_integer_from(0), default=0, help="seed of the initial weights")
    parser.add_argument("--out", type=_image_path, default=default_out, help="where to save the plot")
    options = Options(**vars(parser.parse_args(arguments)))
    try:
        _make_folder_of(options.out)
    except OSError as error:
        parser.error(f"argument --out: cannot be written: {error}")
    return options


def _integer_from(minimum: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = -1
        if not minimum <= number < 2**31:
            raise argparse.ArgumentTypeError(f"must be a whole number from {minimum} to {2**31 - 1}; got {text!r}")
        return number

    return integer


def _image_path(text: str) -> Path:
    path = Path(text)
    formats = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        raise argparse.ArgumentTypeError(f"must end in one of .{', .'.join(sorted(formats))}; got {text!r}")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"must be a file; {text!r} is a folder")
    return path


def _make_folder_of(path: Path) -> None:
    """Make sure that the plot can be written, now and not after the training."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"no permission to write {path}")


# --- one run --------------------------------------------------------------------------------------


class Measurement(NamedTuple):
    """What is measured now and then: shares from 0 to 1."""

    step: int
    accuracy: float
    underflow: float


class Run:
    """The recorded course of one training, with a progress bar while it lasts.

    Use it as a context manager; call `step` after each step, and `measure` where `is_due` says so.
    """

    def __init__(self, name: str, steps: int) -> None:
        self.name = name
        self.losses: list[float] = []
        self.scales: list[float] = []
        self.measurements: list[Measurement] = []
        self.skipped = 0
        self.seconds = 0.0
        self._steps = steps

    def __enter__(self) -> Run:
        self._started = time.perf_counter()
        self._bar = tqdm(total=self._steps, desc=f"{self.name:<{len(UNSCALED)}}", unit="step", mininterval=0.5)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        self.seconds = time.perf_counter() - self._started

    def step(self, loss: float, scale: float = 1.0) -> None:
        """Record a step: its loss, and the scale that it left."""
        self.losses.append(loss)
        self.scales.append(scale)
        self._bar.update()

    def is_due(self) -> bool:
        """Whether to measure now: before the first step, evenly in between, and after the last."""
        done = len(self.losses)
        return done == self._steps or done % max(1, self._steps // MEASUREMENTS) == 0

    def measure(self, accuracy: float, underflow: float) -> None:
        """Record what was measured after the steps so far."""
        self.measurements.append(Measurement(len(self.losses), accuracy, underflow))
        self._bar.set_postfix(accuracy=f"{accuracy:.1%}", underflow=f"{underflow:.1%}", refresh=False)

    @property
    def underflow(self) -> float:
        """The mean of the measured shares of gradient elements that underflowed."""
        return float(np.mean([measurement.underflow for measurement in self.measurements]))


def underflow_share(gradients: Sequence[np.ndarray], references: Sequence[np.ndarray]) -> float:
    """Return the share of gradient elements that underflowed to zero.

    Args:
        gradients: what the backward pass of the run gives, one array a variable.
        references: what the same backward pass gives in float32 at the same weights.

    Returns:
        Of the elements that are not zero in `references`, the share that is zero in `gradients`.
    """
    pairs = list(zip(gradients, references, strict=True))
    alive = sum(np.count_nonzero(reference) for _, reference in pairs)
    lost = sum(np.count_nonzero((reference != 0) & (gradient == 0)) for gradient, reference in pairs)
    return lost / alive if alive else 0.0


# --- table ----------------------------------------------------------------------------------------

_COLUMNS: dict[str, Callable[[Run], str]] = {
    "run": lambda run: run.name,
    "test accuracy": lambda run: f"{run.measurements[-1].accuracy:.1%}",
    "gradients underflowed": lambda run: f"{run.underflow:.1%}",
    "final scale": lambda run: f"{run.scales[-1]:.0f}",
    "skipped steps": lambda run: f"{run.skipped}",
    "seconds": lambda run: f"{run.seconds:.1f}",
}


def table(runs: Sequence[Run]) -> str:
    """Return the runs as rows of text."""
    rows = [list(_COLUMNS), *([cell(run) for cell in _COLUMNS.values()] for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


# --- plot -----------------------------------------------------------------------------------------

# Told apart also by the colour-blind and in print: the control is wide and pale below the others.
_STYLES: dict[str, dict[str, Any]] = {
    FLOAT32: {"color": "#b5b5b5", "linewidth": 5, "solid_capstyle": "round"},
    UNSCALED: {"color": "#d55e00", "linewidth": 1.8, "linestyle": (0, (4, 1.5))},
    SCALED: {"color": "#0072b2", "linewidth": 1.8},
}


def save_plot(runs: Sequence[Run], path: Path, title: str) -> None:
    """Save loss, accuracy, loss scale and underflow of the runs over the steps."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    figure.suptitle(title, fontsize=14)
    (loss, accuracy), (scale, underflow) = figure.subplots(2, 2, sharex=True)
    for run in runs:
        style = _STYLES[run.name]
        steps = range(1, len(run.losses) + 1)
        measured = [measurement.step for measurement in run.measurements]
        loss.plot(steps, run.losses, label=run.name, **style)
        accuracy.plot(measured, [measurement.accuracy for measurement in run.measurements], **style)
        underflow.plot(measured, [measurement.underflow for measurement in run.measurements], **style)
        if run.name == SCALED:
            # The others have a scale of 1.
            scale.plot(steps, run.scales, **style)
        falls = [step for step in steps[1:] if run.scales[step - 1] < run.scales[step - 2]]
        if falls:
            fallen = [run.scales[step - 1] for step in falls]
            scale.plot(falls, fallen, linestyle="", marker="v", color="black", markersize=5, label="skipped step")

    loss.set(title="Training loss", yscale="log")
    accuracy.set(title="Test accuracy", ylim=(0, 1.03))
    scale.set(title="Loss scale", xlabel="step")
    scale.set_yscale("log", base=2)
    scale.yaxis.set_major_locator(LogLocator(base=2, numticks=10))
    underflow.set(title="Gradient elements underflowed to zero", xlabel="step", ylim=(-0.03, 1.03))
    for axes in (accuracy, underflow):
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for axes in figure.axes:
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=len(runs) + 1, frameon=False, fontsize=11)
    figure.savefig(path, dpi=120)


def report(runs: Sequence[Run], options: Options, title: str) -> None:
    """Print the table, and save the plot."""
    save_plot(runs, options.out, title)
    print(f"\n{title}, {options.steps} steps\n\n{table(runs)}\n")
    print("Underflowed: zero in the run, not zero in float32 at the same weights; mean over the run.")
    print(f"Plot: {options.out}")
