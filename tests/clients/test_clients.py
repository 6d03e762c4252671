"""Programs as people wrote them, unmodified, by `mpls run`, beside what the release of their time printed.

Each run is an interpreter of its own. `-m programs` takes each program once; `-m long` takes the other releases, and
the other generation of Keras.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import pytest
from parameterized import parameterized

from .running import KERAS, RELEASES, differences, printed, recorded, run, today

pytestmark = pytest.mark.programs

LEGACY = "`keras.optimizers.legacy` is not supported in Keras 3"
REMOVED_POLICY = "Policy: name must not be one that TensorFlow removed; got 'infer_float32_vars' (str)"

# (script, Keras) -> how it ends. Most of their inner optimizers are of a kind that Keras 3 does not have.
CANNOT = {
    # A subclass of the optimizers of Keras 2, with its own _resource_apply_dense.
    ("electra_checkpoint", "keras 3"): LEGACY,
    ("speech_synthesis", "keras 3"): LEGACY,
    # Applied to some variables first and to others later; Keras 3 wants to know all of them at the start.
    ("recommender_twice", "keras 3"): LEGACY,
    # An optimizer of TF 1 in model.compile.
    ("compiled_graph_optimizer", "keras 3"): "Could not interpret optimizer identifier",
    # Policies that were gone before the API was.
    ("old_policies", "keras 3"): REMOVED_POLICY,
    ("old_policies", "tf_keras"): REMOVED_POLICY,
    # Keras 3 loads no optimizer that goes on training from H5, its own SGD neither.
    ("saved_model", "keras 3"): "Cond.call()",
}

# A usual run takes these without Keras or with this generation; the others, which use it, with one in turn.
WITH = {
    "accelerator_optimizers": "keras 3",
    "bert_optimization": "tf_keras",
    "both_generations": "keras 3",
    "calcium_policy": "keras 3",
    "graph_finetune": "none",
    "ncf_contrib": "tf_keras",
    "spine_metrics": "keras 3",
    "strings_toolkit": "tf_keras",
    "t2t_contrib": "keras 3",
    "unet_scaler": "tf_keras",
}

# Have tests of their own below.
TRAPS = {
    ("clipping_step", "2.3", "keras 3"),
    ("clipping_step", "2.3", "tf_keras"),
    ("detector_train", "2.3", "keras 3"),
    ("detector_train", "2.3", "tf_keras"),
    ("dreamer_adam", "2.2", "keras 3"),
    ("dreamer_adam", "2.2", "tf_keras"),
    ("dreamer_adam", "2.3", "keras 3"),
}

ALL = [
    (name, release, keras)
    for name, releases in sorted(RELEASES.items())
    for release in releases
    for keras in KERAS
    if (name, release, keras) not in TRAPS and (name, keras) not in CANNOT
]


def _usual_keras(name: str) -> str:
    able = [keras for keras in KERAS if (name, keras) not in CANNOT]
    if not able:
        return "none"
    return WITH.get(name) or able[sorted(RELEASES).index(name) % len(able)]


def _is_usual(name: str, release: str, keras: str) -> bool:
    if name in [trap for trap, *_ in TRAPS]:
        return False
    # The oldest release with one generation of Keras, the newest with the other.
    return release == RELEASES[name][-1 if keras == "tf_keras" else 0] and keras == _usual_keras(name)


USUAL = [case for case in ALL if _is_usual(*case)]
USUALLY_REFUSED = [("speech_synthesis", "keras 3")]


def _name(function: Callable[..., None], number: str, case: Any) -> str:
    return "_".join([function.__name__, *map(str, case.args)]).replace(" ", "_").replace(".", "_")


class _Clients(unittest.TestCase):
    def check(self, name: str, release: str, keras: str) -> list[dict[str, object]]:
        lines = printed(name, keras, "--as-of", release)
        self.same(lines, today(recorded(name, release)))
        return lines

    def same(self, lines: list[dict[str, object]], expected: list[dict[str, object]]) -> None:
        found = differences(lines, expected)
        self.assertFalse(found, "\n".join(["", *found]))


class ClientsTest(_Clients):
    @parameterized.expand(USUAL, name_func=_name)
    @pytest.mark.default_run("each value", by=lambda name, *others: others, rest="full")
    def test_as_recorded(self, name: str, release: str, keras: str) -> None:
        self.check(name, release, keras)

    @parameterized.expand([case for case in ALL if case not in USUAL], name_func=_name)
    @pytest.mark.long
    def test_as_recorded_elsewhere(self, name: str, release: str, keras: str) -> None:
        self.check(name, release, keras)

    @parameterized.expand(USUALLY_REFUSED, name_func=_name)
    def test_cannot_run(self, name: str, keras: str) -> None:
        self._check_cannot_run(name, keras)

    @parameterized.expand([case for case in CANNOT if case not in USUALLY_REFUSED], name_func=_name)
    @pytest.mark.long
    def test_cannot_run_either(self, name: str, keras: str) -> None:
        self._check_cannot_run(name, keras)

    def _check_cannot_run(self, name: str, keras: str) -> None:
        done = run(name, keras, "--as-of", RELEASES[name][-1])
        self.assertEqual(done.returncode, 1)
        self.assertIn(CANNOT[name, keras], done.stderr)
        self.assertIn(f"{name}.py", done.stderr)

    @pytest.mark.long
    def test_a_name_that_keras_3_gave_to_another_class(self) -> None:
        # It still works, so it is replaced only when asked for; this client needs it.
        done = run("both_generations", "keras 3", replace_existing=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("'LossScaleOptimizer' object has no attribute 'get_scaled_loss'", done.stderr)


class TrapsTest(_Clients):
    """What an alias that looks right computes wrong, without any error."""

    @parameterized.expand(KERAS, name_func=_name)
    @pytest.mark.default_run("one case", rest="full")
    def test_second_argument_of_apply_gradients(self, keras: str) -> None:
        # It is the inner optimizer's norm to clip to; its default moves a quarter as far.
        first, _, last = self.check("clipping_step", "2.3", keras)
        moved = [start - end for start, end in zip([1.0, 2.0, 0.5, 1.5, 2.5], first["weights"], strict=True)]
        self.assertAlmostEqual(sum(move * move for move in moved) ** 0.5, 0.2, places=6)
        self.assertEqual(last["scale"], 16384.0)

    @parameterized.expand(KERAS, name_func=_name)
    @pytest.mark.default_run("one case", rest="full")
    def test_loss_scale_objects_and_numbers(self, keras: str) -> None:
        lines = self.check("detector_train", "2.3", keras)
        by_run = {
            run: [line for line in lines if line.get("run") == run] for run in ("1024", "128", "keyword", "object")
        }
        # The object's own settings are honoured, not the default of 32768.
        self.assertEqual([line["scale"] for line in by_run["1024"]], [1024.0, 512.0, 512.0])
        # A number is a fixed scale: never another, and it never skips.
        for name, scale in (("128", 128.0), ("keyword", 8.0), ("object", 16.0)):
            self.assertEqual([line["scale"] for line in by_run[name]], [scale] * 3)
            self.assertEqual(by_run[name][-1]["weights"], [float("-inf")] * 2)
            self.assertEqual([line["iterations"] for line in by_run[name]], [1, 2, 3])

    @parameterized.expand([("2.2", "keras 3", 3), ("2.2", "tf_keras", 3), ("2.3", "keras 3", 4)], name_func=_name)
    @pytest.mark.default_run("each value", by=lambda release, keras, count: (release, keras), rest="full")
    def test_iterations_on_a_skipped_step(self, release: str, keras: str, count: int) -> None:
        # Adam's correction of its bias follows them, and so do the weights.
        lines = self.check("dreamer_adam", release, keras)
        self.assertEqual(lines[3]["iterations"], count)
        other = "2.3" if release == "2.2" else "2.2"
        self.assertIn("weights", " ".join(differences(lines, recorded("dreamer_adam", other))))

    def test_iterations_by_default(self) -> None:
        self.same(printed("dreamer_adam", "tf_keras"), recorded("dreamer_adam", "2.8"))


class EvidenceTest(unittest.TestCase):
    """The evidence is whole, and the comparison can fail."""

    def test_every_sequence_but_one_has_a_skipped_or_a_ruinous_step(self) -> None:
        for name in RELEASES:
            lines = recorded(name, RELEASES[name][-1])
            self.assertTrue(any("inf" in str(line.get("step")) for line in lines), name)

    @parameterized.expand(
        [
            ("scale", {"scale": 8.000001}),
            ("iterations", {"iterations": 3}),
            ("weights", {"weights": [1.0, 2.00001]}),
            ("weights", {"weights": [1.0]}),
            ("weights", {"weights": [1.0, float("nan")]}),
            ("seen", {"seen": "more"}),
        ]
    )
    def test_the_comparison_sees(self, key: str, change: dict[str, object]) -> None:
        line = {"step": 1.0, "scale": 8.0, "iterations": 2, "weights": [1.0, 2.0]}
        self.assertEqual(differences([line], [{**line, "weights": [1.0 + 1e-8, 2.0]}]), [])
        (found,) = differences([{**line, **change}], [line])
        self.assertIn(f"line 0 {key}: ", found)
        self.assertEqual(differences([line, line], [line]), ["2 lines for 1"])
