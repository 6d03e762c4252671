"""`opt.loss_scale()` becomes `opt.loss_scale`.

Up to TF 2.3, the attribute of the experimental wrapper was a `LossScale` object, and calling it gave the scale; since
TF 2.4 it is the scale itself, a tensor, and so it is in mpls. Only objects that are wrappers of Keras are changed:
variables and attributes that are assigned nothing else, what a function of the file returns, `self` in a class that
derives from a wrapper, what `isinstance` takes with the class of a wrapper, what `get_scaled_loss` or
`get_unscaled_gradients` is called on, parameters of the file's own functions that get such objects only, and
`model.optimizer` after `model.compile` with such an object. If a class of any file that is migrated has a method
`loss_scale`, attributes, parameters and variables that another module sets may be its objects, and are left. What is
left is reported; so are `scale()` after `scale = opt.loss_scale`, `getattr(opt, "loss_scale")()`, and `update` and
`get_config` of `opt.loss_scale`. A loss scale that is returned or passed to a function is not followed. Where
`mpls.install(as_of=…)` with a release up to 2.3 is called, the attribute is an object, and all stays.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.instances import Instance
from mpls.migrate.kept_objects import attributes_of_scales, imported_paths
from mpls.migrate.ruling import Finding, Kind, Rule
from mpls.migrate.scale_reads import calls_of_read_scales
from mpls.migrate.source_text import Edit
from mpls.program.scopes import Read

__all__ = ["RULE"]

_NAME = "loss-scale-calls"
_TODAY = "the optimizer's loss_scale or dynamic_counter, or keep the setting yourself"


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    survey, text = analysis.survey, analysis.text
    if analysis.kept is not None or not _uses_frameworks(analysis):
        return
    for read in survey.reads:
        is_call = read.call is not None and not read.call.args and not read.call.keywords
        if read.node.attr != "loss_scale" or not is_call:
            continue
        yield from _called(read, analysis)
    for node in attributes_of_scales(analysis):
        what = f".loss_scale of a wrapper is a tensor, without .{node.attr}: read {_TODAY}"
        yield Finding(text.span(node)[0], _NAME, what, Kind.LEFT)
    for call in calls_of_read_scales(analysis):
        if call.kind in (Instance.WRAPPER, Instance.UNKNOWN):
            owner = " ".join(text.source(call.owner).split())
            what = f"the loss_scale of {owner} is called here: of a wrapper of Keras, it is a tensor"
            yield Finding(text.span(call.node)[0], _NAME, f"{what}, so take the parentheses away", Kind.LEFT)


def _called(read: Read, analysis: Analysis) -> Iterator[Edit | Finding]:
    text = analysis.text
    assert read.call is not None
    start, end = text.span(read.node)[1], text.span(read.call)[1]
    offset = text.span(read.node)[0]
    source = " ".join(text.between(*text.span(read.node)).split())
    kind = analysis.instances.kind(read)
    if kind in (Instance.POLICY, Instance.OWN) or _is_of_module(read, analysis):
        return
    if kind is not Instance.WRAPPER:
        what = f"{source}() is left, as it is not certain what it is called on"
        yield Finding(offset, _NAME, f"{what}: of a wrapper of Keras, take the parentheses away", Kind.LEFT)
    elif "".join(text.between(start, end).split()) != "()" or not source.endswith("loss_scale"):
        yield Finding(offset, _NAME, f"{source}() is left: take the parentheses away by hand", Kind.LEFT)
    else:
        yield Edit(start, end, "")
        yield Finding(offset, _NAME, f"{source}() becomes {source}", Kind.CHANGED)


def _is_of_module(read: Read, analysis: Analysis) -> bool:
    """Return whether a function of a module is called."""
    paths = analysis.meanings.of(read.node.value, read.region).paths
    return bool(paths) and all(path.startswith("@") for path in paths)


def _uses_frameworks(analysis: Analysis) -> bool:
    """Return whether a file, or another one that is migrated with it and has wrappers, imports TensorFlow or Keras."""
    return analysis.facts.has_wrappers or any(
        not path.startswith("@")
        for statement, _ in analysis.survey.imports
        if isinstance(statement.node, ast.Import | ast.ImportFrom)
        for alias in statement.node.names
        for path in imported_paths(analysis, alias, statement.node)
    )


RULE = Rule(_NAME, str(__doc__), look=_look)
