"""Which ways to unscale, to look and to branch are chosen, seen in the ops that come out."""

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
from mpls.core import finite
from mpls.core.fast import choices, stacks
from mpls.core.finite import all_finite
from mpls.core.gradients import unscale_gradients


def op_types(fn: Callable[[list[Any]], Any], arrays: list[np.ndarray], *, xla: bool = False) -> list[str]:
    """Return the types of the ops that are made for an `fn`, traced."""
    function = tf.function(fn, jit_compile=xla, autograph=False)
    graph = function.get_concrete_function([tf.TensorSpec(each.shape, each.dtype) for each in arrays]).graph
    return [op.type for op in graph.get_operations()]


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
    choices._device_kinds.cache_clear()
    choices._is_default_cpu.cache_clear()


def summaries() -> Any:
    """Count the calls of the summary op from Python."""
    return mock.patch.object(tf.raw_ops, "DebugNumericSummaryV2", wraps=tf.raw_ops.DebugNumericSummaryV2)


def with_gpu() -> Any:
    return mock.patch.object(choices, "_present_kinds", return_value=frozenset({"CPU", "GPU"}))


def conditionals(graph: Any) -> list[Any]:
    return [op for op in graph.get_operations() if op.type in ("If", "StatelessIf")]


class ChoicesTest(unittest.TestCase):
    """Which ways are taken, seen in the ops."""

    def test_graphs_have_sums_and_another_look_behind_them(self) -> None:
        # Whoever compiles a graph has kernels of these; no graph has the summary.
        types = op_types(all_finite, [np.ones(5, np.float32), np.ones(7, np.float16)])
        self.assertEqual((types.count("Sum"), types.count("StatelessIf")), (2, 1))
        self.assertFalse({choices.SUMMARY_OP, "IsNan"} & set(types))

    def test_eager_mode_has_a_summary_of_each(self) -> None:
        with summaries() as called:
            self.assertTrue(bool(all_finite([tf.ones([5]), tf.ones([7], tf.float16)])))
        self.assertEqual(called.call_count, 2)

    @parameterized.expand(
        [
            ("one", [np.ones(2**14 - 1, np.float32)], True),
            ("a stack", SMALL, True),
            ("two", [np.ones(5, np.float32), np.ones(6, np.float32)], False),
            ("large", [np.ones(2**14, np.float32)], False),
        ]
    )
    def test_a_small_tensor_alone_gets_plain_ops(self, name: str, arrays: list[np.ndarray], expected: bool) -> None:
        types = op_types(all_finite, arrays)
        self.assertEqual("StatelessIf" not in types, expected)
        self.assertNotIn(choices.SUMMARY_OP, types)

    def test_one_of_unknown_shape_alone_gets_a_sum(self) -> None:
        function = tf.function(all_finite, input_signature=[[tf.TensorSpec([None], tf.float32)]], autograph=False)
        types = [op.type for op in function.get_concrete_function().graph.get_operations()]
        self.assertIn("StatelessIf", types)
        self.assertTrue(bool(function([tf.constant([3e38, 3e38])])))
        self.assertFalse(bool(function([tf.constant([1.0, np.nan])])))

    def test_only_dtypes_that_every_device_sums_are_summed(self) -> None:
        others = [tf.int32, tf.bool, tf.complex64, tf.dtypes.experimental.float8_e5m2]
        with tf.Graph().as_default():
            for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, *others):
                tensor = tf.compat.v1.placeholder(dtype, [2**16])
                self.assertEqual(choices.is_read_by_sums(tensor), dtype not in others)

    @parameterized.expand([("small", 2), ("large", 2**18)])
    def test_one_alone_in_eager_mode_gets_one_summary(self, name: str, size: int) -> None:
        # Where ops run one after another, there is nothing to be gained by pieces.
        array = np.ones(size, np.float16)
        array[-1] = np.nan
        with summaries() as called:
            self.assertFalse(bool(all_finite([tf.constant(array)])))
        called.assert_called_once()

    @parameterized.expand([("float32", np.float32), ("float64", np.float64)])
    def test_large_ones_are_summed_in_eager_mode_too(self, name: str, dtype: Any) -> None:
        small, large = tf.ones([2**21 - 1], dtype), tf.ones([2**21], dtype)
        for grads, looks in (([small, small], 2), ([small, large], 1), ([large, large], 0)):
            with (
                summaries() as called,
                mock.patch.object(choices, "_MANY", 3),
                mock.patch.object(choices, "_LARGE", 2**30),
            ):
                self.assertTrue(bool(all_finite(grads)))
            self.assertEqual(called.call_count, looks)

    def test_no_sums_where_plain_ways_are_asked_for_or_xla_compiles(self) -> None:
        arrays = [np.ones(2**16, np.float32)]
        with choices.plain_ways():
            self.assertNotIn("Sum", op_types(all_finite, arrays))
        self.assertNotIn("Sum", op_types(all_finite, arrays, xla=True))
        with patched(with_gpu()):
            self.assertIn("Sum", op_types(all_finite, arrays))

    @parameterized.expand([("finite", 1.0, 0, True), ("too large", 3e38, 1, True), ("infinite", np.inf, 1, False)])
    def test_those_whose_sums_are_not_finite_are_looked_at_again(
        self, name: str, value: float, again: int, expected: bool
    ) -> None:
        # Of a size that no other test has, which might have made one op of it.
        size = 2**21 + 64 * len(name)
        for grads in ([tf.fill([size], value)], [tf.fill([size], value), tf.fill([size], -value)]):
            with summaries() as called:
                self.assertEqual(bool(all_finite(grads)), expected)
            self.assertEqual(called.call_count, again * len(grads))
            self.assertEqual(bool(tf.function(all_finite, autograph=False)(grads)), expected)

    @parameterized.expand([("finite", 1.0, True), ("too large", 3e38, True), ("infinite", np.inf, False)])
    def test_that_look_is_a_function_of_its_own(self, name: str, value: float, expected: bool) -> None:
        function = tf.function(all_finite, autograph=False)
        grads = [tf.fill([2**16], value), tf.fill([3, 5], -value)]
        (conditional,) = conditionals(function.get_concrete_function(grads).graph)
        self.assertFalse(conditional.get_attr("_lower_using_switch_merge"))
        self.assertEqual(bool(function(grads)), expected)

    def test_small_ones_are_stacked(self) -> None:
        types = op_types(all_finite, STACKED_AND_ONE)
        self.assertEqual((types.count("Pack"), types.count("Sum")), (1, 2))
        types = op_types(lambda grads: unscale_gradients(grads[1:], grads[0]), [SCALE, *SMALL])
        self.assertEqual((types.count("RealDiv"), types.count("Unpack")), (1, 1))

    def test_small_ones_are_not_stacked_only_to_multiply_them_by_what_is_known(self) -> None:
        types = op_types(lambda grads: unscale_gradients(grads, tf.constant(2.0)), SMALL)
        self.assertEqual((types.count("Mul"), types.count("Pack"), types.count("Unpack")), (6, 0, 0))

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
    def test_known_powers_of_two_multiply(self, dtype: str) -> None:
        array = np.ones(3, tf.as_dtype(dtype).as_numpy_dtype)

        def types(scale: float) -> list[str]:
            made = op_types(lambda grads: unscale_gradients(grads, tf.constant(scale)), [array])
            return [each for each in made if each in ("Mul", "RealDiv", "Cast")]

        self.assertEqual(types(1024.0), ["Mul"])
        divided = ["RealDiv"] if dtype == "float32" else ["Cast", "RealDiv", "Cast"]
        for scale in (3.0, 2.0**25, 2.0**-16):
            self.assertEqual(types(scale), divided)
        with choices.plain_ways():
            self.assertEqual(types(1024.0), divided)

    def test_large_ones_of_half_precision_are_not_copied_where_the_scale_is_a_power_of_two(self) -> None:
        for size, expected in ((2**15, True), (2**15 - 1, False)):
            arrays = [SCALE, np.ones(size, np.float16)]
            types = op_types(lambda grads: unscale_gradients(grads[1:], grads[0]), arrays)
            self.assertEqual("StatelessIf" in types, expected)

    def test_few_or_large_ones_are_not(self) -> None:
        for arrays in (SMALL[:3], [np.ones(stacks.MOST_ELEMENTS_IN_GRAPHS + 1, np.float32)] * 6):
            self.assertNotIn("Pack", op_types(all_finite, arrays))
            types = op_types(lambda grads: unscale_gradients(grads[1:], grads[0]), [SCALE, *arrays])
            self.assertNotIn("Pack", types)

    def test_those_of_unknown_shape_are_not(self) -> None:
        function = tf.function(all_finite, input_signature=[[tf.TensorSpec(None, tf.float32)] * 6], autograph=False)
        types = [op.type for op in function.get_concrete_function().graph.get_operations()]
        self.assertEqual((types.count("Pack"), types.count("Sum")), (0, 6))
        self.assertTrue(bool(function([tf.ones([2])] * 3 + [tf.ones([2, 2])] * 3)))
        self.assertFalse(bool(function([tf.ones([2])] * 5 + [tf.constant(np.nan)])))

    def test_small_ones_are_stacked_with_the_shapes_of_tf_1_too(self) -> None:
        tf.compat.v1.disable_v2_tensorshape()
        self.addCleanup(tf.compat.v1.enable_v2_tensorshape)
        types = op_types(lambda grads: all_finite(unscale_gradients(grads[1:], grads[0])), [SCALE, *STACKED_AND_ONE])
        self.assertEqual((types.count("Pack"), types.count("Sum")), (1, 2))

    def test_large_ones_are_read_in_pieces_that_are_not_copied(self) -> None:
        # In what eager mode calls as one op: its graph is part of no other.
        def types_at_once(arrays: list[np.ndarray]) -> list[str]:
            with choices.run_at_once():
                return op_types(all_finite, arrays)

        for elements, pieces in ((2**18 - 1, 1), (2**18, 2), (3 * 2**18, 6), (3 * 2**20, 8)):
            types = types_at_once([np.ones([elements], np.float16)])
            self.assertEqual(types.count(choices.SUMMARY_OP), pieces)
        types = types_at_once([np.ones([5 * 2**18], np.float16), *[np.ones([2**18], np.float16)] * 3])
        self.assertEqual(types.count(choices.SUMMARY_OP), 5 + 3)
        sizes = [piece.shape.num_elements() for piece in finite._pieces_of(tf.ones([2**20 + 7]), 2**17)]
        self.assertEqual(sum(sizes), 2**20 + 7)
        # The processor's vectors are 64 bytes at most.
        self.assertTrue(all(size % 64 == 0 for size in sizes[:-1]))

    def test_plain_ops_for_xla(self) -> None:
        for xla in (True, False):
            unscale_and_check = lambda grads: all_finite(unscale_gradients(grads[1:], grads[0]))  # noqa: E731
            types = op_types(unscale_and_check, [SCALE, *STACKED_AND_ONE], xla=xla)
            self.assertEqual("Sum" not in types, xla)
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
        with choices.plain_ways():
            self.assertNotIn("MatMul", op_types(all_finite, [array], xla=True))
        with patched(with_gpu()):
            # Which reads them once, in a kernel that unscales them too.
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
        with choices.plain_ways():
            self.assertNotIn("L2Loss", op_types(lambda grads: all_finite(grads, 2), [array]))

    def test_plain_ops_in_a_function_inside_of_one_for_xla(self) -> None:
        inner = tf.function(all_finite, autograph=False)
        outer = tf.function(lambda: inner([tf.ones([3]), tf.ones([5])]), jit_compile=True, autograph=False)
        self.assertTrue(bool(inner([tf.ones([3]), tf.ones([5])])))
        self.assertTrue(bool(outer()))

    def test_plain_ops_where_they_are_asked_for(self) -> None:
        with choices.plain_ways():
            types = op_types(all_finite, STACKED_AND_ONE)
        self.assertEqual((types.count("IsFinite"), types.count("Pack")), (7, 1))

    def test_a_gpu_without_a_kernel_gets_plain_ops(self) -> None:
        # TensorFlow has the summary of float32 on GPUs, but not of bfloat16.
        arrays = [np.ones(3, np.float32), np.ones(4, np.float32), np.ones(3, tf.bfloat16.as_numpy_dtype)]
        with patched(with_gpu()), choices.run_at_once():
            types = op_types(all_finite, arrays)
            damaged = [tf.constant(each) for each in (arrays[0] * np.float32(np.nan), *arrays[1:])]
            result = tf.function(all_finite, autograph=False)(damaged)
        self.assertEqual((types.count(choices.SUMMARY_OP), types.count("Sum")), (2, 1 + 1))
        self.assertFalse(bool(result))

    def test_a_tensor_that_is_on_a_cpu_beside_a_gpu(self) -> None:
        with patched(with_gpu()), tf.device("CPU:0"):
            self.assertTrue(choices.has_summary(tf.constant([1.0], tf.bfloat16)))

    def test_an_op_that_tensorflow_has_no_more(self) -> None:
        with patched(mock.patch.object(choices, "_summary_kernels", frozenset)), summaries() as called:
            self.assertTrue(bool(all_finite([tf.ones([2])])))
            self.assertFalse(bool(all_finite([tf.ones([2]), tf.constant(np.inf)])))
        called.assert_not_called()

    @parameterized.expand(
        [
            ({""}, True),
            ({"", "/job:localhost/replica:0/task:0/device:CPU:0"}, True),
            ({"/device:CPU:1"}, True),
            ({"/device:CPU:0", "/device:CPU:1"}, False),
            ({"/device:GPU:0"}, False),
            ({"/job:ps/replica:0/task:0/device:CPU:0"}, False),
            ({"/job:ps/task:0"}, False),
        ]
    )
    def test_branches_run_whole_on_one_local_processor(self, devices: set[str], expected: bool) -> None:
        tensors = [tf.ones([3]), tf.ones([])]
        self.assertEqual(choices.runs_branches_whole(tensors, devices), expected)
        with choices.plain_ways():
            self.assertFalse(choices.runs_branches_whole(tensors, devices))

    def test_branches_of_unknown_device_are_not_whole_where_there_is_a_gpu(self) -> None:
        with patched(with_gpu()):
            self.assertFalse(choices.runs_branches_whole([], {""}))
            self.assertTrue(choices.runs_branches_whole([], {"/device:CPU:0"}))

    def test_branches_are_not_whole_where_gradients_are_large(self) -> None:
        small, large = tf.ones([2**14]), tf.ones([2**14 + 1])
        self.assertTrue(choices.runs_branches_whole([small, small], {""}))
        self.assertFalse(choices.runs_branches_whole([small, large], {""}))
        self.assertTrue(choices.runs_branches_whole([tf.ones([3]), large], {""}))

    def test_branches_are_not_whole_where_shapes_are_not_known(self) -> None:
        with tf.Graph().as_default():
            unknown = tf.compat.v1.placeholder(tf.float32, [None])
            self.assertFalse(choices.runs_branches_whole([unknown], {""}))


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
        self.assertFalse({"Pack", "Unpack", "RealDiv", "If", choices.SUMMARY_OP, "IsFinite"} & set(types))


class BranchesTest(unittest.TestCase):
    """Whether TensorFlow inlines the branches of the step."""

    def _function(self, devices: list[str]) -> Any:
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
        return step.get_concrete_function()

    @parameterized.expand([(["CPU:0"], False), (["CPU:1"], False), (["CPU:0", "CPU:1"], True)])
    def test_of_variables_on_devices(self, devices: list[str], inlined: bool) -> None:
        # The scale is on the first device, whatever devices the variables are on.
        inlined = inlined or devices == ["CPU:1"]
        *_, conditional = conditionals(self._function(devices).graph)
        self.assertEqual(conditional.get_attr("_lower_using_switch_merge"), inlined)

    def test_in_a_session(self) -> None:
        for plain in (True, False):
            with ExitStack() as stack:
                if plain:
                    stack.enter_context(choices.plain_ways())
                graph = stack.enter_context(tf.Graph().as_default())
                variable = tf.compat.v1.Variable(1.0, use_resource=True)
                opt = tf.compat.v1.train.GradientDescentOptimizer(0.25)
                opt = mpls.v1.MixedPrecisionLossScaleOptimizer(opt, "dynamic")
                train_op = opt.minimize(variable * 1.0)
                (conditional,) = conditionals(graph)
                self.assertEqual(conditional.get_attr("_lower_using_switch_merge"), plain)
                with tf.compat.v1.Session() as session:
                    session.run(tf.compat.v1.global_variables_initializer())
                    session.run(train_op)
                    self.assertEqual(session.run(variable), 0.75)
