"""`opt.loss_scale()` becomes `opt.loss_scale`.

Up to TF 2.3, the attribute of the experimental wrapper was a `LossScale` object, and calling it gave the scale; since
TF 2.4 it is the scale itself, a tensor, and so it is in mpls. Only objects that are wrappers of Keras are changed:
variables and attributes that are assigned nothing else, what a function of the file returns, `self` in a class that
derives from a wrapper, what `isinstance` takes with the class of a wrapper, what `get_scaled_loss` or
`get_unscaled_gradients` is called on, parameters of the file's own functions that get such objects only, and
`model.optimizer` after `model.compile` with such an object. Others are reported. Where `mpls.install(as_of=…)` with a
release up to 2.3 is called, the attribute is an object, and all stays.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.instances import Instance
from mpls.migrate.kept_objects import attributes_of_scales, imported_paths
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.source_text import Edit
from mpls.migrate.syntax import Read

__all__ = ["RULE"]

_NAME = "loss-scale-calls"
_TODAY = "the optimizer's loss_scale or dynamic_counter, or keep the setting yourself"


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    survey, text = analysis.survey, analysis.text
    if analysis.kept is not None or not _uses_frameworks(analysis):
        return
    for read in survey.reads:
        is_call = read.call is not None and not read.call.args and not read.call.keywords
        if read.node.attr != "loss_scale" or not is_call or "loss_scale" in survey.functions:
            continue
        yield from _called(read, analysis)
    for node in attributes_of_scales(analysis):
        what = f".loss_scale is a tensor, without .{node.attr}: read {_TODAY}"
        yield Finding(text.span(node)[0], _NAME, what, Kind.LEFT)


def _called(read: Read, analysis: Analysis) -> Iterator[Edit | Finding]:
    text = analysis.text
    assert read.call is not None
    start, end = text.span(read.node)[1], text.span(read.call)[1]
    offset = text.span(read.node)[0]
    source = " ".join(text.between(*text.span(read.node)).split())
    kind = analysis.instances.kind(read)
    if kind is Instance.POLICY:
        return
    if kind is not Instance.WRAPPER:
        what = f"{source}() is left, as it is not certain what it is called on"
        yield Finding(offset, _NAME, f"{what}: of a wrapper of Keras, take the parentheses away", Kind.LEFT)
    elif "".join(text.between(start, end).split()) != "()" or not source.endswith("loss_scale"):
        yield Finding(offset, _NAME, f"{source}() is left: take the parentheses away by hand", Kind.LEFT)
    else:
        yield Edit(start, end, "")
        yield Finding(offset, _NAME, f"{source}() becomes {source}", Kind.CHANGED)


def _uses_frameworks(analysis: Analysis) -> bool:
    """Return whether a file imports TensorFlow or Keras."""
    return any(
        not path.startswith("@")
        for statement, _ in analysis.survey.imports
        if isinstance(statement.node, ast.Import | ast.ImportFrom)
        for alias in statement.node.names
        for path in imported_paths(analysis, alias, statement.node)
    )


RULE = Rule(_NAME, str(__doc__), look=_look)
