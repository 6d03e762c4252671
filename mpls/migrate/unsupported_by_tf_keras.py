"""Whether a program uses the public wrapper of Keras in ways that the one of tf_keras no longer supports."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mpls.migrate.instances import Instance
from mpls.migrate.wrapper_calls import is_public
from mpls.program.scopes import Role
from mpls.reading.wrappers import NOT_OF_THE_LAST

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["is_unsupported_by_tf_keras"]


def is_unsupported_by_tf_keras(analysis: Analysis) -> bool:
    """Return whether a file uses the public wrapper in a way that the one of tf_keras no longer supports.

    tf_keras wraps optimizers like those of TF 2.11 and later in another class, which is no subclass of the public one,
    and has neither weights nor hyperparameters other than the learning rate. The wrapper of mpls is one class for all.

    Args:
        analysis: the file.
    """
    survey = analysis.survey
    asked = {*survey.compared}
    for test, _ in survey.type_tests:
        if isinstance(test.func, ast.Name) and test.func.id == "issubclass":
            asked |= {*test.args[1].elts} if isinstance(test.args[1], ast.Tuple) else {test.args[1]}
    for use, _ in analysis.uses:
        if any(map(is_public, use.rows)) and (use.role is Role.BASE or use.node in asked):
            return True
    return any(
        analysis.instances.of(chain.parts[place - 1], chain.region) is Instance.WRAPPER
        for chain in survey.chains
        for place, name in enumerate(chain.names)
        if place and name in NOT_OF_THE_LAST
    )
