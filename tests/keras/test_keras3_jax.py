"""Keras 3 wrappers where Keras runs on JAX or NumPy, in processes of their own; files of one backend on another."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import pathlib
import shutil
import tempfile

import keras
import pytest

import mpls.keras
from mpls.errors import UnsupportedBackendError
from tests.keras.on_jax import CHECKS, KINDS, config_of, numbers, saved_model
from tests.processes import ROOT, process_environment, run_python

FOLDER = pathlib.Path(tempfile.gettempdir()) / f"mpls-keras3-jax-{os.getpid()}"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="needs jax, which the extra `test` installs, and there is none"
)


def teardown_module() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)


def run(backend: str, *command: str) -> str:
    environment = process_environment(ROOT, needs=["jax"], KERAS_BACKEND=backend)
    done = run_python(*command, folder=ROOT, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@functools.cache
def failures() -> dict[str, str | None]:
    """Return how each check fails, None where it does not: of one process, beside files that TensorFlow has saved."""
    FOLDER.mkdir()
    for kind in KINDS:
        saved_model(kind, FOLDER)
    found: dict[str, str | None] = json.loads(run("jax", "-m", "tests.keras.on_jax", str(FOLDER)))
    return found


@pytest.mark.programs
@pytest.mark.parametrize("name", CHECKS)
def test_on_jax(name: str) -> None:
    failure = failures()[name]
    assert failure is None, failure


@pytest.mark.programs
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_jax_loads_on_tensorflow(kind: str) -> None:
    assert failures()["saved_models_go_on"] is None
    assert keras.backend.backend() == "tensorflow"
    held = json.loads((FOLDER / f"jax-{kind}.json").read_text())
    # Keras' own loader gives wrappers of mpls once the process has made one.
    mpls.keras.LossScaleOptimizer(keras.optimizers.SGD())
    optimizer = keras.models.load_model(FOLDER / f"jax-{kind}.keras").optimizer
    assert isinstance(optimizer, mpls.keras.LossScaleOptimizer)
    assert config_of(optimizer) == held["config"]
    assert [numbers(each) for each in optimizer.variables] == held["variables"]


def test_a_method_that_only_jax_has() -> None:
    optimizer, variable = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.5)), keras.Variable(1.0)
    optimizer.build([variable])
    held = [each.value for each in optimizer.variables]
    with pytest.raises(UnsupportedBackendError, match="must be called on the backend") as caught:
        optimizer.stateless_apply(held, [variable.value], [variable.value])
    assert isinstance(caught.value, NotImplementedError)


ON_NUMPY = """
import keras, tensorflow as tf, tf_keras
import mpls.keras
from mpls.errors import UnsupportedBackendError

assert keras.backend.backend() == "numpy"
for settings in ({}, {"dynamic": False, "initial_scale": 8}):
    inner = keras.optimizers.SGD(0.5)
    try:
        mpls.keras.LossScaleOptimizer(inner, **settings)
    except UnsupportedBackendError as error:
        assert "tensorflow or jax; got 'numpy'" in str(error) and "KERAS_BACKEND" in str(error), error
    else:
        raise AssertionError("wrapped")
    assert not hasattr(inner, "_is_wrapped_by_loss_scale_optimizer")

# Optimizers of tf_keras know of no backend.
optimizer = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.5), initial_scale=8, dynamic_growth_steps=2)
variable = tf.Variable(1.0)
for factor in (1.0, float("inf"), 1.0):
    optimizer.minimize(lambda: variable * factor, [variable])
state = float(optimizer.loss_scale), int(optimizer.dynamic_counter), int(optimizer.iterations), float(variable)
assert state == (4.0, 1, 3, 0.0), state
print("all of it")
"""


@pytest.mark.programs
def test_numpy_is_refused_for_optimizers_of_keras_3() -> None:
    """Keras itself needs jax for its NumPy backend."""
    assert run("numpy", "-c", ON_NUMPY) == "all of it"
