"""The functions of a SavedModel that its other functions call, or that the loaded objects can call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mpls.errors import SavedStateError
from mpls.saved.errors import IF_TRUSTED, broken

# The most characters of a name in an error.
_SHOWN = 100
# Children of an object that TensorFlow itself calls: the first two during loading, the last when the object is deleted.
_CALLED_AT_LOAD = frozenset({"_create_resource", "_initialize", "_destroy_resource"})


@dataclass(frozen=True)
class Calls:
    """The functions of a SavedModel, by name, and who calls them.

    In a file that TensorFlow has written, the two functions that save and restore all variables are neither in
    `from_functions` nor in `from_objects`. The main graph calls them, which TensorFlow imports for files of TF 1 only.

    Attributes:
        functions: all functions.
        from_functions: the functions that functions call, and gradient functions.
        from_objects: the functions that objects have, which the loader and calls of the model run.
        at_load: those of them that create, fill, save, restore or delete an object without a call of the model.
    """

    functions: frozenset[str]
    from_functions: frozenset[str]
    from_objects: frozenset[str]
    at_load: frozenset[str]


def calls_of(path: str, graph: Any) -> Calls:
    """Return the calls in a graph.

    Args:
        path: the SavedModel's folder.
        graph: its only MetaGraphDef.

    Raises:
        SavedStateError: two functions have the same name, a function has the name of an op, or a function is called in
            a way that no release has written.
    """
    library = graph.graph_def.library
    known = _names(path, library)
    called = {name for each in library.gradient for name in (each.function_name, each.gradient_func)}
    called.update(each.gradient_func for each in library.registered_gradients)
    for function in library.function:
        for node in function.node_def:
            if node.op in known:
                called.add(node.op)
            for name in _called_by(path, function, node):
                if name not in known:
                    key = f"function {described(function.signature.name)}, node {described(node.name)}"
                    raise refused(path, key, "call functions of the file", name)
                called.add(name)
    by_objects, at_load = _named_by_objects(graph), _named_at_load(graph.object_graph_def)
    return Calls(known, frozenset(called), frozenset(by_objects), frozenset(at_load))


def _names(path: str, library: Any) -> frozenset[str]:
    known: set[str] = set()
    for function in library.function:
        name = function.signature.name
        # A node may have the name of a function as its op, so these names must differ from those of ops.
        if not name or name in known or hasattr(tf.raw_ops, name):
            raise refused(path, f"function {described(name)}", "have a name of its own", name)
        known.add(name)
    return frozenset(known)


def _called_by(path: str, function: Any, node: Any) -> Iterator[str]:
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            found = [value.func]
        elif kind == "list":
            found = value.list.func
        else:
            continue
        for each in found:
            # TensorFlow's loader renames functions, but not in the attributes of a function attribute. Such a name
            # could be that of a function in this process.
            if each.attr and any(inner.WhichOneof("value") in ("func", "list") for inner in each.attr.values()):
                key = f"function {described(function.signature.name)}, node {described(node.name)}"
                raise refused(path, key, "pass no functions to functions", each.name)
            yield each.name


def _named_by_objects(graph: Any) -> Iterator[str]:
    objects = graph.object_graph_def
    # The loader makes all of these callable, and also those that only a node names.
    yield from objects.concrete_functions
    yield from graph.meta_info_def.function_aliases
    for node in objects.nodes:
        yield from _functions_of(node)


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


def refused(path: str, key: str, constraint: str, got: object) -> SavedStateError:
    """Return the error for a file that `safe_mode` refuses; arguments as with `broken`, the caller raises it."""
    return broken(path, key, constraint, got, IF_TRUSTED)


def described(name: str) -> str:
    """Return a name from a file for an error: quoted, control characters escaped, and cut at 100 characters."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")
