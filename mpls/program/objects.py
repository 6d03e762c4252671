"""What the objects of a program are: by the path of what makes them, and in one file by all that is done with them.

A new kind of evidence that something is a wrapper is a method of `_Evidence`: `run`, `doctor` and `migrate` all ask it.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from mpls.names import Name, named
from mpls.optimizer_members import SCALING_METHODS
from mpls.program.meaning import NOTHING, Meanings
from mpls.program.scopes import Binding, Chain, Function, Member, Region, Survey, types_asked
from mpls.program.tables import OPTIMIZERS, is_in

OPTIMIZER = "optimizer"
LEGACY_OPTIMIZER = "legacy optimizer"
EXPERIMENTAL_WRAPPER = "experimental wrapper"
NEW_WRAPPER = "new wrapper"
# One of mpls, which has the same members on Keras 3.
WRAPPER_OF_MPLS = "wrapper of mpls"
POLICY = "policy"
MODEL = "model"
METRIC = "metric"

_OF_TARGET = {
    "mpls.experimental:LossScaleOptimizer": EXPERIMENTAL_WRAPPER,
    "mpls.v1:enable_mixed_precision_graph_rewrite": EXPERIMENTAL_WRAPPER,
    "mpls.keras:LossScaleOptimizer": NEW_WRAPPER,
    "mpls.experimental:Policy": POLICY,
    "mpls.experimental:global_policy": POLICY,
    "mpls.experimental:get_layer_policy": POLICY,
    "mpls.keras:Policy": POLICY,
    "mpls.keras:global_policy": POLICY,
}
_OF_MPLS = ("mpls.keras.LossScaleOptimizer", "mpls.experimental.LossScaleOptimizer")
# What TF 2 has of Keras without `keras`: TF 1 had functions in these modules.
_IN_TF = re.compile(r"(?:metrics|losses)\.[A-Z]|optimizers\.")
_OPTIMIZERS = {f"keras.optimizers.{name}" for name in OPTIMIZERS}
_MODELS = {f"keras.{name}" for name in ("Model", "Sequential", "models.Model", "models.Sequential")}
_MODELS |= {f"keras.models.{name}" for name in ("load_model", "clone_model", "model_from_json")}
_LEGACY = {f"keras.optimizers.legacy.{name}" for name in OPTIMIZERS}


def keras_path(path: str) -> str:
    """Return a path in Keras as `keras.…`, whether spelled with `tf`, as `tf.optimizers`, or not; else ""."""
    for root in ("tf.compat.v1.", "tf.compat.v2.", "tf.python.", "tf."):
        if path.startswith(root):
            path = path.removeprefix(root)
            if _IN_TF.match(path):
                return f"keras.{path}"
            return path if path == "keras" or path.startswith("keras.") else ""
    return path if path == "keras" or path.startswith("keras.") else ""


@functools.cache
def kind_of(path: str) -> str:
    """Return the kind of object that calling a path returns; "" for none of these kinds."""
    if path in _OF_MPLS:
        return WRAPPER_OF_MPLS
    row = named(path)
    if row is not None and row.target in _OF_TARGET:
        # `tf_keras.….LossScaleOptimizer` is tf_keras' own wrapper.
        is_theirs = path.startswith("tf_keras.") and _OF_TARGET[row.target] == NEW_WRAPPER
        return "" if is_theirs else _OF_TARGET[row.target]
    within = keras_path(path)
    if is_in(within, _LEGACY):
        return LEGACY_OPTIMIZER
    if is_in(within, _MODELS):
        return MODEL
    parts = within.split(".")
    if parts[:2] == ["keras", "metrics"] and len(parts) == 3 and parts[2][:1].isupper():
        return METRIC
    return OPTIMIZER if is_in(within, _OPTIMIZERS) else ""


def is_experimental(row: Name) -> bool:
    """Return whether a historical name is that of the experimental wrapper."""
    return row.target == "mpls.experimental:LossScaleOptimizer"


def is_public(row: Name) -> bool:
    """Return whether a historical name is that of the public wrapper."""
    return row.target.startswith("mpls.keras:LossScaleOptimizer")


# In one file.

_DEPTH = 8


class Instance(Enum):
    """What an expression may be."""

    WRAPPER = "an optimizer with a loss scale"
    # An optimizer without one, which a name may have before it gets the wrapper; or None.
    OTHER = "something without a loss scale"
    # Its loss scale is an object, which is called.
    POLICY = "a policy"
    # So is that of a class of the file with a loss scale of its own.
    OWN = "an object of such a class"
    UNKNOWN = "unknown"


class Objects:
    """Tells what expressions of a file are.

    Args:
        meanings: what the names in it stand for.
        has_own_members: whether a class of the program's has a `loss_scale` that may be called.
        is_only: whether only that counts as a wrapper which is nothing else before.
        is_set_here: whether no other module sets its variables.
    """

    def __init__(
        self, meanings: Meanings, has_own_members: bool, *, is_only: bool = False, is_set_here: bool = False
    ) -> None:
        self._is_only = is_only
        self._is_set_here = is_set_here
        self.survey: Survey = meanings.survey
        self._meanings = meanings
        self._has_own_members = has_own_members
        self._known: dict[tuple[int, str], Instance] = {}
        self._asked: set[tuple[int, str]] = set()

    @functools.cached_property
    def _evidence(self) -> _Evidence:
        def is_wrapper(node: ast.expr, region: Region) -> bool:
            return self._kind(node, region, 0) is Instance.WRAPPER

        return _Evidence(self._meanings, self._has_own_members, is_wrapper)

    def kind(self, read: Member) -> Instance:
        """Return what the object is that an attribute is read from."""
        return self.of(read.owner, read.region)

    def of(self, node: ast.expr, region: Region) -> Instance:
        """Return what an expression in a scope is."""
        found = self._kind(node, region, 0)
        if found is Instance.WRAPPER and self._is_set_elsewhere(node, region):
            return Instance.UNKNOWN
        is_evident = found is Instance.UNKNOWN and self._evidence.has(node, region)
        return Instance.WRAPPER if is_evident else found

    def _is_set_elsewhere(self, node: ast.expr, region: Region) -> bool:
        """Return whether a class of the program's own has a loss scale, and its objects may take an expression's place.

        A subclass, or any other module, may set an attribute, and a variable at the top of a module.
        """
        if not self._has_own_members:
            return False
        if isinstance(node, ast.Name):
            return not self._is_set_here and region.holder(node.id) is self.survey.module
        return isinstance(node, ast.Attribute)

    def _kind(self, node: ast.expr, region: Region, depth: int) -> Instance:
        if depth > _DEPTH:
            return Instance.UNKNOWN
        if isinstance(node, ast.Constant) and node.value is None:
            return Instance.OTHER
        if isinstance(node, ast.NamedExpr):
            return self._kind(node.value, region, depth + 1)
        if isinstance(node, ast.IfExp):
            return self._of_all([self._kind(each, region, depth + 1) for each in (node.body, node.orelse)])
        if isinstance(node, ast.Call):
            return self._of_call(node, region, depth)
        method = region.method()
        if isinstance(node, ast.Name):
            is_self = method is not None and node.id == method.self_name and region.holder(node.id) is method
            return self._of_self(method) if is_self and method is not None else self._of_name(node.id, region, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            is_self = method is not None and node.value.id == method.self_name
            within = method.parent if is_self and method is not None else self._class_of(node.value, region)
            if within is not None:
                bindings = [*within.attributes.get(node.attr, ()), *within.names.get(node.attr, ())]
                return self._of_bindings(bindings, depth)
        return Instance.UNKNOWN

    def _of_all(self, found: list[Instance]) -> Instance:
        """Return what something is that may be each of these; a wrapper, if the others have no loss scale."""
        kinds = set(found)
        if not kinds or Instance.UNKNOWN in kinds or (kinds & {Instance.POLICY, Instance.OWN} and len(kinds) > 1):
            return Instance.UNKNOWN
        if self._is_only and len(kinds) > 1:
            return Instance.UNKNOWN
        return Instance.WRAPPER if Instance.WRAPPER in kinds else kinds.pop()

    def _class_of(self, node: ast.Name, region: Region) -> Region | None:
        """Return the scope of the class of the file that a variable is certainly an instance of."""
        bound = region.only(node.id)
        value = None if bound is None else bound.value
        if bound is None or not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            return None
        made = bound.region.only(value.func.id)
        owner = None if made is None else made.value
        return self.survey.classes.get(owner) if isinstance(owner, ast.ClassDef) else None

    def _of_name(self, name: str, region: Region, depth: int) -> Instance:
        key = (id(region.holder(name)), name)
        if key in self._known:
            return self._known[key]
        if key in self._asked:
            # A name that is bound to itself, as in `opt = wrap(opt)`.
            return Instance.UNKNOWN
        self._asked.add(key)
        found = self._of_bindings(region.find(name), depth)
        self._asked.discard(key)
        if not self._asked:
            self._known[key] = found
        return found

    def _of_bindings(self, bindings: Iterable[Binding], depth: int) -> Instance:
        found = []
        for binding in bindings:
            value = binding.value
            found.append(
                self._kind(value, binding.region, depth + 1) if isinstance(value, ast.expr) else Instance.UNKNOWN
            )
        return self._of_all(found)

    def _of_self(self, method: Region) -> Instance:
        owner = None if method.parent is None else method.parent.owner
        if not isinstance(owner, ast.ClassDef) or method.parent is None or method.parent.parent is None:
            return Instance.UNKNOWN
        return self._of_class(owner, method.parent.parent)

    def _of_class(self, owner: ast.ClassDef, region: Region) -> Instance:
        is_one = any(_is_wrapper_class(base, region, self._meanings) for base in owner.bases)
        has_own = any(getattr(each, "name", "") == "loss_scale" for each in owner.body)
        if has_own:
            return Instance.OWN
        return Instance.WRAPPER if is_one else Instance.UNKNOWN

    def _of_call(self, node: ast.Call, region: Region, depth: int) -> Instance:
        if _is_wrapper_class(node.func, region, self._meanings):
            return Instance.WRAPPER
        meaning = self._meanings.of(node.func, region)
        if meaning != NOTHING and meaning.is_whole:
            kinds = {kind_of(path) for path in meaning.paths}
            if kinds <= {OPTIMIZER, LEGACY_OPTIMIZER}:
                return Instance.OTHER
            if kinds == {POLICY}:
                return Instance.POLICY
            is_rewrite = all(path.endswith(".enable_mixed_precision_graph_rewrite") for path in meaning.paths)
            if is_rewrite and node.args and self._kind(node.args[0], region, depth + 1) is Instance.OTHER:
                # Given an optimizer of Keras, it returns one of Keras.
                return Instance.WRAPPER
        if not isinstance(node.func, ast.Name):
            return Instance.UNKNOWN
        bound = region.only(node.func.id)
        made = None if bound is None else bound.value
        if bound is not None and isinstance(made, ast.ClassDef):
            return self._of_class(made, bound.region)
        if not isinstance(made, ast.FunctionDef) or made.decorator_list:
            return Instance.UNKNOWN
        returned = self.survey.returns.get(made, [])
        return self._of_all(
            [Instance.OTHER if value is None else self._kind(value, within, depth + 1) for value, within in returned]
        )


_Key = tuple[int, str]
# What is a wrapper by what it is assigned.
_KNOWN: _Key = (0, "a wrapper")
# The number of calls through which arguments are followed.
_ROUNDS = 4


def _is_wrapper_class(node: ast.expr, region: Region, meanings: Meanings) -> bool:
    """Return whether an expression certainly stands for the class of a wrapper of Keras."""
    meaning = meanings.of(node, region)
    rows = [named(path) for path in meaning.paths]
    is_one = all(row is not None and (is_experimental(row) or is_public(row)) for row in rows)
    return meaning.is_whole and bool(rows) and is_one


class _Evidence:
    """The variables and attributes of a file that are used as wrappers.

    These are what `get_scaled_loss` or `get_unscaled_gradients` is called on, which only wrappers have; what
    `isinstance` takes with the class of a wrapper; what is passed to a parameter of the file's own functions, or kept
    as an attribute, that is such a variable; parameters and attributes that get nothing else; and the optimizers of
    models that `compile` gives nothing else. Where a class of the program's own has a `loss_scale` that may be called,
    other modules may pass its objects: then only `isinstance` and `compile` tell.

    Args:
        meanings: what the names in the file stand for.
        has_own_members: whether a class of the program's has a `loss_scale` that may be called.
        is_wrapper: tells whether an expression is a wrapper by what it is assigned.
    """

    def __init__(
        self, meanings: Meanings, has_own_members: bool, is_wrapper: Callable[[ast.expr, Region], bool]
    ) -> None:
        self._meanings = meanings
        self._survey = meanings.survey
        self._has_own_members = has_own_members
        self._is_wrapper = is_wrapper
        self._keys: set[_Key | None] = {_KNOWN, *self._direct()} - {None}
        given: dict[_Key, list[_Key | None]] = {}
        others = () if has_own_members else (*self._passed(), *self._kept())
        for target, value in (*others, *self._compiled()):
            given.setdefault(target, []).append(value)
        for _ in range(_ROUNDS):
            before = len(self._keys)
            for target, values in given.items():
                if target in self._keys:
                    self._keys |= {value for value in values if value is not None}
                elif all(value in self._keys for value in values):
                    self._keys.add(target)
            if len(self._keys) == before:
                break

    def has(self, node: ast.expr, region: Region) -> bool:
        """Return whether an expression is such a variable or attribute, or an item of one."""
        key = _key(node, region)
        return key is not None and key in self._keys

    def _direct(self) -> Iterator[_Key | None]:
        # A program's own class may have methods of these names.
        own = self._has_own_members or self._survey.functions & set(SCALING_METHODS)
        for read in self._survey.reads:
            if read.name in SCALING_METHODS and not own:
                yield _key(read.owner, read.region)
        for test, region in self._survey.type_tests:
            types = types_asked(test)
            if types and all(_is_wrapper_class(each, region, self._meanings) for each in types):
                yield _key(test.args[0], region)

    def _compiled(self) -> Iterator[tuple[_Key, _Key | None]]:
        """Yield the optimizers of models, as in `model.optimizer`, with what `compile` gives them."""
        for chain in self._survey.chains:
            if chain.call is None or chain.names[-1] != "compile" or len(chain.parts) < 2:
                continue
            model = _key(chain.parts[-2], chain.region)
            named = [each.value for each in chain.call.keywords if each.arg == "optimizer"]
            values = named or [each for each in chain.call.args[:1] if not isinstance(each, ast.Starred)]
            if model is not None and values:
                yield (model[0], f"{model[1]}.optimizer"), self._given(values[0], chain.region)

    def _given(self, value: ast.expr, region: Region) -> _Key | None:
        return _KNOWN if self._is_wrapper(value, region) else _key(value, region)

    def _passed(self) -> Iterator[tuple[_Key, _Key | None]]:
        """Yield the parameters of the file's own functions and classes with what calls give them; None if unknown."""
        called: list[tuple[ast.Call, Function, int, Region]] = []
        for name, calls in self._survey.calls.items():
            for call, region in calls:
                bound = region.only(name)
                made = None if bound is None else bound.value
                function = _maker(made) if isinstance(made, ast.ClassDef) else made
                if isinstance(function, Function):
                    called.append((call, function, int(function is not made), region))
        methods = self._methods()
        places: list[Chain | Member] = [*self._survey.chains, *self._survey.loose]
        for place in places:
            # Of whatever object: it may be of the class.
            method = methods.get(place.name)
            if method is not None and place.call is not None:
                called.append((place.call, method, 1, place.region))
        for call, function, left_out, region in called:
            for parameter, value in _arguments(call, function, left_out):
                yield (id(self._survey.bodies[function]), parameter), self._given(value, region)

    def _methods(self) -> dict[str, Function]:
        """Return the methods that one class of the file alone has."""
        found: dict[str, list[Function]] = {}
        for function, region in self._survey.bodies.items():
            if region.self_name:
                found.setdefault(function.name, []).append(function)
        return {name: each[0] for name, each in found.items() if len(each) == 1 and name != "__init__"}

    def _kept(self) -> Iterator[tuple[_Key, _Key | None]]:
        """Yield the attributes of the file's own classes with what is assigned to them; None if unknown."""
        for region in self._survey.classes.values():
            for name, bindings in region.attributes.items():
                for binding in bindings:
                    value = binding.value
                    known = self._given(value, binding.region) if isinstance(value, ast.expr) else None
                    yield (id(region), f"self.{name}"), known


def _maker(owner: ast.ClassDef) -> Function | None:
    """Return the `__init__` of a class."""
    return next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)


def _arguments(call: ast.Call, function: Function, left_out: int) -> Iterator[tuple[str, ast.expr]]:
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][left_out:]
    if any(isinstance(each, ast.Starred) for each in call.args):
        return
    yield from zip(names, call.args, strict=False)
    yield from ((each.arg, each.value) for each in call.keywords if each.arg is not None)


def _key(node: ast.expr, region: Region) -> _Key | None:
    """Return what stands for a variable, an attribute or an item in its scope; None for other expressions."""
    text = ""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            text = f".{node.attr}{text}"
        elif isinstance(node, ast.Subscript):
            # All items of a container count as one.
            text = f"[]{text}"
        else:
            return None
        node = node.value
    method = region.method()
    if method is not None and node.id == method.self_name and method.parent is not None:
        return id(method.parent), f"self{text}"
    holder = region.holder(node.id)
    return None if holder is None else (id(holder), f"{node.id}{text}")


class ScaleCall(NamedTuple):
    """A call of a loss scale that was read before.

    Attributes:
        node: what is called.
        owner: the object that it is read from.
        region: the scope in which it is read.
        kind: what the object is.
        place: where it is called.
        is_only: whether nothing else is bound to what is called.
    """

    node: ast.expr
    owner: ast.expr
    region: Region
    kind: Instance
    place: Chain | Member
    is_only: bool


def calls_of_read_scales(objects: Objects) -> Iterator[ScaleCall]:
    """Yield calls of what was read before, and of what `getattr` gives.

    These are `scale()` after `scale = opt.loss_scale`, the same with `self.scale`, and `getattr(opt, "loss_scale")()`.

    Args:
        objects: what the objects of the file are.
    """
    for chain in objects.survey.chains:
        if chain.call is None or chain.call.args or chain.call.keywords or len(chain.names) > 2:
            continue
        method = chain.region.method()
        bindings: list[Binding] = []
        if len(chain.names) == 1:
            bindings = chain.region.find(chain.names[0])
        elif method is not None and method.parent is not None and chain.names[0] == method.self_name:
            bindings = method.parent.attributes.get(chain.names[1], [])
        for binding in bindings:
            if isinstance(binding.value, ast.Attribute) and binding.value.attr == "loss_scale":
                owner, region = binding.value.value, binding.region
                is_only = len(bindings) == 1
                yield ScaleCall(chain.node, owner, region, objects.of(owner, region), chain, is_only)
                break
    for member in objects.survey.loose:
        if member.call is not None and isinstance(member.node, ast.Call) and member.name == "loss_scale":
            kind = objects.of(member.owner, member.region)
            yield ScaleCall(member.node, member.owner, member.region, kind, member, True)
