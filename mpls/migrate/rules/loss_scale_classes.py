"""`LossScale`, `FixedLossScale` and `DynamicLossScale` come from mpls.

They were removed from `tf.train.experimental` and `tf.mixed_precision.experimental` in TF 2.9, and are still in
`tf.compat.v1`, with their defects. The classes of mpls have the same arguments, methods and private members, for
subclasses too, and every wrapper of mpls takes them; so does TensorFlow's own in `tf.compat.v1`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.kept_objects import is_scale_class
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit
from mpls.migrate.wrapper_calls import is_experimental
from mpls.program.scopes import Role

__all__ = ["RULE"]

_NAME = "loss-scale-classes"


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    """Yield classes of the program's own, whose objects wrappers of Keras take only as of TF 2.3."""
    if analysis.kept is not None or not any(is_experimental(row) for use, _ in analysis.uses for row in use.rows):
        return
    for use, _ in analysis.uses:
        if use.role is Role.BASE and all(map(is_scale_class, use.rows)):
            what = "wrappers of Keras take objects of a class of the program's own as of TF 2.3 only"
            advice = "call mpls.install(as_of='2.3') before they are made"
            yield Finding(analysis.text.span(use.node)[0], _NAME, f"{what}: {advice}", Kind.LEFT)


RULE = Rule(_NAME, str(__doc__), owns=is_scale_class, look=_look)
