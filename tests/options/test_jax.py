"""Options on the JAX backend of Keras 3, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import unittest

import pytest

PROGRAM = """
import keras, numpy as np
import mpls.keras

def made(**options):
    return mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.25), **{"initial_scale": 8, **options})

def model_with(opt, **options):
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    model.compile(opt, "mse", **options)
    return model

def fit(model, *values):
    rows = np.array(values, np.float32).reshape(-1, 1)
    model.fit(rows, np.zeros_like(rows), batch_size=1, shuffle=False, verbose=0)

INF = float("inf")
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

for policy, enabled in (("mixed_bfloat16", False), ("mixed_float16", True), ("float32", False)):
    keras.config.set_dtype_policy(policy)
    assert made(enabled="auto").enabled is enabled

for option in ({"hysteresis": 2}, {"adjustable": True}, {"count_steps": True}, {"initial_scale": "auto"}):
    try:
        made(**{"initial_scale": 8, **option})
    except NotImplementedError as error:
        assert f"{next(iter(option))} must be left out" in str(error)
    else:
        raise AssertionError(option)
"""


class JaxTest(unittest.TestCase):
    @pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax, which the extra `test` installs")
    def test_options(self) -> None:
        environment = {**os.environ, "KERAS_BACKEND": "jax"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment
        )
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
