"""With `--as-of 2.3` or older, a program that needs wrappers with `LossScale` objects gets `mpls.install(as_of=…)`.

Up to TF 2.3 a wrapper kept the object that it was given, of any class; its attribute `loss_scale` was that object, and
its config had it. Today the attribute is a tensor. A program that has the object in a variable, derives a class from
`LossScale` or from the wrapper, asks for the class or attributes of the object, or for the class or config of the
wrapper, is given what it had: wrappers go to `mpls.experimental.LossScaleOptimizer` with the arguments that they have,
`opt.loss_scale()` stays, and behind the imports `mpls.install` is called with the release. Left as without this rule
are programs that ask for the release, that use the wrapper of TF 2.4 too, or that import modules of their own which
make wrappers and have no such need.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.kept_objects import RULE_NAME
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit

__all__ = ["RULE"]


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    kept = analysis.kept
    if kept is not None and kept.node is not None:
        what = f"mpls.install(as_of={analysis.settings.as_of!r}) is called behind the imports"
        yield Finding(analysis.text.span(kept.node)[0], RULE_NAME, f"{what}: {kept.why}", Kind.CHANGED)


RULE = Rule(RULE_NAME, str(__doc__), look=_look)
