"""Tells the value of a loss-scale argument from its source, and what the public wrapper takes in its place."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

from mpls.core.releases import behavior_of
from mpls.formats.wrapper_state import (
    DYNAMIC_CONFIG,
    FIXED_CONFIG,
    INITIAL_LOSS_SCALE,
    LARGEST_FIXED_SCALE,
    LOSS_SCALE_VALUE,
    MULTIPLIER,
    OLD_NAMES,
    can_be_scale,
)
from mpls.migrate.analysis import Analysis
from mpls.names import named
from mpls.program.scopes import Region

__all__ = ["IN_VARIABLE", "Unknown", "scale_arguments"]

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_NEW_NAMES = {old: new for new, old in OLD_NAMES.items()}
IN_VARIABLE = "is an object that the program may use elsewhere"
_KEPT = "up to TF 2.3 the wrapper kept it, which mpls.install(as_of='{}') brings back; without, it copies the settings"
_MULTIPLIER = "the wrapper of mpls.keras takes it as growth_factor, and its inverse as backoff_factor"
_REFUSED = f"since TF 2.4 its multiplier has to be 2: --as-of {{}} keeps another, or {_MULTIPLIER}"
_FIXED = f"pass a number from 1 to 2**{math.log2(LARGEST_FIXED_SCALE):g}"
# Variables that are assigned other variables are followed this deep.
_DEPTH = 5


@dataclass(frozen=True)
class Unknown:
    """A value that cannot be told.

    Attributes:
        why: the reason, to follow its source in messages.
        advice: what to do, if the experimental wrapper does not take it either.
    """

    why: str
    advice: str = ""


def scale_arguments(node: ast.expr, region: Region, analysis: Analysis) -> str | Unknown:
    """Return the arguments of the public wrapper for a loss scale: `"dynamic=False, initial_scale=128"`.

    Args:
        node: the argument of the experimental wrapper.
        region: the scope that it is in.
        analysis: the file.
    """
    return _settings(node, region, analysis, analysis.text.source(node), 0)


def _settings(node: ast.expr, region: Region, analysis: Analysis, source: str, depth: int) -> str | Unknown:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (
            "dynamic=True" if node.value == "dynamic" else Unknown("is not a loss scale", "pass 'dynamic' or a number")
        )
    number = _number(node)
    if number is not None:
        return _fixed(number, source)
    if isinstance(node, ast.Name) and depth < _DEPTH:
        return _of_variable(node, region, analysis, depth)
    if isinstance(node, ast.Call) and depth == 0:
        return _of_object(node, region, analysis)
    return Unknown("is only known when the program runs")


def _of_variable(node: ast.Name, region: Region, analysis: Analysis, depth: int) -> str | Unknown:
    bound = region.only(node.id)
    value = None if bound is None else bound.value
    if bound is None or not isinstance(value, ast.expr) or analysis.instances.is_set_unseen(node.id, region):
        return Unknown("is only known when the program runs")
    if isinstance(value, ast.Call):
        if behavior_of(analysis.settings.as_of).has_loss_scale_objects:
            advice = _KEPT.format(analysis.release_with_objects)
        else:
            settings = _of_object(value, bound.region, analysis)
            is_refused = settings.advice if isinstance(settings, Unknown) else "growth_factor" in settings
            advice = _REFUSED.format(analysis.release_with_objects) if is_refused else ""
        return Unknown(IN_VARIABLE, advice)
    # A number keeps its name; the word 'dynamic' is not a number.
    return _settings(value, bound.region, analysis, node.id, depth + 1)


def _of_object(node: ast.Call, region: Region, analysis: Analysis) -> str | Unknown:
    meaning = analysis.meanings.of(node.func, region)
    rows = [named(path) for path in meaning.paths]
    kinds = {row.attribute for row in rows if row is not None and row.target.startswith("mpls.")}
    if not meaning.is_whole or len(kinds) != 1 or None in rows:
        return Unknown("is only known when the program runs")
    given = _arguments(node, DYNAMIC_CONFIG if kinds == {"DynamicLossScale"} else FIXED_CONFIG)
    if given is None:
        return Unknown("has arguments that are only known when the program runs")
    if kinds == {"FixedLossScale"}:
        value = given.get(LOSS_SCALE_VALUE)
        number = None if value is None else _number(value)
        if value is None or number is None:
            return Unknown("has a value that is only known when the program runs")
        return _fixed(number, analysis.text.source(value))
    return _of_dynamic(given, analysis) if kinds == {"DynamicLossScale"} else Unknown("is not a loss scale to copy")


def _of_dynamic(given: dict[str, ast.expr], analysis: Analysis) -> str | Unknown:
    multiplier = given.pop(MULTIPLIER, None)
    factor = 2.0 if multiplier is None else _number(multiplier)
    if factor is None or factor <= 1 or not can_be_scale(factor) or math.frexp(factor)[0] != 0.5:
        # By others, dividing is not exactly multiplying by the inverse.
        return Unknown("has a multiplier that is not a power of 2", _MULTIPLIER)
    if any(_number(each) is None for each in given.values()):
        # They may be objects of TensorFlow, or have historical names in them.
        return Unknown("has values that are only known when the program runs")
    initial = _number(given[INITIAL_LOSS_SCALE]) if INITIAL_LOSS_SCALE in given else None
    if initial is not None and not can_be_scale(initial):
        return Unknown("has an initial scale that none can have", "pass a power of 2 such as 2.0**15")
    settings = [f"{_NEW_NAMES[name]}={analysis.text.source(value)}" for name, value in given.items()]
    if factor != 2 and multiplier is not None:
        source = analysis.text.source(multiplier)
        settings += [f"growth_factor={source}", f"backoff_factor=1 / {_in_parentheses(multiplier, source)}"]
    return ", ".join(settings) or "dynamic=True"


def _in_parentheses(node: ast.expr, source: str) -> str:
    return source if isinstance(node, ast.Constant) else f"({source})"


def _arguments(node: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr] | None:
    """Return a call's arguments by name; None if they cannot be told."""
    if len(node.args) > len(names) or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    given = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in names or keyword.arg in given:
            return None
        given[keyword.arg] = keyword.value
    return given


def _fixed(number: float, source: str) -> str | Unknown:
    # The originals refuse those below 1, the wrapper of mpls those above the largest.
    if not 1 <= number <= LARGEST_FIXED_SCALE:
        return Unknown("is not a fixed scale", _FIXED)
    return f"dynamic=False, initial_scale={source}"


def _number(node: ast.expr) -> float | None:
    """Return the value of a number, or of a calculation with numbers."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int | float) and not isinstance(node.value, bool) else None
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _number(node.left), _number(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Pow | ast.LShift):
        # Larger ones are no scale, and take long.
        is_small = abs(left) <= 1024 and 0 <= right <= 64 and isinstance(right, int)
        return None if not is_small else left**right if isinstance(node.op, ast.Pow) else left * 2.0**right
    try:
        return _OPERATORS[type(node.op)](left, right) if type(node.op) in _OPERATORS else None
    except (ArithmeticError, ValueError):
        return None
