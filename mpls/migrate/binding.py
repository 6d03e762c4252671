"""Collects what binds each name of a file, scope by scope, as Python does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from mpls.migrate.syntax import Binding, Function, Region, Role, Statement

__all__ = ["Walker"]


class Walker:
    """Goes through a syntax tree once, statement by statement.

    Attributes:
        module: the scope of the whole file.
        bound: all names that are bound anywhere.
        imports: the import statements, with their scopes.
        stars: imports of all names of a module.
        exported: the names in `__all__`.
        returns: what each function returns.
        functions: the names of all functions and methods.
        classes: the scopes of classes.
        bodies: the scopes of functions.
    """

    def __init__(self) -> None:
        self._regions: list[Region] = []
        self.module = self._new_region(None)
        self.bound: set[str] = set()
        self.imports: list[tuple[Statement, Region]] = []
        self.stars: list[ast.ImportFrom] = []
        self.exported: set[str] = set()
        self.returns: dict[ast.AST, list[tuple[ast.expr | None, Region]]] = {}
        self.functions: set[str] = set()
        self.classes: dict[ast.ClassDef, Region] = {}
        self.bodies: dict[Function, Region] = {}
        self._region = self.module
        self._statement: Statement | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.Global: self._global,
            ast.Nonlocal: self._nonlocal,
            ast.ClassDef: self._class,
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.Return: self._return,
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.withitem: self._with_item,
            ast.ExceptHandler: self._handler,
            ast.Delete: self._delete,
            ast.MatchAs: self._captured,
            ast.MatchStar: self._captured,
            ast.MatchMapping: self._captured,
        }

    def forget(self) -> None:
        """Forget what binds names: a binding knows its scope, which knows its bindings; nothing can be asked then."""
        for region in self._regions:
            region.names.clear()
            region.attributes.clear()
            region.outer.clear()
        self._handlers.clear()

    def _new_region(
        self, parent: Region | None, owner: ast.ClassDef | Function | None = None, is_comprehension: bool = False
    ) -> Region:
        region = Region(parent, owner, is_comprehension)
        self._regions.append(region)
        return region

    @property
    def _here(self) -> Statement:
        assert self._statement is not None
        return self._statement

    def _block(self, body: list[ast.stmt]) -> None:
        outer = self._statement
        for node in body:
            self._statement = Statement(node, body, outer)
            # Not a docstring, or a string in place of a comment.
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                self._visit(node)
        self._statement = outer

    def _visit(self, node: ast.AST) -> None:
        handler = self._handlers.get(type(node))
        if handler is not None:
            handler(node)
            return
        for _, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                self._visit(value)
            elif isinstance(value, list) and value:
                if isinstance(value[0], ast.stmt):
                    self._block(value)
                else:
                    self._all(value)

    def _all(self, nodes: Sequence[ast.AST | str | None]) -> None:
        for node in nodes:
            if isinstance(node, ast.AST):
                self._visit(node)

    def _in_role(self, node: ast.expr, role: Role) -> None:
        """Visit an expression that is used for something."""
        raise NotImplementedError

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.imports.append((self._here, self._region))
        for alias in node.names:
            if alias.name == "*":
                assert isinstance(node, ast.ImportFrom)
                self.stars.append(node)
            else:
                top = alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                self._bind(alias.asname or top, alias)

    def _global(self, node: ast.Global) -> None:
        for name in node.names:
            self._region.outer[name] = self.module

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            region = self._region.parent
            while region is not None and (region.is_class or name not in region.names):
                region = region.parent
            if region is not None:
                self._region.outer[name] = region

    def _class(self, node: ast.ClassDef) -> None:
        self._all(node.decorator_list)
        for base in node.bases:
            self._in_role(base, Role.BASE)
        self._all([each.value for each in node.keywords])
        self._bind(node.name, node)
        self.classes[node] = self._new_region(self._region, node)
        self._within(self.classes[node], node.body)

    def _function(self, node: Function) -> None:
        self._all(node.decorator_list)
        self._signature(node.args)
        if node.returns is not None:
            self._in_role(node.returns, Role.ANNOTATION)
        self._bind(node.name, node)
        self.functions.add(node.name)
        self.bodies[node] = region = self._new_region(self._region, node)
        first = [*node.args.posonlyargs, *node.args.args][:1]
        decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        if self._region.is_class and first and not decorators & {"staticmethod", "classmethod"}:
            region.self_name = first[0].arg
        outer, self._region = self._region, region
        self._parameters(node.args)
        self._region = outer
        self._within(region, node.body)

    def _within(self, region: Region, body: list[ast.stmt]) -> None:
        outer, self._region = self._region, region
        self._block(body)
        self._region = outer

    def _signature(self, arguments: ast.arguments) -> None:
        for each in _all_arguments(arguments):
            if each.annotation is not None:
                self._in_role(each.annotation, Role.ANNOTATION)
        self._all([*arguments.defaults, *arguments.kw_defaults])

    def _parameters(self, arguments: ast.arguments) -> None:
        for each in _all_arguments(arguments):
            self._bind(each.arg, None)

    def _return(self, node: ast.Return) -> None:
        if self._region.owner is not None:
            self.returns.setdefault(self._region.owner, []).append((node.value, self._region))
        self._all([node.value])

    def _assign(self, node: ast.Assign) -> None:
        self._visit(node.value)
        for target in node.targets:
            self._target(target, node.value)
        if any(isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets):
            self.exported |= {str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant)}

    def _annotated(self, node: ast.AnnAssign) -> None:
        self._in_role(node.annotation, Role.ANNOTATION)
        self._all([node.value])
        self._target(node.target, node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        self._visit(node.value)
        self._target(node.target, None)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit(node.iter)
        self._target(node.target, None)
        self._block(node.body)
        self._block(node.orelse)

    def _with_item(self, node: ast.withitem) -> None:
        self._visit(node.context_expr)
        if node.optional_vars is not None:
            self._target(node.optional_vars, None)

    def _handler(self, node: ast.ExceptHandler) -> None:
        self._all([node.type])
        if node.name is not None:
            self._bind(node.name, None)
        self._block(node.body)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._target(target, None)

    def _captured(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self._bind(name, None)
        self._all([getattr(node, "pattern", None), *getattr(node, "keys", ()), *getattr(node, "patterns", ())])

    def _bind(self, name: str, value: Any, region: Region | None = None) -> None:
        region = region or self._region
        region = region.outer.get(name, region)
        self.bound.add(name)
        region.names.setdefault(name, []).append(Binding(value, self._region, self._here))

    def _target(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            is_plain = len(values) == len(target.elts) and not any(
                isinstance(each, ast.Starred) for each in (*values, *target.elts)
            )
            for number, each in enumerate(target.elts):
                self._target(each, values[number] if is_plain else None)
        elif isinstance(target, ast.Starred):
            self._target(target.value, None)
        else:
            if isinstance(target, ast.Attribute):
                self._bind_attribute(target, value)
            self._visit(target)

    def _bind_attribute(self, target: ast.Attribute, value: ast.expr | None) -> None:
        method = self._region.method()
        if method is not None and isinstance(target.value, ast.Name) and target.value.id == method.self_name:
            assert method.parent is not None
            method.parent.attributes.setdefault(target.attr, []).append(Binding(value, self._region, self._here))


def _all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    others = [arguments.vararg, arguments.kwarg]
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *others]
    return [each for each in found if each is not None]
