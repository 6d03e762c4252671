"""Checkpoints of v1 graphs, restored with TensorFlow's own calls: `tf.compat.v1.train.Saver` and object-based ones."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.contrib
import mpls.errors
import mpls.v1
from tests.folders import InFolder
from tests.golden.replay import control_flow, named, numbers

from .replay import Artefact, GraphTraining, artefacts, assert_goes_on, assert_state

v1 = tf.compat.v1

SAVERS = artefacts("v1_saver")
SCALED = [each for each in SAVERS if not each.is_plain]
PLAIN = [each for each in SAVERS if each.is_plain]
ADAM = Artefact("v1_saver.adam", "tf21")
STATELESS = ("vars", "slots", "extra", "gs")
native = v1.mixed_precision.MixedPrecisionLossScaleOptimizer
ours = mpls.v1.MixedPrecisionLossScaleOptimizer


@contextlib.contextmanager
def graph(*, v2: bool = False) -> Iterator[None]:
    with tf.Graph().as_default(), control_flow(v2=v2):
        yield


def bare(inner: Any, _: Any) -> Any:
    return inner


class TestSaver:
    @parameterized.expand([(each, v2) for each in SCALED for v2 in (False, True)], name_func=named)
    @pytest.mark.default_run("each value", by=lambda artefact, v2: (artefact.id, (artefact.run, v2)))
    def test_restores_what_any_release_wrote(self, artefact: Artefact, v2: bool) -> None:
        with graph(v2=v2):
            training = GraphTraining(artefact)
            saver = v1.train.Saver()
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                saver.restore(session, artefact.prefix)
                assert_goes_on(training)

    @parameterized.expand([(each, v2) for each in PLAIN for v2 in (False, True)], name_func=named)
    @pytest.mark.default_run("each value")
    def test_starts_a_fresh_scale_for_what_was_saved_without(self, artefact: Artefact, v2: bool) -> None:
        with graph(v2=v2):
            training = GraphTraining(artefact)
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                with pytest.warns(mpls.errors.MplsWarning, match="holds no loss scale.*fresh, at 8.0") as caught:
                    v1.train.Saver().restore(session, artefact.prefix)
                assert len(caught) == 1
                assert artefact.prefix in str(caught[0].message)
                assert caught[0].filename == __file__
                state = {**numbers(artefact.expected["state"]), "scale": 8.0, "good": 0}
                assert_state(training.values(), state, exact=True)
                for factors, expected in zip(artefact.spec["post"], artefact.expected["next"], strict=True):
                    training.step(factors)
                    got = {key: value for key, value in training.values().items() if key in STATELESS}
                    assert_state(got, {key: numbers(expected)[key] for key in STATELESS}, exact=False)
                # Told once; and it is at its start again.
                v1.train.Saver().restore(session, artefact.prefix)
                assert_state(training.values(), state, exact=True)


def saved_plain(folder: pathlib.Path, *, sharded: bool = False, make: Any = None) -> str:
    """Train an artefact's spec without loss scaling, and save it."""
    with graph(), v1.Session() as session:
        training = GraphTraining(ADAM, scaled=False, make=make)
        session.run(v1.global_variables_initializer())
        for _ in range(3):
            training.step([1.0, 1.0])
        return str(v1.train.Saver(sharded=sharded).save(session, str(folder / "plain")))


class TestKindsOfSavers(InFolder):
    def reference(self, value: Any, name: str) -> Any:
        return v1.Variable(value, name=name, use_resource=False)

    def on_two_devices(self, value: Any, name: str) -> Any:
        with tf.device(f"/cpu:{len(v1.global_variables()) % 2}"):
            return v1.Variable(value, name=name, use_resource=True)

    @parameterized.expand([("sharded",), ("sequential",), ("reference",), ("var_list",), ("finalized",)])
    @pytest.mark.default_run("each value")
    def test_restore_what_was_saved_without_scaling(self, kind: str) -> None:
        make = {"reference": self.reference, "sharded": self.on_two_devices}.get(kind)
        path = saved_plain(self.folder, sharded=kind == "sharded", make=make)
        reader = tf.train.load_checkpoint(path)
        with graph(), v1.Session() as session:
            training = GraphTraining(ADAM, make=make)
            var_list = v1.global_variables()[1:] if kind == "var_list" else None
            saver = v1.train.Saver(
                var_list, sharded=kind == "sharded", restore_sequentially=kind == "sequential", name="their_saver"
            )
            initializer = v1.global_variables_initializer()
            if kind == "finalized":
                v1.get_default_graph().finalize()
            session.run(initializer)
            with pytest.warns(mpls.errors.MplsWarning, match="fresh, at 8.0"):
                saver.restore(session, path)
            for variable in var_list or v1.global_variables():
                if variable.op.name not in ("current_loss_scale", "good_steps"):
                    assert np.array_equal(session.run(variable), reader.get_tensor(variable.op.name)), variable.name
            assert training.opt.state_dict(session)["scale"] == 8.0

    def test_restore_parts_of_variables(self) -> None:
        def build(wrap: Any) -> Any:
            partitioner = v1.fixed_size_partitioner(2)
            weight = v1.get_variable(
                "w", [4, 2], initializer=v1.random_uniform_initializer(seed=3), partitioner=partitioner
            )
            opt = wrap(v1.train.AdamOptimizer(0.5), "dynamic")
            return opt.minimize(tf.reduce_sum(tf.convert_to_tensor(weight) ** 2))

        with graph(), v1.Session() as session:
            train_op = build(bare)
            session.run(v1.global_variables_initializer())
            session.run([train_op])
            session.run([train_op])
            path = v1.train.Saver().save(session, str(self.folder / "parts"))
            expected = {each.name: session.run(each) for each in v1.global_variables()}
        with graph(), v1.Session() as session:
            build(ours)
            with pytest.warns(mpls.errors.MplsWarning):
                v1.train.Saver().restore(session, path)
            got = {each.name: session.run(each) for each in v1.global_variables()}
        scale = {"current_loss_scale:0": 32768.0, "good_steps:0": 0}
        assert set(got) == {*expected, *scale}
        for name, value in {**expected, **scale}.items():
            assert np.array_equal(got[name], value), name

    @parameterized.expand([(ours,), (bare,)])
    def test_restore_replicas(self, writer: Any) -> None:
        def build(wrap: Any) -> Any:
            strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
            with strategy.scope():
                weight = v1.get_variable("w", initializer=1.0, use_resource=True)
                opt = wrap(v1.train.GradientDescentOptimizer(0.5), "dynamic")
            steps = strategy.run(lambda: opt.minimize(weight * 2.0, var_list=[weight]))
            own = [] if wrap is bare else [opt._loss_scale._current_loss_scale, opt._loss_scale._num_good_steps]
            values = [strategy.experimental_local_results(each) for each in (weight, *own)]
            return tf.group(*strategy.experimental_local_results(steps)), values

        with graph(), v1.Session() as session:
            step, values = build(writer)
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(step)
            path = v1.train.Saver().save(session, str(self.folder / "replicas"))
            expected = [*session.run(values), (2.0**15, 2.0**15), (0, 0)][:3]
        with graph(), v1.Session() as session:
            _, values = build(ours)
            with pytest.warns(mpls.errors.MplsWarning) if writer is bare else contextlib.nullcontext():
                v1.train.Saver().restore(session, path)
            assert session.run(values) == expected

    def test_leave_what_is_missing_otherwise_to_tensorflow(self) -> None:
        path = saved_plain(self.folder)
        with graph(), v1.Session() as session:
            training = GraphTraining(ADAM)
            other = v1.get_variable("other", initializer=1.0)
            session.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.NotFoundError, match="other not found in checkpoint"):
                v1.train.Saver().restore(session, path)
            assert session.run([other, training.variables[1]]) == [1.0, 0.5]
            with pytest.raises(ValueError, match="not a valid checkpoint"):
                v1.train.Saver().restore(session, str(self.folder / "nothing"))

    def test_refuse_other_dtypes(self) -> None:
        path = saved_plain(self.folder)
        with graph(), v1.Session() as session:
            GraphTraining(ADAM)
            by_name = {each.op.name: each for each in v1.global_variables()}
            by_name["w"] = v1.get_variable("w16", by_name["w"].shape, tf.float16)
            with pytest.raises(mpls.errors.SavedStateError, match=r"plain: w must be float16, .*; got float32"):
                v1.train.Saver(by_name).restore(session, path)

    def test_restore_object_based_checkpoints(self) -> None:
        with graph(), v1.Session() as session:
            training = GraphTraining(ADAM)
            session.run(v1.global_variables_initializer())
            training.step([1.0, 1.0])
            checkpoint = v1.train.Checkpoint(optimizer=training.opt, step=training.global_step, **training.by_name)
            path = checkpoint.save(str(self.folder / "object"), session=session)
            expected = training.values()
        with graph(), v1.Session() as session:
            training = GraphTraining(ADAM)
            v1.train.Saver().restore(session, path)
            assert_state(training.values(), expected, exact=True)

    def test_restore_managers_of_contrib(self) -> None:
        def build(scaled: bool) -> tuple[Any, Any]:
            weight = v1.get_variable("w", initializer=1.0, use_resource=True)
            opt, manager = v1.train.AdamOptimizer(), None
            if scaled:
                manager = mpls.contrib.ExponentialUpdateLossScaleManager(64.0, 2)
                opt = mpls.contrib.LossScaleOptimizer(opt, manager)
            return opt.minimize(weight * weight), manager

        with graph(), v1.Session() as session:
            build(False)
            session.run(v1.global_variables_initializer())
            path = v1.train.Saver().save(session, str(self.folder / "bare"))
        with graph(), v1.Session() as session:
            _, manager = build(True)
            saver = v1.train.Saver()
            session.run([manager._num_good_steps.assign(1), manager._num_bad_steps.assign(1)])
            with pytest.warns(mpls.errors.MplsWarning, match="fresh, at 64.0"):
                saver.restore(session, path)
            state = manager.state_dict(session)
            assert (state["scale"], state["good_steps"], state["bad_steps"]) == (64.0, 0, 0)
            # More than the manager waits for, as of one that waited longer.
            session.run(manager._num_bad_steps.assign(7))
            saver.restore(session, saver.save(session, str(self.folder / "more")))
            assert manager.state_dict(session)["bad_steps"] == 7
            session.run(manager._num_bad_steps.assign(-1))
            path = saver.save(session, str(self.folder / "hostile"))
            with pytest.raises(mpls.errors.SavedStateError, match=rf"{path}: bad_steps must .*; got -1 \(int32\)"):
                saver.restore(session, path)


HOSTILE = [("current_loss_scale", value) for value in (0.0, -2.0, float("nan"), float("inf"))]
HOSTILE += [("good_steps", -1), ("good_steps", 3)]


class TestHostileState(InFolder):
    @parameterized.expand(HOSTILE, name_func=named)
    def test_is_refused_and_nothing_changes(self, name: str, value: float) -> None:
        with graph(), v1.Session() as session:
            training = GraphTraining(ADAM)
            checkpoint = v1.train.Checkpoint(optimizer=training.opt, **training.by_name)
            saver = v1.train.Saver()
            session.run(v1.global_variables_initializer())
            session.run(checkpoint.save_counter.initializer)
            training.step([1.0, 1.0])
            before = training.values()
            (variable,) = (each for each in v1.global_variables() if each.op.name == name)
            good = session.run(variable)
            variable.load(value, session)
            path = saver.save(session, str(self.folder / "saver"))
            object_path = checkpoint.save(str(self.folder / "object"), session=session)
            variable.load(good, session)
            training.step([1.0, 1.0])
            training.step([1.0, float("nan")])
            now = training.values()
            assert now["gs"] != before["gs"]
            with pytest.raises(mpls.errors.SavedStateError) as caught:
                saver.restore(session, path)
            assert str(caught.value).startswith(f"{path}: {name} must ")
            with pytest.raises(mpls.errors.SavedStateError, match=f"{object_path}: optimizer/loss_scale/{name}/"):
                checkpoint.restore(object_path).run_restore_ops(session)
            with pytest.raises(mpls.errors.SavedStateError, match=f"{object_path}: optimizer/loss_scale/{name}/"):
                saver.restore(session, object_path)
            assert_state(training.values(), now, exact=True)

    @parameterized.expand([("current_loss_scale", 0.0, 16.0), ("good_steps", 3, 1)])
    def test_of_a_loss_scale_of_tensorflow_too(self, name: str, value: float, good: float) -> None:
        scale, weight = v1.mixed_precision.DynamicLossScale(8.0, 2), tf.Variable(1.0)
        opt = ours(v1.train.GradientDescentOptimizer(0.5), scale)
        opt.minimize(lambda: weight * 1.0)
        (variable,) = (each for each in scale._weights.values() if name in each.name)
        variable.assign(value)
        path = tf.train.Checkpoint(opt=opt).save(str(self.folder / "object"))
        variable.assign(good)
        with pytest.raises(mpls.errors.SavedStateError, match=f"opt/loss_scale/{name}"):
            tf.train.Checkpoint(opt=opt).restore(path)
        assert variable.numpy() == good


class TestObjectBased:
    @parameterized.expand([(each, v2) for each in artefacts("v1_object") for v2 in (False, True)], name_func=named)
    @pytest.mark.default_run("each value", by=lambda artefact, v2: (artefact.id, v2))
    def test_restores_what_any_release_wrote(self, artefact: Artefact, v2: bool) -> None:
        with graph(v2=v2), v1.Session() as session:
            training = GraphTraining(artefact)
            checkpoint = v1.train.Checkpoint(optimizer=training.opt, step=training.global_step, **training.by_name)
            session.run(v1.global_variables_initializer())
            checkpoint.restore(artefact.prefix).assert_consumed().run_restore_ops(session)
            assert_goes_on(training)

    @parameterized.expand([("before",), ("after",), ("partly",)])
    def test_into_eager_mode(self, when: str) -> None:
        artefact = Artefact("v1_object.momentum", "tf115")
        state = numbers(artefact.expected["state"])
        values = [tf.Variable(entry["v"], name=entry["name"]) for entry in artefact.spec["vars"]]
        inner = v1.train.MomentumOptimizer(0.1, 0.9)
        opt = ours(inner, mpls.v1.DynamicLossScale(8, 2))
        step = tf.Variable(0, dtype=tf.int64)
        w, b = values
        opt.compute_gradients(lambda: tf.reduce_sum(w), [w])
        if when != "after":
            trained = values if when == "before" else [w]
            opt.apply_gradients([(tf.zeros_like(each), each) for each in trained])
        status = tf.train.Checkpoint(optimizer=opt, step=step, w=w, b=b).restore(artefact.prefix)
        opt.compute_gradients(lambda: tf.reduce_sum(w), [w])
        opt.apply_gradients([(tf.constant(float("nan"), shape=each.shape), each) for each in values])
        status.assert_consumed()
        assert w.numpy().tolist() == np.float32(state["vars"]["w"]).tolist()
        for each, name in ((w, "w"), (b, "b")):
            slot = opt.get_slot(each, "momentum").numpy()
            assert np.array_equal(slot, np.float32(state["slots"][f"{name}/momentum"]))
        # The step was skipped.
        assert opt.state_dict()["scale"] == state["scale"] / 2
        assert int(step.numpy()) == state["gs"]

    def test_of_the_wrapped_optimizer_alone_goes_into_the_wrapper(self, tmp_path: pathlib.Path) -> None:
        def adam(wrap: Any) -> tuple[Any, Any, Any]:
            inner = v1.train.AdamOptimizer(0.5)
            return v1.Variable([1.0, 2.0], name="w", use_resource=True), inner, wrap(inner, "dynamic")

        weight, _, opt = adam(bare)
        opt.minimize(lambda: tf.reduce_sum(weight * weight), var_list=[weight])
        path = tf.train.Checkpoint(opt=opt, w=weight).save(str(tmp_path / "bare"))
        reader = tf.train.load_checkpoint(path)
        for is_built in (False, True):
            weight, inner, opt = adam(ours)
            opt.compute_gradients(lambda: tf.reduce_sum(weight), [weight])  # noqa: B023
            if is_built:
                opt.apply_gradients([(tf.zeros_like(weight), weight)])
            with pytest.warns(mpls.errors.MplsWarning, match="opt holds no loss scale"):
                tf.train.Checkpoint(opt=opt, w=weight).restore(path).expect_partial()
            opt.apply_gradients([(tf.fill([2], float("nan")), weight)])
            for slot in ("m", "v"):
                key = f"w/.OPTIMIZER_SLOT/opt/{slot}/.ATTRIBUTES/VARIABLE_VALUE"
                assert np.array_equal(inner.get_slot(weight, slot).numpy(), reader.get_tensor(key))
            for power in ("beta1_power", "beta2_power"):
                (variable,) = (each for each in inner.variables() if power in each.name)
                assert variable.numpy() == reader.get_tensor(f"opt/{power}/.ATTRIBUTES/VARIABLE_VALUE")
