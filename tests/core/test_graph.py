"""How the code of mpls stands in users' graphs."""

from __future__ import annotations

import inspect
import unittest
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.graph import as_written, behind_identities


def absolute(x: Any, *, offset: float = 0.0) -> Any:
    """Return the absolute value, as AutoGraph would rewrite it."""
    if x < 0:
        return offset - x
    return offset + x


class AsWrittenTest(unittest.TestCase):
    def test_autograph_leaves_it_alone(self) -> None:
        rewritten = tf.function(lambda x: absolute(x, offset=1.0))
        self.assertEqual(float(rewritten(tf.constant(-2.0))), 3.0)
        marked = as_written(absolute)
        with self.assertRaises(tf.errors.OperatorNotAllowedInGraphError):
            tf.function(lambda x: marked(x, offset=1.0))(tf.constant(-2.0))

    def test_and_what_it_calls(self) -> None:
        marked = as_written(lambda x: absolute(x))
        with self.assertRaises(tf.errors.OperatorNotAllowedInGraphError):
            tf.function(lambda x: marked(x))(tf.constant(-2.0))

    def test_in_eager_mode_it_is_called(self) -> None:
        self.assertEqual(float(as_written(absolute)(tf.constant(-2.0), offset=1.0)), 3.0)

    def test_it_looks_like_the_function(self) -> None:
        marked = as_written(absolute)
        self.assertEqual((marked.__name__, marked.__doc__), ("absolute", absolute.__doc__))
        self.assertEqual(inspect.signature(marked), inspect.signature(absolute))
        self.assertIs(inspect.unwrap(marked), absolute)


class BehindIdentitiesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.graph = self.enterContext(tf.Graph().as_default())

    def test_tensors_and_the_parts_of_sparse_ones(self) -> None:
        first, second, places = tf.ones([2]), tf.zeros([2, 3]), tf.constant([0, 1])
        one, two, three = tf.identity_n([first, second, places])
        grads = behind_identities([tf.identity(one), tf.IndexedSlices(two, three), None])
        self.assertIs(grads[0], first)
        self.assertIs(grads[1].values, second)
        self.assertIs(grads[1].indices, places)
        self.assertIsNone(grads[2])

    def test_what_waits_or_copies_stays(self) -> None:
        given = tf.ones([2])
        with tf.control_dependencies([tf.no_op()]):
            waiting = tf.identity(given)
        with tf.device("CPU:1"):
            copied = tf.identity(waiting)
        self.assertIs(behind_identities(tf.identity(waiting)), waiting)
        self.assertIs(behind_identities(copied), copied)

    def test_what_comes_through_none_stays(self) -> None:
        given = [tf.ones([2]), np.ones(2), 1.0, tf.Variable(1.0)]
        for before, after in zip(given, behind_identities(given), strict=True):
            self.assertIs(before, after)


class BehindIdentitiesInAFunctionTest(unittest.TestCase):
    def test_tensors_of_eager_mode_have_come_through_none(self) -> None:
        outside = tf.ones([2])
        seen = []
        tf.function(lambda: seen.append(behind_identities(outside)))()
        self.assertIs(seen[0], outside)
