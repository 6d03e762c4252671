"""The scaled step over a host that only takes notes."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import tensorflow as tf
from parameterized import parameterized

from mpls.core.dynamic import DynamicLossScale
from mpls.core.fast import group
from mpls.core.loss_scale import FixedLossScale, LossScale, LossScaling, exceeds
from mpls.core.step import scaled_step

v1 = tf.compat.v1
INF = float("inf")


class Notes:
    """Step hooks that note when they are called, and count in variables when what they return is run."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.pairs: list[Any] = []
        self.applied, self.skipped = tf.Variable(0), tf.Variable(0)

    sums_gradients, are_same = False, False

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        self.calls.append("apply")
        self.pairs.append(grads_and_vars)
        return self.applied.assign_add(1)

    def skip(self) -> Any:
        self.calls.append("skip")
        return self.skipped.assign_add(1)

    def counts(self) -> tuple[int, int]:
        return int(self.applied), int(self.skipped)


class Told(LossScale):
    """A loss scale that answers what it is told to, and notes the gradients."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.updates = tf.Variable(0)
        self.seen: list[Any] = []

    def __call__(self) -> Any:
        return tf.constant(1.0)

    def update(self, grads: Any) -> Any:
        self.seen.append(grads)
        return self.updates.assign_add(1), self.answer() if callable(self.answer) else self.answer

    def get_config(self) -> dict[str, Any]:
        return {}


class EagerTest(unittest.TestCase):
    @parameterized.expand([("python", bool), ("numpy", np.bool_), ("tensor", tf.constant)])
    def test_one_hook_is_called_and_the_other_not(self, name: str, kind: Any) -> None:
        for answer, calls, counts in ((True, ["apply"], (1, 0)), (False, ["skip"], (0, 1))):
            notes, scale = Notes(), Told(kind(answer))
            variable, grad = tf.Variable(1.0), tf.constant(2.0)
            self.assertIsNone(scaled_step([(grad, variable)], scale, notes))
            self.assertEqual((notes.calls, notes.counts()), (calls, counts))
            self.assertEqual(int(scale.updates), 1)

    def test_what_the_hooks_and_the_scale_are_given(self) -> None:
        notes, scale = Notes(), Told(True)
        variables = [tf.Variable(1.0), tf.Variable([2.0]), tf.Variable([[3.0]])]
        grads = [tf.constant(2.0), None, tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]))]
        scaled_step(iter(zip(grads, variables, strict=True)), scale, notes)
        self.assertEqual(len(scale.seen), 1)
        for given, grad in zip(scale.seen[0], grads, strict=True):
            self.assertIs(given, grad)
        ((first, second, third),) = notes.pairs
        for pair, grad, variable in zip((first, second, third), grads, variables, strict=True):
            self.assertIs(pair[0], grad)
            self.assertIs(pair[1], variable)

    def test_no_pairs(self) -> None:
        notes, scale = Notes(), Told(True)
        scaled_step([], scale, notes)
        self.assertEqual((scale.seen, notes.pairs), ([[]], [[]]))

    def test_the_scale_is_updated_before_the_hooks_run(self) -> None:
        order: list[str] = []

        class Ordered(Notes):
            def apply(self, grads_and_vars: Any) -> Any:
                order.append(f"apply after {int(scale.updates)} update")

            def skip(self) -> Any:
                order.append(f"skip after {int(scale.updates) - 1} update")

        scale = Told(True)
        scaled_step([], scale, Ordered())
        scale.answer = False
        scaled_step([], scale, Ordered())
        self.assertEqual(order, ["apply after 1 update", "skip after 1 update"])

    def test_an_error_in_update_leaves_the_hooks_alone(self) -> None:
        def fail() -> Any:
            raise KeyError("no")

        notes = Notes()
        with self.assertRaises(KeyError):
            scaled_step([], Told(fail), notes)
        self.assertEqual(notes.calls, [])


class GraphTest(unittest.TestCase):
    """In a graph both hooks are traced into branches, and one of them runs."""

    def setUp(self) -> None:
        graph = tf.Graph()
        context = graph.as_default()
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        self.graph = graph

    def session(self) -> Any:
        session = v1.Session(graph=self.graph)
        self.addCleanup(session.close)
        session.run(v1.global_variables_initializer())
        return session

    @parameterized.expand([(True, (1, 0)), (False, (0, 1))])
    def test_a_python_bool_makes_no_conditional(self, answer: bool, counts: tuple[int, int]) -> None:
        notes, scale = Notes(), Told(answer)
        op = scaled_step([(tf.constant(1.0), tf.Variable(1.0))], scale, notes)
        self.assertEqual(notes.calls, ["apply" if answer else "skip"])
        self.assertFalse({"If", "StatelessIf", "Switch"} & {op.type for op in self.graph.get_operations()})
        session = self.session()
        session.run(op)
        self.assertEqual(tuple(session.run([notes.applied, notes.skipped])), counts)
        self.assertEqual(session.run(scale.updates), 1)

    def test_a_known_tensor_makes_no_conditional(self) -> None:
        notes = Notes()
        scaled_step([(tf.constant(1.0), tf.Variable(1.0))], Told(lambda: tf.constant(True)), notes)
        self.assertEqual(notes.calls, ["apply"])

    @parameterized.expand([(1,), (2,)])
    def test_a_tensor_decides_when_it_runs(self, version: int) -> None:
        was_v2 = v1.control_flow_v2_enabled()
        (v1.enable_control_flow_v2 if version == 2 else v1.disable_control_flow_v2)()
        try:
            flag = v1.placeholder(tf.bool, [])
            notes, scale = Notes(), Told(flag)
            op = scaled_step([(tf.constant(1.0), tf.Variable(1.0))], scale, notes)
        finally:
            (v1.enable_control_flow_v2 if was_v2 else v1.disable_control_flow_v2)()
        self.assertEqual(sorted(notes.calls), ["apply", "skip"])
        self.assertIsInstance(op, tf.Operation)
        session = self.session()
        for answer, expected in ((True, (1, 0, 1)), (False, (1, 1, 2)), (True, (2, 1, 3))):
            session.run(op, {flag: answer})
            self.assertEqual(tuple(session.run([notes.applied, notes.skipped, scale.updates])), expected)

    def test_hooks_that_return_nothing(self) -> None:
        class Silent(Notes):
            def apply(self, grads_and_vars: Any) -> Any:
                super().apply(grads_and_vars)

            def skip(self) -> Any:
                super().skip()

        flag = v1.placeholder(tf.bool, [])
        notes, scale = Silent(), Told(flag)
        op = scaled_step([(tf.constant(1.0), tf.Variable(1.0))], scale, notes)
        self.assertEqual(sorted(notes.calls), ["apply", "skip"])
        session = self.session()
        for updates, answer in enumerate((True, False, True), 1):
            session.run(op, {flag: answer})
            self.assertEqual(session.run(scale.updates), updates)

    def test_a_loss_scale_of_tensorflow_itself(self) -> None:
        grad, variable, notes = v1.placeholder(tf.float32, []), tf.Variable(1.0), Notes()
        scale = v1.mixed_precision.DynamicLossScale(8, 2)
        op = scaled_step([(grad, variable)], scale, notes)
        session = self.session()
        for value, counts, after in ((1.0, (1, 0), 8.0), (INF, (1, 1), 4.0), (1.0, (2, 1), 4.0), (1.0, (3, 1), 8.0)):
            session.run(op, {grad: value})
            self.assertEqual((*session.run([notes.applied, notes.skipped]), session.run(scale())), (*counts, after))


class FunctionTest(unittest.TestCase):
    @parameterized.expand([("function", False), ("jit_compile", True)])
    def test_one_branch_runs(self, name: str, jit_compile: bool) -> None:
        notes, scale = Notes(), DynamicLossScale(8, 2)
        variable = tf.Variable(1.0)

        @tf.function(jit_compile=jit_compile)
        def step(grad: Any) -> None:
            scaled_step([(grad, variable)], scale, notes)

        expected = [(1.0, (1, 0), 8.0), (INF, (1, 1), 4.0), (2.0, (2, 1), 4.0), (3.0, (3, 1), 8.0)]
        for value, counts, after in expected:
            step(tf.constant(value))
            self.assertEqual((notes.counts(), float(scale())), (counts, after))

    def test_a_fixed_scale_makes_no_conditional(self) -> None:
        notes = Notes()
        step = tf.function(lambda grad: scaled_step([(grad, notes.applied)], FixedLossScale(8), notes) and None)
        graph = step.get_concrete_function(tf.constant(1.0)).graph
        self.assertEqual(notes.calls, ["apply"])
        self.assertFalse({"If", "StatelessIf"} & {op.type for op in graph.get_operations()})


def two_replicas() -> Any:
    # Collective ops of strategies in one process are told apart by these keys alone.
    tf.distribute.MirroredStrategy._collective_key_base += 10_007
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class StrategyTest(unittest.TestCase):
    def setUp(self) -> None:
        self.strategy = two_replicas()

    def run_steps(self, notes: Notes, scale: Any, variable: Any, values: list[list[float]]) -> list[Any]:
        @tf.function
        def run(grads: Any) -> None:
            self.strategy.run(lambda grad: scaled_step([(grad, variable)], scale, notes) and None, (grads,))

        seen = []
        for pair in values:
            grads = self.strategy.experimental_distribute_values_from_function(
                lambda context, pair=pair: tf.constant(pair[context.replica_id_in_sync_group])
            )
            run(grads)
            seen.append((notes.counts(), float(scale())))
        return seen

    def test_apply_runs_on_every_replica_and_skip_once(self) -> None:
        with self.strategy.scope():
            scale, variable = DynamicLossScale(8, 2), tf.Variable(1.0)
            scale()
        seen: list[Any] = []

        class PerReplica(Notes):
            def apply(inner, grads_and_vars: Any) -> Any:  # noqa: N805
                seen.append((tf.distribute.in_cross_replica_context(), grads_and_vars[0][1] is variable))
                return super().apply(grads_and_vars)

            def skip(inner) -> Any:  # noqa: N805
                seen.append((tf.distribute.in_cross_replica_context(), None))
                return super().skip()

        notes = PerReplica()
        result = self.run_steps(notes, scale, variable, [[1.0, 1.0], [1.0, INF], [INF, 1.0], [2.0, 3.0]])
        self.assertEqual(result, [((2, 0), 8.0), ((2, 1), 4.0), ((2, 2), 2.0), ((4, 2), 2.0)])
        # Traced once: two replicas that get the mirrored variable itself, and one skip for all of them.
        self.assertEqual(sorted(seen, key=str), [(False, True), (False, True), (True, None)])

    def test_a_python_bool(self) -> None:
        with self.strategy.scope():
            variable = tf.Variable(1.0)
        for scale, expected in ((FixedLossScale(8), (2, 0)), (Told(False), (0, 1))):
            notes = Notes()
            self.assertEqual(self.run_steps(notes, scale, variable, [[1.0, INF]]), [(expected, float(scale()))])


class GroupTest(unittest.TestCase):
    def test_nothing_in_eager_mode(self) -> None:
        self.assertIsNone(group(None, tf.constant(1.0)))

    def test_one_op_in_a_graph(self) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            counts = [tf.Variable(0), tf.Variable(0)]
            op = group(counts[0].assign_add(1), None, counts[1].assign_add(2).op, tf.no_op(), name="all_of_it")
            self.assertEqual(op.name, "all_of_it")
            session.run(v1.global_variables_initializer())
            session.run(op)
            self.assertEqual(session.run(counts), [1, 2])
            session.run(group(None))


class LossScalingTest(unittest.TestCase):
    """One reading of a scale, which a loss that cannot hold it may lower."""

    @parameterized.expand(
        [
            ("float16", 2.0**17, 2.0**15),
            ("float16", 65504.0, 65504.0),
            ("float16", 65505.0, 2.0**15),
            ("bfloat16", 2.0**17, 2.0**17),
            ("float32", 2.0**126, 2.0**126),
            ("float64", 2.0**126, 2.0**126),
        ]
    )
    def test_a_fixed_scale_is_lowered_to_what_the_loss_can_hold(self, name: str, scale: float, used: float) -> None:
        for is_callable in (False, True):
            scaling = LossScaling(FixedLossScale(scale))
            loss = tf.constant(0.5, name)
            scaled = scaling.scale_loss((lambda loss=loss: loss) if is_callable else loss)
            scaled = scaled() if is_callable else scaled
            self.assertEqual((scaled.dtype.name, float(scaling.scale)), (name, used))
            self.assertEqual(float(scaled), float(tf.cast(used, name)) / 2)

    def test_a_dynamic_scale_is_left_alone(self) -> None:
        scaling = LossScaling(DynamicLossScale(2.0**17))
        self.assertEqual(float(scaling.scale_loss(tf.constant(0.75, tf.float16))), INF)
        self.assertEqual(float(scaling.scale), 2.0**17)

    def test_what_multiplies_is_what_divides(self) -> None:
        scale = DynamicLossScale(8, 1)
        scaling = LossScaling(scale)
        loss = scaling.scale_loss(lambda: tf.constant(1.0))
        scale.update([tf.constant(1.0)])
        self.assertEqual((float(loss()), float(scaling.scale), float(scale())), (8.0, 8.0, 16.0))

    @parameterized.expand([(FixedLossScale(65504), False), (FixedLossScale(65536), True), (None, False)])
    def test_exceeds(self, scale: Any, expected: bool) -> None:
        self.assertEqual(exceeds(scale, tf.float16), expected)
        self.assertFalse(exceeds(scale, tf.float32))
        self.assertFalse(exceeds(scale, tf.int32))
