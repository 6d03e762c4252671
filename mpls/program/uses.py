"""What a file uses, in records without its syntax tree: names of TensorFlow and Keras, attributes, classes, calls."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from mpls.names import named
from mpls.program.meaning import NOTHING, Meaning, guessed
from mpls.program.objects import (
    Flow,
    Objects,
    ScaleUse,
    Taken,
    Value,
    flows_in,
    sets_scaling_policy,
    uses_of_scales,
    value_of,
)
from mpls.program.releases import Releases, is_switch
from mpls.program.scopes import (
    Chain,
    Member,
    Region,
    Role,
    argument_names,
    chain_of,
    names_of,
)
from mpls.program.tables import Kind, is_public, kind_of

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
_DOTTED = re.compile(r"\w+(?:\.\w+)+")
_EAGER = ("tf.enable_eager_execution", "tf.enable_v2_behavior")


Release = tuple[int, int]


class Where(NamedTuple):
    """A line of the program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Call(NamedTuple):
    """The arguments of a call.

    Attributes:
        values: those by position: the values of constants, `...` for others.
        keywords: those by name: the values of constants, `...` for others; None for `**arguments`.
        is_unextended: whether it saves or loads a model, or its weights, at a path without an extension for that of
            Keras 3.
        first: the first by position, or what is named `optimizer` or `opt`.
    """

    values: tuple[object, ...]
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
    """

    path: str
    where: Where
    is_certain: bool
    inside: tuple[str, ...] = ()
    call: Call | None = None

    @property
    def behind(self) -> str | None:
        """The innermost condition around it that a constant of the program makes false; None if there is none."""
        return next((each[len("if ") :] for each in reversed(self.inside) if is_switch(each)), None)


class Access(NamedTuple):
    """A place where a program reads or sets an attribute of an object.

    Attributes:
        owner: the object.
        name: the attribute.
        where: the line.
        is_certain: whether the line runs on every release.
        inside: as for `Use`.
        call: the call, if it is called there.
        is_set: whether the attribute is assigned.
    """

    owner: Value
    name: str
    where: Where
    is_certain: bool
    inside: tuple[str, ...] = ()
    call: Call | None = None
    is_set: bool = False


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


class ScaleSign(NamedTuple):
    """A place where a program takes the loss scale of something as the object that it was up to TF 2.3.

    Attributes:
        what: what the line does, as for `Sign`.
        where: the line.
        is_certain: whether the line runs on every release.
        inside: as for `Use`.
        owner: what has the loss scale.
        is_wrapper: whether its file shows that it is an experimental wrapper.
        is_sure: whether it is one even if the program has classes with a loss scale of their own.
    """

    what: str
    where: Where
    is_certain: bool
    inside: tuple[str, ...]
    owner: Value
    is_wrapper: bool
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
        flows: what its names get.
        defined: the names of its functions and methods.
        scales: loss scales that it takes as objects.
        modules: modules that it imports on every release, by absolute names, each with the conditions around the import
            that constants make false.
        switches: all such conditions.
        is_eager: whether it enables eager mode of TF 1.
        wraps_compiled: whether it sets a policy under which `compile` makes experimental wrappers.
        is_cut: whether it is nested too deeply to be read to the end.
        signs: the signs that its uses on every release are, each with what they are in; None until they are asked for.
    """

    uses: list[Use] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    defined: frozenset[str] = frozenset()
    scales: list[ScaleSign] = field(default_factory=list)
    modules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    is_eager: bool = False
    wraps_compiled: bool = False
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
    wraps_compiled: bool = False

    def __post_init__(self) -> None:
        for file, is_always, unused in self.files:

            def runs(
                each: Use | Access | Class | ScaleSign, certain: bool = is_always, never: Set[str] = unused
            ) -> bool:
                return certain and never.isdisjoint(each.inside)

            self.uses.extend(each if runs(each) else each._replace(is_certain=False) for each in file.uses)
            self.accesses.extend(each if runs(each) else each._replace(is_certain=False) for each in file.accesses)
            self.classes.extend(each if runs(each) else each._replace(is_certain=False) for each in file.classes)
            self.scales.extend(each for each in file.scales if each.is_certain and runs(each))
            self.flows.extend(file.flows)
            self.defined = self.defined | file.defined
            self.is_eager = self.is_eager or file.is_eager
            self.wraps_compiled = self.wraps_compiled or file.wraps_compiled


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
        if survey.reads or not kinds.isdisjoint((Kind.PUBLIC_WRAPPER, Kind.EXPERIMENTAL_WRAPPER)):
            self._objects = Objects(self._releases, False)
        found.accesses = list(self._accesses())
        found.classes = list(self._classes())
        found.flows = list(flows_in(self._releases))
        found.defined = frozenset(survey.functions)
        rows = [row for row in (named(use.path) for use in found.uses) if row is not None]
        sets_policy = any(row.attribute == "set_policy" for row in rows)
        found.wraps_compiled = sets_policy and sets_scaling_policy(self._releases)
        if self._objects is not None and not any(map(is_public, rows)):
            found.scales = list(self._scales(Kind.EXPERIMENTAL_WRAPPER in kinds or found.wraps_compiled))
        found.switches = frozenset(self._releases.switches)
        found.is_eager = any(use.path in _EAGER for use in found.uses)
        found.uses = sorted((*found.uses, *self._guessed()), key=lambda use: use.where)
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
        for chain in self._survey.followed:
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
            yield Use(path, self._where(place.node), is_certain, state.inside, call)

    def _guessed(self) -> Iterator[Use]:
        """Yield the historical names of what may be TensorFlow, and those in strings."""
        releases, survey = self._releases, self._survey
        for place in survey.places:
            row = guessed(names_of(place))
            if row is not None and not releases.of(place.node, place.region).paths:
                yield from self._used(place, [(row[0].path, False)])
        for node in survey.strings:
            for text in _DOTTED.findall(str(node.value)):
                row = guessed(text.split("."))
                if row is not None:
                    yield Use(row[0].path, self._where(node), False)

    def _call(self, call: ast.Call, region: Region) -> Call:
        keywords = {keyword.arg: _constant(keyword.value) for keyword in call.keywords}
        is_unextended = _is_path_without_extension(call, region)
        named = [each.value for each in call.keywords if each.arg in ("optimizer", "opt")]
        first = next(iter((*call.args, *named)), None)
        values = tuple(map(_constant, call.args))
        value = None if first is None else value_of(first, region, self._releases)
        return Call(values, keywords, is_unextended, value)

    # Attributes of other objects.

    def _accesses(self) -> Iterator[Access]:
        releases = self._releases
        for member in self._survey.members:
            if releases.possible(member.node, member.region):
                continue
            state = releases.at(member.statement, member.choice)
            if state.is_dead:
                continue
            owner = value_of(member.owner, member.region, releases, self._objects)
            call = None if member.call is None else self._call(member.call, member.region)
            where = self._where(member.node)
            yield Access(owner, member.name, where, state.is_certain, state.inside, call, member.is_set)

    # Loss scales that are taken as objects.

    def _scales(self, has_wrappers: bool) -> Iterator[ScaleSign]:
        """Yield what a file does with loss scales, if it makes no wrappers or experimental ones alone."""
        # Objects of a class with a loss scale of its own may be where the first takes a wrapper for granted.
        likely, sure = self._objects, Objects(self._releases, has_own_members=True, is_set_here=True)
        assert likely is not None
        for use in uses_of_scales(likely):
            releases = self._releases.of_wrappers if use.how is Taken.CALLED else self._releases
            what, state = self._done_with_scale(use), releases.at(use.place.statement, use.place.choice)
            if what and not state.is_dead:
                is_one = has_wrappers and likely.is_wrapper(use.owner, use.region)
                yield ScaleSign(
                    what,
                    self._where(use.place.node),
                    state.is_certain,
                    state.inside,
                    value_of(use.owner, use.region, self._releases),
                    is_one,
                    is_one and sure.is_wrapper(use.owner, use.region),
                )

    def _done_with_scale(self, use: ScaleUse) -> str:
        """Return what a line does that only a program for such objects does; "" if others may do it too."""
        name = use.place.name
        if use.how is Taken.CALLED_LATER:
            names = chain_of(use.place.node)
            calls = [call for call, _ in self._survey.calls_of(*_ASKING)]
            is_asked = any(call.args and chain_of(call.args[0]) == names for call in calls)
            return f"calls {'.'.join(names)}, a .loss_scale" if use.is_only and not is_asked else ""
        if use.how is Taken.CONFIG:
            is_scale = use.place.node.slice.value == "loss_scale"  # type: ignore[attr-defined]
            return "reads the loss_scale of a wrapper's config" if is_scale else ""
        done = {Taken.CALLED: f"calls .{name}()", Taken.TESTED: f"asks for the class of .{name}"}
        done[Taken.GIVEN] = f"gives .{name} to get_loss_scale_weights"
        done[Taken.SHARED] = f"calls {name}(), the loss scale of a wrapper"
        done[Taken.ASSERTED] = f"asserts which object .{name} is"
        return done.get(use.how, "")

    # What is passed around.

    def _base_calls(self) -> dict[Region, list[tuple[Where, Call]]]:
        """Return the calls of `super().__init__` and `Base.__init__`, by the class that they are in."""
        found: dict[Region, list[tuple[Where, Call]]] = {}
        loose = (each for each in self._survey.loose if each.name == "__init__")
        for place in (*loose, *self._survey.called.get("__init__", ())):
            method = place.region.method()
            if place.call is None or method is None or method.parent is None:
                continue
            state = self._releases.at(place.statement, place.choice)
            if state.is_certain:
                call = self._call(place.call, place.region)
                if isinstance(place, Chain):
                    # The object itself is an argument.
                    call = call._replace(values=call.values[1:])
                found.setdefault(method.parent, []).append((self._where(place.node), call))
        return found

    def _classes(self) -> Iterator[Class]:
        base_calls = self._base_calls()
        for node, region in self._survey.classes.items():
            outer = region.parent
            assert outer is not None
            bindings = outer.outer.get(node.name, outer).names[node.name]
            state = self._releases.state(next(each.statement for each in bindings if each.value is node))
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


def _module_name(alias: ast.alias, node: ast.Import | ast.ImportFrom) -> str:
    return (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name


# A call whose arguments tell nothing.
_OTHER = Call((), {}, False)


@functools.cache
def _tells(path: str) -> bool:
    """Return whether the arguments of a call may tell something."""
    has_kind = kind_of(path) is not None or named(path) is not None
    return has_kind or path.rpartition(".")[2] in (*_GIVEN, "set_value", "update")


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else ...


# Paths without an extension.


def _is_path_without_extension(call: ast.Call, region: Region) -> bool:
    """Return whether a call, if it saves or loads a model, is given a path without an extension of Keras 3."""
    path = _given_to(call)
    if path is None or any(map(_is_of_hub, ast.walk(path))):
        return False
    is_of_weights = chain_of(call.func)[-1] == "save_weights" or any(
        each.arg == "save_weights_only" and _constant(each.value) is True for each in call.keywords
    )
    endings = _OF_WEIGHTS if is_of_weights else _EXTENSIONS
    found = _ends(path, region)
    # `name + "5"` may end in an extension whose beginning is in `name`.
    return bool(found) and not any(each.endswith(end) or end.endswith(each) for each in found for end in endings)


def _is_of_hub(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).startswith(_HUB)


def _given_to(call: ast.Call) -> ast.expr | None:
    position = _GIVEN.get(chain_of(call.func)[-1])
    if position is None:
        return None
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in keywords or "zipped" in keywords or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    return call.args[position] if len(call.args) > position else keywords.get("filepath")


def _ends(node: ast.expr, region: Region, depth: int = 0) -> list[str]:
    """Return the ends of the paths that an expression in a scope may give; none if one of them is unknown.

    Known are strings; `os.path.join`, `/`, `+` and f-strings that end in one; `tempfile.mkdtemp()`; and variables that
    are bound to any of these.
    """
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and not _is_of_hub(node) else []
    if isinstance(node, ast.Name):
        values = [(each.value, each.region) for each in region.find(node.id)] if depth < _DEPTH else []
        found = [_ends(value, its, depth + 1) if isinstance(value, ast.expr) else [] for value, its in values]
        return [end for ends in found for end in ends] if all(found) else []
    if isinstance(node, ast.Call) and chain_of(node.func)[-1] == "mkdtemp" and not node.args:
        return ["tmp"] if all(keyword.arg in ("prefix", "dir") for keyword in node.keywords) else []
    last: ast.expr | None = None
    if isinstance(node, ast.Call) and chain_of(node.func)[-1] == "join" and len(node.args) > 1 and not node.keywords:
        last = node.args[-1]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        last = node.right
    elif isinstance(node, ast.JoinedStr) and node.values:
        last = node.values[-1]
    # A variable in the end may be only a part of it.
    return [] if last is None or isinstance(last, ast.Name) else _ends(last, region, depth)
