"""Goes through a file once, and collects the places that rules look at, beside what binds its names."""

from __future__ import annotations

import ast
import re

from mpls.migrate.binding import Walker
from mpls.migrate.syntax import Chain, Read, Region, Role, chain_parts
from mpls.optimizer_members import SCALING_METHODS

__all__ = ["Survey"]

# Members of wrappers that were something else in some releases, and those that only wrappers have.
_READ = frozenset(("loss_scale", "get_config", *SCALING_METHODS))
_PATH = re.compile(r"mixed_precision\.\w|\.mixed_precision\b|train\.experimental\.\w")


class Survey(Walker):
    """The scopes of a file, and the places in it that rules look at.

    Args:
        tree: the parsed file.

    Attributes:
        chains: uses of names with the attributes that are read from them, in the order of the file.
        reads: reads of `loss_scale` and `get_config`, and of methods that only wrappers of Keras 2 have.
        type_tests: calls of `isinstance`, with their scopes.
        calls: calls of what has a plain name, with their scopes.
        probes: calls of `getattr` and `hasattr`, with their scopes.
        called_probes: calls of `getattr` for a `loss_scale` that is called itself, with their scopes.
        comparisons: comparisons with a string, with their scopes.
        identities: comparisons by `is` and `is not`, with their scopes.
        compared: what is compared, or in a tuple, list or set that is, and the keys and values of dictionaries.
        strings: strings that may name a path of the API; docstrings are not among them.
    """

    def __init__(self, tree: ast.Module) -> None:
        super().__init__()
        self.chains: list[Chain] = []
        self.reads: list[Read] = []
        self.type_tests: list[tuple[ast.Call, Region]] = []
        self.calls: dict[str, list[tuple[ast.Call, Region]]] = {}
        self.probes: list[tuple[ast.Call, Region]] = []
        self.called_probes: list[tuple[ast.Call, Region]] = []
        self.comparisons: list[tuple[ast.Compare, Region]] = []
        self.identities: list[tuple[ast.Compare, Region]] = []
        self.compared: list[ast.expr | None] = []
        self.strings: list[ast.Constant] = []
        self._string: ast.JoinedStr | None = None
        self._handlers |= {
            ast.Name: self._chain,
            ast.Attribute: self._chain,
            ast.Call: self._call,
            ast.Compare: self._compare,
            ast.Constant: self._constant,
            ast.Dict: self._dictionary,
            ast.NamedExpr: self._walrus,
            ast.Lambda: self._lambda,
            ast.MatchClass: self._case,
            ast.ListComp: self._comprehend,
            ast.SetComp: self._comprehend,
            ast.GeneratorExp: self._comprehend,
            ast.DictComp: self._comprehend,
            ast.JoinedStr: self._f_string,
        }
        self._block(tree.body)

    def _in_role(self, node: ast.expr, role: Role) -> None:
        """Visit an expression that is used for something, or a tuple, list, union or subscript of such."""
        if isinstance(node, ast.Name | ast.Attribute):
            self._chain(node, role)
        elif isinstance(node, ast.Tuple | ast.List):
            for each in node.elts:
                self._in_role(each, role)
        elif isinstance(node, ast.BinOp):
            self._in_role(node.left, role)
            self._in_role(node.right, role)
        elif isinstance(node, ast.Subscript) and role is Role.ANNOTATION:
            self._in_role(node.value, role)
            self._in_role(node.slice, role)
        else:
            self._visit(node)

    def _chain(self, node: ast.Name | ast.Attribute, role: Role = Role.VALUE, call: ast.Call | None = None) -> None:
        found = chain_parts(node)
        parts, names = found or ([node], (node.attr if isinstance(node, ast.Attribute) else node.id,))
        if not _READ.isdisjoint(names):
            for part in parts:
                if isinstance(part, ast.Attribute) and part.attr in _READ:
                    called = call if part is node else None
                    self.reads.append(Read(part, called, self._region, self._here, self._string))
        if found is not None:
            self.chains.append(Chain(parts, names, self._region, role, call, self._here, self._string))
        elif isinstance(node, ast.Attribute):
            self._visit_below(node)

    def _visit_below(self, node: ast.Attribute) -> None:
        value = node.value
        while isinstance(value, ast.Attribute):
            if value.attr in _READ:
                self.reads.append(Read(value, None, self._region, self._here, self._string))
            value = value.value
        self._visit(value)

    def _call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name | ast.Attribute):
            self._chain(function, Role.CALL, node)
        else:
            self._visit(function)
        if isinstance(function, ast.Call) and _is_probe_of_scale(function):
            self.called_probes.append((function, self._region))
        name = function.id if isinstance(function, ast.Name) else ""
        if name:
            self.calls.setdefault(name, []).append((node, self._region))
        if name in ("getattr", "hasattr") and len(node.args) >= 2:
            self.probes.append((node, self._region))
        arguments = node.args
        if name in ("isinstance", "issubclass") and len(arguments) == 2:
            self.type_tests.append((node, self._region))
            self._visit(arguments[0])
            self._in_role(arguments[1], Role.TYPE_TEST)
        else:
            self._all(arguments)
        self._all([each.value for each in node.keywords])

    def _compare(self, node: ast.Compare) -> None:
        sides = (node.left, *node.comparators)
        if any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in sides):
            self.comparisons.append((node, self._region))
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            self.identities.append((node, self._region))
        for each in sides:
            self.compared += each.elts if isinstance(each, ast.Tuple | ast.List | ast.Set) else [each]
        self._all(sides)

    def _dictionary(self, node: ast.Dict) -> None:
        self.compared += [*node.keys, *node.values]
        self._all([*node.keys, *node.values])

    def _constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and _PATH.search(node.value):
            self.strings.append(node)

    def _walrus(self, node: ast.NamedExpr) -> None:
        self._visit(node.value)
        region = self._region
        # The name belongs to the function around a comprehension.
        while region.is_comprehension and region.parent is not None:
            region = region.parent
        self._bind(node.target.id, node.value, region)

    def _case(self, node: ast.MatchClass) -> None:
        self._in_role(node.cls, Role.TYPE_TEST)
        self._all([*node.patterns, *node.kwd_patterns])

    def _lambda(self, node: ast.Lambda) -> None:
        self._signature(node.args)
        outer, self._region = self._region, self._new_region(self._region)
        self._parameters(node.args)
        self._visit(node.body)
        self._region = outer

    def _comprehend(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._visit(node.generators[0].iter)
        outer, self._region = self._region, self._new_region(self._region, is_comprehension=True)
        for number, each in enumerate(node.generators):
            if number:
                self._visit(each.iter)
            self._target(each.target, None)
            self._all(each.ifs)
        self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._region = outer

    def _f_string(self, node: ast.JoinedStr) -> None:
        outer, self._string = self._string, self._string or node
        for each in node.values:
            if not isinstance(each, ast.Constant):
                self._visit(each)
        self._string = outer


def _is_probe_of_scale(call: ast.Call) -> bool:
    name = call.args[1] if len(call.args) >= 2 else None
    is_asked = isinstance(call.func, ast.Name) and call.func.id == "getattr"
    return is_asked and isinstance(name, ast.Constant) and name.value == "loss_scale"
