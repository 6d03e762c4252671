"""Finds variables that a program uses as wrappers of Keras: by their methods, by isinstance, and as arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mpls.migrate.wrapper_calls import is_experimental, is_public
from mpls.names import named
from mpls.optimizer_members import SCALING_METHODS
from mpls.program.scopes import Function, Region

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["Evidence", "is_wrapper_class"]

_Key = tuple[int, str]
# What is a wrapper by what it is assigned.
_KNOWN: _Key = (0, "a wrapper")
# The number of calls through which arguments are followed.
_ROUNDS = 4


def is_wrapper_class(node: ast.expr, region: Region, analysis: Analysis) -> bool:
    """Return whether an expression certainly stands for the class of a wrapper of Keras."""
    meaning = analysis.meanings.of(node, region)
    rows = [named(path) for path in meaning.paths]
    is_one = all(row is not None and (is_experimental(row) or is_public(row)) for row in rows)
    return meaning.is_whole and bool(rows) and is_one


class Evidence:
    """The variables and attributes of a file that are used as wrappers.

    These are what `get_scaled_loss` or `get_unscaled_gradients` is called on, which only wrappers have; what
    `isinstance` takes with the class of a wrapper; what is passed to a parameter of the file's own functions, or kept
    as an attribute, that is such a variable; parameters and attributes that get nothing else; and the optimizers of
    models that `compile` gives nothing else. Where a class of the program's own has a `loss_scale` that may be called,
    other modules may pass its objects: then only `isinstance` and `compile` tell.

    Args:
        analysis: the file.
        is_wrapper: tells whether an expression is a wrapper by what it is assigned.
    """

    def __init__(self, analysis: Analysis, is_wrapper: Callable[[ast.expr, Region], bool]) -> None:
        self._analysis = analysis
        self._survey = analysis.survey
        self._is_wrapper = is_wrapper
        self._keys: set[_Key | None] = {_KNOWN, *self._direct()} - {None}
        given: dict[_Key, list[_Key | None]] = {}
        others = () if analysis.facts.has_own_members else (*self._passed(), *self._kept())
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
        own = self._analysis.facts.has_own_members or self._survey.functions & set(SCALING_METHODS)
        for read in self._survey.reads:
            if read.node.attr in SCALING_METHODS and not own:
                yield _key(read.node.value, read.region)
        for test, region in self._survey.type_tests:
            types = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
            if types and all(is_wrapper_class(each, region, self._analysis) for each in types):
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
        for name, calls in self._survey.calls.items():
            for call, region in calls:
                bindings = region.find(name)
                made = bindings[0].value if len(bindings) == 1 else None
                function = _maker(made) if isinstance(made, ast.ClassDef) else made
                inner = self._survey.bodies.get(function) if isinstance(function, Function) else None
                if inner is not None and isinstance(function, Function):
                    for parameter, value in _arguments(call, function, 1 if function is not made else 0):
                        yield (id(inner), parameter), self._given(value, region)

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
