"""Checkpoints of `tf.compat.v1.train.Saver`, of random programs: with TensorFlow's own wrappers and with those of mpls.

A program has several optimizers, of two families, each with a dynamic loss scale, a fixed one or none, in a name scope,
with conditionals of the program's own before. What one writes and the other reads is the same, or it is an error.
"""

from __future__ import annotations

import contextlib
import random
import re
import unittest
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.errors
import mpls.keras
import mpls.v1
from tests.folders import InFolder
from tests.golden.replay import control_flow, named
from tests.warned import warned

v1 = tf.compat.v1


class Part(NamedTuple):
    """An optimizer of a program."""

    kind: str = "Adam"
    scale: str = "dynamic"
    scope: str = ""
    conditionals: int = 0


ours = mpls.v1.MixedPrecisionLossScaleOptimizer
WRAPPERS: dict[tuple[str, str], Any] = {
    ("native", "Adam"): v1.mixed_precision.MixedPrecisionLossScaleOptimizer,
    ("native", "SGD"): tf_keras.mixed_precision.LossScaleOptimizer,
    ("mpls", "Adam"): ours,
    ("mpls", "SGD"): mpls.keras.LossScaleOptimizer,
    ("scale of TensorFlow", "Adam"): lambda inner, _: ours(inner, v1.mixed_precision.DynamicLossScale(8.0, 2000)),
}


class Program:
    """A program in the default graph, and its session."""

    def __init__(self, who: str, parts: list[Part], session: Any) -> None:
        self.session = session
        self.variables: list[Any] = []
        self._powers: list[Any] = []
        for number, part in enumerate(parts):
            weight = v1.get_variable(f"w{number}", initializer=1.0)
            with v1.name_scope(part.scope or None):
                for _ in range(part.conditionals):
                    tf.cond(v1.placeholder(tf.bool, []), lambda: tf.constant(1.0), lambda: tf.constant(2.0))
                self._add(WRAPPERS.get((who, part.kind)), part, weight)
        self.variables += [each for each in v1.global_variables() if re.search("loss_scale|good_steps", each.op.name)]
        session.run(v1.global_variables_initializer())

    def _add(self, wrapper: Any, part: Part, weight: Any) -> None:
        if part.kind == "Adam":
            inner = v1.train.AdamOptimizer()
            scales: dict[str, Any] = {"dynamic": ("dynamic",), "fixed": (8.0,)}
            opt = wrapper(inner, *scales[part.scale]) if part.scale in scales else inner
            opt.minimize(weight * weight, var_list=[weight])
            self._powers += inner._get_beta_accumulators()
            self.variables += inner._get_beta_accumulators()
        else:
            inner = tf_keras.optimizers.legacy.SGD(0.1, momentum=0.9)
            fixed = {"dynamic": False, "initial_scale": 8.0} if part.scale == "fixed" else {}
            opt = inner if part.scale == "none" else wrapper(inner, **fixed)
            opt.minimize(lambda: weight * weight, [weight])
            self.variables += [inner.iterations, *inner._hyper.values()]
        self.variables += [inner.get_slot(weight, name) for name in inner.get_slot_names()]
        self.variables.append(weight)

    def values(self) -> list[float]:
        return self.session.run(self.variables)

    def powers(self) -> list[float]:
        """Return the values of Adam's powers, in the order in which they were made."""
        return self.session.run(self._powers)

    def save(self, path: str) -> list[float]:
        """Save a number of its own in each variable; return the numbers."""
        for number, variable in enumerate(self.variables):
            variable.load(number + 10, self.session)
        v1.train.Saver().save(self.session, path)
        return self.values()

    def restore(self, path: str) -> list[float]:
        """Restore; return the values, or nothing if there is an error, which leaves all as it was."""
        before, saver = self.values(), v1.train.Saver()
        v1.get_default_graph().finalize()
        try:
            saver.restore(self.session, path)
        except (tf.errors.NotFoundError, mpls.errors.SavedStateError):
            assert self.values() == before
            return []
        return self.values()


@contextlib.contextmanager
def program(who: str, parts: list[Part], *, v2: bool = False) -> Iterator[Program]:
    with tf.Graph().as_default(), control_flow(v2=v2), v1.Session() as session:
        yield Program(who, parts, session)


def parts_of(seed: int) -> list[Part]:
    """Return a random program; of four seeds, one has dynamic scales only and one scope only, and one has all kinds."""
    chosen = random.Random(seed)
    scales = (("dynamic",), ("dynamic", "fixed"), ("dynamic",), ("dynamic", "fixed", "none"))[seed % 4]
    scopes = ("", "", "a", "b/c") if seed % 4 else (chosen.choice(("", "a", "b/c")),)
    return [
        Part(chosen.choice(("Adam", "SGD")), chosen.choice(scales), chosen.choice(scopes), chosen.choice((0, 0, 1)))
        for _ in range(chosen.randint(2, 4))
    ]


class SaverNamesTest(InFolder, unittest.TestCase):
    def assert_same(self, parts: list[Part], *, is_second: bool, is_found: bool) -> None:
        """Require that what one program writes, the other restores whole or not at all."""
        scales = {part.scale for part in parts}
        for writer, reader in (("native", "mpls"), ("mpls", "native"), ("mpls", "mpls")):
            path = str(self.folder / f"{writer}_{reader}")
            with program(writer, parts, v2=is_second) as made:
                saved = made.save(path)
            # TensorFlow's own wrapper finds what was written with the same control flow.
            for read_second in {is_second, is_second or reader == "mpls"}:
                with program(reader, parts, v2=read_second) as made:
                    restored = made.restore(path)
                if restored or writer == reader or (reader == "mpls" and "none" not in scales) or is_found:
                    self.assertEqual(restored, saved, (writer, reader, parts))

    @parameterized.expand([(seed,) for seed in range(40)])
    @pytest.mark.default_run("each value", by=lambda seed: (seed % 4,))
    def test_the_same_is_restored_or_nothing(self, seed: int) -> None:
        self.assert_same(parts_of(seed), is_second=seed % 8 > 3, is_found=seed % 4 == 0)

    def test_only_optimizers_of_a_kind_count(self) -> None:
        optimizers = (("SGD", "fixed"), ("Adam", "fixed"), ("Adam", "dynamic"), ("SGD", "fixed"), ("SGD", "fixed"))
        self.assert_same([Part(*each, "", 0) for each in optimizers], is_second=False, is_found=True)

    def test_fixed_scales_after_a_dynamic_one(self) -> None:
        # With a slash, a scope is entered again, and is the same.
        for kind, scope in (("Adam", ""), ("Adam", "a/"), ("SGD", "")):
            parts = [Part(kind, scale, scope, 0) for scale in ("dynamic", "fixed", "fixed")]
            self.assert_same(parts, is_second=False, is_found=False)
        # TensorFlow's own wrappers would call other variables SGD/iter: mpls writes nothing that they would read.
        path = str(self.folder / "model")
        with program("mpls", parts) as made:
            made.save(path)
        with program("native", parts) as made:
            self.assertEqual(made.restore(path), [])


def adams(*scopes: str, conditionals: int = 0, scaled: int = 3) -> list[Part]:
    """Return an Adam for each scope, of which the first few are wrapped."""
    return [
        Part(scale="dynamic" if number < scaled else "none", scope=scope, conditionals=conditionals)
        for number, scope in enumerate(scopes)
    ]


class TestNamesOfPowers(InFolder):
    def saved_by(self, who: str, parts: list[Part], *, v2: bool = False) -> tuple[str, list[float]]:
        """Save a program; return the path, and the values of Adam's powers."""
        path = str(self.folder / "model")
        with program(who, parts, v2=v2) as made:
            made.save(path)
            return path, made.powers()

    def assert_found(self, path: str, expected: list[float], parts: list[Part], *, v2: bool = False) -> None:
        with program("mpls", parts, v2=v2) as made:
            assert made.restore(path)
            assert made.powers() == expected

    @parameterized.expand(
        [
            (who, scaled, v2, scopes, conditionals)
            for who, scaled in (("native", 3), ("mpls", 0), ("mpls", 1), ("mpls", 3))
            for v2 in (False, True)
            for scopes, conditionals in ((("",), 2), (("", "", ""), 0), (("b", "a"), 1))
        ],
        name_func=named,
    )
    @pytest.mark.default_run("each value", by=lambda who, scaled, *values: ((who, scaled), *values))
    def test_are_found_in_what_anybody_wrote(
        self, who: str, scaled: int, v2: bool, scopes: tuple[str, ...], count: int
    ) -> None:
        path, expected = self.saved_by(who, adams(*scopes, conditionals=count, scaled=scaled), v2=v2)
        for read_v2 in (False, True):
            with warned() as texts:
                self.assert_found(path, expected, adams(*scopes, conditionals=count), v2=read_v2)
            assert len(texts) == max(0, len(scopes) - scaled)

    @parameterized.expand([(who, written) for who in ("native", "mpls") for written in (0, 2, 5)])
    def test_are_found_among_other_numbers_of_conditionals(self, who: str, written: int) -> None:
        path, expected = self.saved_by(who, adams("", "", conditionals=written))
        self.assert_found(path, expected, adams("", "", conditionals=max(0, 2 - written)))

    def test_are_found_in_another_scope_without_the_loss_scale(self) -> None:
        path, expected = self.saved_by("mpls", adams("a"))
        with program("mpls", adams("c")) as made:
            of_scale = ("c/current_loss_scale", "c/good_steps")
            others = [each for each in v1.global_variables() if each.op.name not in of_scale]
            v1.train.Saver(others).restore(made.session, path)
            assert made.powers() == expected
            # The file has a loss scale, so that it was not saved without.
            with pytest.raises(tf.errors.NotFoundError, match=r"Key c/.* not found in checkpoint: build .* scopes of"):
                v1.train.Saver().restore(made.session, path)

    @parameterized.expand([(("b",),), (("b", "a"),)])
    def test_are_found_by_their_own_names(self, scopes: tuple[str, ...]) -> None:
        path, expected = self.saved_by("mpls", adams("a", "b"), v2=True)
        # The names of TensorFlow's own wrapper go by the order: beta1_power is that of a.
        by_scope = {"a": expected[:2], "b": expected[2:]}
        self.assert_found(path, [value for scope in scopes for value in by_scope[scope]], adams(*scopes), v2=True)

    def test_are_found_for_reference_variables(self) -> None:
        v1.disable_resource_variables()
        try:
            self.assert_found(*self.saved_by("native", adams("")), adams(""))
        finally:
            v1.enable_resource_variables()

    def test_of_one_of_two_optimizers(self) -> None:
        path, expected = self.saved_by("native", adams("", conditionals=2))
        with program("mpls", adams("", "")) as made:
            of_second = r"w1|beta\d_power_1|current_loss_scale_1|good_steps_1"
            variables = [each for each in v1.global_variables() if not re.match(of_second, each.op.name)]
            v1.train.Saver(variables).restore(made.session, path)
            assert made.powers()[: len(expected)] == expected

    def test_of_fewer_optimizers_are_refused(self) -> None:
        class OnePower(v1.train.AdamOptimizer):  # type: ignore[misc,name-defined]
            def _create_slots(self, variables: list[Any]) -> None:
                self._create_non_slot_variable(0.5, "beta1_power", variables[0])

            def _apply_dense(self, grad: Any, var: Any) -> Any:
                return var.assign_sub(grad)

            _resource_apply_dense, _finish = _apply_dense, v1.train.Optimizer._finish

        def build(wrap: Any, *kinds: Any) -> None:
            weight = v1.get_variable("w", initializer=1.0, use_resource=True)
            for kind in kinds:
                wrap(kind(), "dynamic").minimize(weight * weight, var_list=[weight])

        with tf.Graph().as_default(), control_flow(v2=False), v1.Session() as session:
            build(WRAPPERS["native", "Adam"], v1.train.AdamOptimizer, OnePower)
            session.run(v1.global_variables_initializer())
            path = v1.train.Saver().save(session, str(self.folder / "two"))
        with tf.Graph().as_default(), control_flow(v2=False), v1.Session() as session:
            build(ours, v1.train.AdamOptimizer, OnePower, OnePower)
            of_powers = [each for each in v1.global_variables() if "_power" in each.op.name]
            with pytest.raises(tf.errors.NotFoundError, match="Key beta1_power not found in checkpoint, nor"):
                v1.train.Saver(of_powers).restore(session, path)

    def test_of_loss_scales_of_tensorflow_too(self) -> None:
        path = str(self.folder / "model")
        with program("scale of TensorFlow", adams("")) as made:
            saved = made.save(path)
        for who in ("scale of TensorFlow", "mpls", "native"):
            with program(who, adams("")) as made:
                assert made.restore(path) == saved
