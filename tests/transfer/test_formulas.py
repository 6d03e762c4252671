"""Where families mean different things by the same: other units, other formulas, other ways to count."""

from __future__ import annotations

import dataclasses
import tempfile
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
from mpls.errors import MplsWarning, SavedStateError
from mpls.formats.record import OptimizerRecord, VariableRecord
from mpls.transfer.convert import export
from mpls.transfer.load import load_record
from tests.keras.families import FRAMEWORKS
from tests.transfer.training import (
    OPTIMIZERS,
    PAIRS,
    assert_close,
    assert_go_on,
    like,
    optimizer,
    schedule,
    steps_of,
    take_step,
    trained_for,
    variables,
)

V1: Any = tf.compat.v1.train
# v1's optimizers, and those of Keras that compute the same: settings of both.
OF_V1: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "momentum": (lambda: V1.MomentumOptimizer(0.05, 0.9), "SGD", {"momentum": 0.9}),
    "nesterov": (
        lambda: V1.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
        "SGD",
        {"momentum": 0.9, "nesterov": True},
    ),
    "adam": (lambda: V1.AdamOptimizer(0.05, epsilon=1e-7), "Adam", {}),
    "rmsprop": (lambda: V1.RMSPropOptimizer(0.05, momentum=0.5, epsilon=1e-7), "RMSprop", {"momentum": 0.5}),
    "rmsprop_centered": (
        lambda: V1.RMSPropOptimizer(0.05, momentum=0.5, epsilon=1e-7, centered=True),
        "RMSprop",
        {"momentum": 0.5, "centered": True},
    ),
    "adagrad": (lambda: V1.AdagradOptimizer(0.05), "Adagrad", {"epsilon": 1e-10}),
    "adadelta": (lambda: V1.AdadeltaOptimizer(0.05, epsilon=1e-3), "Adadelta", {"epsilon": 1e-3}),
    "ftrl": (
        lambda: V1.FtrlOptimizer(0.05, l1_regularization_strength=0.01),
        "Ftrl",
        {"l1_regularization_strength": 0.01},
    ),
}


def adam_of_v1(**parts: Any) -> OptimizerRecord:
    """Return a record of an Adam of v1 that has trained one variable."""
    slots = dict.fromkeys("mv", np.ones(2, np.float32))
    return OptimizerRecord("ckpt", "v1", "Adam", variables=[VariableRecord("w", "w", slots)], **parts)


def of_v1(source: Any, trained: list[Any], target: Any, others: list[Any]) -> Any:
    """Convert the state of an optimizer of v1, by a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        path = tf.train.Checkpoint(optimizer=source, variables=trained).save(f"{folder}/ckpt")
        return mpls.convert_state(path, target, others)


class V1Test(unittest.TestCase):
    @parameterized.expand([(f"{name}_to_{family}", name, family) for name in OF_V1 for family in OPTIMIZERS])
    def test_goes_on(self, label: str, name: str, family: str) -> None:
        make, algorithm, settings = OF_V1[name]
        source, trained = trained_for(6, make(), "legacy")
        target, others = optimizer(family, algorithm, **settings), like(family, trained)
        report = of_v1(source, trained, target, others)
        self.assertEqual(report.iterations, 6 if name == "adam" else None)
        assert_go_on(source, trained, target, others, 6, 12)

    def test_momentum_is_in_units_of_the_targets_rate(self) -> None:
        # What v1 does when its rate changes: the whole sum of gradients is multiplied by it.
        source, trained = trained_for(6, V1.MomentumOptimizer(0.05, 0.9), "legacy")
        for family in OPTIMIZERS:
            with self.subTest(family=family):
                target, others = optimizer(family, "SGD", 0.2, momentum=0.9), like(family, trained)
                report = of_v1(source, trained, target, others)
                self.assertIn("times -0.2", report.changed[0])
                again, its = V1.MomentumOptimizer(0.2, 0.9), like("legacy", trained)
                again._create_slots(its)
                for one, each in zip(its, trained, strict=True):
                    again.get_slot(one, "momentum").assign(source.get_slot(each, "momentum"))
                assert_go_on(again, its, target, others, 6, 9)

    def test_momentum_at_the_rate_of_a_schedule(self) -> None:
        source, trained = trained_for(3, V1.MomentumOptimizer(0.05, 0.9), "legacy")
        values = [source.get_slot(each, "momentum").numpy() for each in trained]
        record = OptimizerRecord(
            "ckpt",
            "v1",
            "SGD",
            iterations=2,
            variables=[
                VariableRecord(None, each.name, {"momentum": value})
                for each, value in zip(trained, values, strict=True)
            ],
        )
        for family in OPTIMIZERS:
            with self.subTest(family=family):
                schedules = FRAMEWORKS[family].optimizers.schedules
                rate = schedules.PiecewiseConstantDecay([1, 3], [0.5, 0.25, 0.0])
                target, others = optimizer(family, "SGD", rate, momentum=0.9), like(family, trained)
                load_record(record, target, others)
                slots = target.weights[1:] if family == "legacy" else target.variables[1:]
                assert_close(slots, [-0.25 * value for value in values])
                if family == "new":
                    self.assertEqual(float(target.learning_rate), 0.25)
                # The first step, if the number is not known.
                again = optimizer(family, "SGD", rate, momentum=0.9)
                report = load_record(dataclasses.replace(record, iterations=None), again, others)
                self.assertEqual(
                    report.changed[0], f"momentum: times -0.5, the learning rate, as {report.target} keeps it"
                )
        target, others = optimizer("legacy", "SGD", 0.5, momentum=0.9, decay=0.5), like("legacy", trained)
        load_record(record, target, others)
        assert_close(target.weights[1:], [-0.25 * value for value in values])

    def test_no_rate_to_multiply_momentum_by(self) -> None:
        source, trained = trained_for(3, V1.MomentumOptimizer(0.05, 0.9), "legacy")
        target = optimizer("keras3", "SGD", 0.0, momentum=0.9)
        with self.assertRaisesRegex(SavedStateError, "must not be 0; got 0 at step"):
            of_v1(source, trained, target, like("keras3", trained))
        self.assertFalse(target.built)

    def test_adams_steps_are_those_of_its_powers(self) -> None:
        def record(steps: int, global_step: int | None, scope: str = "") -> OptimizerRecord:
            powers = {
                f"{scope}beta{i}_power": np.multiply.accumulate(np.full(steps + 1, beta, np.float32))[-1]
                for i, beta in ((1, 0.9), (2, 0.999))
            }
            return adam_of_v1(iterations=global_step, others=powers)

        weight = tf.Variable([1.0, 2.0], name="w")
        for steps in (0, 1, 7, 700, 5_000, 60_000):
            with self.subTest(steps=steps):
                target = optimizer("legacy", "Adam")
                self.assertEqual(load_record(record(steps, None, "cond_1/"), target, [weight]).iterations, steps)
        target = optimizer("legacy", "Adam")
        with self.assertWarnsRegex(MplsWarning, "global_step 1000: by its beta powers, Adam has made 7 steps"):
            load_record(record(7, 1000), target, [weight])
        self.assertEqual(steps_of(target), 7)
        # Powers of other betas than the target's say nothing.
        target = optimizer("legacy", "Adam", beta_1=0.5, beta_2=0.95)
        with self.assertRaisesRegex(SavedStateError, "must say how many steps"):
            load_record(record(7, None), target, [weight])
        self.assertEqual(load_record(record(7, 1000), target, [weight]).iterations, 1000)
        # The source's own betas come before those of the target.
        for beta_1 in (0.9, 0.0, 1.0):
            betas = dataclasses.replace(record(7, None), hyperparameters={"beta_1": beta_1, "beta_2": 0.999})
            self.assertEqual(load_record(betas, target, [weight]).iterations, 7)
        wrong = dataclasses.replace(betas, hyperparameters={"beta_1": 1.5})
        with self.assertRaisesRegex(SavedStateError, "^ckpt: beta_1 must be a number from 0 to 1; got 1.5"):
            load_record(wrong, target, [weight])

    @parameterized.expand(
        [
            ("few", 7, 9, 7),
            ("too_few", 7, 10, None),
            ("many", 100, 104, 100),
            ("too_many", 100, 105, None),
            ("one_is_not_exact", 8.1, 7, 7),
            ("one_tells_nothing", 8.5, 7, 7),
        ]
    )
    @pytest.mark.filterwarnings("ignore:convert_state left out")
    def test_powers_that_differ(self, name: str, first: float, second: int, steps: int | None) -> None:
        exact = [np.multiply.accumulate(np.full(200, beta, np.float32)) for beta in (0.9, 0.999)]
        powers = (exact[0][first] if isinstance(first, int) else np.float32(0.9 ** (first + 1)), exact[1][second])
        record = adam_of_v1(iterations=3, others=dict(zip(("beta1_power", "beta2_power"), powers, strict=True)))
        report = load_record(record, optimizer("legacy", "Adam"), [tf.Variable([1.0, 2.0], name="w")])
        self.assertEqual(report.iterations, 3 if steps is None else steps)

    def test_steps_that_may_belong_to_another(self) -> None:
        record = adam_of_v1(possible_steps={"beta1_power": np.float32(0.81), "global_step": 7})
        target, weight = optimizer("legacy", "Adam"), tf.Variable([1.0, 2.0], name="w")
        target.iterations.assign(1)
        self.assertEqual(load_record(record, target, [weight]).iterations, 1)
        wrong = dataclasses.replace(record, hyperparameters={"beta_1": 1.5})
        for steps in (0, 1):
            target.iterations.assign(steps)
            with self.assertRaisesRegex(SavedStateError, "^ckpt: beta_1 must be a number"):
                load_record(wrong, target, [weight])

    def test_powers_for_an_optimizer_without_betas(self) -> None:
        record = OptimizerRecord("ckpt", "v1", None, 3, others={"beta1_power": np.float32(0.81)})
        report = load_record(record, optimizer("legacy", "SGD"), variables("legacy"))
        self.assertEqual((report.iterations, report.left_out), (3, ()))

    @parameterized.expand(
        [
            ("rounded_otherwise", 0.999, 0.999**701, 700),
            ("between_two_numbers", 0.999, 0.999**701.5, None),
            ("above_the_first", 0.9, 0.9004, None),
            ("of_no_decay", 1.0, 1.0, None),
            ("of_none", 0.9, 0.0, None),
        ]
    )
    def test_a_power_that_is_no_product(self, name: str, beta: float, power: float, steps: int | None) -> None:
        record = adam_of_v1(others={"beta2_power": np.float32(power)})
        target, weight = optimizer("legacy", "Adam", beta_2=beta), tf.Variable([1.0, 2.0], name="w")
        if steps is None:
            with self.assertRaisesRegex(SavedStateError, "on which Adam depends; got none"):
                load_record(record, target, [weight])
        else:
            self.assertEqual(load_record(record, target, [weight]).iterations, steps)
            # What the file counts comes before a power that is not exact.
            again = optimizer("legacy", "Adam", beta_2=beta)
            counted = dataclasses.replace(record, iterations=699)
            self.assertEqual(load_record(counted, again, [weight]).iterations, 699)


class EpsilonTest(unittest.TestCase):
    """RMSprop without momentum, and Adagrad: legacy optimizers add epsilon to the root, the others under it."""

    @parameterized.expand(
        [(f"{name}_{a}_to_{b}", name, a, b) for name in ("RMSprop", "Adagrad") for a, b in PAIRS if a != b]
    )
    @pytest.mark.default_run("one case")
    def test_the_report_says_so(self, label: str, name: str, a: str, b: str) -> None:
        for epsilon, rtol in ((1e-10, 2e-6), (1e-3, 1e-1)):
            source, trained = trained_for(4, optimizer(a, name, epsilon=epsilon), a)
            target, others = optimizer(b, name, epsilon=epsilon), like(b, trained)
            report = mpls.convert_state(source, target, others, source_variables=trained)
            assert_go_on(source, trained, target, others, 4, 8, rtol)
        places = {"legacy": "added to the root"}
        wanted = [f"epsilon: {places.get(a, 'added under the root')}, {places.get(b, 'added under the root')}"]
        self.assertEqual(list(report.differences), wanted if "legacy" in (a, b) else [])
        if "legacy" in (a, b):
            with self.assertRaises(AssertionError):
                assert_close(others, trained)

    @parameterized.expand(
        [
            (f"{name}_{momentum}_{a}_to_{b}", name, momentum, a, b)
            for name, momentum in (("RMSprop", 0.0), ("RMSprop", 0.5), ("Adagrad", None))
            for a in ("v1", *OPTIMIZERS)
            for b in OPTIMIZERS
        ]
    )
    def test_of_a_file(self, label: str, name: str, momentum: float | None, a: str, b: str) -> None:
        def place(family: str) -> str:
            if name == "Adagrad" and family == "v1":
                return "there is none"
            return "added to the root" if family == "legacy" and not momentum else "added under the root"

        settings = {} if momentum is None else {"momentum": momentum}
        squares = "accumulator" if name == "Adagrad" else "rms" if a in ("v1", "legacy") else "velocity"
        slots = dict.fromkeys([squares, *(["momentum"] if momentum else [])], np.ones(2, np.float32))
        record = OptimizerRecord("file", a, name, 0, settings, [VariableRecord("w", "w", slots)])
        report = load_record(record, optimizer(b, name, **settings), variables(b, [np.ones(2)], ["w"]))
        self.assertEqual(report.differences, () if place(a) == place(b) else (f"epsilon: {place(a)}, {place(b)}",))


class NadamTest(unittest.TestCase):
    @parameterized.expand([("new",), ("keras3",)])
    def test_the_schedule_of_legacy_optimizers_is_another(self, family: str) -> None:
        source, trained = trained_for(6, optimizer("legacy", "Nadam", schedule_decay=0.004), "legacy")
        target, others = optimizer(family, "Nadam"), like(family, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual(report.differences, ("schedule of the momentum, schedule_decay: 0.004, 1",))
        self.assertEqual(report.started, ())
        self.assertEqual(float(target._u_product.numpy()), float(source._m_cache.numpy()))
        # A file without settings has that of Keras, and another may be an integer.
        for decay, said in (({}, "0.004"), ({"decay": 2}, "2"), ({"decay": 1 / 3}, "0.333333")):
            record = dataclasses.replace(export(source, trained), hyperparameters=decay)
            told = load_record(record, optimizer(family, "Nadam"), like(family, trained)).differences
            self.assertEqual(told, (f"schedule of the momentum, schedule_decay: {said}, 1",))
        # Momentum and steps are there; how they are weighed is not the same.
        assert_go_on(source, trained, target, others, 6, 9, rtol=0.02)

    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS])
    @pytest.mark.default_run("one case")
    def test_a_product_that_the_source_lacks_is_computed(self, label: str, a: str, b: str) -> None:
        source, trained = trained_for(6, optimizer(a, "Nadam"), a)
        record = export(source, trained)
        # As in H5 and `.keras` files of new optimizers.
        object.__setattr__(record, "others", {})
        target, others = optimizer(b, "Nadam"), like(b, trained)
        report = load_record(record, target, others)
        self.assertEqual(report.started, ("momentum product: computed from the number of steps",))
        assert_go_on(source, trained, target, others, 6, 10)

    @parameterized.expand(
        [
            ("few", "new", 0.8, 3, 0.8**3),
            ("few_of_legacy", "legacy", 0.8, 3, 0.8**3),
            ("small", "new", 0.9, 100_000, 0.0),
            ("large", "new", 1 - 1e-7, 3_000_000, (1 - 1e-7) ** 3_000_000),
        ]
    )
    def test_a_product_of_so_many_steps(self, label: str, family: Any, beta: float, steps: int, product: float) -> None:
        target = optimizer("new", "Nadam", beta_1=beta)
        slots = dict.fromkeys("mv", np.ones(2, np.float32))
        record = OptimizerRecord("file", family, "Nadam", steps, variables=[VariableRecord("w", "w", slots)])
        load_record(record, target, variables("new", [np.ones(2)], ["w"]))
        # The schedule of the early steps makes it smaller.
        exponent = 0.004 if family == "legacy" else 1.0
        early = np.prod([1 - 0.5 * 0.96 ** (exponent * step) for step in range(1, min(steps, 2000) + 1)])
        np.testing.assert_allclose(float(target._u_product.numpy()), product * early, rtol=1e-6)


class CountingTest(unittest.TestCase):
    def accumulating(self, steps: int | None, algorithm: str = "Adam") -> Any:
        return optimizer("keras3", algorithm, gradient_accumulation_steps=steps)

    def test_accumulated_gradients_go_along(self) -> None:
        source, trained = trained_for(7, self.accumulating(3), "keras3")
        target, others = self.accumulating(3), like("keras3", trained)
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual((report.iterations, report.changed), (7, ()))
        assert_go_on(source, trained, target, others, 7, 12, rtol=0)

    @parameterized.expand([("legacy", None), ("new", None), ("keras3", None), ("keras3", 2)])
    def test_other_numbers_are_refused(self, family: str, steps: int | None) -> None:
        source, trained = trained_for(6, self.accumulating(3), "keras3")
        settings = {} if steps is None else {"gradient_accumulation_steps": steps}
        target, others = optimizer(family, "Adam", **settings), like(family, trained)
        for record in (export(source), dataclasses.replace(export(source), hyperparameters={})):
            # The number may be missing, as in a checkpoint; the gradients are there.
            if steps is None or record.hyperparameters:
                with self.assertRaisesRegex(SavedStateError, "must have the same gradient_accumulation_steps; got"):
                    load_record(record, target, others)
        bare = optimizer("keras3", "Adam")
        bare.build(like("keras3", trained))
        with self.assertRaisesRegex(SavedStateError, "gradient_accumulation_steps; got none and 3"):
            mpls.convert_state(bare, self.accumulating(3), like("keras3", trained))

    def test_skipped_steps_stay_counted_as_the_source_counts(self) -> None:
        # tf_keras counts a step that was skipped, Keras 3 does not: the number goes along as it is.
        for a, b in PAIRS:
            with self.subTest(source=a, target=b):
                source, trained = mpls.keras.LossScaleOptimizer(optimizer(a, "Adam")), variables(a)
                take_step(source, trained, 0)
                take_step(source, trained, 1, factor=np.inf)
                take_step(source, trained, 2)
                counted = 2 if a == "keras3" else 3
                target = mpls.keras.LossScaleOptimizer(optimizer(b, "Adam"))
                others = like(b, trained)
                report = mpls.convert_state(source, target, others, source_variables=trained)
                self.assertEqual((report.iterations, steps_of(source), steps_of(target)), (counted,) * 3)
                assert_go_on(source, trained, target, others, 3, 6)

    def test_schedules_go_on_where_they_were(self) -> None:
        for a, b in PAIRS:
            with self.subTest(source=a, target=b):
                source, trained = trained_for(5, optimizer(a, "SGD", schedule(a), momentum=0.9), a)
                target, others = optimizer(b, "SGD", schedule(b), momentum=0.9), like(b, trained)
                report = mpls.convert_state(source, target, others, source_variables=trained)
                self.assertEqual(report.differences, ())
                assert_go_on(source, trained, target, others, 5, 8)

    @parameterized.expand([("Adam",), ("Adamax",), ("Nadam",), ("RMSprop",)])
    def test_steps_that_the_source_does_not_say(self, algorithm: str) -> None:
        source, trained = trained_for(2, optimizer("new", algorithm), "new")
        record, target = dataclasses.replace(export(source), iterations=None), optimizer("new", algorithm)
        if algorithm == "RMSprop":
            self.assertEqual((load_record(record, target, trained).iterations, steps_of(target)), (None, 0))
        else:
            with self.assertRaisesRegex(SavedStateError, f"on which {algorithm} depends; got none"):
                load_record(record, target, trained)

    def test_steps_that_do_not_fit(self) -> None:
        most = OptimizerRecord("opt", "legacy", "SGD", iterations=2**63 - 1)
        self.assertEqual(load_record(most, optimizer("legacy", "SGD"), variables("legacy")).iterations, 2**63 - 1)
        # The counter may be the user's.
        target = optimizer("new", "SGD")
        target.iterations = tf.Variable(0, dtype=tf.int32)
        with self.assertRaisesRegex(SavedStateError, f"opt: .* must fit the optimizer's counter; got {2**31}"):
            load_record(dataclasses.replace(most, iterations=2**31), target, variables("new"))
        self.assertEqual(int(target.iterations), 0)
        fits = dataclasses.replace(most, iterations=2**31 - 1)
        self.assertEqual(load_record(fits, target, variables("new")).iterations, 2**31 - 1)
        for steps in (-1, 2**63):
            with self.assertRaisesRegex(SavedStateError, f"number of steps must be from 0 to {2**63 - 1}; "):
                load_record(
                    OptimizerRecord("opt", "legacy", "SGD", iterations=steps),
                    optimizer("legacy", "SGD"),
                    variables("legacy"),
                )
