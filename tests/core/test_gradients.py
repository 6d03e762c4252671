"""Scaling a loss, unscaling gradients and looking for non-finite ones: every dtype, dense, sparse and missing."""

from __future__ import annotations

import math
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from parameterized import parameterized

from mpls.core.gradients import all_finite, no_infinity, no_nan, scale_loss, unscale_gradients

FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
FLOATS_BY_NAME = [(dtype.name, dtype) for dtype in FLOATS]
INF, NAN = math.inf, math.nan


def numbers(tensor: Any) -> Any:
    return np.asarray(tf.cast(tensor, tf.float64))


def slices(values: Any, indices: Any, shape: Any = None) -> tf.IndexedSlices:
    return tf.IndexedSlices(values, tf.constant(indices), None if shape is None else tf.constant(shape))


def evaluate(fn: Any, mode: str, *arrays: Any) -> Any:
    """Call `fn` with tensors in a mode; return NumPy arrays."""
    if mode == "graph":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            feeds = [tf.compat.v1.placeholder(array.dtype, array.shape) for array in arrays]
            return session.run(fn(*feeds), dict(zip(feeds, arrays, strict=True)))
    if mode != "eager":
        fn = tf.function(fn, jit_compile=mode == "jit_compile")
    return tf.nest.map_structure(np.asarray, fn(*map(tf.constant, arrays)))


class ScaleLossTest(unittest.TestCase):
    def test_the_scale_is_asked_for_late_and_told_the_dtype(self) -> None:
        asked: list[Any] = []

        def scale(dtype: Any) -> Any:
            asked.append(dtype)
            return tf.constant(2.0 ** len(asked))

        scaled = scale_loss(lambda: tf.constant(1.0, tf.float16), scale)
        self.assertEqual(asked, [])
        self.assertEqual([float(scaled()), float(scaled())], [2.0, 4.0])
        self.assertEqual(asked, [tf.float16] * 2)
        self.assertEqual(float(scale_loss(tf.constant(1.0), scale)), 8.0)

    def test_a_scale_beyond_float16_makes_a_float16_loss_infinite(self) -> None:
        self.assertEqual(float(scale_loss(tf.constant(1.0, tf.float16), tf.constant(2.0**16))), INF)
        self.assertEqual(float(scale_loss(tf.constant(1.0, tf.bfloat16), tf.constant(2.0**16))), 2.0**16)

    @parameterized.expand([(None,), ([1.0],)])
    def test_what_has_no_dtype_is_an_attribute_error(self, loss: Any) -> None:
        with self.assertRaises(AttributeError):
            scale_loss(loss, tf.constant(8.0))
        with self.assertRaises(AttributeError):
            scale_loss(lambda: loss, tf.constant(8.0))()


class UnscaleTest(unittest.TestCase):
    @parameterized.expand(FLOATS_BY_NAME)
    def test_indexed_slices_stay_sparse(self, name: str, dtype: Any) -> None:
        for shape in (None, [100, 2]):
            grad = slices(tf.constant([[8.0, 16.0], [24.0, 0.0]], dtype), [7, 7], shape)
            (result,) = unscale_gradients([grad], tf.constant(8.0))
            self.assertIsInstance(result, tf.IndexedSlices)
            self.assertIs(result.indices, grad.indices)
            self.assertIs(result.dense_shape, grad.dense_shape)
            self.assertEqual(result.values.dtype, dtype)
            np.testing.assert_array_equal(numbers(result.values), [[1.0, 2.0], [3.0, 0.0]])

    def test_indexed_slices_are_not_densified_in_a_graph(self) -> None:
        """A dense gradient of this shape would need a terabyte; an op that makes one would be in the graph."""
        with tf.Graph().as_default() as graph:
            values = tf.compat.v1.placeholder(tf.float16, [None, 2])
            grad = slices(values, [0, 2**36], [2**37, 2])
            (result,) = unscale_gradients([grad], tf.constant(8.0))
            finite = all_finite([result])
            kinds = {op.type for op in graph.get_operations()}
            self.assertFalse(kinds & {"UnsortedSegmentSum", "ScatterNd", "TensorScatterAdd"}, kinds)
            with tf.compat.v1.Session() as session:
                out, is_finite = session.run([result.values, finite], {values: [[8, 16], [24, 0]]})
            np.testing.assert_array_equal(out, [[1, 2], [3, 0]])
            self.assertTrue(is_finite)

    def test_structure_and_missing_gradients_are_kept(self) -> None:
        parts = [[tf.constant(8.0), None], (None, (tf.constant([16.0]),)), []]
        for grads in (parts, dict(zip("abc", parts, strict=True)), parts[0], [parts[1]], [parts[0][:1], None]):
            result = unscale_gradients(grads, tf.constant(8.0))
            tf.nest.assert_same_structure(grads, result)
            expected = [grad if grad is None else (grad / 8.0).numpy().tolist() for grad in tf.nest.flatten(grads)]
            actual = [grad if grad is None else grad.numpy().tolist() for grad in tf.nest.flatten(result)]
            self.assertEqual(actual, expected)

    def test_arrays_and_numbers_are_gradients_too(self) -> None:
        result = unscale_gradients([np.array([8.0], np.float16), np.float64(4.0), tf.Variable(2.0)], tf.constant(2.0))
        self.assertEqual([grad.dtype for grad in result], [tf.float16, tf.float64, tf.float32])
        self.assertEqual([float(tf.reduce_sum(grad)) for grad in result], [4.0, 2.0, 1.0])

    def test_complex_gradients(self) -> None:
        (result,) = unscale_gradients([tf.constant(8 + 16j, tf.complex64)], tf.constant(8.0))
        self.assertEqual((result.dtype, complex(result)), (tf.complex64, 1 + 2j))

    @settings(max_examples=200, deadline=None)
    @given(
        values=st.lists(st.floats(-65504, 65504, width=16), min_size=1, max_size=8),
        scale=st.one_of(st.integers(0, 40).map(lambda p: 2.0**p), st.floats(1, 2.0**40, width=32)),
    )
    def test_float16_is_rounded_once(self, values: list[float], scale: float) -> None:
        """Against a float64 quotient: the float32 one in between may move a tie, by one float16 at most."""
        grad = np.array(values, np.float16)
        (result,) = unscale_gradients([tf.constant(grad)], tf.constant(scale))
        exact = grad.astype(np.float64) / np.float64(np.float32(scale))
        # The distance of neighbours in float16, denormal ones included.
        spacing = 2.0 ** np.maximum(np.frexp(exact)[1] - 11.0, -24.0)
        error = np.abs(np.asarray(result).astype(np.float64) - exact)
        # Half a unit in the last place, and the float32 rounding before it.
        assert (error <= spacing * (0.5 + 2.0**-12)).all(), (grad, scale, result)

    @parameterized.expand(
        [
            (f"{p}_{k}_{m}", p, k, m)
            for p, k in ((125, "constant"), (126, "constant"), (125, "fed"), (126, "fed"), (127, "fed"))
            for m in ("eager", "function", "jit_compile", "graph")
        ]
    )
    @pytest.mark.default_run("one case")
    def test_float32_at_the_largest_scales(self, name: str, power: int, kind: str, mode: str) -> None:
        """The reciprocal is denormal from 2**127 on, to where a scale can grow; no constant scale is that large."""
        values = np.array([2.0**127, -(2.0**120), 2.0**120 * 1.5, 0.0], np.float32)
        expected = values.astype(np.float64) / 2.0**power
        scale = np.float32(2.0**power)
        if kind == "constant":
            (result,) = evaluate(lambda grad: unscale_gradients([grad], tf.constant(scale)), mode, values)
        else:
            (result,) = evaluate(lambda grad, s: unscale_gradients([grad], s), mode, values, scale)
        np.testing.assert_array_equal(result, expected)

    def test_float64_gradients_are_divided_in_float64(self) -> None:
        value = 1.0 + 2.0**-52
        (result,) = unscale_gradients([tf.constant(value, tf.float64)], tf.constant(2.0**15))
        self.assertEqual(float(result), value / 2.0**15)


class AllFiniteTest(unittest.TestCase):
    @parameterized.expand(FLOATS_BY_NAME)
    def test_only_values_of_indexed_slices_are_looked_at(self, name: str, dtype: Any) -> None:
        # Summed into a dense gradient, the two would overflow.
        values = tf.fill([2, 1], dtype.max)
        self.assertTrue(bool(all_finite([slices(values, [3, 3])])))
        self.assertTrue(bool(all_finite([slices(values, [3, 3], [2**40, 1])])))
        self.assertFalse(bool(all_finite([slices(values * 2, [3, 3], [5, 1])])))

    @parameterized.expand(["eager", "function", "jit_compile", "graph"])
    def test_both_parts_of_complex_gradients(self, mode: str) -> None:
        def seen(grad: Any) -> list[Any]:
            grads = [grad, tf.constant(1.0), grad]
            return [all_finite(grads), all_finite(grads, 2), no_infinity(grads), no_nan(grads)]

        for number in (1 + 2j, complex(INF, 1), complex(1, -INF), complex(NAN, 1), complex(1, NAN)):
            has_infinity, has_nan = (any(map(kind, (number.real, number.imag))) for kind in (math.isinf, math.isnan))
            is_finite = not (has_infinity or has_nan)
            # XLA looks at all sizes in the same way.
            for shape in ((5000,),) if mode == "jit_compile" else ((), (2, 3), (5000,)):
                grad = np.ones(shape, np.complex64)
                grad[(-1,) * len(shape)] = number
                self.assertEqual(
                    list(evaluate(seen, mode, grad)), [is_finite, is_finite, not has_infinity, not has_nan]
                )

    @parameterized.expand([([],), ({},), (None,), ([None],), ({"a": (None, [])},)])
    def test_no_gradients_are_finite(self, grads: Any) -> None:
        result = all_finite(grads)
        self.assertEqual((result.dtype, result.shape, bool(result)), (tf.bool, [], True))

    @parameterized.expand(
        [
            (1.0, True),
            (INF, False),
            (np.float64(NAN), False),
            (np.array([1.0, INF], np.float16), False),
            (np.array([[1.0]]), True),
            (np.float16(65504), True),
        ]
    )
    def test_numbers_and_arrays(self, value: Any, expected: bool) -> None:
        self.assertEqual(bool(all_finite([value])), expected)
        self.assertEqual(bool(all_finite(value)), expected)
