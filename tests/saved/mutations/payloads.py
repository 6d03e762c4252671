"""Nodes for configs that name what no file may name: functions, classes, code, files elsewhere."""

from __future__ import annotations

import codecs
import marshal
import random
from collections.abc import Callable
from typing import Any

from tests.saved.mutations.canary import SPY, Canary
from tests.saved.mutations.hostile_names import COMMAND, FUNCTIONS, LAYER_CLASSES, LIST, MODULES, PATH, PYTHON, SYMBOLS

# How configs are written: in H5 files and SavedModels of tf_keras, in its `.keras` files, and by Keras 3.
OLD, NEW, KERAS3 = "old", "new", "keras3"


class Payloads:
    """Makes such nodes; what they would do, they do in the canary's folder."""

    def __init__(self, chance: random.Random, canary: Canary) -> None:
        self._chance, self._canary = chance, canary
        # How the config is written that a node is for.
        self.dialect = NEW

    def _function(self) -> tuple[str, str, str]:
        # Those that are sure to do something, half of the time.
        return self._chance.choice(
            FUNCTIONS if self._chance.random() < 0.5 else [FUNCTIONS[0], FUNCTIONS[3], FUNCTIONS[-2]]
        )

    def argument(self, kind: str) -> Any:
        touched = str(self._canary.touched)
        if kind == COMMAND:
            return f"touch {touched}"
        if kind == PYTHON:
            return f"open({touched!r}, 'w').close()"
        if kind == LIST:
            return ["touch", touched]
        if kind == PATH:
            endings = (".txt", ".h5", ".npy", ".bin")
            return self._chance.choice(
                [touched, str(self._canary.folder / "saved_model"), *map(self._canary.secret, endings)]
            )
        return kind

    def node(self) -> tuple[str, Any]:
        """Return what it is and a node for any place."""
        make: Callable[[], tuple[str, Any]] = self._chance.choice(
            (
                self.function,
                self.function,
                self.function,
                self.built,
                self.code,
                self.layer,
                self.nested,
                self.nested,
                self.typed,
                self.file,
            )
        )
        return make()

    def function(self) -> tuple[str, Any]:
        """A function or class by module and name, in one of the forms that loaders know."""
        module, name, kind = self._function()
        argument = self.argument(kind)
        forms: list[Any] = [
            {"module": module, "class_name": "function", "config": name, "registered_name": name},
            {"module": module, "class_name": "function", "config": name, "registered_name": "function"},
            {
                "module": "builtins",
                "class_name": "function",
                "config": f"{module}.{name}",
                "registered_name": f"{module}>{name}",
            },
            {"class_name": "function", "config": {"module": module, "function": name}},
            {"class_name": f"{module}>{name}", "config": {}},
            {"class_name": f"{module}.{name}", "config": {}},
            f"{module}.{name}",
            f"{module}>{name}",
            name,
            {"module": module, "class_name": name, "config": argument, "registered_name": None},
        ]
        return f"the function {module}.{name}", self._chance.choice(forms)

    def built(self) -> tuple[str, Any]:
        """A class that is to be made from settings."""
        module, name, kind = self._function()
        keys = {COMMAND: "command", PYTHON: "source", LIST: "args", PATH: "path"}
        settings = {
            self._chance.choice((keys.get(kind, "name"), "name", "fn", "fname", "filepath")): self.argument(kind)
        }
        node = {"module": module, "class_name": name, "config": settings}
        node["registered_name"] = self._chance.choice((None, name, f"{module}>{name}"))
        return f"an object of {module}.{name}", node

    def code(self) -> tuple[str, Any]:
        """Bytecode, in one of the forms that lambdas have."""
        encoded = self.bytecode()
        plain = encoded.replace("\n", "")
        forms: list[Any] = [
            {"class_name": "__lambda__", "config": {"code": encoded, "defaults": None, "closure": None}},
            {"class_name": "__lambda__", "config": {"value": plain}},
            [encoded, None, None],
            {"class_name": "function", "config": [encoded, None, None]},
            {"class_name": "Lambda", "config": self.lambda_settings([encoded, None, None], "lambda")},
            {
                "class_name": "Lambda",
                "config": self.lambda_settings([encoded, None, None], "raw"),
                "module": "keras.layers",
            },
            {
                "class_name": "keras>Lambda",
                "config": self.lambda_settings({"class_name": "__lambda__", "config": {"code": encoded}}, "lambda"),
            },
            self.lambda_settings([encoded, None, None], "lambda"),
        ]
        return "bytecode", self._chance.choice(forms)

    def bytecode(self) -> str:
        """Return a lambda that runs the command, as frameworks write lambdas."""
        text = f"__import__('os').system({self.argument(COMMAND)!r})"
        code = compile(f"lambda *args, **kwargs: {text}", "<lambda>", "eval").co_consts[0]
        return codecs.encode(marshal.dumps(code), "base64").decode("ascii")

    def lambda_settings(self, function: Any, kind: str, module: str | None = None) -> dict[str, Any]:
        settings = {"name": "spy", "trainable": True, "dtype": "float32", "function": function, "function_type": kind}
        settings |= {"module": module, "output_shape": None, "output_shape_type": "raw", "output_shape_module": None}
        if self._chance.random() < 0.3:
            settings |= {"output_shape": function, "output_shape_type": kind, "output_shape_module": module}
        if self._chance.random() < 0.2:
            settings |= {"mask": function, "mask_type": kind, "mask_module": module}
        return {**settings, "arguments": {}}

    def layer(self) -> tuple[str, Any]:
        """A layer that runs what it is told."""
        return self.layer_with_argument()[:2]

    def layer_with_argument(self) -> tuple[str, Any, Any]:
        """The same with what it is to be called with: a value, and a dict of arguments."""
        make: Callable[[], tuple[str, Any, Any]] = self._chance.choice(
            (self._named_lambda, self._named_lambda, self._op, self._op, self._reading)
        )
        return make()

    def _named_lambda(self) -> tuple[str, Any, Any]:
        module, name, kind = self._function()
        reference: Any = {"module": module, "class_name": "function", "config": name, "registered_name": name}
        texts = (name, name, f"{module}.{name}", f"{module}>{name}")
        function = self._chance.choice(
            (*texts, reference) if self._is(OLD) else (reference, reference, reference, *texts)
        )
        kind_of = self._chance.choice(("function", "function", "function", "raw", "lambda"))
        settings = self.lambda_settings(function, kind_of, module)
        if self._is(KERAS3):
            # It does without them; tf_keras asks for them.
            for key in ("function_type", "module", "output_shape_type", "output_shape_module"):
                settings.pop(key)
        node = {
            "class_name": self._chance.choice(("Lambda",) * 6 + ("keras>Lambda",)),
            "config": settings,
            "name": "spy",
        }
        if not self._is(OLD):
            node |= {"module": "keras.layers", "registered_name": None}
        return f"a Lambda of {module}.{name}", node, [self.argument(kind), {}]

    def _is(self, dialect: str) -> bool:
        """Return whether to write in a dialect; sometimes it is not that of the file."""
        return (self.dialect == dialect) != (self._chance.random() < 0.12)

    def nested(self) -> tuple[str, Any]:
        """A model of its own, of an input and of a layer that is called with something else."""
        what, node, (argument, others) = self.layer_with_argument()
        size, place = [None, 1], ["spy_input", 0, 0]
        node["inbound_nodes"] = self.calls(argument, others)
        settings = {
            "name": "spy_input",
            "dtype": "float32",
            "batch_shape" if self.dialect == KERAS3 else "batch_input_shape": size,
        }
        first = {"class_name": "InputLayer", "config": settings, "name": "spy_input", "inbound_nodes": []}
        model = {
            "name": "spy_model",
            "trainable": True,
            "layers": [first, node],
            "input_layers": [place],
            "output_layers": [place],
        }
        found: dict[str, Any] = {
            "class_name": self._chance.choice(("Functional", "Functional", "Model")),
            "config": model,
        }
        if self.dialect != OLD:
            first |= {"module": "keras.layers", "registered_name": None}
            found |= {
                "module": "keras.src.models.functional" if self.dialect == KERAS3 else "keras.src.engine.functional"
            }
            found |= {"registered_name": found["class_name"]}
        return f"a model with {what}", found

    def calls(self, argument: Any, others: dict[str, Any]) -> list[Any]:
        """Return how a model calls a layer with a value."""
        if self.dialect == KERAS3:
            return [{"args": [argument], "kwargs": others}]
        call = ["_CONSTANT_VALUE", -1, argument, others]
        return [call] if self._chance.random() < 0.5 else [[call]]

    def _op(self) -> tuple[str, Any, Any]:
        symbol = self._chance.choice(SYMBOLS if self._chance.random() < 0.5 else SYMBOLS[:4])
        name = self._chance.choice(
            ("TFOpLambda",) * 5 + ("SlicingOpLambda", "ClassMethod", "InstanceMethod", "InstanceProperty")
        )
        settings = {"name": "spy", "trainable": True, "dtype": "float32", "function": symbol}
        if name == "ClassMethod":
            owner, _, method = symbol.rpartition(".")
            settings |= {"cls_ref": owner, "cls_symbol": owner, "method_name": method}
        elif name.startswith("Instance"):
            settings |= {"attr_name": "__class__", "method_name": "__reduce__"}
        module = self._chance.choice(("tf_keras.src.layers.core.tf_op_layer", "keras.src.layers.core.tf_op_layer"))
        node: dict[str, Any] = {"class_name": name, "config": settings, "name": "spy"}
        if not self._is(OLD):
            node |= {"module": module, "registered_name": name}
        path, arguments = self.argument(PATH), self._chance.choice(({}, {"contents": "text"}, {"contents": "text"}))
        if symbol.startswith("raw_ops.") and self._chance.random() < 0.7:
            arguments = {"filename": path, **arguments}
        return f"{name} of {symbol}", node, [path, arguments]

    def _reading(self) -> tuple[str, Any, Any]:
        name = self._chance.choice(LAYER_CLASSES)
        path = self.argument(PATH)
        settings: dict[str, Any] = {"name": "spy"}
        for key in (
            "vocabulary",
            "filepath",
            "module",
            "call_fn",
            "init_fn",
            "idf_weights",
            "path",
            "node_def",
            "vocabulary_file",
        ):
            if self._chance.random() < 0.6:
                settings[key] = path
        if name.endswith("Lookup") or name == "TextVectorization":
            settings = {"name": "spy", "vocabulary": self._canary.secret(".txt")}
        elif name == "TorchModuleWrapper":
            settings = {"name": "spy", "module": {"class_name": "__bytes__", "config": {"value": "gASVAAAAAAAAAAAu"}}}
        elif name == "TFSMLayer":
            settings = {"name": "spy", "filepath": str(self._canary.folder / "saved_model"), "call_endpoint": "serve"}
        node = {
            "module": self._chance.choice(MODULES),
            "class_name": name,
            "config": settings,
            "registered_name": name,
            "name": "spy",
        }
        return f"a {name} that reads", node, [path, {}]

    def typed(self) -> tuple[str, Any]:
        """A value of a type that JSON has not."""
        forms: list[Any] = [
            {"class_name": "__typespec__", "spec_name": "TensorSpec", "module": "os", "config": [[2**40], "float32"]},
            {"class_name": "__typespec__", "spec_name": "system", "module": "os", "config": [self.argument(COMMAND)]},
            {"class_name": "__typespec__", "spec_name": "Spy", "module": SPY, "config": [], "registered_name": None},
            {"class_name": "TypeSpec", "type_spec": SPY, "serialized": [self.argument(COMMAND)]},
            {
                "class_name": "CompositeTensor",
                "spec": {"class_name": "TypeSpec", "type_spec": "x", "serialized": []},
                "tensors": [],
            },
            {"class_name": "__tensor__", "config": {"value": [1, [2]], "dtype": "resource"}},
            {"class_name": "__numpy__", "config": {"value": [self.argument(PYTHON)], "dtype": "O"}},
            {"class_name": "__bytes__", "config": {"value": 2**31}},
            {"class_name": "__bytes__", "config": {"value": "gASV"}},
            {"class_name": "__ellipsis__", "config": {"value": None}},
            {"class_name": "__tuple__", "items": [1, {"class_name": "__ellipsis__"}]},
            {"class_name": "__slice__", "config": {"start": 0, "stop": 2**60, "step": 1}},
            {
                "class_name": "__keras_tensor__",
                "config": {"shape": [2**31, 2**31], "dtype": "float32", "keras_history": ["x", 9, 9]},
            },
            {"class_name": "__complex__", "config": {"value": ["1", "2"]}},
        ]
        node = self._chance.choice(forms)
        return f"a value of {node['class_name']}", node

    def file(self) -> tuple[str, Any]:
        """A path or a URL as a text."""
        path = self.argument(PATH)
        return "a path", self._chance.choice(
            (path, f"file://{path}", f"../../../..{path}", f"http://127.0.0.1:9{path}", f"hf://{path}")
        )
