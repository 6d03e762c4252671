"""Functions of eager tensors that become one op when they are called again and again."""

from __future__ import annotations

import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from parameterized import parameterized

from mpls.core import fast
from mpls.core.fast import AsOneOp
from mpls.core.gradients import all_finite, unscale_gradients


class FewAreEnough(unittest.TestCase):
    """Has single small tensors treated as many are."""

    def setUp(self) -> None:
        self.few_are_enough = mock.patch.object(fast, "_MANY", 1)
        self.few_are_enough.start()
        self.addCleanup(self.few_are_enough.stop)


class Doubled:
    """A function under test; it says how it was called."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.call = AsOneOp(self.doubled)

    def doubled(self, tensors: list[Any]) -> list[Any]:
        self.seen.append("eagerly" if tf.executing_eagerly() else "traced")
        return [tensor + tensor for tensor in tensors]

    def times(self, number: int, *tensors: Any, varying: tuple[int, ...] = ()) -> list[Any]:
        for _ in range(number):
            results = self.call(list(tensors), varying)
        return results


class AsOneOpTest(FewAreEnough):
    def test_it_is_traced_once_when_it_is_called_again_and_again(self) -> None:
        fn = Doubled()
        for _ in range(6):
            one, two = fn.call([tf.constant([1.0, 2.0]), tf.constant(3.0, tf.float64)])
            np.testing.assert_array_equal(one, [2.0, 4.0])
            self.assertEqual((two.dtype, two.numpy()), (tf.float64, 6.0))
        self.assertEqual(fn.seen, ["eagerly"] * fast._CALLS_BEFORE + ["traced"])

    def test_each_list_of_kinds_has_its_own(self) -> None:
        fn = Doubled()
        kinds = [[tf.ones([2])], [tf.ones([2]), tf.ones([2])], [tf.ones([2, 1])], [tf.ones([2], tf.float16)]]
        for tensors in kinds:
            fn.times(4, *tensors)
        for tensors in kinds:
            results = fn.times(2, *tensors)
            self.assertEqual([(each.dtype, each.shape) for each in results], [(t.dtype, t.shape) for t in tensors])
        self.assertEqual(fn.seen.count("traced"), 4)

    def test_lengths_that_vary_share_one(self) -> None:
        fn = Doubled()
        for length in range(8):
            fixed, varied = fn.times(1, tf.ones([3]), tf.fill([length, 2], 2.0), varying=(1,))
            np.testing.assert_array_equal(fixed, [2.0] * 3)
            np.testing.assert_array_equal(varied, np.full([length, 2], 4.0))
        self.assertEqual(fn.seen.count("traced"), 1)

    def test_those_not_used_for_long_are_forgotten(self) -> None:
        fn = Doubled()
        used = tf.ones([1])
        fn.times(3, used)
        for length in range(2, 2 * fast._MOST_FUNCTIONS):
            fn.times(2, tf.ones([length]))
            fn.times(1, used)
            self.assertLessEqual(len(fn.call._functions), fast._MOST_FUNCTIONS)
        self.assertEqual(fn.seen.count("traced"), 1)
        fn.times(2, tf.ones([2]))
        self.assertEqual(fn.seen.count("traced"), 1)
        fn.times(1, tf.ones([2]))
        self.assertEqual(fn.seen.count("traced"), 2)

    def test_many_threads_trace_once(self) -> None:
        fn = Doubled()
        barrier = threading.Barrier(8)

        def call() -> list[float]:
            barrier.wait(30)
            return [fn.times(1, tf.fill([3], float(index)))[0].numpy().sum() for index in range(20)]

        with ThreadPoolExecutor(8) as pool:
            results = [future.result() for future in [pool.submit(call) for _ in range(8)]]
        self.assertEqual(results, [[6.0 * index for index in range(20)]] * 8)
        self.assertEqual(fn.seen.count("traced"), 1)

    def test_an_error_is_the_callers_each_time(self) -> None:
        def failing(tensors: list[Any]) -> list[Any]:
            raise ValueError("as it is written")

        fn = AsOneOp(failing)
        for _ in range(5):
            with self.assertRaisesRegex(ValueError, "as it is written"):
                fn([tf.ones([2])])

    def test_also_where_users_have_functions_run_eagerly(self) -> None:
        tf.config.run_functions_eagerly(True)
        self.addCleanup(tf.config.run_functions_eagerly, False)
        fn = Doubled()
        np.testing.assert_array_equal(fn.times(5, tf.ones([2]))[0], [2.0, 2.0])
        self.assertEqual(fn.seen.count("eagerly"), fast._CALLS_BEFORE)


class OpByOpTest(FewAreEnough):
    """Where the function runs as it is written, however often."""

    def assert_op_by_op(self, *tensors: Any, expected: str = "eagerly") -> list[Any]:
        fn = Doubled()
        results = fn.times(5, *tensors)
        self.assertEqual(fn.seen, [expected] * 5)
        return results

    def test_under_a_tape_which_sees_the_ops(self) -> None:
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            (result,) = self.assert_op_by_op(x)
        self.assertEqual(float(tape.gradient(result, x)), 2.0)

    def test_gradients_of_unscaled_gradients(self) -> None:
        x = tf.Variable(3.0)
        for _ in range(5):
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    loss = 8.0 * x**3
                (unscaled,) = unscale_gradients([inner.gradient(loss, x)], tf.constant(8.0))
            self.assertEqual(float(outer.gradient(unscaled, x)), 18.0)

    def test_in_a_graph(self) -> None:
        with tf.Graph().as_default():
            self.assert_op_by_op(tf.ones([2]), expected="traced")

    def test_in_a_function(self) -> None:
        tf.function(lambda: self.assert_op_by_op(tf.ones([2]), expected="traced"), autograph=False)()

    def test_where_plain_ways_are_asked_for(self) -> None:
        with mock.patch.object(fast, "uses_plain_ways", return_value=True):
            self.assert_op_by_op(tf.ones([2]))

    def test_under_a_strategy(self) -> None:
        with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            self.assert_op_by_op(tf.ones([2]))

    def test_on_two_devices(self) -> None:
        with tf.device("CPU:1"):
            other = tf.ones([2])
        self.assert_op_by_op(tf.ones([2]), other)

    def test_with_variables(self) -> None:
        self.assert_op_by_op(tf.Variable([1.0]))

    def test_with_nothing(self) -> None:
        self.assert_op_by_op()

    def test_with_few_small_ones(self) -> None:
        self.few_are_enough.stop()
        self.addCleanup(self.few_are_enough.start)
        self.assert_op_by_op(*[tf.ones([2**10])] * 3)
        for tensors in ([tf.ones([2])] * 4, [tf.ones([2**10, 2**10])]):
            fn = Doubled()
            fn.times(3, *tensors)
            self.assertIn("traced", fn.seen)

    def test_with_what_is_no_gradient_for_the_errors_of_ops(self) -> None:
        self.assert_op_by_op(tf.ones([2]), tf.constant(3))
        for _ in range(5):
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "int32 is not in the list of allowed values"):
                all_finite([tf.constant(3)])

    @parameterized.expand(
        [
            ("a processor", "/job:localhost/replica:0/task:0/device:CPU:0", True),
            ("another processor", "/job:localhost/replica:0/task:0/device:CPU:1", False),
            ("a GPU", "/job:localhost/replica:0/task:0/device:GPU:0", False),
            ("another machine", "/job:worker/replica:0/task:1/device:CPU:0", False),
            ("several devices", "/job:localhost/replica:0/task:0/device:CUSTOM:0", False),
        ]
    )
    def test_by_device(self, name: str, device: str, expected: bool) -> None:
        self.assertEqual(fast._is_default_cpu(device), expected)

    def test_on_another_device_where_results_stay(self) -> None:
        with tf.device("CPU:1"):
            tensor = tf.ones([2])
            (result,) = self.assert_op_by_op(tensor)
        self.assertIn("CPU:1", result.device)

    def test_where_there_is_a_gpu(self) -> None:
        # Which is where the op would be.
        fast._is_default_cpu.cache_clear()
        self.addCleanup(fast._is_default_cpu.cache_clear)
        with mock.patch.object(fast, "_present_kinds", return_value=frozenset({"CPU", "GPU"})):
            self.assert_op_by_op(tf.ones([2]))


class GradientsTest(FewAreEnough):
    """The two functions that are called in this way."""

    @parameterized.expand([(scale, dtype) for scale in (8.0, 3.0, 2.0**25) for dtype in ("float32", "float16")])
    def test_step_after_step(self, scale: float, dtype: str) -> None:
        for step in range(6):
            # A batch that has other words in each step.
            sparse = tf.IndexedSlices(tf.cast(tf.fill([step, 2], 3.0), dtype), tf.range(step), tf.constant([9, 2]))
            dense = [tf.cast(tf.fill([5, 5], 3.0 + step), dtype) for _ in range(6)]
            unscaled = unscale_gradients([sparse, *dense, None], tf.constant(scale))
            exact = np.float32(3.0 + step) / np.float32(scale)
            for each in unscaled[1:7]:
                self.assertEqual(each.dtype, dtype)
                np.testing.assert_array_equal(each, np.full([5, 5], exact, dtype))
            self.assertIsInstance(unscaled[0], tf.IndexedSlices)
            self.assertEqual(unscaled[0].values.shape, [step, 2])
            self.assertIsNone(unscaled[7])
            self.assertTrue(bool(all_finite(unscaled)))
            damaged = [*unscaled, tf.constant(np.inf if step % 2 else 1.0)]
            self.assertEqual(bool(all_finite(damaged)), step % 2 == 0)

    def test_a_scale_that_changes_is_used_at_once(self) -> None:
        grads = [tf.constant([6.0])] * 3
        for scale in (1.0, 2.0, 4.0, 8.0, 3.0, 2.0, 1024.0, 3.0, 5.0, 7.0):
            for unscaled in unscale_gradients(grads, tf.constant(scale)):
                self.assertEqual(float(unscaled[0]), np.float32(6.0) / np.float32(scale))
