"""Models whose optimizer `compile` has wrapped, or left bare, by the policy: loaded as they were, under any policy."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras
from parameterized import parameterized

import mpls.keras
from tests.folders import InFolder
from tests.keras.families import global_policy
from tests.warned import warned

POLICIES = ("float32", "mixed_float16")
# What `compile` is given.
GIVEN: dict[str, tuple[Any, Any]] = {
    "tf_keras_name": (tf_keras, lambda: "adam"),
    "tf_keras_new": (tf_keras, lambda: tf_keras.optimizers.Adam(0.25)),
    "tf_keras_legacy": (tf_keras, lambda: tf_keras.optimizers.legacy.Adam(0.25)),
    "tf_keras_native": (tf_keras, lambda: native(tf_keras.optimizers.Adam(0.25))),
    "tf_keras_fixed": (tf_keras, lambda: native(tf_keras.optimizers.Adam(0.25), dynamic=False, initial_scale=8)),
    "keras_name": (keras, lambda: "adam"),
    "keras_new": (keras, lambda: keras.optimizers.Adam(0.25)),
}
CASES = [
    (f"{given}{suffix}_{saver}_{before}_{after}_{steps}", given, suffix, saver, before, after, steps)
    for given, suffix, saver, before, after, steps in itertools.product(
        GIVEN, (".keras", ".h5", ""), ("mpls", "model.save"), POLICIES, POLICIES, (0, 2)
    )
    if suffix or given.startswith("tf_")
]


def native(optimizer: Any, **settings: Any) -> Any:
    return tf_keras.mixed_precision.LossScaleOptimizer(optimizer, **settings)


def compiled(framework: Any, optimizer: Any) -> Any:
    kernel = framework.initializers.Constant(0.5)
    layer = framework.layers.Dense(2, kernel_initializer=kernel, dtype="float32")
    model = framework.Sequential([framework.layers.Input([3]), layer])
    model.compile(optimizer, framework.losses.MeanSquaredError(), jit_compile=False)
    return model


def train(model: Any, value: float) -> None:
    model.train_on_batch(np.full([2, 3], value, np.float32), np.zeros([2, 2], np.float32))


def state_of(model: Any) -> tuple[Any, ...]:
    optimizer = model.optimizer
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    variables = inner.variables() if callable(inner.variables) else inner.variables
    slots = [np.asarray(each).tolist() for each in variables]
    weights = [each.tolist() for each in model.get_weights()]
    if inner is optimizer:
        return weights, slots, int(inner.iterations), None
    is_keras_3 = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if is_keras_3 and not optimizer.built:
        # Keras' own wrapper has no variables yet.
        return weights, slots, int(inner.iterations), (optimizer.initial_scale, 0)
    names = ("dynamic_scale", "step_counter") if is_keras_3 else ("loss_scale", "dynamic_counter")
    scale, counter = (getattr(optimizer, name) for name in names)
    return weights, slots, int(inner.iterations), (float(scale), None if counter is None else int(counter))


class WrappedByCompileTest(InFolder, unittest.TestCase):
    @parameterized.expand(CASES)
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_it_is_loaded_as_it_was(
        self, name: str, given: str, suffix: str, saver: str, before: str, after: str, steps: int
    ) -> None:
        framework, make = GIVEN[given]
        path = f"{self.folder}/model{suffix}"
        with global_policy(framework, before):
            model = compiled(framework, make())
            # A step that overflows changes the scale; only a dynamic one skips it.
            is_dynamic = before == "mixed_float16" and given != "tf_keras_fixed"
            for value in (1.0, np.inf if is_dynamic else 2.0)[:steps]:
                train(model, value)
            mpls.keras.save_model(model, path) if saver == "mpls" else model.save(path)
        with global_policy(framework, after), warned() as said:
            loaded = mpls.keras.load_model(path)
        self.assert_same(loaded, model, said, is_told=given != "tf_keras_legacy" or suffix != ".keras")

    @parameterized.expand([(".keras",), (".h5",), ("",)])
    @pytest.mark.default_run("one case")
    def test_a_class_of_the_user_in_it(self, suffix: str) -> None:
        class Own(tf_keras.optimizers.SGD):
            pass

        with global_policy(tf_keras, "mixed_float16"):
            path = f"{self.folder}/model{suffix}"
            model = compiled(tf_keras, Own(0.25, momentum=0.5))
            train(model, 1.0)
            mpls.keras.save_model(model, path)
            loaded = mpls.keras.load_model(path, custom_objects={"Own": Own})
        self.assertIs(type(loaded.optimizer.inner_optimizer), Own)
        self.assert_same(loaded, model, [], is_told=True)

    def assert_same(self, loaded: Any, model: Any, said: list[str], *, is_told: bool) -> None:
        wanted, found = state_of(model), state_of(loaded)
        if any("iterations and slots" in each for each in said):
            # The file of a legacy optimizer, by tf_keras' own `save`: it tells no wrapper either.
            self.assertFalse(is_told)
            self.assertEqual(found[0], wanted[0])
            return
        is_wrapped = isinstance(model.optimizer, mpls.keras.LossScaleOptimizer)
        if is_told or is_wrapped:
            # The `.keras` file of a legacy optimizer does not tell that it is bare.
            self.assertEqual(isinstance(loaded.optimizer, mpls.keras.LossScaleOptimizer), is_wrapped)
        self.assertEqual((found[0], found[2]), (wanted[0], wanted[2]))
        if wanted[2]:
            # Before the first step, the loaded one may have slots already.
            self.assertEqual(found[1], wanted[1])
        if is_wrapped and not said:
            self.assertEqual(found[3], wanted[3])
        self.assertEqual(said, [each for each in said if "does not hold the current loss scale" in each])
        for each in (model, loaded):
            train(each, 2.0)
        if not said:
            self.assertEqual(state_of(loaded)[:3], state_of(model)[:3])
