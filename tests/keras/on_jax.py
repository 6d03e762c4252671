"""Checks of wrappers where Keras runs on JAX: `python -m tests.keras.on_jax FOLDER` prints what failed, as JSON.

Tests import this module where Keras runs on TensorFlow, for the names of the checks and the models of files: the folder
has files of each backend for the other.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import pathlib
import pickle
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import keras
import numpy as np
import pytest
import tensorflow as tf

import mpls.experimental
import mpls.inspect
import mpls.keras
import mpls.monitor
from mpls.core import releases
from mpls.errors import ArgumentValueError, CallOrderError, MplsWarning, UnsupportedBackendError
from tests.keras.averages import COUNTS, FACTORS, MOMENTUM, RATE, expected
from tests.monitor.events import scalars
from tests.options.model import Model

Ours: Any = mpls.keras.LossScaleOptimizer
INF, NAN = math.inf, math.nan
STEP_COUNTS = ("applied_steps", "skipped_steps", "consecutive_skips")

CHECKS: dict[str, Callable[[pathlib.Path], None]] = {}


def check(function: Callable[[pathlib.Path], None]) -> Callable[[pathlib.Path], None]:
    CHECKS[function.__name__] = function
    return function


def sgd(rate: float = 0.5, momentum: float = 0.0, **settings: Any) -> Any:
    """Return a wrapped SGD with an initial scale of 8."""
    return Ours(keras.optimizers.SGD(rate, momentum), **{"initial_scale": 8, **settings})


def numbers(value: Any) -> Any:
    return keras.ops.convert_to_numpy(value).tolist()


def tensor(value: float, dtype: str = "float32") -> Any:
    return keras.ops.convert_to_tensor(value, dtype=dtype)


def state(optimizer: Any, *variables: Any) -> list[Any]:
    """Return scale, counter and iterations as they are now, and the values of variables."""
    counter = optimizer.dynamic_counter
    held = [numbers(each) for each in (optimizer.loss_scale, optimizer.iterations)]
    return [held[0], None if counter is None else numbers(counter), held[1], *(numbers(each) for each in variables)]


class Loop:
    """A custom loop over variables, whose compiled step is `stateless_apply`; the loss is their sum times a factor."""

    def __init__(self, optimizer: Any, *variables: Any, loss: Callable[..., Any] | None = None) -> None:
        import jax

        self.optimizer, self.variables = optimizer, list(variables)
        self.loss = loss or (lambda values, factor: sum(keras.ops.sum(value * factor) for value in values))
        optimizer.build(self.variables)
        self.traces = 0
        self.compiled = jax.jit(self.take)

    def take(self, values: list[Any], held: list[Any], factor: Any) -> Any:
        import jax

        self.traces += 1

        def scaled_loss(values: list[Any]) -> Any:
            # What the optimizer reads of its variables is what the step was given.
            with keras.StatelessScope(state_mapping=list(zip(self.optimizer.variables, held, strict=True))):
                return self.optimizer.scale_loss(self.loss(values, factor))

        return self.optimizer.stateless_apply(held, jax.grad(scaled_loss)(values), values)

    def held(self) -> tuple[list[Any], list[Any]]:
        return [each.value for each in self.variables], [each.value for each in self.optimizer.variables]

    def assign(self, values: list[Any], held: list[Any]) -> None:
        for variable, value in zip([*self.variables, *self.optimizer.variables], [*values, *held], strict=True):
            variable.assign(value)

    def step(self, factor: float) -> None:
        self.assign(*self.compiled(*self.held(), np.float32(factor)))

    def run(self, *factors: float) -> list[Any]:
        """Return scale, counter, iterations and variables after each step."""
        found = []
        for factor in factors:
            self.step(factor)
            found.append(state(self.optimizer, *self.variables))
        return found


@check
def dynamic_scale(folder: pathlib.Path) -> None:
    # Each good step takes 1/4 off.
    loop = Loop(sgd(0.25, dynamic_growth_steps=2), keras.Variable([1.0, 2.0]))
    assert loop.run(1.0, INF, 1.0, 1.0, NAN, 1.0) == [
        [8.0, 1, 1, [0.75, 1.75]],
        [4.0, 0, 1, [0.75, 1.75]],
        [4.0, 1, 2, [0.5, 1.5]],
        [8.0, 0, 3, [0.25, 1.25]],
        [4.0, 0, 3, [0.25, 1.25]],
        [4.0, 1, 4, [0.0, 1.0]],
    ]


@check
def what_a_step_returns_is_what_the_next_one_takes(folder: pathlib.Path) -> None:
    """As in a `scan`."""
    import jax

    factors = np.array([1.0, INF, 1.0, 1.0, NAN, 1.0], np.float32)
    optimizer = sgd(0.25, 0.5, dynamic_growth_steps=2)
    loop = Loop(optimizer, keras.Variable([1.0, 2.0]))
    values, held = loop.held()
    after = jax.lax.scan(
        lambda carry, factor: (tuple(map(list, loop.take(*carry, factor))), None), (values, held), factors
    )[0]
    assert [each.dtype for each in (*after[0], *after[1])] == [each.dtype for each in (*values, *held)]
    loop.assign(*after)
    # With a momentum of 1/2: steps of -1/4, -3/8, -7/16 and -15/32.
    assert state(optimizer, *loop.variables) == [4.0, 1, 4, [-0.53125, 0.46875]]
    # A change of dtypes, or of what JAX calls weak types, would compile a step once more.
    assert loop.traces == 1


@check
def gradients_that_overwrite(folder: pathlib.Path) -> None:
    """As float8 layers have them: they are not unscaled."""
    variable, other = keras.Variable(1.0), keras.Variable(1.0)
    variable.overwrite_with_gradient = True
    optimizer = sgd()
    optimizer.build([variable, other])
    optimizer.scale_loss(1.0)
    optimizer.apply([tensor(5.0), tensor(8.0)], [variable, other])
    assert [numbers(variable), numbers(other)] == [5.0, 0.5]


@check
def half_precision(folder: pathlib.Path) -> None:
    """Also under a scale whose reciprocal float16 cannot hold."""
    for dtype, (settings, weight, unscaled) in itertools.product(
        ("float16", "bfloat16"),
        (
            ({"initial_scale": 2.0**10}, 0.0, 2.0),
            # It is lost beside 1, and is no 0.
            ({"dynamic": False, "initial_scale": 2.0**25}, 1.0, 2.0**-14),
        ),
    ):
        optimizer, variable = sgd(**settings), keras.Variable(1.0, dtype=dtype)
        optimizer.build([variable])
        optimizer.scale_loss(1.0)
        optimizer.apply([tensor(2.0**11, dtype)], [variable])
        (found,) = optimizer.get_unscaled_gradients([tensor(2.0**11, dtype)])
        assert [float(keras.ops.cast(each, "float32")) for each in (variable, found)] == [weight, unscaled]
        assert {keras.backend.standardize_dtype(each.dtype) for each in (variable, found)} == {dtype}
    optimizer = sgd(dynamic=False, initial_scale=769.0)
    optimizer.get_scaled_loss(tensor(1.0))
    # In bfloat16 the scale would be 768.
    assert [float(each) for each in optimizer.get_unscaled_gradients([tensor(2.0**11, "bfloat16")])] == [2.65625]


@check
def missing_gradients(folder: pathlib.Path) -> None:
    optimizer, variables = sgd(), [keras.Variable(1.0), keras.Variable(2.0)]
    optimizer.build(variables)
    optimizer.scale_loss(1.0)
    optimizer.apply([tensor(8.0), None], variables)
    assert state(optimizer, *variables) == [8.0, 1, 1, 0.5, 2.0]
    # A part of the variables, in another order than they were built in.
    optimizer.scale_loss(1.0)
    optimizer.apply([tensor(8.0)], variables[1:])
    with pytest.raises(ValueError, match="at least one gradient that is not None"):
        optimizer.apply([None, None], variables)
    optimizer.apply([], [])
    assert state(optimizer, *variables) == [8.0, 2, 2, 0.5, 1.5]


@check
def wrong_numbers_of_values(folder: pathlib.Path) -> None:
    variables = [keras.Variable(1.0), keras.Variable(2.0)]
    values = [variable.value for variable in variables]
    optimizer = sgd()
    optimizer.scale_loss(1.0)
    with pytest.raises(ArgumentValueError, match=r"must be called on an optimizer that is built; .* opt\.build"):
        optimizer.stateless_apply([], values, values)
    optimizer.build(variables)
    held = [variable.value for variable in optimizer.variables]
    calls: dict[str, Callable[[], Any]] = {
        "optimizer_variables must hold 6 values; got 5": lambda: optimizer.stateless_apply(held[:-1], values, values),
        "grads must hold 2 values; got 1": lambda: optimizer.stateless_apply(held, values[:1], values),
        "trainable_variables must hold 2 values; got 3": lambda: optimizer.stateless_apply(
            held, values, [*values, values[0]]
        ),
        "as many as the variables, 2; got 1": lambda: optimizer.apply(values[:1], variables),
        "must be among those that the optimizer was built with": lambda: optimizer.apply(
            values[:1], [keras.Variable(1.0)]
        ),
        "weights must have the shapes": lambda: optimizer.set_weights(held[:-1]),
    }
    for message, call in calls.items():
        with pytest.raises(ArgumentValueError, match=message):
            call()
    assert state(optimizer, *variables) == [8.0, 0, 0, 1.0, 2.0]


@check
def mixed_styles(folder: pathlib.Path) -> None:
    optimizer, variable, grad = sgd(), keras.Variable(1.0), tensor(8.0)
    optimizer.build([variable])
    held = [each.value for each in optimizer.variables]
    for method, call in (
        ("apply", lambda grads: optimizer.apply(grads, [variable])),
        ("stateless_apply", lambda grads: optimizer.stateless_apply(held, grads, [variable.value])),
    ):
        optimizer.scale_loss(1.0)
        unscaled = optimizer.get_unscaled_gradients([grad])
        with pytest.raises(CallOrderError, match=rf"get_unscaled_gradients\(\) is one too many: {method}\(\) unscales"):
            call(unscaled)
    optimizer.get_scaled_loss(grad)
    with pytest.raises(CallOrderError, match=r"get_unscaled_gradients\(\) must be called between"):
        optimizer.apply_gradients([(grad, variable)])
    assert state(optimizer, variable) == [8.0, 0, 0, 1.0]
    # The style of Keras 2 by itself.
    optimizer.get_scaled_loss(grad)
    optimizer.apply_gradients([(optimizer.get_unscaled_gradients([grad])[0], variable)])
    assert state(optimizer, variable) == [8.0, 1, 1, 0.5]


@check
def losses_of_older_code(folder: pathlib.Path) -> None:
    import jax

    optimizer = sgd()
    grad = jax.jit(jax.grad(lambda value: optimizer.get_scaled_loss(value * 3.0)))(1.0)
    assert (float(grad), [float(each) for each in optimizer.get_unscaled_gradients([grad])]) == (24.0, [3.0])
    # In the dtype of the loss, or as Keras 3 does it.
    for scale_loss, dtype in ((optimizer.get_scaled_loss, "float16"), (optimizer.scale_loss, "float32")):
        assert [float(scale_loss(loss)) for loss in (1.5, np.float32(1.5))] == [12.0, 12.0]
        assert keras.backend.standardize_dtype(scale_loss(tensor(1.5, "float16")).dtype) == dtype
    assert float(optimizer.get_scaled_loss(lambda: tensor(1.5))()) == 12.0
    with pytest.raises(ArgumentValueError, match="at most 65504 for a float16 loss"):
        sgd(dynamic=False, initial_scale=2.0**17).get_scaled_loss(tensor(1.0, "float16"))


@check
def methods_that_only_tensorflow_has(folder: pathlib.Path) -> None:
    optimizer, variable = sgd(), keras.Variable(1.0)
    optimizer.build([variable])
    for method in (optimizer.minimize, optimizer.compute_gradients):
        with pytest.raises(UnsupportedBackendError, match="must be called on the backend") as caught:
            method(lambda: tensor(1.0), [variable])
        assert isinstance(caught.value, NotImplementedError)
    assert state(optimizer, variable) == [8.0, 0, 0, 1.0]


ROWS = np.array([[1.0], [-0.5], [0.25], [2.0], [-1.0], [INF], [1.5], [-2.0]], np.float32)
TARGETS = np.array([[1.0], [0.0], [0.5], [1.0], [-1.0], [0.25], [0.0], [0.75]], np.float32)
GOOD_ROWS = np.clip(ROWS, -2, 2)
BATCHES = [slice(start, start + 2) for start in range(0, 8, 2)]
KINDS = ("dynamic", "fixed")


def of_kind(kind: str) -> Any:
    if kind == "fixed":
        return sgd(0.125, 0.5, dynamic=False, initial_scale=128.0)
    return sgd(0.125, 0.5, initial_scale=64.0, dynamic_growth_steps=3)


def build_model(optimizer: Any, **settings: Any) -> Any:
    inputs = keras.layers.Input((1,))
    outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.5))(inputs)
    model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(outputs))
    model.compile(optimizer, "mse", **settings)
    return model


def fit(model: Any, rows: Any, epochs: int = 1) -> Any:
    model.fit(rows, TARGETS, batch_size=2, epochs=epochs, shuffle=False, verbose=0)
    return model


def weights_of(model: Any) -> Any:
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


def summary(model: Any) -> list[Any]:
    return [*state(model.optimizer), *(weight.ravel().tolist() for weight in model.get_weights())]


def config_of(optimizer: Any) -> Any:
    """Return the config as JSON has it."""
    return json.loads(json.dumps(optimizer.get_config(), default=float))


def saved_model(kind: str, folder: pathlib.Path) -> Any:
    """Return a fitted model, and save it, with what it holds, as this backend's."""
    rows = GOOD_ROWS.copy()
    rows[1] = INF if kind == "dynamic" else 1.0
    model = fit(build_model(of_kind(kind)), rows)
    path = folder / f"{keras.backend.backend()}-{kind}.keras"
    model.save(path)
    variables = [numbers(each) for each in model.optimizer.variables]
    held = {"config": config_of(model.optimizer), "variables": variables, "summary": summary(model)}
    path.with_suffix(".json").write_text(json.dumps({**held, "trained": summary(fit(model, GOOD_ROWS))}))
    return model


@check
def fit_under_mixed_float16(folder: pathlib.Path) -> None:
    for kind, states in (
        # The third batch is not finite.
        ("dynamic", [[64.0, 1, 1], [64.0, 2, 2], [32.0, 0, 2], [32.0, 1, 3]]),
        ("fixed", [[128.0, None, step] for step in (1, 2, 3, 4)]),
    ):
        rows = ROWS if kind == "dynamic" else GOOD_ROWS
        keras.mixed_precision.set_dtype_policy("mixed_float16")
        model = build_model(of_kind(kind))
        assert model.layers[1].compute_dtype == "float16"
        assert isinstance(model.optimizer, Ours)
        assert type(model.optimizer.inner_optimizer) is keras.optimizers.SGD
        for batch, expected_state in zip(BATCHES, states, strict=True):
            model.train_on_batch(rows[batch], TARGETS[batch])
            assert state(model.optimizer) == expected_state
        # One call of fit, compiled in each way and not at all, does what a call for each batch does.
        for settings in ({}, {"jit_compile": True}, {"jit_compile": False}, {"run_eagerly": True}):
            again = fit(build_model(of_kind(kind), **settings), rows)
            assert state(again.optimizer) == states[-1]
            np.testing.assert_allclose(weights_of(again), weights_of(model), rtol=1e-3)
        # By itself, `compile` wraps in the same class.
        assert isinstance(build_model(keras.optimizers.SGD(0.125)).optimizer, Ours)
        keras.mixed_precision.set_dtype_policy("float32")
        control = build_model(keras.optimizers.SGD(0.125, 0.5))
        for batch in BATCHES:
            if np.isfinite(rows[batch]).all():
                control.train_on_batch(rows[batch], TARGETS[batch])
        np.testing.assert_allclose(weights_of(model), weights_of(control), rtol=1e-2, atol=1e-3)


@check
def saved_models_go_on(folder: pathlib.Path) -> None:
    for kind, expected_state in (("dynamic", [64.0, 0, 3]), ("fixed", [128.0, None, 4])):
        model = saved_model(kind, folder)
        held = json.loads((folder / f"jax-{kind}.json").read_text())
        loaded = keras.models.load_model(folder / f"jax-{kind}.keras")
        assert isinstance(loaded.optimizer, Ours)
        assert summary(loaded) == held["summary"]
        assert held["summary"][:3] == expected_state
        assert summary(fit(loaded, GOOD_ROWS)) == held["trained"] == summary(model) != held["summary"]


@check
def models_of_tensorflow_go_on(folder: pathlib.Path) -> None:
    for kind in KINDS:
        held = json.loads((folder / f"tensorflow-{kind}.json").read_text())
        loaded = keras.models.load_model(folder / f"tensorflow-{kind}.keras")
        assert isinstance(loaded.optimizer, Ours)
        assert config_of(loaded.optimizer) == held["config"]
        assert [numbers(each) for each in loaded.optimizer.variables] == held["variables"]
        assert summary(loaded) == held["summary"]
        *found, kernel, bias = summary(fit(loaded, GOOD_ROWS))
        assert found == held["trained"][:3]
        np.testing.assert_allclose([kernel, bias], held["trained"][3:], rtol=1e-5)


@check
def averages_of_weights(folder: pathlib.Path) -> None:
    """They start from the weights, and not from 0, when the first steps are skipped."""
    fixed = {"dynamic": False, "skip_nonfinite": True}
    for counts, factors, settings in itertools.product(COUNTS, FACTORS.values(), ({}, fixed)):
        inner = keras.optimizers.SGD(RATE, use_ema=True, ema_momentum=MOMENTUM)
        loop = Loop(Ours(inner, initial_scale=8, skip_counts_step=counts, **settings), keras.Variable(1.0))
        loop.run(*factors)
        inner.finalize_variable_values(loop.variables)
        assert numbers(loop.variables[0]) == pytest.approx(expected("keras3", counts, factors)[1])


@check
def experimental_wrappers_as_of_a_release(folder: pathlib.Path) -> None:
    warnings.simplefilter("ignore")
    for release, count in ((None, 2), ("2.2", 2), ("2.3", 3)):
        releases.use(releases.behavior_of(release))
        optimizer = mpls.experimental.LossScaleOptimizer(keras.optimizers.SGD(0.5), "dynamic")
        fit_values(model_with(optimizer), 0.5, INF, 0.5)
        assert (int(optimizer.iterations), float(optimizer._loss_scale())) == (count, 2.0**14)
        assert callable(optimizer.loss_scale) is (release is not None)
        for scale, skips in (
            (mpls.experimental.FixedLossScale(4), False),
            (mpls.experimental.FixedLossScale(4, skip_nonfinite=True), True),
            (tf.compat.v1.mixed_precision.FixedLossScale(4), False),
        ):
            fixed = mpls.experimental.LossScaleOptimizer(keras.optimizers.SGD(0.5), scale)
            fit_values(model := model_with(fixed), 0.5, INF)
            assert float(fixed._loss_scale()) == 4.0
            assert bool(np.isfinite(model.get_weights()[0]).all()) is skips
        with pytest.raises(NotImplementedError, match="loss_scale must be 'dynamic', a number or a Fixed"):
            optimizer._loss_scale = mpls.experimental.DynamicLossScale(8)


WAYS: tuple[dict[str, Any], ...] = ({"run_eagerly": True}, {"jit_compile": True})


def model_with(optimizer: Any, **settings: Any) -> Any:
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    model.compile(optimizer, "mse", **settings)
    return model


def fit_values(model: Any, *values: float, **arguments: Any) -> None:
    rows = np.array(values, np.float32).reshape(-1, 1)
    model.fit(rows, np.zeros_like(rows), batch_size=1, shuffle=False, verbose=0, **arguments)


def scale_of(optimizer: Any) -> float:
    return optimizer.state_dict()["scale"]


@check
def bounds_and_factors(folder: pathlib.Path) -> None:
    for way in WAYS:
        optimizer = sgd(
            0.25, dynamic_growth_steps=1, min_scale=0.5, max_scale=64, growth_factor=4, backoff_factor=0.125
        )
        model = model_with(optimizer, **way)
        fit_values(model, 0.1, 0.1)
        assert scale_of(optimizer) == 64.0
        fit_values(model, INF, INF, INF)
        assert scale_of(optimizer) == 0.5
        optimizer.set_scale(2)
        assert scale_of(optimizer) == 2.0
        fit_values(model, 0.1)
        assert scale_of(optimizer) == 8.0
        with pytest.raises(ValueError, match="the bounds"):
            optimizer.set_scale(128)
        with pytest.raises(RuntimeError, match=r"before the first stateless_apply\(\) or fit\(\)"):
            optimizer.configure(growth_factor=2)
    # Before the first step there is nothing that holds the settings.
    optimizer = sgd(0.25, dynamic_growth_steps=1)
    optimizer.configure(growth_factor=8, max_scale=4)
    assert scale_of(optimizer) == 4.0
    optimizer.configure(max_scale=1024)
    fit_values(model_with(optimizer), 0.1)
    assert scale_of(optimizer) == 32.0


@check
def what_a_skipped_step_counts_for(folder: pathlib.Path) -> None:
    optimizer = sgd(0.25, dynamic_growth_steps=2**40, skip_counts_step=True)
    fit_values(model_with(optimizer), 0.1, INF, 0.1)
    assert (int(optimizer.iterations), scale_of(optimizer)) == (3, 4.0)
    # Skipped steps are none of those whose gradients are added up.
    for release in (None, "2.4"):
        releases.use(releases.behavior_of(release))
        optimizer = Ours(keras.optimizers.SGD(0.25, gradient_accumulation_steps=2), initial_scale=8)
        releases.use(releases.ReleaseBehavior())
        model, bare = model_with(optimizer), model_with(keras.optimizers.SGD(0.25, gradient_accumulation_steps=2))
        bare.set_weights(model.get_weights())
        fit_values(model, 0.5, INF, 0.25, INF, 0.125, INF, 0.5)
        fit_values(bare, 0.5, 0.25, 0.125, 0.5)
        assert int(optimizer.iterations) == int(bare.optimizer.iterations) == 2
        np.testing.assert_array_equal(model.get_weights()[0], bare.get_weights()[0])
    with pytest.raises(ValueError, match="skip_counts_step must be False or left out"):
        Ours(keras.optimizers.SGD(0.25, gradient_accumulation_steps=2), skip_counts_step=True)


@check
def counters_are_variables(folder: pathlib.Path) -> None:
    optimizer = sgd(0.25, initial_scale="auto", hysteresis=2, count_steps=True)
    model = model_with(optimizer)
    assert not optimizer.last_step_applied
    for values, was_applied in (((0.1,), True), ((INF, INF, INF), False)):
        fit_values(model, *values)
        assert bool(optimizer.last_step_applied) is was_applied
    counters = [getattr(optimizer, name) for name in STEP_COUNTS]
    for name, counter in zip(
        (*STEP_COUNTS, "bad_steps"), (*counters, optimizer._loss_scale.of_backend["bad_steps"]), strict=True
    ):
        assert (counter.dtype, tuple(counter.shape), counter.trainable, counter.name) == ("int32", (), False, name)
        assert any(each is counter for each in optimizer.variables)
    found = optimizer.state_dict()
    assert [found[name] for name in ("scale", "bad_steps", "search_steps")] == [256.0, 1, 32]
    assert [int(counter) for counter in counters] == [1, 3, 3]
    # Without options, the variables are those of before.
    plain = Ours(keras.optimizers.SGD(0.25))
    assert len(plain.variables) == 4 + len(plain.inner_optimizer.variables)


@check
def options_that_need_tensorflow(folder: pathlib.Path) -> None:
    for name, value in {
        "adjustable": True,
        "track_overflows": True,
        "max_consecutive_skips": 2,
        "check_unscaled": True,
        "share_scale_with": sgd(),
    }.items():
        inner, other = keras.optimizers.SGD(0.5), {} if name == "share_scale_with" else {"initial_scale": 8}
        with pytest.raises(NotImplementedError, match=f"{name} must be left out"):
            Ours(inner, **other, **{name: value})
        # What was refused can be wrapped.
        Ours(inner)


@check
def wrappers_that_scale_no_loss(folder: pathlib.Path) -> None:
    for policy, enabled in (("mixed_bfloat16", False), ("mixed_float16", True), ("float32", False)):
        keras.config.set_dtype_policy(policy)
        assert sgd(enabled="auto").enabled is enabled
    for way in WAYS:
        optimizer = sgd(0.25, dynamic_growth_steps=1, enabled=False)
        model, bare = model_with(optimizer, **way), model_with(keras.optimizers.SGD(0.25), **way)
        fit_values(model, 0.1, 0.1)
        assert (float(optimizer.loss_scale), scale_of(optimizer), int(optimizer.iterations)) == (1.0, 8.0, 2)
        for each in (model, bare):
            each.set_weights([np.array([[0.5]], np.float32), np.array([1.0], np.float32)])
            fit_values(each, 0.5)
        np.testing.assert_array_equal(model.get_weights()[0], bare.get_weights()[0])
        fit_values(model, INF)
        assert (int(optimizer.iterations), scale_of(optimizer)) == (4, 8.0)
        assert not np.isfinite(model.get_weights()[0]).all()
        loss = keras.ops.ones(())
        assert optimizer.scale_loss(loss) is loss


VALUES = (0.1, 0.1, INF, 0.1, INF, 0.1, 0.1, 0.1, INF, INF, INF, 0.1, INF)
COUNTED: tuple[dict[str, Any], ...] = (
    {"hysteresis": 2},
    {"hysteresis": 2, "consecutive_hysteresis": True},
    {"initial_scale": "auto"},
    {"initial_scale": "auto", "hysteresis": 2, "min_scale": 0.5, "skip_counts_step": True},
    {},
)


def take(trained: Any, model: Model, *values: float) -> None:
    """Train with these values, and require what is promised afterwards."""
    fit_values(trained, *values)
    for value in values:
        model.step(value != INF)
    optimizer = trained.optimizer
    found = optimizer.state_dict()
    counts = [model.applied, model.skipped, model.in_a_row]
    assert (found["scale"], [found[name] for name in STEP_COUNTS]) == (model.scale, counts)
    assert found.get("bad_steps", model.bad) == model.bad
    assert [int(getattr(optimizer, name)) for name in STEP_COUNTS] == counts
    assert bool(optimizer.last_step_applied) == (model.applied > 0 and model.in_a_row == 0)
    assert int(optimizer.iterations) == model.counter


@check
def state_of_options_as_promised_and_in_files(folder: pathlib.Path) -> None:
    for chosen, way in itertools.product(COUNTED, WAYS):
        optimizer = sgd(1e-3, dynamic_growth_steps=40, count_steps=True, **chosen)
        searches = "initial_scale" in chosen
        rest = {name: value for name, value in chosen.items() if name != "initial_scale"}
        model = Model(256.0 if searches else 8.0, 40, search=1 if searches else None, **rest)
        trained = model_with(optimizer, **way)
        for value in VALUES:
            take(trained, model, value)
        take(trained, model, *VALUES)
        optimizer.set_scale(4)
        model.set_scale(4.0)
        take(trained, model, INF, INF, 0.1, INF)
        # What is saved goes on where it was.
        saved = optimizer.state_dict()
        again = Ours.from_config(optimizer.get_config())
        again.load_state_dict(saved)
        with pytest.raises(ValueError, match="skipped_steps"):
            again.load_state_dict({**saved, "skipped_steps": -1})
        assert again.state_dict() == saved == pickle.loads(pickle.dumps(optimizer)).state_dict()
        for suffix, save in itertools.product((".keras", ".h5"), (mpls.keras.save_model, keras.Model.save)):
            path = str(folder / f"options{suffix}")
            save(trained, path)
            # Keras itself loads no compiled H5 file.
            for load in (mpls.keras.load_model, keras.models.load_model)[: 1 + (suffix == ".keras")]:
                loaded = load(path)
                assert loaded.optimizer.state_dict() == saved, suffix
                assert int(loaded.optimizer.iterations) == int(optimizer.iterations)
                assert len(loaded.optimizer.variables) == len(optimizer.variables)
            (found,) = mpls.inspect.describe(path)["optimizers"]
            assert found["counts"] == {name: saved[name] for name in STEP_COUNTS}
        take(loaded, Model(**vars(model)), *VALUES)


@check
def counts_at_fixed_and_disabled_scales(folder: pathlib.Path) -> None:
    for options, applied in (({"skip_nonfinite": True}, 1), ({}, 2), ({"skip_nonfinite": True, "enabled": False}, 2)):
        optimizer = sgd(1e-3, dynamic=False, count_steps=True, **options)
        trained = model_with(optimizer)
        fit_values(trained, 0.1, INF)
        assert [int(getattr(optimizer, name)) for name in STEP_COUNTS] == [applied, 2 - applied, 2 - applied]
        with tempfile.TemporaryDirectory() as own:
            trained.save(f"{own}/model.keras")
            for load in (mpls.keras.load_model, keras.models.load_model):
                assert load(f"{own}/model.keras").optimizer.state_dict() == optimizer.state_dict()


@check
def callbacks_and_summaries_read_what_keras_keeps_elsewhere(folder: pathlib.Path) -> None:
    native = keras.optimizers.LossScaleOptimizer
    for wrapper, way in itertools.product((Ours, native), ({}, *WAYS, {"jit_compile": False})):
        options = {"count_steps": True} if wrapper is Ours and way else {}
        optimizer = wrapper(keras.optimizers.SGD(1e-3), initial_scale=16, dynamic_growth_steps=3, **options)
        model, callback = model_with(optimizer, **way), mpls.monitor.LossScaleCallback(messages=False)
        fit_values(model, 0.1, 0.1, 0.1, INF, INF, callbacks=[callback])
        assert [each["loss_scale"] for each in callback.history] == [16.0, 16.0, 16.0, 32.0, 16.0, 8.0]
        assert [each["step"] for each in callback.history] == list(range(6))
        # So do callbacks after it, of which this is one.
        assert model.history.history["loss_scale"] == [8.0]
        if options:
            found = [tuple(each[name] for name in STEP_COUNTS) for each in callback.history]
            assert found[3:] == [(3, 0, 0), (3, 1, 1), (3, 2, 2)]
        events = folder / f"events-{wrapper.__module__}-{len(list(folder.iterdir()))}"
        with tf.summary.create_file_writer(str(events)).as_default():
            mpls.monitor.write_scalars(optimizer, step=5)
        written = scalars(events)
        assert written["loss_scale"] == [(5, 8.0)]
        counted = dict(zip(STEP_COUNTS, (3, 2, 2), strict=True)) if options else {}
        assert {name: written[f"loss_scale/{name}"] for name in counted} == {n: [(5, c)] for n, c in counted.items()}


def failure_of(name: str, folder: pathlib.Path) -> str | None:
    """Return how a check fails; None if it does not."""
    keras.mixed_precision.set_dtype_policy("float32")
    releases.use(releases.ReleaseBehavior())
    with warnings.catch_warnings():
        warnings.simplefilter("error", MplsWarning)
        try:
            CHECKS[name](folder)
        except Exception:
            return traceback.format_exc()
    return None


if __name__ == "__main__":
    assert keras.backend.backend() == "jax"
    print(json.dumps({name: failure_of(name, pathlib.Path(sys.argv[1])) for name in CHECKS}))
