"""`mpls run` runs programs as `python` does, with the historical names back."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import pytest
from parameterized import parameterized

import mpls
from tests.processes import process_environment


class Programs:
    """Programs in a directory of their own."""

    def __init__(self, **sources: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name).resolve()
        for name, source in sources.items():
            (self.path / f"{name}.py").write_text(textwrap.dedent(source))

    def add_package(self, package: str, **sources: str) -> None:
        """Write the modules of a package."""
        (self.path / package).mkdir()
        for name, source in sources.items():
            (self.path / package / f"{name}.py").write_text(textwrap.dedent(source))

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=process_environment(**variables),
        )


ABOUT_ITSELF = """
import atexit, pickle, sys
import sibling

class Thing:
    pass

def report():
    print("at exit", sys.modules["__main__"].Thing is Thing)

atexit.register(report)
print(__name__, __file__ == sys.modules["__main__"].__file__, sys.argv, sys.path[0])
print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, sibling.__name__)
sys.exit(int(sys.argv[1]))
"""

FAILING = """
def broken():
    raise ValueError("the user's own")

broken()
"""


class AsPythonTest(unittest.TestCase):
    """What a program sees and prints, without TensorFlow."""

    @parameterized.expand(
        [
            ("script", ["program.py"]),
            ("script by its path", ["{}/program.py"]),
            ("module", ["-m", "program"]),
        ]
    )
    def test_program_sees_what_python_shows_it(self, name: str, program: list[str]) -> None:
        with Programs(program=ABOUT_ITSELF, sibling="") as programs:
            arguments = [part.format(programs.path) for part in program] + ["3", "--as-of", "x", "-m", "y"]
            expected = programs.run(*arguments)
            actual = programs.run("-m", "mpls", "run", *arguments)
        self.assertEqual((actual.returncode, actual.stdout), (expected.returncode, expected.stdout))
        self.assertEqual(actual.returncode, 3)
        self.assertIn("at exit True", actual.stdout)
        self.assertEqual(actual.stderr, "")

    @parameterized.expand([("script", ["program.py"]), ("module", ["-m", "program"])])
    def test_traceback_is_the_users(self, name: str, program: list[str]) -> None:
        with Programs(program=FAILING) as programs:
            expected = programs.run("program.py")
            actual = programs.run("-m", "mpls", "run", *program)
        self.assertEqual(actual.returncode, 1)
        self.assertEqual(
            actual.stderr.replace(f"{programs.path}/", ""), expected.stderr.replace(f"{programs.path}/", "")
        )
        self.assertNotIn("mpls", actual.stderr)

    @parameterized.expand(
        [
            ("message", "import sys; sys.exit('stopped')"),
            ("nothing", "import sys; sys.exit()"),
            ("interrupt", "raise KeyboardInterrupt"),
            ("syntax", "this is no Python"),
        ]
    )
    def test_exit_status_is_pythons(self, name: str, source: str) -> None:
        with Programs(program=source) as programs:
            expected, actual = programs.run("program.py"), programs.run("-m", "mpls", "run", "program.py")
        self.assertEqual((actual.returncode, actual.stderr), (expected.returncode, expected.stderr))

    def test_directory_with_a_main_module(self) -> None:
        with Programs(sibling="", __main__=ABOUT_ITSELF) as programs:
            actual = programs.run("-m", "mpls", "run", ".", "0")
        self.assertEqual((actual.returncode, actual.stderr), (0, ""))

    def test_tensorflow_is_not_loaded_for_those_that_do_not(self) -> None:
        with Programs(program="import sys; print('tensorflow' in sys.modules, 'keras' in sys.modules)") as programs:
            actual = programs.run("-m", "mpls", "run", "--contrib", "--v1", "program.py")
        self.assertEqual(actual.stdout, "False False\n")


class UsageTest(unittest.TestCase):
    def test_missing_module_has_the_status_of_python(self) -> None:
        with Programs() as programs:
            process = programs.run("-m", "mpls", "run", "-m", "nowhere.at.all")
            expected = programs.run("-m", "nowhere.at.all").returncode
        self.assertEqual((process.returncode, process.stdout), (expected, ""))
        self.assertIn("no module named nowhere.at.all", process.stderr)
        self.assertNotIn("Traceback", process.stderr)

    @parameterized.expand(
        [
            ("missing script", ["nowhere.py"], "no such script: nowhere.py"),
            ("unknown release", ["--as-of", "3.1", "program.py"], "argument --as-of: must be a TensorFlow release"),
            ("no release", ["--as-of"], "--as-of"),
            ("nothing to run", [], "give a script"),
            ("unknown option", ["--fast", "program.py"], "--fast"),
        ]
    )
    def test_mistakes_are_told_with_status_2(self, name: str, arguments: list[str], message: str) -> None:
        with Programs(program="print('ran')") as programs:
            process = programs.run("-m", "mpls", "run", *arguments)
        self.assertEqual((process.returncode, process.stdout), (2, ""))
        self.assertIn(message, process.stderr)
        self.assertNotIn("Traceback", process.stderr)

    def test_without_a_command_it_says_what_there_is(self) -> None:
        with Programs() as programs:
            process = programs.run("-m", "mpls")
        self.assertEqual(process.returncode, 2)
        self.assertIn("run", process.stderr)

    def test_version(self) -> None:
        with Programs() as programs:
            self.assertEqual(programs.run("-m", "mpls", "--version").stdout, f"mpls {mpls.__version__}\n")


# Each form in which programs import a name that is gone.
IMPORTS = """
import tensorflow as tf
import tensorflow.keras.mixed_precision.experimental as by_path
from tensorflow.keras.mixed_precision import experimental
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer, Policy
from tensorflow.keras import mixed_precision
from tensorflow.compat.v2.keras.mixed_precision import experimental as of_v2
from tensorflow.compat.v1.keras.mixed_precision import experimental as of_v1
from tensorflow.train.experimental import DynamicLossScale, enable_mixed_precision_graph_rewrite
from tensorflow.mixed_precision import experimental as core
from tensorflow.mixed_precision.experimental import FixedLossScale
from tensorflow.python.keras.mixed_precision.experimental import loss_scale_optimizer, policy
from tensorflow.python.keras.mixed_precision.experimental import device_compatibility_check
from tensorflow.python.training.experimental.loss_scale import get_loss_scale_weights
from tensorflow.python.training.experimental.mixed_precision import disable_mixed_precision_graph_rewrite
from keras.mixed_precision.loss_scale_optimizer import LossScaleOptimizerV3
import tf_keras
import mpls.experimental

spellings = [
    tf.keras.mixed_precision.experimental.LossScaleOptimizer,
    tf.compat.v2.keras.mixed_precision.experimental.LossScaleOptimizer,
    tf.compat.v1.keras.mixed_precision.experimental.LossScaleOptimizer,
    tf_keras.mixed_precision.experimental.LossScaleOptimizer,
    LossScaleOptimizer,
    *(each.LossScaleOptimizer for each in (by_path, experimental, mixed_precision.experimental, of_v1, of_v2)),
    loss_scale_optimizer.LossScaleOptimizer,
]
print({each is mpls.experimental.LossScaleOptimizer for each in spellings})
print(tf.mixed_precision.experimental.DynamicLossScale is DynamicLossScale, core.FixedLossScale is FixedLossScale)
print(policy.Policy is Policy, by_path.set_policy is tf.keras.mixed_precision.experimental.set_policy)
print(enable_mixed_precision_graph_rewrite is mpls.v1.enable_mixed_precision_graph_rewrite)
print(get_loss_scale_weights(FixedLossScale(2)), tf.__name__, hasattr(tf, "contrib"))
"""

# A program of TF 1.15, with a module of its own.
TF1 = """
import helper
import keras
import tensorflow as tf
import tensorflow.contrib.mixed_precision as imported
from tensorflow import placeholder
from tensorflow.contrib.mixed_precision import FixedLossScaleManager
from tensorflow.python.framework import ops
from tensorflow.train import AdamOptimizer
try:
    from tensorflow.contrib import slim
except ImportError:
    slim = None

print(tf.__name__, helper.tf is tf, tf.executing_eagerly(), hasattr(tf, "contrib"), slim)
print(AdamOptimizer is tf.train.AdamOptimizer, placeholder is tf.placeholder, ops.__name__)
# Installed packages have the TensorFlow that they were written for.
print(keras.src.backend.tensorflow.core.tf.__name__)
weight = tf.get_variable("weight", initializer=[1.0])
opt = tf.contrib.mixed_precision.LossScaleOptimizer(AdamOptimizer(0.5), FixedLossScaleManager(8))
step = opt.minimize(tf.reduce_sum(weight))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(step)
    print(session.run(weight).round(4), imported is tf.contrib.mixed_precision)
"""


class NamesTest(unittest.TestCase):
    """Fresh interpreters, since what TensorFlow is depends on who imports it first."""

    @parameterized.expand([("keras_3", "0"), ("keras_2", "1")])
    @pytest.mark.programs
    def test_each_form_of_import_works(self, name: str, use_legacy: str) -> None:
        with Programs(program=IMPORTS) as programs:
            process = programs.run("-m", "mpls", "run", "program.py", TF_USE_LEGACY_KERAS=use_legacy)
        self.assertEqual(process.returncode, 0, process.stderr)
        lines = process.stdout.splitlines()
        self.assertEqual(lines[:4], ["{True}", "True True", "True True", "True"])
        self.assertEqual(lines[4], "[] tensorflow False")

    @pytest.mark.programs
    def test_v1_and_contrib(self) -> None:
        with Programs(program=TF1, helper="import tensorflow as tf") as programs:
            process = programs.run("-m", "mpls", "run", "--no-auto", "--v1", "--contrib", "--report", "program.py")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(
            process.stdout.splitlines(),
            [
                "tensorflow.compat.v1 True False False None",
                "True True tensorflow.python.framework.ops",
                "tensorflow",
                "[0.5] True",
            ],
        )

        report = [line.split() for line in process.stderr.splitlines() if line.startswith(("where", "program.py"))]
        places = [line[0] for line in report]
        self.assertEqual(places, ["where", "program.py:7", "program.py:20"])
        manager = "FixedLossScaleManager"
        self.assertEqual(
            report[1][1:], [f"tf.contrib.mixed_precision.{manager}", "1.13", "to", "1.15", f"mpls.contrib.{manager}"]
        )
