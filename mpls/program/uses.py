"""What a file uses, in records without its syntax tree: names of TensorFlow and Keras, attributes, classes, calls."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from mpls.names import named
from mpls.program.meaning import NOTHING, Meaning
from mpls.program.objects import (
    EXPERIMENTAL_WRAPPER,
    NEW_WRAPPER,
    Instance,
    Objects,
    calls_of_read_scales,
    is_public,
    kind_of,
)
from mpls.program.releases import Releases, State, is_switch
from mpls.program.scopes import (
    Chain,
    Function,
    Member,
    Region,
    Role,
    Statement,
    argument_names,
    attribute_of,
    chain_of,
    types_asked,
)

# The extensions that Keras 3 saves to, those that it saves weights to, and addresses that it saves to without one.
_EXTENSIONS = (".keras", ".h5", ".hdf5")
_OF_WEIGHTS = (".weights.h5",)
_HUB = "hf://"
# The calls that take a model's path, with the position of the argument.
_GIVEN = {"save": 0, "save_model": 1, "load_model": 0, "ModelCheckpoint": 0, "save_weights": 0, "load_weights": 0}
# Variables that are assigned other variables are followed this deep.
_DEPTH = 5
# What `import tensorflow` loaded in TF 1.15 to 2.1.
_CORE = "tensorflow_core"
# Functions that tell whether a loss scale is an object.
_ASKING = ("callable", "hasattr", "isinstance", "type")
_EAGER = ("tf.enable_eager_execution", "tf.enable_v2_behavior")


Release = tuple[int, int]


class Where(NamedTuple):
    """A line of the program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Value(NamedTuple):
    """A value that is passed on.

    Attributes:
        name: the last name of the variable, the attribute or the function that is called.
        kinds: the kinds of what a function of TensorFlow or Keras that is called may return.
        is_call: whether it is what a call returns.
        is_attribute: whether it is an attribute.
    """

    name: str
    kinds: frozenset[str]
    is_call: bool
    is_attribute: bool = False


class Call(NamedTuple):
    """The arguments of a call.

    Attributes:
        values: those by position: the values of constants, `...` for others.
        names: the last names of those by position.
        keywords: those by name: the values of constants, `...` for others; None for `**arguments`.
        is_unextended: whether it saves or loads a model, or its weights, at a path without an extension for that of
            Keras 3.
        first: the first by position, or what is named `optimizer` or `opt`.
    """

    values: tuple[object, ...]
    names: tuple[str, ...]
    keywords: dict[str | None, object]
    is_unextended: bool
    first: Value | None = None


class Use(NamedTuple):
    """A place where a program uses a name of TensorFlow or Keras.

    Attributes:
        path: the path of the name, `tf.keras.optimizers.SGD`.
        where: the line.
        is_certain: whether the line uses it on every release.
        inside: the functions and classes that it is in, unless something else may call them than their names, and the
            conditions that constants of the program make false.
        call: the call, if it is called there.
        target: the last name of the variable or attribute that the result is assigned to.
    """

    path: str
    where: Where
    is_certain: bool
    inside: tuple[str, ...] = ()
    call: Call | None = None
    target: str = ""

    @property
    def behind(self) -> str | None:
        """The innermost condition around it that a constant of the program makes false; None if there is none."""
        return next((each[len("if ") :] for each in reversed(self.inside) if is_switch(each)), None)


class Access(NamedTuple):
    """A place where a program reads or sets an attribute of an object, or calls a function of its own.

    Attributes:
        chain: the names, `("self", "opt", "loss_scale")`; the first is "" for an object without a name.
        where: the line.
        is_certain: whether the line runs on every release.
        inside: as for `Use`.
        call: the call, if it is called there.
        within: the class that contains the line.
        is_set: whether the attribute is assigned.
        target: the last name of the variable or attribute that the result is assigned to.
        maker: the call that returns the object without a name.
        is_wrapper: whether what the file does with the object shows that it is a wrapper.
    """

    chain: tuple[str, ...]
    where: Where
    is_certain: bool
    inside: tuple[str, ...] = ()
    call: Call | None = None
    within: str = ""
    is_set: bool = False
    target: str = ""
    maker: Value | None = None
    is_wrapper: bool = False


class Class(NamedTuple):
    """A class of the program.

    Attributes:
        name: its name.
        bases: the last names of its bases, paths for those of TensorFlow and Keras, each with whether it is certain.
        methods: the methods that it defines.
        arguments: the names of all their arguments.
        where: the line.
        is_certain: whether it is defined on every release.
        inside: as for `Use`.
        base_calls: calls of the `__init__` of a base, with their lines.
    """

    name: str
    bases: tuple[tuple[str, bool], ...]
    methods: frozenset[str]
    arguments: frozenset[str]
    where: Where
    is_certain: bool
    inside: tuple[str, ...] = ()
    base_calls: tuple[tuple[Where, Call], ...] = ()


class ScaleUse(NamedTuple):
    """A place where a program takes the loss scale of an experimental wrapper as the object that it was up to TF 2.3.

    Attributes:
        what: what the line does, as for `Sign`.
        where: the line.
        is_certain: whether the line runs on every release.
        inside: as for `Use`.
        is_sure: whether the object is a wrapper even if the program has classes with a loss scale of their own.
    """

    what: str
    where: Where
    is_certain: bool
    inside: tuple[str, ...]
    is_sure: bool


class Sign(NamedTuple):
    """A line that shows something about a program.

    Attributes:
        about: its subject: an option, or "release" for the releases that the program was written for.
        value: the value for that subject; for releases, the first and the last.
        where: the line.
        what: what the line does, as text that follows its address: "uses tf.placeholder".
    """

    about: str
    value: bool | int | tuple[Release, Release]
    where: Where
    what: str


@dataclass(slots=True)
class FileUses:
    """What a file uses.

    Attributes:
        uses: names of TensorFlow and Keras, in the order of the lines.
        accesses: attributes of other objects, as far as they tell something.
        classes: its own classes.
        returns: its functions, with what they return.
        defined: the names of its functions and methods.
        checked: the last names of objects that `isinstance` tests, each with the kind of objects of the class.
        same: attributes that are asserted to be a certain object, by `assert a.b is c`.
        scales: loss scales of experimental wrappers that it takes as objects.
        modules: modules that it imports on every release, by absolute names, each with the conditions around the import
            that constants make false.
        switches: all such conditions.
        is_eager: whether it enables eager mode of TF 1.
        is_cut: whether it is nested too deeply to be read to the end.
        signs: the signs that its uses on every release are, each with what they are in; None until they are asked for.
    """

    uses: list[Use] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    returns: list[tuple[str, Value]] = field(default_factory=list)
    defined: frozenset[str] = frozenset()
    checked: list[tuple[str, str]] = field(default_factory=list)
    same: list[Access] = field(default_factory=list)
    scales: list[ScaleUse] = field(default_factory=list)
    modules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    is_eager: bool = False
    is_cut: bool = False
    signs: list[tuple[Sign, tuple[str, ...]]] | None = None


@dataclass(slots=True)
class Uses(FileUses):
    """What the files of a program use, together. Nothing in a file that some releases do not import is certain.

    Attributes:
        files: what each file uses, with whether it is imported on every release, and the functions and classes in it
            that nothing mentions.
    """

    files: Sequence[tuple[FileUses, bool, frozenset[str]]] = ()
    # As in a file; declared again, as type checkers ask it of a class that assigns them.
    defined: frozenset[str] = frozenset()
    is_eager: bool = False

    def __post_init__(self) -> None:
        for file, is_always, unused in self.files:

            def runs(
                each: Use | Access | Class | ScaleUse, certain: bool = is_always, never: Set[str] = unused
            ) -> bool:
                return certain and never.isdisjoint(each.inside)

            self.uses.extend(each if runs(each) else each._replace(is_certain=False) for each in file.uses)
            self.accesses.extend(each if runs(each) else each._replace(is_certain=False) for each in file.accesses)
            self.classes.extend(each if runs(each) else each._replace(is_certain=False) for each in file.classes)
            self.same.extend(each for each in file.same if each.is_certain and runs(each))
            self.scales.extend(each for each in file.scales if each.is_certain and runs(each))
            self.checked.extend(file.checked)
            self.returns.extend(file.returns)
            self.defined = self.defined | file.defined
            self.is_eager = self.is_eager or file.is_eager


def modules_of(package: str, module: str, level: int, name: str | None) -> list[str]:
    """Return the absolute names of the modules that an import loads or may load.

    Args:
        package: the package of the file that imports.
        module: the name of the module, without dots before it.
        level: the number of dots before it.
        name: what is imported from it; None for the module itself.
    """
    if level:
        parts = package.split(".")
        module = ".".join(filter(None, [*parts[: len(parts) - level + 1], module]))
    parts = module.split(".") if module else []
    if parts[:1] == ["mpls"]:
        # mpls is not part of the program, even if it runs from a source tree.
        return []
    found = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    if name not in (None, "*"):
        found.append(f"{module}.{name}" if module else str(name))
    return found


def uses_in(releases: Releases, shown: str, package: str) -> FileUses:
    """Return what a file uses.

    Args:
        releases: what its names stand for on which release.
        shown: its path as shown to users.
        package: the dotted name of the package that contains it.
    """
    return _File(releases, shown, package).uses()


class _File:
    def __init__(self, releases: Releases, shown: str, package: str) -> None:
        self._releases = releases
        self._survey = releases.survey
        self._shown = shown
        self._package = package
        # What its objects are, if it has a word of wrappers.
        self._objects: Objects | None = None

    def uses(self) -> FileUses:
        survey = self._survey
        found = FileUses(is_cut=survey.is_cut)
        found.uses = sorted((*self._imports(found), *self._names()), key=lambda use: use.where)
        kinds = {kind_of(use.path) for use in found.uses}
        if survey.reads or not kinds.isdisjoint((NEW_WRAPPER, EXPERIMENTAL_WRAPPER)):
            self._objects = Objects(self._releases, False, is_only=True)
        found.accesses = list(self._accesses())
        found.classes = list(self._classes())
        found.returns = list(self._returns())
        found.defined = frozenset(survey.functions)
        found.checked = list(self._checked())
        for node, statement, region in survey.nodes[ast.Assert]:
            if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Is):
                found.same += self._same([node.test.left, *node.test.comparators], statement, region)
        for chain in survey.chains:
            if chain.call is not None and chain.names[-1] == "assertIs":
                found.same += self._same(chain.call.args[:2], chain.statement, chain.region)
        rows = [row for row in (named(use.path) for use in found.uses) if row is not None]
        if EXPERIMENTAL_WRAPPER in kinds and not any(map(is_public, rows)):
            found.scales = list(self._scales())
        found.switches = frozenset(self._releases.switches)
        found.is_eager = any(use.path in _EAGER for use in found.uses)
        return found

    def _where(self, node: ast.AST) -> Where:
        return Where(self._shown, getattr(node, "lineno", 1))

    # Names of TensorFlow and Keras.

    def _imports(self, into: FileUses) -> Iterator[Use]:
        for node, statement, _ in self._survey.imports:
            state = self._releases.state(statement)
            if state.is_dead:
                continue
            for alias in node.names:
                if _module_name(alias, node).partition(".")[0] == _CORE:
                    yield Use(_CORE, self._where(node), state.is_certain, state.inside)
                for path, is_certain in self._imported(alias, node):
                    yield Use(path, self._where(node), is_certain and state.is_certain, state.inside)
                if state.is_certain:
                    level, name = (node.level, alias.name) if isinstance(node, ast.ImportFrom) else (0, None)
                    off = tuple(filter(is_switch, state.inside))
                    for module in modules_of(self._package, _module_name(alias, node), level, name):
                        if not off or module not in into.modules:
                            into.modules[module] = off

    def _imported(self, alias: ast.alias, node: ast.Import | ast.ImportFrom) -> list[tuple[str, bool]]:
        releases = self._releases
        if alias.name == "*" and isinstance(node, ast.ImportFrom):
            return [(path, True) for path in releases.module_of(node) if not path.startswith("@")]
        if isinstance(node, ast.Import):
            return [(path, True) for path in releases.of_import(alias) if not path.startswith("@")]
        return releases.of_today(releases.alias(alias))

    def _names(self) -> Iterator[Use]:
        releases = self._releases
        known: dict[Meaning, list[tuple[str, bool]]] = {}
        for chain in self._survey.chains:
            meaning = NOTHING if chain.role is Role.ANNOTATION else releases.of_names(chain.names, chain.region)
            if meaning.paths:
                if meaning not in known:
                    known[meaning] = releases.of_today(meaning)
                yield from self._used(chain, known[meaning])
        for member in self._survey.loose:
            yield from self._used(member, releases.possible(member.node, member.region))

    def _used(self, place: Chain | Member, found: list[tuple[str, bool]]) -> Iterator[Use]:
        state = self._releases.at(place.statement, place.choice) if found else None
        if state is None or state.is_dead:
            return
        call = None if place.call is None else _OTHER
        if place.call is not None and any(_tells(path) for path, _ in found):
            call = self._call(place.call, place.region)
        for path, is_certain in found:
            is_certain = is_certain and state.is_certain
            yield Use(path, self._where(place.node), is_certain, state.inside, call, place.target)

    def _call(self, call: ast.Call, region: Region) -> Call:
        keywords = {keyword.arg: _constant(keyword.value) for keyword in call.keywords}
        is_unextended = _is_path_without_extension(call, region)
        names = tuple(chain_of(each)[-1] for each in call.args)
        named = [each.value for each in call.keywords if each.arg in ("optimizer", "opt")]
        first = next(iter((*call.args, *named)), None)
        values = tuple(map(_constant, call.args))
        return Call(values, names, keywords, is_unextended, None if first is None else self._value(first, region))

    # Attributes of other objects.

    def _accesses(self) -> Iterator[Access]:
        releases = self._releases
        for member in self._survey.members:
            if releases.possible(member.node, member.region):
                continue
            state = releases.at(member.statement, member.choice)
            if not state.is_dead:
                yield self._access(member, state)

    def _access(self, member: Member, state: State) -> Access:
        node, region = member.node, member.region
        call = None if member.call is None else self._call(member.call, region)
        inner, value = node, attribute_of(node)[0]
        while value is not None:
            inner, value = value, attribute_of(value)[0]
        maker = self._value(inner, region) if inner is not node and isinstance(inner, ast.Call) else None
        return Access(
            chain_of(node),
            self._where(node),
            state.is_certain,
            state.inside,
            call,
            _class_around(region),
            member.is_set,
            member.target,
            maker,
            self._objects is not None
            and inner is not node
            and self._objects.of(member.owner, region) is Instance.WRAPPER,
        )

    def _value(self, node: ast.expr, region: Region) -> Value:
        """Return the record of a value."""
        if not isinstance(node, ast.Call):
            return Value(chain_of(node)[-1], frozenset(), False, isinstance(node, ast.Attribute))
        kinds = frozenset(kind_of(path) for path, _ in self._releases.possible(node.func, region))
        return Value(chain_of(node.func)[-1], kinds, True)

    def _same(self, sides: list[ast.expr], statement: Statement, region: Region) -> Iterator[Access]:
        state = self._releases.state(statement)
        if len(sides) != 2 or any(isinstance(side, ast.Constant) for side in sides):
            return
        for side in sides:
            if attribute_of(side)[1] == "loss_scale" and not self._releases.possible(side, region):
                yield self._access(Member(side, None, region, statement), state)

    # Loss scales that are taken as objects.

    def _scales(self) -> Iterator[ScaleUse]:
        """Yield what a file does with the loss scales of wrappers, if all wrappers it makes are experimental ones."""
        # Objects of a class with a loss scale of its own may be where the first takes a wrapper for granted.
        likely, sure = (Objects(self._releases, has_own, is_set_here=True) for has_own in (False, True))
        for what, owner, region, place in (*self._scales_read(), *self._scales_called(likely)):
            if likely.of(owner, region) is Instance.WRAPPER:
                state = self._releases.at(place.statement, place.choice)
                is_sure = sure.of(owner, region) is Instance.WRAPPER
                if not state.is_dead:
                    yield ScaleUse(what, self._where(place.node), state.is_certain, state.inside, is_sure)

    def _scales_read(self) -> Iterator[tuple[str, ast.expr, Region, Member | Chain]]:
        tests = {test.args[0]: (test, region) for test, region in self._survey.type_tests}
        items = [each.node for each in self._survey.nodes[ast.Subscript]]
        denied = [each.node.operand for each in self._survey.nodes[ast.UnaryOp]]
        of_configs = [item.value for item in items if getattr(item.slice, "value", None) == "loss_scale"]
        for member in self._survey.members:
            owner, name = attribute_of(member.node)
            if owner is None or member.is_set or name not in ("loss_scale", "_loss_scale", "get_config"):
                continue
            test, region = tests.get(member.node, (None, member.region))
            if name == "get_config":
                if member.call in of_configs:
                    yield "reads the loss_scale of a wrapper's config", owner, member.region, member
            elif member.call is not None and not member.call.args and not member.call.keywords:
                yield f"calls .{name}()", owner, member.region, member
            elif test is not None and self._is_of_scale(test, region) and test not in denied:
                yield f"asks for the class of .{name}", owner, member.region, member

    def _scales_called(self, objects: Objects) -> Iterator[tuple[str, ast.expr, Region, Member | Chain]]:
        """Yield calls of variables that are the loss scale of something, unless the program asks what they are."""
        calls = [call for name in _ASKING for call, _ in self._survey.calls.get(name, ())]
        asked = {chain_of(call.args[0]) for call in calls if call.args}
        for each in calls_of_read_scales(objects):
            names = chain_of(each.node)
            if each.is_only and names not in asked and isinstance(each.place, Chain):
                yield f"calls {'.'.join(names)}, a .loss_scale", each.owner, each.region, each.place

    def _is_of_scale(self, test: ast.Call, region: Region) -> bool:
        """Return whether `isinstance` asks for a class of loss scales."""
        paths = [self._releases.possible(each, region) for each in types_asked(test)]
        return all(found and all(path.endswith("LossScale") for path, _ in found) for found in paths)

    # What is passed around.

    def _base_calls(self) -> dict[Region, list[tuple[Where, Call]]]:
        """Return the calls of `super().__init__` and `Base.__init__`, by the class that they are in."""
        found: dict[Region, list[tuple[Where, Call]]] = {}
        places: list[Member | Chain] = [*self._survey.loose, *self._survey.chains]
        for place in places:
            method = place.region.method() if place.call is not None and place.name == "__init__" else None
            if place.call is None or method is None or method.parent is None:
                continue
            state = self._releases.at(place.statement, place.choice)
            if state.is_certain:
                call = self._call(place.call, place.region)
                if isinstance(place, Chain):
                    # The object itself is an argument.
                    call = call._replace(values=call.values[1:], names=call.names[1:])
                found.setdefault(method.parent, []).append((self._where(place.node), call))
        return found

    def _classes(self) -> Iterator[Class]:
        base_calls = self._base_calls()
        for node, region in self._survey.classes.items():
            outer = region.parent
            bindings = [] if outer is None else outer.outer.get(node.name, outer).names.get(node.name, [])
            statement = next((each.statement for each in bindings if each.value is node), None)
            if outer is None or statement is None:
                continue
            state = self._releases.state(statement)
            if state.is_dead:
                continue
            bases: list[tuple[str, bool]] = []
            for base in node.bases:
                bases += self._releases.possible(base, outer) or [(chain_of(base)[-1], state.is_certain)]
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            arguments = frozenset(name for each in methods for name in argument_names(each.args))
            names = frozenset(each.name for each in methods)
            yield Class(
                node.name,
                tuple(bases),
                names,
                arguments,
                self._where(node),
                state.is_certain,
                state.inside,
                tuple(base_calls.get(region, ())),
            )

    def _returns(self) -> Iterator[tuple[str, Value]]:
        for owner, returned in self._survey.returns.items():
            for value, region in returned if isinstance(owner, Function) else ():
                found = None if value is None else self._value(value, region)
                # What a function of TensorFlow returns is of no kind.
                if found is not None and found.name and found.kinds != {""} and isinstance(owner, Function):
                    yield owner.name, found

    def _checked(self) -> Iterator[tuple[str, str]]:
        for test, region in self._survey.type_tests:
            if getattr(test.func, "id", "") == "isinstance":
                found = [path for each in types_asked(test) for path, _ in self._releases.possible(each, region)]
                yield from ((chain_of(test.args[0])[-1], kind) for kind in map(kind_of, found) if kind)


def _module_name(alias: ast.alias, node: ast.Import | ast.ImportFrom) -> str:
    return (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name


# A call whose arguments tell nothing.
_OTHER = Call((), (), {}, False)


@functools.cache
def _tells(path: str) -> bool:
    """Return whether the arguments of a call may tell something."""
    return bool(kind_of(path)) or named(path) is not None or path.rpartition(".")[2] in (*_GIVEN, "set_value", "update")


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else ...


def _class_around(region: Region | None) -> str:
    while region is not None:
        if isinstance(region.owner, ast.ClassDef):
            return region.owner.name
        region = region.parent
    return ""


# Paths without an extension.


def _is_path_without_extension(call: ast.Call, region: Region) -> bool:
    """Return whether a call, if it saves or loads a model, is given a path without an extension of Keras 3."""
    path = _given_to(call)
    is_of_weights = chain_of(call.func)[-1] == "save_weights" or any(
        each.arg == "save_weights_only" and _constant(each.value) is True for each in call.keywords
    )
    endings = _OF_WEIGHTS if is_of_weights else _EXTENSIONS
    return path is not None and _is_without_extension(path, region, endings)


def _given_to(call: ast.Call) -> ast.expr | None:
    position = _GIVEN.get(chain_of(call.func)[-1])
    if position is None:
        return None
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in keywords or "zipped" in keywords or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    return call.args[position] if len(call.args) > position else keywords.get("filepath")


def _is_without_extension(node: ast.expr, region: Region, endings: tuple[str, ...], depth: int = 0) -> bool:
    """Return whether an expression certainly gives a path that ends in none of some extensions.

    Args:
        node: known are a string; `os.path.join`, `/`, `+` and f-strings that end in one; `tempfile.mkdtemp()`; and
            variables bound to any of these.
        region: where the expression is evaluated.
        endings: the extensions.
        depth: how many variables were followed to get here.
    """
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else ""
        return bool(text) and not text.startswith(_HUB) and not text.endswith(endings)
    if isinstance(node, ast.Name):
        bindings = region.find(node.id)
        return bool(bindings) and all(
            isinstance(each.value, ast.expr)
            and depth < _DEPTH
            and _is_without_extension(each.value, each.region, endings, depth + 1)
            for each in bindings
        )
    if isinstance(node, ast.Call) and _is_called(node, "tempfile", "mkdtemp"):
        return not node.args and all(keyword.arg in ("prefix", "dir") for keyword in node.keywords)
    if any(isinstance(each, ast.Constant) and str(each.value).startswith(_HUB) for each in ast.walk(node)):
        return False
    last = _last(node)
    return last is not None and _is_ending(last, endings)


def _last(node: ast.expr) -> ast.expr | None:
    """Return the last part of an expression that puts a path together; None for any other expression."""
    if isinstance(node, ast.Call) and _is_called(node, "path", "join") and not node.keywords:
        return node.args[-1] if len(node.args) > 1 else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        return node.right
    return node.values[-1] if isinstance(node, ast.JoinedStr) and node.values else None


def _is_ending(node: ast.expr, endings: tuple[str, ...]) -> bool:
    if not isinstance(node, ast.Constant):
        last = _last(node)
        return last is not None and _is_ending(last, endings)
    # `name + "5"` may end in an extension whose beginning is in `name`.
    text = node.value
    return isinstance(text, str) and not text.endswith(endings) and not any(e.endswith(text) for e in endings)


def _is_called(call: ast.Call, module: str, function: str) -> bool:
    return chain_of(call.func)[-2:] in ((module, function), (function,))
