"""The signs in a program: the lines that show which options it needs."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping

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
from mpls.program.objects import (
    EXPERIMENTAL_WRAPPER,
    LEGACY_OPTIMIZER,
    METRIC,
    MODEL,
    NEW_WRAPPER,
    OPTIMIZER,
    POLICY,
    WRAPPER_OF_MPLS,
    keras_path,
    kind_of,
)
from mpls.program.tables import (
    KERAS_2,
    KERAS_2_OF_TF,
    KERAS_2_OF_TF_1,
    KERAS_2_PRIVATE,
    KERAS_3,
    LATER_THAN_2_10,
    TF_1,
    TF_2,
    is_in,
)
from mpls.program.uses import Access, Call, Release, Sign, Use, Uses, Value, Where

FIRST: Release = (1, 13)
LAST: Release = (2, 99)
# The last releases in which tf.keras was Keras 2, in which its optimizers were those now called legacy, and in which
# `loss_scale` of wrappers was an object.
LAST_WITH_KERAS_2: Release = (2, 15)
LAST_WITH_LEGACY: Release = (2, 10)
LAST_WITH_LOSS_SCALE_OBJECTS: Release = (2, 3)

# Two signs of one thing: eager mode of TF 1 had gradient tapes too.
_V2_UNLESS_EAGER = "v1 unless eager"
_OF_KERAS_2_MODELS = ("fit_generator", "evaluate_generator", "predict_generator")
_KEYWORDS_OF_KERAS_2 = {"save": "save_format", "save_weights": "save_format", "compile": "experimental_run_tf_function"}
# Members that models' optimizers have in Keras 2 only.
_OF_MODELS_OPTIMIZERS = ("lr", "decay", "loss_scale", "dynamic", *WEIGHTS)
_SAVING = {"keras.models.save_model", "keras.saving.save_model", "keras.callbacks.ModelCheckpoint"}
_SAVING |= {"keras.models.load_model", "keras.saving.load_model"}
# Functions that Keras 3 has, and that fail on its own variables.
_SETTING = ("keras.backend.set_value", "keras.backend.update")
_RATES = ("lr", "learning_rate")
_KEYWORDS_OF_NEW_OPTIMIZERS = ("weight_decay", "use_ema", "ema_momentum", "jit_compile")
_REWRITE = ".enable_mixed_precision_graph_rewrite"
# Arguments that Keras 3 refuses, too.
_ONLY_OF_LEGACY = ("gradient_aggregator", "gradient_transformers")
# Names of policies that were removed before the API was, with the last release that had them.
_OLD_POLICIES = {"infer": (2, 2), "infer_float32_vars": (2, 0), "infer_with_float32_vars": (2, 0)}
_OLD_POLICIES |= {f"{dtype}_with_float32_vars": (2, 0) for dtype in ("float16", "bfloat16")}


def signs_of(uses: Uses) -> list[Sign]:
    """Return the signs in a program's source."""
    kinds = Kinds(uses)
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
            signs.extend(_of_access(access, uses, kinds))
    signs.extend(_of_rewrites(uses, kinds))
    signs.extend(_of_scales(uses, kinds))
    signs.extend(_of_classes(uses))
    signs.extend(_of_wrappers(uses, kinds))
    return signs


def _of_use(use: Use) -> Iterator[Sign]:
    path, where = use.path, use.where
    if is_in(path, TF_1):
        yield Sign("v1", True, where, f"uses {is_in(path, TF_1)}")
    elif is_in(path, TF_2):
        yield Sign("v1", False, where, f"uses {is_in(path, TF_2)}")
    elif path == "tf.GradientTape":
        yield Sign(_V2_UNLESS_EAGER, False, where, f"uses {path}")
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
    if use.call is not None and use.call.is_unextended and is_in(within, _SAVING):
        yield Sign("keras", 2, where, f"gives {path} a path without an extension")
    first = None if use.call is None else use.call.first
    if within in _SETTING and first is not None and first.is_attribute and first.name in _RATES:
        yield Sign("keras", 2, where, f"gives {path} .{first.name} of an optimizer")
    yield from _of_optimizer(use, within)


def _of_optimizer(use: Use, within: str) -> Iterator[Sign]:
    name = within.removeprefix("keras.optimizers.").partition(".")[0]
    if within == name:
        return
    if name in LATER_THAN_2_10:
        yield Sign("legacy_optimizers", False, use.where, f"uses {use.path}")
    elif kind_of(use.path) == OPTIMIZER:
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


def _of_access(access: Access, uses: Uses, kinds: Kinds) -> Iterator[Sign]:
    name, where = access.chain[-1], access.where
    if name in uses.defined:
        return
    call = access.call
    if name in ("loss_scale", "_loss_scale") and call is not None and not call.values and not call.keywords:
        if _is_experimental_wrapper(access, uses, kinds):
            yield Sign("release", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), where, f"calls .{name}()")
    elif name in ATTRIBUTES_OF_LOSS_SCALES and access.chain[-2:-1] in (("loss_scale",), ("_loss_scale",)):
        of_wrapper = access._replace(chain=access.chain[:-1])
        if "loss_scale" not in uses.defined and _is_experimental_wrapper(of_wrapper, uses, kinds):
            yield Sign("release", (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS), where, f"reads .{access.chain[-2]}.{name}")
    elif name in LEGACY_USES and not access.is_set and _is_optimizer(access, kinds):
        yield Sign("legacy_optimizers", True, where, f"uses .{name} of an optimizer")
    if name == "compile" and call is not None and (call.values or call.keywords):
        yield Sign("compile", True, where, "calls .compile()")
    what = _of_keras_2(access, kinds)
    if name == "save" and call is not None and call.is_unextended and kinds.is_only(access, MODEL):
        what = what or "saves a model to a path without an extension"
    if what:
        yield Sign("keras if used", 2, where, what)


def _of_keras_2(access: Access, kinds: Kinds) -> str:
    """Return what a line does with what only objects of Keras 2 have: "uses .lr of an optimizer"; else ""."""
    name = access.chain[-1]
    verb = "sets" if access.is_set else "uses"
    is_had_by_mpls = kinds.are_compiled_of_mpls and name not in _OF_LEGACY_WRAPPERS
    if name in _OF_MODELS_OPTIMIZERS and not is_had_by_mpls and kinds.is_of_models_optimizer(access):
        return f"{verb} .{name} of a model's optimizer"
    if name == "lr" and _is_optimizer(access, kinds):
        return f"{verb} .lr of an optimizer"
    if name in LEGACY_USES:
        return f"uses .{name} of an optimizer" if not access.is_set and _is_optimizer(access, kinds) else ""
    if name == "reset_states" and kinds.receiver_is(access, METRIC):
        return "uses .reset_states of a metric"
    if name in ("save_weights", "load_weights") and access.call is not None and access.call.is_unextended:
        ending = "does not end in .weights.h5" if name == "save_weights" else "has no extension"
        return f"gives .{name}() a path that {ending}"
    if name == "dynamic_counter" and access.call is None:
        return "reads .dynamic_counter"
    if name in _OF_KERAS_2_MODELS and access.call is not None:
        return f"calls .{name}()"
    if name in _KEYWORDS_OF_KERAS_2 and _KEYWORDS_OF_KERAS_2[name] in _keywords(access):
        return f"gives .{name}() {_KEYWORDS_OF_KERAS_2[name]}="
    return ""


def _is_experimental_wrapper(access: Access, uses: Uses, kinds: Kinds) -> bool:
    if kinds.receiver_is(access, EXPERIMENTAL_WRAPPER):
        return True
    # An unknown object named like an optimizer counts as one, in a program that makes experimental wrappers.
    is_called_so = len(access.chain) > 1 and "opt" in access.chain[-2].lower() and kinds.is_unknown(access)
    return is_called_so and any(kind_of(use.path) == EXPERIMENTAL_WRAPPER and use.is_certain for use in uses.uses)


def _keywords(place: Use | Access) -> Collection[str | None]:
    return () if place.call is None else place.call.keywords


def _is_optimizer(access: Access, kinds: Kinds) -> bool:
    # A program that uses `optimizers.legacy` explicitly needs no option for it.
    is_one = any(kinds.receiver_is(access, kind) for kind in (OPTIMIZER, EXPERIMENTAL_WRAPPER))
    return is_one and not any(kinds.receiver_is(access, kind) for kind in (LEGACY_OPTIMIZER, WRAPPER_OF_MPLS))


def _of_rewrites(uses: Uses, kinds: Kinds) -> Iterator[Sign]:
    """Yield signs for optimizers of Keras that the graph rewrite of today gets, which takes legacy ones only."""
    for use in uses.uses:
        row = named(use.path) if use.path.endswith(_REWRITE) and use.is_certain else None
        first = None if use.call is None else use.call.first
        if row is not None and row.last is None and first is not None and OPTIMIZER in kinds.of_value(first):
            what = f"gives {use.path} an optimizer of Keras"
            yield Sign("keras", 2, use.where, what)
            yield Sign("legacy_optimizers", True, use.where, what)


def _of_scales(uses: Uses, kinds: Kinds) -> Iterator[Sign]:
    """Yield signs for uses of the loss scale of an experimental wrapper as the object that it was up to TF 2.3."""
    has_own = not uses.defined.isdisjoint(("loss_scale", "_loss_scale"))
    releases = (FIRST, LAST_WITH_LOSS_SCALE_OBJECTS)
    for access in uses.same:
        if access.chain[-1] == "loss_scale" and not has_own and _is_experimental_wrapper(access, uses, kinds):
            yield Sign("release", releases, access.where, "asserts which object .loss_scale is")
    for each in uses.scales:
        if each.is_sure or not has_own:
            yield Sign("release", releases, each.where, each.what)


def _of_classes(uses: Uses) -> Iterator[Sign]:
    for each in uses.classes:
        methods = [name for name in LEGACY_METHODS if name in each.methods]
        bases = [path for path, is_certain in each.bases if is_certain and kind_of(path) == OPTIMIZER]
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


def _of_wrappers(uses: Uses, kinds: Kinds) -> Iterator[Sign]:
    """Yield signs that a program needs the LossScaleOptimizer of Keras 2, whose name Keras 3 gave to another class."""
    made = {kind_of(use.path) for use in uses.uses if use.is_certain}
    for access in uses.accesses:
        if access.chain[-1] in uses.defined or not access.is_certain:
            continue
        # An unknown object can only be this kind of wrapper if the program makes no other kind.
        can_be = NEW_WRAPPER in made and EXPERIMENTAL_WRAPPER not in made and kinds.is_unknown(access)
        is_shown = (
            access.is_wrapper and NEW_WRAPPER in made and made.isdisjoint((EXPERIMENTAL_WRAPPER, WRAPPER_OF_MPLS))
        )
        # No option replaces the wrapper that `compile` makes.
        is_shown = is_shown and not kinds.may_be_of_models_optimizer(access)
        is_one = is_shown or kinds.receiver_is(access, NEW_WRAPPER)
        # Names like `optimizer` may be given to several things.
        is_only = is_shown or (is_one and kinds.is_only(access, NEW_WRAPPER))
        what = _of_wrapper(access, can_be or is_one, is_only)
        if access.chain[-1] in _OF_LEGACY_WRAPPERS and kinds.receiver_is(access, WRAPPER_OF_MPLS):
            what = f"uses .{access.chain[-1]} of a wrapper"
        if what and access.chain[-1] in _OF_LEGACY_WRAPPERS:
            yield Sign("keras if used", 2, access.where, what)
            yield Sign("legacy_optimizers", True, access.where, what)
        elif what:
            yield Sign("replace_existing", True, access.where, what)
        if what and access.chain[-1] in NOT_OF_THE_LAST:
            yield Sign("wrapper", True, access.where, what)
    yield from _of_class(uses)


def _of_arguments(path: str, where: Where, call: Call) -> Iterator[Sign]:
    if "dynamic" in call.keywords:
        yield Sign("replace_existing", True, where, f"gives {path} dynamic=")
    elif len(call.values) > 1 and isinstance(call.values[1], bool):
        yield Sign("replace_existing", True, where, f"gives {path} whether it is dynamic")


def _of_class(uses: Uses) -> Iterator[Sign]:
    """Yield signs for calls of the class of the wrapper, and for subclasses."""
    for use in uses.uses:
        if use.is_certain and kind_of(use.path) == NEW_WRAPPER and use.call is not None:
            yield from _of_arguments(use.path, use.where, use.call)
    for each in uses.classes:
        paths = [path for path, is_certain in each.bases if is_certain and kind_of(path) == NEW_WRAPPER]
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
    name = access.chain[-1]
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


# Which of a program's variables, classes and functions are optimizers, wrappers or policies, by their names: by what
# they are assigned, in whatever file. What else shows that something is a wrapper is in `objects`.

_MODELS_OPTIMIZER = "model's optimizer"
# Functions that return the results of other functions are followed this deep.
_ROUNDS = 4
_UNWRAPPED = {OPTIMIZER, LEGACY_OPTIMIZER}


class Kinds:
    """The kinds of a program's own variables, classes and functions, by name.

    Args:
        uses: what the program uses.
    """

    def __init__(self, uses: Uses) -> None:
        self._uses = uses
        self._variables: dict[str, set[str]] = {}
        self._makers: dict[str, set[str]] = {}
        self._all_makers: set[str] = set()
        self._made = [use for use in uses.uses if use.call is not None and use.target]
        self._called = [each for each in uses.accesses if each.call is not None and each.target]
        self._moved = [each for each in uses.accesses if each.call is None and each.target]
        self._bases = [(name, each.name) for each in uses.classes for name, _ in each.bases]
        self._wrapped = set(self._found_wrapped())
        for _ in range(_ROUNDS):
            before = _size(self._makers) + _size(self._variables)
            for kind, name in self._found_makers():
                self._makers.setdefault(kind, set()).add(name)
                self._all_makers.add(name)
            for kind, name in self._found_variables():
                self._variables.setdefault(kind, set()).add(name)
            if _size(self._makers) + _size(self._variables) == before:
                break

    def receiver_is(self, access: Access, kind: str) -> bool:
        """Return whether the object that an attribute is read from is of a kind, and no policy."""
        if len(access.chain) < 2:
            return False
        receiver = access.chain[-2]
        if receiver == "":
            return access.maker is not None and kind in self.of_value(access.maker)
        if receiver == "self":
            return access.within in self._makers.get(kind, ())
        return receiver in self._variables.get(kind, ()) and receiver not in self._variables.get(POLICY, ())

    def is_of_models_optimizer(self, access: Access) -> bool:
        """Return whether an attribute is read from `self.model.optimizer` or the like, or from a variable for it."""
        if self.receiver_is(access, _MODELS_OPTIMIZER):
            return not any(self.receiver_is(access, kind) for kind in self._variables if kind != _MODELS_OPTIMIZER)
        return self._is_models_optimizer(access._replace(chain=access.chain[:-1], maker=None))

    def may_be_of_models_optimizer(self, access: Access) -> bool:
        """Return the same, also for a variable that may be something else."""
        of_owner = access._replace(chain=access.chain[:-1], maker=None)
        return self.receiver_is(access, _MODELS_OPTIMIZER) or self._is_models_optimizer(of_owner)

    @functools.cached_property
    def are_compiled_of_mpls(self) -> bool:
        """Whether each model that is compiled gets a wrapper of mpls, also by a policy of mpls."""
        calls = [each.call for each in self._uses.accesses if each.chain[-1] == "compile" and each.call is not None]
        given = [call.first for call in calls if call.first is not None]
        has_policy = any(use.path == "mpls.experimental.set_policy" for use in self._uses.uses)
        return bool(given) and (has_policy or all(WRAPPER_OF_MPLS in self.of_value(each) for each in given))

    def _is_models_optimizer(self, access: Access) -> bool:
        if access.chain[-1:] != ("optimizer",) or len(access.chain) < 2:
            return False
        return access.chain[-2] == "model" or self.is_only(access, MODEL)

    def is_only(self, access: Access, kind: str) -> bool:
        """Return whether every object that the program assigns to the name of an attribute's object is of a kind.

        For wrappers, the optimizer that a name had before it got the wrapper around it does not count.
        """
        receiver = access.chain[-2] if len(access.chain) > 1 else ""
        if receiver == "self":
            return self.receiver_is(access, kind)
        if receiver == "" and access.maker is not None:
            return self.of_value(access.maker) == {kind}
        made = [(receiver, {kind_of(use.path)}) for use in self._made if use.target == receiver]
        made += [(each.chain[-1], self._made_by(each.chain[-1])) for each in self._called if each.target == receiver]
        # A test for the release may choose between it and one of mpls.
        same = {kind, WRAPPER_OF_MPLS} if kind == NEW_WRAPPER else {kind}
        may_be = {name: same | (_UNWRAPPED if name in self._wrapped else set()) for name, _ in made}
        return any(kind in kinds for _, kinds in made) and all(kinds and kinds <= may_be[name] for name, kinds in made)

    def is_unknown(self, access: Access) -> bool:
        """Return whether the kind of the object that an attribute is read from is unknown."""
        receiver = access.chain[-2] if len(access.chain) > 1 else ""
        return receiver not in ("", "self") and not any(receiver in names for names in self._variables.values())

    def _made_by(self, name: str) -> set[str]:
        """Return the kinds of objects that a function or class of the program makes."""
        if name not in self._all_makers:
            return set()
        return {kind for kind, names in self._makers.items() if name in names}

    def of_value(self, value: Value) -> set[str]:
        """Return the kinds that a value may be of."""
        if value.is_call:
            return set(value.kinds) or self._made_by(value.name)
        return {kind for kind, names in self._variables.items() if value.name in names}

    def _found_wrapped(self) -> Iterator[str]:
        """Yield variables that get a wrapper around their own value, and functions that return them."""
        wrapped = {
            use.target
            for use in self._made
            if use.call is not None and kind_of(use.path) == NEW_WRAPPER and use.target in use.call.names
        }
        yield from wrapped
        yield from (name for name, value in self._uses.returns if not value.is_call and value.name in wrapped)

    def _found_makers(self) -> Iterator[tuple[str, str]]:
        for base, name in self._bases:
            yield from ((kind, name) for kind in {kind_of(base)} - {""} | self._made_by(base))
        for name, value in self._uses.returns:
            kinds = set(value.kinds) - {""} | self._made_by(value.name) if value.is_call else self.of_value(value)
            yield from ((kind, name) for kind in kinds)

    def _found_variables(self) -> Iterator[tuple[str, str]]:
        yield from ((kind, name) for name, kind in self._uses.checked)
        for use in self._made:
            if kind_of(use.path):
                yield kind_of(use.path), use.target
        for access in self._moved:
            if self._is_models_optimizer(access):
                yield _MODELS_OPTIMIZER, access.target
        for access in self._called:
            yield from ((kind, access.target) for kind in self._made_by(access.chain[-1]))


def _size(names: Mapping[str, set[str]]) -> int:
    return sum(map(len, names.values()))
