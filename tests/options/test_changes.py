"""`set_scale` and `configure` at odd moments: from elsewhere, of restored and copied loss scales, and in files."""

from __future__ import annotations

import copy
import sys
import threading
import unittest
from typing import Any

import tensorflow as tf
from parameterized import parameterized

import mpls.contrib
import mpls.v1

from .trainers import FAMILIES, Trainer

v1 = tf.compat.v1
INF = float("inf")


def in_a_thread(call: Any) -> None:
    errors: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


class ElsewhereTest(unittest.TestCase):
    @parameterized.expand([("v1",), ("legacy",), ("experimental",)])
    def test_a_session_may_be_passed_outside_of_its_graph(self, family: str) -> None:
        with Trainer(
            family, "session", lambda: FAMILIES[family](8.0, 2, adjustable=True, count_steps=True)
        ) as training:
            opt, session = training.opt, training.session
            training.take(1.0)

            def change() -> None:
                opt.set_scale(4, session=session)
                opt.configure(max_scale=2, session=session)
                state = opt.state_dict(session)
                self.assertEqual((state["scale"], state["applied_steps"]), (2.0, 1))
                opt.load_state_dict({**state, "good_steps": 1, "applied_steps": 7}, session)

            in_a_thread(change)
            state = opt.state_dict(session)
            found = [state[name] for name in ("scale", "max_scale", "good_steps", "applied_steps")]
            self.assertEqual(found, [2.0, 2.0, 1, 7])

    def test_so_with_managers(self) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 5)
            session.run(v1.global_variables_initializer())

            def change() -> None:
                manager.load_state_dict({**manager.state_dict(session), "scale": 4.0}, session)

            in_a_thread(change)
            self.assertEqual(manager.state_dict(session)["scale"], 4.0)

    @parameterized.expand([("adjustable", True), ("constants", None)])
    def test_a_replica_changes_nothing(self, name: str, adjustable: bool | None) -> None:
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            opt = FAMILIES["new"](8.0, 2, adjustable=adjustable)
        before = opt.get_config(), opt.state_dict()
        for call, method in (
            (lambda: opt.set_scale(4), "set_scale"),
            (lambda: opt.configure(growth_steps=7, max_scale=99), "configure"),
        ):
            with self.assertRaisesRegex(ValueError, rf"^{method}\(\) must be called outside of the function"):
                strategy.run(call)
        self.assertEqual((opt.get_config(), opt.state_dict()), before)

    def test_errors_name_the_method(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, adjustable=True)
        calls = {"set_scale": lambda: loss_scale.set_scale(4), "configure": lambda: loss_scale.configure(min_scale=2)}
        for method, call in calls.items():
            with self.assertRaisesRegex(RuntimeError, rf"^{method}\(\) must be called outside of tf.function"):
                tf.function(call)()
            with tf.Graph().as_default(), self.assertRaisesRegex(RuntimeError, rf"^{method}\(\) needs a session"):
                call()

    def test_an_eager_step_of_another_thread_does_not_undo_a_change(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(2.0**15, 1)
        finite, infinite = [tf.constant(1.0)], [tf.constant(INF)]
        stopped = threading.Event()

        def train() -> None:
            while not stopped.is_set():
                loss_scale.update(finite)
                loss_scale.update(infinite)

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        thread = threading.Thread(target=train)
        thread.start()
        try:
            for _ in range(3000):
                loss_scale.set_scale(2.0**15)
                loss_scale.set_scale(2.0**10)
                # The steps double and halve it in turns.
                self.assertLessEqual(float(loss_scale()), 2.0**12)
        finally:
            stopped.set()
            thread.join()
            sys.setswitchinterval(before)

    def test_a_copy_is_not_built_in_where_the_original_is(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, 2)
        tf.function(loss_scale.update)([tf.constant(1.0)])
        for again in (copy.deepcopy(loss_scale), copy.copy(loss_scale)):
            again.configure(growth_steps=5)
            self.assertEqual(again.get_config()["increment_period"], 5)


if __name__ == "__main__":
    unittest.main()
