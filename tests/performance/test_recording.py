"""The benchmark of what recording a step costs: its command, and that what it measures records."""

from __future__ import annotations

import contextlib
import io
import unittest

import pytest

from tests.performance.test_benchmark import load


class RecordingTest(unittest.TestCase):
    @pytest.mark.full
    def test_each_small_model_has_a_line(self) -> None:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = load("recording").run(["--seconds", "0.05", "--families", "v1", "--every", "1", "2"])
        self.assertEqual(status, 0)
        _, header, *rows = output.getvalue().splitlines()
        self.assertEqual(header.split(), ["ms", "every", "1", "every", "2"])
        names = [row[:36].strip() for row in rows]
        self.assertEqual(
            names,
            [
                "v1/eager/controller",
                "v1/function/deep perceptron",
                "v1/session/deep perceptron",
                "v1/function/perceptron",
            ],
        )
        for row in rows:
            milliseconds, every, _ = map(float, row[36:].split())
            self.assertGreater(milliseconds, 0)
            # Whatever else runs on the machine, to record every step costs something.
            self.assertGreater(every, 0)


if __name__ == "__main__":
    unittest.main()
