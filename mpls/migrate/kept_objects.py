"""Tells whether a program relies on what wrappers had up to TF 2.3: the `LossScale` object, and a config with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpls.core.releases import behavior_of
from mpls.migrate.replacements import is_gone
from mpls.migrate.ruling import Use
from mpls.migrate.scale_values import KEPT, Unknown, scale_arguments
from mpls.migrate.wrapper_calls import scale_argument
from mpls.names import RELEASES, SCALE_CLASSES, Name
from mpls.optimizer_members import ATTRIBUTES_OF_LOSS_SCALES
from mpls.program.objects import Instance, calls_of_read_scales, is_experimental, is_public
from mpls.program.scopes import Read, Role, Statement

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["RULE_NAME", "Kept", "attributes_of_scales", "imported_paths", "is_scale_class", "kept_in"]

RULE_NAME = "loss-scale-objects"
_METHODS = ("update", "get_config")
_ATTRIBUTES = frozenset((*ATTRIBUTES_OF_LOSS_SCALES, *_METHODS))
_OWN_CLASS = "wrappers take loss scales of the program's own classes as of TF 2.3 only"


@dataclass(frozen=True)
class Kept:
    """What a program relies on.

    Attributes:
        node: where it does; None if it calls `mpls.install(as_of=…)`, or a module that it imports does.
        why: what it relies on.
        place: the statement behind which `mpls.install(as_of=…)` is to be called; None if it is called already.
    """

    node: ast.expr | None = None
    why: str = ""
    place: Statement | None = None


def kept_in(analysis: Analysis) -> Kept | None:
    """Return what a file relies on that wrappers had up to TF 2.3; None if there is nothing, or it cannot be given.

    Args:
        analysis: the file, whose uses are found, but not decided on.
    """
    if _installs(analysis):
        return Kept()
    as_of = analysis.settings.as_of
    is_asked = behavior_of(as_of).has_loss_scale_objects and any(rule.name == RULE_NAME for rule in analysis.rules)
    if not is_asked or not _touches(analysis):
        return None
    around = list(_own_modules(analysis))
    if any(each.kept is not None for each in around):
        return Kept()
    wrappers = [use for use, _ in analysis.uses if any(map(is_experimental, use.rows))]
    need = next(_needs(analysis, wrappers), None) if wrappers else None
    if need is None or any(map(_touches, around)) or _has_gates(analysis):
        return None
    place = _place(analysis, wrappers)
    return None if place is None else Kept(*need, place)


def is_scale_class(row: Name) -> bool:
    """Return whether a historical name is that of a class of loss scales."""
    home, _, name = row.target.partition(":")
    return home in ("mpls.experimental", "mpls.v1") and name in SCALE_CLASSES


def attributes_of_scales(analysis: Analysis) -> Iterator[ast.Attribute]:
    """Yield the reads of attributes and methods of the loss scale of a wrapper that only `LossScale` objects have.

    Methods are yielded of what may be a wrapper too.
    """
    for chain in analysis.survey.chains:
        if _ATTRIBUTES.isdisjoint(chain.names):
            continue
        for place, name in enumerate(chain.names[2:], 2):
            if name in _ATTRIBUTES and chain.names[place - 1] == "loss_scale":
                value, part = chain.parts[place - 1 : place + 1]
                assert isinstance(value, ast.Attribute)
                assert isinstance(part, ast.Attribute)
                read = Read(value, None, chain.region, chain.statement, chain.string)
                kind = analysis.instances.kind(read)
                if kind is Instance.WRAPPER or (kind is Instance.UNKNOWN and name in _METHODS):
                    yield part


def _installs(analysis: Analysis) -> bool:
    for chain in analysis.survey.chains:
        if chain.names == ("mpls", "install") and chain.call is not None:
            given = [each.value for each in chain.call.keywords if each.arg == "as_of"] or chain.call.args[:1]
            release = given[0].value if given and isinstance(given[0], ast.Constant) else None
            if release in RELEASES and behavior_of(str(release)).has_loss_scale_objects:
                return True
    return False


def _touches(analysis: Analysis) -> bool:
    """Return whether a file has to do with wrappers, so that it matters which release they behave as."""
    has_reads = any(read.node.attr == "loss_scale" for read in analysis.survey.reads)
    return has_reads or any(is_experimental(row) for use, _ in analysis.uses for row in use.rows)


def _own_modules(analysis: Analysis) -> Iterator[Analysis]:
    """Yield the modules of the program's own that a file imports, with what becomes of them."""
    files = {
        path[1:]
        for statement, _ in analysis.survey.imports
        if isinstance(statement.node, ast.Import | ast.ImportFrom)
        for alias in statement.node.names
        for path in imported_paths(analysis, alias, statement.node)
        if path.startswith("@")
    }
    for file in sorted(files):
        other = analysis.others.analysis(file)
        if other is not None and other is not analysis:
            yield other


def imported_paths(analysis: Analysis, alias: ast.alias, node: ast.Import | ast.ImportFrom) -> frozenset[str]:
    """Return the paths of what an alias imports and of the module that has it."""
    if alias.name == "*":
        assert isinstance(node, ast.ImportFrom)
        return analysis.meanings.module_of(node)
    return analysis.meanings.of_import(alias) | analysis.meanings.alias(alias).paths


def _needs(analysis: Analysis, wrappers: list[Use]) -> Iterator[tuple[ast.expr, str]]:
    yield from _classes_and_variables(analysis, wrappers)
    for node in attributes_of_scales(analysis):
        yield node, "the program reads an attribute of a wrapper's loss scale"
    for call in calls_of_read_scales(analysis.instances):
        if call.kind is Instance.WRAPPER:
            yield call.node, "the program reads a wrapper's loss scale, and calls it"
    for read in _objects(analysis):
        yield read.node, "the program asks which object a wrapper's loss scale is"
    for asked, region in analysis.survey.calls.get("type", ()):
        if len(asked.args) == 1 and analysis.instances.of(asked.args[0], region) is Instance.WRAPPER:
            yield asked, "the program asks for the class of a wrapper, which had another name"
    for read in analysis.survey.reads:
        if read.node.attr == "get_config" and analysis.instances.kind(read) is Instance.WRAPPER:
            yield read.node, "the config of a wrapper had the keys optimizer and loss_scale"


def _classes_and_variables(analysis: Analysis, wrappers: list[Use]) -> Iterator[tuple[ast.expr, str]]:
    for use, _ in analysis.uses:
        if use.role is Role.BASE and all(map(is_scale_class, use.rows)):
            yield use.node, _OWN_CLASS
    for use in wrappers:
        if use.role is Role.BASE:
            yield (
                use.node,
                "for classes that derive from the wrapper, the release decides whether a skipped step counts",
            )
        scale = None if use.call is None else scale_argument(use.call)
        value = scale.value if isinstance(scale, ast.keyword) else scale
        settings = None if value is None else scale_arguments(value, use.chain.region, analysis)
        if isinstance(settings, Unknown) and settings.advice == KEPT:
            yield use.node, "the program has the loss scale of a wrapper in a variable"


def _objects(analysis: Analysis) -> Iterator[Read]:
    """Yield the loss scales of wrappers whose class or identity is asked for."""
    survey = analysis.survey
    asked = [call.args[0] for call, _ in (*survey.calls.get("type", ()), *survey.type_tests) if call.args]
    asked += [each for node, _ in survey.identities for each in (node.left, *node.comparators) if not _is_none(node)]
    nodes = set(asked)
    for read in survey.reads:
        is_asked = read.call is None and read.node.attr == "loss_scale" and read.node in nodes
        if is_asked and analysis.instances.kind(read) is Instance.WRAPPER:
            yield read


def _is_none(node: ast.Compare) -> bool:
    return any(isinstance(each, ast.Constant) for each in node.comparators)


def _has_gates(analysis: Analysis) -> bool:
    """Return whether a file does something else on newer releases, where wrappers would be those of TF 2.3 too."""
    if any(is_public(row) for use, _ in analysis.uses for row in use.rows):
        return True
    for call, region in analysis.survey.probes:
        name = call.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            meaning = analysis.meanings.member(analysis.meanings.of(call.args[0], region), name.value)
            if any(map(is_gone, meaning.paths)):
                return True
    # Text comparisons say of TF 2.10 and newer releases that they are older than 2.4.
    as_text = {side for node, _ in analysis.survey.comparisons for side in (node.left, *node.comparators)}
    return any(
        name in ("__version__", "VERSION") and part not in as_text
        for chain in analysis.survey.chains
        for name, part in zip(chain.names, chain.parts, strict=True)
    )


def _place(analysis: Analysis, wrappers: list[Use]) -> Statement | None:
    """Return the last of the imports at the top that begin with one of TensorFlow or Keras; None if a use is above."""
    body = analysis.text.tree.body
    at_top = {statement.node: statement for statement, _ in analysis.survey.imports if statement.parent is None}
    is_taken = "mpls" in analysis.survey.bound and not any(
        alias.name.partition(".")[0] == "mpls" and alias.asname is None
        for node in at_top
        if isinstance(node, ast.Import)
        for alias in node.names
    )
    first = next((place for place, node in enumerate(body) if node in at_top and _is_framework(node, analysis)), None)
    if is_taken or first is None:
        return None
    last = first
    while last + 1 < len(body) and body[last + 1] in at_top:
        last += 1
    end = analysis.text.span(body[last])[1]
    is_above = any(analysis.text.span(use.node)[0] < end for use in wrappers)
    return None if is_above else at_top[body[last]]


def _is_framework(node: ast.stmt, analysis: Analysis) -> bool:
    assert isinstance(node, ast.Import | ast.ImportFrom)
    paths = {path for alias in node.names for path in imported_paths(analysis, alias, node)}
    return bool(paths) and not any(path.startswith("@") for path in paths)
