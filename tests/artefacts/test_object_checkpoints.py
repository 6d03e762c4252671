"""Object-based checkpoints of all releases, restored with TensorFlow's own calls into wrappers of the same family."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.errors
import mpls.keras
import mpls.v1
from mpls.inspect import describe
from tests.folders import InFolder
from tests.golden.replay import named

from . import replay
from .replay import Artefact, Training, artefacts, assert_goes_on, assert_state, recorded_state, training_of

SCALED = [each for each in artefacts("keras_object") if not each.is_plain]
PLAIN = [each for each in artefacts("keras_object") if each.is_plain]
SAMPLE = ("tf22.exp", "tf24.lso2", "tf21.lso3", "tf21.k3")


def id_and_run(artefact: Artefact, *_: str) -> tuple[str, str]:
    """Return what the default run has some of: each artefact, and each release that wrote it."""
    return artefact.id, artefact.run


class TestScaled(InFolder):
    @parameterized.expand(itertools.product(SCALED, ("built", "not built")), name_func=named)
    @pytest.mark.default_run("each value", by=lambda artefact, when: (artefact.id, (artefact.run, when)))
    def test_all_comes_back(self, artefact: Artefact, when: str) -> None:
        training = training_of(artefact)
        if when == "built":
            training.build()
        status = training.checkpoint().restore(artefact.prefix)
        if when == "built":
            status.assert_existing_objects_matched()
        elif artefact.family != "legacy":
            training.build()
        assert_goes_on(training)
        status.assert_consumed()

    @parameterized.expand(itertools.product(SCALED), name_func=named)
    @pytest.mark.default_run("each value", by=id_and_run)
    def test_when_only_the_first_variable_is_there(self, artefact: Artefact) -> None:
        training = training_of(artefact, variables=1)
        if artefact.family == "legacy":
            # New optimizers, and those of Keras 3, are built once, for all variables.
            training.optimizer._create_all_weights(training.variables)
        checkpoint = training.checkpoint()
        status = checkpoint.restore(artefact.prefix)
        for index, entry in list(enumerate(artefact.spec["vars"]))[1:]:
            training.variables.append(replay.make_variable(artefact, index))
            setattr(checkpoint, entry["name"], training.variables[index])
        if artefact.family != "legacy":
            training.build()
        assert_goes_on(training)
        status.assert_consumed()

    @parameterized.expand([(each,) for each in SCALED if each.run in SAMPLE], name_func=named)
    def test_what_is_written_after_it_has_the_keys_of_today(self, artefact: Artefact) -> None:
        training = training_of(artefact)
        training.build()
        checkpoint = training.checkpoint()
        checkpoint.restore(artefact.prefix).assert_consumed()
        written = tf.train.list_variables(checkpoint.save(str(self.folder / "ckpt")))
        keys = {key for key, _ in written} - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
        # From 2.3 on, the wrapped optimizer has no place of its own in that of the wrapper.
        assert keys == {key.replace("/base_optimizer", "") for key in artefact.expected["checkpoint"]}


class TestPlain(InFolder):
    @parameterized.expand(itertools.product(PLAIN, ["built", "not built"]), name_func=named)
    @pytest.mark.default_run("each value", by=id_and_run)
    def test_all_comes_back_and_the_scale_starts_fresh(self, artefact: Artefact, when: str) -> None:
        training = training_of(artefact)
        if when == "built":
            training.build()
        with pytest.warns(mpls.errors.MplsWarning, match="holds no loss scale.*stays at") as caught:
            status = training.checkpoint().restore(artefact.prefix)
        (warning,) = caught
        assert artefact.prefix in str(warning.message)
        assert warning.filename == __file__
        scale = float(replay.scale_of(training.optimizer))
        assert f"at {scale}." in str(warning.message)
        if when == "not built":
            training.optimizer._create_all_weights(training.variables)
        expected = recorded_state(artefact, artefact.expected["state"])
        expected.update(scale=scale, good=int(training.optimizer.dynamic_counter.numpy()))
        assert_state(training.values(), expected, exact=True, what="state")
        # It goes on as without scaling.
        for factors, expected in zip(artefact.spec["post"], artefact.expected["next"], strict=True):
            training.step(factors)
            wanted, state = recorded_state(artefact, expected), training.values()
            for key in ("vars", "slots", "iter"):
                assert_state({key: state[key]}, {key: wanted[key]}, exact=False)
        # Told once.
        training.checkpoint().restore(artefact.prefix).expect_partial()
        status.expect_partial()

    def test_in_a_graph(self) -> None:
        v1, sgd = tf.compat.v1, tf_keras.optimizers.legacy.SGD
        with tf.Graph().as_default(), v1.Session() as session:
            bare = sgd(0.25)
            session.run(bare.iterations.initializer)
            path = v1.train.Checkpoint(opt=bare).save(str(self.folder / "bare"), session)
            opt = mpls.keras.LossScaleOptimizer(sgd(0.5), initial_scale=8)
            with pytest.warns(mpls.errors.MplsWarning, match=r"holds no loss scale.*stays at 8\.0"):
                tf.train.Checkpoint(opt=opt).restore(path).expect_partial()

    @parameterized.expand([(each,) for each in SCALED if each.run in SAMPLE[1:]], name_func=named)
    def test_into_a_fixed_scale(self, artefact: Artefact) -> None:
        training = training_of(artefact)
        inner = replay.make_inner(artefact)
        fixed = mpls.keras.LossScaleOptimizer(inner, dynamic=False, initial_scale=64.0)
        training = Training(artefact, training.variables, fixed, inner)
        training.build()
        training.checkpoint().restore(artefact.prefix).expect_partial()
        expected = recorded_state(artefact, artefact.expected["state"])
        expected.update(scale=64.0, good=None)
        assert_state(training.values(), expected, exact=True)


ONE_OF_EACH = [Artefact("keras_object.adam", run) for run in SAMPLE]
ONE_OF_EACH += [Artefact("keras_object.plain", run) for run in ("tf24.lso2", "tf21.lso3", "tf21.k3")]
ONE_OF_EACH += [Artefact("v1_object.momentum", "tf24")]


class TestSavedAgainBeforeTheFirstStep(InFolder):
    """Then a file of a legacy optimizer has its slots, and no counter."""

    @parameterized.expand([("SGD", {"momentum": 0.5}), ("Adam", {})])
    def test_goes_on(self, algorithm: str, settings: dict[str, Any]) -> None:
        def made(value: float) -> tuple[Any, Any, Any]:
            inner = getattr(tf_keras.optimizers.legacy, algorithm)(0.125, **settings)
            weight, opt = tf.Variable(value), mpls.keras.LossScaleOptimizer(inner, initial_scale=8)
            return weight, opt, tf.train.Checkpoint(weight=weight, opt=opt)

        weight, opt, checkpoint = made(1.0)
        for _ in range(3):
            opt.minimize(lambda: weight**2, [weight])
        kept, path = float(weight), checkpoint.write(str(self.folder / "1"))
        _, _, checkpoint = made(0.0)
        checkpoint.read(path)
        path = checkpoint.write(str(self.folder / "2"))
        (described,) = describe(path)["optimizers"]
        assert (described["family"], described["algorithm"], described["iterations"]) == ("legacy", algorithm, None)
        restored, again, checkpoint = made(0.0)
        checkpoint.read(path)
        converted, target, _ = made(kept)
        target.iterations.assign(3)
        again.iterations.assign(3)
        if algorithm == "Adam":
            with pytest.raises(mpls.errors.SavedStateError, match="how many steps there have been"):
                mpls.convert_state(path, target, [converted])
            # From the checkpoint that has the counter.
            path = str(self.folder / "1")
        mpls.convert_state(path, target, [converted])
        for one, other in ((weight, opt), (restored, again), (converted, target)):
            other.minimize(lambda one=one: one**2, [one])
        assert float(weight) == float(restored) == float(converted)
        assert opt.state_dict() == again.state_dict() == target.state_dict()


class TestOtherFamilies:
    @parameterized.expand(
        [
            (into, saved)
            for into in (Artefact("keras_object.adam", run) for run in ("tf21.lso2", "tf21.lso3", "tf21.k3"))
            for saved in ONE_OF_EACH
            if into.family != saved.family
        ],
        name_func=named,
    )
    def test_are_refused_and_nothing_changes(self, into: Artefact, saved: Artefact) -> None:
        training = training_of(into)
        training.build()
        before = training.values()
        with pytest.raises(mpls.errors.SavedStateError) as caught:
            training.checkpoint().restore(saved.prefix)
        message = str(caught.value)
        assert message.startswith(f"{saved.prefix}: optimizer")
        assert f"mpls.convert_state({saved.prefix!r}, opt, variables)" in message
        assert_state(training.values(), before, exact=True)
        # Nor does anything of it arrive later.
        late = training_of(into)
        checkpoint = late.checkpoint()
        with pytest.raises(mpls.errors.SavedStateError):
            checkpoint.restore(saved.prefix)
        late.build()
        assert int(late.inner.iterations.numpy()) == int(into.family == "legacy")

    @parameterized.expand([(each,) for each in ONE_OF_EACH if each.family != "v1"], name_func=named)
    def test_are_refused_by_the_v1_wrapper(self, saved: Artefact) -> None:
        variable = tf.Variable([1.0, -2.0])
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(replay.v1.train.MomentumOptimizer(0.1, 0.9), "dynamic")
        with pytest.raises(mpls.errors.SavedStateError, match=r"tf\.compat\.v1\.train optimizer"):
            tf.train.Checkpoint(optimizer=opt, w=variable).restore(saved.prefix)
        assert variable.numpy().tolist() == [1.0, -2.0]
        assert opt.get_slot(variable, "momentum") is None


HOSTILE = [("scale", value) for value in (0.0, -1.0, float("nan"), float("inf"))]
HOSTILE += [("good_steps", -1), ("good_steps", 3)]
FAMILIES = ["tf21.lso2", "tf21.lso3", "tf21.k3"]
KEYS = {
    "keras3": {"scale": "optimizer/dynamic_scale", "good_steps": "optimizer/step_counter"},
    "legacy": {"scale": "optimizer/loss_scale/current_loss_scale", "good_steps": "optimizer/loss_scale/good_steps"},
}


def hostile_training(run: str, what: str, value: float) -> Training:
    """Return a training with a state that no run can have."""
    training = training_of(Artefact("keras_object.adam", run))
    training.build()
    loss_scale = training.optimizer._loss_scale
    variable = loss_scale._current_loss_scale if what == "scale" else loss_scale._num_good_steps
    variable.assign(value)
    return training


class TestHostileState(InFolder):
    @parameterized.expand(itertools.product(FAMILIES, HOSTILE), name_func=named)
    def test_is_refused_and_nothing_changes(self, run: str, hostile: tuple[str, float]) -> None:
        what, value = hostile
        path = hostile_training(run, what, value).checkpoint().save(str(self.folder / "ckpt"))
        training = training_of(Artefact("keras_object.adam", run))
        training.build()
        training.step([1.0, 1.0])
        before = training.values()
        with pytest.raises(mpls.errors.SavedStateError) as caught:
            training.checkpoint().restore(path)
        key = KEYS.get(training.artefact.family, KEYS["legacy"])[what]
        assert str(caught.value).startswith(f"{path}: {key}/.ATTRIBUTES/VARIABLE_VALUE must ")
        assert_state(training.values(), before, exact=True)
        # Not built, the optimizer keeps nothing of it either.
        late = training_of(Artefact("keras_object.adam", run), variables=1)
        checkpoint = late.checkpoint()
        with pytest.raises(mpls.errors.SavedStateError):
            checkpoint.restore(path)
        late.variables.append(replay.make_variable(late.artefact, 1))
        checkpoint.b = late.variables[1]
        assert late.variables[0].numpy().tolist() == [1.0, -2.0]
        assert float(late.variables[1].numpy()) == 0.5
        late.optimizer._create_all_weights(late.variables)
        assert int(late.inner.iterations.numpy()) == 0
        assert not any(np.any(slot) for slot in (late.slots().values() if run == "tf21.lso2" else late.slots()))

    @parameterized.expand(itertools.product(FAMILIES), name_func=named)
    def test_is_refused_where_the_optimizer_comes_later_or_is_attached(self, run: str) -> None:
        artefact = Artefact("keras_object.adam", run)
        path = hostile_training(run, "scale", -1.0).checkpoint().save(str(self.folder / "ckpt"))
        training = training_of(artefact)
        training.build()
        training.step([1.0, 1.0])
        before = training.values()
        checkpoint = tf.train.Checkpoint()
        checkpoint.restore(path)
        with pytest.raises(mpls.errors.SavedStateError, match="positive, finite"):
            checkpoint.optimizer = training.optimizer
        assert_state(training.values(), before, exact=True)
        root = tf.Module()
        root.w, root.b = training.variables
        with pytest.raises(mpls.errors.SavedStateError, match="positive, finite"):
            tf.train.Checkpoint(root, optimizer=training.optimizer).restore(path)

    @parameterized.expand(itertools.product(HOSTILE), name_func=named)
    def test_of_a_loss_scale_that_is_saved_by_itself(self, hostile: tuple[str, float]) -> None:
        what, value = hostile
        saved, loss_scale = mpls.v1.DynamicLossScale(8, 2), mpls.v1.DynamicLossScale(8, 2)
        variable, other = tf.Variable(1.0), tf.Variable(2.0)
        (saved._current_loss_scale if what == "scale" else saved._num_good_steps).assign(value)
        path = tf.train.Checkpoint(scale=saved, variable=variable).save(str(self.folder / "ckpt"))
        data = pathlib.Path(f"{path}.data-00000-of-00001")
        for content, wanted in (
            (data.read_bytes(), "must be "),
            (b"?" * 24 + data.read_bytes()[24:], "must be readable"),
        ):
            data.write_bytes(content)
            with pytest.raises(mpls.errors.SavedStateError, match=rf"ckpt-1: scale/\S+ {wanted}"):
                tf.train.Checkpoint(scale=loss_scale, variable=other).restore(path)
        assert (float(loss_scale()), float(other.numpy())) == (8.0, 2.0)
