"""A step that is traced in one place and runs in another: compiled by XLA later, saved, inlined, on another device.

The other files of this suite trace a step where it runs. A graph does not know who will use it: each family's step is
traced once here, and then runs in every place that a graph can get to, beside the same training in eager mode.
"""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized
from tensorflow.python.framework import kernels

from tests.processes import ROOT, process_environment, run_python

from .devices import DEVICES, tf_variable
from .hosts import HOSTS, Host
from .setups import Scaling, Setup, Term
from .stages import Stage
from .training import Training as ScaledTraining

# Stacked ones, those that are read by sums, of several shapes and dtypes.
TERMS = {
    **{f"small{index}": Term([1.0 + index, -0.5]) for index in range(5)},
    "other": Term([[0.3], [0.1], [-0.7]]),
    "large": Term(np.linspace(-1, 1, 2**15)),
    "larger": Term(np.linspace(-1, 1, 2**15 + 7)),
    "half": Term(np.linspace(-1, 1, 2**15), tf.float16),
    "brain": Term([0.25, 0.5], tf.bfloat16),
}
LONE = {"lone": Term([1.0, 2.0])}
LONE_LARGE = {"lone": Term(np.linspace(-1, 1, 2**16))}
# Of which the conditional that looks at each element is one op.
MANY_LARGE = {f"large{index}": Term(np.linspace(-1, 1, 2**12 + index % 2)) for index in range(33)}
SETS = {"many": TERMS, "one": LONE, "one_large": LONE_LARGE, "many_large": MANY_LARGE}
SCALING = Scaling(8.0, growth_steps=3)
# Of steps: the loss is multiplied by them, and infinity is an overflow.
FACTORS = (1.0, 0.5, np.inf, 1.0, 2.0, 1.0)


class Training(ScaledTraining):
    """A training that takes steps with one factor for all terms, which is a variable."""

    def __init__(self, host: Host, terms: dict[str, Term]) -> None:
        super().__init__(host, Stage(DEVICES["one"]), Setup("", terms, "sgd", SCALING), is_scaled=True)
        host.build(self.opt, list(self.variables.values()))
        self.factor = tf.Variable(1.0)
        host.scale(self.opt)

    def take_step(self) -> None:
        self.replica_step([self.factor] * len(self.variables))

    def values(self) -> dict[str, Any]:
        counters = {"counter": self.counter, "scale": self.host.scale(self.opt), "good": self.host.good_steps(self.opt)}
        return {name: np.array(tf_variable(each)) for name, each in {**self.variables, **counters}.items()}

    def assert_same(self, other: dict[str, Any]) -> None:
        for name, value in self.values().items():
            assert_close(name, value, other[name])


def assert_close(name: str, actual: Any, expected: Any) -> None:
    """Compare what counts exactly, and weights up to the rounding of their dtypes, which XLA does elsewhere."""
    actual, expected = (np.asarray(each).astype(np.float64) for each in (actual, expected))
    atol = 0.0 if name in ("counter", "scale", "good") else {"half": 2e-3, "brain": 2e-2}.get(name, 1e-6)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol, err_msg=name)


def train(training: Training, step: Callable[[], Any], factors: tuple[float, ...] = FACTORS) -> None:
    for factor in factors:
        training.factor.assign(factor)
        step()


def devices_with_kernel(op: str) -> set[str]:
    return {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(op).kernel}


class TracedFirst(unittest.TestCase):
    """Each step is traced by itself, or by what XLA compiles, and then runs in another place."""

    def _check(self, training: Training, twin: Training, step: Callable[[], Any], where: str) -> None:
        train(training, step)
        train(twin, twin.take_step)
        with self.subTest(where):
            training.assert_same(twin.values())

    @parameterized.expand([(family, terms) for family in HOSTS for terms in SETS])
    @pytest.mark.default_run("each value", rest="full")
    @pytest.mark.matrix
    def test_by_itself(self, family: str, terms: str) -> None:
        training, twin = (Training(HOSTS[family], SETS[terms]) for _ in range(2))
        step = tf.function(training.take_step, autograph=False)
        self._check(training, twin, step, "where it was traced")
        concrete = step.get_concrete_function()
        compiled = tf.function(step, jit_compile=True, autograph=False)
        self._check(training, twin, lambda: compiled(), "in a function that XLA compiles")
        compiled = tf.function(lambda: tf.cond(training.factor > -1.0, concrete, concrete), jit_compile=True)
        self._check(training, twin, compiled, "its concrete function, in a branch that XLA compiles")
        if terms != "many":
            return
        outer = tf.function(lambda: step(), autograph=False)
        self._check(training, twin, outer, "in another function")
        with tf.device("CPU:1"):
            self._check(training, twin, tf.function(lambda: concrete(), autograph=False), "on another device")

    @parameterized.expand(
        [(family, terms, xla) for family in HOSTS for terms in ("many", "many_large") for xla in (False, True)]
    )
    @pytest.mark.default_run("each value", rest="full")
    @pytest.mark.matrix
    def test_and_saved(self, family: str, terms: str, traced_for_xla: bool) -> None:
        training, twin = (Training(HOSTS[family], SETS[terms]) for _ in range(2))
        step = tf.function(training.take_step, autograph=False, input_signature=[])
        train(training, tf.function(step, jit_compile=True) if traced_for_xla else step, (1.0,))
        train(twin, twin.take_step, (1.0,))
        module = tf.Module()
        module.step, module.factor = step, training.factor
        # Some are listed by the function only, the counter of v1 and legacy optimizers is not.
        module.used = [*step.get_concrete_function().graph.variables, tf_variable(training.counter)]
        held = {**training.variables, "scale": training.host.scale(training.opt)}
        held["good"] = training.host.good_steps(training.opt)
        names = {id(tf_variable(each)): name for name, each in held.items()}
        module.named = {names[id(each)]: each for each in module.used if id(each) in names}
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder)
            loaded = tf.saved_model.load(folder)
        for compile_it in (False, True, False):
            call = tf.function(lambda m=loaded: m.step(), jit_compile=compile_it, autograph=False)
            for factor in FACTORS:
                loaded.factor.assign(factor)
                twin.factor.assign(factor)
                call()
                twin.take_step()
            expected = twin.values()
            for name, variable in loaded.named.items():
                assert_close(name, variable, expected[name])
        self.assertEqual(set(loaded.named), {*SETS[terms], "scale", "good"})


class EveryOp(unittest.TestCase):
    """What goes into the graph of a function has a kernel wherever the graph may come."""

    @parameterized.expand([(family, terms) for family in HOSTS for terms in SETS])
    @pytest.mark.default_run("each value")
    def test_compiles(self, family: str, terms: str) -> None:
        # XLA registers its kernels when it is used first.
        tf.function(lambda: tf.constant(1.0) + 1.0, jit_compile=True)()
        training = Training(HOSTS[family], SETS[terms])
        graph = tf.function(training.take_step, autograph=False).get_concrete_function().graph.as_graph_def()
        nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
        functions = {function.signature.name for function in graph.library.function}
        # What goes in is no op where the graph is called.
        ops = {node.op for node in nodes} - functions - {"Placeholder"}
        self.assertGreater(len(ops), 10)
        self.assertFalse({op for op in ops if "XLA_CPU_JIT" not in devices_with_kernel(op)})


CLUSTERED = """
import sys
import tensorflow as tf

tf.config.optimizer.set_jit("autoclustering")
from conformance.hosts import HOSTS
from conformance.test_steps_elsewhere import TERMS, Training, train

for family in HOSTS:
    training, twin = (Training(HOSTS[family], TERMS) for _ in range(2))
    train(training, tf.function(training.take_step, autograph=False))
    train(twin, twin.take_step)
    training.assert_same(twin.values())
    print(family, "trained")
"""


@pytest.mark.programs
def test_steps_that_tensorflow_clusters() -> None:
    clustering = process_environment(
        ROOT / "tests", TF_XLA_FLAGS="--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_min_cluster_size=2"
    )
    done = run_python("-c", CLUSTERED, environment=clustering)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == [word for family in HOSTS for word in (family, "trained")]
