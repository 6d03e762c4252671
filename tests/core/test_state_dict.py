"""`state_dict` and `load_state_dict`, of loss scales and of wrappers of all families."""

from __future__ import annotations

import json
import pickle
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls
import mpls.contrib
import mpls.errors
import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.upstream.keras_packages import keras_graph_session
from tests.core.own_loss_scale import Counting

v1 = tf.compat.v1

# No short decimal: what JSON keeps has to be exact.
SCALE = float(np.float32(12345.678))


TF_1 = v1.train.GradientDescentOptimizer(0.1)
INNER = {"legacy": tf_keras.optimizers.legacy.SGD, "new": tf_keras.optimizers.SGD, "keras3": keras.optimizers.SGD}
Ours: Any = mpls.keras.LossScaleOptimizer
MAKERS: dict[str, Any] = {
    "v1": lambda settings: mpls.v1.MixedPrecisionLossScaleOptimizer(TF_1, mpls.v1.DynamicLossScale(*settings)),
    **{
        name: lambda settings, make=make: Ours(make(), initial_scale=settings[0], dynamic_growth_steps=settings[1])
        for name, make in INNER.items()
    },
    "loss_scale": lambda settings: mpls.v1.DynamicLossScale(*settings),
}
FIXED: dict[str, Any] = {
    "v1": lambda scale: mpls.v1.MixedPrecisionLossScaleOptimizer(TF_1, scale),
    **{name: lambda scale, make=make: Ours(make(), dynamic=False, initial_scale=scale) for name, make in INNER.items()},
    "loss_scale": mpls.v1.FixedLossScale,
    "contrib": lambda scale: mpls.contrib.LossScaleOptimizer(TF_1, mpls.contrib.FixedLossScaleManager(scale)),
}
STATE = {
    "dynamic": True,
    "scale": SCALE,
    "good_steps": 3,
    "initial_scale": 8.0,
    "growth_steps": 5,
    "multiplier": 2.0,
}


def scale_and_steps(holder: Any) -> tuple[float, int]:
    loss_scale = getattr(holder, "_loss_scale", holder)
    return float(loss_scale()), int(loss_scale._num_good_steps)


BAD = [
    ({"scale": None}, "have the keys"),
    ({"more": 1}, "have the keys"),
    ({"dynamic": False}, "dynamic must be True"),
    ({"dynamic": "yes"}, "dynamic must be True"),
    ({"scale": 0.0}, "scale must be a positive"),
    ({"scale": -1.0}, "scale must be a positive"),
    ({"scale": float("nan")}, "scale must be a positive"),
    ({"scale": float("inf")}, "scale must be a positive"),
    ({"scale": 1e39}, "scale must be a positive"),
    ({"scale": 10**400}, "scale must be a positive"),
    ({"scale": "8.0"}, "scale must be a positive"),
    ({"scale": True}, "scale must be a positive"),
    ({"scale": [8.0]}, "scale must be a positive"),
    ({"good_steps": -1}, "good_steps must be a whole number from 0 to 5"),
    ({"good_steps": 6}, "good_steps must be a whole number from 0 to 5"),
    ({"good_steps": 1.5}, "good_steps must be a whole number"),
    ({"growth_steps": 6}, "growth_steps must be 5"),
    ({"growth_steps": None, "multiplier": 4.0}, "multiplier must be 2.0"),
    ({"initial_scale": -1.0}, "initial_scale must be a positive"),
    ({"weights": {"value": 1.0}}, "weights must have the keys"),
]


class TestDynamic:
    @parameterized.expand(MAKERS)
    def test_goes_through_json_and_into_every_family(self, name: str) -> None:
        holder = MAKERS[name]((8.0, 5))
        assert holder.state_dict() == {**STATE, "scale": 8.0, "good_steps": 0}
        holder.load_state_dict(STATE)
        assert scale_and_steps(holder) == (SCALE, 3)
        state = json.loads(json.dumps(holder.state_dict()))
        assert state == STATE
        for make in MAKERS.values():
            other = make((16.0, 5))
            other.load_state_dict(state)
            assert scale_and_steps(other) == (SCALE, 3)
            assert other.state_dict() == {**STATE, "initial_scale": 16.0}

    @parameterized.expand([(name, *row) for name in MAKERS for row in BAD])
    @pytest.mark.default_run("each value", by=lambda name, change, message: (name, str(change)))
    def test_is_refused_whole(self, name: str, change: dict[str, Any], message: str) -> None:
        holder = MAKERS[name]((8.0, 5))
        holder.load_state_dict({**STATE, "scale": 2.0, "good_steps": 1})
        state = {key: value for key, value in {**STATE, **change}.items() if value is not None}
        with pytest.raises(mpls.errors.SavedStateError, match=message) as caught:
            holder.load_state_dict(state)
        assert isinstance(caught.value, ValueError)
        assert "mpls docs my-checkpoints" in str(caught.value)
        assert scale_and_steps(holder) == (2.0, 1)

    @parameterized.expand(MAKERS)
    def test_is_a_dict(self, name: str) -> None:
        with pytest.raises(TypeError, match="state must be a dict"):
            MAKERS[name]((8.0, 5)).load_state_dict([1.0])

    def test_constants_of_the_code_stay(self) -> None:
        saved, loaded = (mpls.v1.DynamicLossScale(8.0, max_scale=most) for most in (64.0, 32.0))
        with pytest.warns(mpls.errors.MplsWarning, match="not used here is max_scale=64.0"):
            loaded.load_state_dict({**saved.state_dict(), "scale": 16.0})
        assert loaded.state_dict() == {**saved.state_dict(), "scale": 16.0, "max_scale": 32.0}


class TestFixed:
    @parameterized.expand(FIXED)
    def test_goes_through_json_and_into_every_family(self, name: str) -> None:
        holder = FIXED[name](SCALE)
        state = json.loads(json.dumps(holder.state_dict()))
        assert state == {"dynamic": False, "scale": SCALE}
        for make in FIXED.values():
            other = make(SCALE)
            other.load_state_dict(state)
            assert other.state_dict() == state

    @parameterized.expand(FIXED)
    def test_of_another_scale_is_refused(self, name: str) -> None:
        holder = FIXED[name](64.0)
        for state, message in (
            ({"dynamic": False, "scale": 32.0}, r"scale must be 64.0.* or put 64.0 in its place"),
            ({"dynamic": False, "scale": float("nan")}, "positive"),
            ({"dynamic": False, "scale": 2.0**127}, r"at most 2\*\*126"),
            ({"dynamic": False}, "have the keys"),
            (STATE, "dynamic must be False"),
        ):
            with pytest.raises(mpls.errors.SavedStateError, match=message):
                holder.load_state_dict(state)
        with pytest.warns(mpls.errors.MplsWarning, match="not used here is min_scale=1.0"):
            holder.load_state_dict({"dynamic": False, "scale": 64.0, "min_scale": 1.0})
        assert holder.state_dict()["scale"] == 64.0


class TestOwnClasses:
    def test_keep_their_weights(self) -> None:
        saved, loaded = Counting(), Counting()
        saved.value.assign(SCALE)
        saved.steps.assign([3, 4])
        state = json.loads(json.dumps(saved.state_dict()))
        assert state == {"class_name": "Counting", "weights": {"value": SCALE, "steps": [3, 4]}}
        loaded.load_state_dict(state)
        assert loaded.state_dict() == state
        for wrong, message in (
            ({**state, "class_name": "Other"}, "class_name must be 'Counting'"),
            ({"weights": {"value": 1.0}}, "weights must have the keys"),
            ({"weights": {"value": 1.0, "steps": [1.5, 0]}}, "steps must be int32"),
            ({"weights": {"value": 1.0, "steps": [2**40, 0]}}, "steps must be int32"),
            ({"weights": {"value": 1.0, "steps": [float("nan"), 0]}}, "steps must be int32"),
            ({"weights": {"value": [1.0], "steps": [0, 0]}}, "value must be float32 of shape"),
            ({"weights": {"value": "1.0", "steps": [0, 0]}}, "value must be float32"),
            (STATE, "have the keys"),
        ):
            with pytest.raises(mpls.errors.SavedStateError, match=message):
                loaded.load_state_dict(wrong)
        with pytest.warns(mpls.errors.MplsWarning, match="not used here is min_scale=1.0"):
            loaded.load_state_dict({**state, "min_scale": 1.0})
        assert loaded.state_dict() == state

    def test_are_kept_by_wrappers(self) -> None:
        inner = TF_1
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, Counting())
        assert set(opt.state_dict()["weights"]) == {"value", "steps"}
        with mpls.install(as_of="2.3"), pytest.warns(mpls.errors.MplsDeprecationWarning):
            opt = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.SGD(), Counting())
        opt.load_state_dict({"weights": {"value": 7.0, "steps": [1, 1]}})
        assert float(opt.loss_scale()) == 7.0


MANAGER_STATE = {
    "dynamic": True,
    "scale": SCALE,
    "good_steps": 1,
    "bad_steps": 2,
    "initial_scale": 16.0,
    "growth_steps": 2,
    "multiplier": 2.0,
    "shrink_steps": 3,
    "shrink_ratio": 0.8,
}


class TestManagers:
    def manager(self) -> Any:
        return mpls.contrib.ExponentialUpdateLossScaleManager(16.0, 2, decr_every_n_nan_or_inf=3)

    def test_go_through_json(self) -> None:
        manager = self.manager()
        opt = mpls.contrib.LossScaleOptimizer(TF_1, manager)
        opt.load_state_dict(json.loads(json.dumps(MANAGER_STATE)))
        assert opt.state_dict() == manager.state_dict() == MANAGER_STATE
        assert float(manager.get_loss_scale()) == SCALE

    def test_of_users_need_not_have_it(self) -> None:
        class Constant(mpls.contrib.LossScaleManager):
            def get_loss_scale(self) -> Any:
                return tf.constant(8.0)

            def update_loss_scale(self, finite_grads: Any) -> Any:
                return tf.no_op()

        opt = mpls.contrib.LossScaleOptimizer(TF_1, Constant())
        with pytest.raises(NotImplementedError, match="Constant defines no state_dict"):
            opt.state_dict()
        with pytest.raises(NotImplementedError, match="Constant defines no load_state_dict"):
            opt.load_state_dict(MANAGER_STATE)


def test_a_native_loss_scale_has_none() -> None:
    opt = mpls.v1.MixedPrecisionLossScaleOptimizer(TF_1, v1.mixed_precision.DynamicLossScale(8.0))
    for call in (opt.state_dict, lambda: opt.load_state_dict({})):
        with pytest.raises(TypeError, match="must have state_dict and load_state_dict; got a DynamicLossScale"):
            call()


class TestGraphs:
    def build(self, **options: Any) -> Any:
        weight = v1.get_variable("weight", initializer=1.0, use_resource=True)
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(TF_1, mpls.v1.DynamicLossScale(8.0, 5), **options)
        opt.minimize(weight * weight, var_list=[weight])
        return opt

    def test_of_a_session_in_a_finalized_graph(self) -> None:
        with tf.Graph().as_default() as graph:
            opt = self.build()
            initializer = v1.global_variables_initializer()
            graph.finalize()
            with v1.Session() as session, v1.Session() as other:
                session.run(initializer)
                other.run(initializer)
                opt.load_state_dict(STATE)  # `other` is the default session.
                assert opt.state_dict() == opt.state_dict(other) == STATE
                assert opt.state_dict(session=session)["scale"] == 8.0
                with tf.Graph().as_default():
                    opt.load_state_dict({**STATE, "good_steps": 4}, session)
                    opt._loss_scale.load_state_dict(STATE, session)
                assert opt.state_dict(session) == STATE

    def test_of_a_monitored_session(self) -> None:
        class Counting(v1.train.SessionRunHook):
            runs = 0

            def before_run(self, run_context: Any) -> None:
                Counting.runs += 1

        with tf.Graph().as_default():
            opt = self.build()
            with v1.train.MonitoredSession(hooks=[Counting()]) as session:
                assert opt.state_dict(session)["scale"] == 8.0
                opt.load_state_dict({**opt.state_dict(session), "scale": 2.0}, session)
                assert opt.state_dict(session)["scale"] == 2.0
                assert Counting.runs == 0

    def test_from_another_graph(self) -> None:
        with tf.Graph().as_default():
            opt = self.build(max_consecutive_skips=3)
            session = v1.Session()
            session.run(v1.global_variables_initializer())
        opt.load_state_dict({**opt.state_dict(session), "good_steps": 4, "skipped_steps": 2}, session)
        assert opt._loss_scale.state_dict(session)["good_steps"] == 4
        assert opt.state_dict(session)["skipped_steps"] == 2

    def test_on_all_replicas(self) -> None:
        strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
        with tf.Graph().as_default(), strategy.scope(), v1.Session() as session:
            scale = MAKERS["loss_scale"]((8.0, 5))
            session.run(v1.global_variables_initializer())
            scale.load_state_dict(STATE)
            assert scale.state_dict() == STATE
            assert session.run(strategy.experimental_local_results(scale._current_loss_scale)) == (SCALE, SCALE)

    def test_of_a_copy_from_eager_mode(self) -> None:
        scale = MAKERS["loss_scale"]((8.0, 5))
        scale()
        copied = pickle.loads(pickle.dumps(scale))
        with tf.Graph().as_default(), v1.Session() as session:
            copied()
            session.run(v1.global_variables_initializer())
            assert copied.state_dict()["scale"] == 8.0

    def test_is_in_resource_variables_in_any_program(self) -> None:
        v1.disable_resource_variables()
        try:
            with tf.Graph().as_default():
                assert MAKERS["loss_scale"]((8.0, 5))._current_loss_scale.op.type == "VarHandleOp"
        finally:
            v1.enable_resource_variables()

    def test_the_session_of_keras_initializes_it(self) -> None:
        with tf.Graph().as_default():
            scale = MAKERS["loss_scale"]((8.0, 5))
            assert scale.state_dict(keras_graph_session())["scale"] == 8.0

    def test_without_a_session_is_refused(self) -> None:
        with tf.Graph().as_default():
            opt, manager = self.build(), mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 5)
            calls = [("state_dict", opt.state_dict), ("load_state_dict", lambda: opt.load_state_dict(STATE))]
            for name, call in [*calls, ("state_dict", manager.state_dict)]:
                with pytest.raises(RuntimeError, match=rf"^{name}\(\) needs a session"):
                    call()

    def test_inside_a_function_is_refused(self) -> None:
        opt = MAKERS["legacy"]((8.0, 5))
        opt.state_dict()
        for call in (lambda: tf.constant(opt.state_dict()["scale"]), lambda: opt.load_state_dict(STATE)):
            with pytest.raises(RuntimeError, match=r"outside of tf\.function"):
                tf.function(call)()


class TestReplicas:
    @parameterized.expand(["v1", "legacy", "new", "keras3"])
    def test_all_get_it(self, name: str) -> None:
        strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
        with strategy.scope():
            opt = MAKERS[name]((8.0, 5))
            opt._loss_scale()
        opt.load_state_dict(STATE)
        assert opt.state_dict() == STATE
        for variable, value in ((opt._loss_scale._current_loss_scale, SCALE), (opt._loss_scale._num_good_steps, 3)):
            assert [each.numpy() for each in strategy.experimental_local_results(variable)] == [value, value]
        with strategy.scope():
            opt.load_state_dict({**STATE, "good_steps": 4})
            assert opt.state_dict()["good_steps"] == 4
        with pytest.raises(ValueError, match=r"outside of the function that strategy\.run"):
            strategy.run(lambda: opt.load_state_dict(STATE))
