"""The mixed-precision graph rewrite: what it wraps, what it refuses, and what it leaves behind."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
import tf_keras
from parameterized import parameterized
from tensorflow.python.training.experimental import mixed_precision_global_state as flags

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.upstream.rewrite import graph_rewrite_state, restore_graph_rewrite
from mpls.v1 import graph_rewrite

v1 = tf.compat.v1
NATIVE = v1.mixed_precision
enable = mpls.v1.enable_mixed_precision_graph_rewrite
disable = mpls.v1.disable_mixed_precision_graph_rewrite

V1_OPTIMIZERS = [
    ("gradient_descent", lambda: v1.train.GradientDescentOptimizer(0.5)),
    ("adam", lambda: v1.train.AdamOptimizer()),
]
KERAS_OPTIMIZERS = [
    ("legacy", lambda: tf_keras.optimizers.legacy.SGD(0.5)),
    ("new", lambda: tf_keras.optimizers.SGD(0.5)),
    ("keras_3", lambda: keras.optimizers.SGD(0.5)),
]
OPTIMIZERS = V1_OPTIMIZERS + KERAS_OPTIMIZERS
SCALES: list[tuple[Any, float, bool]] = [
    ("dynamic", 32768.0, True),
    (128, 128.0, False),
    (128.0, 128.0, False),
    (mpls.v1.FixedLossScale(64), 64.0, False),
    (mpls.v1.DynamicLossScale(64, 3), 64.0, True),
]


def is_on() -> bool:
    option = tf.config.optimizer.get_experimental_options().get("auto_mixed_precision", False)
    assert option == flags.is_mixed_precision_graph_rewrite_enabled()
    return bool(option)


class RewriteTestCase(unittest.TestCase):
    """Every test starts with the rewrite off and no session, and leaves it so."""

    def setUp(self) -> None:
        self.reset()
        self.addCleanup(self.reset)

    def reset(self) -> None:
        mpls.keras.set_global_policy(None)
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision": None})
        flags.set_mixed_precision_graph_rewrite_enabled(False)
        flags.set_non_mixed_precision_session_created(False)

    @contextlib.contextmanager
    def refused(self, *args: Any) -> Iterator[None]:
        with self.assertRaisesRegex(*args):
            yield
        self.assertFalse(is_on())


class WrappingTest(RewriteTestCase):
    @parameterized.expand([(f"{name}_{scale[0]}", name, make, *scale) for name, make in OPTIMIZERS for scale in SCALES])
    def test_optimizers(
        self, case: str, name: str, make: Callable[[], Any], loss_scale: Any, value: float, is_dynamic: bool
    ) -> None:
        inner = make()
        optimizer = enable(inner, loss_scale)
        self.assertIs(optimizer._optimizer, inner)
        self.assertEqual(float(optimizer._loss_scale()), value)
        self.assertEqual(isinstance(optimizer._loss_scale, mpls.v1.DynamicLossScale), is_dynamic)
        if (name, make) in V1_OPTIMIZERS:
            self.assertIs(type(optimizer), mpls.v1.MixedPrecisionLossScaleOptimizer)
        else:
            native = keras.optimizers if name == "keras_3" else tf_keras.mixed_precision
            for cls in (mpls.keras.LossScaleOptimizer, native.LossScaleOptimizer):
                self.assertIsInstance(optimizer, cls)
            self.assertNotIsInstance(optimizer, mpls.experimental.LossScaleOptimizer)
        self.assertTrue(is_on())

    def test_what_it_returns_trains(self) -> None:
        for optimizer in (enable(make()) for _, make in (V1_OPTIMIZERS[0], *KERAS_OPTIMIZERS)):
            variable = tf.Variable(1.0)
            optimizer.minimize(lambda v=variable: v * 1.0, var_list=[variable])
            self.assertEqual(float(variable), 0.5)


class RefusalTest(RewriteTestCase):
    @parameterized.expand(
        [
            ("ours", lambda: mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(), 8)),
            ("native", lambda: NATIVE.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(), 8)),
            ("ours_over_new", lambda: mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD())),
            ("native_over_new", lambda: tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD())),
            ("keras_3", lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())),
        ]
    )
    def test_wrappers(self, name: str, make: Callable[[], Any]) -> None:
        with self.refused(ValueError, "opt must not scale the loss already"):
            enable(make())

    @parameterized.expand(
        [
            (f"{name}_{index}", make, scale)
            for name, make in V1_OPTIMIZERS[:1] + KERAS_OPTIMIZERS
            for index, scale in enumerate(("foo", None, [], 0, float("nan")))
        ]
    )
    def test_loss_scales_that_are_none(self, name: str, make: Callable[[], Any], loss_scale: Any) -> None:
        inner = make()
        with self.refused(ValueError, "must"):
            enable(inner, loss_scale)
        # The optimizer can still be wrapped.
        enable(inner, 8)

    def test_what_is_no_optimizer(self) -> None:
        with self.refused(ValueError, "enable_mixed_precision_graph_rewrite: opt must be a tf.compat.v1.train.Optim"):
            enable("sgd")
        with self.refused(TypeError, "optimizer_cls must be a class"):
            mpls.v1.register_loss_scale_wrapper(V1_OPTIMIZERS[0][1](), enable)

    @parameterized.expand([("2.3",), ("2.8",), ("2.9",), (None,)])
    def test_which_class_wraps_an_optimizer_of_keras(self, release: str | None) -> None:
        self.addCleanup(mpls.v1.disable_mixed_precision_graph_rewrite)
        with mpls.install(as_of=release):
            optimizer = enable(tf_keras.optimizers.SGD(0.5), mpls.v1.DynamicLossScale(8, 2))
            self.assertEqual(float(optimizer._loss_scale()), 8.0)
            is_experimental = isinstance(optimizer, mpls.experimental.LossScaleOptimizer)
        self.assertEqual(is_experimental, release in ("2.3", "2.8"))

    def test_a_multiplier_for_keras(self) -> None:
        with self.refused(ValueError, "^enable_mixed_precision_graph_rewrite: .*multiplier of 2"):
            enable(tf_keras.optimizers.SGD(), mpls.v1.DynamicLossScale(8, 2, 3))


# Who sets a policy: each is a function of the policy's name.
SETTERS: list[tuple[str, Callable[[Any], None]]] = [
    ("mpls", mpls.keras.set_global_policy),
    ("mpls_experimental", mpls.experimental.set_policy),
    ("mpls_object", lambda name: mpls.experimental.set_policy(mpls.experimental.Policy(name, loss_scale=None))),
    ("tf_keras", tf_keras.mixed_precision.set_global_policy),
    ("keras_3", keras.config.set_dtype_policy),
]


class PolicyTest(RewriteTestCase):
    @parameterized.expand([(f"{name}_{p}", s, p) for name, s in SETTERS for p in ("mixed_float16", "mixed_bfloat16")])
    def test_under_a_mixed_policy_it_is_refused(self, name: str, set_policy: Any, policy: str) -> None:
        set_policy(policy)
        for _, make in OPTIMIZERS:
            with self.refused(ValueError, "global Keras policy must not be a mixed one"):
                enable(make())
        # It is enough to set another.
        set_policy("float32")
        enable(v1.train.AdamOptimizer())
        self.assertTrue(is_on())

    @parameterized.expand([(name, s) for name, s in SETTERS if name.startswith("mpls")])
    def test_while_it_is_on_a_mixed_policy_is_refused(self, name: str, set_policy: Any) -> None:
        enable(v1.train.AdamOptimizer())
        for policy in ("mixed_float16", "mixed_bfloat16"):
            text = r"set_(global_)?policy: policy must not be a mixed one while the mixed-precision graph rewrite is on"
            with self.assertRaisesRegex(ValueError, text) as caught:
                set_policy(policy)
            self.assertIn("disable_mixed_precision_graph_rewrite()", str(caught.exception))
            for get in (tf_keras.mixed_precision.global_policy, keras.config.dtype_policy):
                self.assertEqual(get().name, "float32")
        set_policy("float16")
        disable()
        set_policy("mixed_float16")


class StateTest(RewriteTestCase):
    """What `uninstall` puts back."""

    @parameterized.expand([(None,), (False,), (True,)])
    def test_the_option_and_the_flag(self, option: bool | None) -> None:
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision": option})
        flags.set_mixed_precision_graph_rewrite_enabled(bool(option))
        options, state = tf.config.optimizer.get_experimental_options(), graph_rewrite_state()
        for switch in (lambda: enable(v1.train.AdamOptimizer()), disable):
            switch()
            restore_graph_rewrite(state)
            self.assertEqual(tf.config.optimizer.get_experimental_options(), options)
            self.assertEqual("auto_mixed_precision" in options, option is not None)
            self.assertIs(flags.is_mixed_precision_graph_rewrite_enabled(), bool(option))
            self.assertEqual(graph_rewrite_state(), state)


class SwitchTest(RewriteTestCase):
    def test_on_and_off(self) -> None:
        self.assertFalse(is_on())
        for _ in range(2):
            with self.assertNoLogs("tensorflow", "WARNING"):
                enable(v1.train.AdamOptimizer())
                self.assertTrue(is_on())
                enable(v1.train.AdamOptimizer())
                self.assertTrue(is_on())
                disable()
                self.assertFalse(is_on())

    def test_off_when_it_is_off_is_a_warning(self) -> None:
        with self.assertLogs("tensorflow", "WARNING") as logs:
            disable()
        self.assertEqual(len(logs.output), 1)
        self.assertIn("graph rewrite is off", logs.output[0])
        self.assertFalse(is_on())

    def test_a_session_that_exists_is_a_warning(self) -> None:
        with tf.Graph().as_default(), v1.Session():
            pass
        with self.assertLogs("tensorflow", "WARNING") as logs:
            enable(v1.train.AdamOptimizer())
        self.assertEqual(len(logs.output), 1)
        self.assertIn("no effect on the Sessions that exist already", logs.output[0])
        self.assertTrue(is_on())

    def test_it_is_the_switch_of_tensorflow_itself(self) -> None:
        enable(v1.train.AdamOptimizer())
        self.assertTrue(tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled())
        NATIVE.disable_mixed_precision_graph_rewrite()
        self.assertFalse(is_on())
        NATIVE.enable_mixed_precision_graph_rewrite(v1.train.AdamOptimizer())
        with self.assertNoLogs("tensorflow", "WARNING"):
            disable()
        self.assertFalse(is_on())


class Plain(v1.train.GradientDescentOptimizer):  # type: ignore[misc]
    pass


class Wrapped(v1.train.GradientDescentOptimizer):  # type: ignore[misc]
    def __init__(self, optimizer: Any, loss_scale: Any) -> None:
        super().__init__(0.5)
        self.given = (optimizer, loss_scale)


class RegistryTest(RewriteTestCase):
    def setUp(self) -> None:
        super().setUp()
        before = dict(graph_rewrite._registry)
        self.addCleanup(graph_rewrite._registry.update, before)
        self.addCleanup(graph_rewrite._registry.clear)

    def test_a_class(self) -> None:
        mpls.v1.register_loss_scale_wrapper(Plain, Wrapped)
        plain = Plain(0.5)
        optimizer = enable(plain, 8)
        self.assertIs(type(optimizer), Wrapped)
        self.assertEqual(optimizer.given, (plain, 8))
        with self.assertRaisesRegex(ValueError, "not scale the loss already"):
            enable(optimizer)
        # Others are wrapped as before.
        other = enable(v1.train.GradientDescentOptimizer(0.5))
        self.assertIs(type(other), mpls.v1.MixedPrecisionLossScaleOptimizer)

    def test_subclasses_and_replacement(self) -> None:
        class Plainer(Plain):
            pass

        mpls.v1.register_loss_scale_wrapper(Plain, Wrapped)
        self.assertIs(type(enable(Plainer(0.5))), Wrapped)
        mpls.v1.register_loss_scale_wrapper(Plain, lambda opt, scale: ("second", opt))
        self.assertEqual(enable(Plain(0.5))[0], "second")

    def test_an_error_of_the_function_leaves_the_rewrite_off(self) -> None:
        def fail(opt: Any, scale: Any) -> Any:
            raise RuntimeError("no")

        mpls.v1.register_loss_scale_wrapper(Plain, fail)
        with self.refused(RuntimeError, "no"):
            enable(Plain(0.5))
