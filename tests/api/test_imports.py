"""Importing mpls prints nothing, is quick where it can be, and changes nothing in TensorFlow."""

from __future__ import annotations

import json
import textwrap
import unittest

import pytest

from tests.processes import run_python

PARTS = ("mpls.core", "mpls.v1", "mpls.keras", "mpls.experimental")


def printed(code: str) -> str:
    """Run code in a fresh interpreter that finds mpls, and return what it printed."""
    done = run_python("-c", textwrap.dedent(code))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


# Run in a fresh interpreter, in which each part is imported in a child process; reports what is printed and changed.
WATCH = """
import json, logging, os, sys, tempfile, warnings
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.training.experimental import mixed_precision, mixed_precision_global_state

v1 = tf.compat.v1
NAMESPACES = (tf, v1, v1.mixed_precision, v1.mixed_precision.experimental, v1.train, v1.train.experimental)
NAMESPACES += (v1.train.Optimizer, tf.distribute, tf.train, tf.__internal__.train, tf.__internal__.mixed_precision)
NAMESPACES += (mixed_precision, mixed_precision_global_state)
# `tf.keras` loads Keras when it is first asked for, which is not for this test to do.
LAZY = ("keras", "losses", "metrics", "optimizers", "initializers")

def state():
    found = {}
    for namespace in NAMESPACES:
        # Deprecated namespaces are modules around modules.
        for layer in (namespace, vars(namespace).get("_tfmw_wrapped_module", namespace)):
            for attribute, value in vars(layer).items():
                if attribute not in LAZY and not attribute.startswith(("__", "_tfmw")):
                    found[f"{layer.__name__}.{attribute}"] = id(value)
    found["wrapper registry"] = sorted(map(str, mixed_precision._REGISTERED_WRAPPER_OPTIMIZER_CLS.items()))
    found["switches"] = (v1.control_flow_v2_enabled(), tf.__internal__.tf2.enabled(), tf.executing_eagerly(),
                         v1.resource_variables_enabled(), tf.Tensor._USE_EQUALITY)
    found["context"] = {name: repr(value) for name, value in vars(context.context()).items()
                        if isinstance(value, (bool, int, float, str, type(None), dict, list, tuple))}
    for name in ("", "tensorflow", "absl", "tf_keras", "keras", "mpls"):
        logger = logging.getLogger(name)
        found[f"logger {name}"] = (logger.level, logger.propagate, logger.handlers, logger.filters)
    found["python"] = (warnings.filters, dict(os.environ), sys.path, sys.meta_path, sys.excepthook, __import__)
    return {key: repr(value) for key, value in found.items()}

def changes_of(module):
    before, keras_before = state(), {"keras", "tf_keras"} & set(sys.modules)
    __import__(module)
    after, loaded = state(), {"keras", "tf_keras"} & set(sys.modules) - keras_before
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return {"changed": changed, "keras": sorted(loaded)}

def watch(module):
    # Output on file descriptors, so that native code is seen as well.
    with tempfile.TemporaryFile() as output, tempfile.NamedTemporaryFile() as answer:
        child = os.fork()
        if not child:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            with open(answer.name, "w") as file:
                json.dump(changes_of(module), file)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        os.waitpid(child, 0)
        output.seek(0)
        return {**json.load(answer), "printed": output.read().decode()}
"""

QUIET = {"changed": [], "keras": [], "printed": ""}


class ImportTest(unittest.TestCase):
    """Each import happens in a process of its own."""

    def test_import_of_the_package_loads_nothing_heavy(self) -> None:
        # A clock would measure the machine.
        code = """
            import sys
            # A process that measures coverage has some of them already.
            before = set(sys.modules)
            import mpls, mpls.errors
            heavy = ("tensorflow", "tf_keras", "keras", "numpy", "h5py", "absl")
            heavy += ("argparse", "asyncio", "json", "multiprocessing", "socket", "unittest")
            heavy += ("mpls.core", "mpls.saved", "mpls.program", "mpls.cli", "mpls.keras", "mpls.v1")
            print(sorted(set(heavy) & set(sys.modules) - before))
        """
        self.assertEqual(printed(code), "[]\n")

    @pytest.mark.matrix
    def test_importing_a_part_prints_nothing_and_changes_nothing(self) -> None:
        # One interpreter for all, since loading TensorFlow takes seconds; each part gets its own child.
        code = WATCH + f"\nprint(json.dumps({{part: watch(part) for part in {PARTS!r}}}))"
        self.assertEqual(json.loads(printed(code)), dict.fromkeys(PARTS, QUIET))
