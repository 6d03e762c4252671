"""Finds calls that save or load a model at a path without an extension of Keras 3."""

from __future__ import annotations

import ast

from mpls.reading.resolving import chain_of
from mpls.reading.scopes import Scope

__all__ = ["is_without_extension"]

# The extensions that Keras 3 saves to.
_EXTENSIONS = (".keras", ".h5", ".hdf5")
# Keras 3 saves to such addresses without an extension.
_HUB = "hf://"
# The calls that take a model's path, with the position of the argument.
_GIVEN = {"save": 0, "save_model": 1, "load_model": 0, "ModelCheckpoint": 0}
# Variables that are assigned other variables are followed this deep.
_DEPTH = 5


def is_without_extension(call: ast.Call, scope: Scope) -> bool:
    """Return whether a call, if it saves or loads a model, is given a path without an extension of Keras 3."""
    path = _given_to(call)
    return path is not None and _is_without_extension(path, scope)


def _given_to(call: ast.Call) -> ast.expr | None:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    position = _GIVEN.get(chain_of(call.func)[-1])
    if position is None or None in keywords or "zipped" in keywords:
        return None
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    return call.args[position] if len(call.args) > position else keywords.get("filepath")


def _is_without_extension(node: ast.expr, scope: Scope, depth: int = 0) -> bool:
    """Return whether an expression certainly gives a path that ends in no extension of Keras 3.

    Args:
        node: known are a string; `os.path.join`, `/`, `+` and f-strings that end in one; `tempfile.mkdtemp()`; and
            variables bound to any of these.
        scope: where the expression is evaluated.
        depth: how many variables were followed to get here.
    """
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else ""
        return bool(text) and not text.startswith(_HUB) and not text.endswith(_EXTENSIONS)
    if isinstance(node, ast.Name):
        bindings = scope.find(node.id) or []
        values = [(each.value, each.scope) for each in bindings]
        return bool(values) and all(
            isinstance(value, ast.expr) and depth < _DEPTH and _is_without_extension(value, within, depth + 1)
            for value, within in values
        )
    if isinstance(node, ast.Call) and _is_called(node, "tempfile", "mkdtemp"):
        return not node.args and all(keyword.arg in ("prefix", "dir") for keyword in node.keywords)
    if any(isinstance(each, ast.Constant) and str(each.value).startswith(_HUB) for each in ast.walk(node)):
        return False
    last = _last(node)
    return last is not None and _is_ending(last)


def _last(node: ast.expr) -> ast.expr | None:
    """Return the last part of an expression that puts a path together; None for any other expression."""
    if isinstance(node, ast.Call) and _is_called(node, "path", "join") and not node.keywords:
        return node.args[-1] if len(node.args) > 1 else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        return node.right
    return node.values[-1] if isinstance(node, ast.JoinedStr) and node.values else None


def _is_ending(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant):
        last = _last(node)
        return last is not None and _is_ending(last)
    # `name + "5"` may end in an extension whose beginning is in `name`.
    text = node.value
    return isinstance(text, str) and not text.endswith(_EXTENSIONS) and not any(e.endswith(text) for e in _EXTENSIONS)


def _is_called(call: ast.Call, module: str, function: str) -> bool:
    return chain_of(call.func)[-2:] in ((module, function), (function,))
