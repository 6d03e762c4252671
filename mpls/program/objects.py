"""What the objects of a program are: in one file by what happens to them, and in all files by their names.

`Objects` follows values in one file, and says nothing where anything is unknown: `migrate` rewrites by it. `Named` adds
what other files of a program give names to: `run` and `doctor` choose options by both. A new kind of evidence is a
method of `_Evidence`, or for names a function that yields a `Flow`: all of them see it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from mpls.names import named
from mpls.optimizer_members import ATTRIBUTES_OF_LOSS_SCALES, SCALING_METHODS
from mpls.program.meaning import Meaning, Meanings
from mpls.program.releases import Releases
from mpls.program.scopes import (
    Binding,
    Chain,
    Function,
    Member,
    Region,
    Survey,
    attribute_of,
    chain_of,
    types_asked,
)
from mpls.program.tables import Kind, is_scale_class, kind_of

Kinds = frozenset[Kind]
# What is unknown, or may be anything.
UNKNOWN: Kinds = frozenset()
_WRAPPER: Kinds = frozenset((Kind.WRAPPER,))
_NONE: Kinds = frozenset((Kind.NONE,))
_WRAPPERS: Kinds = _WRAPPER | {Kind.EXPERIMENTAL_WRAPPER, Kind.PUBLIC_WRAPPER}
# What a name may have before it gets the wrapper.
_UNWRAPPED: Kinds = _NONE | {Kind.OPTIMIZER, Kind.LEGACY_OPTIMIZER}
# Their loss scale is an object, which is called.
HAVE_OBJECTS: Kinds = frozenset((Kind.POLICY, Kind.OWN))
_DYNAMIC_SCALE: Kinds = frozenset((Kind.DYNAMIC_SCALE,))
_REWRITE = ".enable_mixed_precision_graph_rewrite"
# The functions that set the global policy: the experimental and the public one.
_SETTERS = ("set_policy", "set_global_policy")
_OF_POLICY = ("name", "loss_scale")
# Variables that are assigned other variables are followed this deep.
_DEPTH = 8


def are_wrappers(kinds: Kinds) -> bool:
    """Return whether an object of some kinds has the members of wrappers, where it has any of these members."""
    return not _WRAPPERS.isdisjoint(kinds)


class Objects:
    """Tells what expressions of a file are.

    Args:
        meanings: what the names in it stand for.
        has_own_members: whether a class of the program's has a `loss_scale` that may be called.
        is_set_here: whether no other module sets its variables.
        names_scaling: whether the program has names of TensorFlow's loss scaling: without, it has no wrapper.
    """

    def __init__(
        self, meanings: Meanings, has_own_members: bool, *, is_set_here: bool = False, names_scaling: bool = True
    ) -> None:
        self._is_set_here = is_set_here
        self._names_scaling = names_scaling
        self.survey: Survey = meanings.survey
        self._meanings = meanings
        self._has_own_members = has_own_members
        self._known: dict[tuple[int, str], Kinds] = {}
        self._asked: set[tuple[int, str]] = set()

    @functools.cached_property
    def _evidence(self) -> _Evidence:
        return _Evidence(
            self._meanings,
            self._has_own_members,
            self._names_scaling,
            lambda node, region: self._kinds(node, region, 0),
        )

    def of(self, node: ast.expr, region: Region) -> Kinds:
        """Return what an expression in a scope is: a wrapper, if all else that it may be has no loss scale."""
        found = self._kinds(node, region, 0)
        if are_wrappers(found) and self._is_set_elsewhere(node, region):
            return UNKNOWN
        return _WRAPPER if not found and self._evidence.has(node, region) else found

    def is_wrapper(self, node: ast.expr, region: Region) -> bool:
        """Return whether an expression in a scope is a wrapper of Keras, or has been an optimizer or None before."""
        return are_wrappers(self.of(node, region))

    def is_wrapper_class(self, node: ast.expr, region: Region) -> bool:
        """Return whether an expression in a scope is the class of a wrapper of Keras, or its direct subclass."""
        return are_wrappers(self._of_call(ast.Call(node, [], []), region, 0))

    def reads_wrapper(self, read: Member) -> bool:
        """Return whether the object is one that an attribute is read from."""
        return self.is_wrapper(read.owner, read.region)

    def is_scale_class(self, node: ast.expr, region: Region) -> bool:
        """Return whether an expression in a scope stands for a class of loss scales."""
        rows = [named(path) for path in self._meanings.of(node, region).paths]
        return bool(rows) and all(row is not None and is_scale_class(row) for row in rows)

    def _is_set_elsewhere(self, node: ast.expr, region: Region) -> bool:
        """Return whether a class of the program's own has a loss scale, and its objects may take an expression's place.

        A subclass, or any other module, may set an attribute, and a variable at the top of a module.
        """
        if not self._has_own_members:
            return False
        if isinstance(node, ast.Name):
            return not self._is_set_here and region.holder(node.id) is self.survey.module
        return isinstance(node, ast.Attribute)

    def _kinds(self, node: ast.expr, region: Region, depth: int) -> Kinds:
        if depth > _DEPTH:
            return UNKNOWN
        if isinstance(node, ast.Constant) and node.value is None:
            return _NONE
        if isinstance(node, ast.NamedExpr):
            return self._kinds(node.value, region, depth + 1)
        if isinstance(node, ast.IfExp):
            return _any_of([self._kinds(each, region, depth + 1) for each in (node.body, node.orelse)])
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
        return UNKNOWN

    def _class_of(self, node: ast.Name, region: Region) -> Region | None:
        """Return the scope of the class of the file that a variable is certainly an instance of."""
        bound = region.only(node.id)
        value = None if bound is None else bound.value
        if bound is None or not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            return None
        made = bound.region.only(value.func.id)
        owner = None if made is None else made.value
        return self.survey.classes.get(owner) if isinstance(owner, ast.ClassDef) else None

    def _of_name(self, name: str, region: Region, depth: int) -> Kinds:
        key = (id(region.holder(name)), name)
        if key in self._known:
            return self._known[key]
        if key in self._asked:
            # A name that is bound to itself, as in `opt = wrap(opt)`.
            return UNKNOWN
        self._asked.add(key)
        found = self._of_bindings(region.find(name), depth)
        self._asked.discard(key)
        if not self._asked:
            self._known[key] = found
        return found

    def _of_bindings(self, bindings: Iterable[Binding], depth: int) -> Kinds:
        values = ((each.value, each.region) for each in bindings)
        return _any_of(
            [
                self._kinds(value, region, depth + 1) if isinstance(value, ast.expr) else UNKNOWN
                for value, region in values
            ]
        )

    def _of_self(self, method: Region) -> Kinds:
        within = method.parent
        assert within is not None
        assert isinstance(within.owner, ast.ClassDef)
        assert within.parent is not None
        return self._of_class(within.owner, within.parent)

    def _of_class(self, owner: ast.ClassDef, region: Region) -> Kinds:
        if any(getattr(each, "name", "") == "loss_scale" for each in owner.body):
            return frozenset((Kind.OWN,))
        found = (_wrapper_class(base, region, self._meanings) for base in owner.bases)
        return next(filter(None, found), UNKNOWN)

    def _of_call(self, node: ast.Call, region: Region, depth: int) -> Kinds:
        meaning = self._meanings.of(node.func, region)
        paths = meaning.paths if meaning.is_whole else ()
        if any(path.endswith(_REWRITE) for path in paths):
            # Given an optimizer of Keras, it returns one of Keras.
            given = self._kinds(node.args[0], region, depth + 1) if node.args else UNKNOWN
            return _WRAPPER if given and given <= _UNWRAPPED else UNKNOWN
        if paths:
            made = _any_of([frozenset(filter(None, (kind_of(path),))) for path in paths])
            if made:
                return made
        if not isinstance(node.func, ast.Name):
            return UNKNOWN
        return _any_of([self._of_callable(each, depth) for each in region.find(node.func.id)])

    def _of_callable(self, bound: Binding, depth: int) -> Kinds:
        """Return what a call of a class or function of the file gives."""
        if isinstance(bound.value, ast.ClassDef):
            return self._of_class(bound.value, bound.region)
        if not isinstance(bound.value, ast.FunctionDef) or bound.value.decorator_list:
            return UNKNOWN
        returned = self.survey.returns.get(bound.value, [])
        return _any_of(
            [_NONE if value is None else self._kinds(value, within, depth + 1) for value, within in returned]
        )


def _any_of(found: list[Kinds]) -> Kinds:
    """Return what something is that may be any of several; they go together if none has a loss scale but wrappers."""
    if not all(found):
        return UNKNOWN
    kinds: Kinds = frozenset().union(*found)
    return kinds if len(kinds) == 1 or kinds <= _WRAPPERS | _UNWRAPPED else UNKNOWN


def _wrapper_class(node: ast.expr, region: Region, meanings: Meanings) -> Kinds:
    """Return the kinds of wrappers of which an expression certainly is the class; none for any other."""
    meaning = meanings.of(node, region)
    kinds = {None if path.endswith(_REWRITE) else kind_of(path) for path in meaning.paths if meaning.is_whole}
    return frozenset(kind for kind in kinds if kind is not None) if kinds <= _WRAPPERS else UNKNOWN


_Key = tuple[int, str]
# What is a wrapper by what it is assigned, and what is something else.
_KNOWN: _Key = (0, "a wrapper")
_OTHER: _Key = (0, "something else")


class _Evidence:
    """The variables and attributes of a file that are used as wrappers.

    These are what `get_scaled_loss` or `get_unscaled_gradients` is called on, unless it comes from a library or another
    class, or the program has no name of TensorFlow's loss scaling; what `isinstance` takes with the class of a wrapper;
    what is passed to a parameter of the file's own functions, or kept as an attribute, that is such a variable;
    parameters and attributes that get nothing else; and the optimizers of models that `compile` gives nothing else, or
    that it wraps. Where a class of the program's own has a `loss_scale` that may be called, other modules may pass its
    objects: then only `isinstance` and `compile` tell.

    Args:
        meanings: what the names in the file stand for.
        has_own_members: whether a class of the program's has a `loss_scale` that may be called.
        names_scaling: whether the program has names of TensorFlow's loss scaling.
        kinds: tells what an expression is by what it is assigned.
    """

    def __init__(
        self,
        meanings: Meanings,
        has_own_members: bool,
        names_scaling: bool,
        kinds: Callable[[ast.expr, Region], Kinds],
    ) -> None:
        self._meanings = meanings
        self._names_scaling = names_scaling
        self._known_others: dict[tuple[ast.expr, bool], bool] = {}
        self._survey = meanings.survey
        self._has_own_members = has_own_members
        self._kinds = kinds
        given: dict[_Key, list[_Key | None]] = {}
        others = () if has_own_members else (*self._passed(), *self._kept())
        for target, value in (*others, *self._compiled(), *self._models()):
            given.setdefault(target, []).append(value)
        apart: set[_Key | None] = {_OTHER, None}
        while more := {target for target, values in given.items() if not apart.isdisjoint({*values} - {None})} - apart:
            apart |= more
        self._keys: set[_Key | None] = {_KNOWN, *self._direct()} - apart
        while True:
            before = len(self._keys)
            for target, values in given.items():
                if target in self._keys:
                    self._keys |= {*values} - apart
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
        own = self._has_own_members or not self._names_scaling or self._survey.functions & set(SCALING_METHODS)
        for read in self._survey.reads:
            if read.name in SCALING_METHODS and not own and not self._is_other(read.owner, read.region):
                yield _key(read.owner, read.region)
        for test, region in self._survey.type_tests:
            types = types_asked(test)
            if types and all(_wrapper_class(each, region, self._meanings) for each in types):
                yield _key(test.args[0], region)

    def _compiled(self) -> Iterator[tuple[_Key, _Key | None]]:
        """Yield the optimizers of models, as in `model.optimizer`, with what `compile` gives them."""
        for chain in self._survey.called.get("compile", ()):
            if chain.call is None or len(chain.parts) < 2:
                continue
            model = _key(chain.parts[-2], chain.region)
            named = [each.value for each in chain.call.keywords if each.arg == "optimizer"]
            values = named or [each for each in chain.call.args[:1] if not isinstance(each, ast.Starred)]
            if model is not None and values:
                is_wrapped = self._is_wrapped_by_policy and self._can_be_wrapped(values[0], chain.region)
                yield _optimizer_of(model), _KNOWN if is_wrapped else self._given(values[0], chain.region)

    @functools.cached_property
    def _is_wrapped_by_policy(self) -> bool:
        return sets_scaling_policy(self._meanings)

    def _can_be_wrapped(self, value: ast.expr, region: Region) -> bool:
        """Return whether what `compile` gets is an optimizer, and not an object with a `loss_scale` of its own."""
        kinds = self._kinds(value, region)
        return not self._has_own_members or isinstance(value, ast.Constant) or (bool(kinds) and kinds <= _UNWRAPPED)

    def _models(self) -> Iterator[tuple[_Key, _Key | None]]:
        """Yield what else has the optimizer of a model: variables for it, and models that functions return."""
        for target, value, _, region in self._survey.assigned:
            key = _key(target, region) if isinstance(target, ast.Name) and region.only(target.id) is not None else None
            if key is not None and isinstance(value, ast.Attribute) and value.attr == "optimizer":
                yield key, self._given(value, region)
            elif key is not None and isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                bound = region.only(value.func.id)
                function = None if bound is None else bound.value
                for returned, within in self._survey.returns.get(function, ()) if function is not None else ():
                    inner = None if returned is None else _key(returned, within)
                    yield _optimizer_of(key), None if inner is None else _optimizer_of(inner)

    def _given(self, value: ast.expr, region: Region) -> _Key | None:
        if are_wrappers(self._kinds(value, region)):
            return _KNOWN
        return _OTHER if self._is_other(value, region) else _key(value, region)

    def _is_other(self, node: ast.expr, region: Region, is_whole: bool = True) -> bool:
        """Return whether an expression comes from a library, or is an object of a class of the file that is no wrapper.

        Args:
            node: the expression.
            region: the scope that it is in.
            is_whole: whether it is the object that is asked about; False if that is only read from it.
        """
        key = node, is_whole
        if key not in self._known_others:
            # Set first, because names may be bound to each other in a circle.
            self._known_others[key] = False
            self._known_others[key] = self._comes_from_other(node, region, is_whole)
        return self._known_others[key]

    def _comes_from_other(self, node: ast.expr, region: Region, is_whole: bool) -> bool:
        kinds = self._kinds(node, region) if is_whole else UNKNOWN
        if kinds:
            return not kinds <= _WRAPPERS | _UNWRAPPED
        if isinstance(node, ast.IfExp | ast.BoolOp):
            parts = node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse)
            return any(self._is_other(each, region, is_whole) for each in parts)
        if isinstance(node, ast.Call):
            made = region.find(node.func.id) if isinstance(node.func, ast.Name) else []
            values = (each for bound in made for each in self._survey.returns.get(bound.value, ()))
            is_made = is_whole and any(isinstance(each.value, ast.ClassDef) for each in made)
            is_returned = any(value is not None and self._is_other(value, within, is_whole) for value, within in values)
            return is_made or is_returned or self._is_other(node.func, region, False)
        method = region.method()
        owner = node.value if isinstance(node, ast.Attribute | ast.Subscript) else node
        if method is not None and isinstance(owner, ast.Name) and owner.id == method.self_name:
            within = method.parent
            assert within is not None
            assert isinstance(within.owner, ast.ClassDef)
            kept = within.attributes.get(node.attr) if isinstance(node, ast.Attribute) else None
            if kept is not None:
                return any(self._binds_other(each, is_whole) for each in kept)
            return any(self._is_other(each, within, False) for each in within.owner.bases)
        if owner is not node:
            return self._is_other(owner, region, False)
        bindings = region.find(node.id) if isinstance(node, ast.Name) else []
        return any(self._binds_other(each, is_whole) for each in bindings)

    def _binds_other(self, binding: Binding, is_whole: bool) -> bool:
        value = binding.value
        if isinstance(value, ast.alias):
            return not self._meanings.of_import(value)
        return isinstance(value, ast.expr) and self._is_other(value, binding.region, is_whole)

    def _passed(self) -> Iterator[tuple[_Key, _Key | None]]:
        """Yield the parameters of the file's own functions and classes with what calls give them; None if unknown."""
        called: list[tuple[ast.Call, Function, int, Region]] = []
        for name in self._survey.functions | {each.name for each in self._survey.classes}:
            for call, region in self._survey.calls_of(name):
                bound = region.only(name)
                made = None if bound is None else bound.value
                function = _maker(made) if isinstance(made, ast.ClassDef) else made
                if isinstance(function, Function):
                    called.append((call, function, int(function is not made), region))
        for name, method in self._methods().items():
            # Of whatever object: it may be of the class.
            loose = (each for each in self._survey.loose if each.name == name)
            for place in (*self._survey.called.get(name, ()), *loose):
                if place.call is not None:
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


def _optimizer_of(model: _Key) -> _Key:
    return model[0], f"{model[1]}.optimizer"


# Policies under which `compile` wraps optimizers.


def sets_scaling_policy(meanings: Meanings) -> bool:
    """Return whether a file sets an experimental policy with a loss scale, and no public one, which has none."""
    survey, found = meanings.survey, False
    imported = {alias.asname or "" for each in survey.imports for alias in each.node.names if alias.name in _SETTERS}
    for chain in (each for name in {*_SETTERS, *imported} for each in survey.called.get(name, ())):
        meaning = meanings.of_names(chain.names, chain.region)
        rows = [named(path) for path in meaning.paths]
        if any(row is not None and row.target.startswith("mpls.keras:") for row in rows):
            return False
        is_one = meaning.is_whole and _is_experimental(meaning, "set_policy")
        given = [] if chain.call is None else [*chain.call.args, *(each.value for each in chain.call.keywords)]
        found = found or (is_one and len(given) == 1 and _has_loss_scale(given[0], chain.region, meanings))
    return found


def _is_experimental(meaning: Meaning, name: str) -> bool:
    """Return whether something stands for the experimental object of a name, by whatever path."""
    rows = [named(path) for path in meaning.paths]
    return bool(rows) and all(row is not None and row.target == f"mpls.experimental:{name}" for row in rows)


def _has_loss_scale(policy: ast.expr, region: Region, meanings: Meanings, depth: int = 0) -> bool:
    """Return whether an expression surely is an experimental policy with a loss scale, or the name of one."""
    if isinstance(policy, ast.Name) and depth < _DEPTH:
        bound = region.only(policy.id)
        value = None if bound is None else bound.value
        is_known = bound is not None and isinstance(value, ast.expr)
        return is_known and _has_loss_scale(value, bound.region, meanings, depth + 1)  # type: ignore[arg-type,union-attr]
    if not isinstance(policy, ast.Call):
        return isinstance(policy, ast.Constant) and policy.value == "mixed_float16"
    if not _is_experimental(meanings.of(policy.func, region), "Policy"):
        return False
    given = {each.arg: each.value for each in policy.keywords} | dict(zip(_OF_POLICY, policy.args, strict=False))
    scale = given.get("loss_scale")
    if scale is not None:
        return not (isinstance(scale, ast.Constant) and scale.value is None)
    return "name" in given and _has_loss_scale(given["name"], region, meanings, depth + 1)


# What is done with loss scales as only the objects allow that they were up to TF 2.3.


class Taken(Enum):
    """How a loss scale is taken as an object."""

    CALLED = "it is called"
    CALLED_LATER = "a variable or an attribute that it was assigned to is called"
    MEMBER = "a member is read or set that tensors lack"
    TESTED = "isinstance or issubclass asks for a class of loss scales"
    TYPE = "its type is asked for"
    ASSERTED = "it is asserted to be another object"
    COMPARED = "it is compared by is"
    CONFIG = "an item of the config is read that has another name today"
    SET = "the private attribute is set that had it"
    GIVEN = "get_loss_scale_weights gets it"
    SHARED = "a dynamic one is called that a wrapper got, which has copied its settings since TF 2.4"


class ScaleUse(NamedTuple):
    """A place where the loss scale of something, or its config, is taken as what wrappers had up to TF 2.3.

    Attributes:
        how: what is done.
        owner: the object whose loss scale or config it is.
        region: the scope in which that is read.
        place: where it is done.
        is_only: whether what is called is bound to nothing else.
    """

    how: Taken
    owner: ast.expr
    region: Region
    place: Chain | Member
    is_only: bool = True


# Members of LossScale objects, of which tensors have none.
MEMBERS_OF_LOSS_SCALES = frozenset((*ATTRIBUTES_OF_LOSS_SCALES, "update", "get_config"))


def uses_of_scales(objects: Objects) -> Iterator[ScaleUse]:
    """Yield where a file takes the loss scale or the config of anything, a wrapper or not, as what wrappers had."""
    yield from _called_or_asked(objects)
    yield from _shared(objects)
    for functions in (_called_later, _members, _configs):
        yield from functions(objects.survey)


def _called_or_asked(objects: Objects) -> Iterator[ScaleUse]:
    asked = dict(_asked(objects))
    for read in objects.survey.members:
        if read.name not in ("loss_scale", "_loss_scale"):
            continue
        how = asked.get(read.node)
        if read.is_set:
            how = Taken.SET if read.name == "_loss_scale" else None
        elif read.call is not None:
            how = Taken.CALLED if _takes_nothing(read.call) else None
        if how is not None:
            yield ScaleUse(how, read.owner, read.region, read)


def _shared(objects: Objects) -> Iterator[ScaleUse]:
    survey = objects.survey
    # Where the attribute is read without a call, the program may expect the tensor of TF 2.4.
    is_tensor = any(read.name == "loss_scale" and read.call is None for read in survey.reads)
    if is_tensor or "DynamicLossScale" not in survey.called:
        return
    called = [
        each
        for each in survey.chains
        if _takes_nothing(each.call) and objects.of(each.node, each.region) == _DYNAMIC_SCALE
    ]
    is_only = len(survey.called["DynamicLossScale"]) == 1
    for chain in survey.chains if called else ():
        given = [] if chain.call is None else [*chain.call.args[1:2], *(each.value for each in chain.call.keywords)]
        for value in given:
            if isinstance(value, ast.Call) or objects.of(value, chain.region) != _DYNAMIC_SCALE:
                continue
            names = chain_of(value)
            for each in called:
                # Of several, only the same name is surely the same.
                is_same = each.names == names and _bound_to(names, each.region) == _bound_to(names, chain.region)
                if is_only or is_same:
                    yield ScaleUse(Taken.SHARED, chain.call, chain.region, each)  # type: ignore[arg-type]


def _takes_nothing(call: ast.Call | None) -> bool:
    """Return whether something is called, and without arguments."""
    return call is not None and not call.args and not call.keywords


def _bound_to(names: tuple[str, ...], region: Region) -> list[Binding]:
    """Return what binds a variable, or an attribute of `self`; nothing for other names."""
    if len(names) == 1:
        return region.find(names[0])
    method = region.method() if len(names) == 2 else None
    is_self = method is not None and method.parent is not None and names[0] == method.self_name
    return method.parent.attributes.get(names[1], []) if is_self else []  # type: ignore[union-attr]


def _members(survey: Survey) -> Iterator[ScaleUse]:
    for chain in survey.chains:
        for place, name in enumerate(chain.names) if not MEMBERS_OF_LOSS_SCALES.isdisjoint(chain.names) else ():
            if place > 1 and name in MEMBERS_OF_LOSS_SCALES and chain.names[place - 1] == "loss_scale":
                part = Member(chain.parts[place], None, chain.region, chain.statement, chain.choice)
                yield ScaleUse(Taken.MEMBER, chain.parts[place - 2], chain.region, part)


def _configs(survey: Survey) -> Iterator[ScaleUse]:
    configs = {each.call: each for each in survey.reads if each.name == "get_config" and each.call is not None}
    for item, statement, region in survey.nodes[ast.Subscript]:
        bound = region.only(item.value.id) if isinstance(item.value, ast.Name) else None
        value = item.value if bound is None else bound.value
        config = configs.get(value) if isinstance(value, ast.Call) else None
        key = getattr(item.slice, "value", None)
        if config is not None and key in ("loss_scale", "optimizer") and isinstance(item.ctx, ast.Load):
            yield ScaleUse(Taken.CONFIG, config.owner, config.region, Member(item, None, region, statement))


def _asked(objects: Objects) -> Iterator[tuple[ast.expr, Taken]]:
    """Yield what a file asks for its class or identity, or for its variables."""
    survey = objects.survey
    for chain in survey.called.get("get_loss_scale_weights", ()):
        given = [] if chain.call is None else chain.call.args[:1]
        # A wrapper has the object in `_loss_scale` on every release.
        yield from ((each, Taken.GIVEN) for each in given if attribute_of(each)[1] == "loss_scale")
    yield from ((call.args[0], Taken.TYPE) for call, _ in survey.calls_of("type") if call.args)
    denied = {each.node.operand for each in survey.nodes[ast.UnaryOp]}
    for test, region in survey.type_tests:
        if test not in denied and all(objects.is_scale_class(each, region) for each in types_asked(test)):
            yield test.args[0], Taken.TESTED
    asserted = {each.node.test for each in survey.nodes[ast.Assert]}
    for node, _, _ in survey.nodes[ast.Compare]:
        is_constant = any(isinstance(each, ast.Constant) for each in node.comparators)
        if isinstance(node.ops[0], ast.Is | ast.IsNot) and not is_constant:
            how = Taken.ASSERTED if node in asserted and isinstance(node.ops[0], ast.Is) else Taken.COMPARED
            yield from ((side, how) for side in (node.left, *node.comparators))
    for chain in survey.called.get("assertIs", ()):
        sides = [] if chain.call is None else chain.call.args[:2]
        if not any(isinstance(each, ast.Constant) for each in sides):
            yield from ((side, Taken.ASSERTED) for side in sides)


def _called_later(survey: Survey) -> Iterator[ScaleUse]:
    """Yield calls of `scale` after `scale = opt.loss_scale`, and the same with `self.scale`."""
    assigned = [each for each in survey.assigned if attribute_of(each.value)[1] == "loss_scale"]
    names = dict.fromkeys(chain_of(each.target)[-1] for each in assigned)
    for chain in (each for name in names for each in survey.called.get(name, ())):
        if not _takes_nothing(chain.call):
            continue
        bindings = _bound_to(chain.names, chain.region)
        for binding in bindings:
            if isinstance(binding.value, ast.Attribute) and binding.value.attr == "loss_scale":
                is_only = len(bindings) == 1
                yield ScaleUse(Taken.CALLED_LATER, binding.value.value, binding.region, chain, is_only)
                break


# In all files of a program: what its names are.


class Value(NamedTuple):
    """A value that is passed on, or an object that an attribute is read from.

    Attributes:
        names: the names that lead to it, `("model", "optimizer")`. `make()` is what a call of `make` returns, `Net()`
            is also `self` in a class `Net`, and `()` is what TensorFlow or Keras returns, or has no name.
        kinds: what it is by what happens in its file.
        made: what TensorFlow or Keras returns that its names begin with.
    """

    names: tuple[str, ...]
    kinds: Kinds = UNKNOWN
    made: Kinds = UNKNOWN

    @property
    def name(self) -> str:
        """The last name."""
        return self.names[-1]

    @property
    def is_call(self) -> bool:
        """Whether it is what a call returns, `self`, or without a name."""
        return self.name.endswith("()")

    @property
    def is_wrapper(self) -> bool:
        """Whether its file shows that it is a wrapper, and nothing else before."""
        return bool(self.kinds) and self.kinds <= _WRAPPERS

    @property
    def owner(self) -> Value:
        """The object that it is an attribute of."""
        return Value(self.names[:-1] or ("()",), self.made if len(self.names) == 2 else UNKNOWN, self.made)


class Flow(NamedTuple):
    """A name that gets a value.

    Attributes:
        name: the last name of a variable or attribute; `make()` for what the function `make` returns or a class makes.
        value: the value.
        is_around: whether the value is a wrapper around the one that the name had before.
        is_item: whether the value is an item of a variable or attribute.
    """

    name: str
    value: Value
    is_around: bool = False
    is_item: bool = False

    @property
    def is_known(self) -> bool:
        """Whether what the value is tells what the name is; not for a name that gets another one's value."""
        return self.value.is_call or self.is_item


def value_of(node: ast.expr, region: Region, releases: Releases, objects: Objects | None = None) -> Value:
    """Return the record of a value.

    Args:
        node: the expression.
        region: the scope that it is in.
        releases: what the names of the file stand for.
        objects: what its objects are, if that is to be asked.
    """
    inner = node
    while True:
        owner = inner.value if isinstance(inner, ast.Subscript) else attribute_of(inner)[0]
        if owner is None:
            break
        inner = owner
    first, *others = chain_of(node)
    made = _kinds_of(inner.func, region, releases) if isinstance(inner, ast.Call) else None
    if isinstance(inner, ast.Call):
        first = f"{chain_of(inner.func)[-1]}()" if made is None else "()"
    elif first == "self":
        first = f"{_class_around(region)}()"
    if inner is node and made is not None:
        return Value((first,), made)
    kinds = UNKNOWN if objects is None else objects.of(node, region) - _NONE
    return Value((first or "()", *others), kinds, made or UNKNOWN)


def _kinds_of(function: ast.expr, region: Region, releases: Releases) -> Kinds | None:
    """Return what a function or class of TensorFlow or Keras makes; None for others."""
    paths = [path for path, _ in releases.possible(function, region)]
    return frozenset(kind for kind in map(kind_of, paths) if kind is not None) if paths else None


def _class_around(region: Region | None) -> str:
    while region is not None:
        if isinstance(region.owner, ast.ClassDef):
            return region.owner.name
        region = region.parent
    return ""


def flows_in(releases: Releases) -> Iterator[Flow]:
    """Yield what the names of a file get."""
    for functions in (_assigned, _returned, _derived, _tested):
        yield from functions(releases)


def _assigned(releases: Releases) -> Iterator[Flow]:
    for target, whole, statement, region in releases.survey.assigned:
        parts = [each for each in _parts(whole) if _tells(each)]
        name = chain_of(target)[-1] if parts else ""
        if not name or releases.state(statement).is_dead:
            continue
        for part in parts:
            value = value_of(part, region, releases)
            given = {chain_of(each)[-1] for each in part.args} if isinstance(part, ast.Call) else ()
            is_around = name in given and Kind.PUBLIC_WRAPPER in value.kinds
            yield Flow(name, value, is_around, isinstance(part, ast.Subscript))


def _tells(node: ast.expr) -> bool:
    """Return whether an expression may tell what gets its value."""
    return isinstance(node, ast.Call | ast.Subscript) or attribute_of(node)[1] == "optimizer"


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what an expression may be, or what may be in it."""
    inner: list[ast.expr] = []
    if isinstance(node, ast.IfExp):
        inner = [node.body, node.orelse]
    elif isinstance(node, ast.BoolOp | ast.Dict):
        inner = [*node.values]
    elif isinstance(node, ast.List | ast.Tuple):
        inner = [*node.elts]
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        inner = [node.elt]
    elif isinstance(node, ast.DictComp):
        inner = [node.value]
    else:
        yield node
    for each in inner:
        yield from _parts(each)


def _returned(releases: Releases) -> Iterator[Flow]:
    all_returned = releases.survey.returns.items()
    for name, returned in ((owner.name, found) for owner, found in all_returned if isinstance(owner, Function)):
        for value, region in returned:
            for part in _parts(value) if value is not None else ():
                yield Flow(f"{name}()", value_of(part, region, releases))


def _derived(releases: Releases) -> Iterator[Flow]:
    for node, region in releases.survey.classes.items():
        outer = region.parent
        for base in node.bases if outer is not None else ():
            kinds = None if outer is None else _kinds_of(base, outer, releases)
            value = Value((f"{chain_of(base)[-1]}()",)) if kinds is None else Value(("()",), kinds)
            yield Flow(f"{node.name}()", value)


def _tested(releases: Releases) -> Iterator[Flow]:
    """Yield what `isinstance` asks for."""
    for test, region in releases.survey.type_tests:
        if getattr(test.func, "id", "") == "isinstance":
            found = [_kinds_of(each, region, releases) or UNKNOWN for each in types_asked(test)]
            kinds: Kinds = UNKNOWN.union(*found)
            if kinds:
                yield Flow(chain_of(test.args[0])[-1], Value(("",), kinds))


class Named:
    """The kinds of a program's own variables, classes and functions, by their names, in whatever file.

    Args:
        flows: what names get.
    """

    def __init__(self, flows: Iterable[Flow]) -> None:
        self._flows: dict[str, list[Flow]] = {}
        self._known: dict[str, set[Kind]] = {}
        self._only: dict[tuple[str, Kind], bool] = {}
        for flow in flows:
            self._flows.setdefault(flow.name, []).append(flow)
        self._around = {name for name, found in self._flows.items() if any(each.is_around for each in found)}
        self._around |= {
            name
            for name, found in self._flows.items()
            if name.endswith("()") and any(each.value.name in self._around for each in found)
        }
        while True:
            before = sum(map(len, self._known.values()))
            for name, found in self._flows.items():
                for flow in found:
                    self._only.clear()
                    self._known.setdefault(name, set()).update(self._given(flow))
            if sum(map(len, self._known.values())) == before:
                break
        # What was asked before all names were known.
        self._only.clear()

    def _given(self, flow: Flow) -> Kinds:
        if flow.name.endswith("()") or flow.is_known or flow.value.kinds:
            return self.of(flow.value)
        return frozenset((Kind.MODELS_OPTIMIZER,)) if self._is_models_optimizer(flow.value) else UNKNOWN

    def of(self, value: Value) -> Kinds:
        """Return the kinds that a value may be of."""
        return frozenset(self._known.get(value.name, ())) or value.kinds

    def is_one(self, value: Value, *kinds: Kind) -> bool:
        """Return whether a value may be of some kinds, and is no policy."""
        found = self.of(value)
        return not found.isdisjoint(kinds) and Kind.POLICY not in found

    def is_unknown(self, value: Value) -> bool:
        """Return whether nothing is known of a variable or an attribute but that it may be a wrapper."""
        return not value.is_call and self.of(value) <= _WRAPPER

    def is_only(self, value: Value, kind: Kind) -> bool:
        """Return whether a value is of a kind, and so is every object that the program assigns to its name.

        For wrappers, the optimizer that a name had before it got the wrapper around it does not count.
        """
        if value.is_call:
            return self.of(value) == {kind}
        key = value.name, kind
        if key not in self._only:
            self._only[key] = self._gets_only(value.name, kind)
        return self._only[key]

    def _gets_only(self, name: str, kind: Kind) -> bool:
        made = [each for each in self._flows.get(name, ()) if each.is_known]
        # A test for the release may choose between it and one of mpls.
        same = frozenset((kind, Kind.WRAPPER_OF_MPLS) if kind is Kind.PUBLIC_WRAPPER else (kind,))
        found = []
        for each in made:
            is_around = not self._around.isdisjoint((each.name, each.value.name))
            found.append((self.of(each.value), same | _UNWRAPPED if is_around else same))
        return any(kind in kinds for kinds, _ in found) and all(kinds and kinds <= may_be for kinds, may_be in found)

    def is_of_model(self, value: Value) -> bool:
        """Return whether a value is `self.model.optimizer` or the like, or a variable for it and nothing else."""
        known = self._known.get(value.name, UNKNOWN)
        return known == {Kind.MODELS_OPTIMIZER} if Kind.MODELS_OPTIMIZER in known else self._is_models_optimizer(value)

    def may_be_of_model(self, value: Value) -> bool:
        """Return the same, also for a variable that may be something else."""
        return Kind.MODELS_OPTIMIZER in self._known.get(value.name, UNKNOWN) or self._is_models_optimizer(value)

    def _is_models_optimizer(self, value: Value) -> bool:
        if value.name != "optimizer" or len(value.names) < 2:
            return False
        return value.names[-2] == "model" or self.is_only(value.owner, Kind.MODEL)
