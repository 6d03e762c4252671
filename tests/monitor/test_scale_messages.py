"""The log has at most one line for a change of the scale, and warns of falls in a row."""

from __future__ import annotations

import logging
import unittest
from collections.abc import Callable
from typing import Any

import pytest
import tf_keras
from parameterized import parameterized

from mpls.monitor import LossScaleCallback
from mpls.monitor.scale_readings import ScaleMessages

from .models import data, model_of

INFO, WARNING = logging.INFO, logging.WARNING
CASES = {
    "nothing changes": ([16, 16, 16], 2, []),
    "one growth, one skip": ([16, 16, 32, 16, 16], 2, [INFO, INFO]),
    "again and again": ([16, 32, 16, 32, 16, 32, 16], 2, [INFO] * 6),
    "three falls": ([16, 8, 4, 2], 2, [INFO, INFO, WARNING]),
    "three falls with pauses": ([16, 8, 8, 4, 4, 2, 2], 2, [INFO, INFO, WARNING]),
    "growth in between": ([16, 8, 4, 8, 4, 2], 2, [INFO] * 5),
    "several between two readings": ([2.0**10, 2.0**6], 2, [WARNING]),
    "by another factor": ([1000, 100, 10, 1], 10, [INFO, INFO, WARNING]),
    "it warns at doublings": (
        [2.0**-each for each in range(13)],
        2,
        [*[INFO] * 2, *[WARNING, INFO, INFO], WARNING, *[INFO] * 5, WARNING],
    ),
    "not a number": ([16, float("nan"), float("nan"), 1], 2, [INFO, INFO]),
    "infinite": ([float("inf"), 1.0], 2, [INFO]),
}


class MessagesTest(unittest.TestCase):
    @parameterized.expand(CASES.items())
    def test_levels(self, name: str, case: tuple[list[float], float, list[int]]) -> None:
        scales, factor, expected = case
        messages = ScaleMessages(factor)
        with self.assertLogs("mpls", logging.INFO) as caught:
            logging.getLogger("mpls").info("first")
            for scale in scales:
                messages.note(scale, "here")
        self.assertEqual([record.levelno for record in caught.records[1:]], expected)

    @parameterized.expand(
        [
            ("few", [0, 3, 9], []),
            ("many", [5, 10, 15, 19, 20, 45], [10, 20, 45]),
            ("not read for long", [0, 100], [100]),
            ("again", [12, 0, 12], [12, 12]),
            ("not counted", [None, None], []),
        ]
    )
    def test_a_scale_that_stays_while_steps_are_skipped(
        self, name: str, skips: list[int | None], expected: list[int]
    ) -> None:
        messages = ScaleMessages()
        with self.assertLogs("mpls", logging.INFO) as caught:
            logging.getLogger("mpls").info("first")
            messages.note(1.0, "before")
            for each in skips:
                messages.note(1.0, "in step 7", each)
        lines = [record.getMessage() for record in caught.records[1:] if record.levelno == WARNING]
        self.assertEqual(len(caught.records), 1 + len(expected))
        for line, number in zip(lines, expected, strict=True):
            self.assertIn(f"stays at 1 in step 7, and the last {number} steps were all skipped", line)

    def test_skipped_steps_before_a_fall_do_not_count(self) -> None:
        messages = ScaleMessages()
        with self.assertLogs("mpls", logging.INFO) as caught:
            for scale, skips in ((4.0, 0), (1.0, 12), (1.0, 12), (1.0, 21), (1.0, 22)):
                messages.note(scale, f"after {skips}", skips)
        self.assertEqual([record.levelno for record in caught.records], [INFO, WARNING])
        self.assertIn("stays at 1 after 22, and the last 10 steps", caught.records[1].getMessage())

    def test_a_scale_at_its_floor_in_fit(self) -> None:
        model = model_of("new", count_steps=True, min_scale=16)
        with self.assertLogs("mpls", logging.INFO) as caught:
            model.fit(**data(0, 1, 2, 3), epochs=3, callbacks=[LossScaleCallback()])
        (line,) = (record.getMessage() for record in caught.records)
        self.assertIn("stays at 16 in epoch 3, batch 2, and the last 10 steps", line)

    @parameterized.expand(
        [
            ("set_scale", lambda opt: opt.set_scale(2.0)),
            ("configure", lambda opt: opt.configure(max_scale=2.0)),
            ("load_state_dict", lambda opt: opt.load_state_dict({**opt.state_dict(), "scale": 2.0, "good_steps": 0})),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_what_the_program_sets_is_no_fall(self, name: str, change: Callable[[Any], None]) -> None:
        model = model_of("new", adjustable=True)
        change_it = tf_keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: change(model.optimizer) if batch == 1 else None
        )
        with self.assertLogs("mpls", logging.INFO) as caught:
            model.fit(**data(3), callbacks=[change_it, LossScaleCallback()])
        self.assertEqual([record.levelno for record in caught.records], [INFO, INFO])
        first, second = (record.getMessage() for record in caught.records)
        told = "the program has set it since the last reading."
        self.assertEqual(first, f"loss scale 16 -> 2 in epoch 1, batch 2: {told}")
        self.assertIn("loss scale 2 -> 1 in epoch 1, batch 4: gradients were not finite", second)

    def test_a_scale_that_falls_to_its_floor(self) -> None:
        messages = ScaleMessages(floor=1.0)
        with self.assertLogs("mpls", WARNING) as caught:
            for scale in (32, 16, 8, 4, 2, 1, 2, 1):
                messages.note(scale, "in step 7")
        first, second = (record.getMessage() for record in caught.records)
        self.assertIn("fallen 3 times in a row", first)
        self.assertIn("2 -> 1 in step 7: it has reached its floor, from 32", second)
        self.assertIn("mpls docs the-scale-is-stuck-at-its-floor", second)
