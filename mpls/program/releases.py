"""What names stand for on which release, and which code runs on every one: tests for the release, and dead code."""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from mpls.optimizer_members import WEIGHTS
from mpls.program.meaning import (
    MOST_ALIASES,
    NOTHING,
    ROOTS,
    Branch,
    Meaning,
    Meanings,
    Modules,
    Others,
    on_branch,
    union,
)
from mpls.program.scopes import (
    Binding,
    Choice,
    Located,
    Region,
    Statement,
    Survey,
    attribute_of,
    loaded_module,
    plain_chain,
)
from mpls.program.tables import MEMBERS, Kind, kind_of

# Attributes that hold a version, and functions that probe whether something exists.
_VERSIONS = ("__version__", "version_info", "__version_info__", "VERSION")
_PROBES = ("hasattr", "callable", "dir", "vars", "getattr")
_FINDS = ("find_spec", "find_loader")
_MODES = ("executing_eagerly", "enabled")
# Names that programs commonly give to the result of such a test, for results imported from modules that are not read.
_ANSWERS = re.compile(
    r"(tf|tensorflow|keras)_?v?[123]|version|^_?has_|^_?have_|available|installed|legacy|compat", re.I
)
_MISSING = (
    "ImportError",
    "ModuleNotFoundError",
    "AttributeError",
    "NameError",
    "KeyError",
    "Exception",
    "BaseException",
)
# The TensorFlow releases that mpls runs on; programs compare such versions as strings.
_RELEASES = ("2.16.1", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
# What conditions on the release are made of, and what is raised for all others.
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_CALLS: dict[str, Callable[..., Any]] = {"int": int, "float": float, "tuple": tuple, "list": list}
_CALLS |= {"startswith": str.startswith, "split": str.split}
# Functions and classes that make a number of a version, and the attributes of such a number.
_PARSERS = (
    "packaging.version.parse",
    "packaging.version.Version",
    "pkg_resources.parse_version",
    "distutils.version.LooseVersion",
    "distutils.version.StrictVersion",
)
_PARTS: dict[str, Callable[[Any], Any]] = {"release": tuple, "version": tuple}
_PARTS |= {name: operator.itemgetter(position) for position, name in enumerate(("major", "minor", "micro"))}
_PLAIN_VERSION = re.compile(r"\d+(\.\d+){0,2}")
NO_VALUE = (ArithmeticError, LookupError, TypeError, ValueError)
# The versions of TensorFlow.
VERSIONS = frozenset(("tf.__version__", "tf.version.VERSION", "tf.compat.v1.__version__"))
# Returns the value of a name, with attributes, on a release; raises a LookupError if it is not known.
_Named = Callable[[ast.expr, str], Any]
# Variables that are assigned other variables are followed this deep.
_DEPTH = 5


def is_switch(inside: str) -> bool:
    """Return whether code is inside a condition that a constant makes false, and not inside a function or class."""
    return inside.startswith(("if ", "or "))


class Gates(Others, Protocol):
    """The other files of the user's, with the results of tests for the release that they hold."""

    def is_answer(self, file: str, name: str) -> bool:
        """Return whether a name at the top of a file holds or returns the result of a test for the release."""


class State(NamedTuple):
    """Under which conditions code runs.

    Attributes:
        region: the scope that it is in.
        branch: the branch of a test for the release that it is on.
        is_dead: whether it never runs.
        inside: the functions and classes that it is in which nothing but their names can lead to, and conditions that
            a constant of the program makes false: `"if AMP"` after `AMP = False`, `"or AMP"` if there is an `else`.
    """

    region: Region
    branch: Branch = Branch.NONE
    is_dead: bool = False
    inside: tuple[str, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether it runs on every release, if its functions are called."""
        return self.branch is Branch.NONE and not self.is_dead

    @property
    def is_switched_off(self) -> bool:
        """Whether a constant of the program keeps it from running."""
        return any(map(is_switch, self.inside))

    def off(self, condition: str) -> State:
        """Return the state of code that a constant keeps from running; "" if it never runs."""
        return self._replace(inside=(*self.inside, condition)) if condition else self._replace(is_dead=True)

    def on(self, branch: Branch) -> State:
        """Return the state of code on a branch within."""
        return self._replace(branch=branch.within(self.branch))


# Members of objects that only some releases have.
_OF_RELEASES = MEMBERS - {"compile", "minimize", "optimizer", "save", "save_weights", "variables", *WEIGHTS}
# An `if` after which code may not run, by the number of its line: the condition under which it would, or None if that
# depends on the release.
_Exit = tuple[int, str | None]


class Releases(Meanings):
    """What the names in a file stand for on which release.

    Args:
        survey: what was collected in it.
        modules: the modules of the user's that it imports.
        others: the other files.
    """

    # A program may have wrappers of mpls already.
    _followed = MappingProxyType({**ROOTS, "mpls": "mpls"})
    # Members of which `hasattr` tells the release.
    _telling = _OF_RELEASES

    def __init__(self, survey: Survey, modules: Modules, others: Gates) -> None:
        super().__init__(survey, modules, others)
        self._gates = others
        # The conditions that constants make false, as far as they were asked for.
        self.switches: set[str] = set()
        self._blocks: dict[int, tuple[State, list[_Exit]]] = {}
        self._answers: dict[tuple[int, str], bool] = {}
        self._tests: dict[ast.expr, bool] = {}

    @functools.cached_property
    def of_wrappers(self) -> Releases:
        """The same where `loss_scale` is called, as up to TF 2.3: whether it is there tells wrappers from others."""
        found = Releases(self.survey, self._modules, self._gates)
        found._telling = _OF_RELEASES - {"loss_scale"}
        return found

    # Names.

    def possible(self, node: ast.expr, region: Region) -> list[tuple[str, bool]]:
        """Return the paths that an expression may stand for, each with whether it does on every release."""
        return self.of_today(self.of(node, region))

    def of_today(self, meaning: Meaning) -> list[tuple[str, bool]]:
        """Return the paths of a meaning, each with whether it holds on every release.

        Where a test for the release chooses between the public wrapper and the experimental one, it is the public one:
        the releases of today have it, so a program takes it, unless it looks for the experimental one first, which
        mpls has. Which of the two the program was written for does not matter: it uses what both have.
        """
        if not meaning.paths:
            return []
        branches = dict(meaning.branches)
        paths = sorted(meaning.paths)
        if len(paths) == 1:
            branch = branches.get(paths[0], Branch.NONE)
            is_every = branch is Branch.EVERY and kind_of(paths[0]) is Kind.PUBLIC_WRAPPER
            found = [(paths[0], meaning.is_whole and (not branch or is_every))]
        else:
            found = [(path, False) for path in paths]
            kinds = {path: kind_of(path) for path in paths}
            either = [path for path in paths if kinds[path] in (Kind.PUBLIC_WRAPPER, Kind.EXPERIMENTAL_WRAPPER)]
            public = [path for path in either if kinds[path] is Kind.PUBLIC_WRAPPER]
            if 0 < len(public) < len(either) and all(branches.get(path) for path in either):
                first = [path for path in either if branches[path] is Branch.TRIED]
                if not first or any(path in public for path in first):
                    found = [(public[0], True)]
        return [each for each in found if not each[0].startswith("@")]

    def of(self, node: ast.expr, region: Region, depth: int = 0) -> Meaning:
        """Return what an expression in a scope stands for, also if it is read by `getattr`."""
        if depth > MOST_ALIASES:
            return NOTHING
        loaded = loaded_module(node)
        if loaded:
            return self._module(loaded, 0)
        if isinstance(node, ast.Call):
            return self._read(node, region, depth)
        if isinstance(node, ast.Attribute) and not plain_chain(node):
            return self.member(self.of(node.value, region, depth + 1), node.attr, depth)
        return super().of(node, region, depth)

    def _read(self, node: ast.Call, region: Region, depth: int) -> Meaning:
        value, attribute = attribute_of(node)
        if value is None:
            return NOTHING
        found = self.member(self.of(value, region, depth + 1), attribute, depth)
        if len(node.args) < 3:
            return found
        default = self.of(node.args[2], region, depth + 1)
        return union([on_branch(found, Branch.TRIED), on_branch(default, Branch.GATED)])._replace(is_whole=False)

    def _one_of(self, node: ast.IfExp | ast.BoolOp, region: Region, depth: int) -> Meaning:
        """Return the same; on a branch of a test for the release, if such a test chooses the part."""
        first, *others = node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse)
        test = first if isinstance(node, ast.BoolOp) else node.test
        branches = [Branch.NONE] * (len(others) + 1)
        if self.is_gate(test, region):
            is_first = isinstance(node, ast.BoolOp) or _is_tried(test)
            branches = [Branch.TRIED if is_first else Branch.GATED, *[Branch.GATED] * len(others)]
            if _is_tried(test) is False:
                branches[-1] = Branch.TRIED
        parts = zip((first, *others), branches, strict=True)
        return union([on_branch(self.of(part, region, depth + 1), branch) for part, branch in parts])

    def _of_bindings(self, bindings: list[Binding], depth: int) -> Meaning:
        found: list[tuple[bool, Meaning]] = []
        for each in bindings:
            state = self.state(each.statement)
            if not state.is_dead and not isinstance(each.statement.node, ast.Delete):
                found.append((state.is_switched_off, on_branch(self._bound(each, depth), state.branch)))
        return self._of_live([each for is_off, each in found if not is_off] or [each for _, each in found])

    def _of_live(self, found: list[Meaning]) -> Meaning:
        paths = {path for each in found for path in each.paths}
        if len(found) > 1 and len(paths) == 1 and all(each.branches for each in found):
            # All branches of a test for the release bind it to the same.
            return Meaning(frozenset(paths), True, tuple((path, Branch.EVERY) for path in paths))
        return union(found)

    def _in_star(self, star: Located, name: str, depth: int) -> Meaning:
        """Return the same, on the branch of a test for the release that the import is on."""
        return on_branch(super()._in_star(star, name, depth), self.state(star.statement).branch)

    # Code.

    def at(self, statement: Statement, choice: Choice | None = None) -> State:
        """Return under which conditions an expression is evaluated.

        Args:
            statement: the statement that it is in.
            choice: the part of a conditional expression that it is in.
        """
        state = self.state(statement)
        while choice is not None:
            node, part, choice = choice
            if isinstance(node, ast.Call):
                # The default of `getattr`.
                state = state.on(Branch.GATED) if self._is_of_framework(node.args[0], state.region) else state
            elif isinstance(node, ast.IfExp):
                result = self.result_of(node.test, state.region)
                if result is not None:
                    is_taken = part is (node.body if result else node.orelse)
                    state = state if is_taken else state.off(self._switch(node.test, state.region, not result, True))
                elif self.is_gate(node.test, state.region):
                    state = state.on(Branch.GATED)
            else:
                state = self._after_operands(state, node, part)
        return state

    def _after_operands(self, state: State, node: ast.BoolOp, part: ast.expr) -> State:
        """Return the state of an operand of `and` or `or`, which the operands before it may keep from running."""
        ends = isinstance(node.op, ast.Or)
        for each in itertools.takewhile(lambda operand: operand is not part, node.values):
            if self.result_of(each, state.region) is ends:
                return state.off(self._switch(each, state.region, not ends, False))
            if self.is_gate(each, state.region):
                state = state.on(Branch.GATED)
        return state

    def state(self, statement: Statement) -> State:
        """Return under which conditions a statement runs."""
        key = id(statement.block)
        if key not in self._blocks:
            outer = None if statement.parent is None else self.state(statement.parent)
            inner = State(self.survey.module) if outer is None else self._within_statement(outer, statement)
            exits: list[_Exit] = []
            # Set first, because conditions may be about names that are bound in the block.
            self._blocks[key] = inner, exits
            exits += self._exits(statement.block, inner.region)
        state, exits = self._blocks[key]
        for line, condition in exits:
            if statement.node.lineno > line:
                state = state.on(Branch.GATED) if condition is None else state.off(condition)
        return state

    def _exits(self, block: list[ast.stmt], region: Region) -> Iterator[_Exit]:
        for node in block:
            if isinstance(node, ast.If) and (_ends_block(node.body) or _ends_block(node.orelse)):
                result = self.result_of(node.test, region)
                if result is not None:
                    if _ends_block(node.body if result else node.orelse):
                        yield node.lineno, self._switch(node.test, region, not result, False)
                elif self.is_gate(node.test, region):
                    yield node.lineno, None

    def _within_statement(self, state: State, statement: Statement) -> State:
        """Return the state of a block in a statement.

        Args:
            state: that of the statement.
            statement: a statement in the block.
        """
        assert statement.parent is not None
        node, block = statement.parent.node, statement.block
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            # Frameworks may call methods, and decorators or base classes may register a function or class.
            is_plain = not node.decorator_list and not getattr(node, "bases", ()) and not getattr(node, "keywords", ())
            inside = (*state.inside, node.name) if is_plain and not state.region.is_class else state.inside
            is_class = isinstance(node, ast.ClassDef)
            region = self.survey.classes[node] if is_class else self.survey.bodies[node]  # type: ignore[index]
            return state._replace(region=region, inside=inside)
        if isinstance(node, ast.If):
            result = self.result_of(node.test, state.region)
            if result is not None:
                is_body = block is node.body
                condition = self._switch(node.test, state.region, is_body, bool(node.orelse))
                return state if is_body is result else state.off(condition)
            if self.is_gate(node.test, state.region):
                is_tried = _is_tried(node.test) is (block is node.body)
                return state.on(Branch.TRIED if is_tried else Branch.GATED)
        elif hasattr(node, "handlers") and block is not node.finalbody:  # type: ignore[attr-defined]
            return _in_try(state, node, block)
        return state

    def result_of(self, test: ast.expr, region: Region, depth: int = 0) -> bool | None:
        """Return the result of a condition that is the same on all releases that mpls runs on; None if unknown."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            result = self.result_of(test.operand, region, depth)
            return None if result is None else not result
        if isinstance(test, ast.BoolOp):
            # One operand decides, or all of them do.
            decisive = isinstance(test.op, ast.Or)
            results = [self.result_of(each, region, depth) for each in test.values]
            return decisive if decisive in results else None if None in results else not decisive
        bound = region.only(test.id) if isinstance(test, ast.Name) else None
        value = None if bound is None or depth >= _DEPTH else _assigned(bound, ast.unparse(test))
        if bound is not None and value is not None:
            return self.result_of(value, bound.region, depth + 1)
        return _of_every_release(test, functools.partial(self._named, region, depth))

    def _named(self, region: Region, depth: int, node: ast.expr, release: str) -> Any:
        names = plain_chain(node)
        bound = region.only(names[0]) if names and depth < _DEPTH else None
        value = None if bound is None or len(names) > 1 else _assigned(bound, names[0])
        if bound is not None and value is not None:
            return value_of(value, functools.partial(self._named, bound.region, depth + 1), release)
        if bound is not None and isinstance(bound.value, ast.alias) and self._imported(bound.value, names) in _PARSERS:
            return _parsed
        return release if release and self.is_version(node, region) else _named_in_text(node, release)

    def _imported(self, alias: ast.alias, names: tuple[str, ...]) -> str:
        """Return the dotted name of an attribute of what is imported; `names` begins with the name that it gets."""
        statement = self._module_of[alias]
        start = f"{statement.module}.{alias.name}" if isinstance(statement, ast.ImportFrom) else alias.name
        is_package = isinstance(statement, ast.Import) and not alias.asname
        return ".".join(names if is_package else (start, *names[1:]))

    def _switch(self, test: ast.expr, region: Region, is_true: bool, has_other: bool) -> str:
        """Return the condition that a test is true, or false, if a constant of the program decides it; else "".

        It begins with `if`, or with `or` if there is other code for the case that it does not hold.
        """
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, is_true = test.operand, not is_true
        names = [node for node in ast.walk(test) if isinstance(node, ast.Name)]
        # Without a release, the version has no value.
        known = (_of_every_release(each, lambda node, _: self._named(region, 0, node, "")) for each in names)
        if all(each is None for each in known):
            return ""
        condition = f"{'or' if has_other else 'if'} {'' if is_true else 'not '}{ast.unparse(test)}"
        self.switches.add(condition)
        return condition

    def is_version(self, node: ast.expr, region: Region) -> bool:
        """Return whether an expression is the version of TensorFlow."""
        paths = self.of(node, region).paths if plain_chain(node) else frozenset()
        return bool(paths) and paths <= VERSIONS

    # Tests for the release.

    def is_gate(self, test: ast.expr, region: Region, depth: int = 0) -> bool:
        """Return whether a condition tests the release, or whether the release has something."""
        if test not in self._tests:
            # Set first, because names may be bound to each other in a circle.
            self._tests[test] = False
            is_asked = any(self._asks(node, region, depth) for node in ast.walk(test))
            self._tests[test] = is_asked or self._asks_for_import(test, region)
        return self._tests[test]

    def is_answer(self, name: str, region: Region, depth: int = 0) -> bool:
        """Return whether a name holds or returns the result of a test for the release."""
        holder = region.holder(name)
        if holder is None:
            is_imported = any(not path for path in map(self.module_of, self.survey.stars))
            return is_imported and _ANSWERS.search(name) is not None
        key = (id(holder), name)
        if key not in self._answers:
            self._answers[key] = False
            self._answers[key] = any(self._binds_answer(each, depth) for each in holder.names.get(name, ()))
        return self._answers[key]

    def _asks(self, node: ast.AST, region: Region, depth: int) -> bool:
        if isinstance(node, ast.Call):
            called = _last_name(node.func)
            if called in _PROBES and (called != "getattr" or len(node.args) == 3):
                return self._probes(node, region)
            return called in _FINDS or (called in _MODES and self._is_of_framework(node.func, region))
        if isinstance(node, ast.Name):
            return self.is_answer(node.id, region, depth)
        if not isinstance(node, ast.Attribute):
            return False
        if node.attr in _VERSIONS:
            return node.attr != "VERSION" or self._is_of_framework(node.value, region)
        return (node.attr == "__dict__" and self._is_of_framework(node.value, region)) or self._is_answer_of(
            node, region, depth
        )

    def _probes(self, call: ast.Call, region: Region) -> bool:
        """Return whether a call asks what TensorFlow or Keras has, or an object that only some releases give it."""
        name = call.args[1] if len(call.args) > 1 else None
        asked = name.value if isinstance(name, ast.Constant) else attribute_of(call.args[0])[1] if call.args else ""
        tells = asked in (_OF_RELEASES if name is None else self._telling)
        return tells or (bool(call.args) and self._is_of_framework(call.args[0], region))

    def _asks_for_import(self, test: ast.expr, region: Region) -> bool:
        """Return whether a condition asks for what is imported from TensorFlow or Keras: `tf_keras is not None`."""
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test = test.operand
        if isinstance(test, ast.BoolOp):
            return any(self._asks_for_import(each, region) for each in test.values)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.IsNot):
            test = test.left
        bindings = region.find(test.id) if isinstance(test, ast.Name) else []
        aliases = [each.value for each in bindings if isinstance(each.value, ast.alias)]
        return any(not path.startswith("@") for each in aliases for path in self.of_import(each))

    def _is_of_framework(self, node: ast.expr, region: Region, depth: int = 0) -> bool:
        """Return whether an expression may be a module, a class or a function of TensorFlow or Keras.

        That of a name is told from its imports, as the branches of its bindings may depend on the condition.
        """
        value = attribute_of(node)[0]
        while value is not None:
            node, value = value, attribute_of(value)[0]
        if not isinstance(node, ast.Name) or depth > _DEPTH:
            return False
        for each in region.find(node.id):
            bound = each.value
            if isinstance(bound, ast.alias):
                if any(not path.startswith("@") for path in self.of_import(bound)):
                    return True
                if self.alias(bound).paths:
                    return any(not path.startswith("@") for path in self.alias(bound).paths)
            elif isinstance(bound, ast.expr) and self._is_of_framework(bound, each.region, depth + 1):
                return True
        return any(self.module_of(star) for star in self.survey.stars) if not region.find(node.id) else False

    def _binds_answer(self, binding: Binding, depth: int) -> bool:
        value, statement = binding.value, binding.statement
        if isinstance(value, ast.alias):
            return self._imports_answer(value)
        if isinstance(value, ast.FunctionDef):
            last = value.body[-1]
            is_short = len(value.body) <= 3 and isinstance(last, ast.Return) and last.value is not None
            return is_short and self.is_gate(last.value, self.survey.bodies[value], depth + 1)  # type: ignore[attr-defined]
        value = _unpacked(binding) or value
        if isinstance(value, ast.Constant):
            outer = statement.parent
            return outer is not None and any(map(catches_missing, getattr(outer.node, "handlers", ())))
        if not isinstance(value, ast.expr) or depth > _DEPTH or not _is_answer(value):
            return False
        return self.is_gate(value, binding.region, depth + 1)

    def _imports_answer(self, alias: ast.alias) -> bool:
        statement = self._module_of[alias]
        if isinstance(statement, ast.Import):
            return False
        if alias.name in _VERSIONS:
            return True
        paths = self.module_of(statement)
        if not paths:
            return _ANSWERS.search(alias.asname or alias.name) is not None
        return any(path.startswith("@") and self._gates.is_answer(path[1:], alias.name) for path in paths)

    def _is_answer_of(self, node: ast.Attribute, region: Region, depth: int) -> bool:
        """Return whether an attribute holds the result of a test: of a module of the user's, or of `self`."""
        owner = node.value
        if not isinstance(owner, ast.Name):
            return False
        method = region.method()
        if method is not None and owner.id == method.self_name and method.parent is not None:
            bindings = [*method.parent.attributes.get(node.attr, ()), *method.parent.names.get(node.attr, ())]
            return any(self._binds_answer(each, depth) for each in bindings)
        bindings = region.find(owner.id)
        if not bindings or not all(isinstance(each.value, ast.alias) for each in bindings):
            return False
        paths = self.of(owner, region).paths
        if not paths:
            return _ANSWERS.search(node.attr) is not None
        return any(path.startswith("@") and self._gates.is_answer(path[1:], node.attr) for path in paths)


def _in_try(state: State, node: ast.stmt, block: list[ast.stmt]) -> State:
    assert isinstance(node, ast.Try)
    if block is not node.body and block is not node.orelse:
        return state.on(Branch.FALLBACK)
    return state.on(Branch.TRIED) if any(map(catches_missing, node.handlers)) else state


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_answer(value: ast.expr) -> bool:
    # A value that is selected by the result (`a if test else b`, `getattr` with a default) is not the result itself.
    return not isinstance(value, ast.IfExp) and not (
        isinstance(value, ast.Call) and _last_name(value.func) == "getattr"
    )


def _is_tried(test: ast.expr) -> bool | None:
    """Return whether a condition is true, or false, if there is an `experimental` namespace; None for any other."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        answer = _is_tried(test.operand)
        return None if answer is None else not answer
    name = test.args[1] if isinstance(test, ast.Call) and len(test.args) == 2 else None
    is_probe = isinstance(test, ast.Call) and _last_name(test.func) == "hasattr"
    return True if is_probe and getattr(name, "value", None) == "experimental" else None


def catches_missing(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the error for a missing module or attribute."""
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_last_name(each) in _MISSING for each in types)


def _ends_block(body: list[ast.stmt]) -> bool:
    """Return whether a body ends in `return`, `continue` or `break`, so that the statements after it are skipped."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Continue | ast.Break)


def arm_of_every_release(test: ast.expr) -> bool | None:
    """Return the result of a condition that is the same on every release, as far as its text alone tells.

    Known are constants, `TYPE_CHECKING` and `tf.__version__`, and comparisons and parts of them.
    """
    return _of_every_release(test, _named_in_text)


def _unpacked(binding: Binding) -> ast.expr | None:
    """Return what a statement unpacks into several targets, of which one is the binding; None for any other."""
    node = binding.statement.node
    if not isinstance(node, ast.Assign) or isinstance(node.value, ast.Tuple | ast.List):
        return None
    return node.value if any(isinstance(each, ast.Tuple | ast.List) for each in node.targets) else None


def _assigned(binding: Binding, name: str) -> ast.expr | None:
    """Return the expression whose value a name gets; None if there is none."""
    whole, statement = _unpacked(binding), binding.statement.node
    if whole is None or not isinstance(statement, ast.Assign):
        return binding.value if isinstance(binding.value, ast.expr) else None
    targets = next(each.elts for each in statement.targets if isinstance(each, ast.Tuple | ast.List))
    known = itertools.takewhile(lambda each: not isinstance(each, ast.Starred), targets)
    positions = [number for number, each in enumerate(known) if isinstance(each, ast.Name) and each.id == name]
    return ast.Subscript(whole, ast.Constant(positions[0])) if positions else None


def _parsed(version: str) -> tuple[int, ...]:
    if _PLAIN_VERSION.fullmatch(version) is None:
        raise ValueError(version)
    numbers = [int(each) for each in version.split(".")]
    return (*numbers, *[0] * (3 - len(numbers)))


def _named_in_text(node: ast.expr, release: str) -> Any:
    owner = _last_name(node.value) if isinstance(node, ast.Attribute) else ""
    if release and _last_name(node) == "__version__" and owner in ("tf", "tensorflow", "tf1", "tf2"):
        return release
    if release and _last_name(node) == "TYPE_CHECKING":
        return False
    raise LookupError(node)


def _of_every_release(test: ast.expr, named: _Named) -> bool | None:
    """Return the result of a condition, if it is known and the same on all releases that mpls runs on."""
    try:
        results = {bool(value_of(test, named, release)) for release in _RELEASES}
    except NO_VALUE:
        return None
    return results.pop() if len(results) == 1 else None


def value_of(node: ast.expr, named: _Named, release: str) -> Any:
    """Return the value of an expression on a release: of constants and names, and of comparisons and parts of them.

    A list that a variable may hold has no value, because the program may change it; numbers made of a text have one.

    Args:
        node: the expression.
        named: returns the value of a name, with attributes, on a release.
        release: the release.

    Raises:
        ArithmeticError, LookupError, TypeError, ValueError: it is another expression, or it raises this error.
    """
    value = functools.partial(value_of, named=named, release=release)
    match node:
        case ast.Constant():
            return node.value
        case ast.Attribute(attr="release" | "version" | "major" | "minor" | "micro" as name):
            return _PARTS[name](value(node.value))
        case ast.Name() | ast.Attribute():
            return named(node, release)
        case ast.Tuple():
            return tuple(map(value, node.elts))
        case ast.Slice():
            return slice(*(each and value(each) for each in (node.lower, node.upper, node.step)))
        case ast.Subscript():
            return value(node.value)[value(node.slice)]
        case ast.Compare(ops=[order], comparators=[right]):
            sides = (node.left, right)
            return COMPARISONS[type(order)](
                *(list(map(value, each.elts)) if isinstance(each, ast.List) else value(each) for each in sides)
            )
    return _value_made(node, value)


def _value_made(node: ast.expr, value: Callable[[ast.expr], Any]) -> Any:
    """Return the value of a call, or of a comprehension that makes numbers; `value` returns that of a part."""
    match node:
        case ast.Call(func=ast.Name(id="int" | "float" | "tuple" | "list" as name), args=[item], keywords=[]):
            return _CALLS[name](value(item))
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="int" | "float" as name), items], keywords=[]):
            return list(map(_CALLS[name], value(items)))
        case ast.Call(func=ast.Attribute(value=text, attr="startswith" | "split" as name), keywords=[]):
            return _CALLS[name](value(text), *map(value, node.args))
        case ast.Call(func=ast.Name() | ast.Attribute() as parser, args=[text], keywords=[]):
            return value(parser)(value(text))
        case ast.ListComp() | ast.GeneratorExp():
            return value(_as_map(node))
    raise ValueError(node)


def _as_map(node: ast.ListComp | ast.GeneratorExp) -> ast.expr:
    """Return `map(int, items)` for `[int(each) for each in items]`."""
    match node.elt, node.generators:
        case ast.Call(func=made, args=[ast.Name(id=given)], keywords=[]), [
            ast.comprehension(target=ast.Name(id=name), iter=items, ifs=[])
        ] if given == name:
            return ast.Call(ast.Name("map"), [made, items], [])
    raise ValueError(node)
