"""What the originals got wrong: each test sees the original fail first, and then mpls do it right.

The last class holds what looks like a defect and stays: the default reproduces it, in the original and in mpls.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1

v1 = tf.compat.v1

ORIGINAL = v1.train.experimental
INF, NAN = float("inf"), float("nan")

FAMILIES = [("legacy", tf_keras.optimizers.legacy), ("new", tf_keras.optimizers)]
OriginalKeras: Any = tf_keras.mixed_precision.LossScaleOptimizer
MODES = ("eager", "function", "graph")


def sgd(learning_rate: float = 0.25) -> Any:
    return v1.train.GradientDescentOptimizer(learning_rate)


def wrap(api: Any, optimizer: Any, loss_scale: Any) -> Any:
    return api.MixedPrecisionLossScaleOptimizer(optimizer, loss_scale)


def dynamic(api: Any, scale: float = 8, period: int = 2) -> Any:
    return api.DynamicLossScale(scale, period)


@contextlib.contextmanager
def control_flow(version: int) -> Iterator[None]:
    switch = {1: v1.disable_control_flow_v2, 2: v1.enable_control_flow_v2}
    before = 2 if v1.control_flow_v2_enabled() else 1
    switch[version]()
    try:
        yield
    finally:
        switch[before]()


class Session:
    """A session of the current graph, with its variables initialized."""

    def __init__(self) -> None:
        self._session = v1.Session()
        self.run = self._session.run
        self.run(v1.global_variables_initializer())


EVERY_DTYPE = [
    (f"{dtype}_{mode}_{kind}", dtype, mode, kind)
    for dtype in ("float16", "bfloat16", "float64")
    for mode in MODES
    for kind in ("fixed", "dynamic")
]


class HalfPrecisionVariables(unittest.TestCase):
    """Graph-mode wrapper: gradients were multiplied by a float32 reciprocal, whatever their dtype."""

    def minimize_square(self, api: Any, dtype: str, mode: str, kind: str) -> float:
        """Return 3 - lr * d(v*v)/dv at v = 3, which is 1.5."""
        if mode == "graph":
            with tf.Graph().as_default():
                variable = tf.Variable(3.0, dtype=dtype)
                scale = 8 if kind == "fixed" else dynamic(api)
                train_op = wrap(api, sgd(), scale).minimize(variable * variable)
                session = Session()
                session.run(train_op)
                return float(session.run(tf.cast(variable, tf.float64)))
        variable = tf.Variable(3.0, dtype=dtype)
        optimizer = wrap(api, sgd(), 8 if kind == "fixed" else dynamic(api))

        def step() -> None:
            optimizer.minimize(lambda: variable * variable, var_list=[variable])

        (tf.function(step) if mode == "function" else step)()
        return float(tf.cast(variable, tf.float64))

    @parameterized.expand(EVERY_DTYPE)
    def test_variables_of_every_float_dtype_train(self, name: str, dtype: str, mode: str, kind: str) -> None:
        expected = tf.errors.InvalidArgumentError if mode == "eager" else TypeError
        with self.assertRaisesRegex(expected, "float|half|double"):
            self.minimize_square(ORIGINAL, dtype, mode, kind)
        self.assertEqual(self.minimize_square(mpls.v1, dtype, mode, kind), 1.5)


def make_refusing(base: type) -> Any:
    """Return a user's own loss scale, which counts its updates and skips every second step."""

    class Refusing(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.updates = self._add_weight("updates", 0, tf.int64)

        def __call__(self) -> Any:
            return tf.constant(8.0)

        def update(self, grads: Any) -> Any:
            count = self.updates.assign_add(1)
            value = tf.convert_to_tensor(count)
            with tf.control_dependencies([value]):
                op = None if tf.executing_eagerly() else tf.no_op()
            return op, tf.equal(value % 2, 1)

        def get_config(self) -> dict[str, Any]:
            return {}

    return Refusing()


class CustomLossScales(unittest.TestCase):
    """Graph-mode wrapper: `update` of a user's own LossScale was never called, and nothing said so."""

    def train(self, api: Any, base: type, mode: str) -> tuple[float, int]:
        """Make four steps of -1 each, unless skipped; return the variable and the calls of `update`."""
        if mode == "graph":
            with tf.Graph().as_default():
                variable, scale = tf.Variable(0.0), make_refusing(base)
                train_op = wrap(api, sgd(1.0), scale).minimize(variable * 1.0)
                session = Session()
                for _ in range(4):
                    session.run(train_op)
                return tuple(session.run([variable, scale.updates]))
        variable, scale = tf.Variable(0.0), make_refusing(base)
        optimizer = wrap(api, sgd(1.0), scale)

        def step() -> None:
            optimizer.minimize(lambda: variable * 1.0, var_list=[variable])

        step = tf.function(step) if mode == "function" else step
        for _ in range(4):
            step()
        return float(variable), int(scale.updates)

    @parameterized.expand(MODES)
    def test_update_is_called_once_a_step_and_obeyed(self, mode: str) -> None:
        self.assertEqual(self.train(ORIGINAL, ORIGINAL.LossScale, mode), (-4.0, 0))
        for base in (mpls.v1.LossScale, ORIGINAL.LossScale):
            with self.subTest(base=base.__module__):
                self.assertEqual(self.train(mpls.v1, base, mode), (-2.0, 4))


class TrainOpCollection(unittest.TestCase):
    """Graph-mode wrapper: `GraphKeys.TRAIN_OP` held the op inside the conditional, which no session can run."""

    def collected(self, api: Any) -> SimpleNamespace:
        feed = v1.placeholder(tf.float32, [])
        variable = tf.Variable(0.0)
        other = tf.no_op("another_train_op")
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, other)
        scale = dynamic(api)
        train_op = wrap(api, sgd(1.0), scale).minimize(variable * feed)
        ops = v1.get_collection(v1.GraphKeys.TRAIN_OP)
        return SimpleNamespace(feed=feed, variable=variable, other=other, train_op=train_op, ops=ops, scale=scale)

    @parameterized.expand([(1,), (2,)])
    def test_the_collected_op_is_the_one_that_was_returned(self, version: int) -> None:
        with control_flow(version):
            with tf.Graph().as_default():
                it = self.collected(ORIGINAL)
                self.assertNotIn(it.train_op, it.ops)
                # InaccessibleTensorError is a ValueError too.
                with self.assertRaises(ValueError):
                    Session().run(it.ops[-1], {it.feed: 1.0})
            with tf.Graph().as_default():
                it = self.collected(mpls.v1)
                self.assertEqual(it.ops, [it.other, it.train_op])
                session = Session()
                session.run(it.ops[-1], {it.feed: 1.0})
                session.run(it.ops[-1], {it.feed: INF})
                state = session.run([it.variable, it.scale._current_loss_scale, it.scale._num_good_steps])
                self.assertEqual(state, [-1.0, 4.0, 0])


class AdamPowers(unittest.TestCase):
    """Graph-mode wrapper: Adam's beta powers were created, and so named, inside the conditional."""

    def build(self, api: Any) -> SimpleNamespace:
        feed = v1.placeholder(tf.float32, [])
        variable = tf.Variable(1.0, name="v")
        train_op = wrap(api, v1.train.AdamOptimizer(0.5), dynamic(api)).minimize(variable * feed)
        names = {v.op.name for v in v1.global_variables()}
        return SimpleNamespace(feed=feed, variable=variable, train_op=train_op, names=names)

    def names_of(self, api: Any, version: int) -> set[str]:
        with control_flow(version), tf.Graph().as_default():
            return self.build(api).names

    def cross_restore(self, api: Any, folder: str, saved_with: int, restored_with: int) -> float:
        """Save after two steps, restore under the other control flow; return the variable after a third."""
        prefix = str(pathlib.Path(folder) / f"{api.__name__}-{saved_with}")
        with control_flow(saved_with), tf.Graph().as_default():
            it, saver = self.build(api), v1.train.Saver()
            session = Session()
            for _ in range(2):
                session.run(it.train_op, {it.feed: 1.0})
            saver.save(session._session, prefix, write_meta_graph=False)
        with control_flow(restored_with), tf.Graph().as_default():
            it, saver = self.build(api), v1.train.Saver()
            session = Session()
            saver.restore(session._session, prefix)
            session.run(it.train_op, {it.feed: -4.0})
            return float(session.run(it.variable))

    def test_names_do_not_depend_on_the_control_flow(self) -> None:
        self.assertIn("cond_1/beta1_power", self.names_of(ORIGINAL, 1))
        self.assertIn("beta1_power", self.names_of(ORIGINAL, 2))
        for version in (1, 2):
            self.assertEqual(
                self.names_of(mpls.v1, version),
                {"v", "current_loss_scale", "good_steps", "beta1_power", "beta2_power", "v/Adam", "v/Adam_1"},
            )

    @parameterized.expand([(1, 2), (2, 1)])
    @pytest.mark.matrix
    def test_checkpoints_of_either_control_flow_go_on_under_the_other(self, saved: int, restored: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(tf.errors.NotFoundError):
                self.cross_restore(ORIGINAL, folder, saved, restored)
            same = self.cross_restore(mpls.v1, folder, saved, saved)
            other = self.cross_restore(mpls.v1, folder, saved, restored)
        self.assertEqual(same, other)
        self.assertNotEqual(other, 0.0)


class ReferenceVariables(unittest.TestCase):
    """Graph-mode wrapper: reference variables, TensorFlow 1's default, failed with control flow v2."""

    def train(self, api: Any, make: Callable[[], Any]) -> list[float]:
        with tf.Graph().as_default():
            feed = v1.placeholder(tf.float32, [])
            variable = v1.Variable(2.0, use_resource=False)
            global_step = v1.Variable(0, use_resource=False, dtype=tf.int64)
            train_op = wrap(api, make(), dynamic(api)).minimize(variable * feed, global_step=global_step)
            session = Session()
            for value in (1.0, INF, 2.0):
                session.run(train_op, {feed: value})
            return [float(value) for value in session.run([variable, global_step])]

    @parameterized.expand([("GradientDescentOptimizer", ()), ("MomentumOptimizer", (0.5,))])
    def test_reference_variables_train(self, name: str, args: tuple[float, ...]) -> None:
        def make() -> Any:
            return getattr(v1.train, name)(0.25, *args)

        with control_flow(2):
            with self.assertRaisesRegex(TypeError, "float32_ref"):
                self.train(ORIGINAL, make)
            result = self.train(mpls.v1, make)
            self.assertTrue(v1.control_flow_v2_enabled())
        with control_flow(1):
            self.assertEqual(self.train(ORIGINAL, make), result)


class Slots(unittest.TestCase):
    """Graph-mode wrapper: slots were not found through it, and came into being late."""

    def test_slots_are_found_through_the_wrapper(self) -> None:
        def step(api: Any) -> tuple[Any, Any]:
            variable = tf.Variable(2.0)
            optimizer = wrap(api, v1.train.AdamOptimizer(), dynamic(api))
            optimizer.minimize(lambda: variable * 3.0, var_list=[variable])
            return optimizer, variable

        optimizer, variable = step(ORIGINAL)
        self.assertEqual(optimizer.get_slot_names(), [])
        self.assertIsNone(optimizer.get_slot(variable, "m"))
        optimizer, variable = step(mpls.v1)
        self.assertEqual(optimizer.get_slot_names(), ["m", "v"])
        np.testing.assert_allclose(optimizer.get_slot(variable, "m"), 0.3, rtol=1e-6)
        self.assertIs(optimizer.get_slot(variable, "m"), optimizer._optimizer.get_slot(variable, "m"))

    @parameterized.expand([("eager",), ("function",)])
    def test_slots_exist_after_a_skipped_first_step(self, mode: str) -> None:
        def skip(api: Any) -> tuple[Any, Any]:
            variable, factor = tf.Variable(2.0), tf.Variable(INF)
            optimizer = wrap(api, v1.train.MomentumOptimizer(0.5, 0.5), dynamic(api))

            def step() -> None:
                optimizer.minimize(lambda: variable * factor, var_list=[variable])

            (tf.function(step) if mode == "function" else step)()
            self.assertEqual((float(variable), float(optimizer._loss_scale())), (2.0, 4.0))
            return optimizer, variable

        if mode == "eager":
            optimizer, variable = skip(ORIGINAL)
            self.assertIsNone(optimizer._optimizer.get_slot(variable, "momentum"))
        optimizer, variable = skip(mpls.v1)
        self.assertEqual(float(optimizer.get_slot(variable, "momentum")), 0.0)
        self.assertEqual(len(optimizer.variables()), 3)


class HalfPrecisionLosses(unittest.TestCase):
    """A fixed scale above 65504 made every float16 loss infinite, and the weights with it."""

    def minimize(self, api: Any, kind: str, mode: str) -> float:
        variable = tf.Variable(1.0)
        optimizer = wrap(api, sgd(), 131072 if kind == "number" else api.FixedLossScale(131072))

        def step() -> None:
            optimizer.minimize(lambda: tf.cast(variable, tf.float16) * 0.5, var_list=[variable])

        (tf.function(step) if mode == "function" else step)()
        return float(variable)

    @parameterized.expand([(k, m) for k in ("number", "object") for m in ("eager", "function")])
    def test_graph_mode_wrapper_trains(self, kind: str, mode: str) -> None:
        self.assertEqual(self.minimize(ORIGINAL, kind, mode), -INF)
        self.assertEqual(self.minimize(mpls.v1, kind, mode), 0.875)

    def test_graph_mode_wrapper_trains_in_a_graph(self) -> None:
        for api, expected in ((ORIGINAL, -INF), (mpls.v1, 0.875)):
            with tf.Graph().as_default():
                variable = tf.Variable(1.0)
                train_op = wrap(api, sgd(), 131072).minimize(tf.cast(variable, tf.float16) * 0.5)
                session = Session()
                session.run(train_op)
                self.assertEqual(session.run(variable), expected)

    @parameterized.expand(FAMILIES)
    def test_keras_wrapper_refuses_before_anything_happens(self, name: str, optimizers: Any) -> None:
        def step(wrapper: Any) -> tuple[Any, Any]:
            variable = tf.Variable(1.0)
            optimizer = wrapper(optimizers.SGD(0.25), dynamic=False, initial_scale=131072)
            with contextlib.ExitStack() as stack:
                if wrapper is not OriginalKeras:
                    stack.enter_context(self.assertRaisesRegex(ValueError, "at most 65504 for a float16 loss"))
                optimizer.minimize(lambda: tf.cast(variable, tf.float16) * 0.5, [variable])
            return variable, optimizer

        variable, _unused = step(OriginalKeras)
        self.assertEqual(float(variable), -INF)
        variable, optimizer = step(mpls.keras.LossScaleOptimizer)
        self.assertEqual((float(variable), int(optimizer.iterations)), (1.0, 0))
        # The same optimizer works with a float32 loss.
        optimizer.minimize(lambda: variable * 0.5, [variable])
        self.assertEqual((float(variable), int(optimizer.iterations)), (0.875, 1))

    def test_dynamic_scales_come_down_by_themselves(self) -> None:
        def steps(minimize: Callable[..., Any], scale: Callable[[], Any]) -> list[tuple[float, float]]:
            variable = tf.Variable(1.0)
            seen = []
            for _ in range(4):
                minimize(lambda: tf.cast(variable, tf.float16) * 0.5, [variable])
                seen.append((float(variable), float(scale())))
            return seen

        expected = [(1.0, 65536.0), (1.0, 32768.0), (0.875, 32768.0), (0.75, 32768.0)]
        for api in (ORIGINAL, mpls.v1):
            loss_scale = dynamic(api, 131072, 100)
            optimizer = wrap(api, sgd(), loss_scale)
            self.assertEqual(
                steps(lambda *args, o=optimizer: o.minimize(args[0], var_list=args[1]), loss_scale), expected
            )
        for _, optimizers in FAMILIES:
            for wrapper in (OriginalKeras, mpls.keras.LossScaleOptimizer):
                optimizer = wrapper(optimizers.SGD(0.25), initial_scale=131072)
                self.assertEqual(steps(optimizer.minimize, lambda o=optimizer: o.loss_scale), expected)


# The first is no power of two.
ABOVE = (1e38, 2.0**127)


class ReciprocalUnderflow(unittest.TestCase):
    """Large scales: the reciprocal, by which gradients were multiplied, was zero or flushed to it."""

    @parameterized.expand(FAMILIES)
    def test_float16_gradients_from_scale_2_to_the_25_on(self, name: str, optimizers: Any) -> None:
        def unscaled(wrapper: Any, scale: float) -> float:
            optimizer = wrapper(optimizers.SGD(), dynamic=False, initial_scale=scale)
            (grad,) = optimizer.get_unscaled_gradients([tf.constant(2.0**15, tf.float16)])
            self.assertEqual(grad.dtype, tf.float16)
            return float(grad)

        self.assertEqual(unscaled(OriginalKeras, 2.0**24), 2.0**-9)
        self.assertEqual(unscaled(OriginalKeras, 2.0**25), 0.0)
        for power in (24, 25, 26, 29):
            self.assertEqual(unscaled(mpls.keras.LossScaleOptimizer, 2.0**power), 2.0 ** (15 - power))

    @parameterized.expand(
        [(f"{name}_{scale:g}", optimizers, scale) for name, optimizers in FAMILIES for scale in ABOVE]
    )
    def test_keras_float32_gradients_above_scale_2_to_the_126(self, name: str, optimizers: Any, scale: float) -> None:
        def train(wrapper: Any, initial_scale: float = scale, **settings: Any) -> float:
            optimizer = wrapper(optimizers.SGD(1.0), initial_scale=initial_scale, **settings)
            variable = tf.Variable(1.0)
            optimizer.minimize(lambda: variable * 0.25, [variable])
            return float(variable)

        self.assertEqual(train(OriginalKeras), 1.0)
        self.assertEqual(train(OriginalKeras, 2.0**126), 0.75)
        self.assertAlmostEqual(train(mpls.keras.LossScaleOptimizer), 0.75, places=6)
        # As a constant, graph optimizers would turn it into its reciprocal again.
        self.assertEqual(train(OriginalKeras, dynamic=False), 1.0)
        with self.assertRaisesRegex(ValueError, "at most 2\\*\\*126 for a fixed scale"):
            train(mpls.keras.LossScaleOptimizer, dynamic=False)

    @parameterized.expand([(f"{mode}_{scale:g}", mode, scale) for mode in ("eager", "function") for scale in ABOVE])
    def test_graph_mode_float32_gradients_above_scale_2_to_the_126(self, name: str, mode: str, scale: float) -> None:
        def train(api: Any, loss_scale: Any) -> float:
            variable = tf.Variable(1.0)
            optimizer = wrap(api, sgd(1.0), loss_scale)

            def step() -> None:
                optimizer.minimize(lambda: variable * 0.25, var_list=[variable])

            (tf.function(step) if mode == "function" else step)()
            return float(variable)

        self.assertEqual(train(ORIGINAL, dynamic(ORIGINAL, scale)), 1.0)
        self.assertAlmostEqual(train(mpls.v1, dynamic(mpls.v1, scale)), 0.75, places=6)
        self.assertEqual(train(ORIGINAL, scale), 1.0)
        self.assertEqual(train(ORIGINAL, 2.0**126), 0.75)
        with self.assertRaisesRegex(ValueError, "at most 2\\*\\*126 for a fixed scale"):
            train(mpls.v1, scale)
        self.assertEqual(train(mpls.v1, 2.0**126), 0.75)


class SavedModels(unittest.TestCase):
    """HDF5 files of models compiled with the wrapper over a new optimizer lost iterations and slots."""

    def trained_model(self, wrapper: Any, optimizers: Any) -> Any:
        model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(1,), kernel_initializer="ones")])
        inner = optimizers.SGD(0.125, 0.5)
        model.compile(wrapper(inner, initial_scale=8, dynamic_growth_steps=2), "mean_squared_error")
        data = np.ones((2, 1), np.float32)
        for _ in range(3):
            model.train_on_batch(data, 0 * data)
        return model

    def state(self, optimizer: Any) -> list[Any]:
        return [np.asarray(variable).tolist() for variable in optimizer.inner_optimizer.variables]

    def save_and_load(self, wrapper: Any) -> tuple[Any, Any]:
        model = self.trained_model(wrapper, tf_keras.optimizers)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are saving your model as an HDF5 file", UserWarning)
            path = str(pathlib.Path(folder) / "model.h5")
            model.save(path)
            loaded = tf_keras.models.load_model(path)
        return model, loaded

    def test_iterations_and_slots_of_a_new_optimizer_come_back_from_h5(self) -> None:
        model, loaded = self.save_and_load(OriginalKeras)
        self.assertEqual(self.state(model.optimizer)[0], 3)
        self.assertEqual(self.state(loaded.optimizer), [0, [[0.0]], [0.0]])
        model, loaded = self.save_and_load(mpls.keras.LossScaleOptimizer)
        self.assertEqual(self.state(loaded.optimizer), self.state(model.optimizer))
        self.assertEqual(loaded.optimizer.get_config(), model.optimizer.get_config())
        # Training goes on as in the model that was saved.
        data = np.full((2, 1), 2.0, np.float32)
        for it in (model, loaded):
            it.train_on_batch(data, 0 * data)
        self.assertEqual(loaded.get_weights(), model.get_weights())

    def test_weights_can_be_set_through_the_wrapper(self) -> None:
        values = [np.int64(3), np.array([1.0, 2.0], np.float32), np.array([3.0], np.float32)]
        for wrapper in (OriginalKeras, mpls.keras.LossScaleOptimizer):
            optimizer = wrapper(tf_keras.optimizers.SGD(0.125, 0.5))
            optimizer.build([tf.Variable([0.0, 0.0]), tf.Variable([0.0])])
            if wrapper is OriginalKeras:
                with self.assertRaisesRegex(ValueError, "not yet been built"):
                    optimizer.set_weights(values)
                continue
            optimizer.set_weights(values)
            self.assertEqual(self.state(optimizer), [3, [1.0, 2.0], [3.0]])
            self.assertEqual(int(optimizer.iterations), 3)


class KeptAsItWas(unittest.TestCase):
    """Defaults that code relies on, in the original and in mpls."""

    @parameterized.expand([(f"{mode}_{value}", mode, value) for mode in ("eager", "function") for value in (INF, NAN)])
    def test_a_fixed_scale_never_looks_at_the_gradients_in_graph_mode(self, name: str, mode: str, value: float) -> None:
        for api in (ORIGINAL, mpls.v1):
            variable, factor = tf.Variable(1.0), tf.Variable(value)
            step_count = tf.Variable(0, dtype=tf.int64)
            optimizer = wrap(api, sgd(), 16)

            def step(o: Any = optimizer, v: Any = variable, f: Any = factor, s: Any = step_count) -> None:
                o.minimize(lambda: v * f, global_step=s, var_list=[v])

            (tf.function(step, autograph=False) if mode == "function" else step)()
            self.assertFalse(math.isfinite(float(variable)))
            self.assertEqual(int(step_count), 1)

    @parameterized.expand(FAMILIES)
    def test_a_fixed_scale_never_looks_at_the_gradients_in_keras(self, name: str, optimizers: Any) -> None:
        for wrapper in (OriginalKeras, mpls.keras.LossScaleOptimizer):
            for value in (INF, NAN):
                variable = tf.Variable(1.0)
                optimizer = wrapper(optimizers.SGD(0.5), dynamic=False, initial_scale=16)
                optimizer.minimize(lambda v=variable, x=value: v * x, [variable])
                self.assertFalse(math.isfinite(float(variable)))
                self.assertEqual((int(optimizer.iterations), float(optimizer.loss_scale)), (1, 16.0))

    def test_an_initial_scale_below_one_is_raised_to_one_by_an_overflow(self) -> None:
        for api in (ORIGINAL, mpls.v1):
            scale = api.DynamicLossScale(0.25)
            self.assertEqual(float(scale()), 0.25)
            scale.update([tf.constant(NAN)])
            self.assertEqual(float(scale()), 1.0)
        for _, optimizers in FAMILIES:
            for wrapper in (OriginalKeras, mpls.keras.LossScaleOptimizer):
                optimizer = wrapper(optimizers.SGD(), initial_scale=0.25)
                variable = tf.Variable(1.0)
                optimizer.minimize(lambda v=variable: v * INF, [variable])
                self.assertEqual((float(variable), float(optimizer.loss_scale)), (1.0, 1.0))

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_skipped_steps_advance_iterations_but_not_moments(self, name: str, optimizers: Any) -> None:
        after = []
        for wrapper in (OriginalKeras, mpls.keras.LossScaleOptimizer):
            variable, factor = tf.Variable(1.0), tf.Variable(INF)
            optimizer = wrapper(optimizers.Adam(0.5), initial_scale=2.0**15)

            @tf.function
            def step(o: Any = optimizer, v: Any = variable, f: Any = factor) -> None:
                o.minimize(lambda: v * f, [v])

            for _unused in range(10):
                step()
            self.assertEqual((float(variable), int(optimizer.iterations)), (1.0, 10))
            factor.assign(1.0)
            step()
            after.append(float(variable))
        # Without the skipped steps the first step of Adam is the learning rate.
        self.assertAlmostEqual(1.0 - after[0], 0.241, places=2)
        np.testing.assert_allclose(after[1], after[0], rtol=1e-6)

    @parameterized.expand(FAMILIES)
    def test_skipped_steps_advance_learning_rate_schedules(self, name: str, optimizers: Any) -> None:
        schedule = tf_keras.optimizers.schedules.PiecewiseConstantDecay([0, 1], [1.0, 0.5, 0.25])
        for wrapper in (OriginalKeras, mpls.keras.LossScaleOptimizer):
            variable = tf.Variable(1.0)
            optimizer = wrapper(optimizers.SGD(schedule), initial_scale=8)
            for factor in (INF, INF, 1.0):
                optimizer.minimize(lambda v=variable, f=factor: v * f, [variable])
            self.assertEqual(float(variable), 0.75)

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_a_skipped_batch_still_enters_the_metrics(self, name: str, optimizers: Any) -> None:
        for wrapper in (OriginalKeras, mpls.keras.LossScaleOptimizer):
            model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(1,), kernel_initializer="ones")])
            model.compile(wrapper(optimizers.SGD(0.0), initial_scale=8), "mse")
            data = np.array([[1.0], [INF]], np.float32)
            history = model.fit(data, np.ones((2, 1)), batch_size=1, shuffle=False, verbose=0)
            self.assertFalse(math.isfinite(history.history["loss"][0]))
            self.assertEqual(model.get_weights()[0].tolist(), [[1.0]])
            self.assertEqual(float(model.optimizer.loss_scale), 4.0)
