"""Translates uses of the Keras wrappers: calls by their arguments, and what else their classes are used for."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from mpls.core.releases import behavior_of
from mpls.migrate.analysis import Analysis, Decision, Kind, Use
from mpls.migrate.class_uses import class_values, is_of_loaded
from mpls.migrate.scale_values import Unknown, scale_arguments
from mpls.migrate.source_text import Edit, SourceText
from mpls.program.objects import is_experimental
from mpls.program.scopes import Role

__all__ = [
    "EXPERIMENTAL",
    "PUBLIC",
    "argument_span",
    "arguments_of_release",
    "is_fixed",
    "replace_wrapper",
    "scale_argument",
]

EXPERIMENTAL = "mpls.experimental.LossScaleOptimizer"
PUBLIC = "mpls.keras.LossScaleOptimizer"
# The first argument had two names.
_OPTIMIZER = ("optimizer", "opt")
_OLD = (*_OPTIMIZER, "loss_scale")
_SPACE = re.compile(rb"(?:\s|#[^\r\n]*)*")


def replace_wrapper(use: Use, analysis: Analysis) -> Decision | None:
    """Decide what becomes of a use of a wrapper, experimental or public, or of which of the two it is."""
    experimental = [row for row in use.rows if is_experimental(row)]
    if experimental and analysis.kept is not None:
        return _as_it_is(use, analysis)
    position = use.chain.parts.index(use.node) + 1
    if experimental and _OF_FAMILIES.intersection(use.chain.names[position : position + 1]):
        return Decision(EXPERIMENTAL, note=_OF_INSTANCES, kind=Kind.LEFT)
    if use.role is Role.TYPE_TEST and experimental and is_of_loaded(use, analysis):
        return Decision(EXPERIMENTAL)
    if use.role in (Role.TYPE_TEST, Role.ANNOTATION) or not experimental:
        # The experimental class of mpls derives from the public one, so this holds for both.
        return Decision(PUBLIC, _at_release(use.call, analysis))
    if use.call is None:
        return Decision(EXPERIMENTAL) if len(experimental) == len(use.rows) else None
    return _translated(use.call, use, analysis, len(experimental) < len(use.rows))


def _as_it_is(use: Use, analysis: Analysis) -> Decision:
    """Return what becomes of a use of the experimental wrapper as of TF 2.3 or older, with the arguments it has."""
    if use.role in (Role.TYPE_TEST, Role.ANNOTATION):
        return Decision(PUBLIC)
    if use.call is None:
        return Decision(EXPERIMENTAL)
    edits = _renamed(use.call, analysis.text, "opt", "optimizer")
    is_clear = scale_argument(use.call) is not None
    return Decision(EXPERIMENTAL, edits) if is_clear else Decision(EXPERIMENTAL, edits, _NO_SCALE, Kind.LEFT)


def _translated(call: ast.Call, use: Use, analysis: Analysis, may_be_public: bool) -> Decision | None:
    scale = scale_argument(call)
    if may_be_public and not _is_of_experimental(scale, analysis, use):
        # An unknown second argument may be a loss scale, or whether it is dynamic.
        is_clear = len(call.args) < 2 and all(each.arg not in (None, "loss_scale") for each in call.keywords)
        return Decision(PUBLIC, _at_release(call, analysis)) if is_clear else None
    if scale is None:
        return Decision(EXPERIMENTAL, _at_release(call, analysis), _NO_SCALE, Kind.LEFT)
    value = scale.value if isinstance(scale, ast.keyword) else scale
    settings = scale_arguments(value, use.chain.region, analysis)
    if isinstance(settings, Unknown):
        source = " ".join(analysis.text.source(value).split())
        note = f"the loss scale {source} {settings.why}"
        note += f": {settings.advice}" if settings.advice else f"; {EXPERIMENTAL} takes it as it is"
        edits = [*_renamed(call, analysis.text, "opt", "optimizer"), *_at_release(call, analysis)]
        return Decision(EXPERIMENTAL, edits, note, Kind.LEFT if settings.advice else Kind.NOTED)
    is_asked = bool(class_values(analysis))
    if is_asked and "growth_factor" not in settings:
        # What is asked for the class, where it is not replaced, is an object of that class.
        edits = [*_renamed(call, analysis.text, "opt", "optimizer"), *_at_release(call, analysis)]
        return Decision(EXPERIMENTAL, edits)
    if analysis.text.has_comments(*argument_span(call, scale, analysis.text)):
        # They would be lost with what they stand in.
        edits = [*_renamed(call, analysis.text, "opt", "optimizer"), *_at_release(call, analysis)]
        return Decision(EXPERIMENTAL, edits, "the loss scale stays as it is, for the comments in it")
    if not settings.startswith(_FIXED):
        settings = ", ".join([settings, *arguments_of_release(analysis)])
    edits = [
        Edit(*argument_span(call, scale, analysis.text), settings),
        *_renamed(call, analysis.text, "opt", "inner_optimizer"),
        *_renamed(call, analysis.text, "optimizer", "inner_optimizer"),
    ]
    return Decision(PUBLIC, edits, _NOT_OF_CLASS, Kind.LEFT) if is_asked else Decision(PUBLIC, edits)


# Methods that classes of mpls get from the optimizer that they wrap.
_OF_FAMILIES = frozenset(
    ("apply_gradients", "get_gradients", "get_slot", "get_weights", "minimize", "set_weights", "variables")
)
_OF_INSTANCES = "the class has no such method before it wraps an optimizer: call it by super(), or on the optimizer"
_NOT_OF_CLASS = (
    f"the multiplier is not 2, which only {PUBLIC} takes, the base class of {EXPERIMENTAL}, which the file uses as a "
    f"value: check what asks for the class, and write {PUBLIC} there"
)
_FIXED = "dynamic=False"
_NO_SCALE = "no loss scale is given to it by name or place: check that it gets one"


def scale_argument(call: ast.Call) -> ast.expr | ast.keyword | None:
    """Return the loss scale of a call of the experimental wrapper; None if it cannot be told which argument it is."""
    if any(isinstance(each, ast.Starred) for each in call.args) or len(call.args) > 2:
        return None
    names = [each.arg for each in call.keywords]
    if any(name not in _OLD for name in names) or len(names) + len(call.args) != 2:
        return None
    if len(call.args) == 2:
        return call.args[1]
    scale = next((each for each in call.keywords if each.arg == "loss_scale"), None)
    return scale if len(call.args) == 1 or any(name in _OPTIMIZER for name in names) else None


def _is_of_experimental(scale: ast.expr | ast.keyword | None, analysis: Analysis, use: Use) -> bool:
    """Return whether only the experimental wrapper takes the arguments of a call."""
    if isinstance(scale, ast.keyword):
        return True
    return scale is not None and not isinstance(scale_arguments(scale, use.chain.region, analysis), Unknown)


def arguments_of_release(analysis: Analysis) -> list[str]:
    """Return the arguments that make a wrapper behave as in the release that the user has named."""
    behavior = behavior_of(analysis.settings.as_of)
    if not behavior.skipped_steps_count:
        return ["skip_counts_step=False"]
    if analysis.settings.is_native and analysis.settings.keras == 2:
        # So does the wrapper of tf_keras.
        return []
    return ["skip_counts_step=True"] if behavior.skipped_steps_count_in_keras_3 else []


def _at_release(call: ast.Call | None, analysis: Analysis) -> list[Edit]:
    """Return the edit that adds these arguments to a call whose others stay."""
    settings = arguments_of_release(analysis)
    given: list[ast.expr | ast.keyword] = [] if call is None else [*call.args, *call.keywords]
    if call is None or not settings or not given:
        return []
    if any(isinstance(each, ast.keyword) and each.arg in (None, "skip_counts_step") for each in given):
        return []
    if is_fixed(call):
        return []
    last = max(given, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0))
    _, end = argument_span(call, last, analysis.text)
    return [Edit(end, end, f", {settings[0]}")]


def is_fixed(call: ast.Call, edits: Sequence[Edit] = ()) -> bool:
    """Return whether a call of the public wrapper makes one with a fixed scale, which skips no step."""
    is_given = any(each.arg == "dynamic" and ast.unparse(each.value) == "False" for each in call.keywords)
    return is_given or any(each.new.startswith(_FIXED) for each in edits)


def _renamed(call: ast.Call, text: SourceText, old: str, new: str) -> list[Edit]:
    found = [text.span(each)[0] for each in call.keywords if each.arg == old]
    return [Edit(start, start + len(old), new) for start in found]


def argument_span(call: ast.Call, argument: ast.expr | ast.keyword, text: SourceText) -> tuple[int, int]:
    """Return where an argument starts and ends, with parentheses around it."""
    start, end = text.span(argument)
    opening = text.utf8.index(b"(", text.span(call.func)[1])
    while True:
        before, after = text.utf8[:start].rstrip(), text.utf8[end:]
        space = _SPACE.match(after)
        skipped = 0 if space is None else space.end()
        if len(before) - 1 <= opening or not before.endswith(b"(") or not after[skipped:].startswith(b")"):
            return start, end
        start, end = len(before) - 1, end + skipped + 1
