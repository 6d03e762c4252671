"""A step with a bad gradient, in each family and mode: afterwards all is as if the step had not been there.

The cases cross what is bad, where it stands, at which moment of training, and on which replica or in which micro-batch.
"""

from __future__ import annotations

import contextlib
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1
from tests.options.model import MAX, Model
from tests.options.trainers import EAGER, MODES, RATE, REPLICAS, SESSION, SKIPS_COUNT, XLA, over_keras

v1 = tf.compat.v1

SCALE = 8.0
# A gradient of the largest number is finite; multiplied by the scale it is not.
BAD = {"nan": float("nan"), "inf": float("inf"), "minus_inf": float("-inf"), "overflow": MAX}
# The variables by their place in the list; the gradient of the one in the middle is sparse; the loss spoils all.
SHAPES = {"first": [2], "middle": [4, 2], "last": [3]}
PLACES = (*SHAPES, "loss")
# Options of the scale, good steps before the bad one, and whether a checkpoint is restored right before it.
MOMENTS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "first_step": ({}, 0, False),
    "growth": ({}, 1, False),
    "floor": ({"min_scale": SCALE}, 3, False),
    "cap": ({"max_scale": SCALE}, 3, False),
    "restored": ({}, 1, True),
}
WHERE = ("everywhere", "first_part", "last_part")


def _adam_of_v1(initial: float, growth_steps: int, *, count_steps: bool, **settings: Any) -> Any:
    loss_scale = mpls.v1.DynamicLossScale(initial, growth_steps, **settings)
    return mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(RATE), loss_scale, count_steps=count_steps)


FAMILIES: dict[str, Callable[..., Any]] = {
    "v1": _adam_of_v1,
    "legacy": over_keras(tf_keras.optimizers.legacy.Adam),
    "new": over_keras(lambda rate: tf_keras.optimizers.Adam(rate, use_ema=True)),
    "keras3": over_keras(lambda rate: keras.optimizers.Adam(rate, use_ema=True)),
}


class Training:
    """Three variables, trained with gradients that are chosen."""

    def __init__(self, family: str, mode: str, parts: int, stack: contextlib.ExitStack, **settings: Any) -> None:
        self._family, self._mode, self._parts = family, mode, parts
        self._strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) if mode == REPLICAS else None
        if mode == SESSION:
            stack.enter_context(tf.Graph().as_default())
        with self._strategy.scope() if self._strategy else contextlib.nullcontext():
            self.opt = FAMILIES[family](SCALE, 2, count_steps=True, **settings)
            self._variables = [self._variable(name, shape) for name, shape in SHAPES.items()]
            if family == "keras3":
                self.opt.build(self._variables)
        self._session: Any = None
        if mode == SESSION:
            self._factors: Any = v1.placeholder(tf.float32, [2, 4])
            self._step = self._apply()
            self._session = stack.enter_context(v1.Session())
            self._session.run(v1.global_variables_initializer())
            self._saver = v1.train.Saver()
            return
        self._factors = tf.Variable(tf.ones([2, 4]))
        run: Callable[[], Any] = self._replica_step
        if self._strategy is not None:
            run = lambda: self._strategy.run(self._replica_step)  # noqa: E731
        self._step = run if mode == EAGER else tf.function(run, jit_compile=True if mode == XLA else None)

    def _variable(self, name: str, shape: list[int]) -> Any:
        value = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        if self._family == "keras3":
            return keras.Variable(value, name=name)
        if self._mode == SESSION:
            return v1.Variable(value, name=name, use_resource=True)
        return tf.Variable(value, name=name)

    def _loss(self, part: Any) -> Any:
        factors = tf.unstack(tf.gather(self._factors, part))
        first, middle, last = (each.value if self._family == "keras3" else each for each in self._variables)
        values = tf.reduce_sum(first), tf.reduce_sum(tf.gather(middle, [1, 2, 1])), tf.reduce_sum(last)
        return sum(factor * value for factor, value in zip(factors, values, strict=False)) * factors[3]

    def _gradients(self, part: Any) -> list[Any]:
        """Return the unscaled gradients of a micro-batch, or of a replica's batch."""
        if self._family == "v1":
            return [grad for grad, _ in self.opt.compute_gradients(lambda: self._loss(part), self._variables)]
        values = [each.value if self._family == "keras3" else each for each in self._variables]
        if self._mode == SESSION:
            return self.opt.get_unscaled_gradients(tf.gradients(self.opt.get_scaled_loss(self._loss(part)), values))
        with tf.GradientTape() as tape:
            scaled_loss = self.opt.get_scaled_loss(self._loss(part))
        return self.opt.get_unscaled_gradients(tape.gradient(scaled_loss, values))

    def _replica_step(self) -> None:
        self._apply()

    def _apply(self) -> Any:
        context = tf.distribute.get_replica_context()
        grads = self._gradients(context.replica_id_in_sync_group if self._strategy else 0)
        if self._parts == 2 and not self._strategy:
            more = self._gradients(1)
            grads = [tf.convert_to_tensor(a) + tf.convert_to_tensor(b) for a, b in zip(grads, more, strict=True)]
        return self.opt.apply_gradients(list(zip(grads, self._variables, strict=True)))

    def take(self, factors: np.ndarray) -> None:
        if self._session is not None:
            self._session.run(self._step, {self._factors: factors})
        else:
            self._factors.assign(factors)
            self._step()

    def save_and_restore(self, between: np.ndarray) -> None:
        """Save, take a step, and restore what was saved."""
        with tempfile.TemporaryDirectory() as folder:
            if self._session is not None:
                path = self._saver.save(self._session, f"{folder}/model")
                self.take(between)
                self._saver.restore(self._session, path)
                return
            held = {f"v{number}": variable for number, variable in enumerate(self._variables)}
            checkpoint = tf.train.Checkpoint(opt=self.opt, **held)
            path = checkpoint.write(f"{folder}/model")
            self.take(between)
            checkpoint.read(path).assert_existing_objects_matched()

    def count_a_step(self) -> None:
        """Advance the inner optimizer's counter, as a skipped step does in some families."""
        if self._session is not None:
            self._session.run(self.opt.iterations.assign_add(1))
        else:
            self.opt.iterations.assign(self.opt.iterations + 1)

    def _number(self, tensor: Any) -> Any:
        return np.array(self._session.run(tensor) if self._session is not None else tf.convert_to_tensor(tensor))

    def state(self) -> list[Any]:
        """Return the values of the variables and of all that the inner optimizer keeps, on each replica."""
        inner = self.opt._optimizer if self._family == "v1" else self.opt.inner_optimizer
        kept = inner.variables() if callable(inner.variables) else inner.variables
        replicas = [
            each
            for variable in [*self._variables, *kept]
            for each in getattr(getattr(variable, "value", variable), "values", None) or [variable]
        ]
        return [self._number(each) for each in replicas]

    def shown(self) -> dict[str, Any]:
        opt = self.opt
        scale = opt._loss_scale() if self._family == "v1" else opt.loss_scale
        return {
            "scale": float(self._number(scale)),
            "applied_steps": int(self._number(opt.applied_steps)),
            "skipped_steps": int(self._number(opt.skipped_steps)),
        }


def _bad_factors(bad: str, place: str, where: str) -> np.ndarray:
    factors = np.ones([2, 4], np.float32)
    rows = {"everywhere": slice(None), "first_part": 0, "last_part": 1}[where]
    factors[rows, PLACES.index(place)] = BAD[bad]
    return factors


CELLS = [(family, mode) for family in FAMILIES for mode in MODES[family]]
# In each cell each kind and each place are met once; which of them meet, and when, goes around the cells.
CASES = [
    (f"{family}_{mode}_{number}", f"{family}_{mode}", list(BAD)[number], PLACES[(number + shift) % 4], moment, where)
    for shift, (family, mode) in enumerate(CELLS)
    for number in range(4)
    for moment in [list(MOMENTS)[(4 * shift + number) % 5]]
    for where in [WHERE[(shift + number) % 3]]
]


class BadStepTest(unittest.TestCase):
    @parameterized.expand(CASES)
    @pytest.mark.default_run("one case", by=lambda _, *values: values)
    def test_it_changes_the_scale_and_nothing_else(
        self, name: str, cell: str, bad: str, place: str, moment: str, where: str
    ) -> None:
        family, _, mode = cell.partition("_")
        settings, before, restored = MOMENTS[moment]
        parts = 1 if where == "everywhere" else 2
        good = np.ones([2, 4], np.float32)
        model = Model(SCALE, 2, skip_counts_step=SKIPS_COUNT[family], **settings)
        with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
            trained = Training(family, mode, parts, first, **settings)
            for _ in range(before):
                trained.take(good)
                model.step(True)
            if restored:
                trained.save_and_restore(good)
            trained.take(_bad_factors(bad, place, where))
            model.step(False)
            self.assertEqual(trained.shown(), self._promised(model))
            for _ in range(2):
                trained.take(good)
                model.step(True)
            self.assertEqual(trained.shown(), self._promised(model))
            state = trained.state()

            control = Training(family, mode, parts, second, **settings)
            for number in range(before + 2):
                if number == before and SKIPS_COUNT[family]:
                    control.count_a_step()
                control.take(good)
            for found, expected in zip(state, control.state(), strict=True):
                np.testing.assert_array_equal(found, expected)
                self.assertTrue(np.all(np.isfinite(found)))

    @staticmethod
    def _promised(model: Model) -> dict[str, Any]:
        shown = model.shown()
        return {name: shown[name] for name in ("scale", "applied_steps", "skipped_steps")}


class UsersError(Exception):
    """What a user's code raises."""


def _failing(base: type, method: str) -> Any:
    """Return a class of optimizers that raise instead of applying a gradient while its attribute says so."""

    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self).fails:
            raise UsersError
        return getattr(base, method)(self, *args, **kwargs)

    return type("Failing", (base,), {"fails": False, method: update})


INNER: dict[str, tuple[type, str]] = {
    "v1": (v1.train.MomentumOptimizer, "_resource_apply_dense"),
    "legacy": (tf_keras.optimizers.legacy.SGD, "_resource_apply_dense"),
    "new": (tf_keras.optimizers.SGD, "update_step"),
    "keras3": (keras.optimizers.SGD, "update_step"),
}


class ExceptionTest(unittest.TestCase):
    """What raises in a step leaves an optimizer that goes on as if the step had not been there."""

    @parameterized.expand([(f"{family}_{mode}", family, mode) for family in INNER for mode in ("eager", "function")])
    @pytest.mark.default_run("each value")
    def test_out_of_the_inner_optimizer_and_the_loss(self, name: str, family: str, mode: str) -> None:
        base, method = INNER[family]
        failing = _failing(base, method)
        inner = failing(0.25, 0.5)
        if family == "v1":
            loss_scale = mpls.v1.DynamicLossScale(SCALE, 100)
            opt: Any = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, loss_scale, count_steps=True)
        else:
            opt = mpls.keras.LossScaleOptimizer(inner, initial_scale=SCALE, count_steps=True)
        variable = keras.Variable([1.0, 2.0]) if family == "keras3" else tf.Variable([1.0, 2.0])
        value = variable.value if family == "keras3" else variable
        factor = tf.Variable(1.0)
        if family == "keras3":
            opt.build([variable])

        def loss(fails: bool) -> Any:
            if fails:
                raise UsersError
            return tf.reduce_sum(tf.convert_to_tensor(value) * factor)

        def step(fails: bool = False) -> None:
            if family == "v1":
                opt.minimize(lambda: loss(fails), var_list=[variable])
                return
            with tf.GradientTape() as tape:
                scaled_loss = opt.get_scaled_loss(loss(fails))
            grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, [value]))
            opt.apply_gradients(list(zip(grads, [variable], strict=True)))

        def take(fails: bool = False) -> None:
            # Where a first trace has made variables and raised, TensorFlow leaves a function that does nothing.
            (tf.function(step) if mode == "function" else step)(fails)

        def seen() -> tuple[Any, ...]:
            scale = opt._loss_scale() if family == "v1" else opt.loss_scale
            weights = tuple(float(each) for each in tf.convert_to_tensor(value))
            return float(scale), int(opt.applied_steps), int(opt.skipped_steps), weights

        for expected in ((SCALE, 1, 0, (0.75, 1.75)), (SCALE, 2, 0, (0.375, 1.375))):
            before = seen()
            failing.fails = True
            with self.assertRaises(UsersError):
                take()
            failing.fails = False
            with self.assertRaises(UsersError):
                take(fails=True)
            self.assertEqual(seen(), before)
            take()
            self.assertEqual(seen(), expected)
        factor.assign(float("nan"))
        take()
        self.assertEqual(seen(), (SCALE / 2, 2, 1, (0.375, 1.375)))
