"""Finds the signs in a program: the lines that show which options it needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.names import named, numbers_of
from mpls.optimizer_members import ATTRIBUTES_OF_LOSS_SCALES, LEGACY_METHODS, LEGACY_USES, WEIGHTS
from mpls.program.objects import EXPERIMENTAL_WRAPPER, LEGACY_OPTIMIZER, MODEL, OPTIMIZER, keras_path, kind_of
from mpls.program.tables import (
    KERAS_2,
    KERAS_2_OF_TF_1,
    KERAS_2_PRIVATE,
    KERAS_3,
    LATER_THAN_2_10,
    TF_1,
    TF_2,
    is_in,
)
from mpls.reading.kinds import Kinds
from mpls.reading.uses import Member, Release, Sign, Use, Uses, keywords_of
from mpls.reading.wrappers import of_wrappers

__all__ = [
    "FIRST",
    "LAST",
    "LAST_WITH_KERAS_2",
    "LAST_WITH_LEGACY",
    "LAST_WITH_LOSS_SCALE_OBJECTS",
    "old_policy",
    "signs_of",
]


FIRST: Release = (1, 13)
LAST: Release = (2, 99)
# The last releases in which tf.keras was Keras 2, in which its optimizers were those now called legacy, and in which
# `loss_scale` of wrappers was an object.
LAST_WITH_KERAS_2: Release = (2, 15)
LAST_WITH_LEGACY: Release = (2, 10)
LAST_WITH_LOSS_SCALE_OBJECTS: Release = (2, 3)

_OF_KERAS_2_MODELS = ("fit_generator", "evaluate_generator", "predict_generator")
_KEYWORDS_OF_KERAS_2 = {"save": "save_format", "save_weights": "save_format", "compile": "experimental_run_tf_function"}
# Members that models' optimizers have in Keras 2 only.
_OF_MODELS_OPTIMIZERS = ("lr", "decay", "loss_scale", "dynamic", *WEIGHTS)
_SAVING = {"keras.models.save_model", "keras.saving.save_model", "keras.callbacks.ModelCheckpoint"}
_SAVING |= {"keras.models.load_model", "keras.saving.load_model"}
_KEYWORDS_OF_NEW_OPTIMIZERS = ("weight_decay", "use_ema", "ema_momentum", "jit_compile")
# Names of policies that were removed before the API was, with the last release that had them.
_OLD_POLICIES = {"infer": (2, 2), "infer_float32_vars": (2, 0), "infer_with_float32_vars": (2, 0)}
_OLD_POLICIES |= {f"{dtype}_with_float32_vars": (2, 0) for dtype in ("float16", "bfloat16")}


def signs_of(uses: Uses) -> list[Sign]:
    """Return the signs in a program's source."""
    kinds = Kinds(uses)
    signs: list[Sign] = []
    is_eager_tf_1 = any(use.path in ("tf.enable_eager_execution", "tf.enable_v2_behavior") for use in uses.uses)
    for use in uses.uses:
        if use.is_certain:
            signs.extend(_of_use(use, uses, is_eager_tf_1))
    for member in uses.members:
        if member.is_certain:
            signs.extend(_of_member(member, uses, kinds))
    signs.extend(Sign("v1", False, where, "asserts that TensorFlow is 2") for where in uses.for_tf_2)
    signs.extend(_of_same(uses, kinds))
    signs.extend(_of_classes(uses))
    signs.extend(of_wrappers(uses, kinds))
    return signs


def _of_use(use: Use, uses: Uses, is_eager_tf_1: bool) -> Iterator[Sign]:
    path, where = use.path, use.where
    if is_in(path, TF_1):
        yield Sign("v1", True, where, f"uses {is_in(path, TF_1)}")
    elif is_in(path, TF_2) or (path == "tf.GradientTape" and not is_eager_tf_1):
        yield Sign("v1", False, where, f"uses {is_in(path, TF_2) or path}")
    if is_in(path, {"tf.contrib"}):
        is_ours = is_in(path, {"tf.contrib.mixed_precision"})
        yield Sign("contrib", True, where, f"uses {is_ours}") if is_ours else Sign("v1", True, where, f"uses {path}")
    row = named(path)
    if path.endswith(".DynamicLossScale") and row is not None and _has_multiplier(use):
        what = f"gives {path} a multiplier, which wrappers took"
        yield Sign("release of wrappers", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), where, what)
    if row is not None and not row.needs_keras_3:
        last = numbers_of(row.last) if row.last else LAST
        yield Sign("release", (numbers_of(row.first), last), where, f"uses {path}")
    name = old_policy(use)
    if name:
        yield Sign("release", (FIRST, _OLD_POLICIES[name]), where, f"names the policy {name!r}")
    yield from _of_keras(use, uses)


def _has_multiplier(use: Use) -> bool:
    given = {} if use.call is None else {each.arg: each.value for each in use.call.keywords}
    value = given.get("multiplier")
    return isinstance(value, ast.Constant) and value.value != 2


def old_policy(use: Use) -> str:
    """Return the policy name in a call of the API, if that name was removed before the API was; else ""."""
    is_policy = use.path.rpartition(".")[2] in ("Policy", "set_policy") and named(use.path) is not None
    first = use.call.args[0] if is_policy and use.call is not None and use.call.args else None
    return first.value if isinstance(first, ast.Constant) and first.value in _OLD_POLICIES else ""


def _of_keras(use: Use, uses: Uses) -> Iterator[Sign]:
    path, where = use.path, use.where
    within = keras_path(path)
    if is_in(path, KERAS_2_OF_TF_1):
        about = "keras" if path.startswith("tf.compat.v1.") else "keras of v1"
        yield Sign(about, 2, where, f"uses {is_in(path, KERAS_2_OF_TF_1)}")
    if is_in(path, {"tf_keras"}):
        # A program that imports tf_keras by name expects `keras` and `tf.keras` to be Keras 3.
        yield Sign("tf_keras", 3, where, f"uses {path}")
    if not within:
        return
    if is_in(within, KERAS_2 | KERAS_2_PRIVATE):
        yield Sign("keras", 2, where, f"uses {path}")
    if is_in(within, KERAS_3):
        yield Sign("keras", 3, where, f"uses {path}")
    elif path != within:
        yield Sign("keras of v1", 2, where, f"uses {path}")
    if use.call in uses.unextended and is_in(within, _SAVING):
        yield Sign("keras", 2, where, f"gives {path} a path without an extension")
    yield from _of_optimizer(use, within)


def _of_optimizer(use: Use, within: str) -> Iterator[Sign]:
    name = within.removeprefix("keras.optimizers.").partition(".")[0]
    if within == name:
        return
    if name in LATER_THAN_2_10:
        yield Sign("legacy_optimizers", False, use.where, f"uses {use.path}")
    elif kind_of(use.path) == OPTIMIZER:
        keywords = keywords_of(use)
        for keyword in _KEYWORDS_OF_NEW_OPTIMIZERS:
            if keyword in keywords:
                yield Sign("legacy_optimizers", False, use.where, f"gives {use.path} {keyword}=")
        for keyword in ("lr", "decay"):
            if keyword in keywords:
                yield Sign("legacy_optimizers", True, use.where, f"gives {use.path} {keyword}=")
        if "lr" in keywords:
            yield Sign("keras", 2, use.where, f"gives {use.path} lr=")
        yield Sign("optimizers", True, use.where, f"uses {use.path}")


def _of_member(member: Member, uses: Uses, kinds: Kinds) -> Iterator[Sign]:
    name, where = member.chain[-1], member.where
    if name in uses.defined:
        return
    if name in ("loss_scale", "_loss_scale") and _is_called_without_arguments(member):
        if _is_experimental_wrapper(member, uses, kinds):
            yield Sign("release", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), where, f"calls .{name}()")
    elif name in ATTRIBUTES_OF_LOSS_SCALES and member.chain[-2:-1] in (("loss_scale",), ("_loss_scale",)):
        of_wrapper = Member(member.chain[:-1], where, True, within=member.within, maker=member.maker)
        if "loss_scale" not in uses.defined and _is_experimental_wrapper(of_wrapper, uses, kinds):
            yield Sign("release", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), where, f"reads .{member.chain[-2]}.{name}")
    elif name in LEGACY_USES and not member.is_set and _is_optimizer(member, kinds):
        yield Sign("legacy_optimizers", True, where, f"uses .{name} of an optimizer")
    if name == "compile" and member.call is not None and (member.call.args or member.call.keywords):
        yield Sign("compile", True, where, "calls .compile()")
    what = _of_keras_2(member, kinds)
    if name == "save" and member.call in uses.unextended and kinds.is_only(member, MODEL):
        what = what or "saves a model to a path without an extension"
    if what:
        yield Sign("keras if used", 2, where, what)


def _of_keras_2(member: Member, kinds: Kinds) -> str:
    """Return what a line does with a member that only objects of Keras 2 have: "uses .lr of an optimizer"; else ""."""
    name = member.chain[-1]
    verb = "sets" if member.is_set else "uses"
    if name in _OF_MODELS_OPTIMIZERS and kinds.is_of_models_optimizer(member):
        return f"{verb} .{name} of a model's optimizer"
    if name == "lr" and _is_optimizer(member, kinds):
        return f"{verb} .lr of an optimizer"
    if name in LEGACY_USES:
        return f"uses .{name} of an optimizer" if not member.is_set and _is_optimizer(member, kinds) else ""
    if name == "dynamic_counter" and member.call is None:
        return "reads .dynamic_counter"
    if name in _OF_KERAS_2_MODELS and member.call is not None:
        return f"calls .{name}()"
    if name in _KEYWORDS_OF_KERAS_2 and _KEYWORDS_OF_KERAS_2[name] in keywords_of(member):
        return f"gives .{name}() {_KEYWORDS_OF_KERAS_2[name]}="
    return ""


def _is_experimental_wrapper(member: Member, uses: Uses, kinds: Kinds) -> bool:
    if kinds.receiver_is(member, EXPERIMENTAL_WRAPPER):
        return True
    # An unknown object named like an optimizer counts as one, in a program that makes experimental wrappers.
    is_called_so = len(member.chain) > 1 and "opt" in member.chain[-2].lower() and kinds.is_unknown(member)
    return is_called_so and any(kind_of(use.path) == EXPERIMENTAL_WRAPPER and use.is_certain for use in uses.uses)


def _is_called_without_arguments(member: Member) -> bool:
    return member.call is not None and not member.call.args and not member.call.keywords


def _is_optimizer(member: Member, kinds: Kinds) -> bool:
    # A program that uses `optimizers.legacy` explicitly needs no option for it.
    is_one = any(kinds.receiver_is(member, kind) for kind in (OPTIMIZER, EXPERIMENTAL_WRAPPER))
    return is_one and not kinds.receiver_is(member, LEGACY_OPTIMIZER)


def _of_same(uses: Uses, kinds: Kinds) -> Iterator[Sign]:
    """Yield signs for `assert opt.loss_scale is scale`, which fails since TF 2.4, where `loss_scale` is a tensor."""
    for member in uses.same:
        is_scale = member.chain[-1] == "loss_scale" and member.is_certain and "loss_scale" not in uses.defined
        if is_scale and _is_experimental_wrapper(member, uses, kinds):
            what = "asserts which object .loss_scale is"
            yield Sign("release", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), member.where, what)


def _of_classes(uses: Uses) -> Iterator[Sign]:
    for each in uses.classes:
        methods = [name for name in LEGACY_METHODS if name in each.methods]
        bases = [base.path for base in each.bases if base.is_certain and kind_of(base.path) == OPTIMIZER]
        for path in bases if methods and each.is_certain else ():
            what = f"defines {methods[0]} in a subclass of {path}"
            yield Sign("legacy_optimizers", True, each.where, what)
            yield Sign("keras", 2, each.where, what)
