"""Importing mpls prints nothing, is quick where it can be, and changes nothing in TensorFlow."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import textwrap
import unittest

import pytest

import mpls
from tests.processes import process_environment

PACKAGE_ROOT = str(pathlib.Path(mpls.__file__).parents[1])
PARTS = ("mpls.core", "mpls.v1", "mpls.keras", "mpls.experimental")


def run_python(code: str, *paths: str) -> str:
    """Run code in a fresh interpreter that finds mpls, and return what it printed."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=process_environment(*paths),
    )
    if result.returncode:
        raise RuntimeError(f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


# Run in a fresh interpreter. It writes down what a careless import could change, imports a module in a child
# process with its output going to a file, and reports every difference.
WATCH = """
import json, logging, os, sys, tempfile, warnings
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops
from tensorflow.python.training.experimental import mixed_precision, mixed_precision_global_state

NAMESPACES = {
    "tf": tf,
    "tf.compat.v1": tf.compat.v1,
    "tf.compat.v1.mixed_precision": tf.compat.v1.mixed_precision,
    "tf.compat.v1.mixed_precision.experimental": tf.compat.v1.mixed_precision.experimental,
    "tf.compat.v1.train": tf.compat.v1.train,
    "tf.compat.v1.train.experimental": tf.compat.v1.train.experimental,
    "tf.compat.v1.train.Optimizer": tf.compat.v1.train.Optimizer,
    "tf.distribute": tf.distribute,
    "tf.train": tf.train,
    "tf.__internal__.train": tf.__internal__.train,
    "tf.__internal__.mixed_precision": tf.__internal__.mixed_precision,
    "native mixed_precision": mixed_precision,
    "native mixed_precision_global_state": mixed_precision_global_state,
}

# `tf.keras` loads Keras when it is first asked for, which is not for this test to do.
LAZY = ("keras", "losses", "metrics", "optimizers", "initializers")

def options():
    # Asking for the options makes no device list, but takes the context as it is.
    return {name: repr(value) for name, value in sorted(vars(context.context()).items())
            if isinstance(value, (bool, int, float, str, type(None), dict, list, tuple))}

def state():
    found = {}
    for name, namespace in NAMESPACES.items():
        # Deprecated namespaces are modules around modules.
        wrapped = vars(namespace).get("_tfmw_wrapped_module")
        for layer in [namespace] if wrapped is None else [namespace, wrapped]:
            for attribute, value in vars(layer).items():
                if attribute not in LAZY and not attribute.startswith(("__", "_tfmw")):
                    found[f"{name}.{attribute}"] = id(value)
    registry = mixed_precision._REGISTERED_WRAPPER_OPTIMIZER_CLS
    found["wrapper registry"] = repr(sorted(map(str, registry.items())))
    found["control flow v2"] = tf.compat.v1.control_flow_v2_enabled()
    found["v2 behaviour"] = tf.__internal__.tf2.enabled()
    found["resource variables"] = tf.compat.v1.resource_variables_enabled()
    found["tensor equality"] = tf.Tensor._USE_EQUALITY
    found["eager"] = tf.executing_eagerly()
    found["graph"] = (len(ops.get_default_graph().get_operations()), ops._default_graph_stack.stack)
    found["soft placement"] = context.context()._soft_device_placement
    found["context is initialised"] = context.context()._context_handle is not None
    found["context options"] = options()
    found["warnings filters"] = list(map(str, warnings.filters))
    found["environment"] = dict(os.environ)
    for name in ("", "tensorflow", "absl", "tf_keras", "keras", "mpls"):
        logger = logging.getLogger(name)
        handlers = list(map(str, logger.handlers))
        found[f"logger {name}"] = (logger.level, logger.propagate, handlers, logger.filters)
    found["strategy"] = repr(type(tf.distribute.get_strategy()))
    found["sys.path"] = list(sys.path)
    found["standard hooks"] = [id(x) for x in (sys.excepthook, sys.displayhook, sys.stdout, sys.stderr)]
    found["__import__"] = id(__import__)
    found["meta path"] = list(map(str, sys.meta_path))
    return {key: repr(value) for key, value in found.items()}

def changes_of(module):
    before = state()
    keras_before = {name for name in ("keras", "tf_keras") if name in sys.modules}
    __import__(module)
    after = state()
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    loaded = sorted({name for name in ("keras", "tf_keras") if name in sys.modules} - keras_before)
    return {"changed": changed, "keras": loaded}

def watch(module):
    # Output on file descriptors, so that native code is seen as well.
    with tempfile.TemporaryFile() as output:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            try:
                answer = json.dumps(changes_of(module))
            except BaseException as error:
                answer = json.dumps({"error": repr(error)})
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(writer, answer.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answers:
            answer = json.loads(answers.read())
        os.waitpid(child, 0)
        output.seek(0)
        return {**answer, "printed": output.read().decode()}
"""

QUIET = {"changed": [], "keras": [], "printed": ""}


class ImportTest(unittest.TestCase):
    """Each import happens in a process of its own."""

    def test_import_of_the_package_loads_no_tensorflow(self) -> None:
        code = """
            import sys
            import mpls, mpls.errors
            heavy = ("tensorflow", "tf_keras", "keras", "numpy", "h5py", "absl")
            print(sorted(set(heavy) & set(sys.modules)))
        """
        self.assertEqual(run_python(code), "[]\n")

    def test_import_of_the_package_loads_no_module_that_waits_to_be_needed(self) -> None:
        # A clock would measure the machine. These are what `install` needs; they take some 30 ms.
        code = """
            import sys
            before = set(sys.modules)
            import mpls
            print(sorted(name for name in set(sys.modules) - before if name.startswith("mpls.")))
            print(sorted({"argparse", "asyncio", "json", "multiprocessing", "socket", "unittest"} & set(sys.modules)))
        """
        needed = (
            "errors",
            "flags",
            "hints",
            "importing",
            "importing.modes",
            "importing.namespaces",
        )
        needed += ("importing.user_code", "install", "names")
        # The table of private names is short, and what knows TensorFlow's variable of the environment needs it.
        needed += ("patches", "upstream", "upstream.modules", "upstream.table")
        self.assertEqual(run_python(code), f"{sorted(f'mpls.{name}' for name in needed)}\n[]\n")

    @pytest.mark.matrix
    def test_importing_a_part_prints_nothing_and_changes_nothing(self) -> None:
        # One interpreter for all, since loading TensorFlow takes seconds; each part gets its own child.
        code = WATCH + f"\nprint(json.dumps({{part: watch(part) for part in {PARTS!r}}}))"
        self.assertEqual(json.loads(run_python(code)), dict.fromkeys(PARTS, QUIET))

    @pytest.mark.programs
    def test_what_waits_for_the_other_keras_goes_when_it_is_loaded(self) -> None:
        code = """
            import sys
            import tensorflow
            before = list(sys.meta_path)
            import keras
            import mpls.keras
            print(sys.meta_path == before)
            mpls.keras.LossScaleOptimizer(keras.optimizers.SGD())
            print(len(sys.meta_path) - len(before))
            import tf_keras
            print(sys.meta_path == before)
        """
        self.assertEqual(run_python(code), "True\n1\nTrue\n")
