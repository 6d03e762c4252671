"""A call that is refused leaves everything as it was."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.contrib
import mpls.errors
import mpls.experimental
import mpls.keras
import mpls.monitor
import mpls.v1

NAN = float("nan")
FACTORIES: dict[str, Callable[[], Any]] = {
    "new": lambda: tf_keras.optimizers.SGD(0.5, momentum=0.9),
    "legacy": lambda: tf_keras.optimizers.legacy.SGD(0.5, momentum=0.9),
    "v1": lambda: tf.compat.v1.train.MomentumOptimizer(0.5, 0.9),
    "keras3": lambda: keras.optimizers.SGD(0.5),
}
KERAS_FAMILIES = ("legacy", "new", "keras3")

BAD_SETTINGS: dict[str, dict[str, Any]] = {
    "dynamic_is_no_bool": {"dynamic": "dynamic"},
    "fixed_without_scale": {"dynamic": False},
    "fixed_with_growth_steps": {"dynamic": False, "initial_scale": 4.0, "dynamic_growth_steps": 5},
    "dynamic_is_a_number": {"dynamic": 128},
    "scale_is_nan": {"initial_scale": NAN},
    "scale_is_infinite": {"initial_scale": float("inf")},
    "scale_is_beyond_float32": {"initial_scale": 1e39},
    "fixed_scale_has_no_reciprocal": {"dynamic": False, "initial_scale": 2.0**127},
    "scale_is_zero": {"dynamic": False, "initial_scale": 0},
    "scale_is_negative": {"initial_scale": -8.0},
    "scale_is_no_number": {"initial_scale": "foo"},
    "scale_is_a_list": {"initial_scale": [8.0, 8.0]},
    "growth_steps_are_no_number": {"dynamic_growth_steps": "foo"},
    "growth_steps_are_a_list": {"dynamic_growth_steps": [2]},
    "unknown_argument": {"loss_scale": 4.0},
}
BAD_SCALES: dict[str, Any] = {
    "none": None,
    "text": "foo",
    "list": [4.0],
    "nan": NAN,
    "negative": -1,
    "no_reciprocal": 2.0**127,
    "class": mpls.v1.DynamicLossScale,
}


def snapshot(optimizer: Any) -> dict[str, str]:
    """What an optimizer holds, as text."""
    return {name: repr(value) for name, value in vars(optimizer).items()}


class ConstructorTest(unittest.TestCase):
    """The optimizer that was to be wrapped has not changed, and can be wrapped."""

    @parameterized.expand(itertools.product(KERAS_FAMILIES, BAD_SETTINGS))
    def test_keras(self, family: str, settings: str) -> None:
        inner = FACTORIES[family]()
        before, made = snapshot(inner), []

        def creator(next_creator: Any, **kwargs: Any) -> Any:
            made.append(next_creator(**kwargs))
            return made[-1]

        with tf.variable_creator_scope(creator), self.assertRaises((TypeError, ValueError)) as caught:
            mpls.keras.LossScaleOptimizer(inner, **BAD_SETTINGS[settings])
        self.assertIsInstance(caught.exception, mpls.errors.MplsError)
        self.assertIn("See mpls docs ", str(caught.exception))
        self.assertEqual((snapshot(inner), made), (before, []))
        self.assertIs(mpls.keras.LossScaleOptimizer(inner).inner_optimizer, inner)

    @parameterized.expand(BAD_SCALES)
    def test_v1(self, scale: str) -> None:
        inner = FACTORIES["v1"]()
        before = snapshot(inner)
        with self.assertRaises((TypeError, ValueError)):
            mpls.v1.MixedPrecisionLossScaleOptimizer(inner, BAD_SCALES[scale])
        self.assertEqual(snapshot(inner), before)


def v1_optimizer() -> Any:
    return tf.compat.v1.train.GradientDescentOptimizer(0.5)


def manager_of(**options: Any) -> Any:
    return mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2, **options)


def contrib_optimizer(**options: Any) -> Any:
    return mpls.contrib.LossScaleOptimizer(v1_optimizer(), manager_of(), **options)


def wrapper_of(family: str) -> Callable[..., Any]:
    return lambda **options: mpls.keras.LossScaleOptimizer(FACTORIES[family](), **options)


# Names of arguments elsewhere, and what is written here.
OF_MANAGERS = {
    **dict.fromkeys(("growth_factor", "multiplier"), "incr_ratio"),
    **dict.fromkeys(("initial_scale", "initial_loss_scale"), "init_loss_scale"),
    **dict.fromkeys(("growth_steps", "dynamic_growth_steps", "increment_period"), "incr_every_n_steps"),
    "backoff_factor": "decr_ratio",
    "hysteresis": "decr_every_n_nan_or_inf",
}
OF_KERAS = {
    **dict.fromkeys(("growth_steps", "increment_period"), "dynamic_growth_steps=4"),
    "multiplier": "growth_factor=4, backoff_factor=1 / 4",
}


class KeywordTest(unittest.TestCase):
    """A wrong keyword is answered with the right one."""

    @parameterized.expand(
        [
            *(
                (f"{family}_{wrong}", wrapper_of(family), wrong, right)
                for family in KERAS_FAMILIES
                for wrong, right in (
                    ("max_scal", "Did you mean max_scale?"),
                    ("initial_loss_scale", "Write initial_scale=4"),
                    ("loss_scale", "Leave it out for a dynamic scale."),
                    ("unheard_of", "Pass only inner_optimizer, dynamic, "),
                )
            ),
            (
                "experimental",
                lambda **options: mpls.experimental.LossScaleOptimizer(FACTORIES["legacy"](), "dynamic", **options),
                "count_step",
                "Did you mean count_steps?",
            ),
            (
                "v1",
                lambda **options: mpls.v1.MixedPrecisionLossScaleOptimizer(v1_optimizer(), "dynamic", **options),
                "max_scal",
                "Did you mean max_scale?",
            ),
            ("dynamic_loss_scale", mpls.v1.DynamicLossScale, "max_scal", "Did you mean max_scale?"),
            ("its_growth", mpls.v1.DynamicLossScale, "dynamic_growth_steps", "Write increment_period=4"),
            (
                "fixed",
                lambda **more: mpls.v1.FixedLossScale(8, **more),
                "skip_nonfinit",
                "Did you mean skip_nonfinite?",
            ),
            ("manager", manager_of, "max_scal", "Did you mean max_scale?"),
            *((f"managers_{wrong}", manager_of, wrong, f"Write {right}=4") for wrong, right in OF_MANAGERS.items()),
            *((f"keras_{wrong}", wrapper_of("new"), wrong, f"Write {right}") for wrong, right in OF_KERAS.items()),
            *(
                (f"contrib_{wrong}", contrib_optimizer, wrong, right)
                for wrong, right in (
                    ("count_step", "Did you mean count_steps?"),
                    ("min_scale", "Pass it to the manager: "),
                    ("max_scale", "Manager(..., max_scale=4))"),
                    ("consecutive_hysteresis", "Manager(..., consecutive_hysteresis=4))"),
                    ("backoff_factor", "Manager(..., decr_ratio=4))"),
                    ("adjustable", "manager.load_state_dict({**manager.state_dict(), 'scale': 64.0})"),
                    ("skip_nonfinite", "With every manager, a step with non-finite gradients is skipped"),
                )
            ),
            (
                "policy",
                lambda **more: mpls.experimental.Policy("float32", **more),
                "loss_scal",
                "Did you mean loss_scale?",
            ),
            ("callback", mpls.monitor.LossScaleCallback, "evry", "Did you mean every?"),
        ]
    )
    def test_of_a_constructor(self, name: str, make: Callable[..., Any], wrong: str, right: str) -> None:
        with self.assertRaises(TypeError) as caught:
            make(**{wrong: 4})
        self.assertIsInstance(caught.exception, mpls.errors.MplsError)
        self.assertIn(right, str(caught.exception))

    @parameterized.expand(
        [
            ("loss_scale", mpls.v1.DynamicLossScale),
            ("v1", lambda: mpls.v1.MixedPrecisionLossScaleOptimizer(v1_optimizer(), "dynamic")),
            *((family, wrapper_of(family)) for family in KERAS_FAMILIES),
        ]
    )
    def test_of_configure(self, name: str, make: Callable[[], Any]) -> None:
        for wrong, right in (("max_scal", "Did you mean max_scale?"), ("initial_scale", "Write set_scale(4)")):
            with self.assertRaises(TypeError) as caught:
                make().configure(**{wrong: 4})
            self.assertRegex(str(caught.exception), "^configure: ")
            self.assertIn(right, str(caught.exception))
