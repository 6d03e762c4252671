"""Tells which function or class made an object that has no name, as in `make().loss_scale()`: from the source."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import FrameType, FunctionType
from typing import Any

from mpls.hints.sites import Site

__all__ = ["makers_of", "mentions_class"]

_MISSING: Any = object()


def makers_of(site: Site, attribute: str) -> Iterator[Any]:
    """Yield the functions and classes that the code at a place calls, and reads an attribute from the result."""
    line = _line(site)
    for node in ast.walk(_tree(site.frame)):
        if not isinstance(node, ast.Attribute) or node.attr != attribute or not isinstance(node.value, ast.Call):
            continue
        if node.lineno <= line <= (node.end_lineno or line):
            maker = _value(node.value.func, site.frame)
            if maker is not _MISSING:
                yield maker


def mentions_class(maker: Any, wanted: type) -> bool:
    """Return whether a function's own code names a class; for a class, whether it is a subclass."""
    if isinstance(maker, type):
        return issubclass(maker, wanted)
    function = getattr(maker, "__func__", maker)
    if not isinstance(function, FunctionType):
        return False
    names = function.__code__.co_names
    values = [function.__globals__.get(name) for name in names]
    # `__name__` depends on the release and the wrapped optimizer; `__qualname__` does not.
    name = wanted.__qualname__
    holders = [value for value in values if name in names and value is not None]
    found = [*values, *(getattr(holder, name, None) for holder in holders)]
    # In a full spelling, the namespace has the name of the module of mpls: `tf.keras.mixed_precision.experimental`.
    is_spelled_out = {name, wanted.__module__.rpartition(".")[2]} <= set(names)
    return is_spelled_out or any(isinstance(each, type) and issubclass(each, wanted) for each in found)


def _line(site: Site) -> int:
    lines = [line for start, end, line in site.frame.f_code.co_lines() if line and start <= site.offset < end]
    return lines[0] if lines else site.frame.f_lineno


def _tree(frame: FrameType) -> ast.Module:
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        return ast.parse("".join(lines))
    except SyntaxError:
        return ast.Module([], [])


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name, or of attributes of one; _MISSING for any other expression."""
    if isinstance(node, ast.Attribute):
        holder = _value(node.value, frame)
        return holder if holder is _MISSING else getattr(holder, node.attr, _MISSING)
    if not isinstance(node, ast.Name):
        return _MISSING
    return frame.f_locals.get(node.id, frame.f_globals.get(node.id, _MISSING))
