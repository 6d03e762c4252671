"""`install` and `mpls run` choose TF 1, the Keras and its optimizers, before TensorFlow is imported."""

from __future__ import annotations

import os
import sys
import unittest
from unittest import mock

import pytest
from parameterized import parameterized

import mpls
from mpls.upstream.keras_packages import chosen_keras
from mpls.upstream.modules import KERAS_VARIABLE as VARIABLE
from tests.install.test_run import Programs
from tests.processes import PACKAGE_ROOT, python_path

OF_THIS_PROCESS = chosen_keras()
OTHER = 5 - OF_THIS_PROCESS


class LoadedTest(unittest.TestCase):
    """TensorFlow is loaded in this process."""

    def test_another_keras_is_refused(self) -> None:
        with self.assertRaisesRegex(RuntimeError, f"loaded, with Keras {OF_THIS_PROCESS}.*before the first `import"):
            mpls.install(keras=OTHER)
        self.assertIsNone(mpls.installed())
        self.assertEqual(mpls.install(keras=OF_THIS_PROCESS).keras, OF_THIS_PROCESS)

    def test_the_behaviour_of_tf_1_is_refused(self) -> None:
        before = __import__
        with self.assertRaisesRegex(mpls.errors.CallOrderError, r"v1 must be chosen before TensorFlow.*v1=True"):
            mpls.install(v1=True)
        self.assertIs(__import__, before)

    @parameterized.expand([(4,), ("2",), (True,), (2.5,)])
    def test_there_are_two_kerases(self, keras: object) -> None:
        with self.assertRaisesRegex(ValueError, "keras must be 2, 3 or None"):
            mpls.install(keras=keras)  # type: ignore[arg-type]

    @parameterized.expand([("v1",), ("legacy_optimizers",), ("contrib",)])
    def test_flags_must_be_bools(self, name: str) -> None:
        with self.assertRaisesRegex(TypeError, f"{name} must be a bool"):
            mpls.install(**{name: 1})  # type: ignore[arg-type]

    def test_legacy_optimizers_need_keras_2(self) -> None:
        if OF_THIS_PROCESS == 2:
            self.skipTest("this process has it")
        with self.assertRaisesRegex(ValueError, "keras must be 2 for legacy_optimizers"):
            mpls.install(keras=3, legacy_optimizers=True)
        with self.assertRaisesRegex(ValueError, r"install\(keras=2, legacy_optimizers=True\)"):
            mpls.install(legacy_optimizers=True)


class NotLoadedTest(unittest.TestCase):
    """What does not depend on TensorFlow, as if it were not loaded."""

    def setUp(self) -> None:
        hidden = {name: module for name, module in sys.modules.items() if name not in ("tensorflow", "keras")}
        for patch in (mock.patch.dict(sys.modules, hidden, clear=True), mock.patch.dict(os.environ)):
            patch.start()
            self.addCleanup(patch.stop)
        os.environ.pop(VARIABLE, None)
        self.addCleanup(mpls.uninstall)

    @parameterized.expand([(None,), ("",), ("1",), ("0",), ("True",)])
    def test_the_variable_is_set_and_put_back(self, before: str | None) -> None:
        if before is not None:
            os.environ[VARIABLE] = before
        expected = before if before in ("1", "True") else "1"
        for _ in range(2):
            with pytest.warns(mpls.errors.MplsWarning) if before == "0" else mock.MagicMock():
                installation = mpls.install(keras=2)
            self.assertEqual(os.environ[VARIABLE], expected)
            with installation:
                self.assertEqual(os.environ[VARIABLE], expected)
                with mpls.install():
                    self.assertEqual(os.environ.get(VARIABLE), before)
                self.assertEqual(os.environ[VARIABLE], expected)
            self.assertEqual(os.environ.get(VARIABLE), before)

    def test_a_choice_over_the_environment_is_told(self) -> None:
        os.environ[VARIABLE] = "1"
        with pytest.warns(mpls.errors.MplsWarning, match="keras=3 was chosen, over TF_USE_LEGACY_KERAS=1"):
            mpls.install(keras=3)
        self.assertEqual(os.environ[VARIABLE], "0")
        # The variable is of the environment still; ours is not.
        with pytest.warns(mpls.errors.MplsWarning):
            mpls.install(keras=3)
        mpls.install(keras=2)
        self.assertEqual(os.environ[VARIABLE], "1")
        mpls.uninstall()
        self.assertEqual(os.environ[VARIABLE], "1")

    def test_what_others_set_meanwhile_stays(self) -> None:
        mpls.install(keras=2)
        os.environ[VARIABLE] = "true"
        mpls.uninstall()
        self.assertEqual(os.environ[VARIABLE], "true")

    def test_a_missing_keras_is_told(self) -> None:
        without = {name: module for name, module in sys.modules.items() if name.partition(".")[0] != "tf_keras"}
        with (
            mock.patch.dict(sys.modules, without, clear=True),
            mock.patch("mpls.importing.modes.find_spec", return_value=None),
            self.assertRaisesRegex(ImportError, "pip install tf-keras"),
        ):
            mpls.install(keras=2)
        self.assertIsNone(mpls.installed())

    def test_a_loaded_keras_3_is_told(self) -> None:
        with (
            mock.patch.dict(sys.modules, {"keras": mock.MagicMock()}),
            self.assertRaisesRegex(mpls.errors.CallOrderError, "Keras is imported; it is loaded, and is Keras 3"),
        ):
            mpls.install(keras=2)
        self.assertNotIn(VARIABLE, os.environ)

    def test_imports_are_redirected_as_long_as_it_lasts(self) -> None:
        before = __import__, __import__("importlib").import_module
        with mpls.install(v1=True):
            self.assertIsNot(__import__, before[0])
            with mpls.install():
                self.assertIs(__import__, before[0])
        self.assertEqual((__import__, __import__("importlib").import_module), before)


# Every way to reach an optimizer, with what it must be.
LEGACY = """
import importlib, os, subprocess, sys
import mpls
import tensorflow as tf
from tensorflow import optimizers
from tensorflow.keras.optimizers import RMSprop
from tensorflow.keras import optimizers as of_keras
import keras
from keras.optimizers import SGD
from tf_keras.optimizers import Nadam
import tf_keras

legacy = tf.keras.optimizers.legacy
New = tf_keras.src.optimizers.optimizer.Optimizer
print({
    "attribute": tf.keras.optimizers.Adam is legacy.Adam,
    "root": tf.optimizers.Adam is legacy.Adam and tf.optimizers.SGD is legacy.SGD,
    "root imported": optimizers.Adam is legacy.Adam and optimizers.Ftrl is legacy.Ftrl,
    "imported": RMSprop is legacy.RMSprop and of_keras.Adagrad is legacy.Adagrad,
    "keras": SGD is legacy.SGD and keras.optimizers.Adam is legacy.Adam,
    "tf_keras": Nadam is legacy.Nadam,
    "v1": tf.compat.v1.keras.optimizers.Adam is legacy.Adam,
    "v2": tf.compat.v2.keras.optimizers.Adam is legacy.Adam and tf.compat.v2.optimizers.Adam is legacy.Adam,
    "base": issubclass(tf.keras.optimizers.SGD, tf.keras.optimizers.Optimizer),
    "getattr": getattr(tf.keras.optimizers, "Adamax") is legacy.Adamax,
    "get": type(tf.keras.optimizers.get("adam")) is legacy.Adam,
    "deserialize": type(tf.keras.optimizers.deserialize({"class_name": "SGD", "config": {}})) is legacy.SGD,
    "get of v1": type(tf.compat.v1.keras.optimizers.get("adam")) is legacy.Adam,
    "by name": type(importlib.import_module("tensorflow.keras.optimizers").get("ftrl")) is legacy.Ftrl,
    "new ones stay": issubclass(tf.keras.optimizers.AdamW, New),
    "is installed": mpls.installed().legacy_optimizers,
})
x, y = tf.ones([4, 2]), tf.ones([4, 1])

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
for arguments in ({}, {"optimizer": "adam"}, {"optimizer": tf.keras.optimizers.SGD(0.5)},
                  {"optimizer": {"class_name": "Adam", "config": {}}}):
    model.compile(loss="mse", **arguments)
    print(type(model.optimizer).__module__.rpartition("optimizers.")[2])
with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
    mirrored = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    mirrored.compile("adam", "mse")
mirrored.fit(x, y, verbose=0)
print(type(mirrored.optimizer) is legacy.Adam)

# Frameworks keep their own: a model that was saved with a new optimizer loads with it.
new = tf_keras.src.optimizers.adam.Adam
model.compile(new(), "mse")
model.fit(x, y, verbose=0)
model.save("a.keras")
print(isinstance(tf.keras.models.load_model("a.keras").optimizer, New))
# And one with a name in `compile`, as legacy.
model.compile("adam", "mse")
model.fit(x, y, verbose=0)
model.save("b.h5")
print(type(tf.keras.models.load_model("b.h5").optimizer) is legacy.Adam)
print(subprocess.run([sys.executable, "-c", "import os; print(os.environ['TF_USE_LEGACY_KERAS'])"],
      capture_output=True, text=True).stdout.strip())

held = tf.optimizers, tf.keras.optimizers, keras.optimizers, tf.keras.Model.compile
mpls.uninstall()
print({each.Adam is new for each in held[:2]}, type(tf.keras.optimizers.get("adam")) is new,
      vars(tf_keras.Model)["compile"] is held[3], {type(each).__name__ for each in held[:2]})
model.compile("adam", "mse")
print(type(model.optimizer) is new, os.environ["TF_USE_LEGACY_KERAS"])
"""


# What a program of TF 1 imports, with what TF 1.15 makes of it; where that refuses it, older ones do not.
TF1 = """
import importlib
from importlib import import_module
first = importlib.import_module("tensorflow")
import tensorflow.python
import tensorflow.python.framework.ops as ops, tensorflow.core.framework.graph_pb2 as graph_pb2
import tensorflow as tf
import tensorflow.keras.layers as layers
from tensorflow import python
from tensorflow.python.ops import array_ops
import package.part, plugin

def error_of(statement):
    try:
        exec(statement, {})
    except ImportError as error:
        return type(error).__name__, str(error).partition(" (")[0]

def bound_by(statement):
    bound = {}
    exec(statement, bound)
    return bound

print({
    "import_module": first is tf and import_module("tensorflow") is tf,
    "import_module of a part": import_module("tensorflow.train") is tf.train,
    "import_module, relative": import_module(".train", "tensorflow") is tf.train,
    "import_module of keras": import_module("tensorflow.keras").layers is tf.keras.layers,
    "import_module of python": import_module("tensorflow.python.framework.ops") is ops,
    "__import__": __import__("tensorflow") is tf and __import__("tensorflow.keras") is tf,
    "__import__ of python": __import__("tensorflow.python.framework.ops") is tf,
    "__import__ with fromlist": hasattr(__import__("tensorflow.keras", fromlist=["layers"]), "layers"),
    "as": layers is tf.keras.layers,
    "statement": tensorflow is tf and hasattr(tensorflow, "Session"),
    "python": tensorflow.python.framework.ops is ops and tf.python is python is tensorflow.python,
    "hasattr": hasattr(tf, "python") and hasattr(tf, "core"),
    "core": hasattr(graph_pb2, "GraphDef") and tf.core.framework.graph_pb2 is graph_pb2,
    "in functions": bound_by("def f():\\n  import tensorflow as tf\\n  return tf")["f"]() is tf,
    "without a name": bound_by("import tensorflow as t")["t"] is tf,
    "star": bound_by("from tensorflow import *")["Session"] is tf.Session,
    "star of a part": bound_by("from tensorflow.train import *")["AdamOptimizer"] is tf.train.AdamOptimizer,
    "compat.v1": bound_by("import tensorflow.compat.v1 as t")["t"].Session is tf.Session,
    "compat.v2": not hasattr(bound_by("import tensorflow.compat.v2 as t")["t"], "Session"),
    "a package": package.part.tf is tf and package.ops is ops and package.part.again is tf,
    "a package's keras": package.part.keras is tf.keras,
    "a plugin": plugin.tf is tf,
    "graph": not tf.executing_eagerly(),
})
print([error_of(each) for each in (
    "import tensorflow.nope", "import tensorflow.train.nope", "import tensorflow.contrib.slim")])
print(error_of("from tensorflow import nope")[0])
import mpls
mpls.uninstall()
import tensorflow
print(tensorflow.__name__, tensorflow.executing_eagerly(), hasattr(tf, "python"), import_module("tensorflow").__name__)
"""
PACKAGE = """
from tensorflow.python.framework import ops
from . import part
"""
PART = """
import tensorflow as tf
import tensorflow.keras as keras
import importlib
again = importlib.import_module("tensorflow")
"""

# Programs of TF 2.6 to 2.15 that import keras by itself.
KERAS = """
import keras
import keras.utils.np_utils as np_utils
import keras.engine.training
import importlib
import sys
from keras import backend as K, layers, optimizers
from keras.engine.base_layer import Layer
from keras.layers import Dense
import package.part
import tensorflow as tf

def error_of(statement):
    try:
        exec(statement, {"__name__": "__main__"})
    except ImportError as error:
        return type(error).__name__

stars = {}
exec("from keras.layers import *", stars)
model = keras.Sequential([layers.Dense(1), Dense(1)])
model.compile(optimizers.SGD(0.1), "mse")
model.fit(tf.ones([2, 2]), tf.ones([2, 1]), verbose=0)
optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())
keras.backend.added = 1
print({
    "version": keras.__version__.startswith("2."),
    "class": Dense is tf.keras.layers.Dense is keras.layers.Dense is stars["Dense"],
    "model": isinstance(model, tf.keras.Model) and keras.engine.training.Model is tf.keras.Model,
    "engine": issubclass(Dense, Layer),
    "modules beside": np_utils.to_categorical([1]).shape == (1, 2) and keras.utils.np_utils is np_utils,
    "same": layers is keras.layers and __import__("keras") is keras,
    "import_module": importlib.import_module("keras") is keras and importlib.import_module("keras.layers") is layers,
    "package": package.part.keras is keras,
    "backend": K.floatx() == "float32" and K.added == keras.backend.added == 1,
    "wrapper": isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer),
    "restored": keras.mixed_precision.experimental.Policy is tf.keras.mixed_precision.experimental.Policy,
    "completion": "Dense" in dir(layers) and "layers" in dir(keras) and "Dense" in layers.__all__,
    "not Keras 3": error_of("from keras import ops") == "ImportError" and not hasattr(keras, "ops"),
    "no modules of Keras 3": error_of("import keras.ops") == "ModuleNotFoundError",
    "no attributes": getattr(keras, "nope", None) is None,
})
import mpls
mpls.uninstall()
import keras as keras_3
print(keras_3.__version__.partition(".")[0], keras_3 is keras)
"""


@pytest.mark.programs
class ImportsTest(unittest.TestCase):
    def lines_of(self, programs: Programs, *options: str) -> list[str]:
        process = programs.run("-m", "mpls", "run", *options, "program.py")
        self.assertEqual(process.returncode, 0, process.stderr)
        found, *lines = process.stdout.splitlines()
        self.assertEqual([name for name, is_so in eval(found).items() if not is_so], [])
        self.assertGreater(len(eval(found)), 10)
        return lines

    def test_tf_1(self) -> None:
        with Programs(program=TF1, plugin="tf = __import__('tensorflow')") as programs:
            programs.add_package("package", __init__=PACKAGE, part=PART)
            errors, wrong, after = self.lines_of(programs, "--v1")
        expected = [
            ("ModuleNotFoundError", "No module named 'tensorflow.nope'"),
            ("ModuleNotFoundError", "No module named 'tensorflow.train.nope'"),
            ("ModuleNotFoundError", "No module named 'tensorflow.contrib'"),
        ]
        self.assertEqual((eval(errors), wrong), (expected, "ImportError"))
        self.assertEqual(after, "tensorflow False False tensorflow")

    def test_keras_2(self) -> None:
        with Programs(program=KERAS) as programs:
            programs.add_package("package", __init__="", part="import keras")
            self.assertEqual(self.lines_of(programs, "--keras", "2"), ["3 False"])

    def test_each_way_to_reach_a_legacy_optimizer(self) -> None:
        with Programs(program=LEGACY) as programs:
            lines = self.lines_of(programs, "--keras", "2", "--legacy-optimizers")
        names = ["legacy.rmsprop", "legacy.adam", "legacy.gradient_descent", "legacy.adam"]
        self.assertEqual(lines[:7], [*names, "True", "True", "True"])
        self.assertEqual(lines[7:], ["1", "{True} True False {'module'}", "True 1"])

    def test_a_module_of_the_users_own_stays(self) -> None:
        source = "import keras; print({'own': keras.own, **dict.fromkeys(range(10), True)})"
        with Programs(program=source, keras="own = True") as programs:
            self.assertEqual(self.lines_of(programs, "--keras", "2"), [])

    def test_a_package_that_is_run_is_the_users_own_where_it_is_installed(self) -> None:
        part = "import tensorflow as tf; print(tf.__name__)"
        with Programs() as programs:
            # As in another environment that PYTHONPATH adds.
            programs.add_package("site-packages")
            programs.add_package("site-packages/package", __init__="", part="import package.other", other=part)
            path = python_path(PACKAGE_ROOT, os.path.join(programs.path, "site-packages"))
            process = programs.run("-m", "mpls", "run", "--v1", "-m", "package.part", PYTHONPATH=path)
        self.assertEqual(process.stdout, "tensorflow.compat.v1\n", process.stderr)

    def test_workers_run_as_the_program_does(self) -> None:
        source = """
            import multiprocessing
            import pickle
            import keras

            def work(_):
                import tensorflow as tf
                return keras.__version__[:2], tf.keras.optimizers.Adam is tf.keras.optimizers.legacy.Adam, tf.__name__

            if __name__ == "__main__":
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.map(work, [0]) == [work(0)], work(0))
                print(pickle.loads(pickle.dumps(keras.layers)).Dense is keras.layers.Dense)
        """
        options = ["--v1", "--keras", "2", "--legacy-optimizers"]
        with Programs(program=source) as programs:
            process = programs.run("-m", "mpls", "run", *options, "program.py")
        self.assertEqual(process.stdout, "True ('2.', True, 'tensorflow.compat.v1')\nTrue\n", process.stderr)

    def test_another_keras_than_the_environment_says_is_told(self) -> None:
        source = "import tensorflow as tf; print(tf.keras.__version__)"
        with Programs(program=source) as programs:
            process = programs.run("-m", "mpls", "run", "--keras", "3", "program.py", TF_USE_LEGACY_KERAS="1")
        self.assertEqual(process.stdout[:2], "3.", process.stderr)
        self.assertIn("keras=3 was chosen, over TF_USE_LEGACY_KERAS=1 in the environment", process.stderr)
