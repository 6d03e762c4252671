"""The experimental wrapper becomes the public one of mpls, with the same loss scale.

`tf.keras.mixed_precision.experimental.LossScaleOptimizer` took the loss scale as one argument. It was removed in TF
2.9. Where the value is in the source, the call becomes one of `mpls.keras.LossScaleOptimizer`: `'dynamic'` is
`dynamic=True`, a number or a `FixedLossScale` is `dynamic=False, initial_scale=…`, and a `DynamicLossScale` gives
`initial_scale`, `dynamic_growth_steps` and factors for another multiplier. Where it is not, the call goes to
`mpls.experimental.LossScaleOptimizer`, which takes it as it is. So do base classes, and what passes the class on.
`isinstance` and annotations get the public class, which the experimental one of mpls derives from. Where the class, or
the module that has it, is a value that may get to another test, as in `type(opt) is C`, in a tuple, or as an argument,
all wrappers of the file are made by `mpls.experimental.LossScaleOptimizer`. If the file makes none,
or other files make some too, this is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.class_uses import is_through_unsure
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit
from mpls.migrate.wrapper_calls import EXPERIMENTAL, PUBLIC, is_experimental, replace_wrapper
from mpls.program.scopes import Role

__all__ = ["RULE"]

_NAME = "experimental-wrapper"
_OF_OTHERS = (
    f"those of other files may be of {PUBLIC}, its base class: check what asks for the class, and write {PUBLIC} there"
)
_MAKES_NONE = f"{EXPERIMENTAL} is used as a value, and this file makes no wrapper; {_OF_OTHERS}"
_MAKES_SOME = f"{EXPERIMENTAL} is used as a value, which only wrappers that this file makes are of; {_OF_OTHERS}"


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    uses = [use for use, _ in analysis.uses if any(map(is_experimental, use.rows))]
    makes = any(use.role in (Role.CALL, Role.BASE) for use in uses)
    if analysis.kept is not None or (makes and len(analysis.facts.makers) < 2):
        return
    # Annotations get the public class, and what is reached through a name that may be something else is reported.
    said = {use.node for use in uses if use.role is Role.ANNOTATION or is_through_unsure(use, analysis)}
    for node in analysis.class_values:
        if isinstance(node, ast.alias) or node not in said:
            yield Finding(analysis.text.span(node)[0], _NAME, _MAKES_SOME if makes else _MAKES_NONE, Kind.LEFT)


RULE = Rule(_NAME, str(__doc__), owns=is_experimental, replace=replace_wrapper, look=_look)
