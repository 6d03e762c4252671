"""Collects the bindings of a file's names, scope by scope."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mpls.reading.gates import arm_of_every_release, catches_missing_names, gate_names, is_gate, leaves

__all__ = ["Binding", "Import", "Scope", "Scopes", "argument_names"]


@dataclass(frozen=True)
class Import:
    """An import of a module, or of a name from one.

    Attributes:
        module: the dotted name; a relative one begins with a dot for each level.
        name: the name that is imported from it; None for the module itself, `*` for all names.
        is_certain: whether it runs on every release.
    """

    module: str
    name: str | None
    is_certain: bool


@dataclass(frozen=True)
class Binding:
    """A binding of a name.

    Attributes:
        value: an expression or an import; None for anything else, such as a function or a loop variable.
        scope: where the expression is evaluated.
        is_certain: whether it is bound on every release.
    """

    value: ast.expr | Import | None
    scope: Scope
    is_certain: bool


@dataclass(eq=False)
class Scope:
    """The names of a module, a class or a function."""

    parent: Scope | None
    is_class: bool = False
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[Import] = field(default_factory=list)

    def find(self, name: str) -> list[Binding] | None:
        """Return the bindings that code in this scope sees; None if there are none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and (scope is self or not scope.is_class):
                return scope.bindings[name]
            scope = scope.parent
        return None

    @property
    def module(self) -> Scope:
        """The scope of the module that contains it."""
        return self if self.parent is None else self.parent.module


class Scopes:
    """The scopes of a file, and its imports.

    Args:
        tree: the parsed file.

    Attributes:
        module: the scope of the whole file.
        gates: names that hold or return the result of a test for a release.
        imports: all imports, in functions and classes too.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.gates = gate_names(tree)
        self.imports: list[Import] = []
        self._of: dict[ast.AST, Scope] = {}
        self.module = Scope(None)
        self._body(tree.body, self.module, True)

    def of(self, node: ast.AST) -> Scope:
        """Return the scope of a function or a class."""
        return self._of[node]

    def _body(self, body: Iterable[ast.stmt], scope: Scope, is_certain: bool) -> None:
        for statement in body:
            self._statement(statement, scope, is_certain)
            if isinstance(statement, ast.If) and leaves(statement.body):
                arm = arm_of_every_release(statement.test)
                if arm is not None or is_gate(statement.test, self.gates):
                    is_certain = is_certain and arm is False

    def _statement(self, node: ast.stmt, scope: Scope, is_certain: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node, scope, is_certain)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _bind(scope, node.name, None, is_certain)
            self._of[node] = within = Scope(scope)
            for name in argument_names(node.args):
                _bind(within, name, None, True)
            self._body(node.body, within, is_certain)
        elif isinstance(node, ast.ClassDef):
            _bind(scope, node.name, None, is_certain)
            self._of[node] = within = Scope(scope, is_class=True)
            self._body(node.body, within, is_certain)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                _bind_target(scope, target, node.value, is_certain)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            _bind_target(scope, node.target, node.value if isinstance(node, ast.AnnAssign) else None, is_certain)
        else:
            self._compound(node, scope, is_certain)

    def _compound(self, node: ast.stmt, scope: Scope, is_certain: bool) -> None:
        if isinstance(node, ast.For | ast.AsyncFor):
            _bind_target(scope, node.target, None, is_certain)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    _bind_target(scope, item.optional_vars, None, is_certain)
        arm = arm_of_every_release(node.test) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and arm is not None:
            self._body(node.body if arm else node.orelse, scope, is_certain)
            return
        for body in _bodies(node):
            self._body(body, scope, is_certain and not self._depends(node, body))

    def _depends(self, node: ast.stmt, body: list[ast.stmt]) -> bool:
        """Return whether a body of a statement runs on some releases only."""
        if isinstance(node, ast.If):
            return is_gate(node.test, self.gates)
        if isinstance(node, ast.Try) and body is not node.finalbody:
            is_handler = body is not node.body and body is not node.orelse
            return is_handler or any(map(catches_missing_names, node.handlers))
        return False

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope, is_certain: bool) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                found = Import("." * node.level + (node.module or ""), alias.name, is_certain)
            else:
                found = Import(alias.name, None, is_certain)
            self.imports.append(found)
            if alias.name == "*":
                scope.stars.append(found)
            elif alias.asname is None and isinstance(node, ast.Import):
                top = alias.name.partition(".")[0]
                _bind(scope, top, Import(top, None, is_certain), is_certain)
            else:
                _bind(scope, alias.asname or alias.name, found, is_certain)


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield each.body


def _bind(scope: Scope, name: str, value: ast.expr | Import | None, is_certain: bool) -> None:
    scope.bindings.setdefault(name, []).append(Binding(value, scope, is_certain))


def _bind_target(scope: Scope, target: ast.expr, value: ast.expr | None, is_certain: bool) -> None:
    if isinstance(target, ast.Name):
        _bind(scope, target.id, value, is_certain)
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            _bind_target(scope, element, None, is_certain)


def argument_names(arguments: ast.arguments) -> Iterator[str]:
    """Yield the names of a function's arguments."""
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if each is not None:
            yield each.arg
