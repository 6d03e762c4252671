"""What loading a model costs: `mpls.keras.load_model` beside the framework's own loader, each in a process of its own.

`python -m benchmarks --loading` runs it; `python -m benchmarks.loading JOB-AS-JSON` does one job and prints JSON.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from benchmarks.processes import peak, reset_peak, result_of

LOADERS = ("framework", "mpls")
# By framework, format and optimizer; legacy optimizers are those of tf_keras.
_ENDINGS = {"keras": ".keras", "h5": ".h5", "saved_model": ""}
CELLS = tuple(
    f"{framework}/{kind}/{optimizer}"
    for framework, kinds in (("tf_keras", ("keras", "h5", "saved_model")), ("keras", ("keras", "h5")))
    for kind in kinds
    for optimizer in ("adam", "sgd", *(("legacy_adam",) if framework == "tf_keras" else ()))
)
# The slots of a parameter.
_SLOTS = {"adam": 2, "legacy_adam": 2, "sgd": 1}
_LAYERS = 4
# What is measured: how it is shown.
_KINDS = {"seconds": (1.0, "s", 2), "processor": (1.0, "s", 2), "bytes": (1e-6, "MB", 0)}
_WIDTH = 1024


@dataclass(frozen=True)
class Job:
    """What a process does: write a model, or load it.

    Attributes:
        cell: the framework, the format and the optimizer.
        path: where the model is.
        loader: who loads it; None to write it.
        megabytes: how large the file gets.
    """

    cell: str
    path: str
    loader: str | None = None
    megabytes: int = 0


def run(arguments: Sequence[str]) -> int:
    """Measure, and print a line for each cell; returns the status to exit with."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks --loading", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="as 'keras/h5/*'")
    parser.add_argument("--repeats", type=int, default=7, help="loads by each")
    parser.add_argument("--megabytes", type=int, default=190, help="size of the file")
    options = parser.parse_args(arguments)
    cells = [cell for cell in CELLS if any(fnmatch.fnmatch(cell, pattern) for pattern in options.only)]
    if not cells:
        print(f"--only: no file has such a name. One is {CELLS[0]}", file=sys.stderr)
        return 2
    print("Medians: time, that of the processors, and memory above what is held before:")
    print(f"{'':28}{'file, MB':>10}" + f"{'framework':>13}{'mpls':>9}{'ratio':>7}" * len(_KINDS))
    with tempfile.TemporaryDirectory() as folder:
        for number, cell in enumerate(cells):
            path = os.path.join(folder, f"{number}{_ENDINGS[cell.split('/')[1]]}")
            _in_process(Job(cell, path, None, options.megabytes))
            print(_line(cell, path, options.repeats), flush=True)
    return 0


def _line(cell: str, path: str, repeats: int) -> str:
    found: dict[str, list[dict[str, float]]] = {loader: [] for loader in LOADERS}
    # The first of each has the file brought into memory.
    for turn in range(repeats + 1):
        for loader in LOADERS[:: 1 if turn % 2 else -1]:
            result = _in_process(Job(cell, path, loader))
            if turn:
                found[loader].append(result)
    text = f"{cell:28}{_size(path) / 1e6:10.0f}"
    for key, (factor, unit, digits) in _KINDS.items():
        theirs, ours = (factor * statistics.median(each[key] for each in found[loader]) for loader in LOADERS)
        text += f"{theirs:10.{digits}f} {unit:2}{ours:6.{digits}f} {unit:2}{ours / theirs:7.2f}"
    return text


def _size(path: str) -> int:
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(each, name)) for each, _, names in os.walk(path) for name in names)


def _in_process(job: Job) -> dict[str, float]:
    return result_of("benchmarks.loading", json.dumps(vars(job)))


def _optimizer(keras: Any, name: str) -> Any:
    kind = {"adam": "Adam", "legacy_adam": "Adam", "sgd": "SGD"}[name]
    module = keras.optimizers.legacy if name.startswith("legacy") else keras.optimizers
    return getattr(module, kind)(0.001, **({"momentum": 0.9} if kind == "SGD" else {}))


def _write(job: Job) -> dict[str, float]:
    import numpy as np

    import mpls.keras

    framework, kind, name = job.cell.split("/")
    keras = import_module(framework)
    # In `.keras` files slots are twice, those of the wrapper and those of what it wraps; but not of legacy optimizers.
    times = 2 if kind == "keras" and not name.startswith("legacy") else 1
    numbers = job.megabytes * 1e6 / 4 / (1 + times * _SLOTS[name]) / _LAYERS
    # Layers of a width in between, so that none is square.
    width = int(numbers / _WIDTH)
    layers = [each for _ in range(_LAYERS // 2) for each in (keras.layers.Dense(width), keras.layers.Dense(_WIDTH))]
    model = keras.Sequential([keras.layers.Input([_WIDTH]), *layers])
    model.compile(mpls.keras.LossScaleOptimizer(_optimizer(keras, name)), keras.losses.MeanSquaredError())
    data = np.random.default_rng(1).normal(size=(8, _WIDTH)).astype(np.float32)
    model.fit(data, data, epochs=2, verbose=0)
    mpls.keras.save_model(model, job.path)
    return {}


def _load(job: Job) -> dict[str, float]:
    import h5py
    import tensorflow as tf

    framework, _, _ = job.cell.split("/")
    keras = import_module(framework)
    load = import_module("mpls.keras").load_model if job.loader == "mpls" else keras.models.load_model
    if job.loader == "mpls":
        # It imports these when it is called.
        import_module("mpls.keras.files.loading")
    # What is loaded at first use counts for nobody.
    h5py.File.in_memory().close()
    tf.function(lambda: tf.constant(1.0) + 1.0)()
    held = reset_peak()
    start, start_processor = time.perf_counter(), time.process_time()
    model = load(job.path)
    seconds, processor = time.perf_counter() - start, time.process_time() - start_processor
    above = peak() - held
    if model.optimizer is None:
        raise RuntimeError("the model came back without its optimizer")
    return {"seconds": seconds, "processor": processor, "bytes": above}


def _main(arguments: list[str]) -> None:
    job = Job(**json.loads(arguments[0]))
    print(json.dumps(_write(job) if job.loader is None else _load(job)))


if __name__ == "__main__":
    _main(sys.argv[1:])
