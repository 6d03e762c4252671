"""The tables of names, beside the frameworks: each name is where its table says, and nowhere else."""

from __future__ import annotations

import inspect
import unittest
from typing import Any

import keras
import tensorflow as tf
import tf_keras
from parameterized import parameterized

from mpls.names import NAMES
from mpls.program import signs, tables


def is_there(root: Any, path: str) -> bool:
    """Return whether a path leads to something."""
    for part in path.split("."):
        try:
            root = getattr(root, part)
        except (AttributeError, ImportError):
            return False
    return True


# Each table, where its names are, and where they are not.
TABLES = [
    (tables.TF_1, (tf.compat.v1,), tf),
    (tables.TF_2, (tf,), tf.compat.v1),
    (tables.KERAS_2, (tf_keras,), keras),
    (tables.KERAS_2_OF_TF, (tf_keras, keras), tf.keras),
    (tables.KERAS_2_PRIVATE, (tf_keras.src,), keras),
    (tables.KERAS_3, (keras,), tf_keras),
]
ROWS = [(path, homes, other) for names, homes, other in TABLES for path in sorted(names)]


class TablesTest(unittest.TestCase):
    @parameterized.expand(ROWS)
    def test_where_a_name_is(self, path: str, homes: tuple[Any, ...], other: Any) -> None:
        within = path.partition(".")[2]
        # What Keras 3 cannot give is an error of its own there.
        is_missing = homes == (tf.compat.v1,) and path in tables.KERAS_2_OF_TF_1
        self.assertTrue(is_missing or all(is_there(home, within) for home in homes))
        # That one is there, and every optimizer in it raises.
        self.assertTrue(within == "optimizers.legacy" or not is_there(other, within))

    @parameterized.expand([(name,) for name in tables.LATER_THAN_2_10])
    def test_no_legacy_optimizer_is_called_so(self, name: str) -> None:
        self.assertFalse(hasattr(tf_keras.optimizers.legacy, name))
        self.assertTrue(hasattr(tf_keras.optimizers, name) or hasattr(keras.optimizers, name))

    def test_arguments_of_the_generations(self) -> None:
        for keyword in ("use_ema", "weight_decay", "jit_compile", "ema_momentum"):
            self.assertIn(keyword, inspect.signature(tf_keras.optimizers.SGD).parameters)
            self.assertNotIn(keyword, inspect.signature(tf_keras.optimizers.legacy.SGD).parameters)

    def test_the_last_wrapper_of_keras_2_has_not_what_needs_another(self) -> None:
        opt = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.Adam())
        variable = tf.Variable(1.0)
        opt.apply_gradients([(variable * 0.0, variable)])
        self.assertIsNot(type(opt), tf_keras.mixed_precision.LossScaleOptimizer)
        for name in signs.NOT_OF_THE_LAST:
            self.assertFalse(hasattr(opt, name), name)
        # It takes no notice of what is set.
        opt.beta_1 = 0.5
        self.assertEqual(float(opt.inner_optimizer.beta_1), 0.9)

    def test_no_name_of_the_api_is_in_them(self) -> None:
        # Those have their releases in the table of names.
        paths = {name.path for name in NAMES if name.last is None and not name.needs_keras_3}
        self.assertFalse(paths & {*tables.TF_1, *tables.TF_2, *tables.KERAS_2})
