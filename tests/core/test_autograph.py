"""Functions that AutoGraph leaves alone."""

from __future__ import annotations

import inspect
import unittest
from typing import Any

import tensorflow as tf

from mpls.core.autograph import as_written


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
