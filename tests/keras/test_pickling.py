"""Wrappers are pickled and copied, here and for another process, as those of the frameworks are."""

from __future__ import annotations

import copy
import pickle
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.errors import GraphStateError, NotPicklableError, without_deprecations
from tests.core.own_loss_scale import Counting
from tests.keras.families import OPTIMIZERS


class Sub(mpls.keras.LossScaleOptimizer):
    """A user's class."""


class SubWithArguments(mpls.experimental.LossScaleOptimizer):
    """A user's class with the historical arguments."""

    def __init__(self, optimizer: Any, loss_scale: Any = "dynamic") -> None:
        super().__init__(optimizer, loss_scale)


def of_old(loss_scale: Callable[[], Any], release: str = "2.3") -> Any:
    with mpls.install(as_of=release), without_deprecations():
        return mpls.experimental.LossScaleOptimizer(keras.optimizers.SGD(0.5, 0.5), loss_scale())


MADE: dict[str, Callable[[], Any]] = {
    "dynamic": lambda: mpls.keras.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=8.0),
    "fixed": lambda: mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(), dynamic=False, initial_scale=8.0),
    "subclass": lambda: Sub(keras.optimizers.SGD(0.5), dynamic_growth_steps=7),
    "experimental": lambda: _silently(lambda: mpls.experimental.LossScaleOptimizer(keras.optimizers.SGD(), "dynamic")),
    "experimental_subclass": lambda: _silently(lambda: SubWithArguments(keras.optimizers.SGD())),
    "of_old": lambda: of_old(lambda: mpls.v1.DynamicLossScale(4.0, 9, 4.0)),
    "of_old_fixed": lambda: of_old(lambda: 32.0, "2.0"),
    "of_old_own": lambda: of_old(Counting),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda opt: pickle.loads(pickle.dumps(opt)),
    "deepcopy": copy.deepcopy,
}


def _silently(make: Callable[[], Any]) -> Any:
    with without_deprecations():
        return make()


def take_step(opt: Any, factor: float = 1.0) -> float:
    variables = opt.inner_optimizer._trainable_variables
    variable = variables[0] if variables else keras.Variable([1.0, 2.0])
    opt.get_scaled_loss(tf.constant(1.0))
    grads = opt.get_unscaled_gradients([tf.constant([factor, factor]) * opt._loss_scale()])
    opt.apply_gradients([(grads[0], variable)])
    return float(variable.numpy()[0])


def state_of(opt: Any) -> tuple[Any, ...]:
    return type(opt), opt.get_config(), opt._behavior, opt.state_dict()


class Keras3Test(unittest.TestCase):
    """What Keras can pickle by itself, it can in a wrapper."""

    @parameterized.expand([(made, way) for made in MADE for way in WAYS])
    @pytest.mark.default_run("one case")
    def test_what_comes_out_is_the_same(self, made: str, way: str) -> None:
        opt = MADE[made]()
        take_step(opt)
        with warnings.catch_warnings():
            # Keras says so of each optimizer with slots that is not in a model.
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer", UserWarning)
            copied = WAYS[way](opt)
        self.assertIs(type(copied), type(opt))
        self.assertIsNot(copied.inner_optimizer, opt.inner_optimizer)
        self.assertEqual(state_of(copied), state_of(opt))
        # Each has its own state from then on.
        before = opt.state_dict()
        take_step(copied)
        self.assertEqual(opt.state_dict(), before)


class TfKerasTest(unittest.TestCase):
    """What tf_keras cannot pickle by itself is a clear error, and copies as before."""

    @parameterized.expand([("legacy", tf_keras.optimizers.legacy.SGD), ("new", tf_keras.optimizers.SGD)])
    def test_pickle_is_refused(self, name: str, optimizer: Any) -> None:
        opt = mpls.keras.LossScaleOptimizer(optimizer(0.5))
        with self.assertRaises((AttributeError, TypeError, pickle.PicklingError)):
            pickle.dumps(optimizer(0.5))
        with self.assertRaisesRegex(NotPicklableError, r"opt\.get_config\(\) and opt\.state_dict\(\)"):
            pickle.dumps(opt)
        again = type(opt).from_config(opt.get_config())
        again.load_state_dict(pickle.loads(pickle.dumps(opt.state_dict())))
        self.assertEqual(again.get_config(), opt.get_config())
        shallow = copy.copy(opt)
        self.assertIs(type(shallow), type(opt))
        self.assertIs(shallow.inner_optimizer, opt.inner_optimizer)

    def test_copies_of_disabled_legacy_ones_stay_silent(self) -> None:
        copied = copy.deepcopy(mpls.keras.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(0.5), enabled=False))
        variable = tf.Variable(1.0)
        copied.apply_gradients([(tf.constant(1.0), variable)])
        self.assertEqual(float(variable), 0.5)

    def test_copies_of_legacy_ones_go_on_by_themselves(self) -> None:
        opt = Sub(tf_keras.optimizers.legacy.SGD(0.5), initial_scale=8.0)
        variable = tf.Variable([1.0])
        opt.minimize(lambda: variable * variable, [variable])
        copied = copy.deepcopy(opt)
        self.assertEqual(state_of(copied), state_of(opt))
        copied.minimize(lambda: variable * np.inf, [variable])
        self.assertEqual((float(opt.loss_scale), float(copied.loss_scale)), (8.0, 4.0))


class ClassesTest(unittest.TestCase):
    @parameterized.expand(OPTIMIZERS)
    def test_those_of_instances(self, family: str) -> None:
        for cls in (Sub, mpls.keras.LossScaleOptimizer):
            opt = cls(OPTIMIZERS[family].SGD(0.5))
            for each in (cls, type(opt), opt.__class__):
                self.assertIs(pickle.loads(pickle.dumps(each)), each)


class LossScaleTest(unittest.TestCase):
    """Loss scales and v1 wrappers."""

    def test_v1_wrappers(self) -> None:
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.MomentumOptimizer(0.5, 0.5), "dynamic")
        variable = tf.Variable([1.0])
        opt.minimize(lambda: variable * np.inf, [variable])
        for way in (WAYS["pickle"], WAYS["deepcopy"]):
            copied = way(opt)
            self.assertEqual(copied.state_dict(), opt.state_dict())
            copied.minimize(lambda: variable * np.inf, [variable])
            self.assertEqual((float(opt._loss_scale()), float(copied._loss_scale())), (2.0**14, 2.0**13))

    @parameterized.expand([(way,) for way in WAYS])
    def test_one_with_variables_of_a_graph_is_refused(self, way: str) -> None:
        with tf.Graph().as_default():
            scale = mpls.v1.DynamicLossScale()
            with self.assertRaisesRegex(GraphStateError, r"Take loss_scale\.state_dict\(session\)"):
                WAYS[way](scale)
            self.assertEqual(WAYS[way](mpls.v1.FixedLossScale(8)).get_config(), {"loss_scale_value": 8.0})
