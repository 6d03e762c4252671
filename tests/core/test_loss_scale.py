"""Loss scales as objects: identifiers, configs, repr, and state that is made where it is used."""

from __future__ import annotations

import copy
import decimal
import fractions
import gc
import json
import math
import unittest
import weakref
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.experimental
from mpls.errors import MplsDeprecationWarning, MplsError
from mpls.experimental.loss_scales import deserialize, get, get_loss_scale_weights, serialize
from mpls.v1 import DynamicLossScale, FixedLossScale, MixedPrecisionLossScaleOptimizer
from tests.core.own_loss_scale import Counting
from tests.folders import InFolder
from tests.golden.replay import control_flow

v1 = tf.compat.v1
NATIVE = v1.mixed_precision
INF, NAN = float("inf"), float("nan")


def state(scale: Any) -> tuple[float, int]:
    return float(scale()), int(scale._num_good_steps)


class GetTest(unittest.TestCase):
    def test_numbers(self) -> None:
        arrays = (np.array(2), np.array(2.0, np.float32))
        for value in (2, 2.0, True, np.float16(2), np.float32(2), np.float64(2), np.int32(2), np.uint8(2), *arrays):
            scale = get(value)
            self.assertIs(type(scale), FixedLossScale)
            self.assertEqual(scale.get_config(), {"loss_scale_value": float(value)})
            self.assertIs(type(scale.get_config()["loss_scale_value"]), float)

    def test_dynamic(self) -> None:
        scale = get("dynamic")
        self.assertIs(type(scale), DynamicLossScale)
        expected = {"initial_loss_scale": 32768.0, "increment_period": 2000, "multiplier": 2.0}
        self.assertEqual(scale.get_config(), expected)
        self.assertIsNot(get("dynamic"), get("dynamic"))

    def test_objects_of_either_library_are_taken_as_they_are(self) -> None:
        for scale in (
            FixedLossScale(2),
            DynamicLossScale(),
            Counting(),
            NATIVE.FixedLossScale(2),
            NATIVE.DynamicLossScale(),
        ):
            self.assertIs(get(scale), scale)
        self.assertIsNone(get(None))

    def test_others_are_value_errors(self) -> None:
        of_numpy = (np.bool_(True), np.complex64(1), np.str_("1"), np.datetime64("2020"))
        arrays = (np.array([2.0]), np.array(True), np.array(1j), np.array("1"), np.array(None, object))
        numbers = (1j, decimal.Decimal(1), fractions.Fraction(1, 2))
        others = ("foo", "Dynamic", "128", b"dynamic", [], [2.0], {}, object(), DynamicLossScale)
        for value in (*others, *numbers, *of_numpy, *arrays):
            message = "get: identifier must be 'dynamic', a number or a LossScale; got "
            with self.subTest(value), self.assertRaisesRegex(ValueError, message):
                get(value)
        with self.assertRaisesRegex(TypeError, message):
            get(tf.constant(2.0))

    @parameterized.expand([(0,), (0.5,), (-1,), (False,), (-INF,), (NAN,), (INF,), (1e39,), (2.0**127,)])
    def test_numbers_that_no_fixed_scale_can_have(self, value: float) -> None:
        with self.assertRaises(ValueError) as caught:
            get(value)
        self.assertIsInstance(caught.exception, MplsError)

    def test_the_largest_number(self) -> None:
        self.assertEqual(float(get(2.0**126)()), 2.0**126)


class ConstructionTest(unittest.TestCase):
    def test_a_refused_call_in_a_graph_leaves_no_variables(self) -> None:
        with tf.Graph().as_default() as graph:
            for arguments in ({"multiplier": 0}, {"increment_period": "x"}, {"initial_loss_scale": None}):
                with self.assertRaises((ValueError, TypeError)):
                    DynamicLossScale(**arguments)
            self.assertEqual(graph.get_operations(), [])

    def test_a_fixed_one_says_whether_to_skip(self) -> None:
        for skips, expected in ((False, [True, True, True]), (True, [True, False, False])):
            scale = FixedLossScale(8, skip_nonfinite=skips)
            self.assertEqual([bool(scale.update([tf.constant(value)])[1]) for value in (1.0, INF, NAN)], expected)
            self.assertEqual(deserialize(serialize(scale)).skip_nonfinite, skips)

        class Own(FixedLossScale):
            def __init__(self) -> None:
                """Leave the original's constructor out."""

        self.assertIs(Own().skip_nonfinite, False)


class ConfigTest(unittest.TestCase):
    DYNAMIC: ClassVar[dict[str, Any]] = {"initial_loss_scale": 8.0, "increment_period": 3, "multiplier": 4.0}

    @parameterized.expand(
        [
            ("tf_2.0_to_2.3", {"class_name": "DynamicLossScale", "config": DYNAMIC}),
            (
                "later_keras",
                {
                    "module": "tensorflow.python.training.experimental.loss_scale",
                    "class_name": "DynamicLossScale",
                    "config": DYNAMIC,
                    "registered_name": "DynamicLossScale",
                },
            ),
            ("registered_none", {"class_name": "DynamicLossScale", "config": DYNAMIC, "registered_name": None}),
        ]
    )
    def test_every_form_of_a_dynamic_config(self, name: str, config: dict[str, Any]) -> None:
        before = copy.deepcopy(config)
        scale = deserialize(config)
        self.assertIs(type(scale), DynamicLossScale)
        self.assertEqual(scale.get_config(), self.DYNAMIC)
        self.assertEqual(config, before)

    def test_round_trips(self) -> None:
        for scale in (FixedLossScale(2), DynamicLossScale(8, 3, 4), Counting(5.0)):
            config = json.loads(json.dumps(serialize(scale)))
            again = deserialize(config, {"Counting": Counting})
            self.assertIs(type(again), type(scale))
            self.assertEqual(again.get_config(), scale.get_config())

    def test_classes_of_the_user_go_first(self) -> None:
        class Mine(FixedLossScale):
            pass

        config = {"class_name": "FixedLossScale", "config": {"loss_scale_value": 2.0}}
        self.assertIs(type(deserialize(config, {"FixedLossScale": Mine})), Mine)

    def test_others_are_value_errors(self) -> None:
        fixed = {"class_name": "FixedLossScale"}
        halves = (fixed, {"config": {}}, {**fixed, "config": None}, {"class_name": "Unknown", "config": {}})
        for config in ("dynamic", 128, [], {}, *halves, {**fixed, "config": {"loss_scale_value": 0.5}}):
            with self.assertRaises(ValueError) as caught:
                deserialize(config)
            self.assertIsInstance(caught.exception, MplsError)

    def test_the_error_says_how_to_pass_a_class(self) -> None:
        with self.assertRaisesRegex(ValueError, r"custom_objects=\{'Mine': TheClass\}"):
            deserialize({"class_name": "Mine", "config": {}})


class ReprTest(unittest.TestCase):
    TEXT = "initial_loss_scale=8.0, increment_period=3, multiplier=2.0)"

    def test_eager(self) -> None:
        scale, native = DynamicLossScale(8, 3), NATIVE.DynamicLossScale(8, 3)
        self.assertEqual(repr(scale), f"DynamicLossScale(current_loss_scale=8.0, num_good_steps=0, {self.TEXT}")
        self.assertEqual(scale._weights, {}, "repr has created the state")
        for value in (1.0, INF, 1.0, 1.0):
            scale.update([tf.constant(value)])
            native.update([tf.constant(value)])
            self.assertEqual(repr(scale), repr(native))

    def test_in_a_function(self) -> None:
        scale, seen = DynamicLossScale(8, 3), []
        tf.function(lambda: seen.append(repr(scale)))()
        self.assertEqual(seen, [f"DynamicLossScale({self.TEXT}"])


class StateTest(unittest.TestCase):
    """Variables come into being where the object is used, once for each graph."""

    def test_dtypes_and_names(self) -> None:
        scale = DynamicLossScale(8)
        self.assertEqual(scale._current_loss_scale.name, "current_loss_scale:0")
        self.assertEqual(scale._num_good_steps.name, "good_steps:0")
        self.assertIs(scale._lookup_dependency("good_steps"), scale._num_good_steps)
        self.assertEqual((scale._current_loss_scale.dtype, scale._num_good_steps.dtype), (tf.float32, tf.int64))
        self.assertFalse(scale._current_loss_scale.trainable or scale._num_good_steps.trainable)
        self.assertEqual((scale().dtype, scale().shape), (tf.float32, []))

    def test_a_graph_has_it_from_construction_on(self) -> None:
        with tf.Graph().as_default():
            DynamicLossScale(8)
            self.assertEqual([v.op.name for v in v1.global_variables()], ["current_loss_scale", "good_steps"])

    def test_built_outside_of_the_graphs_that_use_it(self) -> None:
        scale = DynamicLossScale(8, 1)
        results = []
        for overflows in (1, 3):
            with tf.Graph().as_default() as graph:
                grad = v1.placeholder(tf.float32, [])
                op, should_apply = scale.update([grad])
                self.assertIs(scale().graph, graph)
                self.assertEqual(len(v1.global_variables()), 2)
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    flags = [session.run([should_apply, op], {grad: INF})[0] for _ in range(overflows)]
                    results.append((flags, session.run(scale._current_loss_scale)))
        self.assertEqual(results, [([False], 4.0), ([False] * 3, 1.0)])
        # None of it has touched the eager state.
        self.assertEqual(state(scale), (8.0, 0))

    def test_names_do_not_depend_on_the_scope_of_the_first_use(self) -> None:
        scale = DynamicLossScale(8)
        with tf.Graph().as_default():
            with tf.name_scope("train"), v1.variable_scope("layers"):
                scale()
            self.assertEqual([v.op.name for v in v1.global_variables()], ["current_loss_scale", "good_steps"])

    def test_first_used_in_a_branch_of_a_function(self) -> None:
        scale = DynamicLossScale(8, 1)

        @tf.function
        def maybe(flag: Any) -> Any:
            return tf.cond(flag, lambda: scale(), lambda: tf.constant(0.0))

        self.assertEqual([float(maybe(tf.constant(flag))) for flag in (True, False)], [8.0, 0.0])
        self.assertEqual(state(scale), (8.0, 0))

    @parameterized.expand([(10**30, 8.0), (2**63, 8.0), (2**63 - 1, 8.0), (-(10**30), 16.0)])
    @pytest.mark.default_run("one case")
    def test_periods_that_no_counter_holds(self, period: int, after: float) -> None:
        for decorate in (lambda step: step, tf.function):
            scale = DynamicLossScale(8, period)
            scale()
            decorate(lambda scale=scale: scale.update([tf.constant(1.0)])[1])()
            self.assertEqual(float(scale()), after)
            self.assertEqual(scale.get_config()["increment_period"], period)

    def test_graphs_that_have_used_it_are_freed(self) -> None:
        scale, graphs = DynamicLossScale(8.0), []
        self.assertTrue(bool(scale.update([tf.constant(1.0)])[1]))
        for _ in range(3):
            with tf.Graph().as_default() as graph, v1.Session() as session:
                weight = v1.get_variable("weight", initializer=1.0, use_resource=True)
                opt = MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(0.5, 0.5), scale)
                train_op = opt.minimize(weight * weight)
                session.run(v1.global_variables_initializer())
                session.run(train_op)
            graphs.append(weakref.ref(graph))
        del graph, session, weight, opt, train_op
        for _ in range(3):
            gc.collect()
        self.assertEqual([each() for each in graphs], [None] * 3)
        self.assertEqual(sorted(name for name, _ in scale._weights), ["current_loss_scale", "good_steps"])
        self.assertEqual(int(scale._num_good_steps), 1)

    def test_weights(self) -> None:
        for scale in (DynamicLossScale(8), NATIVE.DynamicLossScale(8)):
            names = {each.name.partition(":")[0].rpartition("/")[2] for each in get_loss_scale_weights(scale)}
            self.assertEqual(names, {"current_loss_scale", "good_steps"})
        self.assertEqual(get_loss_scale_weights(FixedLossScale(8)), [])
        scale = DynamicLossScale(8)
        for _ in range(2):
            with tf.Graph().as_default() as graph:
                self.assertEqual([each.graph for each in get_loss_scale_weights(scale)], [graph] * 2)
        for given in (None, 8.0, tf.constant(8.0), []):
            with self.assertRaisesRegex(TypeError, "^get_loss_scale_weights: loss_scale must be a LossScale"):
                get_loss_scale_weights(given)

    def test_weights_over_keras_3(self) -> None:
        with mpls.install(as_of="2.3"):
            with pytest.warns(MplsDeprecationWarning):
                optimizer = mpls.experimental.LossScaleOptimizer(keras.optimizers.SGD(), "dynamic")
            found = [float(each) for each in get_loss_scale_weights(optimizer.loss_scale)]
        self.assertEqual(found, [2.0**15, 0.0])


class UpdateInGraphsTest(unittest.TestCase):
    """What `update` returns in graphs, as every release did: a boolean that says whether the scale was due to grow."""

    FACTORS, GROWN = (1.0, 1.0, math.inf, 1.0), [False, True, False, False]

    @parameterized.expand([(api, is_v2) for api in ("ours", "original") for is_v2 in (False, True)])
    def test_in_a_session(self, api: str, is_v2: bool) -> None:
        cls = DynamicLossScale if api == "ours" else NATIVE.DynamicLossScale
        with tf.Graph().as_default(), control_flow(is_v2), v1.Session() as session:
            scale = cls(8.0, 2)
            factor = v1.placeholder(tf.float32, [])
            update_op, should_apply = scale.update([factor])
            self.assertEqual((update_op.dtype, update_op.shape.rank), (tf.bool, 0))
            session.run(v1.global_variables_initializer())
            fetches = [tf.identity(update_op), should_apply]
            found = [session.run(fetches, {factor: value}) for value in self.FACTORS]
            self.assertEqual([grown for grown, _ in found], self.GROWN)
            self.assertEqual([apply for _, apply in found], [True, True, False, True])
            self.assertEqual(session.run(scale()), 8.0)


class UpdateTest(unittest.TestCase):
    def test_a_dynamic_one_returns_no_op_in_eager_mode(self) -> None:
        self.assertIsNone(DynamicLossScale(8).update([tf.constant(1.0)])[0])

    def test_a_fixed_one_makes_no_variables(self) -> None:
        with tf.Graph().as_default():
            FixedLossScale(8).update([tf.constant(NAN)])
            self.assertEqual(v1.global_variables(), [])


class SubclassTest(unittest.TestCase):
    @parameterized.expand([("int64",), ("int32",)])
    def test_it_may_make_the_state_itself(self, dtype: str) -> None:
        class FromScratch(DynamicLossScale):
            def __init__(self) -> None:
                super(DynamicLossScale, self).__init__()
                self._initial_loss_scale, self._increment_period, self._multiplier = 32.0, 2, 2.0
                self._current_loss_scale = self._add_weight("mine", 16.0, tf.float32)
                self._num_good_steps = self._add_weight("counter", 0, dtype)

        scale = FromScratch()
        counter = scale._num_good_steps
        scale.update([tf.constant(1.0)])
        self.assertEqual((state(scale), int(counter), "counter" in counter.name), ((16.0, 1), 1, True))

    @parameterized.expand([("own", Counting, 4.0), ("fixed", FixedLossScale, 4.0), ("dynamic", DynamicLossScale, 4.0)])
    def test_weights_of_subclasses_are_in_the_state_of_each_session(self, name: str, base: Any, start: float) -> None:
        class WithAverage(base):
            def __init__(self, start: float = start) -> None:
                super().__init__(start)
                self.average = self._add_weight("average", 1.0, tf.float32)

        with tf.Graph().as_default():
            scale = WithAverage()
            sessions = [v1.Session(), v1.Session()]
            for session in sessions:
                self.addCleanup(session.close)
                session.run(v1.global_variables_initializer())
            sessions[0].run(scale.average.assign(8.0))
            scale.load_state_dict(scale.state_dict(sessions[0]), sessions[1])
            self.assertEqual(sessions[1].run(scale.average), 8.0)

    def test_a_name_is_taken_once_in_a_graph(self) -> None:
        scale = Counting()
        with self.assertRaisesRegex(RuntimeError, "'value', which is taken"):
            scale._add_weight("value", 0.0)
        with tf.Graph().as_default():
            scale._add_weight("value", 0.0)
            with self.assertRaises(RuntimeError):
                scale._add_weight("value", 0.0)


class CheckpointTest(InFolder, unittest.TestCase):
    @parameterized.expand(
        [
            (f"{w}_{r}_{u}", w, r, u)
            for w in ("ours", "original")
            for r in ("ours", "original")
            for u in ("before_use", "after_use")
        ]
    )
    def test_read(self, name: str, writer: str, reader: str, use: str) -> None:
        classes = {"ours": DynamicLossScale, "original": NATIVE.DynamicLossScale}
        source = classes[writer](8, 3)
        source.update([tf.constant(INF)])
        source.update([tf.constant(1.0)])
        path = tf.train.Checkpoint(scale=source).write(str(self.folder / "state"))
        target = classes[reader](1024, 3)
        if use == "after_use":
            target.update([tf.constant(1.0)])
        tf.train.Checkpoint(scale=target).read(path).assert_consumed().assert_existing_objects_matched()
        self.assertEqual(state(target), (4.0, 1))
        target.update([tf.constant(1.0)])
        target.update([tf.constant(1.0)])
        self.assertEqual(state(target), (8.0, 0))
