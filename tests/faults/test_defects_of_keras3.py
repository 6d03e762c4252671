"""What Keras 3's own wrapper gets wrong: each test sees it fail first, and then mpls do it right.

Custom loops are run in the style of Keras 3, which both wrappers have, and with mpls in that of Keras 2 as well.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.keras
from mpls.errors import MplsError

Native: Any = keras.optimizers.LossScaleOptimizer
Ours: Any = mpls.keras.LossScaleOptimizer
INF, NAN = float("inf"), float("nan")

BOTH_STYLES = [("keras3_style", False), ("keras2_style", True)]


def make(wrapper: Any, learning_rate: float = 0.5, **settings: Any) -> tuple[Any, Any]:
    """Return a variable of 1 and a wrapper over gradient descent, built as Keras' own has to be."""
    variable = keras.Variable(1.0, name="weight")
    optimizer = wrapper(keras.optimizers.SGD(learning_rate), **settings)
    optimizer.build([variable])
    return variable, optimizer


def take_step(optimizer: Any, variable: Any, factor: Any, is_keras_2_style: bool = False) -> None:
    """Take a step with a loss of `variable * factor`."""
    with tf.GradientTape() as tape:
        loss = variable.value * factor
        loss = optimizer.get_scaled_loss(loss) if is_keras_2_style else optimizer.scale_loss(loss)
    grads = tape.gradient(loss, [variable.value])
    if is_keras_2_style:
        optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(grads), [variable], strict=True))
    else:
        optimizer.apply(grads, [variable])


def compiled_step(optimizer: Any, variable: Any, is_keras_2_style: bool = False) -> Callable[[float], None]:
    """Return a step as a `tf.function`, of a factor."""

    @tf.function
    def step(factor: Any) -> None:
        take_step(optimizer, variable, factor, is_keras_2_style)

    return lambda factor: step(tf.constant(factor))


def state(optimizer: Any) -> tuple[float, int]:
    """Return the scale and the counter."""
    return float(optimizer.dynamic_scale.numpy()), int(optimizer.step_counter.numpy())


class ScaleOfZero(unittest.TestCase):
    """Without a floor, overflows halved the scale down to 0; the next finite gradients were 0 divided by 0."""

    def after_overflows(self, wrapper: Any, is_keras_2_style: bool = False) -> tuple[float, float]:
        """Return the weight and the scale after 164 overflows in a row and a finite step."""
        variable, optimizer = make(wrapper)
        step = compiled_step(optimizer, variable, is_keras_2_style)
        for _ in range(164):
            step(INF)
        self.assertEqual(float(variable), 1.0)
        step(1.0)
        return float(variable), state(optimizer)[0]

    def test_many_overflows_in_a_row_leave_weights_finite(self) -> None:
        weight, scale = self.after_overflows(Native)
        self.assertTrue(math.isnan(weight))
        self.assertEqual(scale, 0.0)
        for _, is_keras_2_style in BOTH_STYLES:
            self.assertEqual(self.after_overflows(Ours, is_keras_2_style), (0.5, 1.0))


class ScaleOfInfinity(unittest.TestCase):
    """Without a ceiling, the scale doubled to infinity, half of which is infinity: no step was ever applied again."""

    def grow(self, wrapper: Any, is_keras_2_style: bool = False) -> tuple[list[float], list[float]]:
        """Return scales and weights of steps that double the scale, from 2**126 on; the sixth overflows."""
        variable, optimizer = make(wrapper, learning_rate=1.0, initial_scale=2.0**126, dynamic_growth_steps=1)
        scales, weights = [], []
        # Small enough for the scaled gradient to be finite under the largest scale.
        for factor in [2.0**-20] * 5 + [INF] + [2.0**-20] * 2:
            take_step(optimizer, variable, factor, is_keras_2_style)
            scales.append(float(optimizer.dynamic_scale))
            weights.append((1.0 - float(variable)) * 2.0**20)
        return scales, weights

    def test_growth_past_the_largest_float_keeps_the_scale_and_trains_on(self) -> None:
        scales, weights = self.grow(Native)
        self.assertEqual(scales, [2.0**127] + [INF] * 7)
        self.assertEqual(weights, [1.0] + [2.0] * 7)
        for _, is_keras_2_style in BOTH_STYLES:
            scales, weights = self.grow(Ours, is_keras_2_style)
            self.assertEqual(scales, [2.0**127] * 5 + [2.0**126] + [2.0**127] * 2)
            self.assertEqual(weights, [1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0, 7.0])


def sgd() -> Any:
    return keras.optimizers.SGD(0.5)


def wrapped_before() -> Any:
    optimizer = sgd()
    Ours(optimizer)
    return optimizer


BAD_ARGUMENTS = [
    ("scale_is_a_string", sgd, {"initial_scale": "big"}, ValueError),
    ("scale_is_a_word_of_older_code", sgd, {"initial_scale": "dynamic"}, ValueError),
    ("scale_is_a_list", sgd, {"initial_scale": [8.0, 8.0]}, TypeError),
    ("scale_is_nan", sgd, {"initial_scale": NAN}, ValueError),
    ("scale_is_infinite", sgd, {"initial_scale": INF}, ValueError),
    ("scale_is_beyond_float32", sgd, {"initial_scale": 1e39}, ValueError),
    ("scale_is_zero", sgd, {"initial_scale": 0}, ValueError),
    ("scale_is_negative", sgd, {"initial_scale": -8.0}, ValueError),
    ("period_is_a_word", sgd, {"dynamic_growth_steps": "often"}, ValueError),
    ("period_is_a_list", sgd, {"dynamic_growth_steps": [2]}, TypeError),
    ("dynamic_is_a_word", sgd, {"dynamic": "dynamic"}, TypeError),
    ("dynamic_is_a_number", sgd, {"dynamic": 128}, TypeError),
    ("a_v1_optimizer", lambda: tf.compat.v1.train.GradientDescentOptimizer(0.5), {}, TypeError),
    ("a_wrapper", lambda: Ours(sgd()), {}, TypeError),
    ("a_wrapper_of_keras", lambda: Native(sgd()), {}, TypeError),
    ("an_optimizer_that_is_wrapped", wrapped_before, {}, ValueError),
    ("an_optimizer_that_scales", lambda: keras.optimizers.SGD(0.5, loss_scale_factor=4.0), {}, ValueError),
]


class ConstructorArguments(unittest.TestCase):
    """Whatever was passed was accepted, and failed later, elsewhere, or silently did something else."""

    @parameterized.expand(BAD_ARGUMENTS)
    def test_bad_ones_are_refused_before_anything_is_created(
        self, name: str, make_inner: Callable[[], Any], settings: dict[str, Any], error: type[Exception]
    ) -> None:
        Native(make_inner(), **settings)
        inner = make_inner()
        before = {key: repr(value) for key, value in vars(inner).items()}
        made: list[Any] = []
        with counting_variables(made), pytest.raises(error, match="LossScaleOptimizer") as raised:
            Ours(inner, **settings)
        self.assertIsInstance(raised.value, MplsError)
        self.assertIn("mpls docs ", str(raised.value))
        self.assertEqual(made, [])
        self.assertEqual({key: repr(value) for key, value in vars(inner).items()}, before)

    def test_the_counting_counts(self) -> None:
        made: list[Any] = []
        with counting_variables(made):
            Ours(sgd())
        self.assertGreaterEqual(len(made), 2)

    def test_an_optimizer_that_was_refused_can_be_wrapped(self) -> None:
        inner = sgd()
        with pytest.raises(ValueError, match="initial_scale"):
            Ours(inner, initial_scale=NAN)
        self.assertEqual(float(Ours(inner, initial_scale=8).loss_scale), 8.0)


@contextlib.contextmanager
def counting_variables(made: list[Any]) -> Iterator[None]:
    """Note each TensorFlow variable that is created."""

    def creator(next_creator: Any, **kwargs: Any) -> Any:
        made.append(next_creator(**kwargs))
        return made[-1]

    with tf.variable_creator_scope(creator):
        yield


class OverflowByUnscaling(unittest.TestCase):
    """Scaled gradients were tested, and a scale below 1 made those that were applied infinite."""

    def step(self, wrapper: Any, is_keras_2_style: bool = False) -> tuple[float, float]:
        variable, optimizer = make(wrapper, initial_scale=0.25)
        # The gradient of the scaled loss, as it comes; what it stands for, 8e38, is no float32.
        grads = [tf.constant(2e38)]
        if is_keras_2_style:
            optimizer.get_scaled_loss(tf.constant(0.0))
            grads = optimizer.get_unscaled_gradients(grads)
            optimizer.apply_gradients(zip(grads, [variable], strict=True))
        else:
            optimizer.scale_loss(0.0)
            optimizer.apply(grads, [variable])
        return float(variable), state(optimizer)[0]

    def test_gradients_that_overflow_when_they_are_unscaled_are_skipped(self) -> None:
        self.assertEqual(self.step(Native), (-INF, 0.25))
        for _, is_keras_2_style in BOTH_STYLES:
            self.assertEqual(self.step(Ours, is_keras_2_style), (1.0, 1.0))


class LossesOfAnUnbuiltOptimizer(unittest.TestCase):
    """Before the first step a float16 loss was scaled in float16, where it overflows; afterwards it was not."""

    def test_the_first_loss_is_scaled_as_every_other(self) -> None:
        def scaled(wrapper: Any) -> list[Any]:
            optimizer = wrapper(keras.optimizers.SGD(0.5))
            loss = tf.constant(2.5, tf.float16)
            first = optimizer.scale_loss(loss)
            optimizer.build([keras.Variable(1.0)])
            return [first.dtype.name, float(first), float(optimizer.scale_loss(loss))]

        self.assertEqual(scaled(Native), ["float16", INF, 81920.0])
        self.assertEqual(scaled(Ours), ["float32", 81920.0, 81920.0])


class VariablesThatWereNotTracked(unittest.TestCase):
    """The wrapper kept Nadam from tracking its product of momentums, so that no file had it."""

    def save_and_load(self, wrapper: Any) -> tuple[float, float]:
        model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
        model.compile(wrapper(keras.optimizers.Nadam(0.5), initial_scale=8), keras.losses.MeanSquaredError())
        rows = np.ones((4, 1), np.float32)
        model.fit(rows, rows, batch_size=2, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.keras"
            model.save(path)
            loaded = keras.models.load_model(path)
        return tuple(float(it.optimizer.inner_optimizer._u_product) for it in (model, loaded))

    def test_files_hold_all_of_the_wrapped_optimizer(self) -> None:
        saved, loaded = self.save_and_load(Native)
        self.assertLess(saved, 0.5)
        self.assertEqual(loaded, 1.0)
        saved, loaded = self.save_and_load(Ours)
        self.assertLess(saved, 0.5)
        self.assertEqual(loaded, saved)


def weights_of(model: Any) -> list[Any]:
    return [weight.tolist() for weight in model.get_weights()]


class ModelsInH5(unittest.TestCase):
    """Not the wrapper's fault: Keras 3 cannot load what it writes, whatever the optimizer; see what can be done."""

    OPTIMIZERS = (
        ("bare", lambda: keras.optimizers.SGD(0.25, momentum=0.5)),
        ("native", lambda: Native(keras.optimizers.SGD(0.25, momentum=0.5), initial_scale=8)),
        ("ours", lambda: Ours(keras.optimizers.SGD(0.25, momentum=0.5), initial_scale=8)),
    )
    ROWS = np.ones((4, 1), np.float32)

    def saved(self, make_optimizer: Callable[[], Any], loss: Any, folder: str, file: str = "model.h5") -> Any:
        model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
        model.compile(make_optimizer(), loss)
        model.fit(self.ROWS, self.ROWS, batch_size=2, verbose=0)
        path = pathlib.Path(folder) / file
        model.save(path)
        return model, path

    @parameterized.expand(OPTIMIZERS)
    @pytest.mark.matrix
    def test_a_loss_that_was_given_by_name_is_not_found(self, name: str, make_optimizer: Callable[[], Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model, path = self.saved(make_optimizer, "mse", folder)
            with pytest.raises((ValueError, TypeError), match="mse"):
                keras.models.load_model(path)
            loaded = keras.models.load_model(path, compile=False)
            # With its function by that name, it is.
            again = keras.models.load_model(path, custom_objects={"mse": keras.losses.mean_squared_error})
        for it in (loaded, again):
            self.assertEqual(weights_of(it), weights_of(model))
        self.assertIs(isinstance(again.optimizer, Ours), name != "bare")
        loaded.compile(make_optimizer(), "mse")
        loaded.fit(self.ROWS, self.ROWS, batch_size=2, verbose=0)
        self.assertEqual(int(loaded.optimizer.iterations), 2)

    @parameterized.expand(OPTIMIZERS[:2])
    @pytest.mark.default_run("one case")
    def test_an_optimizer_that_was_loaded_knows_no_variable(self, name: str, make_optimizer: Callable[[], Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            _, path = self.saved(make_optimizer, keras.losses.MeanSquaredError(), folder)
            loaded = keras.models.load_model(path)
        # Keras 3.12 fails even where it would say so.
        with pytest.raises((ValueError, NotImplementedError), match=r"Unknown variable|must be among|numpy\(\)"):
            loaded.fit(self.ROWS, self.ROWS, batch_size=2, verbose=0)

    def test_one_of_mpls_goes_on_with_the_loss_scale(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model, path = self.saved(self.OPTIMIZERS[-1][1], keras.losses.MeanSquaredError(), folder)
            loaded = keras.models.load_model(path)
        self.assertIsInstance(loaded.optimizer, Ours)
        self.assertEqual(loaded.optimizer.state_dict(), model.optimizer.state_dict())
        loaded.fit(self.ROWS, self.ROWS, batch_size=2, verbose=0)
        self.assertEqual(int(loaded.optimizer.iterations), 2)

    def test_keras_files_load_and_go_on(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model, path = self.saved(self.OPTIMIZERS[-1][1], "mse", folder, "model.keras")
            loaded = keras.models.load_model(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for it in (model, loaded):
                it.fit(self.ROWS, self.ROWS, batch_size=2, verbose=0)
        self.assertEqual(state(loaded.optimizer), (8.0, 4))
        self.assertEqual(weights_of(loaded), weights_of(model))
