"""Functions that AutoGraph leaves alone."""

from __future__ import annotations

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
        # And what it calls.
        marked = as_written(lambda x: absolute(x))
        with self.assertRaises(tf.errors.OperatorNotAllowedInGraphError):
            tf.function(lambda x: marked(x))(tf.constant(-2.0))
