"""The benchmark measures what it says: its arithmetic, its grid, its command, and that its candidates train alike."""

from __future__ import annotations

import collections
import contextlib
import importlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

from tests.processes import process_environment

ROOT = pathlib.Path(__file__).parents[2]


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

    def test_the_interval_shows_the_spread(self) -> None:
        ours = [1.1 + 0.1 * (index % 9) for index in range(45)]
        samples = self.samples(none=[1.0] * 45, original=[2.0] * 45, mpls=ours)
        ratio, low, high = samples.ratio("mpls", "original", "none")
        self.assertAlmostEqual(ratio, 0.5)
        self.assertTrue(0.3 <= low < 0.5 < high <= 0.7, (low, high))

    def test_the_interval_shows_how_much_depends_on_where_memory_lies(self) -> None:
        builds = [self.samples(none=[1.0] * 9, original=[2.0] * 9, mpls=[ours] * 9) for ours in (1.3, 1.5, 1.7)]
        ratio, low, high = load("timing").pooled(builds).ratio("mpls", "original", "none")
        for value, expected in ((ratio, 0.5), (low, 0.3), (high, 0.7)):
            self.assertAlmostEqual(value, expected)

    def test_pools_as_many_rounds_of_each_build(self) -> None:
        builds = [self.samples(a=[1.0, 2.0], b=[3.0, 4.0]), self.samples(a=[5.0, 6.0, 7.0], b=[8.0, 9.0, 10.0])]
        seconds = load("timing").pooled(builds).seconds
        self.assertEqual(
            {name: each.tolist() for name, each in seconds.items()}, {"a": [[1, 2], [5, 6]], "b": [[3, 4], [8, 9]]}
        )

    @pytest.mark.matrix
    def test_candidates_alternate(self) -> None:
        called: list[str] = []

        def candidate(name: str) -> Any:
            return lambda: (called.append(name), time.sleep(0.005))

        samples = load("timing").measure({name: candidate(name) for name in "ab"}, seconds=0.2)
        _, rounds = samples.seconds["a"].shape
        self.assertGreaterEqual(rounds, 5)
        self.assertEqual(samples.seconds["b"].shape, (1, rounds))
        measured = called[-2 * rounds :]
        for start in range(0, len(measured), 2):
            self.assertEqual(set(measured[start : start + 2]), {"a", "b"})
        self.assertGreater(samples.median("a"), 0.004)


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

    def test_prints_a_table_for_the_documents(self) -> None:
        rows = [
            {"name": f"{name}/{size}", "seconds": {"none": [1.0]}, "overhead": {"original": 0.2}, "ratio": (ratio,) * 3}
            for name, size, ratio in (("v1/eager", 1, 0.4), ("v1/eager", 2, 0.8), ("new/xla", 1, 0.5))
        ]
        header, _, v1, new = load("report").documented(rows)
        self.assertEqual(header, "| | eager | xla | all |")
        self.assertEqual(v1, "| v1 | 0.60, at most 0.80 | | 0.60, at most 0.80 |")
        self.assertEqual(new, "| new | | 0.50, at most 0.50 | 0.50, at most 0.50 |")


class GridTest(unittest.TestCase):
    def test_a_look_has_small_middle_and_large_steps_of_each_family_and_mode(self) -> None:
        cells = load("cells")
        sizes: dict[tuple[str, str], set[int]] = {}
        for cell in cells.grid("quick"):
            sizes.setdefault((cell.family, cell.mode), set()).add(cell.variables * cell.elements)
        self.assertEqual(set(sizes), {(family, mode) for family in cells.FAMILIES for mode in cells.modes_of(family)})
        for each in sizes.values():
            self.assertTrue(min(each) <= 100 and max(each) >= 4_000_000 and each & {10_000, 100_000}, each)

    def test_has_everything_that_is_to_be_measured(self) -> None:
        cells = load("cells")
        for kind in ("usual", "full"):
            grid = cells.grid(kind)
            self.assertEqual(len(grid), len(set(grid)))
            for family in cells.FAMILIES:
                of_family = [cell for cell in grid if cell.family == family]
                self.assertEqual({cell.mode for cell in of_family}, set(cells.modes_of(family)))
                self.assertEqual({cell.variables for cell in of_family}, set(cells.VARIABLES))
                self.assertLess(set(cells.ELEMENTS), {cell.elements for cell in of_family})
                self.assertEqual({cell.dtype for cell in of_family}, set(cells.DTYPES))
                replicated = {cell.mode for cell in of_family if cell.replicas == 2}
                self.assertEqual(replicated, {*cells.modes_of(family)} - {"xla"})
                self.assertEqual({cell.is_sparse for cell in of_family}, {True, False})
                self.assertEqual({cell.is_dynamic for cell in of_family}, {True, False})


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


class FloorTest(unittest.TestCase):
    @parameterized.expand([("eager", [2**17]), ("function", [2**17]), ("function", [4] * 5 + [600])])
    @pytest.mark.matrix
    def test_looks_at_each_gradient(self, mode: str, sizes: list[int]) -> None:
        floor = load("floor").Floor(tf.keras.optimizers.SGD(), 4.0, is_dynamic=True)
        for damaged in (None, *range(len(sizes))):
            grads = [tf.fill([size], float("inf") if index == damaged else 8.0) for index, size in enumerate(sizes)]
            applied = [tf.Variable(tf.zeros([size])) for size in sizes]
            graphs = set()

            def apply(unscaled: Any, applied: Any = applied, graphs: Any = graphs) -> Any:
                if not tf.executing_eagerly():
                    graphs.update(each.graph for each in unscaled)
                return tf.group(*[each.assign(grad) for each, grad in zip(applied, unscaled, strict=True)])

            def step(grads: Any, apply: Any = apply) -> None:
                floor.minimize(lambda scale_loss: [grad * scale_loss(0.25) for grad in grads], apply)

            (tf.function(step) if mode == "function" else step)(grads)
            # Keras sums no tensors of several graphs.
            self.assertEqual(len(graphs), mode == "function")
            for each in applied:
                np.testing.assert_array_equal(each, np.full(each.shape, 2.0 if damaged is None else 0.0))


def signature(model: Any) -> collections.Counter[str]:
    """Return how many ops of each type a model's step has."""
    graph = model.session.graph if model.session is not None else model.step.get_concrete_function().graph
    graph_def = graph.as_graph_def()
    nodes = [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]
    return collections.Counter(node.op for node in nodes)


class AblationTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("stacks", "v1/session/deep perceptron", "Pack"),
            ("counting in a branch", "v1/function/controller", "If"),
            ("gates", "v1/session/controller", "If"),
            ("half-precision reciprocals", "legacy/session/half perceptron", "StatelessIf"),
            ("sums", "v1/session/perceptron", "Sum"),
            ("squares", "v1/function/perceptron/2 replicas", "L2Loss"),
            ("products for XLA", "v1/xla/perceptron", "MatMul"),
            ("barriers for XLA", "v1/xla/controller", "XlaOptimizationBarrier"),
        ]
    )
    @pytest.mark.full
    def test_switches_off_one_way(self, way: str, cell_name: str, op: str) -> None:
        ablation = load("ablation")
        ((cell, ways),) = ablation.ways_in([way], [cell_name]).items()
        self.assertEqual(ways, [way])
        counts = []
        for replacements in ((), ablation.WAYS[way].replacements):
            candidate = ablation.Candidate(cell, replacements)
            self.addCleanup(candidate.model.close)
            with candidate.switched():
                counts.append(signature(candidate.model))
        changed = {*(counts[0] - counts[1]), *(counts[1] - counts[0])}
        self.assertIn(op, changed)

    def test_switches_off_one_call(self) -> None:
        ablation = load("ablation")
        ((cell, _),) = ablation.ways_in(["one call in eager mode"], ["v1/eager/controller"]).items()
        called = []
        for replacements in ((), ablation.WAYS["one call in eager mode"].replacements):
            candidate = ablation.Candidate(cell, replacements)
            count = mock.patch.object(tf.raw_ops, "PartitionedCall", wraps=tf.raw_ops.PartitionedCall)
            with candidate.switched(), count as call:
                candidate.model.step()
            called.append(call.called)
        self.assertEqual(called, [True, False])

    def test_every_way_has_cells(self) -> None:
        ablation = load("ablation")
        found = ablation.ways_in([], ["*"])
        self.assertEqual({way for ways in found.values() for way in ways}, set(ablation.WAYS))
        self.assertEqual(len({cell.name for cell in found}), len(found))

    def test_what_is_saved_is_a_share_of_the_step_without_it(self) -> None:
        # The machine was slow in the last round.
        full, without = np.array([[1.0, 1.0, 30.0]]), np.array([[2.0, 2.0, 40.0]])
        self.assertEqual(load("ablation").saved(full, without), (0.5, 0.25, 0.5))

    @pytest.mark.full
    def test_measures_time_and_time_of_processors(self) -> None:
        ablation = load("ablation")
        cell = ablation.ModelCell("controller", "v1", "session")
        (row,) = ablation.ablate(cell, ["stacks"], seconds=0.02, builds=1)
        self.assertEqual((row["name"], row["way"]), ("v1/session/controller", "stacks"))
        self.assertGreater(row["seconds"], 0)
        for median, low, high in (row["saved"], row["saved_cpu"]):
            self.assertTrue(low <= median <= high < 1)
        self.assertEqual(len(ablation.line_of(row)), len(ablation.HEADER))


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
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks", *arguments],
                cwd=ROOT,
                env=process_environment(needs=["matplotlib"]),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise AssertionError(done.stderr[-3000:])
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


class OnlyTest(unittest.TestCase):
    def test_a_pattern_that_no_step_has_is_an_error(self) -> None:
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(load("__main__").main(["--only", "v1/sessions/*"]), 2)
            self.assertEqual(load("__main__").main(["--ablate", "stacks", "--only", "v1/xla/*"]), 2)
        self.assertEqual(errors.getvalue().count("no step has such a name"), 2)

    def test_patterns_choose_what_is_counted_too(self) -> None:
        cells, main = load("cells"), load("__main__")
        for kind, sizes in (("quick", {100}), ("usual", {100, 5_000_000})):
            counted = cells.counted(kind)
            self.assertEqual({cell.elements for cell in counted}, sizes)
            for family in cells.FAMILIES:
                self.assertEqual(
                    {cell.mode for cell in main._matching(counted, [f"{family}/*"])}, set(cells.modes_of(family))
                )


class CostsTest(unittest.TestCase):
    @pytest.mark.matrix
    def test_of_each_part_beside_the_floors(self) -> None:
        costs = load("costs")
        measured = costs.costs_of(costs.measure_costs(2, 1000, "float32", seconds=0.02, threads=2))
        self.assertLessEqual({"none", "read by sums", "read by numpy", "read and write"}, set(measured))
        for part in ("check", "unscale", "decision"):
            self.assertLessEqual({f"original {part}", f"mpls {part}"}, set(measured))
        self.assertGreater(measured["none"], 0)
        self.assertGreater(measured["mpls decision"], 0)


@pytest.mark.programs
class OptionsTest(unittest.TestCase):
    @parameterized.expand(["v1", "legacy", "new", "keras3"])
    def test_each_has_a_step(self, family: str) -> None:
        options, models = load("options"), load("models")
        for name, settings in options.OPTIONS.items():
            training = models.ModelStep("controller", family, "mpls", "eager", settings=settings)
            training.step()
            opt = training._optimizer
            self.assertIs(opt.enabled, name != "disabled")
            self.assertEqual("search_steps" in opt.state_dict(), name == "auto")
            self.assertEqual(
                "applied_steps" in opt.state_dict(), name in ("count_steps", "track", "give_up", "unscaled", "all")
            )

    @pytest.mark.full
    def test_measured_beside_the_bare_step(self) -> None:
        options = load("options")
        samples = options.measure_options("controller", "v1", "eager", 0.001, turn=3)
        self.assertEqual(set(samples.seconds), {"none", "original", *options.OPTIONS})


class CountsTest(unittest.TestCase):
    @pytest.mark.full
    def test_of_a_function(self) -> None:
        counts = {each: self.count("function", each) for each in ("original", "mpls")}
        for count in counts.values():
            self.assertEqual((count["retraces"], count["host_reads"]), (0, 0))
            self.assertGreater(count["first_step_seconds"], 0.0)
        self.assertLess(counts["mpls"]["ops"], counts["original"]["ops"])

    @pytest.mark.full
    def test_of_eager_mode(self) -> None:
        # The decision has to be known in Python: whether all is finite, the scale and the count.
        count = self.count("eager", "mpls")
        self.assertEqual((count["ops"], count["retraces"]), (None, None))
        self.assertGreater(count["host_reads"], 0)

    @pytest.mark.full
    def test_the_peak_is_that_of_some_gradients_and_not_of_all_of_them_again(self) -> None:
        counting, cell = load("counting"), load("cells").Cell("legacy", "function", 8, 1_000_000)
        bare, ours = (counting.count(cell, each)["peak_bytes"] for each in ("none", "mpls"))
        self.assertGreater(bare, 4_000_000)
        self.assertLess(ours, bare + 16_000_000)

    def count(self, mode: str, candidate: str) -> dict[str, Any]:
        counted: dict[str, Any] = load("counting").count(load("cells").Cell("legacy", mode, 20, 100), candidate)
        return counted


if __name__ == "__main__":
    unittest.main()
