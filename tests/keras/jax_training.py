"""Training programs for the backends of Keras: `python jax_training.py FOLDER [JOB ...]` prints what each job found.

The backend is that of `KERAS_BACKEND`; jobs that both backends have do the same work with the means of each. Those that
save files into the folder are for those of another process to load.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import keras
import numpy as np

import mpls.keras
from mpls.errors import MplsWarning

IS_JAX = keras.backend.backend() == "jax"
if IS_JAX:
    import jax
else:
    import tensorflow as tf

Ours: Any = mpls.keras.LossScaleOptimizer
INF, NAN = math.inf, math.nan

JOBS: dict[str, Callable[[pathlib.Path], Any]] = {}


def job(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have the program run a function by its name."""
    JOBS[function.__name__] = function
    return function


def plain(value: Any) -> Any:
    """Return a value as what JSON holds, with non-finite numbers as strings."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if "float" in keras.backend.standardize_dtype(value.dtype):
        # NumPy has no bfloat16.
        value = keras.ops.cast(value, "float32")
    return plain(keras.ops.convert_to_numpy(value).tolist())


def error_of(function: Callable[[], Any]) -> Any:
    """Return the names of the classes of what a call raises, and its text."""
    try:
        result = function()
    except Exception as error:
        return {"error": [cls.__name__ for cls in type(error).__mro__], "text": str(error)}
    return {"result": plain(result)}


def state(optimizer: Any, *variables: Any) -> list[Any]:
    """Return scale, counter and iterations as they are now, and the values of variables."""
    counter = optimizer.dynamic_counter
    held = [optimizer.loss_scale, optimizer.iterations, *(variable.value for variable in variables)]
    scale, iterations, *values = plain([keras.ops.convert_to_tensor(value) for value in held])
    return [scale, None if counter is None else plain(keras.ops.convert_to_tensor(counter)), iterations, *values]


class Loop:
    """A custom loop over variables, with a loss of their sum times a factor, or of a user's own.

    On JAX a step is `stateless_apply`, compiled; on TensorFlow `apply` in a `tf.function`.
    """

    def __init__(self, optimizer: Any, variables: list[Any], loss: Callable[..., Any] | None = None) -> None:
        self.optimizer, self.variables = optimizer, variables
        self.loss = loss or (lambda values, factor: sum(keras.ops.sum(value * factor) for value in values))
        optimizer.build(variables)
        self.traces = 0
        self._compiled = jax.jit(self._stateless_step) if IS_JAX else tf.function(self._step)

    def _stateless_step(self, values: list[Any], held: list[Any], factor: Any) -> Any:
        self.traces += 1

        def scaled_loss(values: list[Any]) -> Any:
            # What the optimizer reads of its variables is what the step was given.
            with keras.StatelessScope(state_mapping=list(zip(self.optimizer.variables, held, strict=True))):
                return self.optimizer.scale_loss(self.loss(values, factor))

        grads = jax.grad(scaled_loss)(values)
        return self.optimizer.stateless_apply(held, grads, values)

    def _step(self, factor: Any) -> None:
        values = [variable.value for variable in self.variables]
        with tf.GradientTape() as tape:
            loss = self.optimizer.scale_loss(self.loss(values, factor))
        self.optimizer.apply(tape.gradient(loss, values), self.variables)

    def step(self, factor: float) -> None:
        if not IS_JAX:
            self._compiled(tf.constant(factor))
            return
        held = [variable.value for variable in self.optimizer.variables]
        values, held = self._compiled([variable.value for variable in self.variables], held, np.float32(factor))
        for variable, value in zip([*self.variables, *self.optimizer.variables], [*values, *held], strict=True):
            variable.assign(value)

    def run(self, factors: list[float]) -> list[Any]:
        """Return scale, counter, iterations and variables after each step."""
        found = []
        for factor in factors:
            self.step(factor)
            found.append(state(self.optimizer, *self.variables))
        return found


# ----------------------------------------------------------------------------------------------------------- the rule


@job
def dynamic_steps(folder: pathlib.Path) -> Any:
    optimizer = Ours(keras.optimizers.SGD(0.25), initial_scale=8, dynamic_growth_steps=2)
    return Loop(optimizer, [keras.Variable([1.0, 2.0])]).run([1.0, INF, 1.0, 1.0, NAN, 1.0])


@job
def chained_steps(folder: pathlib.Path) -> Any:
    """Hand what a step returns to the next one, in a loop and in a `scan`; return what is left, and count traces."""
    factors = np.array([1.0, INF, 1.0, 1.0, NAN, 1.0], np.float32)
    found = {}
    for chain in (chain_calls, scan):
        optimizer = Ours(keras.optimizers.SGD(0.25, momentum=0.5), initial_scale=8, dynamic_growth_steps=2)
        loop = Loop(optimizer, [keras.Variable([1.0, 2.0])])
        held = [*loop.variables, *optimizer.variables]
        if not IS_JAX:
            loop.run(factors.tolist())
        else:
            before = [variable.value for variable in held]
            values, after = chain(loop, before[:1], before[1:], factors)
            assert [value.dtype for value in (*values, *after)] == [value.dtype for value in before]
            for variable, value in zip(held, [*values, *after], strict=True):
                variable.assign(value)
        found[chain.__name__] = [state(optimizer, *loop.variables), loop.traces]
    return found


def chain_calls(loop: Loop, values: Any, held: Any, factors: Any) -> Any:
    for factor in factors:
        values, held = loop._compiled(values, held, factor)
    return values, held


def scan(loop: Loop, values: Any, held: Any, factors: Any) -> Any:
    def step(carry: Any, factor: Any) -> Any:
        return tuple(map(list, loop._stateless_step(*carry, factor))), None

    return jax.lax.scan(step, (values, held), factors)[0]


@job
def floor_and_ceiling(folder: pathlib.Path) -> Any:
    """Return the scales on the way down from 8, and on the way up from 2**126, a good step after each at the end."""
    down = Loop(Ours(keras.optimizers.SGD(0.5), initial_scale=8), [keras.Variable(1.0)]).run([INF] * 6 + [1.0])
    optimizer = Ours(keras.optimizers.SGD(2.0**20), initial_scale=2.0**126, dynamic_growth_steps=1)
    up = Loop(optimizer, [keras.Variable(1.0)]).run([2.0**-20] * 3 + [INF, 2.0**-20])
    return {"down": down, "up": up}


@job
def options(folder: pathlib.Path) -> Any:
    """Return the steps with a ceiling, a growth factor and hysteresis, and the counted steps at the end."""
    optimizer = Ours(
        keras.optimizers.SGD(0.25),
        initial_scale=8,
        dynamic_growth_steps=1,
        growth_factor=4,
        max_scale=16,
        hysteresis=2,
        count_steps=True,
    )
    steps = Loop(optimizer, [keras.Variable(1.0)]).run([1.0, INF, INF, 1.0])
    counts = [int(count) for count in (optimizer.applied_steps, optimizer.skipped_steps, optimizer.consecutive_skips)]
    return {"steps": steps, "counts": counts}


@job
def counter_above_the_period(folder: pathlib.Path) -> Any:
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=8, dynamic_growth_steps=4)
    loop = Loop(optimizer, [keras.Variable(1.0)])
    optimizer.step_counter.assign(9)
    return loop.run([0.0, 0.0])


@job
def unscaling_overflows(folder: pathlib.Path) -> Any:
    """Take a step whose scaled gradient is finite, 1e38, while the gradient itself, 4e38, is not."""
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=0.25)
    variable = keras.Variable(1.0)
    optimizer.build([variable])
    optimizer.scale_loss(1.0)
    optimizer.apply([keras.ops.convert_to_tensor(np.float32(1e38))], [variable])
    return state(optimizer, variable)


@job
def fixed_steps(folder: pathlib.Path) -> Any:
    optimizer = Ours(keras.optimizers.SGD(0.25), dynamic=False, initial_scale=3.0)
    return Loop(optimizer, [keras.Variable([1.0, 2.0])]).run([1.0, 2.0, INF, 1.0])


@job
def adam_steps(folder: pathlib.Path) -> Any:
    """Train a small model with losses of several shapes and dtypes of variables, with overflows in between."""
    rng = np.random.default_rng(7)
    kernel, bias = (keras.Variable(rng.normal(size=shape).astype("float32")) for shape in ((3, 2), (2,)))
    rows, targets = (rng.normal(size=shape).astype("float32") for shape in ((5, 3), (5, 2)))

    def loss(values: list[Any], factor: Any) -> Any:
        kernel, bias = values
        error = keras.ops.matmul(rows, kernel) + bias - targets
        return keras.ops.mean(error * error) * factor

    optimizer = Ours(keras.optimizers.AdamW(0.125, clipnorm=0.5), initial_scale=64, dynamic_growth_steps=3)
    return Loop(optimizer, [kernel, bias], loss).run([1.0, 1.0, INF, 1.0, 1.0, 1.0, NAN, -INF, 1.0, 2.0])


# ----------------------------------------------------------------------------------------- the inner optimizer's own


@job
def accumulation(folder: pathlib.Path) -> Any:
    optimizer = Ours(keras.optimizers.SGD(0.5, gradient_accumulation_steps=2), initial_scale=8)
    return Loop(optimizer, [keras.Variable(1.0)]).run([1.0, INF, 3.0, 2.0, 2.0])


@job
def averages(folder: pathlib.Path) -> Any:
    inner = keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5)
    loop = Loop(Ours(inner, initial_scale=8), [keras.Variable(1.0)])
    found = []
    for factor in (1.0, INF, 1.0, 1.0):
        loop.step(factor)
        found.append(plain([loop.variables[0].value, inner._model_variables_moving_average[0].value]))
    loop.optimizer.finalize_variable_values(loop.variables)
    return {"steps": found, "finalized": loop.variables[0].value}


@job
def overwriting(folder: pathlib.Path) -> Any:
    """Apply a gradient that is a new value, as float8 layers have them."""
    variable, other = keras.Variable(1.0), keras.Variable(1.0)
    variable.overwrite_with_gradient = True
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=8)
    optimizer.build([variable, other])
    optimizer.scale_loss(1.0)
    optimizer.apply([keras.ops.convert_to_tensor(np.float32(value)) for value in (5.0, 8.0)], [variable, other])
    return [variable.value, other.value]


# ------------------------------------------------------------------------------------------------------------ gradients


@job
def half_precision(folder: pathlib.Path) -> Any:
    """Train variables of half precision under a scale whose reciprocal float16 cannot hold."""
    found = {}
    for dtype in ("float16", "bfloat16"):
        for name, settings in (
            ("dynamic", {"initial_scale": 2.0**10}),
            ("large", {"dynamic": False, "initial_scale": 2.0**25}),
        ):
            variable = keras.Variable(1.0, dtype=dtype)
            optimizer = Ours(keras.optimizers.SGD(0.5), **settings)
            optimizer.build([variable])
            optimizer.scale_loss(1.0)
            # What the gradient of a loss is that is computed in half precision.
            optimizer.apply([keras.ops.convert_to_tensor(2.0**11, dtype=dtype)], [variable])
            unscaled = optimizer.get_unscaled_gradients([keras.ops.convert_to_tensor(2.0**11, dtype=dtype)])
            kept = [keras.backend.standardize_dtype(value.dtype) for value in (unscaled[0], variable.value)]
            found[f"{dtype} {name}"] = plain([variable.value, unscaled[0], kept])
    return found


@job
def missing_gradients(folder: pathlib.Path) -> Any:
    variables = [keras.Variable(1.0), keras.Variable(2.0)]
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=8)
    optimizer.build(variables)
    optimizer.scale_loss(1.0)
    grad = keras.ops.convert_to_tensor(np.float32(8.0))
    optimizer.apply([grad, None], variables)
    found = state(optimizer, *variables)
    # A part of the variables, in another order than they were built in.
    optimizer.scale_loss(1.0)
    optimizer.apply([grad], variables[1:])
    part = state(optimizer, *variables)
    none = error_of(lambda: optimizer.apply([None, None], variables))
    optimizer.apply([], [])
    return {"some": found, "part": part, "none": none, "after": state(optimizer, *variables)}


@job
def eager_methods(folder: pathlib.Path) -> Any:
    """Take steps with `apply` and `apply_gradients`, built by the first, of finite and other gradients."""
    found = []
    for method in ("apply", "apply_gradients"):
        variable = keras.Variable(1.0)
        optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=8, dynamic_growth_steps=2)
        for value in (8.0, INF, 4.0):
            optimizer.scale_loss(1.0)
            grad = keras.ops.convert_to_tensor(np.float32(value))
            if method == "apply":
                optimizer.apply([grad], [variable])
            else:
                optimizer.apply_gradients([(grad, variable)])
        found.append(state(optimizer, variable))
    return found


# --------------------------------------------------------------------------------------------------------------- errors


@job
def wrong_numbers(folder: pathlib.Path) -> Any:
    variables = [keras.Variable(1.0), keras.Variable(2.0)]
    values = [variable.value for variable in variables]
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=8)
    optimizer.scale_loss(1.0)
    unbuilt = error_of(lambda: optimizer.stateless_apply([], values, values))
    optimizer.build(variables)
    held = [variable.value for variable in optimizer.variables]
    found = {
        "unbuilt": unbuilt,
        "optimizer_variables": error_of(lambda: optimizer.stateless_apply(held[:-1], values, values)),
        "grads": error_of(lambda: optimizer.stateless_apply(held, values[:1], values)),
        "trainable_variables": error_of(lambda: optimizer.stateless_apply(held, values, [*values, values[0]])),
        "apply": error_of(lambda: optimizer.apply(values[:1], variables)),
        "unknown": error_of(lambda: optimizer.apply(values[:1], [keras.Variable(1.0)])),
        "set_weights": error_of(lambda: optimizer.set_weights(held[:-1])),
    }
    return {**found, "after": state(optimizer, *variables)}


@job
def mixed_styles(folder: pathlib.Path) -> Any:
    """Return the error of each mix of the two styles, and what is left afterwards."""
    variable = keras.Variable(1.0)
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=8)
    optimizer.build([variable])
    grad = keras.ops.convert_to_tensor(np.float32(8.0))
    held = [value.value for value in optimizer.variables]

    def unscaled_twice() -> None:
        optimizer.scale_loss(1.0)
        grads = optimizer.get_unscaled_gradients([grad])
        optimizer.apply(grads, [variable])

    def unscaled_twice_statelessly() -> None:
        optimizer.scale_loss(1.0)
        grads = optimizer.get_unscaled_gradients([grad])
        optimizer.stateless_apply(held, grads, [variable.value])

    def scaled_only() -> None:
        optimizer.get_scaled_loss(grad)
        optimizer.apply_gradients([(grad, variable)])

    found = {
        "apply": error_of(unscaled_twice),
        "stateless_apply": error_of(unscaled_twice_statelessly),
        "scaled_only": error_of(scaled_only),
        "after": state(optimizer, variable),
    }
    # The style of Keras 2 by itself.
    optimizer.get_scaled_loss(grad)
    optimizer.apply_gradients([(optimizer.get_unscaled_gradients([grad])[0], variable)])
    return {**found, "keras_2": state(optimizer, variable)}


@job
def scaled_losses(folder: pathlib.Path) -> Any:
    """Scale losses of several dtypes in both ways; return dtypes and values, and whether they are the backend's own."""
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=2.0**14)
    found = {}
    for dtype in ("float16", "bfloat16", "float32"):
        loss = keras.ops.convert_to_tensor(1.5, dtype=dtype)
        scaled = {
            "scale_loss": optimizer.scale_loss(loss),
            "get_scaled_loss": optimizer.get_scaled_loss(loss),
            "get_scaled_loss of a callable": optimizer.get_scaled_loss(lambda loss=loss: loss)(),
        }
        for name, value in scaled.items():
            kind = keras.backend.standardize_dtype(value.dtype)
            found[f"{name} {dtype}"] = [kind, plain(value), keras.ops.is_tensor(value)]
    return found


@job
def losses_of_older_code(folder: pathlib.Path) -> Any:
    """Take the gradient of what `get_scaled_loss` returns, compiled, and unscale it; and a fixed scale too large."""
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=8)
    if IS_JAX:
        grad = jax.jit(jax.grad(lambda value: optimizer.get_scaled_loss(value * 3.0)))(1.0)
    else:
        value = tf.Variable(1.0)
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(value * 3.0)
        grad = tape.gradient(loss, value)
    large = Ours(keras.optimizers.SGD(0.5), dynamic=False, initial_scale=2.0**17)
    half = keras.ops.convert_to_tensor(1.0, dtype="float16")
    too_large = error_of(lambda: large.get_scaled_loss(half))
    return {"scaled": plain(grad), "grads": plain(optimizer.get_unscaled_gradients([grad])), "too_large": too_large}


@job
def a_scale_that_was_read(folder: pathlib.Path) -> Any:
    """Read the scale, take a step that changes it, and look at what was read."""
    optimizer, variable = Ours(keras.optimizers.SGD(0.5), initial_scale=8), keras.Variable(1.0)
    before = optimizer.loss_scale
    optimizer.scale_loss(1.0)
    optimizer.apply([keras.ops.convert_to_tensor(np.float32(INF))], [variable])
    return plain([before, optimizer.loss_scale])


@job
def other_backends_methods(folder: pathlib.Path) -> Any:
    variable = keras.Variable(1.0)
    optimizer = Ours(keras.optimizers.SGD(0.5), initial_scale=8)
    optimizer.build([variable])
    value = keras.ops.convert_to_tensor(np.float32(1.0))
    held = [value.value for value in optimizer.variables]
    calls = {
        "minimize": lambda: optimizer.minimize(lambda: value, [variable]),
        "compute_gradients": lambda: optimizer.compute_gradients(lambda: value, [variable]),
        "stateless_apply": lambda: optimizer.stateless_apply(held, [value], [value]),
    }
    expected_to_fail = ["minimize", "compute_gradients"] if IS_JAX else ["stateless_apply"]
    found = {name: error_of(calls[name]) for name in expected_to_fail}
    return {**found, "after": state(optimizer, variable)}


@job
def construction(folder: pathlib.Path) -> Any:
    """Wrap an optimizer of Keras, in each way; return the settings or the errors, and what the optimizer has then."""
    found = {}
    for name, settings in (("dynamic", {}), ("fixed", {"dynamic": False, "initial_scale": 8})):
        inner = keras.optimizers.SGD(0.5)
        found[name] = error_of(lambda inner=inner, settings=settings: Ours(inner, **settings).initial_scale)
        found[f"{name} marks"] = hasattr(inner, "_is_wrapped_by_loss_scale_optimizer")
    return found


@job
def beside_tf_keras(folder: pathlib.Path) -> Any:
    """Train with an optimizer of tf_keras, which knows of no backend."""
    import tensorflow as tf
    import tf_keras

    optimizer = Ours(tf_keras.optimizers.SGD(0.5), initial_scale=8, dynamic_growth_steps=2)
    variable = tf.Variable(1.0)
    for factor in (1.0, INF, 1.0):
        optimizer.minimize(lambda factor=factor: variable * factor, [variable])
    return [float(optimizer.loss_scale), int(optimizer.dynamic_counter), int(optimizer.iterations), float(variable)]


# ------------------------------------------------------------------------------------------------------- fit and files

ROWS = np.array([[1.0], [-0.5], [0.25], [2.0], [-1.0], [INF], [1.5], [-2.0]], np.float32)
TARGETS = np.array([[1.0], [0.0], [0.5], [1.0], [-1.0], [0.25], [0.0], [0.75]], np.float32)


WAYS_TO_RUN: list[dict[str, Any]] = [{}, {"jit_compile": True}, {"jit_compile": False}, {"run_eagerly": True}]


def fitted(optimizer: Any, rows: Any, epochs: int = 1, **settings: Any) -> Any:
    model = build_model(optimizer, **settings)
    model.fit(rows, TARGETS, batch_size=2, epochs=epochs, shuffle=False, verbose=0)
    return summary(model)


def build_model(optimizer: Any, **settings: Any) -> Any:
    inputs = keras.layers.Input((1,))
    outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.5))(inputs)
    model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(outputs))
    model.compile(optimizer, "mse", **settings)
    return model


def summary(model: Any) -> Any:
    return [*state(model.optimizer), *plain([weight.ravel() for weight in model.get_weights()])]


def of_kind(kind: str) -> Any:
    inner = keras.optimizers.SGD(0.125, momentum=0.5)
    if kind == "fixed":
        return Ours(inner, dynamic=False, initial_scale=128.0)
    return Ours(inner, initial_scale=64.0, dynamic_growth_steps=3)


@job
def fits(folder: pathlib.Path) -> Any:
    """Fit under mixed_float16: with a third batch that is not finite, and for the fixed scale without it."""
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    found: dict[str, Any] = {}
    for kind in ("dynamic", "fixed"):
        rows = ROWS if kind == "dynamic" else np.clip(ROWS, -2, 2)
        batches = [slice(start, start + 2) for start in range(0, 8, 2)]
        model = build_model(of_kind(kind))
        steps = []
        for batch in batches:
            model.train_on_batch(rows[batch], TARGETS[batch])
            steps.append(summary(model))
        found[kind] = {
            "steps": steps,
            "fit": [fitted(of_kind(kind), rows, **settings) for settings in WAYS_TO_RUN],
            "compute_dtype": model.layers[1].compute_dtype,
            "is_ours": Ours in type(model.optimizer).__mro__,
            "inner_is_bare": isinstance(model.optimizer.inner_optimizer, keras.optimizers.SGD),
        }
    automatic = build_model(keras.optimizers.SGD(0.125))
    found["automatic_is_ours"] = isinstance(automatic.optimizer, Ours)
    # Compiled, float16 may be computed in float32, in which nothing overflows.
    large = Ours(keras.optimizers.SGD(0.125), initial_scale=2.0**22)
    found["large_scale"] = fitted(large, np.clip(ROWS, -2, 2), epochs=3, run_eagerly=True)
    return {**found, "fixed_bad_batch": fitted(of_kind("fixed"), ROWS)}


@job
def fit_with_the_inner_optimizers_own(folder: pathlib.Path) -> Any:
    """Fit with gradient accumulation and with averages that overwrite the weights at the end."""
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    found = {}
    for name, settings in (
        ("accumulation", {"gradient_accumulation_steps": 2}),
        ("averages", {"use_ema": True, "ema_momentum": 0.5}),
    ):
        optimizer = Ours(keras.optimizers.SGD(0.125, **settings), initial_scale=64.0, dynamic_growth_steps=3)
        found[name] = fitted(optimizer, ROWS, epochs=2)
    return found


@job
def saved(folder: pathlib.Path) -> Any:
    """Save fitted models, load them, and train both on."""
    keras.mixed_precision.set_dtype_policy("float32")
    found = {}
    for kind in ("dynamic", "fixed"):
        model = build_model(of_kind(kind))
        rows = np.clip(ROWS, -2, 2)
        rows[1] = INF if kind == "dynamic" else 1.0
        model.fit(rows, TARGETS, batch_size=2, shuffle=False, verbose=0)
        path = folder / f"{keras.backend.backend()}-{kind}.keras"
        model.save(path)
        found[kind] = loaded_and_trained(model, path)
    return found


def loaded_and_trained(model: Any, path: pathlib.Path) -> Any:
    loaded = keras.models.load_model(path)
    found = {
        "is_ours": Ours in type(loaded.optimizer).__mro__,
        "config": plain(loaded.optimizer.get_config()),
        "variables": plain([variable.value for variable in loaded.optimizer.variables]),
        "loaded": summary(loaded),
    }
    its = [loaded] if model is None else [model, loaded]
    found["saved"] = None if model is None else summary(model)
    for it in its:
        it.fit(np.clip(ROWS, -2, 2), TARGETS, batch_size=2, shuffle=False, verbose=0)
    return {**found, "trained": [summary(it) for it in its]}


@job
def loaded_from_tensorflow(folder: pathlib.Path) -> Any:
    return {kind: loaded_and_trained(None, folder / f"tensorflow-{kind}.keras") for kind in ("dynamic", "fixed")}


def run(name: str, folder: pathlib.Path) -> Any:
    keras.mixed_precision.set_dtype_policy("float32")
    try:
        return {"found": plain(JOBS[name](folder))}
    except Exception:
        return {"failed": traceback.format_exc()}


if __name__ == "__main__":
    warnings.simplefilter("error", MplsWarning)
    results = {name: run(name, pathlib.Path(sys.argv[1])) for name in sys.argv[2:] or JOBS}
    print(json.dumps({"backend": keras.backend.backend(), "jobs": results}))
