"""Resolves the names in a program to paths like `tf.keras.optimizers.SGD`, through all aliases."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from mpls.names import named
from mpls.reading.scopes import Binding, Import, Scope
from mpls.reading.sources import Source

__all__ = ["Found", "Resolver", "attribute_of", "chain_of", "expressions_in"]

# Prefix of paths into the program's own files.
_OWN = "@"
_ROOTS = {"tensorflow": "tf", "keras": "keras", "tf_keras": "tf_keras"}
# Aliases of aliases are followed this deep.
_DEPTH = 20


@dataclass(frozen=True)
class Found:
    """A path that a name may stand for.

    Attributes:
        path: the path, with `tf` for the package tensorflow.
        is_certain: whether the name stands for it on every release.
    """

    path: str
    is_certain: bool


class Resolver:
    """Resolves names to paths.

    Args:
        sources: the files of the program.
    """

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._of_scope = {id(source.scopes.module): source for source in sources}
        self._numbers = {id(source): number for number, source in enumerate(sources)}
        self._known: dict[tuple[Scope, str], list[Found]] = {}

    def find(self, node: ast.expr, scope: Scope, depth: int = 0) -> list[Found]:
        """Return the paths that an expression in a scope may stand for: none, one, or several uncertain ones."""
        if depth > _DEPTH:
            return []
        if isinstance(node, ast.Name):
            return self._name(node.id, scope, depth)
        if isinstance(node, ast.IfExp):
            arms = [*self.find(node.body, scope, depth + 1), *self.find(node.orelse, scope, depth + 1)]
            return _merged(arms, False)
        value, attribute = attribute_of(node)
        if value is None:
            return []
        found = [each for base in self.find(value, scope, depth + 1) for each in self._within(base, attribute, depth)]
        if isinstance(node, ast.Call) and len(node.args) == 3:
            return _merged([*found, *self.find(node.args[2], scope, depth + 1)], False)
        return found

    def imported(self, source: Source, imported: Import) -> list[Found]:
        """Return the paths that an import binds."""
        module = source.absolute(imported.module)
        top, _, rest = module.partition(".")
        if module in source.modules:
            path = f"{_OWN}{self._numbers[id(source.modules[module])]}"
        elif top in source.modules and not imported.module.startswith("."):
            path = f"{_OWN}{self._numbers[id(source.modules[top])]}"
        elif top in _ROOTS:
            path = ".".join(filter(None, [_ROOTS[top], rest]))
        else:
            return []
        if imported.name is None:
            return [Found(path, imported.is_certain)]
        within = self._within(Found(path, imported.is_certain), imported.name, 0)
        own = source.modules.get(f"{module}.{imported.name}")
        return within or ([] if own is None else [Found(f"{_OWN}{self._numbers[id(own)]}", imported.is_certain)])

    def _name(self, name: str, scope: Scope, depth: int) -> list[Found]:
        key = (scope, name)
        if key not in self._known:
            # Set first, because names may be bound to each other in a cycle.
            self._known[key] = []
            bindings = scope.find(name)
            self._known[key] = self._starred(name, scope, depth) if bindings is None else self._bound(bindings, depth)
        return self._known[key]

    def _bound(self, bindings: list[Binding], depth: int) -> list[Found]:
        each_found = [self._value(binding, depth) for binding in bindings]
        found = [each for some in each_found for each in some]
        # A name with several bindings may stand for any of them.
        is_certain = all(each_found) and len({each.path for each in found}) == 1
        return _merged(found, is_certain)

    def _value(self, binding: Binding, depth: int) -> list[Found]:
        if isinstance(binding.value, Import):
            return self.imported(self._of_scope[id(binding.scope.module)], binding.value)
        if binding.value is None:
            return []
        found = self.find(binding.value, binding.scope, depth + 1)
        return [Found(each.path, each.is_certain and binding.is_certain) for each in found]

    def _starred(self, name: str, scope: Scope, depth: int) -> list[Found]:
        source = self._of_scope[id(scope.module)]
        for star in scope.module.stars:
            module = source.modules.get(source.absolute(star.module))
            if module is not None:
                found = self._name(name, module.scopes.module, depth + 1)
            else:
                # The only known exports of other packages are the historical names.
                whole = self.imported(source, Import(star.module, None, star.is_certain))
                found = [
                    Found(f"{each.path}.{name}", True) for each in whole if named(f"{each.path}.{name}") is not None
                ]
            if found:
                return _merged(found, star.is_certain)
        return []

    def _within(self, base: Found, attribute: str, depth: int) -> list[Found]:
        if not base.path.startswith(_OWN):
            return [Found(f"{base.path}.{attribute}", base.is_certain)]
        source = self._sources[int(base.path[1:])]
        if depth > _DEPTH:
            return []
        found = self._name(attribute, source.scopes.module, depth + 1)
        submodule = next(
            (each for name, each in source.modules.items() if name == f"{source.package}.{attribute}"), None
        )
        if not found and submodule is not None:
            found = [Found(f"{_OWN}{self._numbers[id(submodule)]}", True)]
        return _merged(found, base.is_certain)


def _merged(found: list[Found], is_certain: bool) -> list[Found]:
    merged: dict[str, bool] = {}
    for each in found:
        merged[each.path] = merged.get(each.path, True) and each.is_certain and is_certain
    return [Found(path, certain) for path, certain in merged.items()]


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
