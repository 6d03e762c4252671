"""The wrapper over Keras 3 optimizers: recognition, both calling styles, what it takes over from Keras."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from mpls.errors import CallOrderError, MplsError, MplsWarning
from tests.core.behavior import behaving_as

Ours: Any = mpls.keras.LossScaleOptimizer
INF, NAN = float("inf"), float("nan")

RUNNERS: list[tuple[str, Callable[[Any], Any]]] = [("eager", lambda fn: fn), ("function", tf.function)]


def wrapped(inner: Any = None, **kwargs: Any) -> Any:
    return Ours(inner or keras.optimizers.SGD(0.25), **{"initial_scale": 8, "dynamic_growth_steps": 2, **kwargs})


def state_of(opt: Any) -> tuple[float, int, int]:
    return float(opt.loss_scale), int(opt.dynamic_counter), int(opt.iterations)


# The two styles, and the loop of Keras' own trainer. Each takes a step with the gradient `factor`.


def keras_3_style(opt: Any, variable: Any, factor: Any) -> None:
    with tf.GradientTape() as tape:
        loss = opt.scale_loss(variable * factor)
    opt.apply(tape.gradient(loss, [variable]), [variable])


class StyleTest(unittest.TestCase):
    """Gradients are unscaled exactly once, in each style and in no mix."""

    MIXES = (
        ("scale_loss unscaled apply_gradients", r"get_unscaled_gradients\(\) is one too many: apply_gradients\(\)"),
        ("scale_loss unscaled apply", r"get_unscaled_gradients\(\) is one too many: apply\(\) unscales"),
        ("get_scaled_loss unscaled apply", r"get_unscaled_gradients\(\) is one too many: apply\(\) unscales"),
        (
            "unscaled apply",
            r"got get_unscaled_gradients\(\), apply\(\)\. get_unscaled_gradients\(\) is one too many: apply",
        ),
        (
            "scale_loss get_scaled_loss apply",
            r"got get_scaled_loss\(\), scale_loss\(\), apply\(\)\. get_scaled_loss\(\) is one too",
        ),
        ("get_scaled_loss scale_loss apply_gradients", r"get_scaled_loss\(\) is one too many: the loss is scaled"),
        ("get_scaled_loss scale_loss unscaled apply_gradients", r"scale_loss\(\) is one too many: the loss is"),
        ("get_scaled_loss apply_gradients", r"get_unscaled_gradients\(\) must be called between"),
    )

    @parameterized.expand(
        [
            (f"{runner}_{calls.replace(' ', '_')}", compiled, calls.split(), message)
            for (runner, compiled), (calls, message) in itertools.product(RUNNERS, MIXES)
        ]
    )
    def test_a_mix_is_an_error_that_names_the_call(self, name: str, compiled: Any, calls: Any, message: str) -> None:
        optimizer, variable = wrapped(), keras.Variable(1.0)

        def mix(factor: Any) -> None:
            with tf.GradientTape() as tape:
                loss = variable * factor
                for call in calls:
                    loss = getattr(optimizer, call)(loss) if "loss" in call else loss
            grads = tape.gradient(loss, [variable])
            if "unscaled" in calls:
                grads = optimizer.get_unscaled_gradients(grads)
            if "apply" in calls:
                optimizer.apply(grads, [variable])
            else:
                optimizer.apply_gradients(zip(grads, [variable], strict=True))

        with self.assertRaisesRegex(CallOrderError, message) as caught:
            compiled(mix)(tf.constant(1.0))
        self.assertIsInstance(caught.exception, RuntimeError)
        self.assertIn("mpls docs calling-styles", str(caught.exception))
        self.assertEqual((float(variable), state_of(optimizer)), (1.0, (8.0, 0, 0)))
        # The next step begins anew.
        keras_3_style(optimizer, variable, 1.0)
        self.assertEqual((float(variable), state_of(optimizer)), (0.75, (8.0, 1, 1)))

    def test_float8_variables_are_overwritten_by_what_comes_as_their_gradient(self) -> None:
        for style in ("keras_2", "keras_3"):
            optimizer, amax, kernel = wrapped(), keras.Variable(1.0), keras.Variable(1.0)
            amax.overwrite_with_gradient = True
            optimizer.build([amax, kernel])
            optimizer.scale_loss(1.0) if style == "keras_3" else optimizer.get_scaled_loss(tf.constant(1.0))
            grads = [tf.constant(5.0), tf.constant(8.0)]
            if style == "keras_3":
                optimizer.apply(grads, [amax, kernel])
            else:
                grads = optimizer.get_unscaled_gradients(grads)
                optimizer.apply_gradients(zip(grads, [amax, kernel], strict=True))
                with self.assertRaises(ValueError):
                    optimizer.get_unscaled_gradients([tf.constant(8.0)])
            self.assertEqual((float(amax), float(kernel)), (5.0, 0.75))


class _TakesAny(keras.optimizers.SGD):  # type: ignore[misc]
    def apply_gradients(self, *args: Any) -> Any:
        self.given = args[1:]
        return super().apply_gradients(args[0])


class _TakesOne(keras.optimizers.SGD):  # type: ignore[misc]
    def apply_gradients(self, grads_and_vars: Any, extra: Any = None) -> Any:
        self.given = (extra,)
        return super().apply_gradients(grads_and_vars)


class ForgottenTest(unittest.TestCase):
    def test_gradients_that_were_never_scaled(self) -> None:
        variable, message = keras.Variable([8.0]), "divided by a loss scale that the loss was not multiplied by"
        with self.assertWarnsRegex(MplsWarning, message):
            wrapped().apply_gradients([(tf.constant([8.0]), variable)])
        np.testing.assert_array_equal(variable, [7.75])

    def test_gradients_that_are_applied_again(self) -> None:
        optimizer, variable = wrapped(), keras.Variable([8.0])
        optimizer.get_scaled_loss(tf.constant(1.0))
        grads = optimizer.get_unscaled_gradients([tf.constant([16.0])])
        optimizer.apply_gradients([(grads[0], variable)])
        with self.assertWarnsRegex(MplsWarning, "so the gradients are not scaled. In a custom loop"):
            optimizer.apply_gradients([(grads[0], variable)])
        np.testing.assert_array_equal(variable, [7.0])


class MembersTest(unittest.TestCase):
    """What Keras and its users ask of an optimizer."""

    @parameterized.expand([(f"{name}_{release}", run, release) for name, run in RUNNERS for release in (None, "2.4")])
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_a_skipped_step_is_none_of_those_that_are_accumulated(self, name: str, compiled: Any, release: Any) -> None:
        variable, control = keras.Variable(1.0), keras.Variable(1.0)
        bare = keras.optimizers.SGD(0.25, gradient_accumulation_steps=2)
        with behaving_as(release):
            optimizer = wrapped(keras.optimizers.SGD(0.25, gradient_accumulation_steps=2))
            step = compiled(lambda factor: keras_3_style(optimizer, variable, factor))
            # In Keras' count of steps the skipped ones would be the last of their groups.
            for factor in (1.0, INF, 2.0, NAN, 1.0, INF, 0.5):
                step(tf.constant(factor))
                if np.isfinite(factor):
                    bare.apply([tf.constant(factor)], [control])
                self.assertEqual((float(variable), int(optimizer.iterations)), (float(control), int(bare.iterations)))
        self.assertEqual(int(optimizer.iterations), 2)

    def test_skipped_steps_do_not_count_where_gradients_are_accumulated(self) -> None:
        with self.assertRaisesRegex(ValueError, "skip_counts_step must be False or left out where the optimizer has"):
            wrapped(keras.optimizers.SGD(gradient_accumulation_steps=2), skip_counts_step=True)
        self.assertIs(wrapped(keras.optimizers.SGD(gradient_accumulation_steps=2), skip_counts_step=False).built, False)
        # The setting may come after the wrapper.
        late, variable = wrapped(keras.optimizers.SGD(), skip_counts_step=True), keras.Variable(1.0)
        late.gradient_accumulation_steps = 2
        with self.assertRaisesRegex(ValueError, "skip_counts_step must be False or left out where the optimizer has"):
            keras_3_style(late, variable, 1.0)
        self.assertEqual((float(variable), float(late.loss_scale)), (1.0, 8.0))
        late.iterations = 3
        self.assertEqual(int(late.iterations), 3)

    def test_finite_gradients_are_told_from_others(self) -> None:
        optimizer = wrapped()
        self.assertTrue(bool(optimizer.check_finite([tf.constant(1.0), None])))
        self.assertFalse(bool(optimizer.check_finite([tf.constant(1.0), tf.constant(NAN)])))

    def test_variables_are_by_default_those_that_it_was_built_with(self) -> None:
        optimizer, variable = wrapped(), keras.Variable(1.0)
        optimizer.build([variable])
        optimizer.scale_loss(1.0)
        optimizer.apply([tf.constant(8.0)])
        self.assertEqual((float(variable), state_of(optimizer)), (0.75, (8.0, 1, 1)))

    def test_gradients_that_are_summed_already(self) -> None:
        optimizer, variable = wrapped(), keras.Variable(1.0)
        optimizer.scale_loss(1.0)
        optimizer.apply_gradients([(tf.constant(8.0), variable)], skip_gradients_aggregation=True)
        self.assertEqual(float(variable), 0.75)

    def test_the_rule_of_the_wrapped_optimizer_can_be_called(self) -> None:
        optimizer, variable = wrapped(), keras.Variable(1.0)
        optimizer.build([variable])
        optimizer.update_step(tf.constant(8.0), variable, tf.constant(0.5))
        self.assertEqual((float(variable), state_of(optimizer)), (-3.0, (8.0, 0, 0)))

    def test_aggregation_of_a_subclass_for_legacy_optimizers(self) -> None:
        class Doubles(mpls.experimental.LossScaleOptimizer):  # type: ignore[misc]
            def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
                return [grad * 2 for grad in super()._aggregate_gradients(grads_and_vars)]

        with behaving_as("2.3"):
            optimizer: Any = Doubles(keras.optimizers.SGD(0.25), mpls.experimental.DynamicLossScale(8))
            keras_3_style(optimizer, variable := keras.Variable(1.0), 1.0)
        self.assertEqual(float(variable), 0.5)

    def test_the_learning_rate_in_a_dtype(self) -> None:
        dtypes = [wrapped()._decayed_lr(each).dtype for each in ("float64", tf.float16)]
        self.assertEqual(dtypes, [tf.float64, tf.float16])

    @parameterized.expand([(_TakesAny,), (_TakesOne,)])
    def test_a_second_argument_of_the_wrapped_optimizer(self, cls: Any) -> None:
        inner, variable = cls(0.5), keras.Variable([8.0])
        optimizer = wrapped(inner)
        optimizer.get_scaled_loss(tf.constant(1.0))
        grads = optimizer.get_unscaled_gradients([tf.constant([8.0])])
        optimizer.apply_gradients([(grads[0], variable)], 3.5)
        self.assertEqual((inner.given, float(variable[0])), ((3.5,), 7.5))


class ConfigTest(unittest.TestCase):
    def test_configs_with_the_unused_settings_of_older_releases(self) -> None:
        config = wrapped().get_config()
        defaults = {"weight_decay": None, "clipnorm": None, "use_ema": False, "ema_momentum": 0.99}
        self.assertEqual(Ours.from_config({**config, **defaults}).get_config(), config)
        with self.assertRaisesRegex(ValueError, "clipnorm must be a setting of the inner optimizer"):
            Ours.from_config({**config, "clipnorm": 1.0})

    def test_an_inner_optimizer_as_older_releases_wrote_it(self) -> None:
        class Own(keras.optimizers.SGD):
            pass

        config = {**wrapped().get_config(), "inner_optimizer": {"class_name": "Own", "config": {"learning_rate": 0.5}}}
        inner = Ours.from_config(config, custom_objects={"Own": Own}).inner_optimizer
        self.assertEqual((type(inner), float(inner.learning_rate)), (Own, 0.5))


class RefusalTest(unittest.TestCase):
    """Bad input is refused with its reason, before anything changes."""

    def test_names_are_for_keras_3(self) -> None:
        self.assertEqual(wrapped(name="mine").name, "mine")
        with self.assertRaisesRegex(TypeError, "name must be left out for an optimizer of tf_keras"):
            Ours(tf_keras.optimizers.SGD(), name="mine")

    def test_a_factor_of_the_inner_optimizer(self) -> None:
        inner = keras.optimizers.SGD(0.25, loss_scale_factor=4.0)
        with self.assertRaisesRegex(ValueError, r"no loss_scale_factor.*dynamic=False, initial_scale=4.0"):
            Ours(inner)
        self.assertEqual(inner.loss_scale_factor, 4.0)
        optimizer, variable = wrapped(), keras.Variable(1.0)
        optimizer.inner_optimizer.loss_scale_factor = 4.0
        with self.assertRaisesRegex(ValueError, "no loss_scale_factor"):
            keras_3_style(optimizer, variable, 1.0)
        self.assertEqual((float(variable), state_of(optimizer)), (1.0, (8.0, 0, 0)))

    @parameterized.expand(RUNNERS)
    @pytest.mark.default_run("one case")
    def test_what_cannot_be_applied(self, name: str, compiled: Any) -> None:
        optimizer, variable, other = wrapped(), keras.Variable(1.0, name="weight"), keras.Variable(1.0)
        one = tf.constant(1.0)
        optimizer.scale_loss(1.0)
        for call, message in (
            (lambda: optimizer.apply([one]), "trainable_variables must be given until the optimizer is built"),
            (lambda: optimizer.apply([one, one], [variable]), "as many as the variables, 1; got 2"),
            (lambda: optimizer.apply([None], [variable]), "at least one gradient that is not None"),
            (lambda: optimizer.apply_gradients([]), "hold at least one pair"),
            (lambda: optimizer.apply_gradients([(None, variable)]), r"that is not None; got \['weight'\]"),
            (lambda: optimizer.apply_gradients([(None, 7)]), r"that is not None; got \['7'\]"),
        ):
            with self.assertRaisesRegex(ValueError, message) as caught:
                compiled(call)()
            self.assertIsInstance(caught.exception, MplsError)
        optimizer.build([variable])
        with self.assertRaisesRegex(ValueError, "be among those that the optimizer was built with"):
            compiled(lambda: optimizer.apply([one], [other]))()
        optimizer.apply([])
        self.assertEqual((float(variable), state_of(optimizer)), (1.0, (8.0, 0, 0)))

    def test_a_v1_graph(self) -> None:
        optimizer, variable = wrapped(), keras.Variable(1.0)
        with tf.Graph().as_default(), self.assertRaisesRegex(RuntimeError, "v1 graph.*got one of Keras 3"):
            optimizer.apply_gradients([(tf.constant(1.0), variable)])

    def test_a_loss_without_tape(self) -> None:
        with self.assertRaisesRegex(ValueError, "tape must be given where the loss is a tensor"):
            wrapped().minimize(tf.constant(1.0), [keras.Variable(1.0)])
