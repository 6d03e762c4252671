"""Micro-batches, several losses, several optimizers and gradients of gradients, as MIGRATION says to write them."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import pickle
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1
from tests.folders import InFolder
from tests.keras.families import FRAMEWORKS, SGD
from tests.warned import warned

v1 = tf.compat.v1
INF = float("inf")
RATE = 0.5
CELLS = [(f"{family}_{way}", family, way) for family, way in itertools.product(SGD, ("eager", "function", "xla"))]


def built(step: Callable[..., Any], way: str) -> Callable[..., Any]:
    return step if way == "eager" else tf.function(step, jit_compile=True if way == "xla" else None)


def sharing(family: str, *variables: list[Any], growth_steps: int = 3) -> list[Any]:
    """Return two wrappers with one scale."""
    made: list[Any] = []
    for each in variables:
        scale = {"share_scale_with": made[0]} if made else {"initial_scale": 8, "dynamic_growth_steps": growth_steps}
        made.append(mpls.keras.LossScaleOptimizer(SGD[family](RATE), count_steps=True, **scale))
        if family == "keras3" and each:
            made[-1].build(each)
    return made


ORDERS = ("one after the other", "together", "unscaled first")


def step_in_order(pairs: list[tuple[Any, Any]], order: str, replicas: int) -> Callable[..., None]:
    """Return a step of several optimizers, each with a variable and a factor of its loss."""

    def scaled_gradients(opt: Any, variable: Any, factor: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = opt.get_scaled_loss(variable * factor / replicas)
        return tape.gradient(loss, [variable])

    def step(*factors: Any) -> None:
        each = [(opt, variable, factor) for (opt, variable), factor in zip(pairs, factors, strict=True)]
        groups = [[one] for one in each] if order == "one after the other" else [each]
        for group in groups:
            grads: list[Any] = [scaled_gradients(*one) for one in group]
            if order == "unscaled first":
                grads = [opt.get_unscaled_gradients(of_one) for (opt, *_), of_one in zip(group, grads, strict=True)]
            for (opt, variable, _), of_one in zip(group, grads, strict=True):
                unscaled = of_one if order == "unscaled first" else opt.get_unscaled_gradients(of_one)
                opt.apply_gradients(zip(unscaled, [variable], strict=True))

    return step


class SeveralTest(unittest.TestCase):
    """All of these ways are right: mpls warns of none of them, and here a warning is an error."""

    def counts(self, opt: Any) -> tuple[int, int, float]:
        state = opt.state_dict()
        return state["applied_steps"], state["skipped_steps"], state["scale"]

    @parameterized.expand(SGD)
    def test_a_micro_batch_that_overflows_skips_the_step(self, family: str) -> None:
        weight = tf.Variable(1.0)
        (opt,) = sharing(family, [weight])
        for factors in ((1.0, 2.0, 3.0), (1.0, INF, 3.0)):
            total = 0.0
            for factor in factors:
                with tf.GradientTape() as tape:
                    scaled_loss = opt.get_scaled_loss(weight * factor / 3)
                total += tape.gradient(scaled_loss, weight)
            opt.apply_gradients(zip(opt.get_unscaled_gradients([total]), [weight], strict=True))
            self.assertEqual(float(weight), 0.0)
        self.assertEqual(self.counts(opt), (1, 1, 4.0))

    @parameterized.expand(
        # XLA compiles no step that is taken in a cross-replica context.
        [(*cell, order, "one device") for cell in CELLS for order in ORDERS]
        + [(*cell, order, "replicas") for cell in CELLS for order in ORDERS if cell[-1] != "xla"]
        # Keras 3 counts steps in a `merge_call`.
        + [(f"{family}_inside", family, "function", ORDERS[0], "apart") for family in ("legacy", "new")]
    )
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_two_optimizers_with_one_scale(self, name: str, family: str, way: str, order: str, place: str) -> None:
        on_replicas, is_apart = place != "one device", place == "apart"
        strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]) if on_replicas else None
        if is_apart:
            # As on GPUs where XLA compiles what each replica runs.
            strategy.extended._use_merge_call = lambda: False
        with strategy.scope() if strategy else contextlib.nullcontext():
            one, other = tf.Variable(1.0), tf.Variable(1.0)
            of_one, of_other = sharing(family, [one], [other])
        pairs = [(of_one, one), (of_other, other)]
        step = step_in_order(pairs, order, 2 if on_replicas else 1)
        step = tf.function(step, autograph=False) if is_apart else step
        in_replicas = functools.partial(strategy.run, lambda x, y: step(x, y)) if strategy else lambda args: step(*args)
        run = built(lambda x, y: in_replicas(args=(x, y)), way)
        seen = []
        for x, y in ((1.0, 1.0), (1.0, 1.0), (INF, 1.0), (1.0, INF), (1.0, 1.0)):
            run(tf.constant(x), tf.constant(y))
            state = of_one.state_dict()
            seen.append((float(one.numpy()), float(other.numpy()), state["scale"], state["good_steps"]))
        # The third step of either grows the scale, here the fourth step; each overflow shrinks it.
        expected = [(0.5, 0.5, 8.0, 2), (0.0, 0.0, 16.0, 1), (0.0, -0.5, 8.0, 1), (-0.5, -0.5, 4.0, 0)]
        self.assertEqual(seen, [*expected, (-1.0, -1.0, 4.0, 2)])
        self.assertEqual((self.counts(of_one), self.counts(of_other)), ((4, 1, 4.0), (4, 1, 4.0)))

    def test_two_optimizers_of_tf_1_share_a_scale(self) -> None:
        scale, weights = mpls.v1.DynamicLossScale(8.0, 2), [tf.Variable(1.0), tf.Variable(1.0)]
        inner = v1.train.GradientDescentOptimizer(RATE)
        opts = [mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scale, count_steps=True) for _ in range(2)]
        for factor, opt, weight in zip((INF, 1.0), opts, weights, strict=True):
            opt.minimize(lambda factor=factor, weight=weight: weight * factor, var_list=[weight])
        self.assertEqual([float(scale()), *(int(opt.applied_steps) for opt in opts)], [4.0, 0, 1])


class SharedScaleTest(InFolder, unittest.TestCase):
    @parameterized.expand(itertools.product(SGD, ("scaled", "applied", "both", "accumulated"), (False, True)))
    @pytest.mark.default_run("each pair")
    def test_scaled_and_applied_in_different_functions(self, family: str, in_function: str, overflows: bool) -> None:
        variables = [tf.Variable(1.0), tf.Variable(1.0)]
        one, other = sharing(family, *([each] for each in variables), growth_steps=1)

        def scaled(opt: Any, variable: Any, x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = opt.get_scaled_loss(variable * x)
            return tape.gradient(loss, variable)

        def apply(opt: Any, variable: Any, grad: Any) -> None:
            opt.apply_gradients([(opt.get_unscaled_gradients([grad])[0], variable)])

        def in_tf(fn: Any, is_wanted: bool) -> list[Any]:
            each = [functools.partial(fn, opt, variable) for opt, variable in zip((one, other), variables, strict=True)]
            return [tf.function(one_of) for one_of in each] if is_wanted else each

        scale_each = in_tf(scaled, in_function in ("scaled", "both", "accumulated"))
        apply_each = in_tf(apply, in_function in ("applied", "both", "accumulated"))
        # The second overflows in some steps, after which the scale has changed for the first too.
        for step in range(4):
            first, second = tf.constant(1.0), tf.constant(INF if overflows and step % 2 else 1.0)
            grads = [scale_each[0](first)]
            if in_function == "accumulated":
                apply_each[1](scale_each[1](second))
                grads[0] += scale_each[0](first)
                apply_each[0](grads[0] / 2.0)
            else:
                grads.append(scale_each[1](second))
                apply_each[1](grads[1])
                apply_each[0](grads[0])
        self.assertAlmostEqual(float(variables[0]), 1.0 - 4 * RATE, places=6)
        self.assertAlmostEqual(float(variables[1]), 1.0 - (2 if overflows else 4) * RATE, places=6)

    @parameterized.expand(SGD)
    def test_state_and_settings_are_those_of_both(self, family: str) -> None:
        one, other = sharing(family, [], [])
        one.set_scale(32)
        # Who comes later starts with the scale of now.
        third = mpls.keras.LossScaleOptimizer(SGD[family](RATE), share_scale_with=other)
        self.assertEqual([float(each.get_scaled_loss(1.0)) for each in (one, other, third)], [32.0] * 3)
        other.load_state_dict({**other.state_dict(), "scale": 2.0})
        one.configure(growth_steps=5)
        self.assertEqual([float(each.loss_scale) for each in (one, other, third)], [2.0] * 3)
        self.assertEqual([each.dynamic_growth_steps for each in (one, other, third)], [5] * 3)
        self.assertIs(one.dynamic_counter, third.dynamic_counter)
        for change, scale in (
            (lambda: one.set_scale(32), 32.0),
            (lambda: other.set_scale(64), 64.0),
            (lambda: one.configure(max_scale=32), 32.0),
            (lambda: other.configure(max_scale=16), 16.0),
            (lambda: one.load_state_dict({**one.state_dict(), "scale": 4.0}), 4.0),
            (lambda: one.load_state_dict({**one.state_dict(), "scale": 8.0}), 8.0),
        ):
            change()
            self.assertEqual([float(each.get_scaled_loss(1.0)) for each in (one, other, third)], [scale] * 3)

    def test_in_a_session_a_step_has_ended_before_its_scale_is_taken_over(self) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            weight = v1.get_variable("weight", initializer=1.0, use_resource=True)
            opts = sharing("legacy", [], [])
            steps = [opt.minimize(lambda: weight * INF, [weight]) for opt in opts]
            scales = [opt.get_scaled_loss(tf.constant(1.0)) for opt in opts]
            session.run(v1.global_variables_initializer())
            for step, expected in zip([*steps, *steps], ([4.0, 8.0], [4.0, 2.0], [1.0, 2.0], [1.0, 1.0]), strict=True):
                session.run(step)
                self.assertEqual(session.run(scales), expected)

    @parameterized.expand(SGD)
    def test_configs_and_copies_have_scales_of_their_own(self, family: str) -> None:
        one, other = sharing(family, [], [])
        made = [mpls.keras.LossScaleOptimizer.from_config(other.get_config())]
        if family != "new":
            # tf_keras does not copy new optimizers.
            made.append(copy.deepcopy(other))
        if family == "keras3":
            made.append(pickle.loads(pickle.dumps(other)))
        one.set_scale(64)
        self.assertEqual([float(each.loss_scale) for each in made], [8.0] * len(made))
        self.assertEqual({each.dynamic_growth_steps for each in made}, {3})

    @parameterized.expand(itertools.product(SGD, (False, True), (False, True)))
    def test_a_checkpoint_warns_if_only_one_side_shares(self, family: str, was_shared: bool, is_shared: bool) -> None:
        def made(shares: bool) -> list[Any]:
            if shares:
                return list(sharing(family, [], []))
            return [mpls.keras.LossScaleOptimizer(SGD[family](RATE), initial_scale=8) for _ in range(2)]

        saved, restored = made(was_shared), made(is_shared)
        for opt, scale in zip(saved, (2.0, 4.0), strict=True):
            opt.set_scale(scale)
        with warned() as texts:
            path = tf.train.Checkpoint(one=saved[0], other=saved[1]).save(f"{self.folder}/shared")
            for _ in range(2):
                tf.train.Checkpoint(one=restored[0], other=restored[1]).restore(path).expect_partial()
        scales = [float(opt.loss_scale) for opt in restored]
        if was_shared:
            # The checkpoint holds it once.
            place = "dynamic_scale" if family == "keras3" else "loss_scale/current_loss_scale"
            keys = [key for key, _ in tf.train.list_variables(path) if place in key]
            self.assertEqual(keys, [f"one/{place}/.ATTRIBUTES/VARIABLE_VALUE"])
        if was_shared is is_shared:
            self.assertEqual((texts, scales), ([], [4.0, 4.0] if is_shared else [2.0, 4.0]))
            return
        self.assertEqual(scales, [2.0, 2.0] if is_shared else [4.0, 8.0])
        (text,) = texts
        kept = r"other shared.*stays at 8\.0\..* or call set_scale\(\)"
        self.assertRegex(text, "other had a loss scale of its own" if is_shared else kept)

    @parameterized.expand(SGD)
    def test_fit_and_files(self, family: str) -> None:
        framework = FRAMEWORKS[family]
        one, other = sharing(family, [], [])
        models = []
        for opt in (one, other):
            model = framework.Sequential([framework.layers.Input([1]), framework.layers.Dense(1)])
            model.compile(opt, "mse", jit_compile=False)
            model.fit(np.ones([8, 1]), np.ones([8, 1]), batch_size=4, verbose=0)
            models.append(model)
        self.assertEqual((float(one.loss_scale), int(other.dynamic_counter)), (16.0, 1))
        # Each scales losses by the value after its own last step.
        self.assertEqual([float(each.get_scaled_loss(1.0)) for each in (one, other)], [8.0, 16.0])
        path = f"{self.folder}/model.keras"
        mpls.keras.save_model(models[1], path)
        loaded = mpls.keras.load_model(path).optimizer
        self.assertEqual(loaded.state_dict(), other.state_dict())
        one.set_scale(2)
        self.assertEqual(float(loaded.loss_scale), 16.0)

    @parameterized.expand(SGD)
    def test_a_fixed_scale(self, family: str) -> None:
        one = mpls.keras.LossScaleOptimizer(SGD[family](RATE), dynamic=False, initial_scale=8)
        other = mpls.keras.LossScaleOptimizer(SGD[family](RATE), share_scale_with=one)
        self.assertEqual((float(other.loss_scale), other.dynamic), (8.0, False))
        weight = tf.Variable(1.0)
        for opt in (one, other):
            opt.build([weight]) if family != "legacy" else None
            opt.minimize(lambda: weight * 1.0, [weight])
        self.assertEqual(float(weight), 0.0)
        keys = [name for name, _ in tf.train.list_variables(tf.train.Checkpoint(opt=other).write(f"{self.folder}/c"))]
        self.assertEqual([key for key in keys if "scale" in key], [])
        with self.assertRaisesRegex(ValueError, "max_consecutive_skips"):
            mpls.keras.LossScaleOptimizer(SGD[family](RATE), share_scale_with=one, max_consecutive_skips=3)

    def test_a_fixed_scale_in_a_session(self) -> None:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            one = mpls.keras.LossScaleOptimizer(SGD["legacy"](RATE), dynamic=False, initial_scale=8)
            other = mpls.keras.LossScaleOptimizer(SGD["legacy"](RATE), share_scale_with=one)
            weight = tf.compat.v1.get_variable("weight", initializer=1.0, use_resource=True)
            steps = [opt.minimize(lambda: weight * 1.0, [weight]) for opt in (one, other)]
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(steps)
            self.assertEqual(session.run(weight), 0.0)

    @parameterized.expand(itertools.product(SGD, SGD))
    def test_over_other_families(self, family: str, of_other: str) -> None:
        one = mpls.keras.LossScaleOptimizer(SGD[family](RATE), initial_scale=8)
        inner = SGD[of_other](RATE)
        if (family == "keras3") is (of_other == "keras3"):
            other = mpls.keras.LossScaleOptimizer(inner, share_scale_with=one)
            one.set_scale(4)
            self.assertEqual(float(other.loss_scale), 4.0)
        else:
            with self.assertRaisesRegex(ValueError, "share_scale_with must wrap an optimizer of the same Keras"):
                mpls.keras.LossScaleOptimizer(inner, share_scale_with=one)
            # What was refused can be wrapped.
            mpls.keras.LossScaleOptimizer(inner)

    @parameterized.expand(
        [
            ("dynamic", False),
            ("initial_scale", 8),
            ("dynamic_growth_steps", 3),
            ("min_scale", 2.0),
            ("skip_nonfinite", True),
        ]
    )
    def test_no_setting_beside_it(self, name: str, value: Any) -> None:
        other = mpls.keras.LossScaleOptimizer(SGD["new"](RATE))
        with self.assertRaisesRegex(ValueError, f"LossScaleOptimizer: {name} must be left out beside share_scale_with"):
            mpls.keras.LossScaleOptimizer(SGD["new"](RATE), share_scale_with=other, **{name: value})

    def test_with_what_it_cannot_be_shared(self) -> None:
        native = tf_keras.mixed_precision.LossScaleOptimizer(SGD["new"](RATE))
        others = ("dynamic", mpls.v1.DynamicLossScale(8.0), SGD["new"](RATE), native)
        for value in others:
            with self.assertRaisesRegex(TypeError, "share_scale_with must be another LossScaleOptimizer of mpls"):
                mpls.keras.LossScaleOptimizer(SGD["new"](RATE), share_scale_with=value)
