"""What the tests of SavedModels' graphs share: an honest one in a folder, and ops that no honest writer puts there."""

from __future__ import annotations

import pathlib
import re
import shutil
import warnings
from typing import Any, ClassVar

import pytest
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2

from mpls.inspect import describe
from tests.folders import InFolder
from tests.saved import honest_models

TEXT = "written by an op of the file"


class Graph:
    """A copy of a SavedModel, to be changed and saved."""

    def __init__(self, source: pathlib.Path, folder: pathlib.Path) -> None:
        self.folder = folder
        shutil.copytree(source, folder)
        self.proto = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
        self.meta = self.proto.meta_graphs[0]
        self.objects = self.meta.object_graph_def
        self.library = self.meta.graph_def.library

    def save(self) -> pathlib.Path:
        (self.folder / "saved_model.pb").write_bytes(self.proto.SerializeToString())
        return self.folder

    def function(self, name: str) -> Any:
        """Return the first function whose name holds this."""
        return next(each for each in self.library.function if name in each.signature.name)

    def functions_of_objects(self) -> dict[str, list[Any]]:
        """Return functions by the attribute that the loader makes of them."""
        found: dict[str, list[Any]] = {}
        for node in self.objects.nodes:
            roles = [(each.local_name, each.node_id) for each in node.children]
            for saver in node.saveable_objects.values():
                roles += [("save_function", saver.save_function), ("restore_function", saver.restore_function)]
            for role, number in roles:
                child = self.objects.nodes[number]
                names = list(child.function.concrete_functions)
                names += [child.bare_concrete_function.concrete_function_name]
                found.setdefault(role, []).extend(self.function(name) for name in names if name)
        return found

    def new_function(self, name: str) -> Any:
        function = self.library.function.add()
        function.signature.name = name
        return function


def add(function: Any, op: str, name: str, inputs: list[str] | None = None, **attributes: Any) -> Any:
    """Add a node to a function, such that it runs when the function does."""
    node = function.node_def.add(name=name, op=op, input=inputs or [])
    for key, value in attributes.items():
        if key == "f":
            node.attr[key].func.name = value
        elif key == "branches":
            for each in value:
                node.attr[key].list.func.add().name = each
        elif isinstance(value, tf.DType):
            node.attr[key].type = value.as_datatype_enum
        elif isinstance(value, list) and key != "value":
            node.attr[key].list.type.extend(each.as_datatype_enum for each in value)
        else:
            node.attr[key].tensor.CopyFrom(tf.make_tensor_proto(value))
    if op != "Const":
        function.control_ret[name] = name
        function.signature.control_output.append(name)
        function.signature.is_stateful = True
    return node


def add_text(function: Any, name: str, text: str) -> str:
    """Add a constant, and return the input that stands for it."""
    add(function, "Const", name, dtype=tf.string, value=text)
    return f"{name}:output:0"


def add_write(function: Any, path: pathlib.Path, name: str = "hostile") -> None:
    """Have a function write a file."""
    inputs = [add_text(function, f"{name}_path", str(path)), add_text(function, f"{name}_text", TEXT)]
    add(function, "WriteFile", name, inputs)


def add_call(function: Any, callee: str, op: str = "StatefulPartitionedCall") -> None:
    """Have a function without arguments called."""
    if op == callee:
        add(function, op, "call")
    else:
        add(function, op, "call", f=callee, Tin=[], Tout=[])


def save(model: Any, path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(path, save_format="tf")


def load_natively(path: pathlib.Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tf_keras.models.load_model(path)


def refusal_of(path: pathlib.Path) -> str | None:
    """Return why `load_model` refuses a model, None if it does not."""
    found = describe(path)
    return found["refusal"] or found["reason"]  # type: ignore[no-any-return]


class Folders(InFolder):
    """Gives a test a folder with a copy of the honest SavedModel, and one outside it."""

    _saved: ClassVar[pathlib.Path | None] = None

    @pytest.fixture(autouse=True)
    def _folders(self, _folder: None, tmp_path_factory: pytest.TempPathFactory) -> None:
        if Folders._saved is None:
            folder = tmp_path_factory.mktemp("honest")
            save(honest_models.tables(), folder / "model")
            Folders._saved = folder / "model"
        self.outside = self.folder / "outside"
        self.outside.mkdir()
        self.graph = Graph(Folders._saved, self.folder / "model")
        self.roles = self.graph.functions_of_objects()

    def refused(self, words: str) -> str:
        text = refusal_of(self.graph.save()) or ""
        assert re.search(words, text), text
        assert str(self.graph.folder) in text
        assert "safe_mode=False" in text or "Copy" in text
        return text

    def written(self) -> set[str]:
        found = {each.name for each in self.outside.iterdir() if each.read_text() == TEXT}
        for each in self.outside.iterdir():
            each.unlink()
        return found
