"""Mistakes in the order of calls are named once: scaling left out, scaling done twice.

Each step is judged by its own calls, whatever came before; and what only looks like a mistake is none.
"""

from __future__ import annotations

import contextlib
import functools
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.contrib
import mpls.keras
import mpls.v1
from mpls.errors import CallOrderError
from tests.keras.families import SGD
from tests.options.trainers import FAMILIES, RATE, contrib, fixed, variable_of
from tests.warned import warned

v1 = tf.compat.v1

NEVER = "compute_gradients() never was"
AGAIN = "got what it has returned before"
WAYS = {"eager": lambda fn: fn, "function": tf.function, "xla": tf.function(jit_compile=True)}


PROGRAMS: dict[str, Callable[[], Any]] = {
    name: functools.partial(make, 8.0, 2) for name, make in {**FAMILIES, "contrib": contrib}.items()
}
GRAPH_OPTIMIZERS = [
    *((name, PROGRAMS[name]) for name in ("v1", "contrib")),
    *((f"fixed_{name}", functools.partial(fixed, name)) for name in ("v1", "contrib")),
]


class NeverScaledTest(unittest.TestCase):
    """Graph-mode families: gradients are applied, and no loss was ever scaled."""

    @parameterized.expand(GRAPH_OPTIMIZERS)
    def test_in_a_session(self, name: str, make: Callable[[], Any]) -> None:
        with tf.Graph().as_default(), warned() as texts:
            opt, weight = make(), v1.get_variable("w", initializer=1.0)
            opt.apply_gradients([(v1.gradients(weight**2, weight)[0], weight)])
        self.assertEqual([NEVER in text for text in texts], [True], texts)

    @parameterized.expand(GRAPH_OPTIMIZERS)
    def test_who_reads_the_scale_may_scale_by_hand(self, name: str, make: Callable[[], Any]) -> None:
        with tf.Graph().as_default(), warned() as texts:
            opt, weight = make(), v1.get_variable("w", initializer=1.0)
            scale = opt._loss_scale() if "v1" in name else tf.identity(opt._loss_scale_manager.get_loss_scale())
            opt.apply_gradients([(v1.gradients(weight**2 * scale, weight)[0] / scale, weight)])
        self.assertEqual(texts, [])

    def test_who_scales_by_the_private_method(self) -> None:
        opt, weight = fixed("v1"), tf.Variable(1.0)
        with warned() as texts:
            with tf.GradientTape() as tape:
                loss = opt._scale_loss(weight * 2.0)
            # Unscaled by the number that the program knows.
            opt.apply_gradients([(tape.gradient(loss, weight) / 8.0, weight)])
        self.assertEqual((texts, float(weight)), ([], 1.0 - RATE * 2.0))


class Program:
    """A program with an optimizer and two variables, whose steps are as honest as they are told to be."""

    def __init__(self, family: str) -> None:
        self.is_keras = family in SGD or family == "experimental"
        self.opt = PROGRAMS[family]()
        self.variables = [variable_of(family) for _ in range(2)]
        if family in ("keras3", "new"):
            self.opt.build(self.variables)

    def grads(self, form: str = "", variables: list[Any] | None = None) -> list[Any]:
        """Return the gradients of one loss, with the calls that a form of misuse leaves out."""
        variables = variables or self.variables
        if not (self.is_keras or "no_compute" in form):
            return [grad for grad, _ in self.opt.compute_gradients(self.loss, variables)]
        with tf.GradientTape() as tape:
            loss = self.loss()
            if self.is_keras and "no_scale" not in form:
                loss = self.opt.get_scaled_loss(loss)
        grads = tape.gradient(loss, variables)
        return self.opt.get_unscaled_gradients(grads) if self.is_keras and "no_unscale" not in form else grads

    def loss(self) -> Any:
        return sum(tf.convert_to_tensor(variable) * 2.0 for variable in self.variables)

    def apply(self, grads: list[Any], variables: list[Any] | None = None) -> None:
        self.opt.apply_gradients(list(zip(grads, variables or self.variables, strict=True)))

    def step(self, form: str = "") -> None:
        self.apply(self.grads(form))

    def minimize(self, loss: Any, **kwargs: Any) -> None:
        self.opt.minimize(loss, var_list=self.variables, **kwargs)


def in_a_thread(step: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(step).result()

    return run


def nested(step: Callable[[], Any]) -> Callable[[], Any]:
    inner = tf.function(step)
    return tf.function(lambda: inner())


def on_a_strategy(step: Callable[[], Any]) -> Callable[[], Any]:
    return tf.function(lambda: tf.distribute.get_strategy().run(step))


RUNS = {**WAYS, "nested": nested, "thread": in_a_thread, "strategy": on_a_strategy}
# What a step leaves out.
FORMS = {
    family: ["no_compute"] if family in ("v1", "contrib") else ["no_unscale", "no_scale", "no_scale no_unscale"]
    for family in PROGRAMS
}
FORGOTTEN = {
    "no_compute": "but compute_gradients() never was in this step, so the gradients were computed without",
    "no_unscale": "but get_unscaled_gradients() never was in this step, so the gradients are still multiplied by",
    "no_scale": "but get_scaled_loss() never was in this step, so the gradients are divided by a loss scale",
    "no_scale no_unscale": "but get_scaled_loss() and get_unscaled_gradients() never was in this step, so the",
}
CASES = [
    (f"{family}_{run}_{form.replace(' ', '_')}_in_step_{number}", family, run, form, number)
    for family in PROGRAMS
    for run in RUNS
    for form in FORMS[family]
    for number in (1, 2, 3)
]


class ForgottenTest(unittest.TestCase):
    """Some call of a step is left out, in the first step or after right ones."""

    @parameterized.expand(CASES)
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_is_named_once(self, name: str, family: str, run: str, form: str, number: int) -> None:
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) if run == "strategy" else None
        with strategy.scope() if strategy else contextlib.nullcontext():
            program = Program(family)
            with warned() as texts:
                for _ in range(number - 1):
                    RUNS[run](program.step)()
            self.assertEqual(texts, [])
            if family == "keras3" and form == "no_unscale":
                with self.assertRaisesRegex(CallOrderError, "must be called between"):
                    RUNS[run](lambda: program.step(form))()
                return
            with warned() as texts:
                for _ in range(2):
                    RUNS[run](lambda: program.step(form))()
        expected = FORGOTTEN[form] if family != "keras3" else "but neither scale_loss() nor get_scaled_loss() was in"
        self.assertEqual([expected in text for text in texts], [True], texts)
        self.assertIn("See mpls docs forgotten-scaling", texts[0])

    @parameterized.expand([(f"{family}_{way}", family, way) for family in PROGRAMS for way in ("eager", "function")])
    def test_gradients_that_are_applied_again_are_named(self, name: str, family: str, way: str) -> None:
        program = Program(family)

        def step() -> None:
            grads = program.grads()
            program.apply(grads)
            self.assertEqual(texts, [])
            program.apply(grads)

        with warned() as texts:
            WAYS[way](step)()
        self.assertEqual(["See mpls docs forgotten-scaling" in text for text in texts], [True], texts)

    @parameterized.expand(
        [
            ("abstract", mpls.v1.LossScale, False),
            ("dynamic", mpls.v1.DynamicLossScale, False),
            ("dynamic_as_it_is", mpls.v1.DynamicLossScale, True),
        ]
    )
    def test_only_a_loss_scale_that_records_reads_is_called_forgotten(self, name: str, base: Any, told: bool) -> None:
        class Own(base):
            if not told:
                __call__ = lambda loss_scale: tf.constant(8.0)  # noqa: E731
                update = lambda loss_scale, grads: (None, tf.constant(True))  # noqa: E731
                get_config = lambda loss_scale: {}  # noqa: E731

        opt, variable = tf.compat.v1.train.GradientDescentOptimizer(1), tf.Variable(4.0)
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(opt, Own())
        with warned() as texts:
            opt.apply_gradients([(tf.constant(1.0), variable)])
        self.assertEqual(["See mpls docs forgotten-scaling" in text for text in texts], [True] * told)

    @parameterized.expand(["v1", *SGD])
    def test_a_fixed_scale_of_1_may_be_forgotten(self, family: str) -> None:
        for scale in (1.0, 2.0):
            if family == "v1":
                opt = mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5), scale)
            else:
                opt = mpls.keras.LossScaleOptimizer(SGD[family](0.5), dynamic=False, initial_scale=scale)
            weight = variable_of(family)
            with warned() as texts:
                opt.apply_gradients([(tf.constant(1.0), weight)])
            self.assertEqual(len(texts), int(scale > 1), texts)


def micro_batches(program: Program) -> Callable[[], None]:
    """Unscaled gradients are added up."""
    return lambda: program.apply([tf.add_n(each) for each in zip(*(program.grads() for _ in range(3)), strict=True)])


def scaled_micro_batches(program: Program) -> Callable[[], None]:
    """Scaled gradients are added up."""

    def step() -> None:
        total = [sum(each) for each in zip(*(program.grads("no_unscale") for _ in range(3)), strict=True)]
        program.apply(program.opt.get_unscaled_gradients(total))

    return step


def losses_apart(program: Program) -> Callable[[], None]:
    """The gradients of two losses are applied one after the other, to the same variables."""

    def step() -> None:
        for grads in [program.grads(), program.grads()]:
            program.apply(grads)

    return step


def groups_apart(program: Program) -> Callable[[], None]:
    """The gradients of one loss are applied to one variable after the other."""

    def step() -> None:
        for grad, variable in zip(program.grads(), program.variables, strict=True):
            program.apply([grad], [variable])

    return step


def steps_that_do_not_end(program: Program) -> Callable[[], None]:
    return lambda: (program.grads(), program.step())


def computed_in_a_function(program: Program) -> Callable[[], None]:
    compute = tf.function(program.grads)
    return lambda: program.apply(compute())


def in_branches(program: Program) -> Callable[[], None]:
    """Steps, and only applying, in branches of a graph."""
    flag = tf.Variable(True)

    def step() -> None:
        tf.cond(flag, lambda: program.step() or 0, lambda: 0)
        grads = program.grads()
        tf.cond(flag, lambda: program.apply(grads) or 0, lambda: program.apply([-g for g in grads]) or 0)

    return step


def minimize(program: Program) -> Callable[[], None]:
    return lambda: (program.minimize(program.loss), program.step())


def two_optimizers(program: Program) -> Callable[[], None]:
    """A generator and a critic on one tape."""
    opts = [program.opt, type(program.opt).from_config(program.opt.get_config())]
    for opt, variable in zip(opts, program.variables, strict=True):
        if hasattr(opt, "build"):
            opt.build(program.variables if opt is program.opt else [variable])

    def step() -> None:
        with tf.GradientTape(persistent=True) as tape:
            scaled = [opt.get_scaled_loss(program.loss()) for opt in opts]
        for opt, loss, variable in zip(opts, scaled, program.variables, strict=True):
            opt.apply_gradients([(opt.get_unscaled_gradients(tape.gradient(loss, [variable]))[0], variable)])

    return step


HONEST = [
    micro_batches,
    losses_apart,
    groups_apart,
    steps_that_do_not_end,
    computed_in_a_function,
    in_branches,
    minimize,
]
# In which calls of Keras wrappers stand apart.
HONEST_OF_KERAS = [scaled_micro_batches, two_optimizers]


class NoMistakeTest(unittest.TestCase):
    @parameterized.expand(
        [
            (f"{family}_{way}_{form.__name__}", family, way, form)
            for family in PROGRAMS
            for way in ("eager", "function")
            for form in [*HONEST, *(HONEST_OF_KERAS if family not in ("v1", "contrib") else [])]
        ]
    )
    @pytest.mark.default_run("each value", by=lambda name, family, way, form: (family, way, form.__name__))
    def test_is_not_named(self, name: str, family: str, way: str, form: Callable[[Program], Any]) -> None:
        program = Program(family)
        with warned() as texts:
            step = WAYS[way](form(program))
            for _ in range(3):
                step()
            # A function that is traced again, and a plain step.
            WAYS[way](form(program))()
            WAYS[way](program.step)()
        self.assertEqual(texts, [])

    @parameterized.expand([(f"{f}_{how}", f, how) for f in SGD for how in ("subclass", "instance")])
    def test_methods_of_ones_own_count_as_calls(self, name: str, family: str, how: str) -> None:
        def scaled(opt: Any, loss: Any) -> Any:
            return loss * opt.loss_scale

        def unscaled(opt: Any, grads: list[Any]) -> list[Any]:
            return [grad / opt.loss_scale for grad in grads]

        own, program = {"get_scaled_loss": scaled, "get_unscaled_gradients": unscaled}, Program(family)
        if how == "subclass":
            cls: Any = type("Own", (mpls.keras.LossScaleOptimizer,), own)
            program.opt = cls(SGD[family](RATE))
        else:
            for method, function in own.items():
                setattr(program.opt, method, functools.partial(function, program.opt))
        with warned() as texts:
            for _ in range(2):
                program.step()
        self.assertEqual(texts, [])
        self.assertEqual([float(each) for each in program.variables], [1.0 - 2 * RATE * 2.0] * 2)

    @parameterized.expand(PROGRAMS)
    @pytest.mark.default_run("one case")
    def test_gradients_of_threads(self, family: str) -> None:
        program, found = Program(family), []
        with warned() as texts:
            for _ in range(3):
                in_a_thread(lambda: found.append(program.grads()))()
                program.step()
                program.apply(found.pop())
        self.assertEqual(texts, [])

    @parameterized.expand([("keras_2", False), ("keras_3", True)])
    def test_functions_inside_of_a_step_have_one_style(self, name: str, is_new: bool) -> None:
        program = Program("keras3")
        opt, (weight, _) = program.opt, program.variables

        @tf.function
        def scaled() -> Any:
            with tf.GradientTape() as tape:
                loss = opt.scale_loss(program.loss())
            return tape.gradient(loss, weight.value)

        @tf.function
        def unscaled() -> Any:
            return program.grads(variables=[weight.value])[0]

        @tf.function
        def unscaled_inside(grad: Any) -> Any:
            return opt.get_unscaled_gradients([grad])[0]

        def partly() -> Any:
            with tf.GradientTape() as tape:
                loss = opt.get_scaled_loss(program.loss())
            return unscaled_inside(tape.gradient(loss, weight.value))

        def step(grad: Callable[[], Any]) -> Callable[[], None]:
            return tf.function(lambda: opt.apply_gradients([(grad(), weight)]))

        with warned() as texts:
            # Some are not traced again in the functions around.
            for grad in (scaled, scaled, scaled) if is_new else (unscaled, partly, unscaled):
                step(grad)()
        self.assertEqual(texts, [])
        # Each gradient is 2.
        trained = 1.0 - 3 * RATE * 2.0
        self.assertEqual(float(weight), trained)
        for mixed in (
            step(unscaled if is_new else scaled),
            lambda: opt.apply([unscaled()], [weight]),
            lambda: opt.apply_gradients([(scaled(), weight)]),
        ):
            with self.assertRaisesRegex(CallOrderError, "must know whether gradients are unscaled"):
                mixed()
        self.assertEqual(float(weight), trained)

    def test_a_function_after_a_step_of_the_other_style(self) -> None:
        program = Program("keras3")
        with tf.GradientTape() as tape:
            loss = program.opt.scale_loss(program.loss())
        program.opt.apply(tape.gradient(loss, [each.value for each in program.variables]), program.variables)
        grads = tf.function(program.grads)()
        with self.assertRaisesRegex(CallOrderError, "must know whether gradients are unscaled"):
            program.apply(grads)

    @parameterized.expand(["v1", "legacy"])
    def test_two_ops_of_a_session(self, family: str) -> None:
        """A session runs one or the other."""
        with tf.Graph().as_default(), warned() as texts:
            opt, weight = PROGRAMS[family](), v1.get_variable("w", initializer=1.0, use_resource=True)
            if family == "v1":
                pairs = opt.compute_gradients(weight * 2.0, [weight])
            else:
                grads = tf.gradients(opt.get_scaled_loss(weight * 2.0), [weight])
                pairs = [(opt.get_unscaled_gradients(grads)[0], weight)]
            opt.apply_gradients(pairs)
            opt.apply_gradients([(tf.clip_by_value(pairs[0][0], -1.0, 1.0), weight)])
        self.assertEqual(texts, [])


class MinimizedTwiceTest(unittest.TestCase):
    """The loss that `minimize` scales is scaled already."""

    @parameterized.expand([(f"{family}_{way}", family, way) for family in SGD for way in WAYS])
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_is_an_error(self, name: str, family: str, way: str) -> None:
        program = Program(family)
        opt = program.opt

        def with_tape() -> None:
            with tf.GradientTape() as tape:
                loss = opt.get_scaled_loss(program.loss())
            program.minimize(loss, tape=tape)

        def of_callable() -> None:
            def loss() -> Any:
                return opt.get_scaled_loss(program.loss())

            program.minimize(loss)

        for step in (of_callable, with_tape):
            with self.assertRaisesRegex(CallOrderError, r"minimize\(\) must get a loss that is not scaled"):
                WAYS[way](step)()
        self.assertEqual([float(variable) for variable in program.variables], [1.0, 1.0])
        with warned() as texts:
            WAYS[way](lambda: program.minimize(program.loss))()
        self.assertEqual(texts, [])

    @parameterized.expand([(f"{family}_{way}", family, way) for family in SGD for way in WAYS])
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_of_a_part_of_the_loss_is_named(self, name: str, family: str, way: str) -> None:
        program = Program(family)

        def loss() -> Any:
            return program.opt.get_scaled_loss(program.loss()) + 1.0

        with warned() as texts:
            WAYS[way](lambda: program.minimize(loss))()
        self.assertEqual(["the loss that minimize() computes calls" in text for text in texts], [True], texts)


class LossesTest(unittest.TestCase):
    """What a loss may be."""

    @parameterized.expand(SGD)
    def test_numbers_and_arrays(self, family: str) -> None:
        for settings in ({}, {"dynamic": False}):
            opt = mpls.keras.LossScaleOptimizer(SGD[family](0.5), initial_scale=8, **settings)
            for loss, dtype in (
                (1.5, "float32"),
                (np.float64(1.5), "float64"),
                (np.float32(1.5), "float32"),
                (np.full([2], 1.5, "float16"), "float16"),
            ):
                for scaled in (opt.get_scaled_loss(loss), opt.get_scaled_loss(lambda loss=loss: loss)()):
                    self.assertTrue(tf.is_tensor(scaled))
                    self.assertEqual(scaled.dtype.name, dtype)
                    np.testing.assert_array_equal(scaled, np.full(np.shape(loss), 12.0))

    @parameterized.expand([(f"{family}_{way}", family, way) for family in PROGRAMS for way in ("eager", "function")])
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_integers_are_refused(self, name: str, family: str, way: str) -> None:
        program = Program(family)
        for loss in (3, True, np.int32(3), np.ones([2], "int64"), tf.constant(3), tf.constant(True)):

            def scale() -> Any:
                return (
                    program.opt.get_scaled_loss(loss)  # noqa: B023
                    if program.is_keras
                    else program.opt.compute_gradients(lambda: loss, program.variables)  # noqa: B023
                )

            with self.assertRaisesRegex(TypeError, r"loss must have a float dtype; got .*mpls docs integer-losses"):
                WAYS[way](scale)()


class TwiceScaledTest(unittest.TestCase):
    """Keras' families: what a scaling method has returned goes into it again."""

    @parameterized.expand([(f"{family}_{way}", family, way) for family in SGD for way in WAYS])
    def test_is_named_once(self, name: str, family: str, way: str) -> None:
        for call, change in (("get_scaled_loss", lambda x: x), ("get_unscaled_gradients", lambda x: [None, x])):
            opt = mpls.keras.LossScaleOptimizer(SGD[family](0.5))
            method = getattr(opt, call)

            def step() -> None:
                method(method(change(tf.constant(1.0))))  # noqa: B023

            step = WAYS[way](step)
            with self.subTest(call), warned() as texts:
                step(), step()
                self.assertEqual(texts, [])
            self.assertEqual([f"{call}() {AGAIN}" in text for text in texts], [True], texts)
            self.assertIn("See mpls docs forgotten-scaling", texts[0])

    @parameterized.expand(SGD)
    def test_several_calls_in_a_step_are_none(self, family: str) -> None:
        opt = mpls.keras.LossScaleOptimizer(SGD[family](0.5))
        loss, grads = tf.constant(1.0), [tf.constant(1.0)]
        with warned() as texts:
            for _ in range(2):
                # Of the same loss and gradients, for two sets of variables; and of sums.
                first, second = opt.get_scaled_loss(loss), opt.get_scaled_loss(loss)
                opt.get_scaled_loss(first + second)
                again = [opt.get_unscaled_gradients(grads), opt.get_unscaled_gradients(grads)]
                opt.get_unscaled_gradients([again[0][0] + again[1][0]])
                opt.get_unscaled_gradients([])
                opt.get_unscaled_gradients([None])
        self.assertEqual(texts, [])
