"""Whether the program says a word is told however the program was started."""

from __future__ import annotations

import sys
import unittest

import pytest
from parameterized import parameterized

from .test_run import Programs

# Answers where an error is shown; it must not say the word itself.
ASKING = """
import os, sys, threading
from mpls.hints.failures import Failure
from mpls.hints.mentions import mentions
from mpls.hints.sites import site_of

def show(error):
    failure = Failure(error, error, site_of(error), {})
    found = [mentions(failure, [os.environ["ASKED"]], where_unknown=unknown) for unknown in (True, False)]
    print("yes" if found == [True, True] else "no" if found == [False, False] else "unknown")

sys.excepthook = lambda kind, error, traceback: show(error)
threading.excepthook = lambda args: show(args.exc_value)
"""

IN_THREAD = "import threading\n{}\nthread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()"
AFTER_MAIN = (
    "import threading\n{}\ndef late():\n    threading.main_thread().join()\n    1 / 0\n"
    "threading.Thread(target=late).start()"
)
SAYS = {
    "a_name": ("Word = 1\n1 / 0", "yes"),
    "an_attribute_in_a_function": ("def function():\n    return function.Word\n1 / 0", "yes"),
    "an_import_in_a_class": ("class A:\n    def method(self):\n        from a import Word as other\n1 / 0", "yes"),
    "a_string": ("getattr(1, 'Word')", "yes"),
    "where_the_error_is": ("def function():\n    Word = 1 / 0\nfunction()", "yes"),
    "another_word": ("Words, SubWord, word = 1, 2, 3\n1 / 0", "no"),
    "a_helper": ("import helper\n1 / 0", "yes"),
    "main_of_a_thread": (IN_THREAD.format("Word = 1"), "yes"),
    "not_main_of_a_thread": (IN_THREAD.format("Words = 1"), "no"),
}


class MentionsTest(unittest.TestCase):
    def answer(self, source: str, *command: str) -> str:
        program = f"import asking\n{source}\n"
        with Programs(asking=ASKING, helper="Word = 1", program=program) as programs:
            command = command or ("-c", program)
            process = programs.run(*command, ASKED="Word")
        self.assertIn(process.stdout, ("yes\n", "no\n", "unknown\n"), process.stderr)
        return process.stdout.strip()

    @parameterized.expand([(name, *case) for name, case in SAYS.items()])
    def test_by_its_code(self, name: str, source: str, expected: str) -> None:
        self.assertEqual(self.answer(source), expected)

    @parameterized.expand([(name, *case) for name, case in SAYS.items()])
    def test_by_its_file(self, name: str, source: str, expected: str) -> None:
        self.assertEqual(self.answer(source, "program.py"), expected)

    def test_what_is_left_of_it(self) -> None:
        """Without a file, nothing is known of a main module that has come to its end, but for what Python keeps."""
        source = AFTER_MAIN.format("Word = 1")
        self.assertEqual(self.answer(source), "yes" if sys.version_info >= (3, 13) else "unknown")
        self.assertEqual(self.answer(source, "program.py"), "yes")


SCALES = """
import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
opt.get_scaled_loss(tf.constant(1.0))
"""
COMPILES = """
import tensorflow as tf
tf.keras.mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.optimizer.get_scaled_loss(tf.constant(1.0))
"""
INSTALLS = "import mpls\nmpls.install()\n"
# Starts a command with a file as its standard input.
WITH_INPUT = """
import subprocess, sys
file, *command = sys.argv[1:]
with open(file) as source:
    sys.exit(subprocess.call([sys.executable, *command], stdin=source))
"""


@pytest.mark.programs
class HintTest(unittest.TestCase):
    """Which cause the error has depends on whether the program names the class."""

    @parameterized.expand(
        [("class", SCALES, "is another class", 5), ("compile", COMPILES, "compile of Keras 3 has wrapped", 2)]
    )
    def test_in_every_way_to_start_a_program(self, name: str, source: str, hint: str, ways: int) -> None:
        run = ("-m", "mpls", "run", "--no-auto")
        with Programs(program=source, installs=INSTALLS + source, starts=WITH_INPUT) as programs:
            commands = [
                [*run, "program.py"],
                ["starts.py", "installs.py", "-"],
                [*run, "-c", source],
                ["starts.py", "program.py", *run, "-"],
                ["-c", INSTALLS + source],
            ]
            processes = [programs.run(*command) for command in commands[:ways]]
        for process in processes:
            self.assertIn(hint, process.stderr.rstrip().rpartition("\n")[2])


if __name__ == "__main__":
    unittest.main()
