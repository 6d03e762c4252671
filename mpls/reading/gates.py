"""Finds tests for the installed release (gates). Code behind a gate may never run, so it proves nothing."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "arm_of_every_release",
    "catches_missing_names",
    "ends_block",
    "gate_names",
    "holds_for_every_release",
    "is_constant",
    "is_gate",
    "is_tried",
    "version_of_2",
]

# Attributes that hold a version, and functions that probe whether something exists.
_VERSIONS = ("__version__", "VERSION", "version_info", "__version_info__", "__dict__")
_PROBES = ("hasattr", "callable", "find_spec", "dir", "vars", "find_loader", "executing_eagerly", "enabled")
# Names that programs commonly give to the result of such a test, for results imported from other modules.
_ANSWERS = re.compile(
    r"(tf|tensorflow|keras)_?v?[123]|version|^_?has_|^_?have_|available|installed|legacy|compat", re.I
)
_MISSING = (
    "ImportError",
    "ModuleNotFoundError",
    "AttributeError",
    "NameError",
    "KeyError",
    "Exception",
    "BaseException",
)
_REFUSALS = ("ValueError", "AssertionError", "Exception", "BaseException")
# The TensorFlow releases that mpls runs on; programs compare such versions as strings.
_RELEASES = ("2.16.1", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
_COMPARISONS: dict[type[ast.cmpop], Callable[[str, str], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def is_gate(test: ast.expr, names: Iterable[str]) -> bool:
    """Return whether a condition tests the release, or whether the release has something.

    Args:
        test: the expression.
        names: variables and functions that hold or return the result of such a test.
    """
    if isinstance(test, ast.Constant):
        return False
    return any(_asks(node, names) for node in ast.walk(test))


def _asks(node: ast.AST, names: Iterable[str]) -> bool:
    if isinstance(node, ast.Call):
        called = _last_name(node.func)
        return called in _PROBES or called in names or (called == "getattr" and len(node.args) == 3)
    name = _last_name(node)
    return name in _VERSIONS or name in names or (name != "" and _ANSWERS.search(name) is not None)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def gate_names(tree: ast.Module) -> set[str]:
    """Return the names of a file's variables and functions that hold or return the result of such a test."""
    names: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Assign) and is_gate(node.value, names) and _is_answer(node.value):
            targets = [each for target in node.targets for each in getattr(target, "elts", [target])]
            names.update(filter(None, map(_last_name, targets)))
        elif isinstance(node, ast.FunctionDef) and _returns_gate(node, names):
            names.add(node.name)
        elif isinstance(node, ast.Try) and any(map(catches_missing_names, node.handlers)):
            names.update(_constants(node))
    return names


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            yield each
            yield from _statements(each)


def _is_answer(value: ast.expr) -> bool:
    # A value that is selected by the result (`a if test else b`, `getattr` with a default) is not the result itself.
    return not isinstance(value, ast.IfExp) and not (
        isinstance(value, ast.Call) and _last_name(value.func) == "getattr"
    )


def _returns_gate(function: ast.FunctionDef, names: set[str]) -> bool:
    body = function.body
    last = body[-1] if body else None
    return len(body) <= 3 and isinstance(last, ast.Return) and last.value is not None and is_gate(last.value, names)


def _constants(statement: ast.Try) -> Iterator[str]:
    for body in (statement.body, statement.orelse, *(handler.body for handler in statement.handlers)):
        for node in body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                yield from filter(None, map(_last_name, node.targets))


def is_tried(test: ast.expr) -> bool | None:
    """Return whether a condition is true, or false, if there is an `experimental` namespace; None for any other."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        answer = is_tried(test.operand)
        return None if answer is None else not answer
    name = test.args[1] if isinstance(test, ast.Call) and len(test.args) == 2 else None
    is_probe = isinstance(test, ast.Call) and _last_name(test.func) == "hasattr"
    return True if is_probe and getattr(name, "value", None) == "experimental" else None


def catches_missing_names(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the error for a missing module or attribute."""
    return _catches(handler, _MISSING)


def catches_refusals(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the error for a refused value or a failed assertion."""
    return _catches(handler, _REFUSALS)


def _catches(handler: ast.ExceptHandler, names: tuple[str, ...]) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_last_name(each) in names for each in types)


def expects_error(node: ast.stmt) -> bool:
    """Return whether a `with` statement expects its body to fail, such as `with pytest.raises(...)`."""
    items = getattr(node, "items", ())
    called = [item.context_expr.func for item in items if isinstance(item.context_expr, ast.Call)]
    return any(_last_name(each).startswith(("raises", "assertRaises", "suppress")) for each in called)


def ends_block(body: list[ast.stmt]) -> bool:
    """Return whether a body ends in `return`, `continue` or `break`, so that the statements after it are skipped."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Continue | ast.Break)


def arm_of_every_release(test: ast.expr) -> bool | None:
    """Return the result of a condition that is the same on every release; None if it may differ.

    Known are constants, and comparisons of `tf.__version__` with a string.
    """
    constant = is_constant(test)
    if constant is not None:
        return constant
    left = test.left if isinstance(test, ast.Compare) else None
    if not (isinstance(left, ast.Attribute) and left.attr == "__version__" and isinstance(left.value, ast.Name)):
        return None
    is_of_tf = left.value.id in ("tf", "tensorflow", "tf1", "tf2")
    return holds_for_every_release(test) if is_of_tf and isinstance(test, ast.Compare) else None


def is_constant(test: ast.expr) -> bool | None:
    """Return the result of a constant condition, such as `False` or `TYPE_CHECKING`; None for any other."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    return False if _last_name(test) == "TYPE_CHECKING" else None


def version_of_2(test: ast.expr) -> ast.expr | None:
    """Return the expression that a condition requires to be version 2 or later; None for any other condition."""
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr == "startswith":
        version, texts = test.func.value, test.args
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.GtE | ast.Gt):
        version, texts = test.left, test.comparators
    else:
        return None
    text = texts[0].value if len(texts) == 1 and isinstance(texts[0], ast.Constant) else None
    return version if isinstance(text, str) and text.startswith("2") else None


def holds_for_every_release(comparison: ast.Compare) -> bool | None:
    """Return the result of comparing a version with a string, if it is the same on all releases that mpls runs on.

    None if the releases differ, or if the version is not compared with a string.
    """
    right = comparison.comparators[0]
    compare = _COMPARISONS.get(type(comparison.ops[0]))
    text = right.value if isinstance(right, ast.Constant) else None
    if len(comparison.ops) != 1 or compare is None or not isinstance(text, str):
        return None
    answers = {compare(release, text) for release in _RELEASES}
    return answers.pop() if len(answers) == 1 else None
