"""What a program does with the class of the experimental wrapper itself, beside calling it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mpls.core.releases import behavior_of
from mpls.migrate.ruling import Use
from mpls.migrate.syntax import Role

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["is_class_compared", "is_of_loaded"]

_TARGET = "mpls.experimental:LossScaleOptimizer"


def is_class_compared(analysis: Analysis) -> bool:
    """Return whether a file compares the class, as in `type(opt) is C`, or has it in a dictionary.

    The objects that the file makes are then to be of that class, and not of the public one.

    Args:
        analysis: the file.
    """
    values = {
        use.node
        for use, _ in analysis.uses
        if use.role is Role.VALUE and any(row.target == _TARGET for row in use.rows)
    }
    return not values.isdisjoint(analysis.survey.compared)


def is_of_loaded(use: Use, analysis: Analysis) -> bool:
    """Return whether `isinstance` asks an optimizer of a loaded model, which was no experimental one since TF 2.4.

    `load_model` of TF 2.4 to 2.8 made the public wrapper of what was saved with the experimental one, and so it does
    with the class of mpls. The objects that the file makes have to be of the class too, so that other tests hold.

    Args:
        use: a use of the class in `isinstance`.
        analysis: the file.
    """
    if not behavior_of(analysis.settings.as_of).is_from("2.4") or not analysis.is_class_compared:
        return False
    for test, region in analysis.survey.type_tests:
        asked = test.args[0]
        if use.node is not test.args[1] or not isinstance(asked, ast.Attribute) or asked.attr != "optimizer":
            continue
        bindings = region.find(asked.value.id) if isinstance(asked.value, ast.Name) else []
        return bool(bindings) and all(_is_loading(each.value) for each in bindings)
    return False


def _is_loading(value: object) -> bool:
    function = value.func if isinstance(value, ast.Call) else None
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "load_model"
