"""Quick ways to unscale gradients and to look for non-finite ones give the bits and booleans of the plain ones."""

from __future__ import annotations

import unittest
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.v1
from mpls.core import fast, gradients
from mpls.core.gradients import all_finite, finite_at_once, unscale_gradients
from mpls.errors import ArgumentValueError
from tests.golden.replay import control_flow

v1 = tf.compat.v1
DTYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
# The sums and squares of the largest finite values are infinite, and the differences of infinities NaN.
SPECIAL = ("max", "-max", "tiny", "-tiny", "0", "-0", "inf", "-inf", "nan", "payload")
MODES = ("eager", "eager again", "function", "graph")
LAYOUTS = ("dense", "many alike", "sparse", "large", "many large", "empty", "scalar")
MIXTURES = [[tf.float16], [tf.float32], [tf.bfloat16, tf.float64], [tf.float64, tf.bfloat16, tf.float16]]
SCALES = (1.0, 1024.0, 2.0**15, 2.0**24, 2.0**25, 3.7, 0.5)
# Elements of a tensor that is large, in these tests.
LARGE = 64

Evaluate = Callable[[list[np.ndarray]], list[np.ndarray]]


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
        # Of half precision, more than is copied in float32 where the scale has an exact reciprocal.
        "large": [(LARGE + 3,), (7,)],
        "many large": [(LARGE + 3,), (7,), (2, LARGE), (LARGE,)],
        "empty": [(0,), (0, 3), (2,)],
        "scalar": [()] * 5,
    }[layout]


def gradients_of(layout: str, arrays: list[Any]) -> list[Any]:
    """Return tensors, and `tf.IndexedSlices` with an index twice, and None."""
    if layout == "sparse":
        values, other = arrays
        return [tf.IndexedSlices(values, tf.constant([5, 1, 5, 0]), tf.constant([9, 3])), None, other]
    return [*arrays, None]


def plain_ways() -> Any:
    return mock.patch.object(fast, "uses_plain_ways", return_value=True)


class Ways(unittest.TestCase):
    """Has functions of its own for what eager mode runs as one op, and quick ways for small tensors too."""

    def setUp(self) -> None:
        for replaced in (
            mock.patch.object(gradients._check, "_functions", OrderedDict()),
            mock.patch.object(gradients._unscale_as_one_op, "_functions", OrderedDict()),
            mock.patch.object(fast, "_WORTH_A_RECIPROCAL", LARGE),
            mock.patch.object(fast, "_WORTH_SQUARES", LARGE),
            mock.patch.object(fast, "_WORTH_A_SUM", LARGE),
            mock.patch.object(fast, "_WORTH_ONE_OP", 2),
        ):
            replaced.start()
            self.addCleanup(replaced.stop)

    def prepared(self, fn: Callable[[list[Any]], Any], mode: str, arrays: list[np.ndarray]) -> Evaluate:
        """Return what calls `fn` in a mode with arrays of these shapes and dtypes; it is traced once.

        It returns the arrays that come out, flat.
        """
        if mode == "graph":
            with tf.Graph().as_default():
                feeds = [v1.placeholder(array.dtype, array.shape) for array in arrays]
                fetched = tf.nest.flatten(fn(feeds))
                session = v1.Session()
            self.addCleanup(session.close)
            return lambda arrays: session.run(fetched, dict(zip(feeds, arrays, strict=True)))
        traced = mode in ("function", "xla")
        call = tf.function(fn, jit_compile=mode == "xla", autograph=False) if traced else fn

        def evaluate(arrays: list[np.ndarray]) -> list[np.ndarray]:
            results = call([tf.constant(array) for array in arrays])
            return [np.array(result.numpy()) for result in tf.nest.flatten(results)]

        def evaluate_again(arrays: list[np.ndarray]) -> list[np.ndarray]:
            # Until it runs as one op, as it does for many tensors.
            with mock.patch.object(fast, "_MANY", 1):
                for _ in range(fast._CALLS_BEFORE):
                    evaluate(arrays)
                return evaluate(arrays)

        return evaluate_again if mode == "eager again" else evaluate


def both(layout: str, fixed_scales: tuple[float, ...]) -> Callable[[list[Any]], list[Any]]:
    """Return what checks and unscales, by each fixed scale; without any, the last tensor is the scale."""

    def fn(tensors: list[Any]) -> list[Any]:
        scales = [tf.constant(scale) for scale in fixed_scales]
        if not scales:
            *tensors, scale = tensors
            scales = [scale]
        grads = gradients_of(layout, tensors)
        checks, values = [all_finite(grads)], []
        for scale in scales:
            unscaled = unscale_gradients(grads, scale)
            # What is unscaled in a stack is checked as that stack.
            checks.append(all_finite(unscaled))
            given = [each for each in unscaled if each is not None]
            values += [each.values if isinstance(each, tf.IndexedSlices) else each for each in given]
        return [tf.stack(checks), *values]

    return fn


class ChoicesTest(unittest.TestCase):
    """Which way is taken where: of what costs time alone, no result tells."""

    @parameterized.expand(
        [
            ("eager", "float32", 2**12 - 1, ""),
            ("eager", "float32", 2**12, "squares"),
            ("eager", "float64", 2**12, "squares"),
            ("eager", "float16", 2**15 - 1, ""),
            ("eager", "bfloat16", 2**15, "reciprocal"),
            ("graph", "float32", 2**12 - 1, ""),
            ("graph", "float32", 2**12, "squares sums"),
            ("graph", "float64", 2**12, "squares sums"),
            ("graph", "float32", None, ""),
            ("graph", "float16", 2**15 - 1, ""),
            ("graph", "float16", 2**15, "reciprocal"),
            ("graph", "bfloat16", None, "reciprocal"),
            ("graph", "int32", 2**15, ""),
            ("xla", "float32", 2**12 - 1, ""),
            ("xla", "float32", 2**12, "products"),
            ("xla", "float64", 2**17, "products every"),
            ("xla", "float16", 2**17 - 1, "products"),
            ("xla", "bfloat16", None, "products every"),
            ("xla", "int32", 2**15, ""),
            ("xla on a GPU", "float32", 2**15, ""),
        ]
    )
    def test_of_a_tensor(self, where: str, dtype: str, size: int | None, expected: str) -> None:
        seen: dict[str, Any] = {}

        def look(tensor: Any) -> None:
            seen["products"] = fast.is_read_by_products(tensor)
            seen["every"] = fast.are_read_by_products([tensor])
            seen["sums"] = fast.is_read_by_sums(tensor)
            seen["squares"] = fast.is_bounded_by_squares(tensor)
            seen["reciprocal"] = fast.is_unscaled_by_reciprocal(tensor)
            seen["xla"] = fast.uses_plain_ways()

        def look_at_placeholder() -> None:
            with tf.device("/GPU:0" if "GPU" in where else None):
                look(v1.placeholder(dtype, [size]))

        if where == "eager":
            look(tf.zeros([size], dtype))
        else:
            tf.function(look_at_placeholder, jit_compile="xla" in where, autograph=False).get_concrete_function()
        if "xla" not in where:
            # It is asked of tensors that XLA compiles alone.
            del seen["products"]
        taken = ["xla"] * ("xla" in where) + expected.split()
        self.assertEqual(seen, {way: way in taken for way in seen})

    def test_of_eager_tensors(self) -> None:
        small, sum_, large = tf.ones([2**12 - 1]), tf.ones([2**12]), tf.ones([2**20])
        half, whole = tf.cast(small, tf.bfloat16), tf.cast(small, tf.int32)
        with tf.device("CPU:1"):
            elsewhere, few = tf.ones([2**20]), tf.ones([3])
        for tensors, as_one_op, by_numpy in (
            ([small] * 3, False, True),
            ([small] * 4, True, False),
            ([small, sum_], False, False),
            ([tf.ones([2**20 - 1])], False, False),
            ([small, large], True, False),
            ([half], False, False),
            ([tf.cast(small, tf.float16), tf.cast(small, tf.float64)], False, True),
            ([whole], False, False),
            ([elsewhere], False, False),
            ([large, elsewhere], False, False),
            ([few], False, False),
            ([tf.Variable(small)] * 4, False, False),
            ([tf.Variable(small)], False, False),
        ):
            ways = fast.runs_as_one_op(tensors), fast.are_read_by_numpy(tensors)
            self.assertEqual(ways, (as_one_op, by_numpy), [(each.shape, each.dtype, each.device) for each in tensors])
        with tf.GradientTape():
            self.assertIs(fast.runs_as_one_op([small] * 4), False)
        with tf.distribute.OneDeviceStrategy("CPU:0").scope():
            self.assertIs(fast.runs_as_one_op([small] * 4), False)
        ways = []
        tf.function(lambda: ways.extend([fast.runs_as_one_op([large]), fast.are_read_by_numpy([small])]))()
        self.assertEqual(ways, [False, False])

    def test_a_third_call_traces(self) -> None:
        seen: list[Any] = []

        def fn(tensors: list[Any]) -> list[Any]:
            traced = [each.shape.as_list() if each.shape.rank else None for each in tensors]
            seen.append("eager" if tf.executing_eagerly() else traced)
            return [each + each for each in tensors]

        def ran(as_one_op: Any, lengths: list[int], dtype: str = "float32", varying: tuple[int, ...] = ()) -> list[Any]:
            seen.clear()
            for length in lengths:
                doubled = as_one_op([tf.ones([1], dtype)] * 3 + [tf.ones([length], dtype)], varying)
                self.assertEqual([each.shape.as_list() for each in doubled], [[1]] * 3 + [[length]])
                np.testing.assert_array_equal(doubled[3], [2] * length)
            return list(seen)

        as_one_op, ones = fast.AsOneOp(fn), [[1]] * 3
        self.assertEqual(ran(as_one_op, [5] * 5), ["eager", "eager", [*ones, [5]]])
        self.assertEqual(ran(as_one_op, [6] * 4), ["eager", "eager", [*ones, [6]]])
        self.assertEqual(ran(as_one_op, [7, 8, 9, 2], varying=(3,)), ["eager", "eager", [*ones, None]])
        self.assertEqual(ran(as_one_op, [5] * 4, "int32"), ["eager"] * 4)
        # The last 16 kinds are kept.
        ran(as_one_op, [5, *range(10, 25)])
        self.assertEqual(ran(as_one_op, [5]), [])
        ran(as_one_op, list(range(30, 46)))
        self.assertEqual(ran(as_one_op, [5]), ["eager"])

    @parameterized.expand(
        [
            ([[128, 4]] * 4, None, 1),
            ([[128, 4]] * 4, "xla", 0),
            ([[513]] * 4, None, 0),
            ([[3]] * 3, None, 0),
            ([[3]] * 3 + [[4]], None, 0),
            ([[None]] * 4, None, 0),
            ([None] * 4, None, 0),
            ([[3], [4]] * 4, None, 2),
        ]
    )
    def test_of_small_tensors_that_are_alike(self, shapes: list[Any], compiler: str | None, stacks: int) -> None:
        def step() -> Any:
            grads = [v1.placeholder(tf.float32, shape) for shape in shapes]
            unscaled = unscale_gradients(grads, v1.placeholder(tf.float32, []))
            # What was unscaled in a stack is looked at as that stack.
            return all_finite(unscaled)

        graph = tf.function(step, jit_compile=compiler == "xla", autograph=False).get_concrete_function().graph
        packs = [op for op in graph.get_operations() if op.type == "Pack" and op.inputs[0].shape.rank != 0]
        self.assertEqual(len(packs), stacks)

    @parameterized.expand(
        [
            ([2**14, 8], True, True),
            ([2**14, 8], False, False),
            ([2**15, 7], True, False),
            ([17, 2**13 - 1], True, True),
            ([17, 2**13], True, False),
            ([None, 8], True, True),
            ([8, None], True, False),
            ([2**17], True, False),
            (None, True, False),
            ([], True, False),
        ]
    )
    def test_of_columns(self, shape: Any, is_xla: bool, by_products: bool) -> None:
        look = tf.function(all_finite, jit_compile=is_xla, autograph=False)
        graph = look.get_concrete_function([tf.TensorSpec(shape)]).graph
        self.assertEqual("MatMul" in str(graph.as_graph_def()), by_products)

    def test_of_a_scale(self) -> None:
        for scale, is_exact in (
            (2.0**-16, False),
            (2.0**-15, True),
            (1.0, True),
            (1 + 2.0**-23, False),
            (3.0, False),
            (2.0**24, True),
            (2.0**25, False),
        ):
            for given in (scale, tf.constant(scale)):
                self.assertEqual(bool(gradients._has_exact_reciprocal(given)), is_exact, given)

    @parameterized.expand([(31, None, False), (32, None, True), (32, "strategy", False), (32, "xla", False)])
    def test_of_a_conditional(self, count: int, where: str | None, is_one_op: bool) -> None:
        graphs = []

        def choose(condition: Any, tensors: list[Any]) -> Any:
            with tf.distribute.OneDeviceStrategy("CPU:0").scope() if where == "strategy" else tf.name_scope("in"):
                graphs.append(v1.get_default_graph())
                return fast.value_from(tensors, condition, lambda *each: each[0], lambda *each: each[1], "choice")

        step = tf.function(choose, jit_compile=where == "xla", autograph=False)
        tensors = [tf.constant([index] * 2) for index in range(count)]
        for taken in (True, False):
            self.assertEqual(step(tf.constant(taken), tensors).numpy().tolist(), [1 - taken] * 2)
        # The other kind, TensorFlow takes apart, but for XLA.
        (conditional,) = [op for op in graphs[0].get_operations() if op.type == "StatelessIf"]
        self.assertEqual(conditional.name.split("/")[-1], "choice")
        self.assertEqual(conditional.outputs[0].shape, [2])
        self.assertEqual(len(conditional.inputs) == count + 1, is_one_op)


class SameResultsTest(Ways):
    @parameterized.expand([(layout, mode) for layout in LAYOUTS for mode in MODES])
    @pytest.mark.default_run("each value")
    def test_of_both_ways(self, layout: str, mode: str) -> None:
        for dtypes in MIXTURES:
            self._compare(layout, mode, dtypes, both(layout, ()), [[np.array(scale, np.float32)] for scale in SCALES])

    @parameterized.expand([(layout,) for layout in LAYOUTS])
    @pytest.mark.default_run("one case")
    def test_of_both_ways_with_fixed_scales(self, layout: str) -> None:
        for dtypes in MIXTURES:
            self._compare(layout, "function", dtypes, both(layout, (1024.0, 2.0**25, 3.7)), [[]] * 3)

    def _compare(self, layout: str, mode: str, dtypes: list[Any], fn: Any, others: list[list[np.ndarray]]) -> None:
        """Compare both ways of `fn`, given gradients and others, for each list of those."""
        random = np.random.default_rng(len(layout) + 10 * len(mode) + sum(map(ord, str(dtypes))))
        given = []
        for other in others:
            arrays, are_finite = self._arrays(layout, dtypes, random)
            given.append(([*arrays, *other], are_finite))
        evaluate = self.prepared(fn, mode, given[0][0])
        quick = [evaluate(arrays) for arrays, _ in given]
        with plain_ways():
            evaluate = self.prepared(fn, mode, given[0][0])
            plain = [evaluate(arrays) for arrays, _ in given]
        for (_, are_finite), ours, theirs in zip(given, quick, plain, strict=True):
            self.assertEqual(bool(ours[0][0]), are_finite)
            for our, their in zip(ours, theirs, strict=True):
                self._assert_same_bits(our, their)

    def _arrays(self, layout: str, dtypes: list[Any], random: Any) -> tuple[list[np.ndarray], bool]:
        """Return arrays with up to three special values, and whether they are finite."""
        arrays = [
            np.array(random.normal(size=shape), dtypes[index % len(dtypes)].as_numpy_dtype)
            for index, shape in enumerate(shapes_of(layout))
        ]
        filled = [(array, dtypes[index % len(dtypes)]) for index, array in enumerate(arrays) if array.size]
        for _ in range(random.integers(4)):
            array, dtype = filled[random.integers(len(filled))]
            array.reshape(-1)[random.integers(array.size)] = special(SPECIAL[random.integers(len(SPECIAL))], dtype)
        return arrays, all(map(is_finite, arrays))

    def _assert_same_bits(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape))
        # An op that multiplies by one may leave a signalling NaN as it is, or make it a quiet one.
        with np.errstate(invalid="ignore"):
            is_number = ~np.isnan(theirs.reshape(-1))
            np.testing.assert_array_equal(~np.isnan(ours.reshape(-1)), is_number)
        np.testing.assert_array_equal(bits_of(ours)[is_number], bits_of(theirs)[is_number])

    @parameterized.expand([(dtype.name, mode) for dtype in DTYPES for mode in MODES])
    @pytest.mark.default_run("each value")
    def test_each_special_value_at_each_end(self, dtype_name: str, mode: str) -> None:
        dtype = tf.as_dtype(dtype_name)
        for size in (1, 3, 64, 2**14 + 5):
            ones = np.ones(size, dtype.as_numpy_dtype)
            evaluate = self.prepared(lambda given: tf.stack([all_finite(given), finite_at_once(given)]), mode, [ones])
            for name in SPECIAL:
                value = special(name, dtype)
                for place in {0, size // 2, size - 1}:
                    array = ones.copy()
                    array[place] = value
                    (results,) = evaluate([array])
                    self.assertEqual(results.tolist(), [is_finite(value)] * 2, (name, size, place))

    @parameterized.expand([(dtype.name, dtype) for dtype in DTYPES])
    @pytest.mark.default_run("one case")
    def test_products_know_each_special_value(self, name: str, dtype: Any) -> None:
        # Products are for tensors that are large together.
        others = tf.ones([2**9, 2**8], dtype)

        @tf.function(jit_compile=True, autograph=False)
        def check(tensors: list[Any]) -> list[Any]:
            return [all_finite([each, others]) for each in tensors]

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

    @parameterized.expand([(dtype.name, mode) for dtype in DTYPES for mode in (*MODES, "xla")])
    @pytest.mark.default_run("each value")
    def test_of_what_a_factor_makes_infinite(self, dtype_name: str, mode: str) -> None:
        dtype = tf.as_dtype(dtype_name).as_numpy_dtype
        third = np.array(float(tf.as_dtype(dtype_name).max) * 0.33, dtype)
        # The squares of the third are infinite already.
        cases = [(third, True), (-third, True), (dtype(1.0), True), (third * dtype(1.05), False), (-third * 2, False)]
        cases += [(special(name, tf.as_dtype(dtype_name)), False) for name in ("max", "-max", "inf", "-inf", "nan")]
        check = lambda grads: all_finite(grads, 3)  # noqa: E731
        # In the last case, none is small.
        for first, size in ((7, 3), (7, LARGE + 1), (LARGE, LARGE + 1)):
            ones = [np.ones(first, dtype), np.ones(size, dtype), np.ones(LARGE, dtype)]
            fast = self.prepared(check, mode, ones)
            with plain_ways():
                plain = self.prepared(check, mode, ones)
            for value, expected in cases:
                arrays = [each.copy() for each in ones]
                arrays[1][size // 2] = value
                results = fast(arrays)
                with plain_ways():
                    # XLA has the plain ones in any case.
                    results += plain(arrays) if mode != "xla" else results
                self.assertEqual([bool(each) for each in results], [expected] * 2, (value, size))


class GatesTest(unittest.TestCase):
    """In a session no op of the optimizer runs in a step that is skipped, whatever the op is made of."""

    @parameterized.expand(
        [("list", True), ("function", True), ("elsewhere", True), ("tensor", False), ("partly", False)]
    )
    def test_variables_that_an_optimizer_makes_in_its_step(self, kind: str, works: bool) -> None:
        class Averaging(v1.train.GradientDescentOptimizer):
            def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Any = None) -> Any:
                firsts = {
                    "list": lambda: [0.0],
                    "function": lambda: lambda: tf.zeros([1]),
                    "elsewhere": lambda: outside,
                    "tensor": lambda: tf.zeros([1]),
                    "partly": lambda: tf.zeros([1]) + outside,
                }
                with tf.name_scope("elsewhere/" if kind == "elsewhere" else "averages"):
                    average = v1.Variable(firsts[kind](), name="average", trainable=False, use_resource=True)
                step = super().apply_gradients(grads_and_vars, global_step, name)
                return tf.group(step, average.assign_add([1.0]))

        around = "" if kind == "function" else "training/"
        with tf.Graph().as_default(), v1.Session() as session, tf.name_scope(around):
            weight = v1.get_variable("weight", initializer=[4.0], use_resource=True)
            factor, outside = v1.placeholder(tf.float32, []), tf.zeros([1])
            for _ in range(60):
                # Each path through these would take years to look at.
                outside += outside
            opt = mpls.v1.MixedPrecisionLossScaleOptimizer(Averaging(1), mpls.v1.DynamicLossScale(8, 2))
            if not works:
                with self.assertRaisesRegex(ArgumentValueError, "initial_value of a variable must not be a tensor"):
                    opt.minimize(factor * tf.reduce_sum(weight))
                return
            step = opt.minimize(factor * tf.reduce_sum(weight))
            (average,) = (each for each in v1.global_variables() if "average" in each.name)
            scope = "elsewhere/" if kind == "elsewhere" else f"{around}averages/"
            self.assertEqual(average.name, f"{scope}average:0")
            session.run(v1.global_variables_initializer())
            for value in (1.0, float("nan"), 1.0):
                session.run(step, {factor: value})
            self.assertEqual(session.run([average, weight]), [[2.0], [2.0]])

    @parameterized.expand(
        [
            (kind, is_v2, is_resource)
            for kind in ("op", "function", "conditional", "loop")
            for is_v2 in (False, True)
            for is_resource in (True, False)
        ]
    )
    @pytest.mark.default_run("each value")
    def test_of_an_optimizer_with_ops_of_its_own(self, kind: str, is_v2: bool, is_resource: bool) -> None:
        with tf.Graph().as_default(), control_flow(is_v2), v1.Session() as session:
            counter = v1.get_variable("counter", initializer=0, use_resource=True, trainable=False)
            weight = v1.get_variable("weight", initializer=[4.0, 2.0], use_resource=is_resource)
            factor = v1.placeholder(tf.float32, [])

            def count(*_: Any) -> Any:
                return counter.assign_add(1)

            own: dict[str, Callable[[Any], Any]] = {
                "op": count,
                "function": tf.function(count, autograph=False),
                "conditional": lambda grad: tf.cond(factor > 0.0, count, count),
                "loop": lambda grad: tf.while_loop(lambda i, _: i < 1, lambda i, _: (i + 1, count()), [0, 0]),
            }

            class Counting(v1.train.GradientDescentOptimizer):
                def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Any = None) -> Any:
                    pairs = list(grads_and_vars)
                    return tf.group(super().apply_gradients(pairs, global_step, name), own[kind](pairs[0][0]))

            scale = mpls.v1.DynamicLossScale(8, 2)
            step = mpls.v1.MixedPrecisionLossScaleOptimizer(Counting(1), scale).minimize(
                tf.reduce_sum(weight * factor), var_list=[weight]
            )
            session.run(v1.global_variables_initializer())
            seen = []
            for value in (1.0, np.inf, 1.0, 1.0, np.nan):
                session.run(step, {factor: value})
                seen.append([session.run(each) for each in (weight[0], counter, scale())])
        self.assertEqual(seen, [[3, 1, 8], [3, 1, 4], [2, 2, 4], [1, 3, 8], [1, 3, 4]])

    @parameterized.expand([(is_resource, is_v2) for is_resource in (False, True) for is_v2 in (False, True)])
    def test_what_a_skipped_step_does_is_one_op(self, is_resource: bool, is_v2: bool) -> None:
        with tf.Graph().as_default() as graph, control_flow(is_v2):
            # Large enough to be summed, so that there is a look at each element, too.
            weights = [v1.Variable(tf.fill([5000], 4.0), use_resource=is_resource, name="weight") for _ in range(2)]
            steps = v1.Variable(0, use_resource=is_resource, name="steps", trainable=False)
            factor = v1.placeholder(tf.float32, [], name="factor")
            opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
                v1.train.GradientDescentOptimizer(1),
                mpls.v1.DynamicLossScale(8, 2),
                max_consecutive_skips=5,
                skip_counts_step=True,
            )
            opt.minimize(tf.add_n([tf.reduce_sum(each * factor) for each in weights]), steps, name="step")
            tf.identity(opt._loss_scale(), name="scale")
            tf.identity(weights[-1][-1], name="last")
            tf.identity(steps, name="count")
            tf.group(v1.global_variables_initializer(), name="start")
            saved = v1.train.export_meta_graph()
        kinds = [op.type for op in graph.get_operations()]
        self.assertNotIn("Assert", kinds)
        self.assertLess(kinds.count("IsFinite"), 2)
        self.assertLess(len(kinds), 250)
        seen = []
        with tf.Graph().as_default(), v1.Session() as session:
            # In another program, as it were.
            v1.train.import_meta_graph(saved)
            session.run("start")
            for value in (1.0, np.inf, 1.0, 1.0, np.nan):
                session.run("step", {"factor:0": value})
                weight, scale, count = session.run(["last:0", "scale:0", "count:0"])
                seen.append([weight, scale, count])
        self.assertEqual(seen, [[3, 8, 1], [3, 4, 2], [2, 4, 3], [1, 8, 4], [1, 4, 5]])

    def test_what_a_skipped_step_does_to_variables_of_another_process_is_no_function(self) -> None:
        kinds = {}
        for device in ("", "/job:localhost", "/job:ps/task:0"):
            with tf.Graph().as_default() as graph, tf.device(device):
                weight = v1.Variable(4.0, use_resource=True)
                opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
                    v1.train.GradientDescentOptimizer(1), "dynamic", max_consecutive_skips=5
                )
                opt.minimize(weight * 2.0)
            kinds[device] = {op.type for op in graph.get_operations()} & {"Assert", "StatefulPartitionedCall"}
        called = {"StatefulPartitionedCall"}
        self.assertEqual(kinds, {"": called, "/job:localhost": called, "/job:ps/task:0": {"Assert"}})


class AgainAndAgainTest(Ways):
    """What eager mode runs as one op once it is called again with such gradients."""

    def setUp(self) -> None:
        super().setUp()
        few_are_enough = mock.patch.object(fast, "_MANY", 1)
        few_are_enough.start()
        self.addCleanup(few_are_enough.stop)

    @parameterized.expand([(scale, dtype) for scale in (8.0, 3.0, 2.0**25) for dtype in ("float32", "float16")])
    def test_step_after_step(self, scale: float, dtype: str) -> None:
        for step in range(6):
            # A batch that has other words in each step.
            sparse = tf.IndexedSlices(tf.cast(tf.fill([step, 2], 3.0), dtype), tf.range(step), tf.constant([9, 2]))
            # Some look as if they were like those of one batch.
            dense = [tf.cast(tf.fill([2, 2], 3.0 + step), dtype) for _ in range(6)]
            unscaled = unscale_gradients([sparse, *dense, None], tf.constant(scale))
            exact = np.float32(3.0 + step) / np.float32(scale)
            for each in unscaled[1:7]:
                self.assertEqual(each.dtype, dtype)
                np.testing.assert_array_equal(each, np.full([2, 2], exact, dtype))
            self.assertIsInstance(unscaled[0], tf.IndexedSlices)
            self.assertEqual(unscaled[0].values.shape, [step, 2])
            self.assertIsNone(unscaled[7])
            self.assertTrue(bool(all_finite(unscaled)))
            damaged = [*unscaled, tf.constant(np.inf if step % 2 else 1.0)]
            self.assertEqual(bool(all_finite(damaged)), step % 2 == 0)
        self.assertEqual(len(gradients._unscale_as_one_op._functions), 1)

    def test_gradients_of_unscaled_gradients(self) -> None:
        x = tf.Variable(3.0)
        for _ in range(5):
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    loss = 8.0 * x**3
                (unscaled,) = unscale_gradients([inner.gradient(loss, x)], tf.constant(8.0))
            self.assertEqual(float(outer.gradient(unscaled, x)), 18.0)

    def test_eager_gradients_in_a_function_have_no_op_that_made_them(self) -> None:
        grads = [tf.fill([3], 8.0 + index) for index in range(5)]
        # One that is known when the function is traced would stack nothing.
        scale = tf.Variable(2.0)
        unscaled = tf.function(lambda: unscale_gradients(grads, tf.convert_to_tensor(scale)), autograph=False)()
        np.testing.assert_array_equal(unscaled, [[4.0 + index / 2] * 3 for index in range(5)])

    def test_integers_are_unscaled_in_each_step_alike(self) -> None:
        grads = [tf.constant([4 * index, 8]) for index in range(fast._MANY + 1)]
        for _ in range(fast._CALLS_BEFORE + 2):
            unscaled = unscale_gradients(grads, tf.constant(0.5))
            self.assertEqual([each.numpy().tolist() for each in unscaled], [[8 * i, 16] for i in range(len(grads))])
            self.assertEqual({each.dtype for each in unscaled}, {tf.int32})

    def test_parts_along_another_axis_are_no_stack(self) -> None:
        @tf.function
        def unscaled(tensor: Any, scale: Any) -> Any:
            return unscale_gradients(tf.unstack(tensor, axis=1), scale)

        tensor = np.arange(36, dtype=np.float32).reshape(6, 6)
        np.testing.assert_array_equal(np.stack(unscaled(tensor, tf.constant(2.0)), 1), tensor / 2)

    def test_a_part_of_what_was_unscaled_in_a_stack_is_looked_at_alone(self) -> None:
        for change, expected in ((lambda grads: grads[:5], True), (lambda grads: [*grads[:4], grads[5]], False)):
            step = tf.function(lambda grads, c=change: all_finite(c(unscale_gradients(grads, grads[0][0]))))
            self.assertEqual(bool(step([tf.ones([3])] * 5 + [tf.fill([3], np.inf)])), expected)


class DevicesTest(unittest.TestCase):
    @parameterized.expand([(["CPU:0"],), (["CPU:1"],), (["CPU:0", "CPU:1"],)])
    def test_variables_on_any_of_them_are_trained_together(self, devices: list[str]) -> None:
        variables = []
        # As many as are looked at by one op.
        for number in range(10):
            with tf.device(devices[number % len(devices)]):
                variables.append(tf.Variable(1.0))
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
            v1.train.MomentumOptimizer(0.25, 0.5), "dynamic", track_overflows=True
        )
        factor = tf.Variable(1.0)

        @tf.function(autograph=False)
        def step() -> None:
            opt.minimize(lambda: tf.add_n([factor * each for each in variables]), var_list=variables)

        step()
        self.assertEqual([float(each) for each in variables], [0.75] * 10)
        factor.assign(np.inf)
        step()
        self.assertEqual([float(each) for each in variables], [0.75] * 10)
        self.assertEqual(float(opt._loss_scale()), 2.0**14)
        # What a skipped step does is one op, and reads the gradients of all devices.
        self.assertEqual([each.count for each in opt.overflow_report()], [1] * 10)
