"""Collects the bindings of a file's names, scope by scope."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mpls.reading.alternatives import Branch
from mpls.reading.gates import (
    arm_of_every_release,
    catches_missing_names,
    ends_block,
    gate_names,
    is_gate,
    is_tried,
)

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
        branch: on which branch of a test for the release it is bound.
    """

    value: ast.expr | Import | None
    scope: Scope
    branch: Branch

    @property
    def is_certain(self) -> bool:
        """Whether the name is bound on every release."""
        return self.branch is Branch.NONE


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
        self._body(tree.body, self.module, Branch.NONE)

    def of(self, node: ast.AST) -> Scope:
        """Return the scope of a function or a class."""
        return self._of[node]

    def _body(self, body: Iterable[ast.stmt], scope: Scope, branch: Branch) -> None:
        for statement in body:
            self._statement(statement, scope, branch)
            if isinstance(statement, ast.If) and ends_block(statement.body):
                arm = arm_of_every_release(statement.test)
                if arm is not None or is_gate(statement.test, self.gates):
                    branch = branch if arm is False else Branch.GATED.within(branch)

    def _statement(self, node: ast.stmt, scope: Scope, branch: Branch) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node, scope, branch)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _bind(scope, node.name, None, branch)
            self._of[node] = within = Scope(scope)
            for name in argument_names(node.args):
                _bind(within, name, None, Branch.NONE)
            self._body(node.body, within, branch)
        elif isinstance(node, ast.ClassDef):
            _bind(scope, node.name, None, branch)
            self._of[node] = within = Scope(scope, is_class=True)
            self._body(node.body, within, branch)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                _bind_target(scope, target, node.value, branch)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            _bind_target(scope, node.target, node.value if isinstance(node, ast.AnnAssign) else None, branch)
        else:
            self._compound(node, scope, branch)

    def _compound(self, node: ast.stmt, scope: Scope, branch: Branch) -> None:
        if isinstance(node, ast.For | ast.AsyncFor):
            _bind_target(scope, node.target, None, branch)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    _bind_target(scope, item.optional_vars, None, branch)
        arm = arm_of_every_release(node.test) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and arm is not None:
            self._body(node.body if arm else node.orelse, scope, branch)
            return
        for body in _bodies(node):
            self._body(body, scope, self._branch(node, body).within(branch))

    def _branch(self, node: ast.stmt, body: list[ast.stmt]) -> Branch:
        """Return which branch a body of a statement is, if it runs on some releases only."""
        if isinstance(node, ast.If) and is_gate(node.test, self.gates):
            return Branch.TRIED if is_tried(node.test) is (body is node.body) else Branch.GATED
        if isinstance(node, ast.Try) and body is not node.finalbody:
            if body is not node.body and body is not node.orelse:
                return Branch.FALLBACK
            return Branch.TRIED if any(map(catches_missing_names, node.handlers)) else Branch.NONE
        return Branch.NONE

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope, branch: Branch) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                found = Import("." * node.level + (node.module or ""), alias.name, branch is Branch.NONE)
            else:
                found = Import(alias.name, None, branch is Branch.NONE)
            self.imports.append(found)
            if alias.name == "*":
                scope.stars.append(found)
            elif alias.asname is None and isinstance(node, ast.Import):
                top = alias.name.partition(".")[0]
                _bind(scope, top, Import(top, None, branch is Branch.NONE), branch)
            else:
                _bind(scope, alias.asname or alias.name, found, branch)


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield each.body


def _bind(scope: Scope, name: str, value: ast.expr | Import | None, branch: Branch) -> None:
    scope.bindings.setdefault(name, []).append(Binding(value, scope, branch))


def _bind_target(scope: Scope, target: ast.expr, value: ast.expr | None, branch: Branch) -> None:
    if isinstance(target, ast.Name):
        _bind(scope, target.id, value, branch)
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            _bind_target(scope, element, None, branch)


def argument_names(arguments: ast.arguments) -> Iterator[str]:
    """Yield the names of a function's arguments."""
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if each is not None:
            yield each.arg
