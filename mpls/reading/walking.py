"""Walks the syntax trees of a program's files, and records what they use."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mpls.program.objects import NEW_WRAPPER, kind_of
from mpls.reading.alternatives import PossiblePath
from mpls.reading.data_flow import passed
from mpls.reading.gates import catches_missing_names, catches_refusals, ends_block, expects_error, version_of_2
from mpls.reading.paths import is_without_extension
from mpls.reading.reachability import Reachability
from mpls.reading.resolving import Resolver, attribute_of, chain_of, expressions_in, maker_of
from mpls.reading.scopes import Import, Scope, argument_names
from mpls.reading.sources import Program, Source
from mpls.reading.uses import Class, Member, Use, Uses, Where

__all__ = ["uses_of"]


def uses_of(program: Program) -> Uses:
    """Return everything that a program uses."""
    uses, resolver = Uses(), Resolver(program.sources)
    reachability = Reachability(program.sources, resolver)
    for source in program.sources:
        _Walk(uses, source, resolver, reachability).run()
    if any(kind_of(use.path) == NEW_WRAPPER for use in uses.uses):
        uses.passed = list(passed(program.sources))
    return uses


class _Walk:
    """Walks the syntax tree of one file."""

    def __init__(self, into: Uses, source: Source, resolver: Resolver, reachability: Reachability) -> None:
        self._into = into
        self._source = source
        self._resolver = resolver
        self._reachability = reachability
        self._scope = source.scopes.module
        self._is_certain = source.is_certain
        self._within = ""
        self._function = ""
        self._target = ""
        self._may_fail = False

    def run(self) -> None:
        """Walk the file."""
        try:
            self._body(self._source.tree.body)
        except RecursionError:
            self._into.too_deep.append(self._source.shown)

    def _where(self, node: ast.AST) -> Where:
        return Where(self._source.shown, getattr(node, "lineno", 1))

    # Statements.

    def _body(self, body: Iterable[ast.stmt]) -> None:
        before = self._is_certain
        for statement in body:
            if isinstance(statement, ast.If):
                if not self._if(statement):
                    break
            else:
                self._statement(statement)
        self._is_certain = before

    def _uncertain(self, body: Iterable[ast.stmt], is_certain: bool = False) -> None:
        before, self._is_certain = self._is_certain, self._is_certain and is_certain
        self._body(body)
        self._is_certain = before

    def _if(self, node: ast.If) -> bool:
        """Walk an `if`, and return whether the statements after it may be reached."""
        answer = self._reachability.result_of(node.test, self._scope)
        self._expression(node.test)
        if answer is not None:
            taken = node.body if answer else node.orelse
            self._body(taken)
            return not ends_block(taken)
        gated = self._reachability.is_gate(node.test)
        self._uncertain(node.body, not gated)
        self._uncertain(node.orelse, not gated)
        if gated and ends_block(node.body):
            self._is_certain = False
        return True

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._def(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, ast.Try | ast.With | ast.AsyncWith):
            self._guarded(node)
        elif isinstance(node, ast.Assign):
            self._assign(node.targets, node.value)
        elif isinstance(node, ast.AnnAssign):
            self._assign([node.target], node.value)
        else:
            self._other(node)

    def _guarded(self, node: ast.Try | ast.With | ast.AsyncWith) -> None:
        handlers = node.handlers if isinstance(node, ast.Try) else []
        before, is_gated = self._may_fail, any(map(catches_missing_names, handlers))
        self._may_fail = before or any(map(catches_refusals, handlers)) or expects_error(node)
        if isinstance(node, ast.Try):
            self._uncertain(node.body, not is_gated)
        else:
            self._other(node)
        self._may_fail = before
        if isinstance(node, ast.Try):
            self._uncertain(node.orelse, not is_gated)
            for handler in node.handlers:
                self._uncertain(handler.body)
            self._body(node.finalbody)

    def _assign(self, targets: list[ast.expr], value: ast.expr | None) -> None:
        for target in targets:
            self._target_of(target)
        if value is not None:
            self._target = chain_of(targets[0])[-1] if len(targets) == 1 else ""
            self._expression(value)
            self._target = ""

    def _target_of(self, target: ast.expr) -> None:
        if isinstance(target, ast.Attribute) and not self._resolver.find(target, self._scope):
            self._member(target, None, is_set=True)
        elif not isinstance(target, ast.Name):
            self._expression(target)

    def _other(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return) and node.value is not None and self._function:
            value = node.value
            found = self._resolver.find(value.func if isinstance(value, ast.Call) else value, self._scope)
            self._into.returns.setdefault(self._function, []).append((value, found))
        if isinstance(node, ast.Assert):
            self._asserts(node.test)
        for _, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                self._any(each)

    def _asserts(self, test: ast.expr) -> None:
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is):
            self._same([test.left, *test.comparators])
        version = version_of_2(test)
        if version is not None and self._reachability.is_version(version, self._scope) and self._is_certain:
            self._into.for_tf_2.append(self._where(test))

    def _any(self, each: object) -> None:
        if isinstance(each, ast.expr):
            self._expression(each)
        elif isinstance(each, ast.stmt):
            self._body([each])
        elif isinstance(each, ast.withitem):
            self._expression(each.context_expr)
        elif isinstance(each, ast.match_case):
            self._body(each.body)

    def _def(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._into.defined.add(node.name)
        for each in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self._expression(each)
        before = self._scope, self._function, self._is_certain
        self._is_certain = self._is_certain and not self._reachability.is_unused(node, self._scope)
        self._scope, self._function = self._source.scopes.of(node), node.name
        self._body(node.body)
        self._scope, self._function, self._is_certain = before

    def _class(self, node: ast.ClassDef) -> None:
        bases = []
        for base in (*node.decorator_list, *node.bases):
            self._expression(base)
        for base in node.bases:
            bases.extend(self._resolver.find(base, self._scope) or [PossiblePath(chain_of(base)[-1], self._is_certain)])
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        names = frozenset(each.name for each in methods)
        arguments = frozenset(name for each in methods for name in argument_names(each.args))
        self._into.classes.append(Class(node.name, tuple(bases), names, arguments, self._where(node), self._is_certain))
        before = self._scope, self._within, self._is_certain
        self._is_certain = self._is_certain and not self._reachability.is_unused(node, self._scope)
        self._scope, self._within = self._source.scopes.of(node), node.name
        self._body(node.body)
        self._scope, self._within, self._is_certain = before

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                name = None if alias.name == "*" else alias.name
                imported = Import("." * node.level + (node.module or ""), name, True)
            else:
                imported = Import(alias.name, None, True)
            for found in self._resolver.imported(self._source, imported):
                self._use(found, node, None)

    # Expressions.

    def _expression(self, node: ast.expr, call: ast.Call | None = None) -> None:
        target, self._target = self._target, ""
        if isinstance(node, ast.Name) or attribute_of(node)[0] is not None:
            found = self._resolver.find(node, self._scope)
            for one in found:
                self._use(one, node, call, target)
            value = attribute_of(node)[0]
            if not found and (call is not None or value is not None):
                self._member(node, call, target=target)
            if not found and value is not None:
                self._expression(value)
            return
        if isinstance(node, ast.Call):
            self._target = target
            self._expression(node.func, node)
            self._target = ""
            self._check(node)
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._expression(argument)
            return
        if isinstance(node, ast.IfExp | ast.BoolOp):
            self._conditional(node, target)
            return
        self._compared(node)
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self._nested(node, target)
            return
        for each in expressions_in(node):
            self._target = target if isinstance(node, ast.Dict | ast.List | ast.Tuple) else ""
            self._expression(each)

    def _compared(self, node: ast.expr) -> None:
        """Record the classes that a comparison compares with `type(…)`."""
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        types = [each for each in sides if isinstance(each, ast.Call) and chain_of(each.func) == ("type",)]
        for side in sides if types and self._is_certain else ():
            for found in self._resolver.find(side, self._scope):
                self._into.type_is.append((found.path, self._where(side)))

    def _same(self, sides: list[ast.expr]) -> None:
        if self._may_fail or len(sides) != 2 or any(isinstance(side, ast.Constant) for side in sides):
            return
        for side in sides:
            if attribute_of(side)[0] is not None and not self._resolver.find(side, self._scope):
                chain = chain_of(side)
                self._into.same.append(Member(chain, self._where(side), self._is_certain, within=self._within))

    def _check(self, call: ast.Call) -> None:
        if chain_of(call.func)[-1] == "assertIs":
            self._same(call.args[:2])
        if not self._may_fail and is_without_extension(call, self._scope):
            self._into.unextended.add(call)
        if isinstance(call.func, ast.Name) and call.func.id == "isinstance" and len(call.args) == 2:
            types = call.args[1].elts if isinstance(call.args[1], ast.Tuple) else [call.args[1]]
            found = [each.path for type_ in types for each in self._resolver.find(type_, self._scope)]
            self._into.checked.extend((chain_of(call.args[0])[-1], path) for path in found)

    def _conditional(self, node: ast.IfExp | ast.BoolOp, target: str) -> None:
        answer = self._reachability.result_of(node.test, self._scope) if isinstance(node, ast.IfExp) else None
        if answer is not None and isinstance(node, ast.IfExp):
            self._target = target
            self._expression(node.body if answer else node.orelse)
            return
        parts = [node.test, node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
        is_gated = any(self._reachability.is_gate(part) for part in parts[: 1 if isinstance(node, ast.IfExp) else -1])
        before, self._is_certain = self._is_certain, self._is_certain and not is_gated
        for part in parts:
            self._target = target
            self._expression(part)
        self._is_certain = before

    def _nested(self, node: ast.expr, target: str) -> None:
        before, self._scope = self._scope, Scope(self._scope)
        if isinstance(node, ast.Lambda):
            names: Iterable[ast.AST] = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        else:
            names = (each for part in getattr(node, "generators", ()) for each in ast.walk(part.target))
        for name in names:
            bound = getattr(name, "arg", None) or getattr(name, "id", None)
            if bound is not None:
                self._scope.bindings[bound] = []
        for each in expressions_in(node):
            self._target = "" if isinstance(node, ast.Lambda) else target
            self._expression(each)
        self._target, self._scope = "", before

    def _use(self, found: PossiblePath, node: ast.AST, call: ast.Call | None, target: str = "") -> None:
        if not found.path.startswith("@"):
            is_certain = found.is_certain and self._is_certain
            self._into.uses.append(Use(found.path, self._where(node), is_certain, call, target))

    def _member(self, node: ast.AST, call: ast.Call | None, is_set: bool = False, target: str = "") -> None:
        where, chain, maker = self._where(node), chain_of(node), maker_of(node)
        self._into.members.append(Member(chain, where, self._is_certain, call, self._within, is_set, target, maker))
