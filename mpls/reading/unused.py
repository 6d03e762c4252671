"""Finds functions and classes of a program that nothing mentions, so that their bodies do not run."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence

from mpls.reading.sources import Source

__all__ = ["Mentions"]

_WORDS = re.compile(rb"\w+")
# Ways to find functions by names that are computed at run time.
_LOOKUPS = {b"globals", b"locals", b"vars", b"eval", b"exec", b"fire", b"Fire", b"run_module", b"run_path"}
_LOOKUP = re.compile(rb"""getattr\(\s*[\w.\[\]]+\s*,\s*(?!["'])""")
# Prefixes of functions that Python, tf.app.run and test tools call by name.
_CALLED = ("main", "test", "setup", "setUp", "teardown", "tearDown", "__")
_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


class Mentions:
    """How often the files of a program mention each word, comments and strings included.

    Args:
        sources: the files, the main one first.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._counts: Counter[bytes] = Counter()
        self._is_known = bool(sources) and _does_something(sources[0].tree)
        for source in sources if self._is_known else ():
            words = _WORDS.findall(source.content)
            if not _LOOKUPS.isdisjoint(words) or _LOOKUP.search(source.content):
                self._is_known = False
                break
            self._counts.update(words)

    def is_unused(self, name: str) -> bool:
        """Return whether nothing but its definition mentions a function or class."""
        return self._is_known and self._counts[name.encode()] == 1 and not name.startswith(_CALLED)


def _does_something(tree: ast.Module) -> bool:
    """Return whether a file has statements other than definitions, so that it is a program and not a library."""
    return any(
        not isinstance(each, _DEFINING) and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in tree.body
    )
