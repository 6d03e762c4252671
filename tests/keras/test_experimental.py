"""The deprecated wrapper: which loss scales it takes, and the call that it says replaces it."""

from __future__ import annotations

import inspect
import json
import unittest
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.errors
import mpls.experimental
import mpls.keras
import mpls.v1

FAMILIES = [("legacy", tf_keras.optimizers.legacy), ("new", tf_keras.optimizers)]
Experimental: Any = mpls.experimental.LossScaleOptimizer
NATIVE: Any = tf.compat.v1.mixed_precision

# What is passed, and (dynamic, initial_scale, dynamic_growth_steps).
ACCEPTED: list[tuple[str, Any, tuple[bool, float, int | None]]] = [
    ("dynamic", "dynamic", (True, 2.0**15, 2000)),
    ("int", 128, (False, 128.0, None)),
    ("float", 128.5, (False, 128.5, None)),
    ("small", 0.5, (False, 0.5, None)),
    ("true", True, (False, 1.0, None)),
    ("large", 2.0**100, (False, 2.0**100, None)),
    ("numpy_float32", np.float32(0.1), (False, float(np.float32(0.1)), None)),
    ("numpy_int64", np.int64(3), (False, 3.0, None)),
    ("numpy_0d", np.array(4.0), (False, 4.0, None)),
    ("fixed", lambda: mpls.experimental.FixedLossScale(64), (False, 64.0, None)),
    ("native_fixed", lambda: NATIVE.FixedLossScale(64), (False, 64.0, None)),
    ("dynamic_object", mpls.experimental.DynamicLossScale(), (True, 2.0**15, 2000)),
    ("dynamic_settings", mpls.experimental.DynamicLossScale(8, 3), (True, 8.0, 3)),
    ("dynamic_fraction", mpls.experimental.DynamicLossScale(0.1, 0), (True, 0.1, 0)),
    ("dynamic_negative_period", mpls.experimental.DynamicLossScale(8, -3), (True, 8.0, -3)),
    ("native_dynamic", lambda: NATIVE.DynamicLossScale(8, 3), (True, 8.0, 3)),
    ("config", {"class_name": "DynamicLossScale", "config": {"initial_loss_scale": 4.0}}, (True, 4.0, 2000)),
    ("fixed_config", {"class_name": "FixedLossScale", "config": {"loss_scale_value": 4.0}}, (False, 4.0, None)),
]


def construct(inner: Any, loss_scale: Any) -> tuple[Any, warnings.WarningMessage, int]:
    """Return the optimizer, the one warning, and the line of the call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        optimizer = Experimental(inner, loss_scale() if inspect.isfunction(loss_scale) else loss_scale)
    (warning,) = caught
    return optimizer, warning, line


class AcceptedTest(unittest.TestCase):
    @parameterized.expand(
        [(f"{f}_{name}", o, scale, expected) for f, o in FAMILIES for name, scale, expected in ACCEPTED]
    )
    def test_settings_and_what_replaces_the_call(
        self, name: str, optimizers: Any, loss_scale: Any, expected: tuple[Any, ...]
    ) -> None:
        optimizer, warning, _ = construct(optimizers.SGD(0.5, 0.25), loss_scale)
        self.assertEqual((optimizer.dynamic, optimizer.initial_scale, optimizer.dynamic_growth_steps), expected)
        self.assertEqual(float(optimizer.loss_scale), float(np.float32(expected[1])))
        # The call that is printed does the same.
        self.assertIs(warning.category, mpls.errors.MplsDeprecationWarning)
        text = str(warning.message)
        self.assertTrue(text.startswith("mpls.experimental.LossScaleOptimizer is deprecated. Replace it by: "), text)
        call = text.split("Replace it by: ")[1].split(". See ")[0]
        self.assertTrue(text.endswith(f"{call}. See mpls docs experimental"), text)
        new = eval(call, {"mpls": mpls, "optimizer": optimizers.SGD(0.5, 0.25)})
        # So do wrappers from the config, of which those of its own class warn of nothing.
        config = json.loads(json.dumps(optimizer.get_config()))
        self.assertEqual(set(config), {"inner_optimizer", "dynamic", "initial_scale", "dynamic_growth_steps"})
        again = Experimental.from_config(config)
        self.assertIs(type(again), type(optimizer))
        plain = mpls.keras.LossScaleOptimizer.from_config(config)
        for each in (new, again, plain):
            self.assertEqual(isinstance(each, Experimental), each is again)
            self.assertEqual(each.get_config(), optimizer.get_config())
            self.assertEqual(float(each.loss_scale), float(optimizer.loss_scale))

    def test_the_optimizer_by_the_keyword_of_tf_1(self) -> None:
        inner = tf_keras.optimizers.SGD()
        with self.assertWarns(mpls.errors.MplsDeprecationWarning):
            self.assertIs(Experimental(opt=inner, loss_scale=4).inner_optimizer, inner)
        with self.assertRaisesRegex(TypeError, "a keyword must be the name of an argument; got opt="):
            Experimental(optimizer=inner, opt=inner, loss_scale=4)

    @parameterized.expand(
        [
            ("small", {"dynamic": False, "initial_scale": 0.5}),
            ("skips", {"dynamic": False, "initial_scale": 4.0, "skip_nonfinite": True, "count_steps": True}),
            ("dynamic", {"initial_scale": 8.0, "dynamic_growth_steps": 3, "hysteresis": 2, "min_scale": 2.0}),
            ("options", {"initial_scale": 8.0, "count_steps": True, "enabled": False}),
        ]
    )
    def test_configs_of_today_as_of_a_release_with_loss_scale_objects(self, name: str, settings: Any) -> None:
        made = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.5), **settings)
        with mpls.install(as_of="2.3"):
            again = Experimental.from_config(made.get_config())
            self.assertEqual((again.enabled, again.state_dict()), (made.enabled, made.state_dict()))
            scales = made.dynamic and made.enabled
            self.assertEqual(isinstance(again.loss_scale, mpls.experimental.FixedLossScale), not scales)
            variable = tf.Variable(1.0)
            again.minimize(lambda: variable * float("inf"), [variable])
            self.assertEqual(bool(np.isfinite(variable.numpy())), scales or "skip_nonfinite" in settings)
            with self.assertRaisesRegex(ValueError, "dynamic_growth_steps must be"):
                Experimental.from_config({**made.get_config(), "dynamic": True, "dynamic_growth_steps": "few"})

    @parameterized.expand([(None,), ("2.3",)])
    def test_options_stand_in_the_call_that_replaces_it(self, release: str | None) -> None:
        class Callback:
            def __call__(self, stuck: Any) -> None: ...

        options: dict[str, Any] = {"count_steps": True, "max_consecutive_skips": np.int64(3), "enabled": True}
        for given, shown in ((print, "print"), (Callback(), Callback.__qualname__)):
            with mpls.install(as_of=release), self.assertWarns(mpls.errors.MplsDeprecationWarning) as caught:
                optimizer = Experimental(tf_keras.optimizers.SGD(), "dynamic", on_give_up=given, **options)
            text = f"(optimizer, count_steps=True, max_consecutive_skips=3, on_give_up={shown})"
            self.assertIn(text, str(caught.warning))
            self.assertEqual((int(optimizer.applied_steps), optimizer.max_consecutive_skips), (0, 3))
        for given, shown in ((2.0**53, "9007199254740992.0"), (2.0**15, "32768"), (1.5, "1.5")):
            told = self.assertWarnsRegex(mpls.errors.MplsDeprecationWarning, rf"initial_scale={shown}\)")
            with mpls.install(as_of=release), told:
                Experimental(tf_keras.optimizers.SGD(), given)
        with mpls.install(as_of=release), self.assertWarns(mpls.errors.MplsDeprecationWarning):
            self.assertIs(Experimental(tf_keras.optimizers.SGD(), "dynamic", enabled=False).enabled, False)
        for options in ({"enabled": 1}, {"track_overflows": 1}):
            (name,) = options
            with mpls.install(as_of=release), self.assertRaisesRegex(TypeError, f"LossScaleOptimizer: {name} must be"):
                Experimental(tf_keras.optimizers.SGD(), "dynamic", **options)

    @parameterized.expand([(None,), ("2.3",)])
    def test_what_it_refuses(self, release: str | None) -> None:
        fixed = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), dynamic=False, initial_scale=8)
        inner, subject = tf_keras.optimizers.SGD(), r"^mpls\.experimental\.LossScaleOptimizer: loss_scale must"
        with mpls.install(as_of=release):
            for given in ("other", object(), tf.compat.v1.mixed_precision.LossScale):
                with self.assertRaisesRegex((ValueError, TypeError), subject):
                    Experimental(inner, given)
            with self.assertRaisesRegex(ValueError, "LossScaleOptimizer: max_consecutive_skips must be left out"):
                Experimental(inner, 8, max_consecutive_skips=2)
            had_no_effect = r"^LossScaleOptimizer\.from_config: max_consecutive_skips had no effect"
            with self.assertWarnsRegex(mpls.errors.MplsWarning, had_no_effect):
                Experimental.from_config({**fixed.get_config(), "max_consecutive_skips": 2})

    def test_options_beside_a_loss_scale_in_a_config(self) -> None:
        """As configs were up to TF 2.3."""
        old = {"class_name": "FixedLossScale", "config": {"loss_scale_value": 8.0}}
        inner = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD()).get_config()["inner_optimizer"]
        config = {"optimizer": inner, "loss_scale": old, "track_overflows": True}
        with self.assertWarnsRegex(mpls.errors.MplsWarning, "track_overflows had no effect .*mpls docs fixed-scales"):
            mpls.keras.LossScaleOptimizer.from_config(config)
        config["loss_scale"] = {"class_name": "DynamicLossScale", "config": {"initial_loss_scale": 8.0}}
        made = mpls.keras.LossScaleOptimizer.from_config(config)
        self.assertIs(made.get_config()["track_overflows"], True)

    def test_a_config_that_no_wrapper_of_today_takes(self) -> None:
        inner = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD()).get_config()["inner_optimizer"]
        scale = {"class_name": "DynamicLossScale", "config": {"multiplier": 4}}
        with self.assertRaisesRegex(ValueError, r"^LossScaleOptimizer\.from_config: loss_scale must"):
            Experimental.from_config({"optimizer": inner, "loss_scale": scale})

    @parameterized.expand([(None,), ("2.3",)])
    def test_what_may_be_given_to_a_fixed_scale_too(self, release: str | None) -> None:
        for given in (8, "dynamic"):
            with mpls.install(as_of=release), self.assertWarns(mpls.errors.MplsDeprecationWarning):
                optimizer = Experimental(tf_keras.optimizers.SGD(), given, skip_counts_step=False)
            variable = tf.Variable(1.0)
            optimizer.minimize(lambda variable=variable: variable * float("inf"), [variable])
            self.assertEqual(int(optimizer.iterations), 1 if given == 8 else 0)
        with mpls.install(as_of=release), self.assertWarns(mpls.errors.MplsDeprecationWarning):
            self.assertIs(Experimental(tf_keras.optimizers.SGD(), "dynamic", enabled="auto").enabled, False)

    def test_configs_of_keras_3_as_of_a_release_with_loss_scale_objects(self) -> None:
        class Mine(Experimental):  # type: ignore[misc]
            def __init__(self, optimizer: Any, loss_scale: Any) -> None:
                super().__init__(optimizer, loss_scale)

        made = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=8, name="own")
        config = {key: value for key, value in made.get_config().items() if key != "dynamic"}
        with mpls.install(as_of="2.3"):
            for again in (Experimental.from_config(config), Mine.from_config(config)):
                self.assertEqual((again.name, float(again.loss_scale())), ("own", 8.0))
                self.assertIsInstance(again.loss_scale, mpls.experimental.DynamicLossScale)
            fixed = mpls.keras.LossScaleOptimizer(
                keras.optimizers.SGD(), dynamic=False, initial_scale=4, skip_nonfinite=True
            )
            skips = Mine.from_config({**fixed.get_config(), "initial_scale": 0.5})
            self.assertEqual((float(skips.loss_scale()), skips.skip_nonfinite), (0.5, True))
            unlike = mpls.experimental.DynamicLossScale(8, multiplier=4)
            with self.assertWarnsRegex(mpls.errors.MplsDeprecationWarning, "takes no loss scale of this kind; mpls.v1"):
                Mine(keras.optimizers.SGD(), unlike)
            bare = Experimental.from_config({"inner_optimizer": config["inner_optimizer"], "name": "own"})
            self.assertEqual((bare.name, float(bare.loss_scale())), ("own", 2.0**15))

    def test_settings_are_copied_and_the_object_is_not_used(self) -> None:
        scale = mpls.v1.DynamicLossScale(8, 1)
        optimizer, _, _ = construct(tf_keras.optimizers.SGD(0.5), scale)
        variable = tf.Variable(1.0)
        optimizer.minimize(lambda: variable * 1.0, [variable])
        self.assertEqual((float(optimizer.loss_scale), float(scale())), (16.0, 8.0))
