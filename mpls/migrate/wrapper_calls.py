"""What becomes of the wrappers of Keras: of calls, by their loss scales, and of other uses of their classes."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mpls.core.releases import behavior_of
from mpls.formats.wrapper_state import (
    DYNAMIC_CONFIG,
    FIXED_CONFIG,
    INITIAL_LOSS_SCALE,
    LARGEST_FIXED_SCALE,
    LOSS_SCALE_VALUE,
    MULTIPLIER,
    OLD_NAMES,
    can_be_scale,
)
from mpls.migrate.analysis import Analysis, Decision, Outcome, Use, home_of
from mpls.migrate.source_text import Edit, SourceText
from mpls.names import named, namespaces
from mpls.program.meaning import Meaning
from mpls.program.scopes import Chain, Region, Role, chain_of
from mpls.program.tables import is_experimental

EXPERIMENTAL = "mpls.experimental.LossScaleOptimizer"
PUBLIC = "mpls.keras.LossScaleOptimizer"
# The first argument had two names.
_OPTIMIZER = ("optimizer", "opt")
_OLD = (*_OPTIMIZER, "loss_scale")
_OF_TF_1 = re.compile(r"tf\.(?:compat\.v1\.)?train\.\w+Optimizer")
_SPACE = re.compile(rb"(?:\s|#[^\r\n]*)*")


def replace_wrapper(use: Use, analysis: Analysis) -> Decision | None:
    """Decide what becomes of a use of a wrapper, experimental or public, or of which of the two it is."""
    experimental = [row for row in use.rows if is_experimental(row)]
    if experimental and analysis.kept is not None:
        return _as_it_is(use, analysis)
    if use.role is Role.TYPE_TEST and experimental and is_of_loaded(use, analysis):
        return Decision(EXPERIMENTAL)
    if use.role in (Role.TYPE_TEST, Role.ANNOTATION) or not experimental:
        # The experimental class of mpls derives from the public one, so this holds for both.
        return _as_public(use.call, analysis)
    if use.call is None:
        return Decision(EXPERIMENTAL) if len(experimental) == len(use.rows) else None
    return _translated(use.call, use, analysis, len(experimental) < len(use.rows))


def _as_public(call: ast.Call | None, analysis: Analysis) -> Decision:
    """Return what becomes of a use of the public wrapper, with the arguments of a release if its scale is dynamic."""
    may_be_fixed = call is not None and is_made_dynamic(call) is not True
    return Decision(PUBLIC, [] if may_be_fixed else _at_release(call, analysis))


def _as_it_is(use: Use, analysis: Analysis) -> Decision:
    """Return what becomes of a use of the experimental wrapper as of TF 2.3 or older, with the arguments it has."""
    if use.role in (Role.TYPE_TEST, Role.ANNOTATION):
        return Decision(PUBLIC)
    if use.call is None:
        return Decision(EXPERIMENTAL)
    edits = _renamed(use.call, analysis.text, "opt", "optimizer")
    is_clear = scale_argument(use.call) is not None
    return Decision(EXPERIMENTAL, edits) if is_clear else Decision(EXPERIMENTAL, edits, _NO_SCALE, Outcome.LEFT)


def _translated(call: ast.Call, use: Use, analysis: Analysis, may_be_public: bool) -> Decision | None:
    scale = scale_argument(call)
    if may_be_public and not _is_of_experimental(scale, analysis, use):
        # An unknown second argument may be a loss scale, or whether it is dynamic.
        is_clear = len(call.args) < 2 and all(each.arg not in (None, "loss_scale") for each in call.keywords)
        return _as_public(call, analysis) if is_clear else None
    if scale is None:
        return Decision(EXPERIMENTAL, _at_release(call, analysis), _NO_SCALE, Outcome.LEFT)
    value = scale.value if isinstance(scale, ast.keyword) else scale
    settings = scale_arguments(value, use.chain.region, analysis)
    as_they_are = [*_renamed(call, analysis.text, "opt", "optimizer"), *_at_release(call, analysis)]
    if isinstance(settings, Unknown):
        source = " ".join(analysis.text.source(value).split())
        note = f"the loss scale {source} {settings.why}"
        note += f": {settings.advice}" if settings.advice else f"; {EXPERIMENTAL} takes it as it is"
        return Decision(EXPERIMENTAL, as_they_are, note, Outcome.LEFT if settings.advice else Outcome.NOTED)
    is_asked = bool(class_values(analysis))
    if is_asked and "growth_factor" not in settings:
        # What is asked for the class, where it is not replaced, is an object of that class.
        return Decision(EXPERIMENTAL, as_they_are)
    span = argument_span(call, scale, analysis.text)
    if analysis.text.comments(*span):
        # They would be lost with what they stand in.
        return Decision(EXPERIMENTAL, as_they_are, "the loss scale stays as it is, for the comments in it")
    if not settings.startswith(_IS_FIXED):
        settings = ", ".join([settings, *arguments_of_release(analysis)])
    renamed = [edit for old in _OPTIMIZER for edit in _renamed(call, analysis.text, old, "inner_optimizer")]
    edits = [Edit(*span, settings), *renamed]
    return Decision(PUBLIC, edits, _NOT_OF_CLASS, Outcome.LEFT) if is_asked else Decision(PUBLIC, edits)


_NOT_OF_CLASS = (
    f"the multiplier is not 2, which only {PUBLIC} takes, the base class of {EXPERIMENTAL}, which the file uses as a "
    f"value: check what asks for the class, and write {PUBLIC} there"
)
_IS_FIXED = "dynamic=False"
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
    last = max(given, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0))
    _, end = argument_span(call, last, analysis.text)
    return [Edit(end, end, f", {settings[0]}")]


def is_fixed(call: ast.Call, edits: Sequence[Edit] = ()) -> bool:
    """Return whether a call of the public wrapper makes one with a fixed scale, which skips no step."""
    return is_made_dynamic(call) is False or any(each.new.startswith(_IS_FIXED) for each in edits)


def is_made_dynamic(call: ast.Call) -> bool | None:
    """Return whether a call of the public wrapper makes one with a dynamic scale; None if only the program knows."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    given = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "dynamic"), ast.Constant(True)]
    value = getattr(given[0], "value", None)
    return value if isinstance(value, bool) else None


def is_given_optimizer_of_tf_1(use: Use, analysis: Analysis) -> bool:
    """Return whether a call of the graph rewrite gets an optimizer of TF 1, over which a skipped step never counts."""
    first = use.call.args[0] if use.call is not None and use.call.args else None
    region = use.chain.region
    bindings = region.find(first.id) if isinstance(first, ast.Name) else []
    # `opt = rewrite(opt)` binds the name again.
    others = [each for each in bindings[1:] if not _is_around(each.value, first)]
    value = first if not bindings else None if others else bindings[0].value
    if not isinstance(value, ast.Call):
        return False
    meaning = analysis.meanings.of(value.func, bindings[0].region if bindings else region)
    return meaning.is_whole and bool(meaning.paths) and all(map(_OF_TF_1.fullmatch, meaning.paths))


def _is_around(value: ast.AST | None, name: ast.expr | None) -> bool:
    """Return whether a value is what a call returns whose first argument is a name."""
    inner = value.args[0] if isinstance(value, ast.Call) and value.args else None
    return isinstance(inner, ast.Name) and isinstance(name, ast.Name) and inner.id == name.id


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


# The value of a loss scale, as the source tells it.

_NEW_NAMES = {old: new for new, old in OLD_NAMES.items()}
IN_VARIABLE = "is an object that the program may use elsewhere"
AT_RUN_TIME = "is only known when the program runs"
_KEPT = "up to TF 2.3 the wrapper kept it, which mpls.install(as_of='{}') brings back; without, it copies the settings"
_MULTIPLIER = "the wrapper of mpls.keras takes it as growth_factor, and its inverse as backoff_factor"
_REFUSED = f"since TF 2.4 its multiplier has to be 2: --as-of {{}} keeps another, or {_MULTIPLIER}"
_FIXED = f"pass a positive number up to 2**{math.log2(LARGEST_FIXED_SCALE):g}"


@dataclass(frozen=True)
class Unknown:
    """A value that cannot be told.

    Attributes:
        why: the reason, to follow its source in messages.
        advice: what to do, if the experimental wrapper does not take it either.
    """

    why: str
    advice: str = ""


def scale_arguments(node: ast.expr, region: Region, analysis: Analysis) -> str | Unknown:
    """Return the arguments of the public wrapper for a loss scale: `"dynamic=False, initial_scale=128"`.

    Args:
        node: the argument of the experimental wrapper.
        region: the scope that it is in.
        analysis: the file.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (
            "dynamic=True" if node.value == "dynamic" else Unknown("is not a loss scale", "pass 'dynamic' or a number")
        )
    number = _number(node)
    if number is not None:
        return _fixed(number, analysis.text.source(node))
    if isinstance(node, ast.Call):
        return _of_object(node, region, analysis)
    bound = region.only(node.id) if isinstance(node, ast.Name) else None
    if bound is None or not isinstance(bound.value, ast.Call):
        return Unknown(AT_RUN_TIME)
    if analysis.settings.has_objects:
        return Unknown(IN_VARIABLE, _KEPT.format(analysis.release_with_objects))
    settings = _of_object(bound.value, bound.region, analysis)
    is_refused = settings.advice if isinstance(settings, Unknown) else "growth_factor" in settings
    return Unknown(IN_VARIABLE, _REFUSED.format(analysis.release_with_objects) if is_refused else "")


def _of_object(node: ast.Call, region: Region, analysis: Analysis) -> str | Unknown:
    meaning = analysis.meanings.of(node.func, region)
    rows = [named(path) for path in meaning.paths]
    kinds = {row.attribute for row in rows if row is not None and row.target.startswith("mpls.")}
    if not meaning.is_whole or len(kinds) != 1 or None in rows:
        return Unknown(AT_RUN_TIME)
    given = _arguments(node, DYNAMIC_CONFIG if kinds == {"DynamicLossScale"} else FIXED_CONFIG)
    if given is None:
        return Unknown("has arguments that are only known when the program runs")
    if kinds == {"FixedLossScale"}:
        value = given.get(LOSS_SCALE_VALUE)
        number = None if value is None else _number(value)
        if value is None or number is None:
            return Unknown("has a value that is only known when the program runs")
        return _fixed(number, analysis.text.source(value))
    return _of_dynamic(given, analysis) if kinds == {"DynamicLossScale"} else Unknown("is not a loss scale to copy")


def _of_dynamic(given: dict[str, ast.expr], analysis: Analysis) -> str | Unknown:
    multiplier = given.pop(MULTIPLIER, None)
    factor = 2.0 if multiplier is None else _number(multiplier)
    if factor is None or factor <= 1 or not can_be_scale(factor) or math.frexp(factor)[0] != 0.5:
        # By others, dividing is not exactly multiplying by the inverse.
        return Unknown("has a multiplier that is not, or may not be, a power of 2 from 2 to 2**126", _MULTIPLIER)
    if any(_number(each) is None for each in given.values()):
        # They may be objects of TensorFlow, or have historical names in them.
        return Unknown("has values that are only known when the program runs")
    initial = _number(given[INITIAL_LOSS_SCALE]) if INITIAL_LOSS_SCALE in given else None
    if initial is not None and not can_be_scale(initial):
        return Unknown("has an initial scale that none can have", "pass a power of 2 such as 2.0**15")
    settings = [f"{_NEW_NAMES[name]}={analysis.text.source(value)}" for name, value in given.items()]
    if factor != 2 and multiplier is not None:
        source = analysis.text.source(multiplier)
        inverse = source if isinstance(multiplier, ast.Constant) else f"({source})"
        settings += [f"growth_factor={source}", f"backoff_factor=1 / {inverse}"]
    return ", ".join(settings) or "dynamic=True"


def _arguments(node: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr] | None:
    """Return a call's arguments by name; None if they cannot be told."""
    if len(node.args) > len(names) or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    given = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in names or keyword.arg in given:
            return None
        given[keyword.arg] = keyword.value
    return given


def _fixed(number: float, source: str) -> str | Unknown:
    # The wrapper of mpls refuses those above the largest.
    if number < 1 and can_be_scale(number):
        return Unknown("is below 1, which the original refused up to TF 2.3")
    if not 1 <= number <= LARGEST_FIXED_SCALE:
        return Unknown("is not a fixed scale", _FIXED)
    return f"dynamic=False, initial_scale={source}"


def _number(node: ast.expr) -> float | None:
    """Return the value of a number, or of a power such as `2 ** 15` or `1 << 15`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int | float) and not isinstance(node.value, bool) else None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Pow | ast.LShift):
        return None
    left, right = _number(node.left), _number(node.right)
    # Larger ones are no scale, and take long.
    if left is None or right is None or abs(left) > 1024 or right not in range(65):
        return None
    power: float = left**right if isinstance(node.op, ast.Pow) else left * 2.0**right
    return power


# What a program does with the class of the experimental wrapper itself, beside calling it.

_TARGET = "mpls.experimental:LossScaleOptimizer"
# Members of a module that give what is in it.
_READS = ("__dict__", "__getattribute__")


def class_values(analysis: Analysis) -> tuple[ast.expr | ast.alias, ...]:
    """Return where the class is, or a removed module that has it, of which a test may ask that is not rewritten.

    That is where it is compared, as in `type(opt) is C`, where an attribute of it is set, and in dictionaries, tuples,
    arguments and the like, from where it may get to a test of any kind. The objects that the file makes are then to be
    of that class, and not of the public one. It is not where it is called, annotates or is derived from, where
    `isinstance` gets the public class in its place, and where it gets another name whose uses are followed.
    """
    if analysis.values_of_class is None:
        exprs = (*_values(analysis), *_modules(analysis))
        analysis.values_of_class = (*exprs, *_imported_to_be_asked_for(analysis))
    return analysis.values_of_class


def _values(analysis: Analysis) -> Iterator[ast.expr]:
    asked = _asked(analysis)
    for use, _ in analysis.uses:
        if not any(row.target == _TARGET for row in use.rows):
            continue
        # A test asks for what the name stands for, if that cannot be replaced by the public class.
        is_unsure = use.role is Role.TYPE_TEST and not _is_whole(use, analysis)
        if is_unsure or (use.role is Role.VALUE and _is_value(use.node, use.chain, asked)):
            yield use.node


def _modules(analysis: Analysis) -> Iterator[ast.expr]:
    asked = _asked(analysis)
    for chain, meaning in analysis.rest:
        if chain.names[-1] in _READS and len(chain.parts) > 1:
            is_value = _may_be_module(analysis.meanings.of(chain.parts[-2], chain.region))
        else:
            is_value = chain.role is Role.VALUE and _may_be_module(meaning) and _is_value(chain.node, chain, asked)
        if is_value:
            yield chain.node


def _asked(analysis: Analysis) -> set[ast.expr]:
    """Return what is compared with None, or asked for its attributes but the class; nothing follows from these."""
    found = {side for sides in analysis.survey.comparisons if any(map(_is_none, sides)) for side in sides}
    for call, _ in analysis.survey.probes:
        name = call.args[1]
        is_harmless = isinstance(name, ast.Constant) and name.value not in (_CLASS, "__dict__")
        if is_harmless or getattr(call.func, "id", "") == "hasattr":
            found.add(call.args[0])
    return found


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _may_be_module(meaning: Meaning) -> bool:
    return not _modules_around().isdisjoint(meaning.paths)


def _imported_to_be_asked_for(analysis: Analysis) -> Iterator[ast.alias]:
    """Yield what is imported as an attribute of a class, or named in unread code, since its uses are not followed."""
    for node, _, region in analysis.survey.imports:
        for alias in node.names:
            is_unseen = region.is_class or (alias.asname or alias.name) in analysis.unseen_words
            path = "" if alias.name == "*" or not is_unseen else analysis.meanings.path_of(alias)
            if path in _modules_with_class() or path in _classes():
                yield alias


@functools.cache
def _classes() -> frozenset[str]:
    return frozenset(row.path for rows in namespaces().values() for row in rows if row.target == _TARGET)


@functools.cache
def _modules_with_class() -> frozenset[str]:
    """Return the modules that TensorFlow has removed and that had the class."""
    paths = {path.rpartition(".")[0] for path in _classes()}
    return frozenset(path for path in paths if home_of(path) is not None)


@functools.cache
def _modules_around() -> frozenset[str]:
    """Return these modules and those from which they are read, such as `tf.keras`; not TensorFlow itself."""
    parents = {path.rpartition(".")[0] for path in _modules_with_class()}
    parents |= {path.rpartition(".")[0] for path in parents}
    return _modules_with_class() | {path for path in parents if "." in path}


def is_through_unsure(use: Use, analysis: Analysis) -> bool:
    """Return whether a use is an attribute of what may be something else, or unbound."""
    return use.node is not use.chain.parts[0] and not _is_whole(use, analysis)


def _is_whole(use: Use, analysis: Analysis) -> bool:
    return analysis.meanings.of(use.node, use.chain.region).is_whole


def is_of_loaded(use: Use, analysis: Analysis) -> bool:
    """Return whether `isinstance` asks an optimizer of a loaded model, which was no experimental one since TF 2.4.

    `load_model` of TF 2.4 to 2.8 made the public wrapper of what was saved with the experimental one, and so it does
    with the class of mpls. The objects that the file makes have to be of the class too, so that other tests hold.

    Args:
        use: a use of the class in `isinstance`.
        analysis: the file.
    """
    if not behavior_of(analysis.settings.as_of).is_from("2.4") or not class_values(analysis):
        return False
    for test, region in analysis.survey.type_tests:
        asked = test.args[0]
        if use.node is not test.args[1] or not isinstance(asked, ast.Attribute) or asked.attr != "optimizer":
            continue
        bindings = region.find(asked.value.id) if isinstance(asked.value, ast.Name) else []
        calls = [each.value for each in bindings if isinstance(each.value, ast.Call)]
        return 0 < len(bindings) == len(calls) and all(chain_of(each.func)[-1] == "load_model" for each in calls)
    return False


# Attributes of a class by which it is asked whether it has an object or a class.
_TESTS = ("__instancecheck__", "__mro__", "__subclasscheck__", "__subclasses__", "mro")
_CLASS = "LossScaleOptimizer"


def _is_value(node: ast.expr, chain: Chain, asked: set[ast.expr]) -> bool:
    """Return whether an expression is where its value is not followed, as it is where a name alone gets it.

    Args:
        node: the expression, a class or a module.
        chain: the chain that it is a part of.
        asked: expressions of which something harmless is asked.
    """
    if node is not chain.node:
        is_set = not isinstance(getattr(chain.node, "ctx", None), ast.Load)
        return is_set or chain.names[chain.parts.index(node) + 1] in _TESTS
    statement = chain.statement.node
    if node in asked or getattr(statement, "test", None) is node:
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    is_alone = getattr(statement, "value", None) is node and all(isinstance(each, ast.Name) for each in targets)
    # Attributes of classes are read through their objects.
    return chain.region.is_class or not is_alone
