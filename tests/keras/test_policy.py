"""Policies: what the originals' were, for layers of both Keras, and the global one."""

from __future__ import annotations

import contextlib
import copy
import json
import pathlib
import pickle
import unittest
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized
from tf_keras.src.engine import base_layer_utils

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.core import releases
from mpls.errors import without_deprecations
from mpls.experimental.policy import policy_scope
from tests.core.own_loss_scale import Counting
from tests.keras import policy_traces

HERE = pathlib.Path(__file__).parent
FRAMEWORKS = [("tf_keras", tf_keras), ("keras_3", keras)]
CLASSES = [("plain", mpls.keras.Policy), ("experimental", mpls.experimental.Policy)]
Policy = mpls.experimental.Policy


def recorded(release: str) -> dict[str, Any]:
    traces: dict[str, Any] = json.loads((HERE / "data" / f"policies_tf{release}.json").read_text())
    return traces


def traces_of(framework: Any) -> Any:
    """Return what the recorder sees of mpls, for models of a framework."""
    api = SimpleNamespace(
        keras=framework,
        Policy=Policy,
        set_policy=mpls.experimental.set_policy,
        global_policy=mpls.experimental.global_policy,
        get_layer_policy=mpls.experimental.get_layer_policy,
        LossScaleOptimizer=mpls.experimental.LossScaleOptimizer,
        DynamicLossScale=mpls.experimental.DynamicLossScale,
        enable=mpls.v1.enable_mixed_precision_graph_rewrite,
        disable=mpls.v1.disable_mixed_precision_graph_rewrite,
        sgd=lambda: framework.optimizers.SGD(0.5),
        v1_optimizer=lambda: tf.compat.v1.train.GradientDescentOptimizer(0.5),
    )
    with without_deprecations():
        # What was recorded went through JSON.
        return json.loads(json.dumps(policy_traces.all_traces(api)))


class PolicyTestCase(unittest.TestCase):
    """Leaves the default policy behind."""

    def setUp(self) -> None:
        self.addCleanup(mpls.keras.set_global_policy, None)


class OriginalsTest(PolicyTestCase):
    """The recorded releases, asked and answered again: the newest where they differ, or else as said here."""

    @parameterized.expand(FRAMEWORKS)
    @pytest.mark.default_run("one case")
    def test_as_the_last_release(self, name: str, framework: Any) -> None:
        expected, before = recorded("28"), recorded("23")
        for key in expected:
            if key.startswith("policy/") and "error" not in expected[key]:
                # What went away between the two.
                expected[key]["should_cast_variables"] = before[key]["should_cast_variables"]
            if key == "default" or (key.startswith("set/") and "error" not in expected[key]):
                # A policy always has a loss scale, as up to TF 2.3.
                expected[key] = before[key]
        self.assertEqual(traces_of(framework), expected)

    def test_as_earlier_releases(self) -> None:
        releases.use(releases.behavior_of("2.3"))
        self.addCleanup(releases.use, releases.ReleaseBehavior())
        ours, expected = traces_of(tf_keras), recorded("23")
        # Refused since TF 2.4.
        for key in ('set/"int32"', 'set/"bool"'):
            expected[key] = {"error": ["ValueError"]}
        self.assertEqual(ours, expected)


class NamesTest(PolicyTestCase):
    @parameterized.expand(
        [
            ("infer", "Policy('float32'), or leave"),
            ("infer_float32_vars", "Policy('mixed_float16') or Policy('mixed_bfloat16') if the inputs have that dtype"),
            ("infer_with_float32_vars", "Policy('mixed_float16') or Policy('mixed_bfloat16')"),
            ("float16_with_float32_vars", "Policy('mixed_float16'), with"),
            ("bfloat16_with_float32_vars", "Policy('mixed_bfloat16')."),
            ("float32_with_float32_vars", "Policy('float32')."),
            ("float64_with_float32_vars", "Policy('mixed_float16') or Policy('mixed_bfloat16')"),
        ]
    )
    def test_removed_names_say_what_to_write(self, name: str, replacement: str) -> None:
        for make in (mpls.keras.Policy, Policy, mpls.keras.set_global_policy, mpls.experimental.set_policy):
            with self.assertRaises(ValueError) as caught:
                make(name)
            text = str(caught.exception)
            self.assertIn("Policy: name must not be one that TensorFlow removed", text)
            self.assertIn(f"Use {replacement}", text)

    def test_a_loss_scale_that_is_of_no_use_is_a_warning(self) -> None:
        with self.assertLogs("tensorflow", "WARNING") as logs:
            Policy("float32", loss_scale=128)
        text = "Policy('float32', loss_scale=128): only policies that compute in float16 need a loss scale."
        self.assertIn(text, logs.output[0])
        with self.assertNoLogs("tensorflow", "WARNING"):
            for arguments in (("float16", 128), ("float32",), ("float32", None), ("mixed_float16", 128)):
                Policy(*arguments)
            self.assertNotIn("loss_scale", Policy("mixed_float16", "USE_DEFAULT").get_config())


class ObjectTest(PolicyTestCase):
    def test_native_policies_count_as_plain_ones(self) -> None:
        for policy in (tf_keras.mixed_precision.Policy("float32"), keras.DTypePolicy("float32")):
            self.assertIsInstance(policy, mpls.keras.Policy)
            self.assertNotIsInstance(policy, Policy)
        self.assertTrue(issubclass(Policy, mpls.keras.Policy))
        self.assertFalse(issubclass(mpls.keras.Policy, Policy))
        self.assertNotIsInstance("float32", mpls.keras.Policy)

    @parameterized.expand(CLASSES)
    def test_identity(self, name: str, cls: Any) -> None:
        first, second = cls("float32"), cls("float32")
        self.assertEqual(first, first)
        self.assertNotEqual(first, second)
        self.assertNotEqual(first, keras.DTypePolicy("float32"))
        self.assertNotEqual(keras.DTypePolicy("float32"), first)
        self.assertEqual(len({first, second, first}), 2)

    @parameterized.expand(CLASSES)
    def test_copies(self, name: str, cls: Any) -> None:
        policy = cls("mixed_float16")
        for copied in (copy.copy(policy), copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
            self.assertIsNot(copied, policy)
            self.assertIs(type(copied), type(policy))
            self.assertEqual(repr(copied), repr(policy))
            self.assertEqual(copied.get_config(), policy.get_config())
            self.assertEqual(keras.layers.Dense(1, dtype=copied).compute_dtype, "float16")

    def test_a_loss_scale_of_the_users_own_class(self) -> None:
        scale = Counting()
        policy = Policy("mixed_float16", loss_scale=scale)
        self.assertIs(policy.loss_scale, scale)
        again = Policy.from_config(policy.get_config(), custom_objects={"Counting": Counting})
        self.assertIsInstance(again.loss_scale, Counting)
        with self.assertRaisesRegex(ValueError, "class_name must be one of"):
            Policy.from_config(policy.get_config())


class LayersTest(PolicyTestCase):
    @parameterized.expand([(f"{f}_{c}", framework, cls) for f, framework in FRAMEWORKS for c, cls in CLASSES])
    def test_a_layer_computes_by_it(self, name: str, framework: Any, cls: Any) -> None:
        for policy, compute, variable in (
            (cls("mixed_float16"), "float16", "float32"),
            (cls("mixed_bfloat16"), "bfloat16", "float32"),
            (cls("float64"), "float64", "float64"),
        ):
            layer = framework.layers.Dense(1, dtype=policy)
            self.assertIs(layer.dtype_policy, policy)
            self.assertEqual(tf.as_dtype(layer(tf.ones([2, 3])).dtype).name, compute)
            self.assertEqual(tf.as_dtype(layer.kernel.dtype).name, variable)
            self.assertIs(mpls.experimental.get_layer_policy(layer), policy)


class GlobalTest(PolicyTestCase):
    @parameterized.expand([("plain", mpls.keras.set_global_policy), ("experimental", mpls.experimental.set_policy)])
    def test_the_object_that_was_set(self, name: str, set_policy: Any) -> None:
        for policy in (Policy("mixed_float16", loss_scale=8), mpls.keras.Policy("mixed_bfloat16")):
            set_policy(policy)
            for get in (
                mpls.keras.global_policy,
                mpls.experimental.global_policy,
                tf_keras.mixed_precision.global_policy,
                keras.config.dtype_policy,
            ):
                self.assertIs(get(), policy)
            for _, framework in FRAMEWORKS:
                self.assertIs(framework.layers.Dense(1).dtype_policy, policy)

    @parameterized.expand(
        [
            ("tf_keras", tf_keras.mixed_precision.Policy("mixed_float16")),
            ("keras_3", keras.DTypePolicy("mixed_float16")),
        ]
    )
    def test_a_native_policy_is_set_in_the_other_framework_by_name(self, name: str, policy: Any) -> None:
        mpls.experimental.set_policy(policy)
        policies = tf_keras.mixed_precision.global_policy(), keras.config.dtype_policy()
        self.assertEqual([each.name for each in policies], ["mixed_float16"] * 2)
        self.assertIs(mpls.experimental.global_policy(), mpls.experimental.global_policy())
        self.assertIn(policy, policies)

    def test_a_policy_that_only_one_framework_knows_is_refused(self) -> None:
        for set_policy in (mpls.keras.set_global_policy, mpls.experimental.set_policy):
            with self.assertRaisesRegex(ValueError, "name must be"):
                set_policy(keras.dtype_policies.get("int8_from_float32"))
        self.assertEqual(keras.config.dtype_policy().name, "float32")

    def test_in_tf1_mode_nothing_is_set(self) -> None:
        base_layer_utils.disable_v2_dtype_behavior()
        self.addCleanup(base_layer_utils.enable_v2_dtype_behavior)
        with self.assertRaisesRegex(ValueError, "enable_v2_dtype_behavior"):
            mpls.experimental.set_policy("mixed_float16")
        self.assertEqual(keras.config.dtype_policy().name, "float32")
        self.assertEqual(tf_keras.mixed_precision.global_policy().name, "_infer")
        # Cleaning up sets a policy.
        base_layer_utils.enable_v2_dtype_behavior()


class ScopeTest(PolicyTestCase):
    def test_after_a_scope_each_keras_has_its_own_again(self) -> None:
        before = keras.config.dtype_policy(), tf_keras.mixed_precision.global_policy()
        for raises in (False, True):
            with contextlib.suppress(ZeroDivisionError), policy_scope("mixed_bfloat16"):
                names = keras.config.dtype_policy().name, tf_keras.mixed_precision.global_policy().name
                self.assertEqual(names, ("mixed_bfloat16", "mixed_bfloat16"))
                1 / (not raises)
            self.assertIs(keras.config.dtype_policy(), before[0])
            self.assertEqual(tf_keras.mixed_precision.global_policy().name, before[1].name)

    def test_what_computes_in_integers_is_no_global_policy(self) -> None:
        for set_policy in (mpls.keras.set_global_policy, mpls.experimental.set_policy):
            with self.assertRaisesRegex(ValueError, "policy must compute in a floating-point dtype; got .*int8"):
                set_policy("int8")
            self.assertEqual(mpls.keras.global_policy().name, "float32")

    @parameterized.expand(CLASSES)
    def test_keras_3_writes_it_as_its_own(self, name: str, cls: Any) -> None:
        policy = cls("mixed_float16")
        own = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "mixed_float16"}}
        self.assertEqual(keras.saving.serialize_keras_object(policy), {**own, "registered_name": None})
        shown = type(policy).__module__, type(policy).__qualname__, type(policy).__doc__
        self.assertEqual(shown, (cls.__module__, cls.__qualname__, cls.__doc__))

    def test_a_config_of_an_older_release(self) -> None:
        config = {"name": "mixed_float16", "loss_scale": {"class_name": "FixedLossScale"}}
        policy = mpls.keras.Policy.from_config(config)
        self.assertEqual(
            (type(policy), policy.get_config()), (type(mpls.keras.Policy("float32")), {"name": "mixed_float16"})
        )

    def test_none_set_comes_back(self) -> None:
        self.addCleanup(tf_keras.backend.set_floatx, "float32")
        tf_keras.mixed_precision.set_global_policy(None)
        with policy_scope("mixed_float16"):
            pass
        # tf_keras follows `floatx` as long as no policy is set.
        tf_keras.backend.set_floatx("float64")
        self.assertEqual(tf_keras.mixed_precision.global_policy().name, "float64")

    def test_a_policy_that_is_refused_changes_nothing(self) -> None:
        before = tf_keras.mixed_precision.Policy("mixed_float16"), keras.DTypePolicy("float32")
        tf_keras.mixed_precision.set_global_policy(before[0])
        keras.config.set_dtype_policy(before[1])
        with self.assertRaisesRegex(ValueError, "name must"), policy_scope("nonsense"):
            self.fail("entered")
        now = tf_keras.mixed_precision.global_policy(), keras.config.dtype_policy()
        for each, expected in zip(now, before, strict=True):
            self.assertIs(each, expected)
