"""The public wrapper of TF 2.4 to 2.15 becomes that of mpls.

`tf.keras.mixed_precision.LossScaleOptimizer` is another class since Keras 3, without `get_scaled_loss`, `loss_scale` or
fixed scales. `mpls.keras.LossScaleOptimizer` has the arguments and members of the old one, over the optimizers of both
Kerases, and those of Keras 3. `tf_keras.mixed_precision.LossScaleOptimizer` and `keras.optimizers.LossScaleOptimizer`
stay: they are names of today, and whoever writes them means these classes. A policy under which `compile` makes the
wrapper, of that other class, is reported if the program needs what that class lacks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.ruling import Finding, Kind, Rule, Use
from mpls.migrate.source_text import Edit
from mpls.migrate.wrapper_calls import PUBLIC, arguments_of_release, is_public, replace_wrapper

__all__ = ["RULE"]

_NAME = "public-wrapper"
_SET_POLICY = "tf.keras.mixed_precision.set_global_policy"


def _look(analysis: Analysis) -> Iterator[Edit | Finding]:
    if analysis.settings.keras != 3 or analysis.facts.makers:
        return
    settings = arguments_of_release(analysis)
    if analysis.facts.reads_compiled:
        lack = "has no get_scaled_loss(), get_unscaled_gradients() or loss_scale"
    elif settings:
        lack = f"is not told what a skipped step counts for as of {analysis.settings.as_of}"
    else:
        return
    advice = f"give compile {PUBLIC}({', '.join(['optimizer', *settings])})"
    for use, _ in analysis.uses:
        if any(row.path == _SET_POLICY for row in use.rows) and _is_of_float16(use):
            what = f"the wrapper that compile makes under this policy is that of Keras 3, which {lack}: {advice}"
            yield Finding(analysis.text.span(use.node)[0], _NAME, what, Kind.LEFT)


def _is_of_float16(use: Use) -> bool:
    """Return whether a policy is set that may be one with a loss scale."""
    name = use.call.args[0] if use.call is not None and use.call.args else None
    return use.call is not None and (not isinstance(name, ast.Constant) or name.value == "mixed_float16")


RULE = Rule(_NAME, str(__doc__), owns=is_public, replace=replace_wrapper, look=_look)
