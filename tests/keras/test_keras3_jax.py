"""Keras 3 wrappers on other backends of Keras, in processes of their own; the same work beside it on TensorFlow."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import keras
import numpy as np
import pytest
from parameterized import parameterized

import mpls
from tests.processes import process_environment

PROGRAM = pathlib.Path(__file__).with_name("jax_training.py")
FOLDER = pathlib.Path(tempfile.gettempdir()) / f"mpls-keras3-jax-{os.getpid()}"

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="needs jax, which the extra `test` installs, and there is none"
)


def setUpModule() -> None:
    FOLDER.mkdir()


def tearDownModule() -> None:
    shutil.rmtree(FOLDER)


@functools.cache
def results(backend: str) -> dict[str, Any]:
    """Run all jobs in a process with a backend; return what each found, or how it failed."""
    # In this order: the program on JAX loads what the one on TensorFlow saves.
    if backend == "jax":
        results("tensorflow")
    return run_jobs(backend, *{"tensorflow": (), "jax": (), "numpy": ("construction", "beside_tf_keras")}[backend])


def run_jobs(backend: str, *jobs: str) -> dict[str, Any]:
    """Run jobs in a process with a backend; all if none is named."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(FOLDER), *jobs],
        capture_output=True,
        text=True,
        env=process_environment(needs=[] if backend == "tensorflow" else ["jax"], KERAS_BACKEND=backend),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    assert printed["backend"] == backend
    return printed["jobs"]


def found_by(job: str, backend: str) -> Any:
    result = results(backend)[job]
    assert "failed" not in result, result["failed"]
    return result["found"]


def numbers(value: Any) -> Any:
    """Return a result with the strings for non-finite floats made floats."""
    if isinstance(value, list):
        return [numbers(entry) for entry in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def assert_alike(one: Any, other: Any, rtol: float = 1e-6, what: str = "") -> None:
    """Require results to be the same: integers and texts exactly, floats nearly."""
    if isinstance(other, dict):
        assert isinstance(one, dict), f"{what}: {one} is no dict"
        assert one.keys() == other.keys(), what
        for key in other:
            assert_alike(one[key], other[key], rtol, f"{what}|{key}")
    elif isinstance(other, list):
        assert isinstance(one, list), f"{what}: {one} is no list"
        assert len(one) == len(other), what
        for index, entry in enumerate(other):
            assert_alike(one[index], entry, rtol, f"{what}|{index}")
    elif isinstance(other, float) and isinstance(one, float):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-7, err_msg=what)
    else:
        assert (type(one), one) == (type(other), other), what


def assert_error(found: Any, name: str, text: str) -> None:
    assert "error" in found, found
    assert name in found["error"], found
    assert re.search(text, found["text"]), found


LARGEST = 2.0**127

# Scale, counter, iterations and variables after each step, worked out by hand; in a dict, by part of the job.
BY_HAND = [
    (
        # Factors 1, inf, 1, 1, nan, 1 with a period of 2: each good one takes 1/4 off.
        "dynamic_steps",
        [
            [8.0, 1, 1, [0.75, 1.75]],
            [4.0, 0, 1, [0.75, 1.75]],
            [4.0, 1, 2, [0.5, 1.5]],
            [8.0, 0, 3, [0.25, 1.25]],
            [4.0, 0, 3, [0.25, 1.25]],
            [4.0, 1, 4, [0.0, 1.0]],
        ],
    ),
    (
        # Growth by 4 stops at the ceiling of 16, and the second of two overflows halves it.
        "options",
        {
            "steps": [[16.0, 0, 1, 0.75], [16.0, 0, 1, 0.75], [8.0, 0, 1, 0.75], [16.0, 0, 2, 0.5]],
            "counts": [2, 2, 0],
        },
    ),
    (
        "floor_and_ceiling",
        {
            "down": [[4.0, 0, 0, 1.0], [2.0, 0, 0, 1.0], *[[1.0, 0, 0, 1.0]] * 4, [1.0, 1, 1, 0.5]],
            "up": [
                [LARGEST, 0, 1, 0.0],
                [LARGEST, 0, 2, -1.0],
                [LARGEST, 0, 3, -2.0],
                [LARGEST / 2, 0, 3, -2.0],
                [LARGEST, 0, 4, -3.0],
            ],
        },
    ),
    ("counter_above_the_period", [[16.0, 0, 1, 1.0], [16.0, 1, 2, 1.0]]),
    # Raised to 1, which is the floor.
    ("unscaling_overflows", [1.0, 0, 0, 1.0]),
    (
        # A fixed scale never skips.
        "fixed_steps",
        [
            [3.0, None, 1, [0.75, 1.75]],
            [3.0, None, 2, [0.25, 1.25]],
            [3.0, None, 3, ["-inf", "-inf"]],
            [3.0, None, 4, ["-inf", "-inf"]],
        ],
    ),
    (
        # Every second good step applies the mean of two gradients; iterations count those.
        "accumulation",
        [[8.0, 1, 0, 1.0], [4.0, 0, 0, 1.0], [4.0, 1, 1, 0.0], [4.0, 2, 1, 0.0], [4.0, 3, 2, -1.0]],
    ),
    (
        # The variable and its average; a skipped step is none of either.
        "averages",
        {"steps": [[0.0, 0.0], [0.0, 0.0], [-1.0, -0.5], [-2.0, -1.25]], "finalized": -1.25},
    ),
    # What overwrites is not unscaled; the other gradient is 8 / 8.
    ("overwriting", [5.0, 0.5]),
    (
        # 2**11 / 2**10, and 2**11 / 2**25, which is lost beside 1 but is no 0.
        "half_precision",
        {
            f"{dtype} {kind}": [variable, grad, [dtype, dtype]]
            for dtype in ("float16", "bfloat16")
            for kind, variable, grad in (("dynamic", 0.0, 2.0), ("large", 1.0, 2.0**-14))
        },
    ),
    ("eager_methods", [[4.0, 1, 2, 0.0]] * 2),
    (
        "scaled_losses",
        {
            f"{method} {dtype}": [dtype if method.startswith("get") else "float32", 1.5 * 2**14, True]
            for dtype in ("float16", "bfloat16", "float32")
            for method in ("scale_loss", "get_scaled_loss", "get_scaled_loss of a callable")
        },
    ),
    ("a_scale_that_was_read", [8.0, 4.0]),
]


@needs_jax
class DefaultTest(unittest.TestCase):
    @pytest.mark.matrix
    def test_few_jobs_are_as_worked_out_by_hand(self) -> None:
        expected = {job: found for job, found in BY_HAND if job in ("dynamic_steps", "options")}
        jobs = run_jobs("jax", *expected)
        self.assertEqual({job: result.get("found", result) for job, result in jobs.items()}, expected)


@needs_jax
@pytest.mark.programs
class RuleTest(unittest.TestCase):
    @parameterized.expand(
        [(f"{job}_{backend}", job, backend, expected) for job, expected in BY_HAND for backend in ("jax", "tensorflow")]
    )
    def test_it_is_as_worked_out_by_hand(self, name: str, job: str, backend: str, expected: Any) -> None:
        self.assertEqual(found_by(job, backend), expected)

    def test_a_model_trains_as_on_tensorflow(self) -> None:
        steps = found_by("adam_steps", "jax")
        scales = [64.0, 64.0, 32.0, 32.0, 32.0, 64.0, 32.0, 16.0, 16.0, 16.0]
        self.assertEqual([step[:3] for step in steps][-1], [16.0, 2, 7])
        self.assertEqual([step[0] for step in steps], scales)
        self.assertNotEqual(steps[0][3], steps[-1][3])
        assert_alike(steps, found_by("adam_steps", "tensorflow"), rtol=1e-5)

    def test_what_a_step_returns_is_what_the_next_one_takes(self) -> None:
        chained, on_tensorflow = found_by("chained_steps", "jax"), found_by("chained_steps", "tensorflow")
        for name, (after, traces) in chained.items():
            with self.subTest(name):
                # With a momentum of 1/2: steps of -1/4, -3/8, -7/16 and -15/32.
                self.assertEqual(after, [4.0, 1, 4, [-0.53125, 0.46875]])
                self.assertEqual(after, on_tensorflow[name][0])
                # A change of dtypes, or of what JAX calls weak types, would compile a step once more.
                self.assertEqual(traces, 1)


@needs_jax
@pytest.mark.programs
class CallsTest(unittest.TestCase):
    def test_missing_gradients(self) -> None:
        for backend in ("jax", "tensorflow"):
            found = found_by("missing_gradients", backend)
            self.assertEqual(found["some"], [8.0, 1, 1, 0.5, 2.0])
            self.assertEqual(found["part"], [8.0, 2, 2, 0.5, 1.5])
            assert_error(found["none"], "ValueError", "at least one gradient that is not None")
            self.assertEqual(found["after"], found["part"])

    @parameterized.expand(
        [
            ("unbuilt", r"must be called on an optimizer that is built; .* opt\.build"),
            ("optimizer_variables", "optimizer_variables must hold 6 values; got 5"),
            ("grads", "grads must hold 2 values; got 1"),
            ("trainable_variables", "trainable_variables must hold 2 values; got 3"),
            ("apply", "as many as the variables, 2; got 1"),
            ("unknown", "must be among those that the optimizer was built with"),
            ("set_weights", "weights must have the shapes"),
        ]
    )
    def test_wrong_numbers_of_values(self, name: str, text: str) -> None:
        found = found_by("wrong_numbers", "jax")
        assert_error(found[name], "ArgumentValueError", text)
        self.assertEqual(found["after"], [8.0, 0, 0, 1.0, 2.0])

    @parameterized.expand(
        [
            ("apply", r"get_unscaled_gradients\(\) is one too many: apply\(\) unscales"),
            ("stateless_apply", r"get_unscaled_gradients\(\) is one too many: stateless_apply\(\) unscales"),
            ("scaled_only", r"get_unscaled_gradients\(\) must be called between"),
        ]
    )
    def test_a_mix_of_the_styles(self, name: str, text: str) -> None:
        found = found_by("mixed_styles", "jax")
        assert_error(found[name], "CallOrderError", text)
        self.assertEqual(found["after"], [8.0, 0, 0, 1.0])
        self.assertEqual(found["keras_2"], [8.0, 1, 1, 0.5])

    @parameterized.expand([("jax",), ("tensorflow",)])
    def test_losses_of_older_code(self, backend: str) -> None:
        found = found_by("losses_of_older_code", backend)
        self.assertEqual((found["scaled"], found["grads"]), (24.0, [3.0]))
        assert_error(found["too_large"], "ArgumentValueError", "at most 65504 for a float16 loss")

    def test_methods_of_the_other_backend(self) -> None:
        for backend, methods in (("jax", ["minimize", "compute_gradients"]), ("tensorflow", ["stateless_apply"])):
            found = found_by("other_backends_methods", backend)
            self.assertEqual([*found], [*methods, "after"])
            for method in methods:
                assert_error(found[method], "UnsupportedBackendError", "must be called on the backend")
                self.assertIn("NotImplementedError", found[method]["error"])
            self.assertEqual(found["after"], [8.0, 0, 0, 1.0])


@needs_jax
@pytest.mark.programs
class FitTest(unittest.TestCase):
    def test_fit_under_mixed_float16(self) -> None:
        found = found_by("fits", "jax")
        for kind, scales in (
            # The third batch is not finite.
            ("dynamic", [[64.0, 1, 1], [64.0, 2, 2], [32.0, 0, 2], [32.0, 1, 3]]),
            ("fixed", [[128.0, None, step] for step in (1, 2, 3, 4)]),
        ):
            with self.subTest(kind):
                it = found[kind]
                self.assertEqual([step[:3] for step in it["steps"]], scales)
                weights = [step[3:] for step in it["steps"]]
                self.assertEqual(
                    [one == other for one, other in itertools.pairwise(weights)].count(True),
                    1 if kind == "dynamic" else 0,
                )
                # One call of fit, compiled in each way and not at all, does what a call for each batch does.
                for fitted in it["fit"]:
                    assert_alike(fitted, it["steps"][-1], rtol=1e-3)
                self.assertEqual(len(it["fit"]), 4)
                self.assertEqual((it["compute_dtype"], it["is_ours"], it["inner_is_bare"]), ("float16", True, True))
        self.assertTrue(found["automatic_is_ours"])
        # From 2**22 down to where nothing overflows in float16.
        scale, _, iterations, *weights = found["large_scale"]
        self.assertEqual(scale, 2.0 ** (22 - (12 - iterations)))
        self.assertTrue(2 < iterations < 10)
        self.assertNotEqual(weights, [[0.5], [0.0]])
        self.assertEqual(found["fixed_bad_batch"], [128.0, None, 4, ["nan"], ["nan"]])
        # float16 products may be rounded otherwise.
        assert_alike(found, found_by("fits", "tensorflow"), rtol=1e-2)

    def test_accumulation_and_averages(self) -> None:
        found = found_by("fit_with_the_inner_optimizers_own", "jax")
        # Eight batches of which two overflow: six good ones, in three pairs.
        self.assertEqual(found["accumulation"][2], 3)
        self.assertEqual(found["averages"][2], 6)
        self.assertEqual(found["averages"][:2], [32.0, 1])
        assert_alike(found, found_by("fit_with_the_inner_optimizers_own", "tensorflow"), rtol=1e-2)


@needs_jax
@pytest.mark.programs
class FilesTest(unittest.TestCase):
    @parameterized.expand([("dynamic", [64.0, 0, 3]), ("fixed", [128.0, None, 4])])
    def test_a_model_that_was_saved_goes_on(self, kind: str, expected: list[Any]) -> None:
        found = found_by("saved", "jax")[kind]
        self.assertTrue(found["is_ours"])
        self.assertEqual(found["loaded"][:3], expected)
        self.assertEqual(found["loaded"], found["saved"])
        saved, loaded = found["trained"]
        self.assertEqual(loaded, saved)
        self.assertNotEqual(loaded, found["loaded"])

    @parameterized.expand([("dynamic",), ("fixed",)])
    def test_a_model_of_tensorflow_goes_on_on_jax(self, kind: str) -> None:
        saved, loaded = found_by("saved", "tensorflow")[kind], found_by("loaded_from_tensorflow", "jax")[kind]
        for key in ("is_ours", "config", "variables", "loaded"):
            self.assertEqual(loaded[key], saved[key])
        assert_alike(loaded["trained"][0], saved["trained"][0], rtol=1e-5)

    @parameterized.expand([("dynamic",), ("fixed",)])
    def test_a_model_of_jax_loads_on_tensorflow(self, kind: str) -> None:
        saved = found_by("saved", "jax")[kind]
        self.assertEqual(keras.backend.backend(), "tensorflow")
        # Keras' own loader gives wrappers of mpls once the process has made one.
        mpls.keras.LossScaleOptimizer(keras.optimizers.SGD())
        optimizer = keras.models.load_model(FOLDER / f"jax-{kind}.keras").optimizer
        self.assertIsInstance(optimizer, mpls.keras.LossScaleOptimizer)
        self.assertEqual(optimizer.get_config(), saved["config"])
        self.assertEqual([variable.numpy().tolist() for variable in optimizer.variables], saved["variables"])


@pytest.mark.programs
class OtherBackendsTest(unittest.TestCase):
    """Keras itself needs jax for its NumPy backend."""

    def test_numpy_is_refused_before_anything_is_created(self) -> None:
        found = found_by("construction", "numpy")
        for kind in ("dynamic", "fixed"):
            assert_error(found[kind], "UnsupportedBackendError", "tensorflow or jax; got 'numpy'.*KERAS_BACKEND")
            self.assertFalse(found[f"{kind} marks"])

    def test_tensorflow_and_jax_are_not(self) -> None:
        for backend in ("jax", "tensorflow"):
            expected = {"dynamic": {"result": 32768.0}, "fixed": {"result": 8.0}}
            self.assertEqual(
                found_by("construction", backend), {**expected, "dynamic marks": True, "fixed marks": True}
            )

    def test_optimizers_of_tf_keras_know_of_no_backend(self) -> None:
        self.assertEqual(found_by("beside_tf_keras", "numpy"), [4.0, 1, 3, 0.0])
