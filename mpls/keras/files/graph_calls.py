"""Which functions of a SavedModel can be called, by its other functions and by the objects that are made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mpls.errors import SavedStateError
from mpls.saved.errors import broken

ADVICE = "If you trust whoever wrote the file, pass safe_mode=False"
_SHOWN = 100
# Children of objects that TensorFlow calls without being asked, the last when the object goes.
_CALLED_AT_LOAD = frozenset({"_create_resource", "_initialize", "_destroy_resource"})


@dataclass(frozen=True)
class Calls:
    """The names of functions that something in a SavedModel refers to.

    The two that save and restore all variables are among neither: only its main graph calls them, which TensorFlow
    imports for files of TF 1 and no others.

    Attributes:
        functions: of all functions that are there.
        from_functions: by functions, and as gradients.
        from_objects: by objects, which the loader and the model's calls run.
        at_load: by objects that are made, filled, saved or restored while TensorFlow loads the file.
    """

    functions: frozenset[str]
    from_functions: frozenset[str]
    from_objects: frozenset[str]
    at_load: frozenset[str]


def calls_of(path: str, graph: Any) -> Calls:
    """Return the calls in a graph.

    Raises:
        SavedStateError: two functions have one name, one has the name of an op, or one is called in a way that no
            release has written.
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
        # A node may name a function in the place of an op, and it must be plain which of two it means.
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
            # TensorFlow's loader looks no deeper; what it would not rename could be a function of this process.
            if each.attr and any(inner.WhichOneof("value") in ("func", "list") for inner in each.attr.values()):
                key = f"function {described(function.signature.name)}, node {described(node.name)}"
                raise refused(path, key, "pass no functions to functions", each.name)
            yield each.name


def _named_by_objects(graph: Any) -> Iterator[str]:
    objects = graph.object_graph_def
    # All of them, since the loader makes them callable; and those that only an object names, which works as well.
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
    """Return the error for what is not allowed in a file of unknown origin, to be raised."""
    return broken(path, key, constraint, got, ADVICE)


def described(name: str) -> str:
    """Return a name of the file's as it can be shown: such may be long, and hold control characters."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")
