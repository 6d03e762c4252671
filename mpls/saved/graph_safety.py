"""The check of the graph in a SavedModel under `safe_mode`, before TensorFlow loads it.

TensorFlow's loader runs functions of the file: those that create and fill a lookup table, and that save and restore an
object. Calls of the model run other functions, and so does saving it again. So all functions are checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

from mpls.formats.file_kinds import KERAS_METADATA, SAVED_MODEL, VARIABLES
from mpls.saved.allowed import OPS, SAVERS, TABLE_FROM_FILE
from mpls.saved.foreign_files import IF_TRUSTED, broken, size_of

# The files that TensorFlow reads besides assets and the checkpoint. It reads saved_model.pbtxt only if there is no
# saved_model.pb, and a graph that is split into several files.
_FILES = (SAVED_MODEL, KERAS_METADATA, "fingerprint.pb", os.path.join("debug", "saved_model_debug_info.pb"))
_SPLIT = "saved_model.cpb"
# The names of ops. A node may have the name of a function as its op, so the names of functions must differ from them.
_NAME_OF_OP = re.compile(r"_?[A-Z][A-Za-z0-9_]*(>\w+)*", re.ASCII)
# Children of an object whose functions TensorFlow runs while it loads a file, or deletes the object.
_CALLED_AT_LOAD = ("_create_resource", "_initialize", "_destroy_resource")
# The most characters of a name in an error.
_SHOWN = 100


def refuse_unsafe_graph(path: str, graphs: Sequence[Any]) -> None:
    """Refuse a SavedModel with ops that may use files, the network, Python or another machine.

    A file that TensorFlow's loader reads must be in the folder.

    Args:
        path: the SavedModel's folder.
        graphs: the graphs in it.
    """
    _check_files(path)
    # Without an object graph, or with several graphs, TensorFlow loads it as a file of TF 1, and runs ops of its main
    # graph.
    if len(graphs) != 1 or not graphs[0].HasField("object_graph_def"):
        raise broken(path, SAVED_MODEL, "hold one graph with the objects in it", f"{len(graphs)} graphs", IF_TRUSTED)
    _Graph(path, graphs[0]).check()


def _shown(name: str) -> str:
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")


def _check_files(path: str) -> None:
    """Refuse links out of the folder, files that are not regular, and a graph that is split."""
    if os.path.lexists(os.path.join(path, _SPLIT)):
        raise broken(path, _SPLIT, "not be there, since mpls does not read it", _SPLIT, IF_TRUSTED)
    names = [name for name in _FILES if os.path.lexists(os.path.join(path, name))]
    folder = os.path.join(path, VARIABLES)
    if os.path.isdir(folder):
        # TensorFlow reads the files of the checkpoint only.
        names += [os.path.join(VARIABLES, name) for name in os.listdir(folder) if name.startswith(VARIABLES)]
    for name in names:
        size_of(os.path.join(path, name), path)


class _Graph:
    """The graph of a SavedModel, with its functions and objects.

    In a file that TensorFlow has written, the two functions that save and restore all variables are called by no
    function, and no object has them. The main graph calls them, which TensorFlow imports for files of TF 1 only.
    """

    def __init__(self, path: str, graph: Any) -> None:
        self._path, self._graph = path, graph
        self._functions, self._objects = graph.graph_def.library.function, graph.object_graph_def
        self._names: set[str] = set()
        # The functions that functions call, and gradient functions.
        self._from_functions: set[str] = set()
        # The functions that objects have, which the loader and calls of the model run. The loader makes all of these
        # callable, and also those that only a node names.
        self._from_objects = {*self._objects.concrete_functions, *graph.meta_info_def.function_aliases}
        self._from_objects |= {name for node in self._objects.nodes for name in _functions_of(node)}
        self._slots = {slot.slot_variable_node_id for node in self._objects.nodes for slot in node.slot_variables}

    def _refused(self, key: str, constraint: str, got: object) -> Exception:
        return broken(self._path, key, constraint, got, IF_TRUSTED)

    def check(self) -> None:
        """Refuse what may reach out of the model."""
        for function in self._functions:
            name = function.signature.name
            if not name or name in self._names or _NAME_OF_OP.fullmatch(name):
                raise self._refused(f"function {_shown(name)}", "have a name of its own", name)
            self._names.add(name)
        self._find_calls()
        self._check_ops("the main graph", self._graph.graph_def.node, OPS)
        allowed = OPS | SAVERS | {TABLE_FROM_FILE} | self._names
        for function in self._functions:
            self._check_ops(f"function {_shown(function.signature.name)}", function.node_def, allowed)
            self._check_opened(function)
        # TensorFlow copies all assets if the model is saved again.
        for number, node in enumerate(self._objects.nodes):
            if node.WhichOneof("kind") == "asset":
                self._check_asset(f"{SAVED_MODEL}: object {number}", number)

    def _find_calls(self) -> None:
        library = self._graph.graph_def.library
        self._from_functions = {name for each in library.gradient for name in (each.function_name, each.gradient_func)}
        self._from_functions.update(each.gradient_func for each in library.registered_gradients)
        at_load = set(_named_at_load(self._objects))
        for function in self._functions:
            names = set(self._called_by(function))
            if names and function.signature.name in at_load:
                key = f"function {_shown(function.signature.name)}"
                # Two functions that call each other would never end.
                raise self._refused(key, "call no functions, as it runs when the model is loaded", min(names))
            self._from_functions |= names

    def _called_by(self, function: Any) -> Iterator[str]:
        for node in function.node_def:
            if node.op in self._names:
                yield node.op
            for value in node.attr.values():
                kind = value.WhichOneof("value")
                for each in value.list.func if kind == "list" else [value.func] if kind == "func" else ():
                    key = f"function {_shown(function.signature.name)}, node {_shown(node.name)}"
                    # TensorFlow's loader renames functions, but not in the attributes of a function attribute. Such a
                    # name could be that of a function in this process.
                    if any(inner.WhichOneof("value") in ("func", "list") for inner in each.attr.values()):
                        raise self._refused(key, "pass no functions to functions", each.name)
                    if each.name not in self._names:
                        raise self._refused(key, "call functions of the file", each.name)
                    yield each.name

    def _check_ops(self, place: str, nodes: Iterable[Any], allowed: Set[str]) -> None:
        for node in nodes:
            if node.op not in allowed:
                key = f"{place}, node {_shown(node.name)}"
                raise self._refused(key, "have an op that is known to stay within the model", node.op)

    def _check_opened(self, function: Any) -> None:
        """Refuse ops that open files in functions that can be called, except one that fills a table from an asset."""
        name = function.signature.name
        opening = [node for node in function.node_def if node.op in SAVERS or node.op == TABLE_FROM_FILE]
        for position, node in enumerate(opening):
            key = f"function {_shown(name)}, node {_shown(node.name)}"
            # TensorFlow may replace a function with this attribute by another one with it.
            if name in self._from_functions or "api_implements" in function.attr:
                raise self._refused(key, "not open files in a function that others call", node.op)
            if node.op != TABLE_FROM_FILE and name in self._from_objects:
                raise self._refused(key, "not open files in a function that an object has", node.op)
            if node.op != TABLE_FROM_FILE:
                continue
            if position:
                raise self._refused(key, "be the only one in its function that opens a file", node.op)
            number = self._bound_object(function, node)
            if number is None or not self._is_plain_asset(number):
                raise self._refused(key, "read an asset of the folder, and no other file", node.op)
            self._check_asset(key, number)

    def _bound_object(self, function: Any, node: Any) -> int | None:
        """Return the number of the object that the loader binds to the argument with the path, or None."""
        if len(node.input) < 2 or not node.input[1].isidentifier():
            return None
        arguments = [each.name for each in function.signature.input_arg]
        name = function.signature.name
        if arguments.count(node.input[1]) != 1 or name not in self._objects.concrete_functions:
            return None
        # The loader binds the last arguments.
        bound = self._objects.concrete_functions[name].bound_inputs
        position = arguments.index(node.input[1]) - (len(arguments) - len(bound))
        return int(bound[position]) if 0 <= position < len(bound) else None

    def _is_plain_asset(self, number: int) -> bool:
        """Return whether the loader makes an asset of an object: it has no registered class, children or slots."""
        if not 0 <= number < len(self._objects.nodes) or number in self._slots:
            return False
        node = self._objects.nodes[number]
        return node.WhichOneof("kind") == "asset" and not node.registered_name and not node.children

    def _check_asset(self, key: str, number: int) -> None:
        files = self._graph.asset_file_def
        index = self._objects.nodes[number].asset.asset_file_def_index
        if not 0 <= index < len(files):
            raise self._refused(key, f"read one of {len(files)} assets", index)
        name = files[index].filename
        parts = name.split("/")
        is_path = "\\" not in name and "\0" not in name and not os.path.splitdrive(name)[0]
        if not is_path or any(each in ("", ".", "..") for each in parts):
            raise self._refused(f"asset {_shown(name)}", "be the path of a file below assets", name)
        size_of(os.path.join(self._path, "assets", *parts), self._path)


def _named_at_load(objects: Any) -> Iterator[str]:
    for node in objects.nodes:
        called = [child.node_id for child in node.children if child.local_name in _CALLED_AT_LOAD]
        for saver in node.saveable_objects.values():
            called += [saver.save_function, saver.restore_function]
        for number in called:
            if 0 <= number < len(objects.nodes):
                yield from _functions_of(objects.nodes[number])


def _functions_of(node: Any) -> Iterator[str]:
    kind = node.WhichOneof("kind")
    if kind == "function":
        yield from node.function.concrete_functions
    elif kind == "bare_concrete_function":
        yield node.bare_concrete_function.concrete_function_name
    elif kind == "captured_tensor":
        yield node.captured_tensor.concrete_function
