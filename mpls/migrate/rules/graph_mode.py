"""The wrapper of graph mode and the graph rewrite come from mpls.v1.

`MixedPrecisionLossScaleOptimizer` and `enable_mixed_precision_graph_rewrite` were removed from `tf.train.experimental`;
those in `tf.compat.v1` are still there, with their defects, and refuse optimizers of Keras. Those of `mpls.v1` take the
same arguments, and optimizers of both Kerases. The functions register under the same flag and option of TensorFlow.
A program that asks for the names in a checkpoint, as by `tf.train.list_variables`, gets those in `tf.compat.v1`, since
Savers write some variables under a second name if the wrapper is that of mpls. `initialized_value()` of variables,
which TensorFlow has no more, is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.native import checkpoint_names
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit
from mpls.names import GRAPH_REWRITES, GRAPH_WRAPPER, Name

__all__ = ["RULE"]

_NAME = "graph-mode"
_NAMES = (GRAPH_WRAPPER, *GRAPH_REWRITES, "register_loss_scale_wrapper")


def _owns(row: Name) -> bool:
    home, _, name = row.target.partition(":")
    return home == "mpls.v1" and name in _NAMES


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    node = None if analysis.settings.is_native else checkpoint_names(analysis)
    if node is not None:
        what = f"{analysis.text.source(node)} tells names, of which Savers write more with mpls.v1"
        advice = "TensorFlow's own wrapper stays; write mpls.v1 if more names do no harm"
        yield Finding(analysis.text.span(node)[0], _NAME, f"{what}: {advice}", Kind.NOTED)
    if not any(_owns(row) for use, _ in analysis.uses for row in use.rows):
        return
    for chain in analysis.survey.chains:
        if chain.names[-1] == "initialized_value" and chain.call is not None:
            what = "TensorFlow's variables have no initialized_value() any more: write .initial_value"
            yield Finding(analysis.text.span(chain.parts[-1])[0], _NAME, what, Kind.LEFT)


RULE = Rule(_NAME, str(__doc__), owns=_owns, look=_look)
