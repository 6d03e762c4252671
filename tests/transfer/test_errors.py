"""What cannot be carried over is refused, and the target is as it was."""

from __future__ import annotations

import dataclasses
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls
import mpls.keras
from mpls.errors import ArgumentTypeError, ArgumentValueError, MplsWarning, SavedStateError, UnsupportedGraphError
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.transfer.convert import export
from mpls.transfer.load import load_record
from tests.keras.families import NATIVE
from tests.transfer.training import (
    OPTIMIZERS,
    PAIRS,
    like,
    optimizer,
    scale_of,
    state_of,
    train,
    trained_for,
    variables,
)

Wrapper: Any = mpls.keras.LossScaleOptimizer
FAMILIES = [(family,) for family in OPTIMIZERS]


def recorded(family: str = "legacy", algorithm: str = "Adam", **settings: Any) -> OptimizerRecord:
    source, trained = trained_for(3, optimizer(family, algorithm, **settings), family)
    return export(source, trained)


def with_slots(record: OptimizerRecord, index: int, **slots: Any) -> OptimizerRecord:
    """Return a record with other slots of one variable; None for one that is not there."""
    changed = list(record.variables)
    kept = {name: value for name, value in {**changed[index].slots, **slots}.items() if value is not None}
    changed[index] = dataclasses.replace(changed[index], slots=kept)
    return dataclasses.replace(record, variables=changed)


class RefusedTest(unittest.TestCase):
    def assert_refused(
        self,
        record: Any,
        family: str,
        message: str,
        algorithm: str = "Adam",
        dtype: str = "float32",
        **settings: Any,
    ) -> None:
        """Check that neither a fresh target, nor one that is built, nor a wrapped one takes the record or changes."""
        for is_built in (False, True):
            for is_wrapped in (False, True):
                target, trained = optimizer(family, algorithm, **settings), variables(family, dtype=dtype)
                target = Wrapper(target, initial_scale=8.0) if is_wrapped else target
                if is_built:
                    train(target, trained, 0, 2)
                before = state_of(target, trained)
                with self.subTest(built=is_built, wrapped=is_wrapped):
                    with self.assertRaisesRegex(SavedStateError, message) as caught:
                        load_record(record, target, trained)
                    self.assertIn("mpls docs my-checkpoints", str(caught.exception))
                    np.testing.assert_equal(state_of(target, trained), before)
                    if family == "keras3" or is_built:
                        self.assertEqual(getattr(target, "built", is_built), is_built)

    @parameterized.expand(FAMILIES)
    def test_slots_and_steps(self, family: str) -> None:
        adam, momentum = recorded(), {"momentum": 0.9}
        for record, message, settings in (
            (adam, "must be of the target's algorithm, SGD; got Adam", {"algorithm": "SGD", **momentum}),
            (dataclasses.replace(recorded(algorithm="Nadam"), algorithm=None), "algorithm, Adam; got Nadam", {}),
            (adam, r"must have the slots \['vhat'\]", {"amsgrad": True}),
            (recorded(algorithm="SGD"), r"must have the slots \['momentum'\]", {"algorithm": "SGD", **momentum}),
            (dataclasses.replace(adam, variables=()), r"must have the slots \['m', 'v'\]", {}),
            (with_slots(adam, 1, v=None), r"slot 'v' of dense/bias.* must be there", {}),
            (with_slots(adam, 0, v=np.ones((3, 2), np.float32)), r"must have the shape \[2, 3\]; got \[3, 2\]", {}),
            (with_slots(adam, 1, m=np.ones(3, np.int32)), "must be float32; got int32", {}),
            (with_slots(adam, 1, m=np.array(["a"] * 3)), "must be float32; got <U1", {}),
            (with_slots(adam, 1, m=np.full(3, 1e5, np.float32)), "must fit into float16; got", {"dtype": "float16"}),
            (dataclasses.replace(adam, iterations=None), "must say how many steps", {}),
            (dataclasses.replace(adam, variables=adam.variables[:1]), "variables as the optimizer, 2; got 1", {}),
        ):
            self.assert_refused(record, family, message, **settings)

    @parameterized.expand(
        [
            ("Nadam", "beta_1", {"class_name": "x"}, "be a number from 0 to 1"),
            ("Nadam", "beta_1", None, "be a number from 0 to 1"),
            ("Nadam", "beta_1", float("nan"), "be a number from 0 to 1"),
            ("Nadam", "beta_1", 1.5, "be a number from 0 to 1"),
            ("Nadam", "decay", "0.004", "be a number from 0 to 1.79769e"),
            ("Nadam", "decay", 10**400, "be a number from 0 to 1.79769e"),
            ("Nadam", "decay", -1e9, "be a number from 0 to 1.79769e"),
        ]
    )
    def test_settings_that_count_steps(self, algorithm: str, name: str, value: Any, message: str) -> None:
        record = recorded("legacy", algorithm)
        record = dataclasses.replace(record, hyperparameters={**record.hyperparameters, name: value}, others={})
        self.assert_refused(record, "new", f"^optimizer: {name} must {message}", algorithm)

    @parameterized.expand(FAMILIES)
    def test_one_variable_in_place_of_a_list(self, family: str) -> None:
        source, trained = trained_for(1, optimizer(family, "Adam"), family)
        target = optimizer(family, "Adam")
        for given in (trained[0], 3):
            with self.assertRaisesRegex(TypeError, r"convert_state: variables must be a list of variables, .*; got "):
                mpls.convert_state(source, target, given)

    @parameterized.expand(FAMILIES)
    def test_loss_scales_that_none_can_have(self, family: str) -> None:
        record = recorded()
        for scale, good_steps, message in (
            (0.0, 0, "the loss scale must be a positive, finite float32 number"),
            (float("nan"), 0, "the loss scale must be a positive"),
            (float("inf"), 0, "the loss scale must be a positive"),
            (-8.0, 0, "the loss scale must be a positive"),
            (8.0, -1, "the count of good steps must be a whole number from 0 to 5"),
            (8.0, 6, "the count of good steps must be a whole number from 0 to 5"),
        ):
            with self.subTest(scale=scale, good_steps=good_steps):
                scaled = LossScaleRecord(True, scale, good_steps, growth_steps=5)
                target, trained = trained_for(2, Wrapper(optimizer(family, "Adam"), initial_scale=64.0), family)
                before = state_of(target, trained)
                with self.assertRaisesRegex(SavedStateError, message):
                    load_record(dataclasses.replace(record, loss_scale=scaled), target, trained)
                np.testing.assert_equal(state_of(target, trained), before)

    def test_others_only_within_their_class(self) -> None:
        source, trained = trained_for(2, optimizer("new", "Adafactor"), "new")
        target = optimizer("keras3", "Adafactor")
        with self.assertRaisesRegex(SavedStateError, "algorithm, Adafactor; got Adafactor of another family,"):
            mpls.convert_state(source, target, like("keras3", trained), source_variables=trained)
        self.assertFalse(target.built)

    def test_non_finite_slots_go_along(self) -> None:
        record = with_slots(recorded(), 1, m=np.array([np.inf, np.nan, 1.0], np.float32))
        target, trained = optimizer("legacy", "Adam"), variables("legacy", dtype="float16")
        load_record(record, target, trained)
        np.testing.assert_equal(
            np.asarray(target.get_slot(trained[1], "m"), np.float32), np.array([np.inf, np.nan, 1.0])
        )

    @parameterized.expand([("all", None), ("first", 0), ("last", 1)])
    def test_slots_that_are_rounded_are_told(self, label: str, index: int | None) -> None:
        record = recorded()
        for each, shape in enumerate([(2, 3), (3,)]):
            value = 1 / 3 if index in (None, each) else 0.5
            record = with_slots(record, each, m=np.full(shape, value, np.float32), v=np.full(shape, 0.5, np.float32))
        told = "slots: rounded to the dtype of the target's"
        for dtype in ("float16", "float32"):
            report = load_record(record, optimizer("legacy", "Adam"), variables("legacy", dtype=dtype))
            self.assertEqual(report.changed, (told,) if dtype == "float16" else ())


class ArgumentsTest(unittest.TestCase):
    def test_what_is_no_optimizer(self) -> None:
        source, trained = optimizer("legacy", "Adam"), variables("legacy")
        with self.assertRaisesRegex(ArgumentTypeError, "convert_state: source must be an optimizer"):
            mpls.convert_state(3, source, trained)
        for wrong in (None, "adam", tf_keras.optimizers.legacy.Adam):
            with self.assertRaisesRegex(ArgumentTypeError, "convert_state: optimizer must be an optimizer"):
                mpls.convert_state(source, wrong, trained)
        with self.assertRaisesRegex(ArgumentTypeError, "Save a tf.compat.v1.train optimizer by"):
            mpls.convert_state(source, tf.compat.v1.train.AdamOptimizer(), trained)

    def test_variables_of_another_optimizer(self) -> None:
        for family in OPTIMIZERS:
            with self.subTest(family=family):
                source, trained = trained_for(2, optimizer(family, "Adam"), family)
                target, others = optimizer(family, "Adam"), variables(family)
                stranger = variables(family)
                with self.assertRaisesRegex(ArgumentValueError, "source_variables must be|variables must be known"):
                    mpls.convert_state(source, target, others, source_variables=stranger)
                if family != "legacy":
                    target.build(others)
                    with self.assertRaisesRegex(ArgumentValueError, "variables must be known to the optimizer"):
                        mpls.convert_state(source, target, stranger, source_variables=trained)
                    with self.assertRaisesRegex(ArgumentValueError, "be the 2 that the optimizer is built with"):
                        mpls.convert_state(source, target, others[:1], source_variables=trained[:1])

    @parameterized.expand([("new",), ("keras3",)])
    def test_a_class_whose_slots_cannot_be_foreseen(self, family: str) -> None:
        base = OPTIMIZERS[family].Adam
        own = type("Own", (base,), {"__init__": lambda self: base.__init__(self, 0.05)})
        source, trained = trained_for(2, optimizer("legacy", "Adam"), "legacy")
        target, others = own(), like(family, trained)
        with self.assertRaisesRegex(ArgumentValueError, "optimizer must be built, or one that its config makes again"):
            mpls.convert_state(source, target, others, source_variables=trained)
        self.assertFalse(getattr(target, "built", False) or getattr(target, "_built", False))
        target.build(others)
        mpls.convert_state(source, target, others, source_variables=trained)

    def test_graphs_and_replicas(self) -> None:
        source, trained = trained_for(1, optimizer("legacy", "SGD"), "legacy")
        target = optimizer("legacy", "SGD")

        @tf.function(autograph=False)
        def inside() -> None:
            mpls.convert_state(source, target, trained)

        for call in (inside, lambda: tf.compat.v1.wrap_function(inside, [])):
            with self.assertRaisesRegex(UnsupportedGraphError, "must be called in eager mode"):
                call()
        strategy = tf.distribute.MirroredStrategy(["CPU:0"])
        with self.assertRaisesRegex(ArgumentValueError, "must be called outside of strategy.run"):
            strategy.run(lambda: mpls.convert_state(source, target, trained))

    def test_source_variables_are_for_live_sources(self) -> None:
        with self.assertRaisesRegex(ArgumentValueError, "source_variables must be left out where the source is a file"):
            mpls.convert_state("nowhere", optimizer("legacy", "SGD"), [], source_variables=[])


class LeftOutTest(unittest.TestCase):
    """What the target has no use for is reported, with a warning where it was of use."""

    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS])
    @pytest.mark.default_run("one case")
    def test_slots(self, label: str, a: str, b: str) -> None:
        for algorithm, settings, slot in (
            ("Adam", {"amsgrad": True}, "vhat"),
            ("RMSprop", {"momentum": 0.5}, "momentum"),
            ("RMSprop", {"centered": True}, "mg"),
        ):
            source, trained = trained_for(2, optimizer(a, algorithm, **settings), a)
            target = optimizer(b, algorithm)
            with self.assertWarnsRegex(MplsWarning, f"left out .*: slot '{slot}'") as caught:
                report = mpls.convert_state(source, target, like(b, trained), source_variables=trained)
            self.assertEqual((len(caught.warnings), caught.filename), (1, __file__))
            self.assertIn(f"slot '{slot}'", report.left_out[0])

    def test_a_count_beyond_the_period_of_the_target(self) -> None:
        for family in OPTIMIZERS:
            for made in (Wrapper, NATIVE[family]):
                wrapped = Wrapper(optimizer("new", "SGD", momentum=0.9), initial_scale=8.0, dynamic_growth_steps=9)
                source, trained = trained_for(7, wrapped, "new")
                target = made(optimizer(family, "SGD", momentum=0.9), dynamic_growth_steps=3)
                others = like(family, trained)
                report = mpls.convert_state(source, target, others, source_variables=trained)
                self.assertEqual(report.loss_scale, (8.0, 2))
                train(target, others, 7, 8)
                self.assertEqual(float(scale_of(target)), 16.0)

    def test_the_report_reads_well(self) -> None:
        wrapped = Wrapper(optimizer("legacy", "Adam", decay=0.5), initial_scale=64.0)
        source, trained = trained_for(3, wrapped, "legacy")
        target, others = Wrapper(optimizer("keras3", "Adam", 0.25, use_ema=True)), like("keras3", trained)
        text = str(mpls.convert_state(source, target, others, source_variables=trained))
        self.assertEqual(
            text.splitlines(),
            [
                "tf_keras.optimizers.legacy.Adam -> keras.optimizers.Adam",
                "iterations: 3",
                "slots of dense/kernel: momentum, velocity",
                "slots of dense/bias: momentum, velocity",
                "loss scale: 64, finite steps: 3",
                "started: averages of the variables: from the variables as they are",
                "settings that differ: learning_rate: 0.05, 0.25",
                "settings that differ: decay: 0.5, not there",
                "settings that differ: use_ema: False, True",
                "settings that differ: loss scale, initial scale: 64, 32768",
            ],
        )


class NamesTest(unittest.TestCase):
    """Which variable is which."""

    def record(self, names: list[str | None], family: str = "legacy", keys: Any = None) -> OptimizerRecord:
        keys = keys or [None] * len(names)
        slots = [np.full(2, index + 1.0, np.float32) for index in range(len(names))]
        found = [
            VariableRecord(key, name, {"momentum": slot}) for key, name, slot in zip(keys, names, slots, strict=True)
        ]
        return OptimizerRecord("opt", family, "SGD", iterations=1, variables=found)  # type: ignore[arg-type]

    def order(self, record: OptimizerRecord, names: list[str], chosen: Any = None) -> list[int]:
        weights = variables("keras3", [np.zeros(2)] * len(names), names)
        target = optimizer("keras3", "SGD", momentum=0.9)
        given = weights if chosen is None else {key: weights[index] for key, index in chosen.items()}
        report = load_record(record, target, given)
        self.assertEqual(
            [name for name, _ in report.slots], [each.path for each in given.values()] if chosen else names
        )
        return [int(slot.numpy()[0]) for slot in target.variables[2:]]

    @parameterized.expand(
        [
            ("equal", ["a/w", "a/b"], ["a/b", "a/w"]),
            ("with numbers of outputs", ["a/w:0", "a/b:0"], ["a/b", "a/w"]),
            ("in scopes that all share", ["Adam/model/w:0", "Adam/model/b:0"], ["dense/b", "dense/w"]),
            ("in one scope more", ["x/w", "y/w"], ["model/y/w", "model/x/w"]),
        ]
    )
    def test_by_name(self, label: str, source: list[str | None], target: list[str]) -> None:
        for keys in (None, ["k0", "k1"]):
            self.assertEqual(self.order(self.record(source, keys=keys), target), [2, 1])

    def test_by_key_where_there_is_no_name(self) -> None:
        self.assertEqual(self.order(self.record([None, None], keys=["a", "b"]), ["b", "a"]), [2, 1])

    def test_by_order_where_there_are_other_names(self) -> None:
        self.assertEqual(self.order(self.record(["x/w", "y/w"]), ["dense/w", "dense_1/w"]), [1, 2])
        self.assertEqual(self.order(self.record([None, None]), ["dense/w", "dense_1/w"]), [1, 2])
        self.assertEqual(self.order(self.record(["w", "w"], "new", ["0", "1"]), ["a", "b"]), [1, 2])

    def test_by_dict(self) -> None:
        record = self.record(["x/w", "y/w"], keys=["one", "two"])
        self.assertEqual(self.order(record, ["a", "b"], {"two": 0, "one": 1}), [2, 1])
        self.assertEqual(self.order(record, ["a", "b"], {"x/w": 1, "y/w:0": 0}), [1, 2])

    def test_a_dict_of_some(self) -> None:
        record = self.record(["x", "y"], keys=["one", "two"])
        with self.assertWarnsRegex(MplsWarning, "slots of one: not among the variables given"):
            self.assertEqual(self.order(record, ["a"], {"two": 0}), [2])

    @parameterized.expand(
        [
            ("other names, no order", ["x/w", "y/w"], ["k0", "k1"], ["a/w", "b/w"], "other names"),
            ("one name elsewhere", ["d/w", "d_1/w"], None, ["d_1/w", "d_2/w"], "got 'd_1/w' at another place"),
            ("a name twice, no order", ["w", "w"], ["k0", "k1"], ["w", "b"], "other names"),
            ("more", ["x", "y", "z"], None, ["a", "b"], "as many variables as the optimizer, 2; got 3"),
        ]
    )
    def test_what_cannot_be_told(self, label: str, source: Any, keys: Any, target: list[str], message: str) -> None:
        with self.assertRaisesRegex(SavedStateError, message) as caught:
            self.order(self.record(source, keys=keys), target)
        for name in (*(keys or source), *target):
            self.assertIn(name, str(caught.exception))

    def test_shapes_in_another_order(self) -> None:
        slots = [np.zeros(3, np.float32), np.zeros((2, 2), np.float32)]
        for keys, is_told in (((None, None), False), (("k0", "k1"), True)):
            found = [VariableRecord(key, None, {"momentum": slot}) for key, slot in zip(keys, slots, strict=True)]
            record = OptimizerRecord("opt", "legacy", "SGD", iterations=1, variables=found)
            weights = variables("keras3", [np.zeros((2, 2)), np.zeros(3)], ["a", "b"])
            target = optimizer("keras3", "SGD", momentum=0.9)
            if is_told:
                load_record(record, target, weights)
            else:
                with self.assertRaisesRegex(SavedStateError, "have the shapes of the target's variables, one by one"):
                    load_record(record, target, weights)

    def test_keys_that_are_wrong(self) -> None:
        record = self.record(["x", "y"], keys=["one", "two"])
        for chosen in ({"three": 0, "one": 1}, {"one": 0, "x": 1}):
            with self.assertRaisesRegex(SavedStateError, "must each be the key or the name of one variable"):
                self.order(record, ["a", "b"], chosen)
