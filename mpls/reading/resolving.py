"""Resolves the names in a program to paths like `tf.keras.optimizers.SGD`, through all aliases."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.names import named
from mpls.program.objects import NEW_WRAPPER, kind_of
from mpls.reading.alternatives import Branch, PossiblePath, merged, of_today, on_branch
from mpls.reading.gates import is_gate, is_tried
from mpls.reading.scopes import Binding, Import, Scope
from mpls.reading.sources import Source

__all__ = ["MOST_ALIASES", "ROOTS", "Resolver", "attribute_of", "chain_of", "expressions_in", "maker_of"]

# Prefix of paths into the program's own files.
_OWN = "@"
# The packages, and the roots of their paths.
ROOTS = {"tensorflow": "tf", "keras": "keras", "tf_keras": "tf_keras"}
# Aliases of aliases are followed this deep.
MOST_ALIASES = 20


class Resolver:
    """Resolves names to paths.

    Args:
        sources: the files of the program.
    """

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._of_scope = {id(source.scopes.module): source for source in sources}
        self._numbers = {id(source): number for number, source in enumerate(sources)}
        self._known: dict[tuple[Scope, str], list[PossiblePath]] = {}

    def find(self, node: ast.expr, scope: Scope, depth: int = 0) -> list[PossiblePath]:
        """Return the paths that an expression in a scope may stand for: none, one, or several uncertain ones."""
        return of_today(self._find(node, scope, depth))

    def _find(self, node: ast.expr, scope: Scope, depth: int) -> list[PossiblePath]:
        if depth > MOST_ALIASES:
            return []
        if isinstance(node, ast.Name):
            return self._name(node.id, scope, depth)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            return self._one_of(node, scope, depth)
        value, attribute = attribute_of(node)
        if value is None:
            return []
        found = [each for base in self.find(value, scope, depth + 1) for each in self._within(base, attribute, depth)]
        if isinstance(node, ast.Call) and len(node.args) == 3:
            default = self.find(node.args[2], scope, depth + 1)
            return merged([*on_branch(found, Branch.TRIED), *on_branch(default, Branch.GATED)], False)
        return found

    def _one_of(self, node: ast.IfExp | ast.BoolOp, scope: Scope, depth: int) -> list[PossiblePath]:
        """Return what an expression stands for that is one of its parts: `a if test else b`, `a or b`."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return []
        first, *others = node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse)
        test = first if isinstance(node, ast.BoolOp) else node.test
        branches = [Branch.NONE] * (len(others) + 1)
        if is_gate(test, self._of_scope[id(scope.module)].scopes.gates):
            is_first = isinstance(node, ast.BoolOp) or is_tried(test)
            branches = [Branch.TRIED if is_first else Branch.GATED, *[Branch.GATED] * len(others)]
            if is_tried(test) is False:
                branches[-1] = Branch.TRIED
        parts = zip((first, *others), branches, strict=True)
        return merged(
            [each for part, branch in parts for each in on_branch(self.find(part, scope, depth + 1), branch)], False
        )

    def imported(self, source: Source, imported: Import) -> list[PossiblePath]:
        """Return the paths that an import binds."""
        module = source.absolute(imported.module)
        top, _, rest = module.partition(".")
        if module in source.modules:
            path = f"{_OWN}{self._numbers[id(source.modules[module])]}"
        elif top in source.modules and not imported.module.startswith("."):
            path = f"{_OWN}{self._numbers[id(source.modules[top])]}"
        elif top in ROOTS:
            path = ".".join(filter(None, [ROOTS[top], rest]))
        else:
            return []
        if imported.name is None:
            return [PossiblePath(path, imported.is_certain)]
        within = self._within(PossiblePath(path, imported.is_certain), imported.name, 0)
        own = source.modules.get(f"{module}.{imported.name}")
        return within or ([] if own is None else [PossiblePath(f"{_OWN}{self._numbers[id(own)]}", imported.is_certain)])

    def _name(self, name: str, scope: Scope, depth: int) -> list[PossiblePath]:
        key = (scope, name)
        if key not in self._known:
            # Set first, because names may be bound to each other in a cycle.
            self._known[key] = []
            bindings = scope.find(name)
            found = self._starred(name, scope, depth) if bindings is None else self._bound(bindings, depth)
            self._known[key] = of_today(found)
        return self._known[key]

    def _bound(self, bindings: list[Binding], depth: int) -> list[PossiblePath]:
        each_found = [self._value(binding, depth) for binding in bindings]
        found = [each for some in each_found for each in some]
        # A name with several bindings may stand for any of them.
        is_certain = all(each_found) and len({each.path for each in found}) == 1
        if is_certain and len(bindings) > 1 and all(each.branch for each in found):
            # All branches of a test for the release bind it to the same.
            return [PossiblePath(found[0].path, kind_of(found[0].path) == NEW_WRAPPER, Branch.GATED)]
        return merged(found, is_certain)

    def _value(self, binding: Binding, depth: int) -> list[PossiblePath]:
        if isinstance(binding.value, Import):
            found = self.imported(self._of_scope[id(binding.scope.module)], binding.value)
            return on_branch(found, binding.branch)
        if binding.value is None:
            return []
        found = self.find(binding.value, binding.scope, depth + 1)
        return on_branch(found, binding.branch)

    def _starred(self, name: str, scope: Scope, depth: int) -> list[PossiblePath]:
        source = self._of_scope[id(scope.module)]
        for star in scope.module.stars:
            module = source.modules.get(source.absolute(star.module))
            if module is not None:
                found = self._name(name, module.scopes.module, depth + 1)
            else:
                # The only known exports of other packages are the historical names.
                whole = self.imported(source, Import(star.module, None, star.is_certain))
                found = [
                    PossiblePath(f"{each.path}.{name}", True)
                    for each in whole
                    if named(f"{each.path}.{name}") is not None
                ]
            if found:
                return merged(found, star.is_certain)
        return []

    def _within(self, base: PossiblePath, attribute: str, depth: int) -> list[PossiblePath]:
        if not base.path.startswith(_OWN):
            return [PossiblePath(f"{base.path}.{attribute}", base.is_certain, base.branch)]
        source = self._sources[int(base.path[1:])]
        if depth > MOST_ALIASES:
            return []
        found = self._name(attribute, source.scopes.module, depth + 1)
        submodule = next(
            (each for name, each in source.modules.items() if name == f"{source.package}.{attribute}"), None
        )
        if not found and submodule is not None:
            found = [PossiblePath(f"{_OWN}{self._numbers[id(submodule)]}", True)]
        return merged(on_branch(found, base.branch), base.is_certain)


def attribute_of(node: ast.AST) -> tuple[ast.expr | None, str]:
    """Return the object and the attribute that an expression reads, also by `getattr` or `object.__getattribute__`.

    None and "" for any other expression.
    """
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if isinstance(node, ast.Call) and len(node.args) in (2, 3) and not node.keywords:
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        name = node.args[1]
        if called in ("getattr", "__getattribute__") and isinstance(name, ast.Constant) and isinstance(name.value, str):
            return node.args[0], name.value
    return None, ""


def chain_of(node: ast.AST) -> tuple[str, ...]:
    """Return the names in a chain of attribute reads: `("self", "opt")`; "" for a part that has no name."""
    value, attribute = attribute_of(node)
    if value is not None:
        return (*chain_of(value), attribute)
    if isinstance(node, ast.Subscript):
        # An item of a container goes by the container's name.
        return chain_of(node.value)
    return (node.id if isinstance(node, ast.Name) else "",)


def maker_of(node: ast.AST) -> ast.Call | None:
    """Return the call whose result a chain of attribute reads begins with, `make()` in `make().opt.loss_scale`."""
    value = attribute_of(node)[0]
    while value is not None:
        node, value = value, attribute_of(value)[0]
    return node if isinstance(node, ast.Call) else None


def expressions_in(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the direct subexpressions of a node."""
    for _, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.expr):
                yield each
            elif isinstance(each, ast.keyword):
                yield each.value
            elif isinstance(each, ast.comprehension):
                yield from (each.iter, *each.ifs)
