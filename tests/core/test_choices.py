"""Which ways to unscale gradients and to check them are chosen, seen in the ops that come out."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1
from mpls.core import fast
from mpls.core.gradients import all_finite, unscale_gradients


def op_types(fn: Callable[[list[Any]], Any], arrays: list[np.ndarray], *, xla: bool = False) -> list[str]:
    """Return the types of the ops that are made for an `fn`, traced, but those that pack booleans."""
    function = tf.function(fn, jit_compile=xla, autograph=False)
    graph = function.get_concrete_function([tf.TensorSpec(each.shape, each.dtype) for each in arrays]).graph
    return types_in(graph)


def types_in(graph: Any) -> list[str]:
    packed = [op for op in graph.get_operations() if op.type == "Pack" and op.outputs[0].dtype == tf.bool]
    return [op.type for op in graph.get_operations() if op not in packed]


SCALE = np.float32(2.0)
SMALL = [np.ones([2, 3], np.float32)] * 6
# Those in a stack, and one beside it.
STACKED_AND_ONE = [*SMALL, np.ones(5, np.float32)]


@contextmanager
def patched(*patches: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        forget_devices()
        try:
            yield
        finally:
            forget_devices()


def forget_devices() -> None:
    fast._device_kinds.cache_clear()
    fast._is_default_cpu.cache_clear()


def plain_ways() -> Any:
    return mock.patch.object(fast, "uses_plain_ways", return_value=True)


def with_gpu() -> Any:
    return mock.patch.object(fast, "_present_kinds", return_value=frozenset({"CPU", "GPU"}))


class ChoicesTest(unittest.TestCase):
    """Which ways are taken, seen in the ops."""

    def test_each_element_is_looked_at(self) -> None:
        types = op_types(all_finite, [np.ones(5, np.float32), np.ones(7, np.float16)])
        self.assertEqual((types.count("IsFinite"), types.count("StatelessIf")), (2, 0))

    @parameterized.expand([("float32", 0, True), ("float64", 0, True), ("float32", -1, False), ("float16", 0, False)])
    def test_large_ones_are_summed(self, dtype: str, more: int, expected: bool) -> None:
        arrays = [np.ones(fast._WORTH_A_SUM + more, dtype)] * 2
        types = op_types(all_finite, arrays)
        self.assertEqual((types.count("Sum"), types.count("StatelessIf")), (2, 1) if expected else (0, 0))
        # Each element is looked at in the conditional only.
        self.assertEqual(types.count("IsFinite"), 1 if expected else 2)

    def test_but_not_those_that_xla_compiles_or_that_eager_mode_looks_at(self) -> None:
        arrays = [np.ones(fast._WORTH_A_SUM, np.float32)]
        self.assertNotIn("Sum", op_types(all_finite, arrays, xla=True))
        with patched(with_gpu()):
            self.assertIn("Sum", op_types(all_finite, arrays))
        with mock.patch.object(tf, "reduce_sum") as called:
            self.assertTrue(bool(all_finite([tf.constant(array) for array in arrays])))
        called.assert_not_called()

    @parameterized.expand([("finite", 1.0, 1.0, True), ("too large", 3e38, 3e38, True), ("one", 3e38, np.inf, False)])
    def test_those_whose_sum_is_not_finite_are_looked_at(
        self, name: str, value: float, last: float, expected: bool
    ) -> None:
        array = np.full(fast._WORTH_A_SUM, value, np.float32)
        array[-1] = last
        check = tf.function(all_finite, autograph=False)
        for grads in ([array], [array, -array], [array, np.ones(3, np.float16)]):
            self.assertEqual(bool(check([tf.constant(grad) for grad in grads])), expected)
        self.assertFalse(bool(check([tf.constant(array), tf.constant([np.nan])])))

    def test_small_ones_are_stacked(self) -> None:
        types = op_types(all_finite, STACKED_AND_ONE)
        self.assertEqual((types.count("Pack"), types.count("IsFinite")), (1, 2))
        types = op_types(lambda grads: unscale_gradients(grads[1:], grads[0]), [SCALE, *SMALL])
        self.assertEqual((types.count("RealDiv"), types.count("Unpack")), (1, 1))

    def test_small_ones_are_not_stacked_only_to_divide_them_by_what_is_known(self) -> None:
        types = op_types(lambda grads: unscale_gradients(grads, tf.constant(2.0)), SMALL)
        self.assertEqual((types.count("RealDiv"), types.count("Pack"), types.count("Unpack")), (6, 0, 0))

    def test_a_stack_that_was_unscaled_is_checked_as_it_is(self) -> None:
        types = op_types(lambda grads: all_finite(unscale_gradients(grads[1:], grads[0])), [SCALE, *SMALL])
        self.assertEqual(types.count("Pack"), 1)

    def test_but_not_a_part_of_it_or_another_order(self) -> None:
        for change in (lambda grads: grads[:5], lambda grads: grads[::-1], lambda grads: [*grads, grads[0]]):
            types = op_types(
                lambda grads, c=change: all_finite(c(unscale_gradients(grads[1:], grads[0]))), [SCALE, *SMALL]
            )
            self.assertEqual(types.count("Pack"), 2)

    @parameterized.expand([("float16",), ("bfloat16",), ("float32",)])
    def test_large_ones_of_half_precision_are_not_copied_where_the_scale_is_a_power_of_two(self, dtype: str) -> None:
        for size in (2**15, 2**15 - 1):
            arrays = [SCALE, np.ones(size, tf.as_dtype(dtype).as_numpy_dtype)]
            is_large_half = size == 2**15 and dtype != "float32"
            types = op_types(lambda grads: unscale_gradients(grads[1:], grads[0]), arrays)
            self.assertEqual("StatelessIf" in types, is_large_half)
            for scale, is_exact in ((1024.0, True), (3.0, False), (2.0**25, False), (2.0**-16, False)):
                types = op_types(lambda grads, scale=scale: unscale_gradients(grads, tf.constant(scale)), arrays[1:])
                self.assertEqual("RealDiv" not in types, is_large_half and is_exact)
                self.assertNotIn("StatelessIf", types)
            with plain_ways():
                self.assertIn("RealDiv", op_types(lambda grads: unscale_gradients(grads[1:], grads[0]), arrays))

    def test_few_or_large_ones_are_not(self) -> None:
        for arrays in (SMALL[:3], [np.ones(fast.MOST_ELEMENTS + 1, np.float32)] * 6):
            self.assertNotIn("Pack", op_types(all_finite, arrays))
            types = op_types(lambda grads: unscale_gradients(grads[1:], grads[0]), [SCALE, *arrays])
            self.assertNotIn("Pack", types)

    def test_those_of_unknown_shape_are_not(self) -> None:
        function = tf.function(all_finite, input_signature=[[tf.TensorSpec(None, tf.float32)] * 6], autograph=False)
        types = types_in(function.get_concrete_function().graph)
        self.assertEqual((types.count("Pack"), types.count("IsFinite")), (0, 6))
        self.assertTrue(bool(function([tf.ones([2])] * 3 + [tf.ones([2, 2])] * 3)))
        self.assertFalse(bool(function([tf.ones([2])] * 5 + [tf.constant(np.nan)])))

    def test_small_ones_are_stacked_with_the_shapes_of_tf_1_too(self) -> None:
        tf.compat.v1.disable_v2_tensorshape()
        self.addCleanup(tf.compat.v1.enable_v2_tensorshape)
        types = op_types(lambda grads: all_finite(unscale_gradients(grads[1:], grads[0])), [SCALE, *STACKED_AND_ONE])
        self.assertEqual((types.count("Pack"), types.count("IsFinite")), (1, 2))

    def test_plain_ops_for_xla(self) -> None:
        for xla in (True, False):
            unscale_and_check = lambda grads: all_finite(unscale_gradients(grads[1:], grads[0]))  # noqa: E731
            types = op_types(unscale_and_check, [SCALE, *STACKED_AND_ONE], xla=xla)
            self.assertEqual("Unpack" in types, not xla)

    @parameterized.expand(
        [
            ("large", [4, 2**10], True),
            ("a vector", [2**12], True),
            ("small", [4, 2**10 - 1], False),
            ("few columns", [2**12, 7], False),
            ("too many for the factor", [2**13], False),
        ]
    )
    def test_products_in_programs_that_xla_compiles(self, name: str, shape: list[int], expected: bool) -> None:
        array = np.ones(shape, np.float32)
        self.assertEqual("MatMul" in op_types(all_finite, [array], xla=True), expected)
        self.assertNotIn("MatMul", op_types(all_finite, [array]))
        with patched(with_gpu()):
            # XLA reads them once there, in a kernel that unscales them too.
            self.assertNotIn("MatMul", op_types(all_finite, [array], xla=True))

    @parameterized.expand(
        [
            ("large", 2**12, np.float32, True),
            ("double", 2**12, np.float64, True),
            ("small", 2**12 - 1, np.float32, False),
            ("half", 2**12, np.float16, False),
            ("bfloat", 2**12, tf.bfloat16.as_numpy_dtype, False),
        ]
    )
    def test_squares_in_place_of_products_with_a_factor(self, name: str, size: int, dtype: Any, expected: bool) -> None:
        array = np.ones(size, dtype)
        self.assertEqual("L2Loss" in op_types(lambda grads: all_finite(grads, 2), [array]), expected)
        self.assertNotIn("L2Loss", op_types(all_finite, [array]))
        self.assertNotIn("L2Loss", op_types(lambda grads: all_finite(grads, 2), [array], xla=True))
        with plain_ways():
            self.assertNotIn("L2Loss", op_types(lambda grads: all_finite(grads, 2), [array]))

    def test_plain_ops_in_a_function_inside_of_one_for_xla(self) -> None:
        inner = tf.function(all_finite, autograph=False)
        outer = tf.function(lambda: inner([tf.ones([3]), tf.ones([5])]), jit_compile=True, autograph=False)
        self.assertTrue(bool(inner([tf.ones([3]), tf.ones([5])])))
        self.assertTrue(bool(outer()))


class FixedScaleTest(unittest.TestCase):
    def test_nothing_is_stacked_to_be_taken_apart_again(self) -> None:
        variables = [tf.Variable([1.0, 2.0]) for _ in range(6)]
        opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.5), dynamic=False, initial_scale=8)

        def step() -> None:
            with tf.GradientTape() as tape:
                loss = opt.get_scaled_loss(tf.add_n([tf.reduce_sum(each) for each in variables]))
            grads = opt.get_unscaled_gradients(tape.gradient(loss, variables))
            opt.apply_gradients(zip(grads, variables, strict=True))

        opt.build(variables)
        graph = tf.function(step, autograph=False).get_concrete_function().graph
        types = [op.type for op in graph.get_operations()]
        self.assertFalse({"Pack", "Unpack", "If", "IsFinite"} & set(types))


class DevicesTest(unittest.TestCase):
    @parameterized.expand([(["CPU:0"],), (["CPU:1"],), (["CPU:0", "CPU:1"],)])
    def test_variables_on_any_of_them_are_trained_together(self, devices: list[str]) -> None:
        variables = []
        for device in devices:
            with tf.device(device):
                variables.append(tf.Variable(1.0))
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.MomentumOptimizer(0.25, 0.5), "dynamic")
        factor = tf.Variable(1.0)

        @tf.function(autograph=False)
        def step() -> None:
            opt.minimize(lambda: tf.add_n([factor * each for each in variables]), var_list=variables)

        step()
        self.assertEqual([float(each) for each in variables], [0.75] * len(devices))
        factor.assign(np.inf)
        step()
        self.assertEqual([float(each) for each in variables], [0.75] * len(devices))
        self.assertEqual(float(opt._loss_scale()), 2.0**14)
