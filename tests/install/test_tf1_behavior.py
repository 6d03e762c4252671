"""The behaviour of TF 2 goes off once, before a program of TF 1 runs on; what the program turns on itself stays on."""

from __future__ import annotations

import json
import unittest

import pytest
from parameterized import parameterized

from .test_run import Programs

# Imports TensorFlow again and again, after it has enabled eager execution.
EAGER = """
import importlib
import json
import multiprocessing
import sys
import threading

import tensorflow as tf

seen = {"before": not tf.executing_eagerly()}
tf.enable_eager_execution()
weight = tf.Variable([1.0, 2.0], use_resource=True)

def note(name, eager=True):
    seen[name] = tf.executing_eagerly() is eager

def in_function(name):
    import tensorflow.train
    from tensorflow import float32
    note(name)

note("enabled")
import tensorflow as again
note("again")
from tensorflow.train import AdamOptimizer
note("from a module")
importlib.import_module("tensorflow.nn")
note("import_module")
import helper
note("of another file")
helper.imported_late()
note("of another file, late")
thread = threading.Thread(target=in_function, args=["thread"])
thread.start()
thread.join()
in_function("function")

opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.GradientDescentOptimizer(0.5), 8)
import tensorflow as tf
opt.minimize(lambda: tf.reduce_sum(weight))
note("trained")
seen["weight"] = weight.numpy().tolist() == [0.5, 1.5]

def in_worker(_):
    in_function("worker")
    return seen["worker"] and seen["before"]

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seen["process"] = pool.map(in_worker, [0]) == [True]
    print(json.dumps(seen))
"""
HELPER = """
import tensorflow as tf

def imported_late():
    import tensorflow.math
"""

V2 = """
import json
import tensorflow as tf
tf.disable_eager_execution()
tf.enable_v2_behavior()
import tensorflow.keras
import tensorflow as tf
print(json.dumps({
    "eager": tf.executing_eagerly(), "resources": tf.resource_variables_enabled(), "v1": hasattr(tf, "placeholder")}))
"""

INSTALLED = """
import json
import mpls

seen = {}
mpls.install(v1=True)
import tensorflow as tf
seen["first"] = tf.executing_eagerly()
tf.enable_eager_execution()
mpls.install(v1=True)
import tensorflow as tf
seen["installed again"] = tf.executing_eagerly()
with mpls.install():
    import tensorflow
    seen["block"] = tensorflow.__name__, tensorflow.executing_eagerly()
import tensorflow as tf
seen["after a block"] = tf.executing_eagerly()
mpls.uninstall()
import tensorflow
seen["uninstalled"] = tensorflow.__name__, tensorflow.executing_eagerly()
mpls.install(v1=True, contrib=True)
import tensorflow as tf
seen["after uninstall"] = tf.__name__, tf.executing_eagerly()
tf.enable_v2_behavior()
try:
    mpls.install(v1=True)
except RuntimeError as error:
    seen["as TF 2"] = "v1 must be chosen before" in str(error)
print(json.dumps(seen))
"""


@pytest.mark.programs
class BehaviorTest(unittest.TestCase):
    def output_of(self, programs: Programs, *command: str) -> object:
        process = programs.run(*command)
        self.assertEqual(process.returncode, 0, process.stderr)
        return json.loads(process.stdout.splitlines()[-1])

    @parameterized.expand([("script", ["program.py"]), ("module", ["-m", "package.program"])])
    @pytest.mark.default_run("one case", rest="full")
    def test_eager_execution_stays_enabled(self, name: str, program: list[str]) -> None:
        with Programs(program=EAGER, helper=HELPER) as programs:
            programs.add_package("package", __init__="import tensorflow as tf", program=EAGER)
            seen = self.output_of(programs, "-m", "mpls", "run", "--v1", "--no-auto", *program)
        assert isinstance(seen, dict)
        self.assertEqual([name for name, is_so in seen.items() if not is_so], [])
        self.assertGreater(len(seen), 11)

    def test_what_a_program_turns_on_stays_on(self) -> None:
        with Programs() as programs:
            seen = self.output_of(programs, "-m", "mpls", "run", "--v1", "--no-auto", "-c", V2)
        assert isinstance(seen, dict)
        self.assertEqual(seen, dict.fromkeys(seen, True))

    def test_installed_again(self) -> None:
        with Programs() as programs:
            seen = self.output_of(programs, "-c", INSTALLED)
        expected = {
            "first": False,
            "installed again": True,
            "block": ["tensorflow", True],
            "after a block": True,
            "uninstalled": ["tensorflow", True],
            "after uninstall": ["tensorflow.compat.v1", True],
            "as TF 2": True,
        }
        self.assertEqual(seen, expected)
