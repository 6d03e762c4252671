"""Options on the JAX backend of Keras 3, in a process of its own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unittest

import pytest

from tests.processes import process_environment

HEAD = """
import keras, numpy as np
import mpls.keras
from mpls.core import releases

def made(inner=None, **options):
    return mpls.keras.LossScaleOptimizer(inner or keras.optimizers.SGD(0.25), **{"initial_scale": 8, **options})

def model_with(opt, **options):
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    model.compile(opt, "mse", **options)
    return model

def fit(model, *values):
    rows = np.array(values, np.float32).reshape(-1, 1)
    model.fit(rows, np.zeros_like(rows), batch_size=1, shuffle=False, verbose=0)

INF = float("inf")
"""

PROGRAM = """
for options in ({"run_eagerly": True}, {"jit_compile": True}):
    opt = made(dynamic_growth_steps=1, min_scale=0.5, max_scale=64, growth_factor=4, backoff_factor=0.125)
    model = model_with(opt, **options)
    fit(model, 0.1, 0.1)
    assert opt.state_dict()["scale"] == 64.0, opt.state_dict()
    fit(model, INF, INF, INF)
    assert opt.state_dict()["scale"] == 0.5, opt.state_dict()
    opt.set_scale(2)
    assert opt.state_dict()["scale"] == 2.0, opt.state_dict()
    fit(model, 0.1)
    assert opt.state_dict()["scale"] == 8.0, opt.state_dict()
    try:
        opt.set_scale(128)
    except ValueError as error:
        assert "the bounds" in str(error)
    else:
        raise AssertionError("out of bounds")
    try:
        opt.configure(growth_factor=2)
    except RuntimeError as error:
        assert "before the first stateless_apply() or fit()" in str(error), error
    else:
        raise AssertionError("configured what is compiled")

# Before the first step there is nothing that holds the settings.
opt = made(dynamic_growth_steps=1)
opt.configure(growth_factor=8, max_scale=4)
assert opt.state_dict()["scale"] == 4.0
opt.configure(max_scale=1024)
fit(model_with(opt), 0.1)
assert opt.state_dict()["scale"] == 32.0, opt.state_dict()

opt = made(dynamic_growth_steps=2**40, skip_counts_step=True)
fit(model_with(opt), 0.1, INF, 0.1)
assert (int(opt.iterations), opt.state_dict()["scale"]) == (3, 4.0), opt.state_dict()

# Skipped steps are none of those whose gradients are added up.
for release in (None, "2.4"):
    releases.use(releases.behavior_of(release))
    opt = made(inner=keras.optimizers.SGD(0.25, gradient_accumulation_steps=2))
    releases.use(releases.ReleaseBehavior())
    model, bare = model_with(opt), model_with(keras.optimizers.SGD(0.25, gradient_accumulation_steps=2))
    bare.set_weights(model.get_weights())
    fit(model, 0.5, INF, 0.25, INF, 0.125, INF, 0.5)
    fit(bare, 0.5, 0.25, 0.125, 0.5)
    assert int(opt.iterations) == int(bare.optimizer.iterations) == 2
    np.testing.assert_array_equal(model.get_weights()[0], bare.get_weights()[0])
try:
    made(inner=keras.optimizers.SGD(0.25, gradient_accumulation_steps=2), skip_counts_step=True)
except ValueError as error:
    assert "skip_counts_step must be False or left out" in str(error), error
else:
    raise AssertionError("counts")

opt = made(initial_scale="auto", hysteresis=2, count_steps=True)
fit(model_with(opt), 0.1, INF, INF, INF)
state = opt.state_dict()
for counter in (opt.applied_steps, opt.skipped_steps, opt.consecutive_skips, opt._loss_scale.of_backend["bad_steps"]):
    assert (counter.dtype, tuple(counter.shape)) == ("int32", ())
    assert any(each is counter for each in opt.variables)
assert [state[name] for name in ("scale", "bad_steps", "search_steps")] == [256.0, 1, 32], state
assert [int(counter) for counter in (opt.applied_steps, opt.skipped_steps, opt.consecutive_skips)] == [1, 3, 3], state

for policy, enabled in (("mixed_bfloat16", False), ("mixed_float16", True), ("float32", False)):
    keras.config.set_dtype_policy(policy)
    assert made(enabled="auto").enabled is enabled

refused = {"adjustable": True, "track_overflows": True, "max_consecutive_skips": 2, "check_unscaled": True}
for option in ({name: value} for name, value in refused.items()):
    try:
        made(**{"initial_scale": 8, **option})
    except NotImplementedError as error:
        assert f"{next(iter(option))} must be left out" in str(error)
    else:
        raise AssertionError(option)
"""

DISABLED = """
for options in ({"run_eagerly": True}, {"jit_compile": True}):
    opt = made(dynamic_growth_steps=1, enabled=False)
    model = model_with(opt, **options)
    fit(model, 0.1, 0.1)
    assert (float(opt.loss_scale), opt.state_dict()["scale"], int(opt.iterations)) == (1.0, 8.0, 2), opt.state_dict()
    bare = model_with(keras.optimizers.SGD(0.25), **options)
    start = np.array([[0.5]], np.float32), np.array([1.0], np.float32)
    for each in (model, bare):
        each.set_weights(start)
        fit(each, 0.5)
    np.testing.assert_array_equal(model.get_weights()[0], bare.get_weights()[0])
    fit(model, INF)
    assert (int(opt.iterations), opt.state_dict()["scale"]) == (4, 8.0), opt.state_dict()
    assert not np.isfinite(model.get_weights()[0]).all()
    loss = keras.ops.ones(())
    assert opt.scale_loss(loss) is loss
"""

COUNTED = """
import itertools, os, pickle, tempfile, warnings
import keras, numpy as np
import mpls.inspect, mpls.keras, mpls.monitor
from tests.options.model import Model

INF = float("inf")
VALUES = [0.1, 0.1, INF, 0.1, INF, 0.1, 0.1, 0.1, INF, INF, INF, 0.1, INF]
COUNTS = ("applied_steps", "skipped_steps", "consecutive_skips")

def model_with(opt, **options):
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    model.compile(opt, "mse", **options)
    return model

def fit(model, values, **options):
    rows = np.array(values, np.float32).reshape(-1, 1)
    model.fit(rows, np.zeros_like(rows), batch_size=1, shuffle=False, verbose=0, **options)

def check(opt, model):
    state = opt.state_dict()
    expected = {"scale": model.scale, "applied_steps": model.applied, "skipped_steps": model.skipped}
    expected["consecutive_skips"] = model.in_a_row
    if "bad_steps" in state:
        expected["bad_steps"] = model.bad
    assert {name: state[name] for name in expected} == expected, (state, expected)
    assert [int(getattr(opt, name)) for name in COUNTS] == [expected[name] for name in COUNTS]
    assert bool(opt.last_step_applied) == (model.applied > 0 and model.in_a_row == 0)
    assert int(opt.iterations) == model.counter

settings = (
    {"hysteresis": 2}, {"hysteresis": 2, "consecutive_hysteresis": True}, {"initial_scale": "auto"},
    {"initial_scale": "auto", "hysteresis": 2, "min_scale": 0.5, "skip_counts_step": True}, {},
)
for chosen, how in itertools.product(settings, ({"run_eagerly": True}, {"jit_compile": True})):
    opt = mpls.keras.LossScaleOptimizer(
        keras.optimizers.SGD(1e-3), **{"initial_scale": 8, "dynamic_growth_steps": 40, **chosen}, count_steps=True
    )
    model = Model(256.0 if chosen.get("initial_scale") else 8.0, 40, search=1 if chosen.get("initial_scale") else None)
    for name, value in chosen.items():
        if name != "initial_scale":
            setattr(model, name, value)
    trained = model_with(opt, **how)
    check(opt, model)
    for value in VALUES:
        fit(trained, [value])
        model.step(value != INF)
        check(opt, model)
    fit(trained, VALUES)
    for value in VALUES:
        model.step(value != INF)
    check(opt, model)
    opt.set_scale(4)
    model.set_scale(4.0)
    fit(trained, [INF, INF, 0.1, INF])
    for finite in (False, False, True, False):
        model.step(finite)
    check(opt, model)
    # What is saved goes on where it was.
    again = mpls.keras.LossScaleOptimizer.from_config(opt.get_config())
    again.load_state_dict(opt.state_dict())
    assert again.state_dict() == opt.state_dict()
    try:
        again.load_state_dict({**opt.state_dict(), "skipped_steps": -1})
    except ValueError:
        assert again.state_dict() == opt.state_dict()
    else:
        raise AssertionError("a negative count")
    assert pickle.loads(pickle.dumps(opt)).state_dict() == opt.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        for suffix, save in itertools.product((".keras", ".h5"), (mpls.keras.save_model, keras.Model.save)):
            path = os.path.join(folder, "model" + suffix)
            save(trained, path)
            loads = [mpls.keras.load_model, keras.models.load_model] if suffix == ".keras" else [mpls.keras.load_model]
            for load in loads:
                loaded = load(path)
                assert loaded.optimizer.state_dict() == opt.state_dict(), (suffix, loaded.optimizer.state_dict())
                assert int(loaded.optimizer.iterations) == int(opt.iterations)
                assert len(loaded.optimizer.variables) == len(opt.variables)
            (found,) = mpls.inspect.describe(path)["optimizers"]
            assert found["counts"] == {name: opt.state_dict()[name] for name in COUNTS}, found
        later = Model(**vars(model))
        fit(loaded, VALUES)
        for value in VALUES:
            later.step(value != INF)
        check(loaded.optimizer, later)

# A fixed scale, and a disabled one.
for options, applied in (({"skip_nonfinite": True}, 1), ({}, 2), ({"skip_nonfinite": True, "enabled": False}, 2)):
    opt = mpls.keras.LossScaleOptimizer(
        keras.optimizers.SGD(1e-3), dynamic=False, initial_scale=8, count_steps=True, **options
    )
    trained = model_with(opt)
    fit(trained, [0.1, INF])
    assert [int(getattr(opt, name)) for name in COUNTS] == [applied, 2 - applied, 2 - applied], opt.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        trained.save(path)
        for load in (mpls.keras.load_model, keras.models.load_model):
            assert load(path).optimizer.state_dict() == opt.state_dict()

# The callback reads them while Keras keeps the state elsewhere.
opt = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(1e-3), initial_scale=8, count_steps=True)
callback = mpls.monitor.LossScaleCallback(messages=False)
fit(model_with(opt), [0.1, INF, INF], callbacks=[callback])
assert [tuple(each[name] for name in COUNTS) for each in callback.history] == [
    (0, 0, 0), (1, 0, 0), (1, 1, 1), (1, 2, 2)
], callback.history

# Each optimizer has a scale of its own.
inner = keras.optimizers.SGD(1e-3)
try:
    mpls.keras.LossScaleOptimizer(inner, share_scale_with=opt)
except NotImplementedError as error:
    assert "share_scale_with must be left out where Keras runs on jax" in str(error), error
else:
    raise AssertionError("shared")
mpls.keras.LossScaleOptimizer(inner)

# Without the options, the variables are those of before.
plain = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(1e-3))
assert len(plain.variables) == len(opt.variables) - 3 - len(opt.inner_optimizer.variables) + len(
    plain.inner_optimizer.variables
)
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax, which the extra `test` installs")
class JaxTest(unittest.TestCase):
    @pytest.mark.programs
    def test_options(self) -> None:
        self.run_on_jax(HEAD + PROGRAM)

    @pytest.mark.programs
    def test_disabled(self) -> None:
        self.run_on_jax(HEAD + DISABLED)

    @pytest.mark.programs
    def test_state_of_options(self) -> None:
        self.run_on_jax(COUNTED)

    def run_on_jax(self, program: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
            env=process_environment(needs=["jax"], KERAS_BACKEND="jax"),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
