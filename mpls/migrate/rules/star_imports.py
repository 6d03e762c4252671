"""Imports of all names of a removed module are reported.

`from tensorflow.keras.mixed_precision.experimental import *` fails today. It is not changed, because it cannot be told
which of the names in the file come from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.replacements import home_of, is_gone
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit

__all__ = ["RULE"]

_NAME = "star-imports"


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    for node in analysis.survey.stars:
        for path in sorted(analysis.meanings.module_of(node)):
            if is_gone(path):
                home = home_of(path)
                what = f"imports all names of {path}, which is gone"
                advice = f": import those that are used from {home}" if home else ": import the names that are used"
                yield Finding(analysis.text.span(node)[0], _NAME, f"{what}{advice}", Kind.LEFT)


RULE = Rule(_NAME, str(__doc__), look=_look)
