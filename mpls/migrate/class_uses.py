"""What a program does with the class of the experimental wrapper itself, beside calling it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from mpls.core.releases import behavior_of
from mpls.migrate.analysis import Analysis, Use
from mpls.migrate.replacements import home_of
from mpls.names import namespaces
from mpls.program.meaning import Meaning
from mpls.program.scopes import Chain, Function, Role

__all__ = ["class_values", "is_of_loaded", "is_through_unsure"]

_TARGET = "mpls.experimental:LossScaleOptimizer"
# Members of a module that give what is in it.
_READS = ("__dict__", "__getattribute__")


def class_values(analysis: Analysis) -> tuple[ast.expr | ast.alias, ...]:
    """Return where the class is, or a removed module that has it, of which a test may ask that is not rewritten.

    That is where it is compared, as in `type(opt) is C`, and in dictionaries, tuples, arguments and the like, from
    where it may get to a test of any kind. The objects that the file makes are then to be of that class, and not of
    the public one. It is not where it is called, annotates or is derived from, where `isinstance` gets the public
    class in its place, and where it gets another name whose uses are followed.

    Args:
        analysis: the file.
    """
    if analysis.values_of_class is None:
        places = _Places()
        exprs = (*_values(analysis, places), *_modules(analysis, places))
        analysis.values_of_class = (*exprs, *_imported_in_classes(analysis))
    return analysis.values_of_class


def _values(analysis: Analysis, places: _Places) -> Iterator[ast.expr]:
    for use, _ in analysis.uses:
        if not any(row.target == _TARGET for row in use.rows):
            continue
        if use.role is Role.VALUE:
            is_value = places.is_value(use.node, use.chain)
        elif use.role is Role.ANNOTATION:
            is_value = places.dispatches(use.node, use.chain)
        else:
            # It asks for what the name stands for, if that cannot be replaced by the public class.
            is_value = use.role is Role.TYPE_TEST and not _is_whole(use, analysis)
        if is_value:
            yield use.node


def _modules(analysis: Analysis, places: _Places) -> Iterator[ast.expr]:
    for chain, meaning in analysis.rest:
        whole = chain.parts[-1]
        if chain.names[-1] in _READS and len(chain.parts) > 1:
            is_value = _may_be_module(analysis.meanings.of(chain.parts[-2], chain.region))
        else:
            is_value = chain.role is Role.VALUE and _may_be_module(meaning) and places.is_value(whole, chain)
        if is_value:
            yield whole


def _may_be_module(meaning: Meaning) -> bool:
    return not _modules_around().isdisjoint(meaning.paths)


def _imported_in_classes(analysis: Analysis) -> Iterator[ast.alias]:
    """Yield what is imported as an attribute of a class, whose reads are not followed."""
    for node, _, region in analysis.survey.imports:
        for alias in node.names if region.is_class else ():
            path = "" if alias.name == "*" else analysis.meanings.path_of(alias)
            if path in _modules_with_class() or path in _classes():
                yield alias


@functools.cache
def _classes() -> frozenset[str]:
    return frozenset(row.path for rows in namespaces().values() for row in rows if row.target == _TARGET)


@functools.cache
def _modules_with_class() -> frozenset[str]:
    """Return the modules that TensorFlow has removed and that had the class."""
    paths = {path.rpartition(".")[0] for path in _classes()}
    return frozenset(path for path in paths if home_of(path) is not None)


@functools.cache
def _modules_around() -> frozenset[str]:
    """Return these modules and those from which they are read, such as `tf.keras`; not TensorFlow itself."""
    parents = {path.rpartition(".")[0] for path in _modules_with_class()}
    parents |= {path.rpartition(".")[0] for path in parents}
    return _modules_with_class() | {path for path in parents if "." in path}


def is_through_unsure(use: Use, analysis: Analysis) -> bool:
    """Return whether a use is an attribute of what may be something else, or unbound.

    Args:
        use: the use.
        analysis: the file.
    """
    return use.node is not use.chain.parts[0] and not _is_whole(use, analysis)


def _is_whole(use: Use, analysis: Analysis) -> bool:
    return analysis.meanings.of(use.node, use.chain.region).is_whole


def is_of_loaded(use: Use, analysis: Analysis) -> bool:
    """Return whether `isinstance` asks an optimizer of a loaded model, which was no experimental one since TF 2.4.

    `load_model` of TF 2.4 to 2.8 made the public wrapper of what was saved with the experimental one, and so it does
    with the class of mpls. The objects that the file makes have to be of the class too, so that other tests hold.

    Args:
        use: a use of the class in `isinstance`.
        analysis: the file.
    """
    if not behavior_of(analysis.settings.as_of).is_from("2.4") or not class_values(analysis):
        return False
    for test, region in analysis.survey.type_tests:
        asked = test.args[0]
        if use.node is not test.args[1] or not isinstance(asked, ast.Attribute) or asked.attr != "optimizer":
            continue
        bindings = region.find(asked.value.id) if isinstance(asked.value, ast.Name) else []
        return bool(bindings) and all(_is_loading(each.value) for each in bindings)
    return False


def _is_loading(value: object) -> bool:
    function = value.func if isinstance(value, ast.Call) else None
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "load_model"


# Functions that ask nothing of the objects of a class.
_HARMLESS = ("callable", "dir", "hasattr", "help", "print", "repr", "str")
# Functions whose first argument is only called, or is for type checkers, or only finds a method.
_HARMLESS_AT_FIRST = ("cast", "partial", "super")
# Attributes of a class by which it is asked whether it has an object or a class.
_TESTS = ("__instancecheck__", "__mro__", "__subclasscheck__", "__subclasses__", "mro")
_CLASS = "LossScaleOptimizer"


class _Places:
    """The places of the expressions of a file."""

    def __init__(self) -> None:
        self._known: dict[ast.AST, ast.AST] = {}
        self._seen: set[ast.stmt] = set()

    def is_value(self, node: ast.expr, chain: Chain) -> bool:
        """Return whether an expression is where its value is not followed.

        Args:
            node: the expression, a class or a module.
            chain: the chain that it is a part of.
        """
        self._look_at(chain.statement.node)
        inner, outer = node, self._around(node)
        is_followed = not chain.region.is_class
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

    def dispatches(self, node: ast.expr, chain: Chain) -> bool:
        """Return whether `register` of `functools.singledispatch` takes an annotation as the class of its function."""
        self._look_at(chain.statement.node)
        outer = self._around(node)
        while isinstance(outer, ast.expr):
            outer = self._around(outer)
        function = self._around(self._around(outer)) if isinstance(outer, ast.arg) else None
        if not isinstance(function, Function) or outer not in function.args.args[:2]:
            return False
        decorators = [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]
        return any(isinstance(each, ast.Attribute) and each.attr == "register" for each in decorators)

    def _around(self, node: ast.AST) -> ast.AST:
        return self._known[node]

    def _look_at(self, statement: ast.stmt) -> None:
        """Note what the nodes of a statement are in, except those of the statements in it."""
        waiting: list[ast.AST] = [] if statement in self._seen else [statement]
        self._seen.add(statement)
        while waiting:
            outer = waiting.pop()
            for inner in ast.iter_child_nodes(outer):
                self._known[inner] = outer
                if not isinstance(inner, ast.stmt):
                    waiting.append(inner)

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
