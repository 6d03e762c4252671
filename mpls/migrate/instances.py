"""Tells whether an expression is certainly an optimizer with a loss scale of Keras."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from mpls.migrate.evidence import Evidence, is_wrapper_class
from mpls.program.meaning import NOTHING
from mpls.program.objects import LEGACY_OPTIMIZER, OPTIMIZER, POLICY, kind_of
from mpls.program.scopes import Binding, Read, Region

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["Instance", "Instances"]

_DEPTH = 8


class Instance(Enum):
    """What an expression may be."""

    WRAPPER = "an optimizer with a loss scale"
    # An optimizer without one, which a name may have before it gets the wrapper; or None.
    OTHER = "something without a loss scale"
    # Its loss scale is an object, which is called.
    POLICY = "a policy"
    # So is that of a class of the file with a loss scale of its own.
    OWN = "an object of such a class"
    UNKNOWN = "unknown"


class Instances:
    """Tells what expressions of a file are.

    Args:
        analysis: the file.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._survey = analysis.survey
        self._known: dict[tuple[int, str], Instance] = {}
        self._asked: set[tuple[int, str]] = set()
        self._evidence = Evidence(analysis, lambda node, region: self._kind(node, region, 0) is Instance.WRAPPER)

    def kind(self, read: Read) -> Instance:
        """Return what the object is that an attribute is read from."""
        return self.of(read.node.value, read.region)

    def of(self, node: ast.expr, region: Region) -> Instance:
        """Return what an expression in a scope is."""
        found = self._kind(node, region, 0)
        if found is Instance.WRAPPER and self._is_set_elsewhere(node, region):
            return Instance.UNKNOWN
        is_evident = found is Instance.UNKNOWN and self._evidence.has(node, region)
        return Instance.WRAPPER if is_evident else found

    def _is_set_elsewhere(self, node: ast.expr, region: Region) -> bool:
        """Return whether a class of the program's own has a loss scale, and its objects may take an expression's place.

        A subclass, or any other module, may set an attribute, and a variable at the top of a module.
        """
        if not self._analysis.facts.has_own_members:
            return False
        if isinstance(node, ast.Name):
            return self._analysis.is_set_unseen(node.id, region)
        return isinstance(node, ast.Attribute)

    def _kind(self, node: ast.expr, region: Region, depth: int) -> Instance:
        if depth > _DEPTH:
            return Instance.UNKNOWN
        if isinstance(node, ast.Constant) and node.value is None:
            return Instance.OTHER
        if isinstance(node, ast.NamedExpr):
            return self._kind(node.value, region, depth + 1)
        if isinstance(node, ast.IfExp):
            return _of_all([self._kind(each, region, depth + 1) for each in (node.body, node.orelse)])
        if isinstance(node, ast.Call):
            return self._of_call(node, region, depth)
        method = region.method()
        if isinstance(node, ast.Name):
            is_self = method is not None and node.id == method.self_name and region.holder(node.id) is method
            return self._of_self(method) if is_self and method is not None else self._of_name(node.id, region, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            is_self = method is not None and node.value.id == method.self_name
            within = method.parent if is_self and method is not None else self._class_of(node.value, region)
            return Instance.UNKNOWN if within is None else self._of_attribute(within, node.attr, depth)
        return Instance.UNKNOWN

    def _of_attribute(self, within: Region, name: str, depth: int) -> Instance:
        return self._of_bindings([*within.attributes.get(name, ()), *within.names.get(name, ())], depth)

    def _class_of(self, node: ast.Name, region: Region) -> Region | None:
        """Return the scope of the class of the file that a variable is certainly an instance of."""
        bindings = region.find(node.id)
        value = bindings[0].value if len(bindings) == 1 else None
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            return None
        made = bindings[0].region.find(value.func.id)
        owner = made[0].value if len(made) == 1 else None
        return self._survey.classes.get(owner) if isinstance(owner, ast.ClassDef) else None

    def _of_name(self, name: str, region: Region, depth: int) -> Instance:
        key = (id(region.holder(name)), name)
        if key in self._known:
            return self._known[key]
        if key in self._asked:
            # A name that is bound to itself, as in `opt = wrap(opt)`.
            return Instance.UNKNOWN
        self._asked.add(key)
        found = self._of_bindings(region.find(name), depth)
        self._asked.discard(key)
        if not self._asked:
            self._known[key] = found
        return found

    def _of_bindings(self, bindings: Iterable[Binding], depth: int) -> Instance:
        found = []
        for binding in bindings:
            value = binding.value
            found.append(
                self._kind(value, binding.region, depth + 1) if isinstance(value, ast.expr) else Instance.UNKNOWN
            )
        return _of_all(found)

    def _of_self(self, method: Region) -> Instance:
        owner = None if method.parent is None else method.parent.owner
        if not isinstance(owner, ast.ClassDef) or method.parent is None or method.parent.parent is None:
            return Instance.UNKNOWN
        return self._of_class(owner, method.parent.parent)

    def _of_class(self, owner: ast.ClassDef, region: Region) -> Instance:
        is_one = any(is_wrapper_class(base, region, self._analysis) for base in owner.bases)
        has_own = any(getattr(each, "name", "") == "loss_scale" for each in owner.body)
        if has_own:
            return Instance.OWN
        return Instance.WRAPPER if is_one else Instance.UNKNOWN

    def _of_call(self, node: ast.Call, region: Region, depth: int) -> Instance:
        if is_wrapper_class(node.func, region, self._analysis):
            return Instance.WRAPPER
        meaning = self._analysis.meanings.of(node.func, region)
        if meaning != NOTHING and meaning.is_whole:
            kinds = {kind_of(path) for path in meaning.paths}
            if kinds <= {OPTIMIZER, LEGACY_OPTIMIZER}:
                return Instance.OTHER
            if kinds == {POLICY}:
                return Instance.POLICY
            is_rewrite = all(path.endswith(".enable_mixed_precision_graph_rewrite") for path in meaning.paths)
            if is_rewrite and node.args and self._kind(node.args[0], region, depth + 1) is Instance.OTHER:
                # Given an optimizer of Keras, it returns one of Keras.
                return Instance.WRAPPER
        if not isinstance(node.func, ast.Name):
            return Instance.UNKNOWN
        bindings = region.find(node.func.id)
        made = bindings[0].value if len(bindings) == 1 else None
        if isinstance(made, ast.ClassDef):
            return self._of_class(made, bindings[0].region)
        if not isinstance(made, ast.FunctionDef) or made.decorator_list:
            return Instance.UNKNOWN
        returned = self._survey.returns.get(made, [])
        return _of_all(
            [Instance.OTHER if value is None else self._kind(value, within, depth + 1) for value, within in returned]
        )


def _of_all(found: list[Instance]) -> Instance:
    """Return what something is that may be each of these; a wrapper, if the others have no loss scale."""
    kinds = set(found)
    if not kinds or Instance.UNKNOWN in kinds or (kinds & {Instance.POLICY, Instance.OWN} and len(kinds) > 1):
        return Instance.UNKNOWN
    return Instance.WRAPPER if Instance.WRAPPER in kinds else kinds.pop()
