"""What loading costs beside the framework's own loader: the memory, which can be relied on where times cannot."""

from __future__ import annotations

import contextlib
import io
import unittest

import pytest
from parameterized import parameterized

from tests.performance.test_benchmark import load

# Of files of 190 MB it is 1.0; what is there once, whatever the file, is not yet little of one that is quick to load.
_MOST = 1.5


def printed(*arguments: str) -> tuple[int, str, str]:
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = load("loading").run(arguments)
    return status, output.getvalue(), errors.getvalue()


@pytest.mark.programs
class LoadingTest(unittest.TestCase):
    # One repeat is noise.
    @parameterized.expand([("keras/keras/adam",), ("tf_keras/keras/adam",), ("tf_keras/h5/sgd",)])
    @pytest.mark.long
    def test_a_load_takes_little_more_memory_than_the_frameworks_own(self, cell: str) -> None:
        status, output, _ = printed("--only", cell, "--repeats", "3", "--megabytes", "80")
        self.assertEqual(status, 0)
        name, size, *_, ratio = output.splitlines()[-1].split()
        self.assertEqual(name, cell)
        self.assertAlmostEqual(float(size), 80, delta=2)
        self.assertLess(float(ratio), _MOST)


if __name__ == "__main__":
    unittest.main()
