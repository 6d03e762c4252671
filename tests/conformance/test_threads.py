"""One optimizer, or several, stepped by several threads: no step is lost, and no thread changes what others do."""

from __future__ import annotations

import threading
import time
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras

from .devices import tf_variable
from .hosts import HOSTS, Host
from .setups import Scaling, Term

THREADS, STEPS, GROWTH_STEPS = 4, 60, 50


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Run `work(index)` in threads that begin together; raise what one of them raises."""
    start = threading.Barrier(count)

    def run(index: int) -> None:
        start.wait(20)
        work(index)

    with ThreadPoolExecutor(count) as pool:
        for thread in [pool.submit(run, index) for index in range(count)]:
            thread.result()


def step_of(host: Host, opt: Any) -> Callable[[], Any]:
    """Return what takes a step with variables of its own."""
    variables = [host.make_variable(Term([1.0, 2.0, 3.0]), f"variable{index}") for index in range(3)]
    host.build(opt, variables)

    def loss() -> Any:
        return tf.add_n([tf.reduce_sum(tf_variable(each)) for each in variables]) * 1e-3

    def step() -> None:
        grads = host.gradients(opt, loss, variables, is_scaled=True)
        host.apply(opt, list(zip(grads, variables, strict=True)), None)

    return step


class OneOptimizerTest(unittest.TestCase):
    """What each thread counts is in the count, and the scale has grown as often as it should."""

    @parameterized.expand(HOSTS)
    @pytest.mark.default_run("one case")
    def test_no_step_is_lost_in_eager_mode(self, family: str) -> None:
        host = HOSTS[family]
        opt = host.wrap(host.make_inner("sgd", None), Scaling(8.0, GROWTH_STEPS))
        step = step_of(host, opt)
        # The first step of each thread is the first of all.
        in_threads(lambda _: [step() for _ in range(STEPS)] and None)
        taken = THREADS * STEPS
        good, scale = int(tf_variable(host.good_steps(opt))), float(tf_variable(host.scale(opt)))
        self.assertEqual((good, scale), (taken % GROWTH_STEPS, 8.0 * 2 ** (taken // GROWTH_STEPS)))

    # Functions that come to the growth together may both double the scale, as with the originals.
    @parameterized.expand(HOSTS)
    @pytest.mark.default_run("one case")
    def test_no_step_of_a_function_is_lost_below_the_growth(self, family: str) -> None:
        host = HOSTS[family]
        opt = host.wrap(host.make_inner("sgd", None), Scaling(8.0, 10**6))
        step = tf.function(step_of(host, opt), autograph=False)
        step()
        in_threads(lambda _: [step() for _ in range(STEPS)] and None)
        self.assertEqual(int(tf_variable(host.good_steps(opt))), 1 + THREADS * STEPS)


class StylesTest(unittest.TestCase):
    """Each thread's calls are judged by themselves."""

    def test_each_thread_has_a_style_of_its_own(self) -> None:
        opt = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=8.0)
        variables = [keras.Variable([1.0]), keras.Variable([1.0])]
        opt.build(variables)
        turns = threading.Barrier(2)

        def work(index: int) -> None:
            for _ in range(10):
                turns.wait(20)
                if index:
                    opt.scale_loss(tf.constant(1.0))
                    grads = [tf.constant([8.0 * 0.0625])]
                else:
                    opt.get_scaled_loss(tf.constant(1.0))
                    grads = opt.get_unscaled_gradients([tf.constant([8.0 * 0.0625])])
                # Both threads have made their calls before one applies.
                turns.wait(20)
                opt.apply_gradients(list(zip(grads, [variables[index]], strict=True)))

        in_threads(work, 2)
        self.assertEqual([float(each.numpy()[0]) for each in variables], [1.0 - 10 * 0.0625] * 2)


@pytest.mark.parametrize("keras_of", [tf_keras, keras], ids=["keras_new", "keras3"])
def test_threads_that_take_the_first_step_together(keras_of: Any) -> None:
    """Keras' own optimizers mix up their variables where two threads build them."""

    class SlowToBuild(keras_of.optimizers.SGD):  # type: ignore[misc]
        def add_variable_from_reference(self, *args: Any, **kwargs: Any) -> Any:
            time.sleep(0.02)
            return super().add_variable_from_reference(*args, **kwargs)

    opt = mpls.keras.LossScaleOptimizer(SlowToBuild(0.0, momentum=0.5), initial_scale=8)
    make = keras.Variable if keras_of is keras else tf.Variable
    variables = [make([1.0, 2.0]) for _ in range(2)]

    def step(_: int) -> None:
        opt.get_scaled_loss(tf.constant(1.0))
        grads = opt.get_unscaled_gradients([tf.constant([8.0, 8.0])] * len(variables))
        opt.apply_gradients(zip(grads, variables, strict=True))

    in_threads(step)
    assert int(opt.dynamic_counter) == THREADS
    slots = [each for each in opt.inner_optimizer.variables if tuple(each.shape) == (2,)]
    assert len(slots) == len(variables)
