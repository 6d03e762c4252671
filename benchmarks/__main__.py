"""Measure what loss scaling costs: the bare optimizer, the originals and mpls, alternating in one process."""

from __future__ import annotations

import argparse
import fnmatch
import gc
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf

from benchmarks import ablation, loading, recording, report
from benchmarks.ablation import ModelCell
from benchmarks.cells import Cell, counted, grid
from benchmarks.costs import DTYPES, SIZES, costs_of, measure_costs
from benchmarks.counting import count
from benchmarks.options import OPTIONS, STEPS, measure_options
from benchmarks.steps import BARE, FLOOR, ORIGINAL, candidates_of, trainings
from benchmarks.timing import Samples, measure, pooled

SECONDS = {"quick": 1.0, "usual": 1.5, "full": 1.5}
BUILDS = {"quick": 3, "usual": 3, "full": 3}
PARTS = ("costs", "steps", "counts", "options")
# Unless others are asked for.
USUAL_PARTS = {"quick": ("steps",), "usual": PARTS[:3], "full": PARTS[:3]}


def _command_line(arguments: Sequence[str] | None) -> argparse.Namespace:
    epilog = (
        "With --loading as the first option: what loading a model costs, beside the framework's own loader; with "
        "--recording: what mpls trace costs."
    )
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, epilog=epilog)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", dest="kind", action="store_const", const="quick", help="a look, in minutes")
    length.add_argument("--full", dest="kind", action="store_const", const="full", help="the whole grid, in hours")
    parser.set_defaults(kind="usual")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="what to measure")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="steps by name, as 'v1/session/*'")
    parser.add_argument(
        "--ablate",
        nargs="*",
        choices=ablation.WAYS,
        metavar="WAY",
        help="measure what quick ways save of a model's training step, all of them or some: "
        f"{', '.join(ablation.WAYS)}; --only then takes names as 'v1/session/perceptron'",
    )
    parser.add_argument("--seconds", type=float, help="how long to measure each kind of step")
    parser.add_argument(
        "--builds", type=int, choices=range(1, 10), metavar="N", help="how often to build it anew in that time"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmark"), help="where to write; .json and .png are added")
    return parser.parse_args(arguments)


def _matching(cells: list[Cell], patterns: list[str]) -> list[Cell]:
    return [cell for cell in cells if any(fnmatch.fnmatch(cell.name, pattern) for pattern in patterns)]


Row = dict[str, Any]

_COSTS = (
    "read by sums",
    "read by numpy",
    "original check",
    "mpls check",
    "none",
    "read and write",
    "original unscale",
    "mpls unscale",
    "original decision",
    "mpls decision",
)


def _costs(kind: str, seconds: float, builds: int, threads: int) -> Iterator[Row]:
    print(
        "\nParts of it, in tf.function, in ms; of what writes, above a step that does nothing to its gradients (none):"
    )
    _print_line(["", *_COSTS])
    for variables, elements in SIZES if kind != "quick" else SIZES[:2]:
        for dtype in DTYPES:
            each_time = [measure_costs(variables, elements, dtype, seconds / builds, threads) for _ in range(builds)]
            costs = costs_of(pooled(each_time))
            name = f"{variables}x{elements}/{dtype}"
            _print_line([name, *(f"{1e3 * costs[each]:.3f}" if each in costs else "-" for each in _COSTS)])
            yield {"name": name, "seconds": costs}


def _steps(cells: list[Cell], seconds: float, builds: int) -> Iterator[Row]:
    print("\nTraining steps that are nearly all optimizer; overheads as shares of the step without loss scaling:")
    _print_line(report.HEADER)
    for cell in cells:
        samples = pooled([_measured(cell, seconds / builds, turn) for turn in range(builds)])
        yield _step_row(cell.name, samples)


def _measured(cell: Cell, seconds: float, turn: int) -> Samples:
    with trainings(cell, turn) as built:
        samples = measure({name: training.step for name, training in built.items()}, seconds)
    built.clear()
    tf.keras.backend.clear_session()
    # Functions and what they are of refer to each other.
    gc.collect()
    return samples


def _options(families: list[str], seconds: float, builds: int) -> Iterator[Row]:
    print("\nWhat the original, mpls and options add to a training step of a model, in % of the processors' time:")
    names = [ORIGINAL, *OPTIONS]
    _print_line(["", "none, ms", *names])
    for family in families:
        for mode, name in STEPS:
            samples = pooled([measure_options(name, family, mode, seconds, turn) for turn in range(builds)])
            row = report.row_of(f"{family}/{mode}/{name}", Samples(samples.cpu_seconds, samples.cpu_seconds))
            bare = row["seconds"][BARE][0]
            shares = (f"{100 * row['overhead'][each] / bare:.1f}" for each in names)
            _print_line([row["name"], f"{1e3 * bare:.3f}", *shares])
            yield row


def _ablation(cells: dict[ModelCell, list[str]], seconds: float, builds: int) -> Iterator[Row]:
    print("\nWhat each quick way saves of a training step, in % of the step without it:")
    _print_line(ablation.HEADER)
    for cell, ways in cells.items():
        for row in ablation.ablate(cell, ways, seconds, builds):
            _print_line(ablation.line_of(row))
            yield row


def _step_row(name: str, samples: Samples) -> Row:
    row = report.row_of(name, samples)
    _print_line(report.line_of(row))
    return row


def _counts(cells: list[Cell], builds: int) -> Iterator[Row]:
    print("\nCounted, each candidate in processes of its own, one for each build; medians of times and peaks:")
    _print_line(["", "candidate", "first step, s", "ops", "retraces", "host reads", "peak, MB"])
    for cell in cells:
        candidates = [each for each in candidates_of(cell) if each != FLOOR]
        processes = [{candidate: count(cell, candidate) for candidate in candidates} for _ in range(builds)]
        for candidate in candidates:
            counts = dict(processes[0][candidate])
            for key in ("first_step_seconds", "peak_bytes"):
                counts[key] = statistics.median(each[candidate][key] for each in processes)
            numbers = ["-" if counts[key] is None else str(counts[key]) for key in _NUMBERS]
            first, peak = f"{counts['first_step_seconds']:.2f}", f"{counts['peak_bytes'] / 1e6:.0f}"
            _print_line([cell.name, candidate, first, *numbers, peak])
            yield {"name": cell.name, "candidate": candidate, **counts}


_NUMBERS = ("ops", "retraces", "host_reads")


def _print_line(cells: Sequence[str]) -> None:
    print("  ".join([cells[0].ljust(46), *(cell.rjust(13) for cell in cells[1:])]).rstrip(), flush=True)


def _parts(options: argparse.Namespace, threads: int) -> dict[str, Callable[[], Iterator[Row]]]:
    """Return what to measure, by name; nothing if no step has a name that was asked for."""
    seconds = options.seconds or SECONDS[options.kind]
    builds = options.builds or BUILDS[options.kind]
    if options.ablate is not None:
        ablated = ablation.ways_in(options.ablate, options.only)
        return {"ablation": lambda: _ablation(ablated, seconds, builds)} if ablated else {}
    cells, to_count = _matching(grid(options.kind), options.only), _matching(counted(options.kind), options.only)
    families = list(dict.fromkeys(cell.family for cell in cells))
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "costs": lambda: _costs(options.kind, seconds, builds, threads),
        "steps": lambda: _steps(cells, seconds, builds),
        "counts": lambda: _counts(to_count, builds),
        "options": lambda: _options(families, seconds, builds),
    }
    chosen = options.parts or USUAL_PARTS[options.kind]
    return {name: parts[name] for name in PARTS if name in chosen} if cells or to_count else {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the status to exit with."""
    options = _command_line(arguments)
    threads = os.cpu_count() or 1
    parts = _parts(options, threads)
    if not parts:
        example = "v1/session/100x100/float32/dynamic" if options.ablate is None else "v1/session/controller"
        print(f"--only: no step has such a name. One is {example}", file=sys.stderr)
        return 2
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    warnings.simplefilter("ignore")
    tf.get_logger().setLevel("ERROR")
    started = time.time()
    results: dict[str, Any] = {"command": " ".join(sys.argv), "machine": report.machine(threads), "seconds": 0.0}
    print(results["machine"])
    for name, part in parts.items():
        rows = results[name] = []
        for row in part():
            rows.append(row)
            results["seconds"] = time.time() - started
            # Write each row at once: what was measured in hours is not lost when something fails.
            report.write_json(options.out.with_suffix(".json"), results)
    if results.get("steps"):
        print("\nOverheads of mpls as shares of those of the originals:")
        for line in [report.SUMMARY_HEADER, *report.summary_of(results["steps"])]:
            _print_line(line)
        print("", *report.documented(results["steps"]), sep="\n")
        report.write_plot(options.out.with_suffix(".png"), results["steps"])
    print(f"\nwrote {options.out.with_suffix('.json')} after {results['seconds']:.0f} s")
    return 0


if __name__ == "__main__":
    others = {"--loading": loading.run, "--recording": recording.run}
    other = others.get(sys.argv[1] if len(sys.argv) > 1 else "")
    sys.exit(main() if other is None else other(sys.argv[2:]))
