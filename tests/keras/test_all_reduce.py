"""Classes that all-reduce libraries make of an optimizer's own, of each form that they have had, around and within."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
from tests.core.behavior import behaving_as

LEGACY, NEW, KERAS_3 = "legacy", "new", "keras3"
FRAMEWORKS: dict[str, Any] = {LEGACY: tf_keras, NEW: tf_keras, KERAS_3: keras}
OPTIMIZERS: dict[str, Any] = {
    LEGACY: tf_keras.optimizers.legacy,
    NEW: tf_keras.optimizers,
    KERAS_3: keras.optimizers,
}
RELEASES = ("2.2", "2.3", "2.4", None)
# What the class of the library does with the gradients of this process.
BARE, PAIRS, COMPUTING = "bare", "pairs", "computing"
INF = float("inf")


def average(grads: Any) -> list[Any]:
    """Average with a second worker, whose gradients are three times those of this one."""
    return [None if grad is None else (grad + grad * 3.0) / 2.0 for grad in grads]


def distributed(optimizer: Any, form: str, base: Any) -> Any:
    """Return an optimizer of a class that is made at run time, from the config, as all-reduce libraries do it."""
    returns_pairs = form == PAIRS

    class Reducing(base):  # type: ignore[misc]
        _HAS_AGGREGATE_GRAD = True

        def __init__(self, **kwargs: Any) -> None:
            # Before the constructor, as they do.
            self._name = f"Distributed{self.__class__.__base__.__name__}"
            self._was_reduced = False
            super(self.__class__, self).__init__(**kwargs)

        def _reduce(self, grads: Any) -> Any:
            self._was_reduced = True
            return average(grads)

        def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
            result = super(self.__class__, self).apply_gradients(*args, **kwargs)
            if not self._was_reduced and form != COMPUTING:
                raise RuntimeError("apply_gradients without _aggregate_gradients")
            return result

        if form == COMPUTING:

            def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> Any:
                pairs = super(self.__class__, self)._compute_gradients(loss, var_list, grad_loss, tape=tape)
                grads, variables = zip(*pairs, strict=True)
                return list(zip(self._reduce(grads), variables, strict=True))

            def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> Any:
                pairs = super(self.__class__, self).compute_gradients(loss, var_list, tape=tape)
                grads, variables = zip(*pairs, strict=True)
                return list(zip(self._reduce(grads), variables, strict=True))

            def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
                return super(self.__class__, self)._aggregate_gradients(grads_and_vars)
        else:

            def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
                grads, variables = zip(*grads_and_vars, strict=True)
                reduced = self._reduce(grads)
                return list(zip(reduced, variables, strict=True)) if returns_pairs else tuple(reduced)

    namespace = dict(vars(Reducing))
    cls = type(optimizer.__class__.__name__, (optimizer.__class__,), namespace)
    return cls.from_config(optimizer.get_config())


def wrapped(family: str, form: str, place: str) -> Any:
    inner = OPTIMIZERS[family].SGD(0.25)
    loss_scale = mpls.experimental.DynamicLossScale(8.0, 2)
    base = OPTIMIZERS[family].Optimizer
    if place == "within":
        return mpls.experimental.LossScaleOptimizer(distributed(inner, form, base), loss_scale)
    return distributed(mpls.experimental.LossScaleOptimizer(inner, loss_scale), form, base)


def loop_step(optimizer: Any, variable: Any, factor: Any, **kwargs: Any) -> None:
    with tf.GradientTape() as tape:
        loss = optimizer.get_scaled_loss(tf.reduce_sum(variable) * factor)
    grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [variable]))
    optimizer.apply_gradients(zip(grads, [variable], strict=True), **kwargs)


def cases(forms: tuple[str, ...], places: tuple[str, ...], families: tuple[str, ...] = (LEGACY,)) -> Any:
    return parameterized.expand(
        [
            (f"{family}_{release}_{place}_{form}", family, release, place, form)
            for family in families
            for release in RELEASES
            for place in places
            for form in forms
            # From 2.4 on nobody asks the class around; those libraries then had another form.
            if place == "within" or form == COMPUTING or release in ("2.2", "2.3")
        ]
    )


class StepsTest(unittest.TestCase):
    """A step of two, of which one overflows; the average is twice the gradient."""

    def check(self, optimizer: Any, step: Any, variable: Any) -> None:
        for factor in (1.0, INF, 1.0):
            step(tf.constant(factor))
        np.testing.assert_array_equal(variable, [0.0, 1.0])
        self.assertEqual((float(optimizer._loss_scale()), int(optimizer.dynamic_counter)), (4.0, 1))

    @cases((BARE, PAIRS, COMPUTING), ("within", "around"))
    @pytest.mark.default_run("one case")
    def test_minimize(self, case: str, family: str, release: str | None, place: str, form: str) -> None:
        for is_function in (False, True):
            with self.subTest(is_function=is_function), behaving_as(release):
                optimizer, variable = wrapped(family, form, place), tf.Variable([1.0, 2.0])

                def step(factor: Any, optimizer: Any = optimizer, variable: Any = variable) -> None:
                    optimizer.minimize(lambda: tf.reduce_sum(variable) * factor, [variable])

                self.check(optimizer, tf.function(step) if is_function else step, variable)

    @cases((BARE, PAIRS), ("within", "around"))
    @pytest.mark.default_run("one case", by=lambda case, family, release, place, form: (release, place, form))
    def test_a_loop(self, case: str, family: str, release: str | None, place: str, form: str) -> None:
        for is_function in (False, True):
            with self.subTest(is_function=is_function), behaving_as(release):
                optimizer, variable = wrapped(family, form, place), tf.Variable([1.0, 2.0])

                def step(factor: Any, optimizer: Any = optimizer, variable: Any = variable) -> None:
                    loop_step(optimizer, variable, factor)

                self.check(optimizer, tf.function(step) if is_function else step, variable)

    @cases((COMPUTING,), ("within", "around"), (LEGACY, NEW))
    @pytest.mark.default_run("one case")
    def test_gradients_that_the_loop_has_averaged(
        self, case: str, family: str, release: str | None, place: str, form: str
    ) -> None:
        for is_function in (False, True):
            with self.subTest(is_function=is_function), behaving_as(release):
                optimizer, variable = wrapped(family, form, place), tf.Variable([1.0, 2.0])

                def step(factor: Any, optimizer: Any = optimizer, variable: Any = variable) -> None:
                    loop_step(optimizer, variable, factor * 2.0, experimental_aggregate_gradients=False)

                self.check(optimizer, tf.function(step) if is_function else step, variable)
                self.assertFalse(getattr(optimizer, "_was_reduced", False))

    @parameterized.expand(
        [(f"{f}_{r}_{form}", f, r, form) for f in FRAMEWORKS for r in ("2.2", "2.3") for form in (BARE, PAIRS)]
    )
    @pytest.mark.default_run("one case", by=lambda case, family, release, form: (family, release, form))
    def test_all_families_up_to_2_3(self, case: str, family: str, release: str, form: str) -> None:
        with behaving_as(release):
            optimizer, variable = wrapped(family, form, "around"), tf.Variable([1.0, 2.0])
            self.check(optimizer, tf.function(lambda factor: loop_step(optimizer, variable, factor)), variable)

    @parameterized.expand([(f"{r}_{place}", r, place) for r in RELEASES for place in ("within", "around")])
    @pytest.mark.default_run("one case", by=lambda case, release, place: (release, place))
    def test_new_optimizers(self, case: str, release: str | None, place: str) -> None:
        with behaving_as(release):
            optimizer, variable = wrapped(NEW, COMPUTING, place), tf.Variable([1.0, 2.0])
            step = tf.function(lambda factor: optimizer.minimize(lambda: tf.reduce_sum(variable) * factor, [variable]))
            self.check(optimizer, step, variable)

    @parameterized.expand([(BARE,), (PAIRS,)])
    @pytest.mark.default_run("one case")
    def test_new_optimizers_with_an_aggregation_of_their_own(self, form: str) -> None:
        class Reducing(tf_keras.optimizers.SGD):  # type: ignore[misc]
            def aggregate_gradients(self, grads_and_vars: Any) -> Any:
                grads, variables = zip(*grads_and_vars, strict=True)
                return average(grads) if form == BARE else list(zip(average(grads), variables, strict=True))

        optimizer = mpls.keras.LossScaleOptimizer(Reducing(0.25), initial_scale=8, dynamic_growth_steps=2)
        variable = tf.Variable([1.0, 2.0])
        self.check(optimizer, tf.function(lambda factor: loop_step(optimizer, variable, factor)), variable)

    def test_fewer_gradients_than_variables(self) -> None:
        class Losing(tf_keras.optimizers.legacy.SGD):  # type: ignore[misc]
            def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
                return [grad for grad, _ in grads_and_vars][:1]

        optimizer = mpls.keras.LossScaleOptimizer(Losing(0.25))
        variables = [tf.Variable(1.0), tf.Variable(2.0)]
        with self.assertRaises(ValueError):
            optimizer.minimize(lambda: variables[0] * variables[1], variables)
        self.assertEqual([float(each) for each in variables], [1.0, 2.0])


class FitTest(unittest.TestCase):
    @cases((BARE, PAIRS, COMPUTING), ("within", "around"))
    @pytest.mark.default_run("one case", by=lambda case, family, release, place, form: (place,))
    def test_legacy(self, case: str, family: str, release: str | None, place: str, form: str) -> None:
        self.fit(family, release, wrapped, (family, form, place))

    @parameterized.expand([(f"{r}_{place}", r, place) for r in RELEASES for place in ("within", "around")])
    @pytest.mark.default_run("one case", by=lambda case, release, place: (place,))
    def test_new(self, case: str, release: str | None, place: str) -> None:
        self.fit(NEW, release, wrapped, (NEW, COMPUTING, place))

    @parameterized.expand([(f"{f}_{form}", f, form) for f in (NEW, KERAS_3) for form in (BARE, PAIRS)])
    @pytest.mark.default_run("one case", by=lambda case, family, form: (family, form))
    def test_other_families_up_to_2_3(self, case: str, family: str, form: str) -> None:
        self.fit(family, "2.3", wrapped, (family, form, "around"))

    def fit(self, family: str, release: str | None, make: Any, args: tuple[Any, ...]) -> None:
        framework = FRAMEWORKS[family]
        with behaving_as(release):
            optimizer = make(*args)
            model = framework.Sequential([framework.Input([2]), framework.layers.Dense(1, use_bias=False)])
            model.set_weights([np.array([[1.0], [1.0]], "float32")])
            model.compile(optimizer, lambda true, predicted: tf.reduce_mean(predicted))
            self.assertIs(model.optimizer, optimizer)
            inputs = np.ones([6, 2], "float32")
            inputs[2:4] = INF
            model.fit(inputs, np.ones([6, 1], "float32"), batch_size=2, shuffle=False, verbose=0)
        np.testing.assert_array_equal(model.get_weights()[0].ravel(), [0.0, 0.0])
        self.assertEqual((float(optimizer._loss_scale()), int(optimizer.dynamic_counter)), (4.0, 1))
