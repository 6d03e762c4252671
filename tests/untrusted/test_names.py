"""The lists of what configs may name, beside what the installed frameworks have: all of it has been decided on."""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import pkgutil
import re
import unittest
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized
from tensorflow.python.util import tf_export

from mpls.saved import allowed
from mpls.saved.allowed import CLASSES, FUNCTIONS
from mpls.saved.config_safety import _NAMING_KEYS

# What is refused, with the reason.
REFUSED = {
    "holds a function of Python": "Lambda JaxLayer FlaxLayer TorchModuleWrapper DeviceWrapper DropoutWrapper "
    "ResidualWrapper _RNNCellWrapper",
    "names a function of TensorFlow, which is looked at by itself": "TFOpLambda SlicingOpLambda TensorFlowOpLayer "
    "ClassMethod InstanceMethod InstanceProperty",
    "loads another saved model": "TFSMLayer",
    "does nothing of its own": "Layer Loss Metric Initializer Regularizer Constraint Reduction BaseRandomLayer "
    "AbstractRNNCell BatchNormalizationBase LearningRateSchedule IndexLookup",
    "is a premade model, whose parts are models of any class": "LinearModel WideDeepModel",
    "optimizers for parts of a model, by functions or layers": "MultiOptimizer OptimizerMap",
    "takes a function of Python": "AssociativeScan Cond ForiLoop Map Scan Switch VectorizedMap WhileLoop JVP",
}
NOT_FUNCTIONS = {"get", "serialize", "deserialize"}
_MODULES = ("layers", "losses", "metrics", "initializers", "regularizers", "constraints", "optimizers")


def _refused() -> set[str]:
    return {name for names in REFUSED.values() for name in names.split()}


def _public_classes(framework: ModuleType) -> Iterator[str]:
    for module in _MODULES:
        members = vars(getattr(framework, module))
        yield from (name for name, value in members.items() if inspect.isclass(value) and not name.startswith("_"))
    yield from (name for name in dir(framework.optimizers.schedules) if name[0].isupper())


def _layers_of_tf_keras() -> list[str]:
    serialization = importlib.import_module("tf_keras.src.layers.serialization")
    serialization.populate_deserializable_objects()
    return [name for name, value in serialization.LOCAL.ALL_OBJECTS.items() if inspect.isclass(value)]


def _operations_of_keras() -> Iterator[str]:
    package = importlib.import_module("keras.src.ops")
    operation = importlib.import_module("keras.src.ops.operation").Operation
    for each in pkgutil.iter_modules(package.__path__):
        if each.name.endswith("_test") or each.name in ("function", "operation"):
            continue
        module = importlib.import_module(f"keras.src.ops.{each.name}")
        for name, value in vars(module).items():
            if inspect.isclass(value) and issubclass(value, operation) and value.__module__ == module.__name__:
                yield name


class DecidedTest(unittest.TestCase):
    @parameterized.expand([(tf_keras,), (keras,)])
    def test_public_classes(self, framework: ModuleType) -> None:
        self.assertEqual(set(_public_classes(framework)) - CLASSES - _refused(), set())

    def test_what_tf_keras_looks_up(self) -> None:
        self.assertEqual(set(_layers_of_tf_keras()) - CLASSES - _refused(), set())

    def test_operations(self) -> None:
        self.assertEqual(set(_operations_of_keras()) - CLASSES - _refused(), set())

    @parameterized.expand([(tf_keras,), (keras,)])
    def test_functions(self, framework: ModuleType) -> None:
        for module in ("activations", "losses", "metrics"):
            found = {name for name, value in vars(getattr(framework, module)).items() if inspect.isfunction(value)}
            self.assertEqual(found - FUNCTIONS - CLASSES - NOT_FUNCTIONS, set(), module)

    def test_nothing_is_both(self) -> None:
        self.assertEqual(_refused() & CLASSES, set())
        self.assertEqual(FUNCTIONS & NOT_FUNCTIONS, set())


class AllowedTest(unittest.TestCase):
    def test_functions_of_tensorflow_take_no_function(self) -> None:
        suspicious = re.compile(r"fn|func|function|callback|path|file|filename|stream|device|handle|resource")
        # `signal.stft(window_fn)` needs a function, which no config can hold: it would be a string or a number.
        known = {"window_fn", "top_paths"}
        for name in allowed._ARITHMETIC:
            function = _symbol(name)
            if function is not None:
                parameters = [each for each in inspect.signature(function).parameters if suspicious.search(each)]
                self.assertLessEqual(set(parameters), known, name)

    def test_the_name_that_is_written_is_on_the_list(self) -> None:
        for name in allowed._ARITHMETIC:
            function = _symbol(name)
            for api in ("tensorflow", "keras") if function is not None else ():
                written = tf_export.get_canonical_name_for_symbol(function, api, add_prefix_to_v1_names=True)
                self.assertTrue(written is None or allowed.is_arithmetic(written), (name, written))

    def test_module_of_initializers(self) -> None:
        module = importlib.import_module("tensorflow.python.ops.init_ops_v2")
        found = {name: value for name, value in vars(module).items() if name in CLASSES | FUNCTIONS}
        for name, value in found.items():
            self.assertEqual(value.__module__, module.__name__, name)
            self.assertTrue(inspect.isroutine(value) or issubclass(value, module.Initializer), name)
        self.assertIn("Constant", found)

    def test_no_module_with_other_things(self) -> None:
        self.assertFalse([name for name in allowed._ARITHMETIC if name.startswith(("raw_ops", "py_"))])
        for name in ("io.write_file", "io.read_file", "raw_ops.WriteFile", "py_function", "numpy_function", "print"):
            self.assertFalse(allowed.is_arithmetic(name))
            self.assertFalse(allowed.is_arithmetic(f"compat.v1.{name}"))
        self.assertTrue(allowed.is_arithmetic("compat.v1.squeeze"))
        self.assertTrue(allowed.is_arithmetic("keras.activations.relu"))


def _symbol(name: str) -> Any:
    for root in (tf, tf.compat.v1, tf_keras):
        found: Any = root
        for part in name.removeprefix("keras.").split(".") if root is tf_keras else name.split("."):
            found = getattr(found, part, None)
        if found is not None and inspect.isroutine(found):
            return found
    return None


# Not looked up among functions: dtypes, classes of the caller, and what the callers of `deserialize` have checked.
_OTHER_KEYS = {"dtype", "config", "identifier", "name", "value", "policy", "item", "default_policy", "opt"}


class NamingKeysTest(unittest.TestCase):
    """Each parameter that the frameworks look up, as `activations.get(activation)`, is a key that is looked at."""

    @parameterized.expand([(tf_keras,), (keras,)])
    @pytest.mark.default_run("one case")
    def test_keys(self, framework: ModuleType) -> None:
        package = pathlib.Path(inspect.getfile(framework)).parent / "src"
        found = set(_looked_up(package / "layers")) | set(_looked_up(package / "engine"))
        found -= _OTHER_KEYS
        self.assertGreater(len(found), 20)
        self.assertEqual({key for key in found if not _NAMING_KEYS.fullmatch(key)}, set())


def _looked_up(folder: pathlib.Path) -> Iterator[str]:
    modules = {"activations", "initializers", "regularizers", "constraints", "losses", "metrics", "optimizers"}
    for path in folder.rglob("*.py"):
        if path.name.endswith("_test.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            owner = node.func.value
            if node.func.attr in ("get", "deserialize") and isinstance(owner, ast.Name) and owner.id in modules:
                argument = node.args[0]
                if isinstance(argument, ast.Name):
                    yield argument.id
                elif isinstance(argument, ast.Call) and argument.args and isinstance(argument.args[0], ast.Constant):
                    # `kwargs.pop("activation", None)`
                    yield argument.args[0].value
