"""Checkpoints of `tf.compat.v1.train.Saver` with two optimizers, which do not say which steps and scales are whose."""

from __future__ import annotations

import unittest
from typing import Any

import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
import mpls.v1
from mpls.errors import SavedStateError
from mpls.inspect import describe, inspect
from tests.folders import InFolder
from tests.transfer.training import OPTIMIZERS, optimizer, steps_of
from tests.warned import warned

V1: Any = tf.compat.v1


class SeveralOptimizersTest(InFolder, unittest.TestCase):
    def setUp(self) -> None:
        self.path = str(self.folder / "gan")

    def _save(self, make: Any, scales: tuple[Any, Any], critic_steps: int, names: tuple[str, str]) -> None:
        """Train a critic, and a generator for 6 steps, which the global step counts; and save them."""
        with tf.Graph().as_default(), V1.Session() as session:
            made = [None if each is None else mpls.v1.DynamicLossScale(each) for each in dict.fromkeys(scales)]
            steps = []
            for variable, name, scale in zip("dg", names, (made[0], made[-1]), strict=True):
                weight = V1.get_variable(variable, initializer=2.0)
                inner = make(0.1, name=name)
                wrapped = inner if scale is None else mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scale)
                counter = V1.train.get_or_create_global_step() if variable == "g" else None
                steps.append(wrapped.minimize(weight**2, counter, [weight]))
            session.run(V1.global_variables_initializer())
            for step, count in zip(steps, (critic_steps, 6), strict=True):
                for _ in range(count):
                    session.run(step)
            V1.train.Saver().save(session, self.path)

    def _convert(self, target: Any, variable: str, key: str | None) -> tuple[Any, list[str]]:
        weight = tf.Variable(1.0, name=variable)
        with warned() as texts:
            report = mpls.convert_state(self.path, target, {variable: weight}, key=key)
        return report, texts

    @parameterized.expand([("named", ("AdamD", "AdamG")), ("unnamed", ("Adam", "Adam"))])
    def test_the_user_chooses_the_steps_of_an_adam(self, label: str, names: tuple[str, str]) -> None:
        self._save(V1.train.AdamOptimizer, (None, None), 18, names)
        for family in OPTIMIZERS:
            for variable, key, steps in zip("dg", names, (18, 6), strict=True):
                with self.subTest(family=family, variable=variable):
                    target = optimizer(family, "Adam", 0.1)
                    with self.assertRaisesRegex(
                        SavedStateError, r"beta1_power: 18 steps, beta1_power_1: 6 steps.*iterations\.assign"
                    ):
                        self._convert(target, variable, key)
                    self.assertEqual(int(target.iterations), 0)
                    target.iterations.assign(steps)
                    report, texts = self._convert(target, variable, key)
                    self.assertEqual((report.iterations, steps_of(target)), (steps, steps))
                    self.assertEqual([each for each in texts if "beta1_power" in each], [])
        # A number that is not in the file was not chosen from it.
        target = optimizer("legacy", "Adam", 0.1)
        target.iterations.assign(3)
        _, texts = self._convert(target, "g", names[1])
        self.assertIn("beta1_power_1: 6 steps", texts[0])
        for found in describe(self.path)["optimizers"]:
            self.assertEqual((found["iterations"], found["other_state"]), (None, []))
            self.assertEqual((len(found["possible_steps"]), found["possible_steps"]["global_step"]), (5, 6))

    def test_adams_with_the_same_steps_need_no_choice(self) -> None:
        self._save(V1.train.AdamOptimizer, (None, None), 6, ("AdamD", "AdamG"))
        for family in OPTIMIZERS:
            self.assertEqual(self._convert(optimizer(family, "Adam"), "g", "AdamG")[0].iterations, 6)

    @parameterized.expand(
        [
            ("only_one", ("AdamD", "AdamG"), {"beta1_power": "beta1_power"}),
            # TensorFlow's own wrapper around one of two Adams gives its powers such names.
            ("in_a_conditional", ("Adam", "Adam"), {"beta1_power": "beta1_power", "cond/beta1_power": "beta1_power_1"}),
        ]
    )
    def test_powers_that_may_be_of_either_adam(
        self, label: str, names: tuple[str, str], powers: dict[str, str]
    ) -> None:
        self._save(V1.train.AdamOptimizer, (None, None), 18, names)
        reader = tf.train.load_checkpoint(self.path)
        kept = {name: name for name in reader.get_variable_to_shape_map() if "beta" not in name}
        with tf.Graph().as_default(), V1.Session() as session:
            for name, old in {**kept, **powers}.items():
                V1.get_variable(name, initializer=reader.get_tensor(old))
            session.run(V1.global_variables_initializer())
            V1.train.Saver().save(session, self.path)
        with self.assertRaisesRegex(SavedStateError, "belong.*: beta1_power: 18 steps.*, global_step: 6 steps"):
            self._convert(optimizer("legacy", "Adam"), "g", names[1])

    def test_a_global_step_may_be_that_of_another_optimizer(self) -> None:
        self._save(V1.train.RMSPropOptimizer, (64.0, 32.0), 18, ("RMSProp", "RMSProp"))
        target = mpls.keras.LossScaleOptimizer(optimizer("legacy", "RMSprop", momentum=0.5))
        report, texts = self._convert(target, "d", None)
        self.assertEqual((report.iterations, steps_of(target)), (0, 0))
        self.assertIn("global_step: 6 steps: the file does not say", texts[0])

    @parameterized.expand([("named", ("AdamD", "AdamG")), ("unnamed", ("Adam", "Adam"))])
    def test_loss_scales(self, label: str, names: tuple[str, str]) -> None:
        self._save(V1.train.AdamOptimizer, (1024.0, 1024.0), 6, names)
        target = mpls.keras.LossScaleOptimizer(optimizer("legacy", "Adam"))
        report, _ = self._convert(target, "g", names[1])
        self.assertEqual((report.loss_scale, float(target.loss_scale)), ((1024.0, 12), 1024.0))
        self.assertIn("loss scale: dynamic, now 1024, good steps 12", inspect(self.path)[1])

        self._save(V1.train.AdamOptimizer, (1024.0, 64.0), 6, names)
        target = mpls.keras.LossScaleOptimizer(optimizer("legacy", "Adam"))
        report, texts = self._convert(target, "g", names[1])
        self.assertEqual((report.loss_scale, float(target.loss_scale)), (None, 2.0**15))
        told = r"current_loss_scale: 1024 with 6 good steps, current_loss_scale_1: 64 .* they belong"
        call = r'"scale": SCALE, "good_steps": GOOD_STEPS\}\).'
        self.assertRegex(texts[-1], rf"^convert_state: {told}. The target's loss scale stays at 32768. To .*{call}$")
        self.assertRegex("\n".join(report.left_out), told)
        self.assertNotRegex("\n".join(texts[:-1]), told)
        self._convert(optimizer("legacy", "Adam"), "g", names[1])
        found = describe(self.path)["optimizers"]
        self.assertEqual([each["key"] for each in found], list(dict.fromkeys(names)))
        self.assertEqual(sum(each["slots"]["variables"] for each in found), 2)
        for each in found:
            # Both have made the same steps, so their powers are the same.
            self.assertEqual((len(each["other_state"]), each["possible_steps"]), (4, {"global_step": 6}))
        self.assertEqual({each["possible_scales"]["current_loss_scale_1"]["scale"] for each in found}, {64.0})
        self.assertIn("current_loss_scale_1 (dynamic", " ".join(inspect(self.path)[1].split()))
