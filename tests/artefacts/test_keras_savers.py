"""Checkpoints of `tf.compat.v1.train.Saver` with the Keras wrapper in graph mode: who reads what others wrote.

How users come there is a program of `keras_savers`: an optimizer, one or more steps, made in one of five ways, in
scopes, with either control flow, with a dynamic or a fixed scale.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls
import mpls.errors
import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.saved.reading import read

from . import keras_savers
from .keras_savers import AFTER, DATA, RECORDED, Program, Spec, graph

v1 = tf.compat.v1

RECORDS = sorted((each.parent.parent.name, each.parent.name) for each in DATA.glob("*/*/expected.json"))
CHECKPOINT_ALONE = ("iterations", "learning_rate", "variable", "momentum", "m", "v", "vhat", "rms", "mg")


def named(function: Any, index: int, call: Any) -> str:
    return re.sub(r"\W+", "_", f"{function.__name__}_{index}_{'_'.join(map(str, call.args))}")[:120]


class Subclass(mpls.keras.LossScaleOptimizer):
    """A user's own."""


def bare(inner: Any, spec: Spec) -> Any:
    return inner


native = keras_savers.wrap_natively(tf_keras)


def public(inner: Any, spec: Spec, cls: Any = mpls.keras.LossScaleOptimizer) -> Any:
    if not spec.dynamic:
        return cls(inner, dynamic=False, initial_scale=8.0)
    return cls(inner, initial_scale=8.0, dynamic_growth_steps=2)


def subclass(inner: Any, spec: Spec) -> Any:
    return public(inner, spec, Subclass)


def experimental(inner: Any, spec: Spec) -> Any:
    scale = mpls.experimental.DynamicLossScale(8.0, 2) if spec.dynamic else 8.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mpls.errors.MplsDeprecationWarning)
        return mpls.experimental.LossScaleOptimizer(inner, scale)


def as_of(release: str) -> Callable[[Any, Spec], Any]:
    def wrap(inner: Any, spec: Spec) -> Any:
        with mpls.install(as_of=release):
            return experimental(inner, spec)

    return wrap


WRAPS = {
    "bare": bare,
    "native": native,
    "public": public,
    "subclass": subclass,
    "experimental": experimental,
    "as of 2.3": as_of("2.3"),
}
Wrap = Callable[[Any, Spec], Any]


@contextlib.contextmanager
def program(wrap: Wrap, spec: Spec, *, is_initialized: bool = True) -> Iterator[tuple[Program, Any]]:
    """Build a program in a graph, with a session."""
    with graph(spec), v1.Session() as session:
        made = Program(tf_keras, spec, wrap)
        made.build()
        if is_initialized:
            session.run(v1.global_variables_initializer())
        yield made, session


def saved_by(wrap: Wrap, spec: Spec, folder: pathlib.Path) -> tuple[str, list[Any]]:
    """Train, save, and go on; return the path, and the states at the save and after each further step."""
    with program(wrap, spec) as (made, session):
        saver = v1.train.Saver()
        made.train(session)
        path = saver.save(session, str(folder / "model"))
        states = [made.state(session)]
        for factor in AFTER:
            made.step(session, factor)
            states.append(made.state(session))
    return path, states


def assert_near(actual: dict[str, Any], expected: dict[str, Any], *, exact: bool = False) -> None:
    assert set(actual) == set(expected)
    for key, value in expected.items():
        if exact or key.startswith(("scale", "good", "iterations")):
            assert actual[key] == value, key
        else:
            np.testing.assert_allclose(actual[key], value, rtol=2e-6, err_msg=key)


def assert_goes_on(made: Program, session: Any, states: list[Any]) -> None:
    """Require the state to be that of the save, to the last bit, and the next steps to be those of who saved."""
    assert_near(made.state(session), states[0], exact=True)
    for factor, state in zip(AFTER, states[1:], strict=True):
        made.step(session, factor)
        assert_near(made.state(session), state)


def keys_in(path: str) -> set[str]:
    return {name for name, _ in tf.train.list_variables(path)}


class TestRecorded:
    # Those of the first release are read with the other control flow too.
    @parameterized.expand(
        [
            (name, release, second)
            for name, release in RECORDS
            for second in (False, True)
            if second == RECORDED[name].second or release == "1.15"
        ],
        name_func=named,
    )
    @pytest.mark.default_run("one case")
    def test_restores_what_any_release_wrote(self, name: str, release: str, second: bool) -> None:
        states = json.loads((DATA / name / release / "expected.json").read_text())["states"]
        wrap = as_of(release) if release in ("1.15", "2.0", "2.2", "2.3") else public
        with program(wrap, RECORDED[name]._replace(second=second)) as (made, session):
            v1.train.Saver().restore(session, str(DATA / name / release / "ckpt"))
            assert_goes_on(made, session, states)


# Who writes, who reads, and the program.
CROSS = [
    ("native", "public", Spec("SGD", "gradients")),
    ("native", "experimental", Spec("SGD", "minimize", second=True)),
    ("native", "as of 2.3", Spec("SGD", "updates", scopes=("", ""))),
    ("native", "public", Spec("SGD", "model", second=True, scopes=("", ""))),
    ("native", "subclass", Spec("Adam", "gradients", second=True, scopes=("b", "a"))),
    ("native", "experimental", Spec("Adam", "model", dynamic=False)),
    ("native", "subclass", Spec("RMSprop", "updates", second=True, scopes=("", "", "a"), is_shared=True)),
    ("native", "public", Spec("RMSprop", "twice", scopes=("a",), conditionals=2)),
    ("public", "native", Spec("Adam", "model", second=True)),
    ("subclass", "native", Spec("SGD", "minimize", second=True, scopes=("a",))),
    ("as of 2.3", "native", Spec("RMSprop", "twice", scopes=("a",), conditionals=1)),
    ("public", "native", Spec("RMSprop", "gradients", dynamic=False, scopes=("", ""))),
    ("public", "public", Spec("Adam", "gradients", scopes=("b", "a"))),
    ("experimental", "experimental", Spec("SGD", "twice", second=True, scopes=("", ""))),
    ("public", "bare", Spec("SGD", "gradients", scopes=("", "a"))),
    ("bare", "subclass", Spec("Adam", "model", second=True)),
    ("bare", "as of 2.3", Spec("Adam", "updates", dynamic=False)),
]


class TestCross:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: pathlib.Path) -> None:
        self.folder = tmp_path

    @parameterized.expand(CROSS, name_func=named)
    @pytest.mark.default_run("one case", by=lambda writer, reader, spec: (writer, reader))
    def test_training_goes_on(self, writer: str, reader: str, spec: Spec) -> None:
        if "bare" in (writer, reader):
            self.assert_goes_on_without_scaling(writer, reader, spec)
            return
        path, states = saved_by(WRAPS[writer], spec, self.folder)
        with program(WRAPS[reader], spec) as (made, session):
            v1.train.Saver().restore(session, path)
            assert_goes_on(made, session, states)

    def assert_goes_on_without_scaling(self, writer: str, reader: str, spec: Spec) -> None:
        # The steps that only one of them would skip are not taken.
        with program(WRAPS[writer], spec) as (made, session):
            made.train(session, [1.0, 0.5])
            path = v1.train.Saver().save(session, str(self.folder / "model"))
            states = [made.state(session)]
            made.step(session, 1.0)
            states.append(made.state(session))
        with program(WRAPS[reader], spec) as (made, session):
            count = len(spec.scopes) if writer == "bare" and spec.dynamic else 0
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                v1.train.Saver().restore(session, path)
                v1.train.Saver().restore(session, path)
            assert [each.category for each in caught] == [mpls.errors.MplsWarning] * count
            assert all("holds no loss scale" in str(each.message) for each in caught)
            got = made.state(session)
            assert all(got[key] == 8.0 for key in got if key.startswith("scale"))
            self.assert_same_without_scale(got, states[0], exact=True)
            made.step(session, 1.0)
            self.assert_same_without_scale(made.state(session), states[1], exact=False)

    def assert_same_without_scale(self, got: dict[str, Any], expected: dict[str, Any], *, exact: bool) -> None:
        states = (
            {key: value for key, value in each.items() if key.partition("/")[0] in CHECKPOINT_ALONE}
            for each in (got, expected)
        )
        assert_near(*states, exact=exact)

    @parameterized.expand([(writer, second) for writer in ("native", "public") for second in (False, True)])
    @pytest.mark.default_run("one case")
    def test_with_the_other_control_flow(self, writer: str, second: bool) -> None:
        spec = Spec("SGD", scopes=("b", ""), second=second, conditionals=1)
        path, states = saved_by(WRAPS[writer], spec, self.folder)
        with program(public, spec._replace(second=not second)) as (made, session):
            v1.train.Saver().restore(session, path)
            assert_goes_on(made, session, states)

    @parameterized.expand([("native",), ("public",)])
    @pytest.mark.default_run("one case")
    def test_dynamic_to_fixed(self, writer: str) -> None:
        spec = Spec("Adam", scopes=("a",))
        path, states = saved_by(WRAPS[writer], spec, self.folder)
        with program(public, spec._replace(dynamic=False)) as (made, session):
            v1.train.Saver().restore(session, path)
            expected = {key: value for key, value in states[0].items() if not key.startswith(("scale", "good"))}
            assert_near(made.state(session), expected, exact=True)


def by_name() -> dict[str, Any]:
    return {each.op.name: each for each in v1.global_variables()}


def optimizer_only() -> list[Any]:
    return [each for each in v1.global_variables() if "SGD/" in each.op.name]


class TestKindsOfSavers:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: pathlib.Path) -> None:
        self.folder = tmp_path

    @parameterized.expand([("native",), ("public",), ("bare",)])
    @pytest.mark.default_run("one case")
    def test_in_a_monitored_session(self, writer: str) -> None:
        spec = Spec("Adam", "minimize", scopes=("a",))
        with graph(spec), v1.Session() as session:
            made = Program(tf_keras, spec, WRAPS[writer])
            v1.train.get_or_create_global_step()
            session.run(v1.global_variables_initializer())
            made.train(session, [1.0, 0.5])
            v1.train.Saver().save(session, str(self.folder / "model"))
            expected = made.state(session)
        with graph(spec), contextlib.ExitStack() as stack:
            made = Program(tf_keras, spec, public)
            reads = made.reads()
            v1.train.get_or_create_global_step()
            if writer == "bare":
                stack.enter_context(pytest.warns(mpls.errors.MplsWarning, match="holds no loss scale"))
            arguments = {"save_checkpoint_secs": None, "log_step_count_steps": None}
            session = stack.enter_context(
                v1.train.MonitoredTrainingSession(checkpoint_dir=str(self.folder), **arguments)
            )
            got = {key: value.tolist() for key, value in session.run(reads).items()}
            assert {key: got[key] for key in expected} == expected
            made.step(session, 1.0)

    def test_write_nothing_twice_where_names_are_the_same(self) -> None:
        spec = Spec("Adam", second=True)
        native_path, _ = saved_by(native, spec, self.folder)
        native_keys = keys_in(native_path)
        path, _ = saved_by(public, spec, self.folder)
        assert keys_in(path) == native_keys


class TestInspection:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: pathlib.Path) -> None:
        self.folder = tmp_path

    @parameterized.expand(
        [(how, second, count) for how in ("gradients", "model") for second in (False, True) for count in (1, 2)]
    )
    @pytest.mark.default_run("one case", by=lambda how, second, count: (how, second))
    def test_sees_each_optimizer_once(self, how: str, second: bool, count: int) -> None:
        spec = Spec("Adam", how, second=second, scopes=("",) * count)
        path, states = saved_by(public, spec, self.folder)
        records = [each for each in read(path).optimizers if each.iterations is not None]
        scopes = {"gradients": ["Adam", "Adam_1"], "model": ["training/Adam", "training_2/Adam"]}[how]
        assert [each.key for each in records] == scopes[:count]
        for number, record in enumerate(records):
            assert record.iterations == states[0][f"iterations/{number}"]
            assert record.hyperparameters["learning_rate"] == states[0][f"learning_rate/{number}"]
            assert sorted(record.hyperparameters) == ["beta_1", "beta_2", "decay", "learning_rate"]
            assert len(record.variables) == 2
        if count == 1:
            assert records[0].loss_scale is not None
            assert records[0].loss_scale.scale == states[0]["scale/0"]

    @parameterized.expand([(False,), (True,)])
    @pytest.mark.default_run("one case")
    def test_keeps_optimizers_apart_that_are_alike(self, second: bool) -> None:
        with program(public, Spec("Adam", second=second, scopes=("", ""))) as (made, session):
            session.run(made.optimizers[1].learning_rate.assign(0.1))
            path = v1.train.Saver().save(session, str(self.folder / "model"))
        records = [each for each in read(path).optimizers if each.iterations is not None]
        assert [(each.key, len(each.variables)) for each in records] == [("Adam", 2), ("Adam_1", 2)]


class TestDoubt:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: pathlib.Path) -> None:
        self.folder = tmp_path

    def assert_refused(self, path: str, spec: Spec, error: Any, match: str, var_list: Any = None) -> None:
        with program(public, spec) as (made, session):
            made.train(session)
            before = made.state(session)
            with pytest.raises(error, match=match):
                v1.train.Saver(var_list and var_list()).restore(session, path)
            assert_near(made.state(session), before, exact=True)

    def test_two_places_for_one_optimizer(self) -> None:
        spec = Spec("SGD", scopes=("a", "b"), is_shared=True)
        path, _ = saved_by(native, spec, self.folder)
        self.assert_refused(
            path, Spec("SGD"), tf.errors.NotFoundError, "Key SGD/.* not found in checkpoint, nor", optimizer_only
        )

    def test_another_number_of_optimizers(self) -> None:
        path, _ = saved_by(native, Spec("SGD"), self.folder)
        self.assert_refused(
            path, Spec("SGD", scopes=("", ""), is_shared=True), tf.errors.NotFoundError, "Key SGD.* not found"
        )

    def test_another_optimizer(self) -> None:
        path, _ = saved_by(native, Spec("SGD"), self.folder)
        self.assert_refused(path, Spec("Adam"), tf.errors.NotFoundError, "Key Adam/.* not found")

    def test_the_wrong_optimizers_state_is_refused(self) -> None:
        # TensorFlow's own wrapper leaves the plain name to an optimizer that is not wrapped.
        with graph(Spec()), v1.Session() as session:
            wrapped = Program(tf_keras, Spec(), native)
            plain = Program(tf_keras, Spec(), bare)
            session.run(v1.global_variables_initializer())
            plain.train(session, [1.0, 2.0, 1.0])
            wrapped.train(session, [1.0])
            path = v1.train.Saver().save(session, str(self.folder / "both"))
        assert {"SGD/iter", "cond_1/SGD/iter"} <= keys_in(path)
        self.assert_refused(
            path, Spec(), mpls.errors.SavedStateError, "SGD/.* and cond_1/SGD/.* must have the same", optimizer_only
        )

    @parameterized.expand([("current_loss_scale", 0.0), ("current_loss_scale", float("nan")), ("good_steps", 3)])
    @pytest.mark.default_run("one case")
    def test_numbers_that_cannot_be(self, name: str, value: float) -> None:
        with program(native, Spec()) as (made, session):
            made.train(session)
            session.run(by_name()[name].assign(value))
            path = v1.train.Saver().save(session, str(self.folder / "hostile"))
        self.assert_refused(path, Spec(), mpls.errors.SavedStateError, f"hostile: {name} must")

    def test_half_a_loss_scale(self) -> None:
        with program(native, Spec()) as (made, session):
            made.train(session)
            variables = [each for each in v1.global_variables() if each.op.name != "good_steps"]
            path = v1.train.Saver(variables).save(session, str(self.folder / "half"))
        self.assert_refused(path, Spec(), tf.errors.NotFoundError, "Key good_steps not found")
