"""Imports of all names of a removed module become imports of its names.

`from tensorflow.keras.mixed_precision.experimental import *` fails today. It becomes `from mpls.experimental import
LossScaleOptimizer, Policy, …`, with each public name that the module had, so that other files which import all names of
this one find them too. Those of modules of which mpls has a part only, and of private modules, are reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.replacements import home_of, is_gone
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit
from mpls.migrate.star_names import STAR_RULE, names_of_star

__all__ = ["RULE"]


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    for node in analysis.survey.stars:
        home, names = names_of_star(node, analysis)
        start, end = analysis.text.span(node)
        if names:
            yield Edit(start, end, f"from {home} import {', '.join(names)}")
            yield Finding(start, STAR_RULE, f"imports the names of {home} one by one", Kind.CHANGED)
            continue
        for path in sorted(analysis.meanings.module_of(node)):
            if is_gone(path):
                other = home_of(path)
                what = f"imports all names of {path}, which is gone"
                advice = f": import those that are used from {other}" if other else ": import the names that are used"
                yield Finding(start, STAR_RULE, f"{what}{advice}", Kind.LEFT)


RULE = Rule(STAR_RULE, str(__doc__), look=_look)
