"""The Keras wrapper as an object: who takes it for what, users' subclasses, attributes, custom loops."""

from __future__ import annotations

import math
import unittest
import warnings
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
from mpls.errors import MplsError
from mpls.upstream.keras_packages import native_tf_keras_wrapper

LEGACY: Any = tf_keras.optimizers.legacy
NEW: Any = tf_keras.optimizers
FAMILIES = [("legacy", LEGACY), ("new", NEW)]
Ours: Any = mpls.keras.LossScaleOptimizer
Experimental: Any = mpls.experimental.LossScaleOptimizer
Native: Any = tf_keras.mixed_precision.LossScaleOptimizer
NativeLegacy: Any = native_tf_keras_wrapper(over_new=False)
NativeNew: Any = native_tf_keras_wrapper(over_new=True)
INF, NAN = float("inf"), float("nan")


def experimental(inner: Any, loss_scale: Any = "dynamic") -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return Experimental(inner, loss_scale)


def loop_step(optimizer: Any, variable: Any, factor: Any, *args: Any, **kwargs: Any) -> Any:
    """One step of a custom loop, with loss = variable * factor."""
    with tf.GradientTape() as tape:
        loss = optimizer.get_scaled_loss(tf.reduce_sum(variable * factor))
    grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [variable]))
    return optimizer.apply_gradients(zip(grads, [variable], strict=True), *args, **kwargs)


class RecognitionTest(unittest.TestCase):
    CLASSES = (
        Ours,
        Experimental,
        Native,
        NativeLegacy,
        NativeNew,
        LEGACY.Optimizer,
        NEW.Optimizer,
        keras.optimizers.LossScaleOptimizer,
    )

    @parameterized.expand(
        [
            ("ours_legacy", lambda: Ours(LEGACY.SGD()), (True, False, True, True, False, True, False, False)),
            ("ours_new", lambda: Ours(NEW.SGD()), (True, False, True, False, True, False, True, False)),
            ("exp_legacy", lambda: experimental(LEGACY.SGD()), (True, True, True, True, False, True, False, False)),
            ("exp_new", lambda: experimental(NEW.SGD()), (True, True, True, False, True, False, True, False)),
            ("native_legacy", lambda: Native(LEGACY.SGD()), (True, False, True, True, False, True, False, False)),
            ("native_new", lambda: Native(NEW.SGD()), (True, False, True, False, True, False, True, False)),
            ("bare_legacy", lambda: LEGACY.SGD(), (False, False, False, False, False, True, False, False)),
            ("bare_new", lambda: NEW.SGD(), (False, False, False, False, False, False, True, False)),
            (
                "keras_3",
                lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()),
                (True, False, False, False, False, False, False, True),
            ),
            ("keras_3_bare", lambda: keras.optimizers.SGD(), (False,) * 8),
            ("none", lambda: None, (False,) * 8),
        ]
    )
    def test_instances(self, name: str, make: Callable[[], Any], expected: tuple[bool, ...]) -> None:
        instance = make()
        found = {cls: isinstance(instance, cls) for cls in self.CLASSES}
        self.assertEqual(found, dict(zip(self.CLASSES, expected, strict=True)))

    def test_a_native_wrapper_is_no_instance_of_a_users_subclass(self) -> None:
        class Mine(Ours):
            pass

        self.assertNotIsInstance(Native(NEW.SGD()), Mine)
        self.assertNotIsInstance(Ours(NEW.SGD()), Mine)
        self.assertIsInstance(Mine(NEW.SGD()), Mine)
        self.assertIsInstance(Mine(LEGACY.SGD()), Ours)


class AttributesTest(unittest.TestCase):
    @parameterized.expand([*FAMILIES, ("keras3", keras.optimizers)])
    def test_growth_steps_that_no_counter_reaches_are_those_of_the_config(self, name: str, optimizers: Any) -> None:
        for steps in (2**63 - 1, 2**63, 10**30):
            config = Ours(optimizers.SGD(), dynamic_growth_steps=steps).get_config()
            self.assertEqual(Ours.from_config(config).dynamic_growth_steps, steps)

    @parameterized.expand(FAMILIES)
    def test_iterations_can_be_replaced_before_the_first_step(self, name: str, optimizers: Any) -> None:
        optimizer, steps, variable = Ours(optimizers.SGD(0.5)), tf.Variable(5, dtype=tf.int64), tf.Variable(1.0)
        optimizer.iterations = steps
        optimizer.minimize(lambda: variable * 1.0, [variable])
        self.assertEqual(int(steps), 6)

    def test_types_of_settings(self) -> None:
        for _, optimizers in FAMILIES:
            optimizer = Ours(optimizers.SGD(), initial_scale=np.int64(8), dynamic_growth_steps=np.float32(2))
            self.assertEqual([type(optimizer.initial_scale), type(optimizer.dynamic_growth_steps)], [float, int])
            self.assertEqual(optimizer.dynamic_counter.dtype, tf.int64)


class BuiltAheadTest(unittest.TestCase):
    """An optimizer whose variables are created before the first step."""

    @parameterized.expand(FAMILIES)
    def test_is_traced_once(self, name: str, module: Any) -> None:
        opt, variable = Ours(module.SGD(0.5, momentum=0.5)), tf.Variable(1.0)
        opt._create_all_weights([variable])
        traced = []

        @tf.function(autograph=False)
        def step() -> None:
            traced.append(True)
            loop_step(opt, variable, 1.0)

        step()
        self.assertEqual((len(traced), float(variable)), (1, 0.5))


class InnerFeaturesTest(unittest.TestCase):
    """What the inner optimizer does beside the step, against the bare optimizer."""

    @parameterized.expand(
        [
            ("legacy_schedule", lambda: LEGACY.SGD(tf_keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5))),
            ("new_schedule", lambda: NEW.SGD(tf_keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5))),
            ("legacy_decay", lambda: LEGACY.SGD(0.5, decay=0.5)),
            ("new_ema", lambda: NEW.SGD(0.5, use_ema=True, ema_momentum=0.5)),
            ("new_ema_overwriting", lambda: NEW.SGD(0.5, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2)),
            ("new_weight_decay", lambda: NEW.AdamW(0.5, weight_decay=0.25)),
            ("legacy_clipnorm", lambda: LEGACY.SGD(0.5, clipnorm=0.5)),
            ("new_clipnorm", lambda: NEW.SGD(0.5, clipnorm=0.5)),
            ("new_global_clipnorm", lambda: NEW.SGD(0.5, global_clipnorm=0.5)),
            ("legacy_clipvalue", lambda: LEGACY.SGD(0.5, clipvalue=0.5)),
            ("legacy_adam", lambda: LEGACY.Adam(0.5, amsgrad=True)),
            ("new_rmsprop", lambda: NEW.RMSprop(0.5, centered=True)),
            ("new_ftrl", lambda: NEW.Ftrl(0.5)),
            ("new_adafactor", lambda: NEW.Adafactor(0.5)),
        ]
    )
    @pytest.mark.default_run("each value", by=lambda name, make: (name.partition("_")[0],))
    def test_it_trains_as_the_bare_optimizer(self, name: str, make: Callable[[], Any]) -> None:
        finals = []
        for wrap in (lambda inner: inner, lambda inner: Ours(inner, initial_scale=256, dynamic_growth_steps=2)):
            optimizer, variable = wrap(make()), tf.Variable([1.0, -2.0])

            @tf.function
            def step(o: Any = optimizer, v: Any = variable) -> None:
                o.minimize(lambda: tf.reduce_sum(v * v * [1.0, 0.5]), [v])

            for _ in range(4):
                step()
            if name == "new_ema":
                optimizer.finalize_variable_values([variable])
            finals.append(variable.numpy())
        np.testing.assert_allclose(finals[1], finals[0], rtol=1e-6)
        self.assertFalse(np.allclose(finals[0], [1.0, -2.0]))


class Clipping:
    """An optimizer whose second positional argument is no name, as users had them."""

    def apply_gradients(self, grads_and_vars: Any, clip_norm: Any = None, **kwargs: Any) -> Any:
        self.given = (clip_norm, kwargs)
        if clip_norm is not None:
            grads_and_vars = [(tf.clip_by_norm(grad, clip_norm), var) for grad, var in grads_and_vars]
        return super().apply_gradients(grads_and_vars, **kwargs)  # type: ignore[misc]


CLIPPING = [(name, type("Clipping", (Clipping, optimizers.SGD), {})) for name, optimizers in FAMILIES]


class ApplyArgumentsTest(unittest.TestCase):
    @parameterized.expand(CLIPPING)
    def test_a_second_positional_argument_goes_to_the_inner_optimizer(self, name: str, inner_class: Any) -> None:
        for clip_norm, expected in ((0.5, 0.5), (tf.constant(0.25), 0.75), (2.0, 0.0)):
            inner, variable = inner_class(1.0), tf.Variable(1.0)
            loop_step(Ours(inner), variable, 1.0, clip_norm)
            self.assertIs(inner.given[0], clip_norm)
            self.assertEqual(float(variable), expected)

    @parameterized.expand(CLIPPING)
    def test_without_it_the_inner_optimizer_gets_none(self, name: str, inner_class: Any) -> None:
        inner, variable = inner_class(1.0), tf.Variable(1.0)
        loop_step(Ours(inner), variable, 1.0)
        self.assertIsNone(inner.given[0])
        flag = "experimental_aggregate_gradients" if name == "legacy" else "skip_gradients_aggregation"
        self.assertIs(inner.given[1][flag], name == "new")

    def test_names_and_flags_of_the_legacy_family(self) -> None:
        for args, kwargs in (
            (("name",), {}),
            ((None,), {}),
            ((), {"name": "name"}),
            (("name", False), {}),
            ((), {"experimental_aggregate_gradients": False}),
        ):
            variable = tf.Variable(1.0)
            loop_step(Ours(LEGACY.SGD(0.5)), variable, 1.0, *args, **kwargs)
            self.assertEqual(float(variable), 0.5)

    def test_names_and_flags_of_the_new_family(self) -> None:
        for args, kwargs in (
            ((True,), {}),
            ((False,), {}),
            ((), {"skip_gradients_aggregation": True}),
            ((), {"experimental_aggregate_gradients": False}),
            ((), {"experimental_aggregate_gradients": True}),
        ):
            variable = tf.Variable(1.0)
            loop_step(Ours(NEW.SGD(0.5)), variable, 1.0, *args, **kwargs)
            self.assertEqual(float(variable), 0.5)

    @parameterized.expand(FAMILIES)
    def test_a_generator_of_pairs(self, name: str, optimizers: Any) -> None:
        optimizer, variable = Ours(optimizers.SGD(0.5)), tf.Variable(1.0)
        optimizer.get_scaled_loss(variable)
        grads = optimizer.get_unscaled_gradients(iter([tf.constant(2.0**15)]))
        optimizer.apply_gradients((grad, var) for grad, var in zip(grads, [variable], strict=True))
        self.assertEqual(float(variable), 0.5)

    @parameterized.expand(FAMILIES)
    def test_minimize_with_a_tape(self, name: str, optimizers: Any) -> None:
        optimizer, variable = Ours(optimizers.SGD(0.5)), tf.Variable(1.0)
        with tf.GradientTape() as tape:
            loss = variable * 1.0
        optimizer.minimize(loss, [variable], tape=tape)
        self.assertEqual(float(variable), 0.5)
        with self.assertRaisesRegex(ValueError, "tape"):
            optimizer.minimize(loss, [variable])


def by_hand(optimizer: Any, variable: Any) -> None:
    value = variable.value if isinstance(variable, keras.Variable) else variable
    with tf.GradientTape() as tape:
        scaled_loss = optimizer.get_scaled_loss(tf.reduce_sum(tf.convert_to_tensor(variable) ** 2))
    (grad,) = optimizer.get_unscaled_gradients([tape.gradient(scaled_loss, value)])
    optimizer.apply_gradients([(grad, variable)])


BARE: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda optimizer, variable: optimizer.minimize(
        lambda: tf.reduce_sum(tf.convert_to_tensor(variable) ** 2), var_list=variable
    ),
    "callable": lambda optimizer, variable: optimizer.minimize(
        lambda: tf.reduce_sum(tf.convert_to_tensor(variable) ** 2), lambda: variable
    ),
    "nest": lambda optimizer, variable: optimizer.minimize(
        lambda: tf.reduce_sum(tf.convert_to_tensor(variable) ** 2), {"all": [(variable,)]}
    ),
    "by_hand": by_hand,
}
RUN: dict[str, Callable[[Any], Any]] = {
    "eager": lambda step: step,
    "function": tf.function,
    "compiled": lambda step: tf.function(step, jit_compile=True),
}


class BareVariableTest(unittest.TestCase):
    """The first examples of the documentation: a variable stands where a list may, and its gradient is no list."""

    @parameterized.expand(
        [
            (f"{f}_{m}_{how}_{len(shape)}", o, m, how, shape)
            for f, o in [*FAMILIES, ("keras3", keras.optimizers)]
            for m in BARE
            for how in RUN
            for shape in ((), (3,))
        ]
    )
    @pytest.mark.default_run("each value")
    def test_minimize(self, name: str, optimizers: Any, method: str, how: str, shape: tuple[int, ...]) -> None:
        kinds = (tf.Variable, keras.Variable) if optimizers is keras.optimizers else (tf.Variable,)
        for kind in kinds:
            self.check(Ours(optimizers.SGD(0.25)), kind(tf.ones(shape)), BARE[method], RUN[how])

    def check(self, optimizer: Any, variable: Any, train: Callable[[Any, Any], Any], how: Callable[[Any], Any]) -> None:
        optimizer._create_all_weights([variable])
        _ = optimizer.iterations

        def step() -> None:
            train(optimizer, variable)

        step = how(step)
        for expected in (0.5, 0.25):
            step()
            np.testing.assert_array_equal(tf.convert_to_tensor(variable), np.full(variable.shape, expected))
        self.assertEqual(int(optimizer.iterations), 2)


class RefusalTest(unittest.TestCase):
    """A refused call leaves the inner optimizer as it was."""

    @parameterized.expand(FAMILIES)
    def test_odd_settings_that_the_originals_take(self, name: str, optimizers: Any) -> None:
        for kwargs, expected in (
            ({"initial_scale": "128"}, (128.0, 2000)),
            ({"initial_scale": 0.5}, (0.5, 2000)),
            ({"dynamic_growth_steps": 0}, (2.0**15, 0)),
            ({"dynamic_growth_steps": -3}, (2.0**15, -3)),
            ({"dynamic_growth_steps": 2.9}, (2.0**15, 2)),
            ({"dynamic": False, "initial_scale": 0.5}, (0.5, None)),
        ):
            optimizer = Ours(optimizers.SGD(), **kwargs)
            self.assertEqual((optimizer.initial_scale, optimizer.dynamic_growth_steps), expected)

    @parameterized.expand(
        [
            ("none", None),
            ("string", "sgd"),
            ("class", NEW.SGD),
            ("v1", tf.compat.v1.train.GradientDescentOptimizer(0.5)),
            ("dict", {"class_name": "SGD", "config": {}}),
        ]
    )
    def test_what_is_no_keras_optimizer(self, name: str, inner: Any) -> None:
        with self.assertRaisesRegex(TypeError, "inner_optimizer must be an optimizer of tf_keras") as caught:
            Ours(inner)
        self.assertIsInstance(caught.exception, MplsError)

    @parameterized.expand(FAMILIES)
    def test_wrapping_twice(self, name: str, optimizers: Any) -> None:
        inner = optimizers.SGD()
        optimizer = Ours(inner, initial_scale=8)
        with self.assertRaisesRegex(TypeError, "not scale the loss itself"):
            Ours(optimizer)
        with self.assertRaisesRegex(ValueError, "wrapped by one LossScaleOptimizer only"):
            Ours(inner)
        with self.assertRaises(ValueError):
            Native(inner)
        native_inner = optimizers.SGD()
        Native(native_inner)
        with self.assertRaises(ValueError):
            Ours(native_inner)
        self.assertEqual(float(optimizer.loss_scale), 8.0)


class NamesOfWeightsTest(unittest.TestCase):
    """Variables of legacy optimizers have the names that the native wrapper gives them in eager mode."""

    @parameterized.expand(
        [
            (f"{optimizer}_{first}_{scope}", optimizer, first, scope)
            for optimizer in ("SGD", "Adam")
            for first in (1.0, math.inf)
            for scope in ("", "outer")
        ]
    )
    def test_as_the_native_one(self, case: str, optimizer: str, first: float, scope: str) -> None:
        def names(wrapper: Any) -> list[list[str]]:
            settings = {"momentum": 0.5} if optimizer == "SGD" else {"name": "Mine"}
            opt = wrapper(getattr(tf_keras.optimizers.legacy, optimizer)(0.5, **settings))
            variable = tf.Variable([1.0, 2.0], name="weights")
            found = []
            for factor in (first, 1.0):
                with tf.name_scope(scope):
                    opt.minimize(lambda factor=factor: variable * factor, [variable])
                found.append([weight.name for weight in opt.weights])
            return found

        ours, native = names(mpls.keras.LossScaleOptimizer), names(tf_keras.mixed_precision.LossScaleOptimizer)
        self.assertEqual(ours[1], native[1])
        # Slots exist after a skipped first step too, the native one makes them later.
        self.assertEqual((ours[0][: len(native[0])], ours[0]), (native[0], ours[1]))
