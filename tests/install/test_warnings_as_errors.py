"""A program runs under `python -W error` as it did on its own TensorFlow, which logged what is deprecated."""

from __future__ import annotations

import logging
import unittest
import warnings

import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from mpls.errors import MplsDeprecationWarning, MplsWarning


def forgets(optimizers: object) -> None:
    opt = mpls.keras.LossScaleOptimizer(optimizers.SGD(0.5))
    opt.apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])


def deprecated(optimizers: object) -> None:
    mpls.experimental.LossScaleOptimizer(optimizers.SGD(0.5), "dynamic")


CALLS = [("forgets", forgets, MplsWarning), ("deprecated", deprecated, MplsDeprecationWarning)]


class FiltersTest(unittest.TestCase):
    @parameterized.expand(CALLS)
    def test_filters_for_all_warnings_raise_nothing(self, name: str, call: object, category: type) -> None:
        for kind in (Warning, category.__base__):
            with warnings.catch_warnings(), self.assertLogs("tensorflow", logging.WARNING) as logged:
                warnings.resetwarnings()
                warnings.simplefilter("error", kind)
                call(tf_keras.optimizers)
            self.assertIn("LossScaleOptimizer", logged.output[0])

    @parameterized.expand(CALLS)
    def test_filters_for_this_one_raise(self, name: str, call: object, category: type) -> None:
        for particular in ({"category": category}, {"message": ".*LossScaleOptimizer"}, {"module": __name__}):
            with warnings.catch_warnings(), self.assertRaises(category):
                warnings.resetwarnings()
                warnings.filterwarnings("error", **particular)
                call(tf_keras.optimizers)

    @parameterized.expand(CALLS)
    def test_the_first_filter_that_matches_decides(self, name: str, call: object, category: type) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.resetwarnings()
            warnings.simplefilter("error")
            warnings.filterwarnings("error", module="another_module")
            warnings.filterwarnings("always", category=category)
            call(tf_keras.optimizers)
        self.assertEqual([each.category for each in caught], [category])
        self.assertEqual(caught[0].filename, __file__)
