"""A small model that `fit` trains under mixed_float16 on a global batch of four examples.

Each example has an input that is 1 at a place of its own and 0 elsewhere, so each row of the first kernel has its
gradient from one example: however the batch is divided among replicas, nothing is added up in another order, and the
same numbers must come out to the last bit of float16. An example that is infinite or NaN at its place makes the
gradients of the replica that has it non-finite.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from tests.conformance.devices import quick_joins

from .families import KERAS_3_STYLE, LEGACY, NEW, Keras, Optimizer
from .strategies import agreed

EXAMPLES = 4
TARGETS = np.array([[0.5, -0.3], [1.3, 0.7], [-0.9, 0.1], [0.4, -1.1]], np.float32)
KERNEL = np.array([[0.2, -0.6], [0.9, 0.3], [-0.1, 0.8], [0.7, -0.4]], np.float32)

FRAMEWORKS: dict[str, Any] = {"legacy": tf_keras, "new": tf_keras, "keras3": keras}
FAMILIES: dict[str, Keras] = {"legacy": LEGACY, "new": NEW, "keras3": KERAS_3_STYLE}


def examples(bad: int | None, value: float) -> np.ndarray:
    """Return the inputs of a step, of which one may be bad."""
    inputs = np.eye(EXAMPLES, dtype=np.float32)
    if bad is not None:
        inputs[bad, bad] = value
    return inputs


@dataclasses.dataclass
class State:
    """What all replicas hold after a batch."""

    weights: list[np.ndarray]
    slots: list[np.ndarray]
    counter: int
    scale: float
    good_steps: int


def fit(name: str, make: str, strategy: Any, steps: list[np.ndarray], read: Any) -> list[Any]:
    """Train on one batch after the other; return what `read(opt, model)` returns after each.

    Args:
        name: `legacy`, `new` or `keras3`.
        make: which method of the family makes the optimizer: `bare`, `scaled` or `native`.
        strategy: the strategy.
        steps: the inputs of each batch.
        read: what to read.
    """
    framework, family = FRAMEWORKS[name], FAMILIES[name]
    # As the global policy it would have `compile` scale the loss of bare optimizers too.
    with contextlib.nullcontext() if make == "bare" else mixed_float16(name):
        with strategy.scope():
            model = framework.Sequential(
                [
                    framework.Input([EXAMPLES]),
                    framework.layers.Dense(2, use_bias=False, dtype="mixed_float16"),
                ]
            )
            model.set_weights([KERNEL])
            opt: Optimizer = getattr(family, make)()
            model.compile(opt.outer, loss="mse")
            assert model.optimizer is opt.outer, "compile has wrapped the optimizer"
        seen: list[Any] = []
        callback = framework.callbacks.LambdaCallback(on_train_batch_end=lambda *_, **__: seen.append(read(opt, model)))
        data = tf.data.Dataset.from_tensor_slices((np.concatenate(steps), np.concatenate([TARGETS] * len(steps))))
        options = tf.data.Options()
        # Every replica gets its rows of every batch.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        with quick_joins():
            model.fit(data.batch(EXAMPLES).with_options(options), verbose=0, shuffle=False, callbacks=[callback])
    return seen


@contextlib.contextmanager
def mixed_float16(name: str) -> Iterator[None]:
    """Set the policy of Keras 3, or of tf_keras, for a while."""
    module = FRAMEWORKS[name].mixed_precision
    get, switch = (
        (module.dtype_policy, module.set_dtype_policy)
        if name == "keras3"
        else (module.global_policy, module.set_global_policy)
    )
    before = get()
    switch("mixed_float16")
    try:
        yield
    finally:
        switch(before)


def states(name: str, strategy: Any, steps: list[np.ndarray]) -> list[State]:
    """Train with loss scaling; return what all replicas hold after each batch, and fail if they differ."""
    family = FAMILIES[name]

    def read(opt: Optimizer, model: Any) -> State:
        def all_of(variables: list[Any], what: str) -> list[np.ndarray]:
            return [agreed(strategy, variable, what) for variable in variables]

        scalars = [opt.counter, family.scale(opt), family.good_steps(opt)]
        with strategy.scope():
            counter, scale, good_steps = (value.item() for value in all_of(scalars, "scalars"))
            weights = all_of(model.trainable_variables, "weights")
            slots = all_of(family.slots(opt, model.trainable_variables), "slots")
            return State(weights, slots, counter, scale, good_steps)

    return fit(name, "scaled", strategy, steps, read)
