"""The parts of loss scaling by themselves, beside the floors under them: what reading and writing memory costs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

import mpls.v1
from benchmarks.timing import Samples, measure
from mpls.core import gradients
from mpls.core.step import scaled_step

SIZES = ((300, 1_000), (60, 200_000), (4, 5_000_000))
DTYPES = ("float32", "float16", "bfloat16")
_SCALE = 1024.0


def _original_unscale(grads: list[Any], scale: Any) -> list[Any]:
    # As the wrappers of tf.compat.v1 and tf_keras do.
    inverse = 1.0 / scale
    return [grad * tf.cast(inverse, grad.dtype) for grad in grads]


def _original_check(grads: list[Any]) -> Any:
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(grad)) for grad in grads])


def _numpy_floor(arrays: list[Any], pool: ThreadPoolExecutor, threads: int) -> Callable[[], Any]:
    """Return what reads arrays once, in as many threads as there are processors."""
    parts = [part for array in arrays for part in np.array_split(array.reshape(-1), threads)]
    groups = [parts[index::threads] for index in range(threads)]
    return lambda: list(pool.map(lambda group: [np.add.reduce(part) for part in group], groups))


class _Counter:
    """An optimizer that only counts its steps."""

    sums_gradients, are_same = False, False

    def __init__(self) -> None:
        self._steps = tf.Variable(0)

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        del grads_and_vars
        return tf.group(self._steps.assign_add(1))

    def skip(self) -> Any:
        return tf.no_op()


def _original_decision(grad: Any, loss_scale: Any, optimizer: _Counter) -> None:
    update, is_finite = loss_scale.update([grad])
    with tf.control_dependencies([update]):
        tf.cond(is_finite, lambda: optimizer.apply([]), optimizer.skip)


def _mpls_decision(grad: Any, loss_scale: Any, optimizer: _Counter) -> None:
    scaled_step([(grad, None)], loss_scale, optimizer)


def _decision(decide: Callable[[Any, Any, _Counter], None], loss_scale: Any) -> Callable[[], Any]:
    """Return a step with one scalar gradient: it is nearly all update of the scale and conditional."""
    grad, optimizer = tf.Variable(1.0), _Counter()
    return tf.function(lambda: decide(grad.read_value(), loss_scale, optimizer), autograph=False)


def measure_costs(variables: int, elements: int, dtype: str, seconds: float, threads: int) -> Samples:
    """Measure unscaling, finite check and decision of mpls and of the originals, and the floors, in `tf.function`.

    What reads is a function by itself: the checks, and the floor under them, `read by sums`, one op of TensorFlow for
    each gradient. What writes stands in a step that computes gradients and applies them, and is in place: unscaling,
    and the floor under it, `read and write`, which multiplies; `none` is that step without it. `read by numpy` is a
    second floor, of float32 arrays, in as many threads as there are processors.
    """
    shape = [elements // 100, 100]

    def held(low: float, high: float) -> list[Any]:
        values = [tf.random.stateless_uniform(shape, (1, index), low, high) for index in range(variables)]
        return [tf.Variable(tf.cast(value, dtype)) for value in values]

    weights, slots, factors = held(0.5, 1.5), held(0.0, 0.0), held(0.001, 0.01)
    scale = tf.Variable(_SCALE)

    def reader(part: Callable[[list[Any]], Any]) -> Callable[[], Any]:
        return tf.function(lambda: part([weight.read_value() for weight in weights]), autograph=False)

    def step(part: Callable[[list[Any]], list[Any]]) -> Callable[[], Any]:
        def once() -> None:
            seed = tf.cast(scale.read_value(), dtype)
            grads = [
                tf.raw_ops.ReluGrad(gradients=factor.read_value() * seed, features=factor.read_value())
                for factor in factors
            ]
            for weight, slot, grad in zip(weights, slots, part(grads), strict=True):
                tf.raw_ops.ResourceApplyKerasMomentum(
                    var=weight.handle,
                    accum=slot.handle,
                    lr=tf.constant(1e-8, dtype),
                    grad=grad,
                    momentum=tf.constant(0.9, dtype),
                )

        return tf.function(once, autograph=False)

    candidates = {
        "nothing": reader(lambda _: tf.constant(True)),
        "read by sums": reader(lambda grads: tf.add_n([tf.reduce_sum(grad) for grad in grads])),
        "original check": reader(_original_check),
        "mpls check": reader(gradients.all_finite),
        "none": step(lambda grads: grads),
        "read and write": step(lambda grads: [grad * tf.cast(scale.read_value(), dtype) for grad in grads]),
        "original unscale": step(lambda grads: _original_unscale(grads, scale.read_value())),
        "mpls unscale": step(lambda grads: gradients.unscale_gradients(grads, scale.read_value())),
    }
    original = tf.compat.v1.mixed_precision.DynamicLossScale(_SCALE, 10**9)
    candidates["original decision"] = _decision(_original_decision, original)
    candidates["mpls decision"] = _decision(_mpls_decision, mpls.v1.DynamicLossScale(_SCALE, 10**9))
    with ThreadPoolExecutor(threads) as pool:
        if dtype == "float32":
            candidates["read by numpy"] = _numpy_floor([variable.numpy() for variable in weights], pool, threads)
        return measure(candidates, seconds)


# What a part's time is compared with; the others are times by themselves.
_WITHOUT = {
    "read by sums": "nothing",
    "original check": "nothing",
    "mpls check": "nothing",
    "read and write": "none",
    "original unscale": "none",
    "mpls unscale": "none",
}


def costs_of(samples: Samples) -> dict[str, float]:
    """Return what each part costs, in seconds."""
    return {
        name: samples.overhead(name, _WITHOUT[name]) if name in _WITHOUT else samples.median(name)
        for name in samples.seconds
    }
