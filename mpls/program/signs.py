"""The signs in a program: the lines that show which options it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mpls.names import named, numbers_of
from mpls.optimizer_members import (
    AGGREGATION_OF_LEGACY,
    ATTRIBUTES_OF_LOSS_SCALES,
    HYPERPARAMETER_METHODS,
    HYPERPARAMETERS,
    LEGACY_METHODS,
    LEGACY_USES,
    SCALING_METHODS,
    WEIGHTS,
    WRAPPER_ATTRIBUTES,
)
from mpls.program.objects import Named, Value
from mpls.program.tables import (
    KERAS_2,
    KERAS_2_OF_TF,
    KERAS_2_OF_TF_1,
    KERAS_2_PRIVATE,
    KERAS_3,
    LATER_THAN_2_10,
    TF_1,
    TF_2,
    Kind,
    is_in,
    keras_path,
    kind_of,
)
from mpls.program.uses import Access, Call, Release, Sign, Use, Uses, Where

FIRST: Release = (1, 13)
LAST: Release = (2, 99)
# The last releases in which tf.keras was Keras 2, in which its optimizers were those now called legacy, and in which
# `loss_scale` of wrappers was an object.
LAST_WITH_KERAS_2: Release = (2, 15)
LAST_WITH_LEGACY: Release = (2, 10)
LAST_WITH_LOSS_SCALE_OBJECTS: Release = (2, 3)

# After these, programs of TF 2 build graphs too, which Keras 3 cannot.
_GRAPHS_ONLY = ("tf.compat.v1.disable_eager_execution", "tf.compat.v1.disable_v2_behavior")
# Two signs of one thing: eager mode of TF 1 had gradient tapes too.
_V2_UNLESS_EAGER = "v1 unless eager"
_OF_KERAS_2_MODELS = ("fit_generator", "evaluate_generator", "predict_generator")
_KEYWORDS_OF_KERAS_2 = {
    "save": {"save_format"},
    "save_weights": {"save_format"},
    "compile": {"experimental_run_tf_function"},
    **{key: {"max_queue_size", "use_multiprocessing", "workers"} for key in ("fit", "evaluate", "predict")},
}
# Members that models' optimizers have in Keras 2 only.
_OF_MODELS_OPTIMIZERS = ("lr", "decay", "loss_scale", "dynamic", *WEIGHTS)
_SAVING = {"keras.models.save_model", "keras.saving.save_model", "keras.callbacks.ModelCheckpoint"}
_SAVING |= {"keras.models.load_model", "keras.saving.load_model"}
# Functions that Keras 3 has, and that fail on its own variables.
_SETTING = ("keras.backend.set_value", "keras.backend.update")
_RATES = ("lr", "learning_rate")
_PRIVATE = "tf.python.keras."
_KEYWORDS_OF_NEW_OPTIMIZERS = ("weight_decay", "use_ema", "ema_momentum", "jit_compile")
_REWRITE = ".enable_mixed_precision_graph_rewrite"
# Arguments that Keras 3 refuses, too.
_ONLY_OF_LEGACY = ("gradient_aggregator", "gradient_transformers")
# Names of policies that were removed before the API was, with the last release that had them.
_OLD_POLICIES = {"infer": (2, 2), "infer_float32_vars": (2, 0), "infer_with_float32_vars": (2, 0)}
_OLD_POLICIES |= {f"{dtype}_with_float32_vars": (2, 0) for dtype in ("float16", "bfloat16")}


def signs_of(uses: Uses) -> list[Sign]:
    """Return the signs in a program's source."""
    objects = Named(uses.flows)
    signs: list[Sign] = []
    for file, is_certain, unused in uses.files:
        if file.signs is None:
            file.signs = [(sign, use.inside) for use in file.uses if use.is_certain for sign in _of_use(use)]
        signs += [sign for sign, inside in file.signs if is_certain and unused.isdisjoint(inside)]
    if uses.is_eager:
        signs = [sign for sign in signs if sign.about != _V2_UNLESS_EAGER]
    signs = [sign._replace(about="v1") if sign.about == _V2_UNLESS_EAGER else sign for sign in signs]
    for access in uses.accesses:
        if access.is_certain:
            signs.extend(_of_access(access, uses, objects))
    signs.extend(_of_rewrites(uses, objects))
    signs.extend(_of_scales(uses, objects))
    signs.extend(_of_classes(uses))
    signs.extend(_of_wrappers(uses, objects))
    return signs


def _of_use(use: Use) -> Iterator[Sign]:
    path, where = use.path, use.where
    if is_in(path, TF_1):
        yield Sign("v1", True, where, f"uses {is_in(path, TF_1)}")
    elif is_in(path, TF_2):
        yield Sign("v1", False, where, f"uses {is_in(path, TF_2)}")
    elif path == "tf.GradientTape":
        yield Sign(_V2_UNLESS_EAGER, False, where, f"uses {path}")
    if path in _GRAPHS_ONLY:
        yield Sign("graphs", True, where, f"uses {path}")
    if is_in(path, {"tf.contrib"}):
        is_ours = is_in(path, {"tf.contrib.mixed_precision"})
        yield Sign("contrib", True, where, f"uses {is_ours}") if is_ours else Sign("v1", True, where, f"uses {path}")
    row = named(path)
    multiplier = 2 if use.call is None else use.call.keywords.get("multiplier", 2)
    if path.endswith(".DynamicLossScale") and row is not None and multiplier not in (2, ...):
        what = f"gives {path} a multiplier, which wrappers took"
        yield Sign("release of wrappers", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), where, what)
    if row is not None and not row.needs_keras_3:
        last = numbers_of(row.last) if row.last else LAST
        yield Sign("release", (numbers_of(row.first), last), where, f"uses {path}")
    name = old_policy(use)
    if name:
        yield Sign("release", (FIRST, _OLD_POLICIES[name]), where, f"names the policy {name!r}")
    yield from _of_keras(use)


def old_policy(use: Use) -> str:
    """Return the policy name in a call of the API, if that name was removed before the API was; else ""."""
    first = use.call.values[0] if use.call is not None and use.call.values else None
    is_old = isinstance(first, str) and first in _OLD_POLICIES and use.path.endswith((".Policy", ".set_policy"))
    return str(first) if is_old and named(use.path) is not None else ""


def _of_keras(use: Use) -> Iterator[Sign]:
    path, where = use.path, use.where
    within = keras_path(path)
    if is_in(path, KERAS_2_OF_TF_1):
        about = "keras" if path.startswith("tf.compat.v1.") else "keras of v1"
        yield Sign(about, 2, where, f"uses {is_in(path, KERAS_2_OF_TF_1)}")
    if is_in(path, {"tf_keras"}):
        # A program that imports tf_keras by name expects `keras` and `tf.keras` to be Keras 3.
        yield Sign("tf_keras", 3, where, f"uses {path}")
    if not within:
        # TF 1 had functions of some of these names.
        if is_in(path.replace("tf.", "keras.", 1), KERAS_2_OF_TF):
            yield Sign("keras unless v1", 2, where, f"uses {path}")
        return
    if is_in(within, KERAS_2 | KERAS_2_PRIVATE) or (path != within and is_in(within, KERAS_2_OF_TF)):
        yield Sign("keras", 2, where, f"uses {path}")
    if is_in(within, KERAS_3):
        yield Sign("keras", 3, where, f"uses {path}")
    elif path != within:
        yield Sign("keras of v1", 2, where, f"uses {path}")
    if use.call is not None:
        yield from _of_call(use.call, use, within)
    yield from _of_optimizer(use, within)


def _of_call(call: Call, use: Use, within: str) -> Iterator[Sign]:
    path, where, first = use.path, use.where, call.first
    if call.is_unextended and is_in(within, _SAVING):
        yield Sign("keras", 2, where, f"gives {path} a path without an extension")
    if within == "keras.callbacks.ModelCheckpoint" and "period" in call.keywords:
        yield Sign("keras", 2, where, f"gives {path} period=")
    if within in _SETTING and first is not None and len(first.names) > 1 and first.name in _RATES:
        yield Sign("keras", 2, where, f"gives {path} .{first.name} of an optimizer")


def _of_optimizer(use: Use, within: str) -> Iterator[Sign]:
    name = within.removeprefix("keras.optimizers.").partition(".")[0]
    if within == name:
        return
    if name in LATER_THAN_2_10:
        yield Sign("legacy_optimizers", False, use.where, f"uses {use.path}")
    elif kind_of(use.path) is Kind.OPTIMIZER:
        keywords = () if use.call is None else use.call.keywords
        for keyword in _KEYWORDS_OF_NEW_OPTIMIZERS:
            if keyword in keywords:
                yield Sign("legacy_optimizers", False, use.where, f"gives {use.path} {keyword}=")
        for keyword in ("lr", "decay", *_ONLY_OF_LEGACY):
            if keyword in keywords:
                yield Sign("legacy_optimizers", True, use.where, f"gives {use.path} {keyword}=")
        for keyword in ("lr", *_ONLY_OF_LEGACY):
            if keyword in keywords:
                yield Sign("keras", 2, use.where, f"gives {use.path} {keyword}=")
        yield Sign("optimizers", True, use.where, f"uses {use.path}")


def _of_access(access: Access, uses: Uses, objects: Named) -> Iterator[Sign]:
    name, owner, where = access.name, access.owner, access.where
    if name in uses.defined and owner.names != ("super()",):
        return
    call = access.call
    if name in ("loss_scale", "_loss_scale") and call is not None and not call.values and not call.keywords:
        if _is_experimental_wrapper(owner, uses, objects):
            yield Sign("release", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), where, f"calls .{name}()")
    elif name in ATTRIBUTES_OF_LOSS_SCALES and owner.name in ("loss_scale", "_loss_scale"):
        if "loss_scale" not in uses.defined and _is_experimental_wrapper(owner.owner, uses, objects):
            yield Sign("release", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), where, f"reads .{owner.name}.{name}")
    elif name in LEGACY_USES and not access.is_set and _is_optimizer(owner, objects):
        yield Sign("legacy_optimizers", True, where, f"uses .{name} of an optimizer")
    if name == "compile" and call is not None and (call.values or call.keywords):
        yield Sign("compile", True, where, "calls .compile()")
    what = _of_keras_2(access, uses, objects)
    if name == "save" and call is not None and call.is_unextended and objects.is_only(owner, Kind.MODEL):
        what = what or "saves a model to a path without an extension"
    if what:
        yield Sign("keras if used", 2, where, what)


def _of_keras_2(access: Access, uses: Uses, objects: Named) -> str:
    """Return what a line does with what only objects of Keras 2 have: "uses .lr of an optimizer"; else ""."""
    name, owner = access.name, access.owner
    verb = "sets" if access.is_set else "uses"
    is_of_model = name in _OF_MODELS_OPTIMIZERS and objects.is_of_model(owner)
    if is_of_model and (name in _OF_LEGACY_WRAPPERS or not _are_compiled_of_mpls(uses, objects)):
        return f"{verb} .{name} of a model's optimizer"
    if name == "lr" and _is_optimizer(owner, objects):
        return f"{verb} .lr of an optimizer"
    if name in LEGACY_USES:
        return f"uses .{name} of an optimizer" if not access.is_set and _is_optimizer(owner, objects) else ""
    if name == "reset_states" and objects.is_one(owner, Kind.METRIC):
        return "uses .reset_states of a metric"
    if name in ("save_weights", "load_weights") and access.call is not None and access.call.is_unextended:
        ending = "does not end in .weights.h5" if name == "save_weights" else "has no extension"
        return f"gives .{name}() a path that {ending}"
    if name == "dynamic_counter" and access.call is None:
        return "reads .dynamic_counter"
    if name in _OF_KERAS_2_MODELS and access.call is not None:
        return f"calls .{name}()"
    found = _KEYWORDS_OF_KERAS_2.get(name, set()).intersection(_keywords(access))
    return f"gives .{name}() {min(map(str, found))}=" if found else ""


def _are_compiled_of_mpls(uses: Uses, objects: Named) -> bool:
    """Return whether each model that is compiled gets a wrapper of mpls, also by a policy of mpls."""
    calls = [each.call for each in uses.accesses if each.name == "compile" and each.call is not None]
    given = [call.first for call in calls if call.first is not None]
    has_policy = any(use.path == "mpls.experimental.set_policy" for use in uses.uses)
    return bool(given) and (has_policy or all(Kind.WRAPPER_OF_MPLS in objects.of(each) for each in given))


def _is_made_wrapper(value: Value, uses: Uses, objects: Named) -> bool:
    """Return whether a value is an experimental wrapper that the program makes, or that `compile` makes."""
    is_one = objects.is_one(value, Kind.EXPERIMENTAL_WRAPPER)
    return is_one or (uses.wraps_compiled and objects.is_of_model(value))


def _is_experimental_wrapper(value: Value, uses: Uses, objects: Named) -> bool:
    if _is_made_wrapper(value, uses, objects):
        return True
    # An unknown object named like an optimizer counts as one, in a program that makes experimental wrappers.
    is_called_so = "opt" in value.name.lower() and objects.is_unknown(value)
    return is_called_so and any(kind_of(use.path) is Kind.EXPERIMENTAL_WRAPPER and use.is_certain for use in uses.uses)


def _keywords(access: Access) -> Collection[str | None]:
    return () if access.call is None else access.call.keywords


def _is_optimizer(value: Value, objects: Named) -> bool:
    # A program that uses `optimizers.legacy` explicitly needs no option for it.
    is_one = objects.is_one(value, Kind.OPTIMIZER, Kind.EXPERIMENTAL_WRAPPER)
    return is_one and not objects.is_one(value, Kind.LEGACY_OPTIMIZER, Kind.WRAPPER_OF_MPLS)


def _of_rewrites(uses: Uses, objects: Named) -> Iterator[Sign]:
    """Yield signs for optimizers of Keras that the graph rewrite of today gets, which takes legacy ones only."""
    for use in uses.uses:
        row = named(use.path) if use.path.endswith(_REWRITE) and use.is_certain else None
        first = None if use.call is None else use.call.first
        if row is not None and row.last is None and first is not None and Kind.OPTIMIZER in objects.of(first):
            what = f"gives {use.path} an optimizer of Keras"
            yield Sign("keras", 2, use.where, what)
            yield Sign("legacy_optimizers", True, use.where, what)


def _of_scales(uses: Uses, objects: Named) -> Iterator[Sign]:
    """Yield signs for uses of the loss scale of an experimental wrapper as the object that it was up to TF 2.3."""
    has_own = not uses.defined.isdisjoint(("loss_scale", "_loss_scale"))
    releases = (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS)
    for each in uses.scales:
        if each.is_sure or (not has_own and (each.is_wrapper or _is_made_wrapper(each.owner, uses, objects))):
            yield Sign("release", releases, each.where, each.what)


def _of_classes(uses: Uses) -> Iterator[Sign]:
    for each in uses.classes:
        methods = [name for name in LEGACY_METHODS if name in each.methods]
        bases = [path for path, is_certain in each.bases if is_certain and kind_of(path) is Kind.OPTIMIZER]
        for path in bases if methods and each.is_certain else ():
            what = f"defines {methods[0]} in a subclass of {path}"
            yield Sign("legacy_optimizers", True, each.where, what)
            yield Sign("keras", 2, each.where, what)


# Members of Keras 2's wrappers; `_of_access` looks for the two that are left out here.
_OF_WRAPPERS = {*WRAPPER_ATTRIBUTES, *WEIGHTS} - {"_loss_scale", "dynamic_counter"}
# Members of wrappers over legacy optimizers alone, of whatever class; new optimizers have nothing that they could be.
_OF_LEGACY_WRAPPERS = {"decay", *LEGACY_USES} - {"_create_all_weights", "_decayed_lr", "get_weights"}
# Members that the wrapper of mpls has, and the last one of Keras 2, for new optimizers, has not.
NOT_OF_THE_LAST = {*HYPERPARAMETERS, *HYPERPARAMETER_METHODS, "weights", "get_weights"}
_CALLS_OF_WRAPPERS = (*SCALING_METHODS, "minimize", "variables")


def _of_wrappers(uses: Uses, objects: Named) -> Iterator[Sign]:
    """Yield signs that a program needs the LossScaleOptimizer of Keras 2, whose name Keras 3 gave to another class."""
    made = {kind_of(use.path) for use in uses.uses if use.is_certain}
    is_new = Kind.PUBLIC_WRAPPER in made and Kind.EXPERIMENTAL_WRAPPER not in made
    for access in uses.accesses:
        name, owner = access.name, access.owner
        if name in uses.defined or not access.is_certain:
            continue
        # No option replaces the wrapper that `compile` makes.
        is_shown = is_new and Kind.WRAPPER_OF_MPLS not in made and owner.is_wrapper
        is_shown = is_shown and not objects.may_be_of_model(owner)
        is_one = is_shown or objects.is_one(owner, Kind.PUBLIC_WRAPPER)
        # Names like `optimizer` may be given to several things.
        is_only = is_shown or (is_one and objects.is_only(owner, Kind.PUBLIC_WRAPPER))
        # An unknown object can only be this kind of wrapper if the program makes no other kind.
        what = _of_wrapper(access, is_one or (is_new and objects.is_unknown(owner)), is_only)
        if name in _OF_LEGACY_WRAPPERS and objects.is_one(owner, Kind.WRAPPER_OF_MPLS):
            what = f"uses .{name} of a wrapper"
        if what and name in _OF_LEGACY_WRAPPERS:
            yield Sign("keras if used", 2, access.where, what)
            yield Sign("legacy_optimizers", True, access.where, what)
        elif what:
            yield Sign("replace_existing", True, access.where, what)
        if what and name in NOT_OF_THE_LAST:
            yield Sign("wrapper", True, access.where, what)
    yield from _of_class(uses, objects)


def _of_arguments(path: str, where: Where, call: Call) -> Iterator[Sign]:
    if "dynamic" in call.keywords:
        yield Sign("replace_existing", True, where, f"gives {path} dynamic=")
    elif len(call.values) > 1 and isinstance(call.values[1], bool):
        yield Sign("replace_existing", True, where, f"gives {path} whether it is dynamic")


def _of_class(uses: Uses, objects: Named) -> Iterator[Sign]:
    """Yield signs for calls of the class of the wrapper, and for subclasses."""
    # The private copy of Keras in TensorFlow has optimizers too, the only ones that its wrapper takes.
    is_of_public = not any(use.path.startswith(f"{_PRIVATE}optimizer") for use in uses.uses)
    for use in uses.uses:
        if use.is_certain and kind_of(use.path) is Kind.PUBLIC_WRAPPER and use.call is not None:
            yield from _of_arguments(use.path, use.where, use.call)
            first = use.call.first
            if use.path.startswith(_PRIVATE) and is_of_public and first is not None and _is_optimizer(first, objects):
                what = f"gives {use.path} an optimizer of tf.keras"
                yield Sign("wrapper", True, use.where, what)
                yield Sign("replace_existing", True, use.where, what)
    for each in uses.classes:
        paths = [path for path, is_certain in each.bases if is_certain and kind_of(path) is Kind.PUBLIC_WRAPPER]
        for path in paths if each.is_certain else ():
            yield Sign("wrapper", True, each.where, f"derives from {path}")
            for where, call in each.base_calls:
                yield from _of_arguments(path, where, call)
            if AGGREGATION_OF_LEGACY in each.arguments:
                what = f"takes {AGGREGATION_OF_LEGACY} in a subclass of {path}"
                yield Sign("legacy_optimizers", True, each.where, what)
                yield Sign("replace_existing", True, each.where, what)


def _of_wrapper(access: Access, can_be: bool, is_only: bool) -> str:
    """Return what a line does with what only wrappers of Keras 2 have: "sets .lr of a wrapper"; else ""."""
    name = access.name
    if name in SCALING_METHODS:
        return f"calls .{name}()" if access.call is not None and can_be else ""
    if not is_only:
        return ""
    if name in _CALLS_OF_WRAPPERS:
        return f"calls .{name}() of a wrapper" if access.call is not None else ""
    if name == "apply_gradients" and AGGREGATION_OF_LEGACY in _keywords(access):
        return f"gives .apply_gradients() {AGGREGATION_OF_LEGACY}="
    if name == "lr" or name in _OF_WRAPPERS | NOT_OF_THE_LAST | _OF_LEGACY_WRAPPERS:
        return f"{'sets' if access.is_set else 'uses'} .{name} of a wrapper"
    return ""
