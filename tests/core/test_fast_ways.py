"""The fast ways to unscale gradients and to look for non-finite ones give the bits and booleans of the plain ones."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from hypothesis import given, settings
from hypothesis import strategies as st
from parameterized import parameterized

import mpls.keras
import mpls.v1
from mpls.core import calls, choices, finite, packs
from mpls.core.finite import all_finite
from mpls.core.gradients import unscale_gradients

DTYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
# The sums and squares of the largest finite values are infinite, and the differences of infinities NaN.
SPECIAL = ("max", "-max", "tiny", "-tiny", "0", "-0", "inf", "-inf", "nan", "payload")
MODES = ("eager", "eager again", "function", "graph")
LAYOUTS = ("dense", "many alike", "sparse", "large", "empty", "scalar")


def bits_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")


def special(name: str, dtype: Any) -> np.ndarray:
    """Return a scalar array."""
    numpy_type = dtype.as_numpy_dtype
    if name in ("max", "-max"):
        return np.array(dtype.max if name == "max" else dtype.min, numpy_type)
    integers = np.dtype(f"u{np.dtype(numpy_type).itemsize}")
    if name in ("tiny", "-tiny"):
        # The smallest denormal.
        value = np.array(1, integers).view(numpy_type)
        return value if name == "tiny" else -value
    if name == "payload":
        # A signalling NaN with bits of its own.
        exponent = bits_of(np.array(np.inf, numpy_type))
        return np.array(exponent.item() | 5, integers).view(numpy_type)
    return np.array(float(name), numpy_type)


def is_finite(array: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(array.astype(np.float64)).all())


def shapes_of(layout: str) -> list[tuple[int, ...]]:
    return {
        "dense": [(3,), (2, 3), (5, 1, 2)],
        "many alike": [(2, 3)] * 6 + [(4,)] * 5 + [(2, 3)] * 2,
        "sparse": [(4, 3), (2,)],
        # More than a piece, and not a whole number of them.
        "large": [(2**20 + 3,), (7,)],
        "empty": [(0,), (0, 3), (2,)],
        "scalar": [()] * 5,
    }[layout]


def gradients_of(layout: str, arrays: list[Any]) -> list[Any]:
    """Return tensors, and `tf.IndexedSlices` with an index twice, and None."""
    if layout == "sparse":
        values, other = arrays
        return [tf.IndexedSlices(values, tf.constant([5, 1, 5, 0]), tf.constant([9, 3])), None, other]
    return [*arrays, None]


def evaluate(fn: Callable[[list[Any]], Any], mode: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Call `fn` with tensors in a mode; return the arrays that come out, flat."""
    if mode == "graph":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            feeds = [tf.compat.v1.placeholder(array.dtype, array.shape) for array in arrays]
            return session.run(tf.nest.flatten(fn(feeds)), dict(zip(feeds, arrays, strict=True)))
    call = tf.function(fn, jit_compile=mode == "xla", autograph=False) if mode in ("function", "xla") else fn
    if mode == "eager again":
        # Until it runs as one op, as it does for many tensors.
        with mock.patch.object(choices, "_MANY", 1):
            for _ in range(calls._CALLS_BEFORE):
                call([tf.constant(array) for array in arrays])
            return evaluate(fn, "eager", arrays)
    return [np.array(result.numpy()) for result in tf.nest.flatten(call([tf.constant(array) for array in arrays]))]


def both(layout: str, fixed_scale: float | None) -> Callable[[list[Any]], list[Any]]:
    """Return what unscales and checks; without a fixed scale, the last tensor is the scale."""

    def fn(tensors: list[Any]) -> list[Any]:
        tensors, scale = (tensors[:-1], tensors[-1]) if fixed_scale is None else (tensors, tf.constant(fixed_scale))
        grads = gradients_of(layout, tensors)
        unscaled = unscale_gradients(grads, scale)
        values = [each.values if isinstance(each, tf.IndexedSlices) else each for each in unscaled if each is not None]
        # What is unscaled in a stack is checked as that stack.
        return [all_finite(grads), all_finite(unscaled), *values]

    return fn


class SameResultsTest(unittest.TestCase):
    @settings(max_examples=150, deadline=None)
    @given(
        layout=st.sampled_from(LAYOUTS),
        mode=st.sampled_from(MODES),
        dtypes=st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3),
        places=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(SPECIAL)), max_size=3),
        scale=st.sampled_from((1.0, 1024.0, 2.0**15, 2.0**24, 2.0**25, 3.7, 0.5)),
        is_fixed=st.booleans(),
        seed=st.integers(0, 3),
    )
    def test_of_both_ways(
        self,
        layout: str,
        mode: str,
        dtypes: list[Any],
        places: list[tuple[int, str]],
        scale: float,
        is_fixed: bool,
        seed: int,
    ) -> None:
        random = np.random.default_rng(seed)
        arrays = []
        for index, shape in enumerate(shapes_of(layout)):
            dtype = dtypes[index % len(dtypes)]
            arrays.append(np.array(random.normal(size=shape), dtype.as_numpy_dtype))
        filled = [(array, dtypes[index % len(dtypes)]) for index, array in enumerate(arrays) if array.size]
        for place, name in places:
            array, dtype = filled[place % len(filled)]
            array.reshape(-1)[place % array.size] = special(name, dtype)
        expected_finite = all(map(is_finite, arrays))
        fixed_scale = scale if is_fixed else None
        arrays += [] if is_fixed else [np.array(scale, np.float32)]
        fast = evaluate(both(layout, fixed_scale), mode, arrays)
        with choices.plain_ways():
            plain = evaluate(both(layout, fixed_scale), mode, arrays)
        self.assertEqual(bool(fast[0]), expected_finite)
        self.assertEqual([bool(each) for each in fast[:2]], [bool(each) for each in plain[:2]])
        for ours, theirs in zip(fast[2:], plain[2:], strict=True):
            self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape))
            # An op that multiplies by one may leave a signalling NaN as it is, or make it a quiet one.
            with np.errstate(invalid="ignore"):
                is_number = ~np.isnan(theirs.reshape(-1))
                np.testing.assert_array_equal(~np.isnan(ours.reshape(-1)), is_number)
            np.testing.assert_array_equal(bits_of(ours)[is_number], bits_of(theirs)[is_number])

    @parameterized.expand([(dtype.name, name, mode) for dtype in DTYPES for name in SPECIAL for mode in MODES])
    def test_each_special_value_at_each_end(self, dtype_name: str, name: str, mode: str) -> None:
        dtype = tf.as_dtype(dtype_name)
        value = special(name, dtype)
        expected = is_finite(value)
        for size in (1, 3, 64, 2**20 + 5):
            for place in (0, size // 2, size - 1):
                array = np.ones(size, dtype.as_numpy_dtype)
                array[place] = value
                (result,) = evaluate(all_finite, mode, [array])
                self.assertEqual(bool(result), expected, (size, place))

    @parameterized.expand([(dtype.name, dtype) for dtype in DTYPES])
    def test_products_know_each_special_value(self, name: str, dtype: Any) -> None:
        check = tf.function(lambda tensors: [all_finite(each) for each in tensors], jit_compile=True, autograph=False)
        shapes = [(3, 2**12), (2**10, 8), (2**12 - 1 + 10,), (2, 4, 9, 64), (1, 2**13 - 1)]
        for special_name in SPECIAL:
            value = special(special_name, dtype)
            arrays = []
            for index, shape in enumerate(shapes):
                array = np.full(shape, dtype.max if index % 2 else dtype.min, dtype.as_numpy_dtype)
                array.reshape(-1)[(index * 1237) % array.size] = value
                arrays.append(array)
            results = [bool(each) for each in check([tf.constant(array) for array in arrays])]
            self.assertEqual(results, [is_finite(value)] * len(shapes), special_name)

    @parameterized.expand([(dtype.name, dtype) for dtype in DTYPES])
    def test_largest_values_of_both_signs_everywhere_are_finite(self, name: str, dtype: Any) -> None:
        array = np.full(2**20 + 5, dtype.max, dtype.as_numpy_dtype)
        array[::2] = dtype.min
        for arrays in ([array], [array[:3]] * 9, [np.full(9, dtype.max, dtype.as_numpy_dtype)] * 9):
            self.assertTrue(bool(evaluate(all_finite, "function", arrays)[0]))

    @parameterized.expand([(dtype.name, mode) for dtype in DTYPES for mode in (*MODES, "xla")])
    def test_of_what_a_factor_makes_infinite(self, dtype_name: str, mode: str) -> None:
        dtype = tf.as_dtype(dtype_name).as_numpy_dtype
        third = np.array(float(tf.as_dtype(dtype_name).max) * 0.33, dtype)
        # The squares of the third are infinite already.
        cases = [(third, True), (-third, True), (dtype(1.0), True), (third * dtype(1.05), False), (-third * 2, False)]
        cases += [(special(name, tf.as_dtype(dtype_name)), False) for name in ("max", "-max", "inf", "-inf", "nan")]
        for value, expected in cases:
            for size in (3, 2**12 + 1, 2**20 + 5):
                arrays = [np.ones(7, dtype), np.ones(size, dtype), np.ones(2**12, dtype)]
                arrays[1][size // 2] = value
                check = lambda grads: all_finite(grads, 3)  # noqa: E731
                results = evaluate(check, mode, arrays)
                with choices.plain_ways():
                    results += evaluate(check, mode, arrays)
                self.assertEqual([bool(each) for each in results], [expected] * 2, (value, size))

    def test_tensors_on_two_devices(self) -> None:
        for place, damaged in ((None, None), (0, "CPU:0"), (5, "CPU:1"), (9, "CPU:1")):
            grads = []
            for index in range(10):
                with tf.device("CPU:0" if index < 5 else "CPU:1"):
                    grads.append(tf.constant([1.0, np.nan if index == place else 2.0]))
            if place is not None:
                self.assertIn(damaged, grads[place].device)
            unscaled = unscale_gradients(grads, tf.constant(2.0))
            for tensors in (grads, unscaled):
                self.assertEqual(bool(all_finite(tensors)), place is None)

    def test_what_is_stacked_stays_in_its_order(self) -> None:
        arrays = [np.array([float(index)] * (2 + index % 2), np.float32) for index in range(20)]
        for mode in (*MODES, "xla"):
            unscaled = evaluate(lambda grads: unscale_gradients(grads, tf.constant(2.0)), mode, arrays)
            for before, after in zip(arrays, unscaled, strict=True):
                np.testing.assert_array_equal(before / 2, after)


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


def with_gpu() -> Any:
    return mock.patch.object(choices, "_present_kinds", return_value=frozenset({"CPU", "GPU"}))


class ChoicesTest(unittest.TestCase):
    """Which ways are taken, seen in the ops."""

    def test_a_summary_of_each_where_there_is_one(self) -> None:
        types = op_types(all_finite, [np.ones(5, np.float32), np.ones(7, np.float16)])
        self.assertEqual(types.count(choices.SUMMARY_OP), 2)
        self.assertNotIn("IsFinite", types)

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
        self.assertEqual("IsFinite" in types, expected)
        self.assertEqual(choices.SUMMARY_OP in types, not expected)

    def test_one_of_unknown_shape_alone_gets_a_summary(self) -> None:
        function = tf.function(all_finite, input_signature=[[tf.TensorSpec([None], tf.float32)]], autograph=False)
        types = [op.type for op in function.get_concrete_function().graph.get_operations()]
        self.assertIn(choices.SUMMARY_OP, types)
        self.assertFalse(bool(function([tf.constant([1.0, np.nan])])))

    def test_one_alone_in_eager_mode_gets_a_summary(self) -> None:
        summary = mock.patch.object(tf.raw_ops, "DebugNumericSummaryV2", wraps=tf.raw_ops.DebugNumericSummaryV2)
        with summary as called:
            self.assertFalse(bool(all_finite([tf.constant([1.0, np.nan])])))
        called.assert_called_once()

    def test_small_ones_are_stacked(self) -> None:
        types = op_types(all_finite, STACKED_AND_ONE)
        self.assertEqual((types.count("Pack"), types.count(choices.SUMMARY_OP)), (1, 2))
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
        for arrays in (SMALL[:3], [np.ones(packs.MOST_ELEMENTS_IN_GRAPHS + 1, np.float32)] * 6):
            self.assertNotIn("Pack", op_types(all_finite, arrays))
            types = op_types(lambda grads: unscale_gradients(grads[1:], grads[0]), [SCALE, *arrays])
            self.assertNotIn("Pack", types)

    def test_those_of_unknown_shape_are_not(self) -> None:
        function = tf.function(all_finite, input_signature=[[tf.TensorSpec(None, tf.float32)] * 6], autograph=False)
        types = [op.type for op in function.get_concrete_function().graph.get_operations()]
        self.assertEqual((types.count("Pack"), types.count(choices.SUMMARY_OP)), (0, 6))
        self.assertTrue(bool(function([tf.ones([2])] * 3 + [tf.ones([2, 2])] * 3)))
        self.assertFalse(bool(function([tf.ones([2])] * 5 + [tf.constant(np.nan)])))

    def test_small_ones_are_stacked_with_the_shapes_of_tf_1_too(self) -> None:
        tf.compat.v1.disable_v2_tensorshape()
        self.addCleanup(tf.compat.v1.enable_v2_tensorshape)
        types = op_types(lambda grads: all_finite(unscale_gradients(grads[1:], grads[0])), [SCALE, *STACKED_AND_ONE])
        self.assertEqual((types.count("Pack"), types.count(choices.SUMMARY_OP)), (1, 2))

    def test_large_ones_are_read_in_pieces_that_are_not_copied(self) -> None:
        for elements, pieces in ((2**18 - 1, 1), (2**18, 2), (3 * 2**18, 6), (3 * 2**20, 8)):
            types = op_types(all_finite, [np.ones([elements], np.float32)])
            self.assertEqual(types.count(choices.SUMMARY_OP), pieces)
        sizes = [piece.shape.num_elements() for piece in finite._pieces(tf.ones([2**20 + 7]))]
        self.assertEqual(sum(sizes), 2**20 + 7)
        # The processor's vectors are 64 bytes at most.
        self.assertTrue(all(size % 64 == 0 for size in sizes[:-1]))

    def test_plain_ops_for_xla(self) -> None:
        for xla in (True, False):
            unscale_and_check = lambda grads: all_finite(unscale_gradients(grads[1:], grads[0]))  # noqa: E731
            types = op_types(unscale_and_check, [SCALE, *STACKED_AND_ONE], xla=xla)
            self.assertEqual("IsFinite" in types, xla)
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
        with patched(with_gpu()):
            types = op_types(all_finite, arrays)
            results = evaluate(all_finite, "function", [arrays[0] * np.float32(np.nan), *arrays[1:]])
        self.assertEqual((types.count(choices.SUMMARY_OP), types.count("IsFinite")), (2, 1))
        self.assertFalse(bool(results[0]))

    def test_a_tensor_that_is_on_a_cpu_beside_a_gpu(self) -> None:
        with patched(with_gpu()), tf.device("CPU:0"):
            self.assertTrue(choices.has_summary(tf.constant([1.0], tf.bfloat16)))

    def test_an_op_that_tensorflow_has_no_more(self) -> None:
        with patched(mock.patch.object(choices, "_summary_kernels", frozenset)):
            types = op_types(all_finite, SMALL)
            self.assertEqual((types.count("IsFinite"), types.count("Pack")), (1, 1))
            self.assertTrue(bool(all_finite([tf.ones([2])])))
            self.assertFalse(bool(all_finite([tf.ones([2]), tf.constant(np.inf)])))

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


def conditionals(graph: Any) -> list[Any]:
    return [op for op in graph.get_operations() if op.type in ("If", "StatelessIf")]


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


FAMILIES = {
    "v1": (lambda: tf.compat.v1.train.MomentumOptimizer(0.25, 0.5), mpls.v1.MixedPrecisionLossScaleOptimizer),
    "legacy": (lambda: tf_keras.optimizers.legacy.SGD(0.25, 0.5), mpls.keras.LossScaleOptimizer),
    "new": (lambda: tf_keras.optimizers.SGD(0.25, 0.5), mpls.keras.LossScaleOptimizer),
    "keras3": (lambda: keras.optimizers.SGD(0.25, 0.5), mpls.keras.LossScaleOptimizer),
}


class MixedShapesTest(unittest.TestCase):
    """A step whose gradients are stacked, alone, large, sparse and of half precision, all at once."""

    @parameterized.expand([(family, mode) for family in FAMILIES for mode in ("eager", "function", "xla")])
    def test_trains_as_without_a_loss_scale(self, family: str, mode: str) -> None:
        self.assertEqual(self._trained(family, mode, is_scaled=True), self._trained(family, mode, is_scaled=False))

    def _trained(self, family: str, mode: str, *, is_scaled: bool) -> list[float]:
        shapes = [(2, 3)] * 5 + [(40, 50), (300, 2), (4,), ()]
        initial = [tf.ones(shape) for shape in shapes] + [tf.ones([2, 3], tf.float16)] * 2
        keras_3 = family == "keras3"
        variables = [keras.Variable(each, dtype=each.dtype.name) if keras_3 else tf.Variable(each) for each in initial]
        make, wrapper = FAMILIES[family]
        scale = {"loss_scale": mpls.v1.DynamicLossScale(2**10)} if family == "v1" else {"initial_scale": 2**10}
        opt = wrapper(make(), **scale)
        opt = opt if is_scaled else make()
        if family in ("new", "keras3"):
            opt.build(variables)
        watched = [each.value for each in variables] if keras_3 else variables

        def loss() -> Any:
            # XLA has no sparse optimizers.
            sparse = [6] if mode != "xla" else []
            terms = [tf.gather(each, [0, 2, 0]) if index in sparse else each for index, each in enumerate(watched)]
            return tf.add_n([tf.cast(tf.reduce_sum(each * 2), tf.float32) for each in terms])

        def step() -> None:
            if family == "v1":
                opt.minimize(loss, var_list=variables)
                return
            with tf.GradientTape() as tape:
                scaled = loss()
                if is_scaled:
                    scaled = opt.scale_loss(scaled) if keras_3 else opt.get_scaled_loss(scaled)
            grads = tape.gradient(scaled, watched)
            if is_scaled and not keras_3:
                grads = opt.get_unscaled_gradients(grads)
            if keras_3:
                opt.apply(grads, variables)
            else:
                opt.apply_gradients(zip(grads, variables, strict=True))

        if family == "legacy":
            opt._create_all_weights(variables)
        run = step if mode == "eager" else tf.function(step, jit_compile=mode == "xla", autograph=False)
        run()
        run()
        # Two steps of momentum, from one: down by 0.5, then by 0.75.
        self.assertEqual(float(np.reshape(variables[0].numpy(), -1)[0]), -0.25)
        return [float(np.sum(each.numpy().astype(np.float64))) for each in variables]


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
        (conditional,) = conditionals(self._function(devices).graph)
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
