"""Tells from the places of an expression in a syntax tree whether its value may get to where it is not followed."""

from __future__ import annotations

import ast

from mpls.program.scopes import Function, Region

__all__ = ["Places"]

# Functions that ask nothing of the objects of a class.
_HARMLESS = ("callable", "dir", "hasattr", "help", "print", "repr", "str")
# Functions whose first argument is only called, or is for type checkers, or only finds a method.
_HARMLESS_AT_FIRST = ("cast", "partial", "super")
# Attributes of a class by which it is asked whether it has an object or a class.
_TESTS = ("__instancecheck__", "__mro__", "__subclasscheck__", "__subclasses__", "mro")
_CLASS = "LossScaleOptimizer"


class Places:
    """The places of the expressions of a file.

    Args:
        tree: the parsed file.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._known: dict[ast.AST, ast.AST] = {}

    def is_value(self, node: ast.expr, region: Region) -> bool:
        """Return whether an expression is where its value is not followed.

        Args:
            node: the expression, a class or a module.
            region: the scope that it is in.
        """
        inner, outer = node, self._around(node)
        is_followed = not region.is_class
        while isinstance(outer, ast.IfExp | ast.BoolOp) and _passes(outer, inner):
            # What `and` returns is not followed; nor are attributes of classes, which are read through their objects.
            is_followed = is_followed and not _is_and(outer)
            inner, outer = outer, self._around(outer)
        if isinstance(outer, ast.Attribute):
            return outer.attr in _TESTS
        if isinstance(outer, ast.Tuple | ast.List) and self._is_unpacked(outer):
            outer = self._around(outer)
        if isinstance(outer, ast.Assign | ast.AnnAssign):
            return not is_followed or not all(map(_is_name, _targets(outer)))
        if isinstance(outer, ast.Call):
            return inner is not outer.func and not _is_harmless(outer, inner)
        if isinstance(outer, ast.Compare):
            return not any(isinstance(each, ast.Constant) and each.value is None for each in _sides(outer))
        is_asked = isinstance(outer, ast.If | ast.While | ast.IfExp | ast.BoolOp | ast.Assert | ast.UnaryOp)
        return not (is_asked or isinstance(outer, ast.Expr | ast.FormattedValue))

    def dispatches(self, node: ast.expr) -> bool:
        """Return whether `register` of `functools.singledispatch` takes an annotation as the class of its function."""
        outer = self._around(node)
        while isinstance(outer, ast.expr):
            outer = self._around(outer)
        function = self._around(self._around(outer)) if isinstance(outer, ast.arg) else None
        if not isinstance(function, Function) or outer not in function.args.args[:2]:
            return False
        decorators = [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]
        return any(isinstance(each, ast.Attribute) and each.attr == "register" for each in decorators)

    def _around(self, node: ast.AST) -> ast.AST:
        if not self._known:
            self._known = {inner: outer for outer in ast.walk(self._tree) for inner in ast.iter_child_nodes(outer)}
        return self._known[node]

    def _is_unpacked(self, node: ast.Tuple | ast.List) -> bool:
        """Return whether each element of a tuple or list is assigned to a name of its own."""
        outer = self._around(node)
        targets = outer.targets if isinstance(outer, ast.Assign) else []
        return bool(targets) and all(
            isinstance(each, ast.Tuple | ast.List) and len(each.elts) == len(node.elts) for each in targets
        )


def _passes(outer: ast.IfExp | ast.BoolOp, inner: ast.expr) -> bool:
    """Return whether an operand may be what an expression returns; a class and a module are true."""
    if isinstance(outer, ast.IfExp):
        return inner is not outer.test
    return not _is_and(outer) or inner is outer.values[-1]


def _is_and(node: ast.IfExp | ast.BoolOp) -> bool:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [each for one in targets for each in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def _sides(node: ast.Compare) -> list[ast.expr]:
    return [node.left, *node.comparators]


def _is_harmless(call: ast.Call, argument: ast.expr) -> bool:
    function = call.func
    name = getattr(function, "id", "")
    is_first = argument is call.args[0]
    if name == "getattr" and len(call.args) >= 2:
        wanted = call.args[1]
        return is_first and isinstance(wanted, ast.Constant) and wanted.value not in (_CLASS, "__dict__")
    is_of_module = isinstance(function, ast.Attribute) and function.attr in ("cast", "partial")
    return name in _HARMLESS or (is_first and (is_of_module or name in _HARMLESS_AT_FIRST))
