"""Which private members the classes of mpls have, and which of them a module of mpls may touch."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .source_tree import around, called, modules

# Classes that get their bases while the program runs, and the bases.
LATER_BASES = {
    "mpls.keras.optimizer:LossScaleOptimizer": (
        "mpls.keras.legacy:LegacyAdapter",
        "mpls.keras.new:NewAdapter",
        "mpls.keras.keras3.adapter:Keras3Adapter",
    )
}
OWN = ("self", "cls", "type(self)")


@dataclass
class Members:
    """A class of mpls: where it is, the classes of mpls that it derives from, the private members that it defines."""

    place: str
    bases: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


@functools.cache
def for_type_checkers(tree: ast.AST) -> frozenset[ast.AST]:
    """Return the nodes in bodies of `if TYPE_CHECKING`, which no program runs."""
    guarded = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    return frozenset(each for node in guarded for statement in node.body for each in ast.walk(statement))


def constants(tree: ast.Module) -> dict[str, str]:
    """Return the strings that names of a module stand for: `_NAME = "_name"`, and tuples of such."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for name, value in pairs:
                    if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                        found[name.id] = value.value
    return found


def is_members_of(node: ast.AST | None, receivers: Iterable[str]) -> bool:
    """Return whether a node is `vars(x)` or `x.__dict__` of one of some objects."""
    text = ast.unparse(node) if node is not None else ""
    return any(text in (f"vars({each})", f"{each}.__dict__") for each in receivers)


def text_of(node: ast.AST | None, known: dict[str, str]) -> str:
    """Return the string that a node is, or that a name of the module stands for."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return known.get(node.id, "") if isinstance(node, ast.Name) else ""


def defined_by(node: ast.AST, known: dict[str, str], receivers: Iterable[str]) -> Iterator[str]:
    """Yield the members that a node in a class defines."""
    receivers = tuple(receivers)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) in receivers:
        yield node.attr
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and is_members_of(node.value, receivers):
        yield text_of(node.slice, known)
    elif isinstance(node, ast.Call) and len(node.args) == 3 and ast.unparse(node.args[0]) in receivers:
        if called(node) in ("setattr", "object.__setattr__", "type.__setattr__"):
            yield text_of(node.args[1], known)
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "update":
        is_own = is_members_of(getattr(node.func, "value", None), receivers)
        yield from (each.arg for each in node.keywords if each.arg and is_own)


@functools.cache
def imported(tree: ast.Module) -> dict[str, str]:
    """Return what a module imports from mpls: `module:name` by the name that it has there."""
    return {
        each.asname or each.name: f"{node.module}:{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "mpls"
        for each in node.names
    }


def classes_in(module: str, tree: ast.Module) -> list[Members]:
    """Return the classes that a module defines."""
    known, found = constants(tree), []
    places = imported(tree) | {
        node.name: f"{module}:{node.name}" for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            # What a metaclass defines, its classes have.
            given = [*node.bases, *(each.value for each in node.keywords if each.arg == "metaclass")]
            named = [ast.unparse(each).partition("[")[0] for each in given]
            named = [
                f"{each.rpartition('.')[0]}:{each.rpartition('.')[2]}"
                if each.startswith("mpls.")
                else places.get(each, "")
                for each in named
            ]
            members = Members(places[node.name], list(filter(None, named)))
            inside = set(ast.walk(node)) - {node} - for_type_checkers(tree)
            for each in inside:
                if not isinstance(each, ast.Name) or scope_of(each) is node:
                    members.names |= set(filter(is_private, defined_by(each, known, (*OWN, node.name))))
            found.append(members)
    return found


def scope_of(node: ast.AST) -> ast.AST | None:
    """Return the class, function or module that a node is right in."""
    return next(
        (each for each in around(node) if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.Lambda | ast.Module)),
        None,
    )


@functools.cache
def classes() -> dict[str, Members]:
    """Return all classes of mpls, by `module:name`; what a module imports from a package's face is that class too."""
    found = {each.place: each for name, tree in modules().items() for each in classes_in(name, tree)}
    for place, bases in LATER_BASES.items():
        found[place].bases += bases
    return found


def class_at(place: str) -> Members | None:
    """Return the class at a place, followed through the modules that import it from another."""
    for _ in range(5):
        if place in classes():
            return classes()[place]
        module, _, name = place.partition(":")
        if module not in modules():
            return None
        place = imported(modules()[module]).get(name, "")
    return None


def with_bases(members: Members) -> list[Members]:
    """Return a class and those of mpls that it derives from."""
    found, waiting = [], [members]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.append(each)
            waiting += [base for place in each.bases if (base := class_at(place)) is not None]
    return found


@functools.cache
def families() -> dict[str, list[Members]]:
    """Return each class with its bases."""
    return {place: with_bases(each) for place, each in classes().items()}


@functools.cache
def names_of_self(place: str) -> frozenset[str]:
    """Return the private members that objects of a class have by classes of mpls, also of those that derive from it."""
    related = [family for family in families().values() if classes()[place] in family]
    return frozenset(name for family in related for each in family for name in each.names)


@functools.cache
def names_of(place: str) -> frozenset[str]:
    """Return the private members of a class with those of its bases, or what a module of mpls has."""
    members = class_at(place)
    if members is not None:
        return frozenset(name for each in families()[members.place] for name in each.names)
    module = modules().get(place.replace(":", "."))
    return frozenset() if module is None else frozenset(top_level(module))


def top_level(tree: ast.Module) -> set[str]:
    """Return the private names that a module defines, wherever, but not for type checkers."""
    return {
        name
        for node in ast.walk(tree)
        if node not in for_type_checkers(tree)
        for name in defined_by(node, {}, ())
        if is_private(name)
    }
