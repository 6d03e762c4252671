"""The rules of the rewriter: what each changes or reports, and why, as `mpls migrate --list-rules` says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mpls.migrate.analysis import (
    STAR_RULE,
    Analysis,
    Finding,
    Outcome,
    Rule,
    Use,
    home_of,
    is_gone,
    left_text,
    names_scaling,
    replacement_of,
    tries,
)
from mpls.migrate.kept_objects import METHODS, RULE_NAME, is_of_module, lost_in
from mpls.migrate.plan import checkpoint_names
from mpls.migrate.source_text import Edit
from mpls.migrate.tree_facts import facts_of
from mpls.migrate.wrapper_calls import (
    EXPERIMENTAL,
    PUBLIC,
    arguments_of_release,
    class_values,
    is_through_unsure,
    replace_wrapper,
)
from mpls.names import (
    GRAPH_REWRITES,
    GRAPH_WRAPPER,
    RELEASES,
    REMOVED_POLICIES,
    Name,
    instead_of_policy,
    named,
)
from mpls.program.choices import pin_in
from mpls.program.meaning import Meaning, guessed
from mpls.program.objects import HAVE_OBJECTS, UNKNOWN, Kinds, ScaleUse, Taken, are_wrappers
from mpls.program.releases import COMPARISONS, NO_VALUE, VERSIONS, value_of
from mpls.program.scopes import Chain, Member, Region, Role, chain_of, names_of
from mpls.program.tables import is_experimental, is_public, is_scale_class

Found = Iterator[Edit | Finding]

_OF_OTHERS = (
    f"those of other files may be of {PUBLIC}, its base class: check what asks for the class, and write {PUBLIC} there"
)
_MAKES_NONE = f", and this file makes no wrapper; {_OF_OTHERS}"
_MAKES_SOME = f", which only wrappers that this file makes are of; {_OF_OTHERS}"


def _class_values(analysis: Analysis) -> Found:
    uses = [use for use, _ in analysis.uses if any(map(is_experimental, use.rows))]
    makes = any(use.role in (Role.CALL, Role.BASE) for use in uses)
    # This file is among the makers, unless it makes wrappers by a name of another file's.
    if analysis.kept is not None or (makes and len(analysis.facts.makers) <= len(facts_of(analysis.text.utf8).makers)):
        return
    # Annotations get the public class, and what is reached through a name that may be something else is reported.
    said = {use.node for use in uses if use.role is Role.ANNOTATION or is_through_unsure(use, analysis)}
    said |= {use.node for use in uses if _is_either(use)}
    modules = {chain.node for chain, _ in analysis.rest}
    for node in class_values(analysis):
        if node in modules and node not in analysis.afterwards.becomes:
            what = f"{analysis.text.source(node)} is used as a value"
            yield Finding(node, f"{what}: where the program takes a removed name from it, write that of mpls")
        elif isinstance(node, ast.alias) or node not in said:
            what = f"{EXPERIMENTAL}{', or a module with it,' if node in modules else ''} is used as a value"
            yield Finding(node, f"{what}{_MAKES_SOME if makes else _MAKES_NONE}")


def _uncertain_calls(analysis: Analysis) -> Found:
    """Yield calls of what may be the wrapper or something else, which lack the arguments for the release."""
    arguments = [] if analysis.kept is not None else arguments_of_release(analysis)
    for use, decision in analysis.uses if arguments else ():
        if decision is None and use.call is not None and all(map(is_experimental, use.rows)):
            name = use.chain.names[0]
            what = f"{name} may be something else here too: for a wrapper as in TF {analysis.settings.as_of}"
            yield Finding(use.node, f"this call is left, as {what}, write {', '.join(arguments)} in it")


def _is_either(use: Use) -> bool:
    """Return whether a use is of a class that may be the public wrapper or the experimental one."""
    return any(map(is_public, use.rows)) and any(map(is_experimental, use.rows))


def _either_class(analysis: Analysis) -> Found:
    """Yield uses of such a class that are left, where it makes a difference which one it is."""
    values = frozenset(class_values(analysis))
    for use in (use for use, decision in analysis.uses if decision is None and _is_either(use)):
        matters = use.role in (Role.BASE, Role.CALL) or (use.role is Role.VALUE and use.node in values)
        # With Keras 2, the public one stays.
        is_replaced = all(analysis.rule_of(row) is not None for row in use.rows)
        if matters and is_replaced and not is_through_unsure(use, analysis):
            what = f"{analysis.text.source(use.node)} may be the public wrapper of TensorFlow or {EXPERIMENTAL} here"
            yield Finding(use.node, f"{what}, and is left: where it is the public one, write {PUBLIC}")


def _of_experimental_wrappers(analysis: Analysis) -> Found:
    yield from _class_values(analysis)
    yield from _either_class(analysis)
    yield from _uncertain_calls(analysis)


EXPERIMENTAL_WRAPPER = Rule(
    "experimental-wrapper",
    """The experimental wrapper becomes the public one of mpls, with the same loss scale.

`tf.keras.mixed_precision.experimental.LossScaleOptimizer` was removed in TF 2.9. If the source shows the loss scale,
the call becomes one of `mpls.keras.LossScaleOptimizer`. Else it becomes one of `mpls.experimental.LossScaleOptimizer`,
which takes the loss scale as it is; so do base classes. `isinstance` and annotations get the public class, from which
the experimental one derives. If the class itself is a value, all wrappers of the file are made by
`mpls.experimental.LossScaleOptimizer`. If the file makes none, or other files make some too, this is reported. So
are uses of what may be either class, and calls of what may be something else, if they lack what makes a wrapper behave
as of `--as-of`.
""",
    owns=is_experimental,
    replace=replace_wrapper,
    look=_of_experimental_wrappers,
)

_POLICY_HOMES = ("mpls.experimental.policy:", "mpls.experimental.loss_scales:")
_POLICIES = ("Policy", "global_policy", "set_policy", "get_layer_policy", "set_global_policy")


def _is_policy(row: Name) -> bool:
    home, _, name = row.target.partition(":")
    return row.target.startswith(_POLICY_HOMES) or (home in ("mpls.experimental", "mpls.keras") and name in _POLICIES)


EXPERIMENTAL_POLICIES = Rule(
    "experimental-policies",
    """Policies with a loss scale, and the functions for them, come from mpls.experimental.

`Policy`, `set_policy`, `global_policy` and `get_layer_policy` of `tf.keras.mixed_precision.experimental` were removed
in TF 2.9. Those of `mpls.experimental` take the same arguments, and `compile` wraps the optimizer as it did. Public
names such as `tf.keras.mixed_precision.set_global_policy` stay, because they mean the same today.
""",
    owns=_is_policy,
)


def _own_scale_classes(analysis: Analysis) -> Found:
    """Yield classes of the program's own, whose objects wrappers of Keras take only as of TF 2.3."""
    if analysis.kept is not None or not any(is_experimental(row) for use, _ in analysis.uses for row in use.rows):
        return
    for use, _ in analysis.uses:
        if use.role is Role.BASE and all(map(is_scale_class, use.rows)):
            what = "wrappers of Keras take objects of a class of the program's own as of TF 2.3 only"
            install = f"call mpls.install(as_of={analysis.release_with_objects!r})"
            yield Finding(use.node, f"{what}: {install} before they are made")


LOSS_SCALE_CLASSES = Rule(
    "loss-scale-classes",
    """`LossScale`, `FixedLossScale` and `DynamicLossScale` come from mpls.

They were removed in TF 2.9, except from `tf.compat.v1`, where they have defects. Those of mpls have the same arguments,
methods and private members. Every wrapper of mpls takes them, and so does TensorFlow's own in `tf.compat.v1`.
""",
    owns=is_scale_class,
    look=_own_scale_classes,
)

_TODAY = "the optimizer's loss_scale or dynamic_counter, or keep the setting yourself"


def _calls_of_scales(analysis: Analysis) -> Found:
    if analysis.kept is not None or not _uses_frameworks(analysis):
        return
    for use in analysis.scales:
        node = use.place.node
        kinds = analysis.objects.of(use.owner, use.region)
        is_one, may_be_one = are_wrappers(kinds), are_wrappers(kinds) or kinds == UNKNOWN
        # Wrappers of mpls have the private attribute.
        is_called = use.how is Taken.CALLED and use.place.name == "loss_scale"
        if is_called and isinstance(node, ast.Attribute):
            yield from _called(use, kinds, analysis)
        elif use.how is Taken.MEMBER and (is_one or (may_be_one and use.place.name in METHODS)):
            what = f".loss_scale of a wrapper is a tensor, without .{use.place.name}: read {_TODAY}"
            yield Finding(node, what)
        elif (is_called or use.how is Taken.CALLED_LATER) and may_be_one:
            owner = " ".join(analysis.text.source(use.owner).split())
            what = f"the loss_scale of {owner} is called here: of a wrapper of Keras, it is a tensor"
            yield Finding(node, f"{what}, so take the parentheses away")


def _called(use: ScaleUse, kinds: Kinds, analysis: Analysis) -> Found:
    text, node, call = analysis.text, use.place.node, use.place.call
    assert call is not None
    start, end = text.span(node)[1], text.span(call)[1]
    source = " ".join(text.source(node).split())
    if not HAVE_OBJECTS.isdisjoint(kinds) or is_of_module(use, analysis):
        return
    if not are_wrappers(kinds):
        what = f"{source}() is left, as it is not certain what it is called on"
        what = f"{what}: of a wrapper of Keras, take the parentheses away"
        install = f", or call mpls.install(as_of={analysis.settings.as_of!r}) before it is made"
        yield Finding(node, what + install if analysis.settings.has_objects else what)
    elif "".join(text.between(start, end).split()) != "()" or not source.endswith("loss_scale"):
        yield Finding(node, f"{source}() is left: take the parentheses away by hand")
    else:
        # Of `opt.loss_scale()if new else 1`, a space has to be between the words.
        yield Edit(start, end, " " if text.utf8[end : end + 1].isalnum() else "")
        yield Finding(node, f"{source}() becomes {source}", Outcome.CHANGED)


def _uses_frameworks(analysis: Analysis) -> bool:
    """Return whether a file, or another one that is migrated with it and has wrappers, imports TensorFlow or Keras.

    One that uses historical names may have imported them from a module of the program's own.
    """
    is_imported = any(not path.startswith("@") for paths in analysis.imported.values() for path in paths)
    return analysis.facts.has_wrappers or is_imported or bool(analysis.uses)


LOSS_SCALE_CALLS = Rule(
    "loss-scale-calls",
    """`opt.loss_scale()` becomes `opt.loss_scale`.

Up to TF 2.3, the attribute of a wrapper was an object, which programs called. Since TF 2.4 it is the scale itself, a
tensor. Only objects that certainly are wrappers are changed: by what a variable, an attribute or a parameter gets, by
`isinstance`, by calls of `get_scaled_loss`, or as the optimizer that `compile` gets or wraps. Calls of
`get_scaled_loss` do not count for what comes from a library or another class, and where no file that is migrated has a
name of TensorFlow's loss scaling. If a class of any file that is migrated has a method `loss_scale`, attributes,
parameters and variables of modules may be its objects, and stay. What stays is reported. A loss scale that is returned
or passed to a function is not followed.
""",
    look=_calls_of_scales,
)


def _kept(analysis: Analysis) -> Found:
    kept = analysis.kept
    if kept is not None and kept.node is not None:
        what = f"mpls.install(as_of={analysis.settings.as_of!r}) is called behind the imports"
        yield Finding(kept.node, f"{what}: {kept.why}", Outcome.CHANGED)
    for node, text in lost_in(analysis):
        yield Finding(node, text)


LOSS_SCALE_OBJECTS = Rule(
    RULE_NAME,
    """With `--as-of 2.3` or older, a program that needs wrappers with `LossScale` objects gets `mpls.install(as_of=…)`.

Such a program has the object in a variable, reads it without a call, makes wrappers and calls `.loss_scale()` of what
may be one, derives a class from `LossScale` or from the wrapper, or asks for the class or config of the wrapper. Its
wrappers are made by `mpls.experimental.LossScaleOptimizer` with the arguments that they have, and `opt.loss_scale()`
stays. Left as without this rule are programs that ask for the release, that use the wrapper of TF 2.4 too, or that
import modules of their own which make wrappers and have no such need. Without `--as-of`, what only a wrapper up to TF
2.3 has is reported.
""",
    look=_kept,
)

_OF_GRAPHS = (GRAPH_WRAPPER, *GRAPH_REWRITES, "register_loss_scale_wrapper")


def _is_of_graphs(row: Name) -> bool:
    home, _, name = row.target.partition(":")
    return home == "mpls.v1" and name in _OF_GRAPHS


# Calls that put a program into graph mode, or that only run there.
_GRAPH_MODE = ("disable_v2_behavior", "disable_eager_execution", "Session", "placeholder")


def _has_reference_variables(analysis: Analysis) -> bool:
    """Return whether a file makes variables those of TF 1, which have `initialized_value` still."""
    calls = analysis.survey.called
    is_off = "disable_v2_behavior" in calls or "disable_resource_variables" in calls
    return is_off and "enable_resource_variables" not in calls


def _names_in_checkpoints(analysis: Analysis) -> Found:
    node = None if analysis.settings.is_native else checkpoint_names(analysis)
    if node is not None:
        what = f"{analysis.text.source(node)} tells names, of which Savers write more with mpls.v1"
        advice = "TensorFlow's own wrapper stays; write mpls.v1 if more names do no harm"
        yield Finding(node, f"{what}: {advice}", Outcome.NOTED)
    if not any(_is_of_graphs(row) for use, _ in analysis.uses for row in use.rows):
        return
    for chain in analysis.survey.called.get("initialized_value", ()) if not _has_reference_variables(analysis) else ():
        what = "TensorFlow's variables have no initialized_value() any more: write .initial_value"
        yield Finding(chain.parts[-1], what)


GRAPH_MODE = Rule(
    "graph-mode",
    """The wrapper of graph mode and the graph rewrite come from mpls.v1.

`MixedPrecisionLossScaleOptimizer` and `enable_mixed_precision_graph_rewrite` were removed from `tf.train.experimental`.
Those in `tf.compat.v1` have defects, and refuse optimizers of Keras. A program that asks for the names in a checkpoint
gets those in `tf.compat.v1`, because Savers write some variables under a second name with the wrapper of mpls. Calls of
`initialized_value()`, which TensorFlow's variables no longer have, are reported.
""",
    owns=_is_of_graphs,
    look=_names_in_checkpoints,
)

_SET_POLICY = "tf.keras.mixed_precision.set_global_policy"


def _wrappers_of_compile(analysis: Analysis) -> Found:
    if analysis.settings.keras != 3 or analysis.facts.makers:
        return
    settings = arguments_of_release(analysis)
    if analysis.facts.reads_compiled:
        lack = "has no get_scaled_loss(), get_unscaled_gradients() or loss_scale"
    elif settings and analysis.facts.compiles:
        lack = f"is not told what a skipped step counts for as of {analysis.settings.as_of}"
    else:
        return
    advice = f"give compile {PUBLIC}({', '.join(['optimizer', *settings])})"
    for use, _ in analysis.uses:
        name = use.call.args[0] if use.call is not None and use.call.args else None
        # It may have a loss scale.
        is_of_float16 = use.call is not None and (not isinstance(name, ast.Constant) or name.value == "mixed_float16")
        if is_of_float16 and any(row.path == _SET_POLICY for row in use.rows):
            what = f"the wrapper that compile makes under this policy is that of Keras 3, which {lack}: {advice}"
            yield Finding(use.node, what)


PUBLIC_WRAPPER = Rule(
    "public-wrapper",
    """The public wrapper of TF 2.4 to 2.15 becomes that of mpls.

Since Keras 3, `tf.keras.mixed_precision.LossScaleOptimizer` is another class, without `get_scaled_loss`, `loss_scale`
or fixed scales. `mpls.keras.LossScaleOptimizer` has what the old class had. Names of today stay, such as
`keras.optimizers.LossScaleOptimizer`. A policy under which `compile` makes the wrapper is reported if the program needs
what the class of Keras 3 lacks.
""",
    owns=is_public,
    replace=replace_wrapper,
    look=_wrappers_of_compile,
)

CONTRIB = Rule(
    "contrib",
    """The loss scaling of `tf.contrib` comes from mpls.contrib.

`tf.contrib` ended with TF 1.15. `mpls.contrib` has `LossScaleOptimizer` and the managers of
`tf.contrib.mixed_precision`, with the same arguments. Other parts of `tf.contrib` stay as they are: see `mpls doctor`.
""",
    owns=lambda row: row.target.startswith("mpls.contrib:"),
)


def _stars(analysis: Analysis) -> Found:
    for node in analysis.survey.stars:
        home, names = analysis.afterwards.stars[node]
        if names:
            yield Edit(*analysis.text.span(node), f"from {home} import {', '.join(names)}")
            yield Finding(node, f"imports the names of {home} one by one", Outcome.CHANGED)
            continue
        for path in sorted(analysis.meanings.module_of(node)):
            if is_gone(path):
                other = home_of(path)
                advice = f"import those that are used from {other}" if other else "import the names that are used"
                yield Finding(node, f"imports all names of {path}, which is gone: {advice}")


STAR_IMPORTS = Rule(
    STAR_RULE,
    """Imports of all names of a removed module become imports of its names.

`from tensorflow.keras.mixed_precision.experimental import *` becomes `from mpls.experimental import
LossScaleOptimizer, Policy, …`, with each public name that the module had. Imports of private modules, and of modules of
which mpls has a part only, are reported.
""",
    look=_stars,
)

_FROM = re.compile(r"\bfrom\s+([\w.]+)\s+import\s+(\w+)")
_CALL_OF_SCALE = re.compile(r"\.loss_scale\(\s*\)")
_DOTTED = re.compile(r"[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)+")


def _of_own_modules(analysis: Analysis) -> Found:
    """Yield calls of `getattr` that read the class from a module of the program's, which imports another class now."""
    for call, region in analysis.survey.probes:
        name = getattr(call.args[1], "value", None)
        owner = analysis.meanings.of(call.args[0], region)
        rows = [named(path) for path in analysis.meanings.member(owner, str(name)).paths]
        now = analysis.afterwards.member(analysis.afterwards.of(call.args[0], region, 1), str(name)).paths
        is_own = bool(rows) and all(path.startswith("@") for path in owner.paths)
        if is_own and now == {PUBLIC} and all(row is not None and is_experimental(row) for row in rows):
            what = f"{analysis.text.source(call.func)} reads {name} by its name, which becomes {PUBLIC}"
            yield Finding(call, f"{what}: check what it is called with, or write {EXPERIMENTAL}")


def _strings(analysis: Analysis) -> Found:
    yield from _of_own_modules(analysis)
    for node in analysis.survey.strings:
        for path in filter(None, map(_path_of, _DOTTED.findall(str(node.value)))):
            yield Finding(node, f"names {path} in a string: {_advice(path)}")
    for call, region, path in analysis.asked_for:
        function = analysis.text.source(call.func)
        what = f"{function} asks for {path}, which is gone"
        now = analysis.afterwards.of(call.args[0], region, 1).paths
        if any(each.startswith("mpls.") for each in now):
            answer = "it is True" if function == "hasattr" else "it gives that"
            yield Finding(call, f"{what} today: after the edit it asks {', '.join(now)}, and {answer}", Outcome.NOTED)
        elif function == "hasattr":
            kind = Outcome.NOTED if _scales_otherwise(call, analysis) else Outcome.LEFT
            yield Finding(call, f"{what}: it is False today, and the other branch runs", kind)
        else:
            yield Finding(call, f"{what}: {_advice(path)}")


def _scales_otherwise(asked: ast.Call, analysis: Analysis) -> bool:
    """Return whether the branch that runs if a call of `hasattr` returns False has names of mixed precision too."""
    for node in ast.walk(analysis.text.tree):
        if isinstance(node, ast.If | ast.IfExp) and any(each is asked for each in ast.walk(node.test)):
            is_denied = isinstance(node.test, ast.UnaryOp) and node.test.operand is asked
            branch = node.body if is_denied else node.orelse
            return names_scaling(branch if isinstance(branch, list) else [branch])
    return False


_INSTALLS = re.compile(r"\s*[!%].*\binstall\b")
_CHOOSES_TF_1 = re.compile(r"\s*%tensorflow_version\s+1")
# The oldest release of TensorFlow that mpls runs on.
_OLDEST = (2, 16)


def names_in_notebook(line: str) -> Iterator[str]:
    """Yield what to say of a line of a notebook that is not read as Python: a magic, a shell command.

    These are historical names in it, and releases that it installs.
    """
    imported = [".".join(match) for match in _FROM.findall(line)]
    if _CALL_OF_SCALE.search(line):
        what = "calls .loss_scale() in a line that is not read as Python"
        yield f"{what}: of a wrapper of Keras, without mpls.install(as_of=…), take the parentheses away"
    for path in filter(None, map(_path_of, dict.fromkeys([*imported, *_DOTTED.findall(line)]))):
        yield f"names {path} in a line that is not read as Python: {_advice(path)}"
    pin = pin_in(line) if _INSTALLS.match(line) else None
    chosen = "chooses TensorFlow 1" if _CHOOSES_TF_1.match(line) else ""
    if pin is not None and pin[0][1] < _OLDEST:
        chosen = f"installs {pin[1]}"
    if chosen:
        yield f"{chosen}: mpls needs tensorflow>={'.'.join(map(str, _OLDEST))}"


def _path_of(dotted: str) -> str:
    """Return the path of a removed name that a string has in it, maybe without its beginning; "" for others."""
    path = dotted.replace("tensorflow.", "tf.", 1) if dotted.startswith("tensorflow.") else dotted
    is_whole = path.startswith(("tf.", "keras."))
    for each in (path, f"tf.{path}"):
        if is_gone(each):
            return each
        if is_whole and is_gone(each.rpartition(".")[0]):
            return each.rpartition(".")[0]
    return ""


def _advice(path: str) -> str:
    home = replacement_of(path) or home_of(path)
    return f"{home} has it" if home else "see mpls docs which-import-replaces-which"


NAMES_IN_STRINGS = Rule(
    "names-in-strings",
    """Historical names in strings, in `getattr` and in `hasattr` are reported, and those in magics of notebooks.

What becomes of a string is not known. `hasattr(tf.keras.mixed_precision, "experimental")` is False today, and the
branch for newer releases runs. Where the object becomes a module of mpls, it is True. In notebooks, names are reported
too in magics, shell commands, and cells that another process runs or that are written to a file. So are calls of
`loss_scale()` there, and commands that install a release that mpls does not run on. If such a line, `eval` or
`globals()` names the class, its import is that of mpls.experimental, which takes the arguments that the class had.
""",
    look=_strings,
)


def _removed_policies(analysis: Analysis) -> Found:
    is_graph = not analysis.survey.called.keys().isdisjoint(_GRAPH_MODE)
    for use, _ in analysis.uses:
        call = use.call
        first = call.args[0] if call is not None and call.args else None
        name = first.value if isinstance(first, ast.Constant) else None
        if first is not None and isinstance(name, str) and (name in REMOVED_POLICIES or name.endswith("_float32_vars")):
            today = instead_of_policy(name, is_graph=is_graph)
            yield Finding(first, f"the policy {name!r} was removed: write {today}")


REMOVED_POLICY_NAMES = Rule(
    "removed-policies",
    """Names of policies that were removed before the API was are reported.

`Policy("infer_float32_vars")`, `Policy("float16_with_float32_vars")` and the like were names of TF 1.14 to 2.2. What
replaces them depends on what the program wants.
""",
    look=_removed_policies,
)

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def _comparisons(analysis: Analysis) -> Found:
    for node, _, region in analysis.survey.nodes[ast.Compare]:
        sides = [node.left, *node.comparators]
        for left, order, right in zip(sides, node.ops, sides[1:], strict=False):
            wrong = _wrong(left, order, right, region, analysis)
            if wrong is not None:
                source = " ".join(analysis.text.source(node).split())
                advice = "compare numbers: tuple(map(int, tf.__version__.split('.')[:2]))"
                yield Finding(node, f"{source} reads the version as text, and is {wrong[1]} for {wrong[0]}: {advice}")


def _wrong(
    left: ast.expr, order: ast.cmpop, right: ast.expr, region: Region, analysis: Analysis
) -> tuple[str, bool] | None:
    """Return the newest release for which a comparison is wrong, and its result; None if it is right for all."""

    def named(node: ast.expr, release: str) -> str:
        meaning = analysis.meanings.of(node, region)
        if not meaning.paths or not meaning.is_whole or not meaning.paths <= VERSIONS | {"keras.__version__"}:
            raise LookupError(node)
        return release

    is_left = isinstance(right, ast.Constant)
    text, version_side = (right, left) if is_left else (left, right)
    is_order = isinstance(order, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and not isinstance(version_side, ast.Constant)
    if not is_order or not isinstance(text, ast.Constant) or _NUMBERS.fullmatch(str(text.value)) is None:
        return None
    try:
        # A comparison of the major version alone is right.
        if _numbers(str(value_of(version_side, named, "2.4.0"))) != (2, 4):
            return None
        for release in reversed(RELEASES):
            version = f"{release}.0"
            ordered = (version, str(text.value)) if is_left else (str(text.value), version)
            as_text = value_of(ast.Compare(left, [order], [right]), named, version)
            if as_text != COMPARISONS[type(order)](*map(_numbers, ordered)):
                return version, as_text
    except NO_VALUE:
        pass
    return None


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(each) for each in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


VERSION_STRINGS = Rule(
    "version-strings",
    """Comparisons of TensorFlow's version as text are reported, where they are wrong.

As text, `"2.21.0" < "2.4.0"` is true, so that a program takes the branch for old releases on new ones. Reported is `<`,
`<=`, `>` or `>=` between a text such as `"2.4"` and the version or its beginning, if the result for any release since
TF 1.13 is another than that of the numbers. Comparisons of single digits and of lists, and `in`, are not looked at.
""",
    look=_comparisons,
)

_SAME = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)


def _types(analysis: Analysis) -> Found:
    types = {call for call, _ in analysis.survey.calls_of("type")}
    for node, _, region in analysis.survey.nodes[ast.Compare]:
        sides = (node.left, node.comparators[0])
        if len(node.ops) > 1 or not isinstance(node.ops[0], _SAME):
            continue
        for asked, cls in (sides, sides[::-1]):
            if asked in types and analysis.objects.is_wrapper_class(cls, region):
                yield Finding(node, f"{ast.unparse(asked)} of a wrapper is a subclass: write isinstance")


TYPES_OF_WRAPPERS = Rule(
    "types-of-wrappers",
    """Comparisons of `type(opt)` with the class of a wrapper, or with its direct subclass in the file, are reported.

The class of a wrapper is a subclass for the family of its inner optimizer, so `type(opt) is LossScaleOptimizer` is
false. `opt.__class__` is a class of Keras, or a subclass of the program's own.
""",
    look=_types,
)

_CONTRIB_MODULE = "tf.contrib"
_OF_CONTRIB = "tf.contrib is gone: mpls.contrib has tf.contrib.mixed_precision, and nothing has the rest"


def _unknown_modules(analysis: Analysis) -> Found:
    said = [(chain, _uncertain(chain, meaning, analysis)) for chain, meaning in analysis.rest]
    yield from (Finding(chain.parts[-1], what) for chain, what in said if what)
    for place in analysis.survey.places:
        what = _unknown(place, analysis)
        if what:
            yield Finding(place.node, what)
    for node, statement, _ in analysis.survey.imports:
        for alias in node.names:
            path = "" if alias.name == "*" or any(tries(statement)) else analysis.meanings.path_of(alias)
            if path == _CONTRIB_MODULE:
                yield Finding(alias, f"{_OF_CONTRIB}; take the import away if it is not needed")
            elif is_gone(path) and home_of(path) is None and not replacement_of(path):
                yield Finding(alias, f"{path} is gone: take the import away where nothing uses it any more")


def _unknown(place: Chain | Member, analysis: Analysis) -> str:
    """Return what to say of a historical name of something unknown; "" if it is none."""
    names = names_of(place)
    found = guessed(names)
    start_of = chain_of(place.node)[0]
    if found is None or analysis.meanings.name(start_of, place.region).paths:
        return ""
    row, start, end = found
    if (analysis.rule_within(row) if row.is_namespace else analysis.rule_of(row)) is None:
        return ""
    bindings = place.region.find(start_of)
    if row.last is None and bindings and all(isinstance(each.value, ast.alias) for each in bindings):
        # Other packages have such names too.
        return ""
    shown = [names[0] or "(…)", *names[1:]]
    what = "TensorFlow" if start else "of TensorFlow"
    advice = f": if it is {what}, write {replacement_of(row.path) or home_of(row.path)}"
    return f"{'.'.join(shown[:end])} is left, as it is not certain what {'.'.join(shown[: max(start, 1)])} is{advice}"


def _uncertain(chain: Chain, meaning: Meaning, analysis: Analysis) -> str:
    """Return what to say of a removed name of what may be something else, and of one without a replacement."""
    if _CONTRIB_MODULE in meaning.paths:
        return _OF_CONTRIB
    is_one = meaning.is_whole and 1 in (len(meaning.paths), len(chain.names))
    rows = [] if is_one else [row for row in map(named, sorted(meaning.paths)) if row is not None and is_gone(row.path)]
    if any(row.is_namespace for row in rows):
        return left_text(".".join(chain.names), chain.names[0], "the names that are used")
    known = [row for row in rows if analysis.rule_of(row) is not None]
    return left_text(known[0].path, chain.names[0], known[0].replacement) if known else ""


UNKNOWN_MODULES = Rule(
    "unknown-modules",
    """Historical names of what may be TensorFlow or something else are reported.

Such are names read from what a call returned, as `importlib.import_module("tensorflow")`, from a parameter, an item, an
attribute as `self.tf`, an import that the rewriter cannot follow, or a name that may be something else too; and
`tf.contrib` as a whole, of which mpls has a part only.
""",
    look=_unknown_modules,
)

# Those that change something come first.
RULES: tuple[Rule, ...] = (
    EXPERIMENTAL_WRAPPER,
    EXPERIMENTAL_POLICIES,
    LOSS_SCALE_CLASSES,
    LOSS_SCALE_CALLS,
    LOSS_SCALE_OBJECTS,
    GRAPH_MODE,
    PUBLIC_WRAPPER,
    CONTRIB,
    STAR_IMPORTS,
    NAMES_IN_STRINGS,
    REMOVED_POLICY_NAMES,
    VERSION_STRINGS,
    TYPES_OF_WRAPPERS,
    UNKNOWN_MODULES,
)
