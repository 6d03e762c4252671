"""Programs as people wrote them, unmodified, by `mpls run`, beside what each release of their time printed.

Each run is an interpreter of its own. `test_corpus.py` runs each program once; here `-m long` takes every release, with
either generation of Keras. Some programs are traps: what an alias that looks right computes wrong, without any error.
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

ALL = [
    (name, release, keras)
    for name, releases in sorted(RELEASES.items())
    for release in releases
    for keras in KERAS
    if (name, keras) not in CANNOT
]


def _name(function: Callable[..., None], number: str, case: Any) -> str:
    return "_".join([function.__name__, *map(str, case.args)]).replace(" ", "_").replace(".", "_")


class ClientsTest(unittest.TestCase):
    @parameterized.expand(ALL, name_func=_name)
    @pytest.mark.default_run("each value", by=lambda name, release, keras: (keras,), rest="long")
    def test_as_recorded(self, name: str, release: str, keras: str) -> None:
        found = differences(printed(name, keras, "--as-of", release), today(recorded(name, release)))
        self.assertFalse(found, "\n".join(["", *found]))

    @parameterized.expand(CANNOT, name_func=_name)
    @pytest.mark.default_run("one case", rest="long")
    def test_cannot_run(self, name: str, keras: str) -> None:
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
