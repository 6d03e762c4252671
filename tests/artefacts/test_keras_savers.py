"""Checkpoints of `tf.compat.v1.train.Saver` with the Keras wrapper in graph mode: who reads what others wrote.

How users come there is a program of `keras_savers`: an optimizer, one or more steps, made in one of five ways, in
scopes, with either control flow, with a dynamic or a fixed scale.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import re
from collections.abc import Iterator
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
from tests.folders import InFolder
from tests.golden.replay import control_flow, named

from .keras_savers import AFTER, BEFORE, DATA, RECORDED, Program, Spec, Wrap

v1 = tf.compat.v1

RECORDS = sorted((each.parent.parent.name, each.parent.name) for each in DATA.glob("*/*/expected.json"))


class Subclass(mpls.keras.LossScaleOptimizer):
    """A user's own."""


def bare(inner: Any, spec: Spec) -> Any:
    return inner


def public(inner: Any, spec: Spec, cls: Any = mpls.keras.LossScaleOptimizer) -> Any:
    if not spec.dynamic:
        return cls(inner, dynamic=False, initial_scale=8.0)
    return cls(inner, initial_scale=8.0, dynamic_growth_steps=2)


native = functools.partial(public, cls=tf_keras.mixed_precision.LossScaleOptimizer)
subclass = functools.partial(public, cls=Subclass)


def experimental(inner: Any, spec: Spec) -> Any:
    scale = mpls.experimental.DynamicLossScale(8.0, 2) if spec.dynamic else 8.0
    with mpls.errors.without_deprecations():
        return mpls.experimental.LossScaleOptimizer(inner, scale)


def as_of(release: str) -> Wrap:
    def wrap(inner: Any, spec: Spec) -> Any:
        with mpls.install(as_of=release):
            return experimental(inner, spec)

    return wrap


WRAPS: dict[str, Wrap] = {
    "native": native,
    "public": public,
    "subclass": subclass,
    "experimental": experimental,
    "as of 2.3": as_of("2.3"),
}


def mixed(wrap: Wrap, *dynamic: bool) -> Wrap:
    """Return what wraps one optimizer after the other, with a dynamic scale or a fixed one."""
    kinds = iter(dynamic)
    return lambda inner, spec: wrap(inner, spec._replace(dynamic=next(kinds)))


@contextlib.contextmanager
def program(wrap: Wrap, spec: Spec) -> Iterator[tuple[Program, Any]]:
    """Build a program in a graph, with a session."""
    with tf.Graph().as_default(), control_flow(v2=spec.second), v1.Session() as session:
        made = Program(tf_keras, spec, wrap)
        made.build()
        session.run(v1.global_variables_initializer())
        yield made, session


def saved_by(wrap: Wrap, spec: Spec, folder: pathlib.Path) -> tuple[str, list[Any]]:
    """Train, save, and go on; return the path, and the states at the save and after each further step."""
    with program(wrap, spec) as (made, session):
        saver = v1.train.Saver()
        # With two updates for each step too, the state differs from the initial one.
        made.train(session, (*BEFORE, float("inf")))
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
]


class TestCross(InFolder):
    @parameterized.expand(CROSS, name_func=named)
    @pytest.mark.default_run("each value", by=lambda writer, reader, spec: ((writer == reader, reader, spec.dynamic),))
    def test_training_goes_on(self, writer: str, reader: str, spec: Spec) -> None:
        path, states = saved_by(WRAPS[writer], spec, self.folder)
        with program(WRAPS[reader], spec) as (made, session):
            v1.train.Saver().restore(session, path)
            assert_goes_on(made, session, states)

    def test_a_bare_optimizers_file_leaves_the_scale_fresh(self) -> None:
        spec = Spec("Adam", "model", second=True)
        with program(bare, spec) as (made, session):
            made.train(session, [1.0, 0.5])
            path = v1.train.Saver().save(session, str(self.folder / "model"))
            state = made.state(session)
        with program(public, spec) as (made, session):
            with pytest.warns(mpls.errors.MplsWarning, match="holds no loss scale") as caught:
                v1.train.Saver().restore(session, path)
            assert len(caught) == 1
            # Told once.
            v1.train.Saver().restore(session, path)
            got = made.state(session)
            assert_near({key: got[key] for key in state}, state, exact=True)
            assert {got[key] for key in got if key.startswith("scale")} == {8.0}

    # Each experimental wrapper has two loss scales, which count in the numbers of names.
    @parameterized.expand([("native", "experimental"), ("public", "native")])
    def test_names_that_the_user_has_put_before(self, writer: str, reader: str) -> None:
        def saver() -> Any:
            return v1.train.Saver({f"mine/{name}": each for name, each in by_name().items()})

        spec = Spec("SGD", scopes=("", ""))
        with program(WRAPS[writer], spec) as (made, session):
            made.train(session, [1.0, 2.0])
            path = saver().save(session, str(self.folder / "model"))
            state = made.state(session)
        with program(WRAPS[reader], spec) as (made, session):
            saver().restore(session, path)
            assert_near(made.state(session), state, exact=True)

    @parameterized.expand([("native",), ("public",)])
    @pytest.mark.default_run("one case")
    def test_dynamic_to_fixed(self, writer: str) -> None:
        spec = Spec("Adam", scopes=("a",))
        path, states = saved_by(WRAPS[writer], spec, self.folder)
        with program(public, spec._replace(dynamic=False)) as (made, session):
            v1.train.Saver().restore(session, path)
            expected = {key: value for key, value in states[0].items() if not key.startswith(("scale", "good"))}
            assert_near(made.state(session), expected, exact=True)

    def test_nothing_is_written_twice_where_names_are_the_same(self) -> None:
        spec = Spec("Adam", second=True)
        native_path, _ = saved_by(native, spec, self.folder)
        native_keys = keys_in(native_path)
        path, _ = saved_by(public, spec, self.folder)
        assert keys_in(path) == native_keys


def by_name() -> dict[str, Any]:
    return {each.op.name: each for each in v1.global_variables()}


def named_like(pattern: str) -> list[Any]:
    return [each for each in v1.global_variables() if re.search(pattern, each.op.name)]


class TestDoubt(InFolder):
    def assert_refused(self, path: str, spec: Spec, error: Any, match: str, var_list: Any = None) -> None:
        with program(public, spec) as (made, session):
            made.train(session)
            before = made.state(session)
            with pytest.raises(error, match=match):
                v1.train.Saver(var_list and var_list()).restore(session, path)
            assert_near(made.state(session), before, exact=True)

    @parameterized.expand(
        [
            (
                "two_places",
                Spec("SGD", scopes=("a", "b"), is_shared=True),
                Spec("SGD"),
                "Key SGD/.* not found in checkpoint, nor",
                functools.partial(named_like, "SGD/"),
            ),
            ("another_number", Spec("SGD"), Spec("SGD", scopes=("", ""), is_shared=True), "Key SGD.* not found", None),
            ("another_optimizer", Spec("SGD"), Spec("Adam"), "Key Adam/.* not found", None),
        ]
    )
    def test_what_is_not_found(self, name: str, saved: Spec, spec: Spec, match: str, var_list: Any) -> None:
        path, _ = saved_by(native, saved, self.folder)
        self.assert_refused(path, spec, tf.errors.NotFoundError, match, var_list)

    def test_the_wrong_optimizers_state_is_refused(self) -> None:
        # TensorFlow's own wrapper leaves the plain name to an optimizer that is not wrapped.
        with tf.Graph().as_default(), control_flow(v2=False), v1.Session() as session:
            wrapped = Program(tf_keras, Spec(), native)
            plain = Program(tf_keras, Spec(), bare)
            session.run(v1.global_variables_initializer())
            plain.train(session, [1.0, 2.0, 1.0])
            # Only the learning rates and the slots differ.
            for _ in range(3):
                wrapped.step(session, 1.0)
            path = v1.train.Saver().save(session, str(self.folder / "both"))
        assert {"SGD/iter", "cond_1/SGD/iter"} <= keys_in(path)
        text = "both: SGD/.* and cond_1/SGD/.* must have the same"
        for part in ("SGD/", "SGD/[dilm]"):
            self.assert_refused(path, Spec(), mpls.errors.SavedStateError, text, functools.partial(named_like, part))
        # An optimizer with a fixed scale before it has one name only.
        spec = Spec("SGD", scopes=("", ""))
        with program(mixed(public, False, True), spec) as (_, session):
            path = v1.train.Saver().save(session, str(self.folder / "two"))
            reader = tf.train.load_checkpoint(path)
            values = {key: reader.get_tensor(key) for key in keys_in(path)}
        with tf.Graph().as_default(), v1.Session() as session:
            changed = {key: v1.Variable(value + 1 if "cond" in key else value) for key, value in values.items()}
            session.run(v1.global_variables_initializer())
            path = v1.train.Saver(changed).save(session, path)
        error = pytest.raises(mpls.errors.SavedStateError, match=r"two: SGD_1/.* must have the same")
        with program(mixed(public, False, True), spec) as (_, session), error:
            v1.train.Saver().restore(session, path)
        # So mpls, which leaves that name to the first optimizer, writes nothing that the wrapper would read.
        with program(public, Spec()) as (_, session):
            assert any(key.startswith("cond") for key in keys_in(v1.train.Saver().save(session, path)))
            Program(tf_keras, Spec(), bare)
            session.run(v1.global_variables_initializer())
            assert not any(key.startswith("cond") for key in keys_in(v1.train.Saver().save(session, path)))

    def test_half_a_loss_scale(self) -> None:
        with program(native, Spec()) as (made, session):
            made.train(session)
            variables = [each for each in v1.global_variables() if each.op.name != "good_steps"]
            path = v1.train.Saver(variables).save(session, str(self.folder / "half"))
        self.assert_refused(path, Spec(), tf.errors.NotFoundError, "Key good_steps not found")
