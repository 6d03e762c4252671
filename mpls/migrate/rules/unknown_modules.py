"""Historical names of what may be TensorFlow or something else are reported.

They are never changed. Such are names read from what a call returned, as `importlib.import_module("tensorflow")` or
`__import__`, from a parameter, or from a name that may be something else too; and `tf.contrib` as a whole, of which
mpls has a part only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.replacements import is_gone, replacement_of
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit
from mpls.names import named
from mpls.program.scopes import Chain, Statement

__all__ = ["RULE"]

_NAME = "unknown-modules"
_CONTRIB = "tf.contrib"
_OF_CONTRIB = "tf.contrib is gone: mpls.contrib has tf.contrib.mixed_precision, and nothing has the rest"


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    for chain in analysis.survey.chains:
        is_known = bool(analysis.meanings.name(chain.names[0], chain.region).paths)
        what = _uncertain(chain, analysis) if is_known else _unknown(chain, analysis)
        if what:
            yield Finding(analysis.text.span(chain.parts[-1])[0], _NAME, what, Kind.LEFT)

    for statement, _ in analysis.survey.imports:
        assert isinstance(statement.node, ast.Import | ast.ImportFrom)
        for alias in statement.node.names:
            if alias.name != "*" and analysis.meanings.path_of(alias) == _CONTRIB and not _is_tried(statement):
                what = f"{_OF_CONTRIB}; take the import away if it is not needed"
                yield Finding(analysis.text.span(alias)[0], _NAME, what, Kind.LEFT)


def _is_tried(statement: Statement) -> bool:
    """Return whether the program goes on if a statement fails."""
    outer: Statement | None = statement
    while outer is not None:
        parent = outer.parent
        if parent is not None and isinstance(parent.node, ast.Try) and outer.block is parent.node.body:
            return True
        outer = parent
    return False


def _unknown(chain: Chain, analysis: Analysis) -> str:
    """Return what to say of a historical name of something unknown; "" if it is none."""
    if len(chain.names) < 3:
        # Nothing of the API is that short.
        return ""
    bindings = chain.region.find(chain.names[0])
    if bindings and all(isinstance(each.value, ast.alias) for each in bindings):
        # Other packages have such names too.
        return ""
    for end in range(3, len(chain.names) + 1):
        path = ".".join(("tf", *chain.names[1:end]))
        row = named(path)
        if row is None or row.is_namespace or analysis.rule_of(row) is None:
            continue
        found = replacement_of(path)
        advice = "" if found is None else f": if it is TensorFlow, write {found.path}"
        return f"{'.'.join(chain.names[:end])} is left, as it is not certain what {chain.names[0]} is{advice}"
    return ""


def _uncertain(chain: Chain, analysis: Analysis) -> str:
    """Return what to say of a removed namespace of what may be something else, and of one without a replacement."""
    meaning = analysis.meanings.of(chain.parts[-1], chain.region)
    if _CONTRIB in meaning.paths:
        return _OF_CONTRIB
    rows = [named(path) for path in meaning.paths if is_gone(path)]
    if meaning.is_whole or not any(row is not None and row.is_namespace for row in rows):
        return ""
    name = chain.names[0]
    return f"{'.'.join(chain.names)} is left, as {name} may be something else here too: write the names that are used"


RULE = Rule(_NAME, str(__doc__), look=_look)
