"""Comparisons of TensorFlow's version as text are reported, where they are wrong.

As text, `"2.21.0" < "2.4.0"` is true, so that a program takes the branch for old releases on new ones. Reported are
comparisons whose result for any release since TF 1.13 is another than that of the numbers.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from mpls.migrate.analysis import Analysis
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit
from mpls.names import RELEASES
from mpls.program.scopes import Region

__all__ = ["RULE"]

_NAME = "version-strings"
_VERSIONS = frozenset(("tf.__version__", "tf.version.VERSION", "tf.compat.v1.__version__", "keras.__version__"))
_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    for node, region in analysis.survey.comparisons:
        sides = [node.left, *node.comparators]
        for left, order, right in zip(sides, node.ops, sides[1:], strict=False):
            wrong = _wrong(left, order, right, region, analysis)
            if wrong is not None:
                source = " ".join(analysis.text.source(node).split())
                what = f"{source} compares text, and is {wrong[1]} for {wrong[0]}"
                advice = "compare numbers: tuple(map(int, tf.__version__.split('.')[:2]))"
                yield Finding(analysis.text.span(node)[0], _NAME, f"{what}: {advice}", Kind.LEFT)


def _wrong(
    left: ast.expr, order: ast.cmpop, right: ast.expr, region: Region, analysis: Analysis
) -> tuple[str, bool] | None:
    """Return the newest release for which a comparison is wrong, and its result; None if it is right for all."""
    compare = _ORDERS.get(type(order))
    if compare is None:
        return None
    is_left = _is_version(left, region, analysis)
    text = right if is_left else left
    if not (is_left or _is_version(right, region, analysis)) or not isinstance(text, ast.Constant):
        return None
    if not isinstance(text.value, str) or _NUMBERS.fullmatch(text.value) is None:
        return None
    for release in reversed(RELEASES):
        version = f"{release}.0"
        ordered = (version, text.value) if is_left else (text.value, version)
        as_text = compare(*ordered)
        if as_text != compare(*map(_numbers, ordered)):
            return version, as_text
    return None


def _is_version(node: ast.expr, region: Region, analysis: Analysis) -> bool:
    meaning = analysis.meanings.of(node, region)
    return bool(meaning.paths) and meaning.is_whole and meaning.paths <= _VERSIONS


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(each) for each in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


RULE = Rule(_NAME, str(__doc__), look=_look)
