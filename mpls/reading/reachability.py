"""Tells which code of a program runs: branches of conditions, and functions and classes that something mentions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence

from mpls.reading.gates import holds_for_every_release, is_constant, is_gate
from mpls.reading.resolving import Resolver
from mpls.reading.scopes import Import, Scope
from mpls.reading.sources import Source

__all__ = ["Reachability"]

# Variables that are assigned other variables are followed this deep.
_DEPTH = 5
_WORDS = re.compile(rb"\w+")
# Ways to find functions by names that are computed at run time.
_LOOKUPS = {b"globals", b"locals", b"vars", b"eval", b"exec", b"fire", b"Fire", b"run_module", b"run_path"}
_LOOKUP = re.compile(rb"""getattr\(\s*[\w.\[\]]+\s*,\s*(?!["'])""")
# Prefixes of functions that Python, tf.app.run and test tools call by name.
_CALLED = ("main", "test", "setup", "setUp", "teardown", "tearDown", "__")
_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


class Reachability:
    """Which code of a program runs.

    Args:
        sources: the files of the program, the main one first.
        resolver: what names in them stand for.
    """

    def __init__(self, sources: Sequence[Source], resolver: Resolver) -> None:
        self._resolver = resolver
        self._gates = frozenset(name for source in sources for name in source.scopes.gates)
        self._mentions = _Mentions(sources)

    def is_gate(self, test: ast.expr) -> bool:
        """Return whether a condition tests the release, or whether the release has something."""
        return is_gate(test, self._gates)

    def is_version(self, node: ast.expr, scope: Scope) -> bool:
        """Return whether an expression is the version of TensorFlow."""
        found = self._resolver.find(node, scope)
        return [each.path for each in found] in (["tf.__version__"], ["tf.version.VERSION"])

    def result_of(self, test: ast.expr, scope: Scope) -> bool | None:
        """Return the result of a condition that is the same on all releases that mpls runs on; None if unknown."""
        return self._result_of(test, scope, 0)

    def _result_of(self, test: ast.expr, scope: Scope, depth: int) -> bool | None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            result = self._result_of(test.operand, scope, depth)
            return None if result is None else not result
        constant = is_constant(test)
        if constant is not None:
            return constant
        if isinstance(test, ast.Name) and depth < _DEPTH:
            bindings = scope.find(test.id) or []
            value = bindings[0].value if len(bindings) == 1 else None
            return None if value is None or isinstance(value, Import) else self._result_of(value, scope, depth + 1)
        if isinstance(test, ast.Compare) and self.is_version(test.left, scope):
            return holds_for_every_release(test)
        return None

    def is_unused(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope) -> bool:
        """Return whether the body of a function or class does not run, because nothing mentions its name.

        Args:
            node: its definition.
            scope: where it is defined.
        """
        # Frameworks may call methods, and decorators or base classes may register a function or class.
        is_plain = not node.decorator_list and not getattr(node, "bases", ()) and not getattr(node, "keywords", ())
        return is_plain and not scope.is_class and self._mentions.is_unused(node.name)


class _Mentions:
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
