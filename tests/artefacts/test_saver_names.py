"""Checkpoints of `tf.compat.v1.train.Saver`, of random programs: with TensorFlow's own wrappers and with those of mpls.

A program has several optimizers, of two families, each with a dynamic loss scale, a fixed one or none, in a name scope,
with conditionals of the program's own before. What one writes and the other reads is the same, or it is an error.
"""

from __future__ import annotations

import random
import unittest
from typing import Any, NamedTuple

import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.errors
import mpls.keras
import mpls.v1
from tests.folders import InFolder
from tests.golden.replay import control_flow

v1 = tf.compat.v1


class Part(NamedTuple):
    """An optimizer of a program."""

    kind: str
    scale: str
    scope: str
    conditionals: int


WRAPPERS = {
    ("native", "Adam"): v1.mixed_precision.MixedPrecisionLossScaleOptimizer,
    ("native", "SGD"): tf_keras.mixed_precision.LossScaleOptimizer,
    ("mpls", "Adam"): mpls.v1.MixedPrecisionLossScaleOptimizer,
    ("mpls", "SGD"): mpls.keras.LossScaleOptimizer,
}


class Program:
    """A program in the default graph."""

    def __init__(self, who: str, parts: list[Part]) -> None:
        self.variables: list[Any] = []
        for number, part in enumerate(parts):
            weight = v1.get_variable(f"w{number}", initializer=1.0, use_resource=True)
            with v1.name_scope(part.scope or None):
                for _ in range(part.conditionals):
                    tf.cond(v1.placeholder(tf.bool, []), lambda: tf.constant(1.0), lambda: tf.constant(2.0))
                self._add(WRAPPERS[who, part.kind], part, weight)

    def _add(self, wrapper: Any, part: Part, weight: Any) -> None:
        if part.kind == "Adam":
            inner = v1.train.AdamOptimizer()
            scales: dict[str, Any] = {"dynamic": ("dynamic",), "fixed": (8.0,)}
            opt = wrapper(inner, *scales[part.scale]) if part.scale in scales else inner
            opt.minimize(weight * weight, var_list=[weight])
            self.variables += inner._get_beta_accumulators()
        else:
            inner = tf_keras.optimizers.legacy.SGD(0.1, momentum=0.9)
            fixed = {"dynamic": False, "initial_scale": 8.0} if part.scale == "fixed" else {}
            opt = inner if part.scale == "none" else wrapper(inner, **fixed)
            opt.minimize(lambda: weight * weight, [weight])
            self.variables += [inner.iterations, *inner._hyper.values()]
        self.variables += [inner.get_slot(weight, name) for name in inner.get_slot_names()]
        self.variables.append(weight)

    def save(self, path: str) -> list[float]:
        """Save a number of its own in each variable; return the numbers."""
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for number, variable in enumerate(self.variables):
                variable.load(number + 10, session)
            v1.train.Saver().save(session, path)
            return session.run(self.variables)

    def restore(self, path: str) -> list[float]:
        """Restore; return the values, or nothing if there is an error, which leaves all as it was."""
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            before = session.run(self.variables)
            try:
                v1.train.Saver().restore(session, path)
            except (tf.errors.NotFoundError, mpls.errors.SavedStateError):
                assert session.run(self.variables) == before
                return []
            return session.run(self.variables)


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
            with tf.Graph().as_default(), control_flow(v2=is_second):
                saved = Program(writer, parts).save(path)
            # TensorFlow's own wrapper finds what was written with the same control flow.
            for read_second in {is_second, is_second or reader == "mpls"}:
                with tf.Graph().as_default(), control_flow(v2=read_second):
                    restored = Program(reader, parts).restore(path)
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
        with control_flow(v2=False):
            with tf.Graph().as_default():
                Program("mpls", parts).save(path)
            with tf.Graph().as_default():
                self.assertEqual(Program("native", parts).restore(path), [])
