"""Training that changes its Keras in the middle goes on as if it had not."""

from __future__ import annotations

import dataclasses
import itertools
import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
from mpls.errors import MplsWarning
from mpls.formats.record import LossScaleRecord
from mpls.transfer.convert import export
from mpls.transfer.load import load_record
from tests.keras.families import NATIVE
from tests.transfer.training import (
    NAMES,
    OPTIMIZERS,
    PAIRS,
    SETTINGS,
    assert_close,
    assert_go_on,
    like,
    optimizer,
    steps_of,
    train,
    trained_for,
    variables,
)

# Those that only some families have.
SOME: dict[str, tuple[str, dict[str, Any]]] = {
    "lion": ("Lion", {"beta_1": 0.999, "beta_2": 0.3}),
    "adamw": ("AdamW", {}),
}
CASES = [(f"{name}_{a}_to_{b}", name, a, b) for name in SETTINGS for a, b in PAIRS]
CASES += [(f"{name}_{a}_to_{b}", name, a, b) for name in SOME for a, b in PAIRS if "legacy" not in (a, b)]
CASES += [(f"adafactor_{family}", "adafactor", family, family) for family in ("new", "keras3")]
Wrapper: Any = mpls.keras.LossScaleOptimizer


def named(family: str, *names: str) -> list[Any]:
    """Return variables of one shape with names, which TensorFlow and Keras allow to be equal."""
    make = keras.Variable if family == "keras3" else tf.Variable
    return [make([1.0], name=name) for name in names]


class OrderTest(unittest.TestCase):
    """Variables of one shape: whose slots go where."""

    def momenta_after(self, a: str, b: str, source_names: str, target_names: str, *, are_given: bool) -> list[float]:
        """Return the target's momenta; those of the source are 1, 2 and 3 times the same."""
        source, trained = optimizer(a, "SGD", momentum=0.5), named(a, *source_names)
        source.apply_gradients([(tf.constant([rank + 1.0]), each) for rank, each in enumerate(trained)])
        target, others = optimizer(b, "SGD", momentum=0.5), named(b, *target_names) if are_given else trained[::-1]
        mpls.convert_state(source, target, others, source_variables=trained if are_given else None)
        before = [float(each.numpy()[0]) for each in others]
        target.apply_gradients([(tf.zeros([1]), each) for each in others])
        moved = [was - float(each.numpy()[0]) for was, each in zip(before, others, strict=True)]
        return [round(each / min(moved), 4) for each in moved]

    @parameterized.expand(PAIRS)
    def test_names_do_not_matter_where_both_orders_are_given(self, a: str, b: str) -> None:
        self.assertEqual(self.momenta_after(a, b, "xyz", "zyx", are_given=True), [1, 2, 3])

    @parameterized.expand([("legacy", "new"), ("new", "legacy"), ("new", "new"), ("keras3", "keras3")])
    def test_variables_that_the_source_trained_are_found_among_equal_names(self, a: str, b: str) -> None:
        self.assertEqual(self.momenta_after(a, b, "xxx", "", are_given=False), [3, 2, 1])


class BareTest(unittest.TestCase):
    @parameterized.expand(CASES)
    @pytest.mark.default_run("each value", by=lambda label, case, a, b: (case, (a, b)))
    def test_goes_on(self, label: str, case: str, a: str, b: str) -> None:
        algorithm, settings = {**SETTINGS, **SOME, "adafactor": ("Adafactor", {})}[case]
        source, trained = trained_for(6, optimizer(a, algorithm, **settings), a)
        target, others = optimizer(b, algorithm, **settings), like(b, trained)
        before = [each.numpy() for each in trained]

        report = mpls.convert_state(source, target, others, source_variables=trained)

        self.assertEqual((report.iterations, steps_of(target)), (6, 6))
        formulas = ("epsilon: ",) if case == "adagrad" and "legacy" in (a, b) and a != b else ()
        self.assertEqual(tuple(each[:9] for each in report.differences), formulas)
        self.assertEqual([each for each in report.left_out if case != "sgd"], [])
        assert_close(others, before, rtol=0)
        if case != "sgd" and "legacy" not in (a, b):
            # Both families list the slots in one order, among scalars.
            slots = [[each for each in one.variables if len(each.shape)] for one in (target, source)]
            assert_close(*slots, rtol=0)
        assert_go_on(source, trained, target, others, 6, 12, rtol=0 if a == b else 2e-6)
        fresh, untrained = optimizer(b, algorithm, **settings), variables(b, before)
        train(fresh, untrained, 6, 12)
        if case != "sgd":
            # The state matters: without it, training goes elsewhere.
            with self.assertRaises(AssertionError):
                assert_close(untrained, trained, rtol=1e-3)

    @parameterized.expand([("new", "keras3"), ("keras3", "new"), ("keras3", "keras3")])
    def test_averages_of_weights_go_along(self, a: str, b: str) -> None:
        source, trained = trained_for(3, optimizer(a, "SGD", momentum=0.9, use_ema=True, ema_momentum=0.5), a)
        target, others = optimizer(b, "SGD", momentum=0.9, use_ema=True, ema_momentum=0.5), like(b, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual((report.started, report.changed, report.left_out), ((), (), ()))
        train(source, trained, 3, 5)
        train(target, others, 3, 5)
        for opt, own in ((source, trained), (target, others)):
            opt.finalize_variable_values(own)
        assert_close(others, trained)

    @parameterized.expand([(family, algorithm) for family in OPTIMIZERS for algorithm in ("SGD", "Adam")])
    def test_what_is_built_knows_its_variables(self, family: str, algorithm: str) -> None:
        source, trained = trained_for(3, optimizer(family, algorithm), family)
        has_slots = (family, algorithm) != ("legacy", "SGD")
        if has_slots:
            # Slots of legacy optimizers have the optimizer's scope before their variables' names.
            scope = "Adam/" if family == "legacy" else ""
            self.assertEqual([each.name for each in export(source).variables], [scope + name for name in NAMES])
        target, others = optimizer(family, algorithm), like(family, trained)
        # A legacy optimizer makes its settings and its counter now, and no slots.
        self.assertEqual((float(target.learning_rate), int(target.iterations)), (np.float32(0.05), 0))
        if has_slots:
            with self.assertRaisesRegex(ValueError, "variables must be given for an optimizer that is not built"):
                mpls.convert_state(source, target)
        train(target, others, 20, 21)
        for each, value in zip(others, trained, strict=True):
            each.assign(value.numpy())
        report = mpls.convert_state(source, target)
        self.assertEqual(report.iterations, 3)
        if not has_slots:
            self.assertEqual(str(report).splitlines()[1:], ["iterations: 3"])
        assert_go_on(source, trained, target, others, 3, 6)

    @parameterized.expand([("float16", 2e-3), ("bfloat16", 2e-2), ("float64", 1e-12)])
    def test_dtypes(self, dtype: str, rtol: float) -> None:
        for a, b in PAIRS:
            with self.subTest(source=a, target=b):
                source, trained = trained_for(3, optimizer(a, "SGD", momentum=0.9), a, dtype=dtype)
                target, others = optimizer(b, "SGD", momentum=0.9), like(b, trained, dtype=dtype)
                report = mpls.convert_state(source, target, others, source_variables=trained)
                self.assertEqual(report.changed, ())
                # The rate of Keras 3 is a float32, also for float64 variables.
                bound = max(rtol, 1e-7) if a != b else rtol
                assert_go_on(source, trained, target, others, 3, 5, rtol=bound)

    def test_averages_start_from_the_variables(self) -> None:
        for family in ("new", "keras3"):
            with self.subTest(family=family):
                source, trained = trained_for(4, optimizer("legacy", "Adam"), "legacy")
                target, others = optimizer(family, "Adam", use_ema=True, ema_momentum=0.5), like(family, trained)
                report = mpls.convert_state(source, target, others, source_variables=trained)
                self.assertIn("averages", report.started[0])
                start = [each.numpy() for each in others]
                train(target, others, 4, 5)
                wanted = [0.5 * (one + other.numpy()) for one, other in zip(start, others, strict=True)]
                target.finalize_variable_values(others)
                assert_close(others, wanted)


class ScaledTest(unittest.TestCase):
    @parameterized.expand(
        [(f"{name}_{a}_to_{b}", name, a, b) for name in ("momentum", "adam", "nadam") for a, b in PAIRS]
    )
    @pytest.mark.default_run("each pair")
    def test_wrapped_to_wrapped(self, label: str, case: str, a: str, b: str) -> None:
        algorithm, settings = SETTINGS[case]
        inner = optimizer(a, algorithm, **settings)
        source, trained = trained_for(6, Wrapper(inner, initial_scale=256.0, dynamic_growth_steps=4), a)
        target = Wrapper(optimizer(b, algorithm, **settings), initial_scale=8.0, dynamic_growth_steps=4)
        others = like(b, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual(report.loss_scale, (512.0, 2))
        self.assertIn("initial scale: 256, 8", report.differences[0])
        assert_go_on(source, trained, target, others, 6, 9)
        for one in (source, target):
            self.assertEqual((float(one.loss_scale), int(one.dynamic_counter)), (1024.0, 1))

    @parameterized.expand([(family,) for family in OPTIMIZERS])
    def test_what_is_known_of_a_scale(self, family: str) -> None:
        dynamic = {"initial_scale": 64.0, "dynamic_growth_steps": 3}
        known = LossScaleRecord(True, 128.0, 1, initial_scale=64.0, growth_steps=3, multiplier=2.0)
        for make, settings, expected in (
            (Wrapper, dynamic, known),
            (NATIVE[family], dynamic, known),
            (Wrapper, {**dynamic, "min_scale": 2.0}, dataclasses.replace(known, options={"min_scale": 2.0})),
            (Wrapper, {"dynamic": False, "initial_scale": 64.0}, LossScaleRecord(False, 64.0, initial_scale=64.0)),
        ):
            source, trained = trained_for(4, make(optimizer(family, "SGD"), **settings), family)
            self.assertEqual(export(source, trained).loss_scale, expected)
            if make is not Wrapper:
                unbuilt = make(optimizer(family, "SGD"), **settings)
                fresh = dataclasses.replace(known, scale=64.0, good_steps=0)
                self.assertEqual(export(unbuilt).loss_scale, fresh)

    @parameterized.expand([(family,) for family in OPTIMIZERS])
    def test_fixed_scales(self, family: str) -> None:
        def scaled(make: Any, **settings: Any) -> Any:
            return make(optimizer(family, "SGD"), **settings)

        # The wrapper of Keras 3 has no fixed scale.
        makers = [Wrapper] if family == "keras3" else [Wrapper, NATIVE[family]]
        for of_source, of_target in itertools.product(makers, makers):
            source, trained = trained_for(1, scaled(of_source, dynamic=False, initial_scale=64.0), family)
            self.assertEqual(export(source, trained).loss_scale, LossScaleRecord(False, 64.0, initial_scale=64.0))
            target = scaled(of_target, dynamic=False, initial_scale=8.0)
            report = mpls.convert_state(source, target, like(family, trained), source_variables=trained)
            self.assertEqual(report.differences, ("fixed loss scale: 64, 8",))
            target = scaled(of_target, initial_scale=8.0)
            with self.assertWarnsRegex(MplsWarning, "the source has a fixed loss scale of 64; .* stays at 8"):
                report = mpls.convert_state(source, target, like(family, trained), source_variables=trained)
            self.assertEqual(report.started, ("loss scale: the source has a fixed loss scale of 64",))
            self.assertEqual((report.loss_scale, float(target.loss_scale)), (None, 8.0))
            with self.assertWarnsRegex(MplsWarning, "a dynamic loss scale of 8: the target's is fixed"):
                report = mpls.convert_state(target, source, trained)
            self.assertEqual((report.loss_scale, float(source.loss_scale)), (None, 64.0))

    def test_overflow_counts_stay(self) -> None:
        tracking = Wrapper(optimizer("new", "SGD"), track_overflows=True), Wrapper(optimizer("keras3", "SGD"))
        train(tracking[0], weights := variables("new"), 0, 1)
        report = mpls.convert_state(*tracking, like("keras3", weights), source_variables=weights)
        self.assertIn("overflow counts: they stay with the source", report.left_out)
        target = Wrapper(optimizer("keras3", "SGD"), track_overflows=True)
        report = mpls.convert_state(tracking[0], target, like("keras3", weights), source_variables=weights)
        self.assertIn("overflow counts: the target's stay as they are", report.started)

    def test_settings_of_scales_that_differ(self) -> None:
        factors = {"growth_factor": 4.0, "backoff_factor": 0.25}
        both = {"initial_scale": 8.0, "count_steps": True}
        for ours, theirs, told in (
            (factors, {}, ["growth factor: 4, 2", "backoff factor: 0.25, 0.5"]),
            ({}, factors, ["growth factor: 2, 4", "backoff factor: 0.5, 0.25"]),
            ({"min_scale": 2.0, "max_scale": 64.0}, {}, ["min scale: 2, 1", "max scale: 64, 3.40282e+38"]),
            (
                {},
                {"hysteresis": 3, "consecutive_hysteresis": True},
                ["hysteresis: 1, 3", "consecutive hysteresis: 0, 1"],
            ),
            ({"dynamic_growth_steps": 3}, {"dynamic_growth_steps": 5}, ["growth steps: 3, 5"]),
            (factors, factors, []),
        ):
            source, trained = trained_for(2, Wrapper(optimizer("new", "SGD"), **both, **ours), "new")
            target, others = Wrapper(optimizer("keras3", "SGD"), **both, **theirs), like("keras3", trained)
            report = mpls.convert_state(source, target, others, source_variables=trained)
            self.assertEqual(report.differences, tuple(f"loss scale, {each}" for each in told))
            counts = {"applied_steps": 2, "skipped_steps": 0, "consecutive_skips": 0}
            self.assertEqual({name: dict(report.counts)[name] for name in counts}, counts)
            self.assertEqual({name: target.state_dict()[name] for name in counts}, counts)
        # A checkpoint does not say its settings.
        record = dataclasses.replace(export(source), loss_scale=LossScaleRecord(True, 8.0, 1))
        report = load_record(record, Wrapper(optimizer("keras3", "SGD"), **both, **factors), like("keras3", trained))
        self.assertEqual((report.loss_scale, report.differences), ((8.0, 1), ()))
        uncounted = Wrapper(optimizer("keras3", "SGD"), initial_scale=8.0)
        report = mpls.convert_state(source, uncounted, like("keras3", trained), source_variables=trained)
        self.assertIn("counts of steps: the target counts none", report.left_out)

    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS])
    @pytest.mark.default_run("one case")
    def test_bare_to_wrapped_and_back(self, label: str, a: str, b: str) -> None:
        source, trained = trained_for(4, optimizer(a, "Adam"), a)
        scaled, others = Wrapper(optimizer(b, "Adam"), initial_scale=64.0), like(b, trained)
        with self.assertWarnsRegex(MplsWarning, "no loss scale; the target's dynamic loss scale stays at 64") as caught:
            report = mpls.convert_state(source, scaled, others, source_variables=trained)
        self.assertEqual(len(caught.warnings), 1)
        self.assertEqual(report.loss_scale, None)
        self.assertEqual((float(scaled.loss_scale), int(scaled.dynamic_counter)), (64.0, 0))
        bare, its = optimizer(a, "Adam"), like(a, trained)
        report = mpls.convert_state(scaled, bare, its, source_variables=others)
        self.assertEqual(report.left_out, ("a dynamic loss scale of 64: the target is not wrapped",))
        for one, own in ((source, trained), (scaled, others), (bare, its)):
            train(one, own, 4, 7)
        assert_close(others, trained)
        assert_close(its, trained)
