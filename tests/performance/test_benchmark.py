"""The benchmark measures what it says: its arithmetic, its command, what its candidates train; and what a step has."""

from __future__ import annotations

import collections
import importlib
import json
import pathlib
import re
import sys
import tempfile
import unittest
from typing import Any, ClassVar

import numpy as np
import pytest
from parameterized import parameterized

from tests.processes import ROOT, process_environment, run_python


def load(name: str) -> Any:
    """Import a module of the benchmark, which is in the checkout only."""
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(ROOT))


class TimingTest(unittest.TestCase):
    def samples(self, **seconds: list[float]) -> Any:
        return load("timing").Samples({name: np.array([values]) for name, values in seconds.items()})

    def test_overheads_are_of_the_same_round(self) -> None:
        # The machine was slow in the second round.
        samples = self.samples(none=[1.0, 11.0, 1.0], original=[2.0, 12.0, 2.0], mpls=[1.5, 11.5, 1.5])
        self.assertEqual(samples.overhead("original", "none"), 1.0)
        self.assertEqual(samples.ratio("mpls", "original", "none"), (0.5, 0.5, 0.5))
        self.assertEqual((samples.median("mpls"), samples.quartiles("mpls")), (1.5, (1.5, 6.5)))


class SummaryTest(unittest.TestCase):
    def test_counts_what_is_slower_and_what_is_half(self) -> None:
        def row(
            name: str, original: float, ratio: tuple[float, float, float] | None, **overhead: float
        ) -> dict[str, Any]:
            overhead["original"] = original
            return {"name": name, "seconds": {"none": [1.0]}, "overhead": overhead, "ratio": ratio}

        rows = [
            row("v1/eager/1", 0.2, (0.4, 0.3, 0.6), floor=0.15),
            row("v1/eager/2", 0.2, (0.7, 0.6, 0.9), floor=0.13, mpls=0.14),
            row("v1/eager/3", 0.2, (1.4, 1.1, 1.6), floor=0.09),
            row("v1/eager/4", 0.2, (1.2, 0.9, 1.6), floor=0.15, mpls=0.24),
            # Noise: the original costs next to nothing.
            row("v1/eager/5", 0.04, (3.0, 2.0, 4.0)),
            row("v1/eager/6", 0.2, None),
            row("new/xla/1", 0.04, (3.0, 2.0, 4.0)),
        ]
        lines = load("report").summary_of(rows)
        self.assertEqual(
            {line[0]: line[1:] for line in lines},
            {
                "v1/eager": (eager := ["5", "0.95", "1.40", "1 of 4", "2 of 3", "1 of 2", "1"]),
                "v1": eager,
                "new/xla": (none := ["1", "-", "-", "0 of 0", "0 of 0", "0 of 0", "0"]),
                "new": none,
                "all/eager": eager,
                "all/xla": none,
                "all": ["6", *eager[1:]],
            },
        )


CELLS = [
    ("v1", "eager", {}),
    ("v1", "session", {"dtype": "float16"}),
    ("v1", "session", {"is_dynamic": False}),
    ("v1", "session", {"replicas": 2}),
    ("v1", "eager", {"replicas": 2}),
    ("v1", "xla", {}),
    ("legacy", "session", {}),
    ("legacy", "function", {"is_sparse": True, "elements": 1_000_000}),
    ("new", "function", {"replicas": 2}),
    ("new", "eager", {"is_dynamic": False}),
    ("keras3", "function", {"dtype": "bfloat16"}),
    ("keras3", "xla", {}),
]


class CandidatesTest(unittest.TestCase):
    @parameterized.expand(CELLS)
    @pytest.mark.matrix
    def test_train_alike(self, family: str, mode: str, settings: dict[str, Any]) -> None:
        steps = load("steps")
        settings = {"elements": 100, **settings}
        cell = load("cells").Cell(family, mode, 2 if settings["elements"] == 100 else 1, **settings)
        values, first_traces = {}, {}
        with steps.trainings(cell) as built:
            self.assertEqual(list(built), steps.candidates_of(cell))
            for name, training in built.items():
                training.step()
                traces = training.function and training.function.experimental_get_tracing_count()
                first_traces[name] = traces
                training.step()
                training.step()
                values[name] = self.read(training)
                if training.function is not None:
                    self.assertEqual(training.function.experimental_get_tracing_count(), traces)
        self.assertEqual(first_traces["mpls"], first_traces["none"])
        for name in values:
            for ours, bare in zip(values[name], values["none"], strict=True):
                self.assertGreater(float(np.abs(bare).max()), 0.0)
                np.testing.assert_allclose(ours, bare, rtol=0.02)

    def read(self, training: Any) -> list[np.ndarray]:
        """Return the momenta, which move from the first step on."""
        if training.session is not None:
            with training.graph.as_default():
                slots = training.slots()
            return [np.array(each, np.float64) for each in training.session.run(slots)]
        return [np.array(each.numpy(), np.float64) for each in training.slots()]


class CompiledTest(unittest.TestCase):
    """What XLA makes of a step."""

    @parameterized.expand([("v1",), ("legacy",), ("new",), ("keras3",)])
    @pytest.mark.default_run("one case")
    def test_is_one_program_that_reads_each_gradient_once_to_decide(self, family: str) -> None:
        variables = 3
        training = load("steps").Training(load("cells").Cell(family, "xla", variables, 10_000), "mpls")
        training.step()
        program = training.function.experimental_get_compiler_ir()(stage="optimized_hlo")
        called = collections.Counter(re.findall(r"^ .* ([a-z][a-z-]*)\(", program, re.MULTILINE))
        self.assertEqual((called["conditional"], called["is-finite"]), (1, variables))
        self.assertFalse({"infeed", "outfeed", "send", "recv"} & set(called))
        self.assertNotIn("callback", program)
        training.close()


@pytest.mark.programs
@pytest.mark.full
class CommandTest(unittest.TestCase):
    results: ClassVar[dict[str, Any]]
    printed: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "measured"
            arguments = ["--quick", "--seconds", "0.02", "--only", "v1/function/100x100/*"]
            arguments += ["--out", str(out)]
            settings = process_environment(needs=["matplotlib"])
            done = run_python("-m", "benchmarks", *arguments, folder=ROOT, environment=settings)
            assert done.returncode == 0, done.stderr[-3000:]
            cls.printed = done.stdout
            cls.results = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
            cls.picture = out.with_suffix(".png").read_bytes()

    def test_prints_and_writes_each_row(self) -> None:
        self.assertEqual(set(self.results), {"command", "machine", "steps", "seconds"})
        (row,) = self.results["steps"]
        self.assertEqual(row["name"], "v1/function/100x100/float32/dynamic")
        self.assertEqual(set(row["seconds"]), {"none", "floor", "original", "mpls"})
        self.assertIn(row["name"], self.printed)
        self.assertIn("\nall/function", self.printed)
        self.assertTrue(self.picture.startswith(b"\x89PNG"))
