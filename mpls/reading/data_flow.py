"""Finds the values that a program passes on: to other variables, and to parameters of its own functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mpls.reading.resolving import chain_of
from mpls.reading.scopes import argument_names
from mpls.reading.sources import Source

__all__ = ["passed"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def passed(sources: Iterable[Source]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the last name of each variable, attribute and parameter that is given a value, with the value.

    Variables and attributes that are assigned calls are left out. Of functions and classes, those of the program count
    that are called by their name, and methods that are called on `self`.

    Args:
        sources: the files of the program.
    """
    nodes = [node for source in sources for node in ast.walk(source.tree)]
    parameters = dict(_parameters(nodes))
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
            yield from ((chain_of(target)[-1], node.value) for target in node.targets)
        elif isinstance(node, ast.Call) and _is_plain(node.func):
            names = parameters.get(chain_of(node.func)[-1], [])
            yield from zip(names, node.args, strict=False)
            yield from ((each.arg, each.value) for each in node.keywords if each.arg in names)


def _parameters(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of functions and classes, with the parameters of a call."""
    for node in nodes:
        if isinstance(node, _FUNCTIONS):
            names = list(argument_names(node.args))
            yield node.name, names[1:] if names[:1] == ["self"] else names
        elif isinstance(node, ast.ClassDef):
            makers = [each for each in node.body if isinstance(each, _FUNCTIONS) and each.name == "__init__"]
            yield from ((node.name, list(argument_names(each.args))[1:]) for each in makers)


def _is_plain(called: ast.expr) -> bool:
    return isinstance(called, ast.Name) or (isinstance(called, ast.Attribute) and chain_of(called)[:-1] == ("self",))
