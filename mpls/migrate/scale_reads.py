"""Finds loss scales that are read from an optimizer in one place and called in another, as only objects can be."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from mpls.migrate.instances import Instance
from mpls.program.scopes import Binding, Region

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["ScaleCall", "calls_of_read_scales"]


class ScaleCall(NamedTuple):
    """A call of a loss scale that was read before.

    Attributes:
        node: what is called.
        owner: the object that it is read from.
        kind: what the object is.
    """

    node: ast.expr
    owner: ast.expr
    kind: Instance


def calls_of_read_scales(analysis: Analysis) -> Iterator[ScaleCall]:
    """Yield calls of what was read before, and of what `getattr` gives.

    These are `scale()` after `scale = opt.loss_scale`, the same with `self.scale`, and `getattr(opt, "loss_scale")()`.

    Args:
        analysis: the file.
    """
    for calls in analysis.survey.calls.values():
        for call, region in calls:
            assert isinstance(call.func, ast.Name)
            if not call.args and not call.keywords:
                yield from _of(call.func, region.find(call.func.id), analysis)
    for chain in analysis.survey.chains:
        method = chain.region.method()
        if method is None or method.parent is None or chain.call is None or chain.call.args:
            continue
        if len(chain.names) == 2 and chain.names[0] == method.self_name:
            yield from _of(chain.parts[-1], method.parent.attributes.get(chain.names[1], ()), analysis)
    for probe, region in analysis.survey.called_probes:
        yield _call(probe, probe.args[0], region, analysis)


def _of(node: ast.expr, bindings: Iterable[Binding], analysis: Analysis) -> Iterator[ScaleCall]:
    for binding in bindings:
        value = binding.value
        if isinstance(value, ast.Attribute) and value.attr == "loss_scale":
            yield _call(node, value.value, binding.region, analysis)
            return


def _call(node: ast.expr, owner: ast.expr, region: Region, analysis: Analysis) -> ScaleCall:
    return ScaleCall(node, owner, analysis.instances.of(owner, region))
