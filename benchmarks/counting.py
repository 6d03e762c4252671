"""Counts ops, retraces, host reads and memory, of each candidate in a process of its own.

`python -m benchmarks.counting CELL-AS-JSON CANDIDATE` prints one JSON object.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from typing import Any

from benchmarks.cells import Cell
from benchmarks.processes import peak, reset_peak, result_of

_STEPS = 5
# Ops that run Python in the middle of a graph.
_HOST_OPS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")


def count(cell: Cell, candidate: str) -> dict[str, Any]:
    """Count, in a new process, what a candidate needs.

    Returns:
        `first_step_seconds`: to build the optimizer, and to trace or build the graph and run the first step;
        `ops`: nodes of the graph and of all functions in it, or None in eager mode;
        `retraces`: how often the function was traced again after the first step, or None;
        `host_reads`: how often a step waited for a value on the Python side, in eager mode, or ops that call Python;
        `peak_bytes`: the peak of the resident memory in later steps, above what is resident between them.
    """
    return result_of("benchmarks.counting", json.dumps(dataclasses.asdict(cell)), candidate)


def _main(arguments: list[str]) -> None:
    cell, candidate = Cell(**json.loads(arguments[0])), arguments[1]
    import tensorflow as tf

    from benchmarks.steps import Training

    # Load what TensorFlow loads at first use, so that it counts for no candidate.
    tf.function(lambda: tf.constant(1.0) + 1.0)()
    start = time.perf_counter()
    training = Training(cell, candidate)
    training.step()
    first = time.perf_counter() - start
    traces = training.function.experimental_get_tracing_count() if training.function is not None else 0
    reads = _HostReads(tf)
    training.step()
    reads.stop()
    result: dict[str, Any] = {"first_step_seconds": first, "ops": None, "retraces": None, "host_reads": reads.count}
    # Let allocations that happen once, some steps after the first, happen before the peak is measured.
    for _ in range(_STEPS):
        training.step()
    held = reset_peak()
    for _ in range(_STEPS):
        training.step()
    result["peak_bytes"] = peak() - held
    graph = training.graph
    if training.function is not None:
        result["retraces"] = training.function.experimental_get_tracing_count() - traces
        graph = training.function.get_concrete_function().graph
    if graph is not None:
        ops = _ops(graph.as_graph_def())
        result["ops"] = len(ops)
        result["host_reads"] = sum(op in _HOST_OPS for op in ops)
    print(json.dumps(result))


def _ops(graph_def: Any) -> list[str]:
    nodes = [*graph_def.node]
    for function in graph_def.library.function:
        nodes.extend(function.node_def)
    return [node.op for node in nodes]


class _HostReads:
    """Counts how often eager code turns a tensor into a Python or NumPy value."""

    _METHODS = ("numpy", "__bool__", "__float__", "__int__", "__index__", "__array__")

    def __init__(self, tf: Any) -> None:
        self.count = 0
        self._cls = next(each for each in type(tf.constant(0)).__mro__ if "__bool__" in vars(each))
        self._before = {name: vars(self._cls)[name] for name in self._METHODS if name in vars(self._cls)}
        for name, method in self._before.items():
            setattr(self._cls, name, self._counting(method))

    def _counting(self, method: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return method(*args, **kwargs)

        return counted

    def stop(self) -> None:
        for name, method in self._before.items():
            setattr(self._cls, name, method)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    _main(sys.argv[1:])
