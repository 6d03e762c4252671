"""Tells whether a program relies on what wrappers had up to TF 2.3: the `LossScale` object, and a config with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.core.releases import behavior_of
from mpls.migrate.analysis import Analysis, Kept, Use
from mpls.migrate.wrapper_calls import AT_RUN_TIME, EXPERIMENTAL, IN_VARIABLE, Unknown, scale_argument, scale_arguments
from mpls.names import RELEASES, Name
from mpls.program.objects import UNKNOWN, ScaleUse, Taken, are_wrappers
from mpls.program.scopes import Chain, Member, Role, Statement
from mpls.program.tables import is_experimental, is_public, is_scale_class

RULE_NAME = "loss-scale-objects"
# Methods of loss scales, of which other objects may have some of these names too.
METHODS = ("update", "get_config")
_OTHERS = (*METHODS, "_loss_scale")
_OWN_CLASS = "wrappers take loss scales of the program's own classes as of TF 2.3 only"


def kept_in(analysis: Analysis) -> Kept | None:
    """Return what a file relies on that wrappers had up to TF 2.3; None if there is nothing, or it cannot be given."""
    if _installs(analysis):
        return Kept()
    if not _touches(analysis) and not _makers(analysis):
        return None
    # A module that is imported in a function may call `mpls.install` after this file's wrappers were made.
    if any(is_first and each.kept is not None for each, is_first in _own_modules(analysis)):
        return Kept()
    return _wanted(analysis) if _is_asked(analysis) else None


def _is_asked(analysis: Analysis) -> bool:
    return analysis.settings.has_objects and any(rule.name == RULE_NAME for rule in analysis.rules)


def _makers(analysis: Analysis) -> list[Use]:
    """Return the uses of the experimental wrapper, and of policies under which `compile` makes it."""

    def makes(row: Name) -> bool:
        return is_experimental(row) or row.attribute == "set_policy"

    return [use for use, _ in analysis.uses if any(map(makes, use.rows))]


def _wanted(analysis: Analysis) -> Kept | None:
    """Return what `--as-of 2.3` gives a file; None if there is nothing, or it cannot be given."""
    need, place = _need(analysis), _place(analysis, _makers(analysis))
    return None if need is None or place is None else Kept(*need, place)


def _need(analysis: Analysis) -> tuple[ast.expr, str] | None:
    """Return what needs the objects in a file that can have them."""
    makers = _makers(analysis)
    need = next(_needs(analysis, makers), None) if makers else None
    expects_tensors = any(each.kept is None and _touches(each) for each, _ in _own_modules(analysis))
    return None if need is None or expects_tensors or _has_gates(analysis) else need


def lost_in(analysis: Analysis) -> Iterator[tuple[ast.expr, str]]:
    """Yield where a file plainly is of TF 2.3 or older, but no release is given, and what no longer holds there."""
    if analysis.kept is not None:
        return
    if analysis.settings.as_of is not None:
        need = _need(analysis) if _is_asked(analysis) else None
        if need is not None:
            install = f"call mpls.install(as_of={analysis.settings.as_of!r}) before its wrappers are made"
            yield need[0], f"{need[1]}: {install}, and make them by {EXPERIMENTAL} with the arguments that they had"
        return
    lost = list(_lost(analysis))
    if lost or _calls_scales(analysis):
        lost += list(_shared(analysis)) or list(_shared_by_others(analysis))
    if not lost or _has_gates(analysis):
        return
    kept = _wanted(analysis)
    release = analysis.release_with_objects
    install = f"call mpls.install(as_of={release!r}), and make the wrapper by {EXPERIMENTAL}"
    for node, what in lost:
        yield node, f"{what}: {install if kept is None else f'give --as-of {release}'}"


def _installs(analysis: Analysis) -> bool:
    for chain in analysis.survey.called.get("install", ()):
        if chain.names == ("mpls", "install") and chain.call is not None:
            given = [each.value for each in chain.call.keywords if each.arg == "as_of"] or chain.call.args[:1]
            release = given[0].value if given and isinstance(given[0], ast.Constant) else None
            if release in RELEASES and behavior_of(str(release)).has_loss_scale_objects:
                return True
    return False


def _touches(analysis: Analysis) -> bool:
    """Return whether a file has to do with wrappers, so that it matters which release they behave as."""
    has_reads = any(read.name == "loss_scale" for read in analysis.survey.reads)
    return has_reads or any(is_experimental(row) for use, _ in analysis.uses for row in use.rows)


def _own_modules(analysis: Analysis) -> Iterator[tuple[Analysis, bool]]:
    """Yield the modules of the program's own that a file imports, with whether it does so before anything is called."""
    survey = analysis.survey
    first = {path for node, _, region in survey.imports if region is survey.module for path in analysis.imported[node]}
    paths = frozenset().union(*analysis.imported.values())
    for path in sorted(each for each in paths if each.startswith("@")):
        other = analysis.others.analysis(path[1:])
        if other is not None and other is not analysis:
            yield other, path in first


def _needs(analysis: Analysis, makers: list[Use]) -> Iterator[tuple[ast.expr, str]]:
    yield from _classes_and_variables(analysis, makers)
    for asked, region in analysis.survey.calls_of("type"):
        if len(asked.args) == 1 and analysis.objects.is_wrapper(asked.args[0], region):
            yield asked, "the program asks for the class of a wrapper, which had another name"
    # Where no wrapper is made, another file may be the one that has to call `mpls.install`.
    makes = any(use.call is not None or use.role is Role.BASE for use in makers)
    for read in analysis.survey.reads:
        is_object = read.name == "loss_scale" and read.call is None
        is_wrapper = (is_object or read.name == "get_config") and analysis.objects.reads_wrapper(read)
        if is_wrapper:
            what = "the config of a wrapper had the keys optimizer and loss_scale"
            yield read.node, "the program takes the loss scale object of a wrapper" if is_object else what
        elif is_object and makes and _is_item(read):
            yield read.node, "the program takes the loss scale object of what may be a wrapper"
    for use in analysis.scales:
        kinds = analysis.objects.of(use.owner, use.region)
        if use.how is Taken.SET and are_wrappers(kinds):
            yield use.place.node, "the program sets the loss scale object of a wrapper"
        elif makes and use.how is Taken.CALLED and kinds == UNKNOWN and not is_of_module(use, analysis):
            yield use.place.node, "the program calls the loss scale of what may be a wrapper"


def _is_item(read: Member) -> bool:
    """Return whether an attribute is read from what a loop takes out of something."""
    bound = read.region.find(read.owner.id) if isinstance(read.owner, ast.Name) else []
    return bool(bound) and all(isinstance(each.value, ast.Subscript) for each in bound)


def is_of_module(use: ScaleUse, analysis: Analysis) -> bool:
    """Return whether it is the loss scale of a module of the program's own."""
    paths = analysis.meanings.of(use.owner, use.region).paths
    return bool(paths) and all(path.startswith("@") for path in paths)


def _classes_and_variables(analysis: Analysis, makers: list[Use]) -> Iterator[tuple[ast.expr, str]]:
    for use, _ in analysis.uses:
        if use.role is Role.BASE and all(map(is_scale_class, use.rows)):
            yield use.node, _OWN_CLASS
    calls = (chain.call for chain in analysis.survey.called.get("partial", ()))
    partials = [each for call in calls if call is not None for each in call.args[:1]]
    for use in makers:
        if use.role is Role.BASE:
            yield (
                use.node,
                "for classes that derive from the wrapper, the release decides whether a skipped step counts",
            )
        scale = None if use.call is None else scale_argument(use.call)
        value = scale.value if isinstance(scale, ast.keyword) else scale
        settings = None if value is None else scale_arguments(value, use.chain.region, analysis)
        why = settings.why if isinstance(settings, Unknown) else ""
        if why == IN_VARIABLE:
            yield use.node, "the program has the loss scale of a wrapper in a variable"
        elif analysis.facts.has_scale_objects and (why == AT_RUN_TIME or use.node in partials):
            yield use.node, "the program may use the loss scale of a wrapper elsewhere"


_LOST = {
    Taken.TESTED: "up to TF 2.3 this was a LossScale object, and today it is a tensor",
    Taken.SET: "up to TF 2.3 the wrapper kept the loss scale that is set here, and today it does not",
}
_LOST |= dict.fromkeys((Taken.TYPE, Taken.ASSERTED, Taken.COMPARED, Taken.GIVEN), _LOST[Taken.TESTED])


def _lost(analysis: Analysis) -> Iterator[tuple[ast.expr, str]]:
    for use in analysis.scales:
        is_lost = use.how in _LOST or use.how is Taken.CONFIG
        if is_lost and analysis.objects.is_wrapper(use.owner, use.region):
            key = getattr(getattr(use.place.node, "slice", None), "value", None)
            of_config = f"the config of a wrapper has no {key!r} today, as it had up to TF 2.3"
            yield use.place.node, _LOST.get(use.how, of_config)


def _calls_scales(analysis: Analysis) -> bool:
    """Return whether a file calls the loss scale of a wrapper, or that which it gives it, as an object of TF 2.3."""
    return any(
        (
            use.how in (Taken.CALLED_LATER, Taken.SHARED)
            or (use.how in (Taken.CALLED, Taken.MEMBER) and use.place.name not in _OTHERS)
        )
        and analysis.objects.is_wrapper(use.owner, use.region)
        for use in analysis.scales
    )


def _shared(analysis: Analysis) -> Iterator[tuple[ast.expr, str]]:
    """Yield where wrappers are made with a loss scale that the file uses elsewhere too."""
    chains = analysis.survey.chains
    for use, _ in analysis.uses:
        scale = scale_argument(use.call) if use.call is not None and any(map(is_experimental, use.rows)) else None
        value = scale.value if isinstance(scale, ast.keyword) else scale
        if not isinstance(value, ast.Name):
            continue
        name, region = value.id, use.chain.region
        is_object = any(
            isinstance(each.value, ast.Call) and analysis.objects.is_scale_class(each.value.func, each.region)
            for each in region.find(name)
        )
        others = [each for each in chains if each.names[0] == name and each.parts[0] is not value]
        read = [each.region.holder(name) for each in others if _is_loaded(each.parts[0])]
        if is_object and region.holder(name) in read:
            what = f"up to TF 2.3 {name} was the wrapper's loss scale, and today the wrapper copies it"
            yield use.node, what


def _shared_by_others(analysis: Analysis) -> Iterator[tuple[ast.expr, str]]:
    """Yield where a loss scale is called that a wrapper got under another name."""
    for use in analysis.scales:
        if use.how is Taken.SHARED and analysis.objects.is_wrapper(use.owner, use.region):
            yield use.place.node, "up to TF 2.3 this was the loss scale of a wrapper, and today the wrapper copies it"


def _is_loaded(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _has_gates(analysis: Analysis) -> bool:
    """Return whether a file does something else on newer releases, where wrappers would be those of TF 2.3 too."""
    if analysis.asked_for or any(is_public(row) for use, _ in analysis.uses for row in use.rows):
        return True
    # Text comparisons say of TF 2.10 and newer releases that they are older than 2.4.
    as_text = {side for each in analysis.survey.comparisons if any(map(_is_text, each)) for side in each}
    return any(
        name in ("__version__", "VERSION") and part not in as_text and not _asks_for_tf_1(chain)
        for chain in analysis.survey.chains
        for name, part in zip(chain.names, chain.parts, strict=True)
    )


def _asks_for_tf_1(chain: Chain) -> bool:
    """Return whether a version is asked whether it begins with 1, as none of TF 2 does."""
    given = [] if chain.call is None or chain.name != "startswith" else chain.call.args
    return any(_is_text(each) and each.value.startswith("1") for each in given)  # type: ignore[attr-defined]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _place(analysis: Analysis, makers: list[Use]) -> Statement | None:
    """Return the last of the imports at the top that begin with one of TensorFlow or Keras; None if a use is above."""
    body = analysis.text.tree.body
    at_top: dict[ast.stmt, Statement] = {
        node: statement for node, statement, _ in analysis.survey.imports if statement.parent is None
    }
    paths = [analysis.imported.get(node, frozenset()) for node in body]
    are_of_frameworks = [bool(each) and not any(path.startswith("@") for path in each) for each in paths]
    first = next((place for place, is_one in enumerate(are_of_frameworks) if is_one), None)
    if analysis.is_mpls_taken or first is None:
        return None
    last = first
    while last + 1 < len(body) and body[last + 1] in at_top:
        last += 1
    end = analysis.text.span(body[last])[1]
    is_above = any(analysis.text.span(use.node)[0] < end for use in makers)
    return None if is_above else at_top[body[last]]
