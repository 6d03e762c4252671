"""What the names in a file stand for: paths like `tf.keras.mixed_precision`, through imports, aliases and modules."""

from __future__ import annotations

import ast
import functools
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from mpls.names import Name, named
from mpls.program.files import absolute, current_folder
from mpls.program.scopes import Binding, Located, Region, Survey, plain_chain

# The packages, and the roots of their paths.
ROOTS = {"tensorflow": "tf", "tensorflow_core": "tf", "keras": "keras", "tf_keras": "tf_keras"}
# Aliases of aliases are followed this deep.
MOST_ALIASES = 20

# Prefix of paths to the user's own modules: the file follows.
_OWN = "@"
# Prefix of the user's folders that have modules but are no packages: the dotted name follows.
_FOLDER = "@@"
# tf.keras was the package keras; mpls puts these names back in every package of Keras.
_OF_KERAS = re.compile(r"^(?:tf_)?keras(?=\.mixed_precision\.experimental(?:\.|$))")
_NAMESPACE = "tf.keras.mixed_precision.experimental"
# Of these, at least one is in the path of each historical name.
_PARTS = frozenset(("experimental", "mixed_precision", "__internal__"))
# `tf.compat.v1` and `tf.compat.v2` have themselves and each other in them, to any depth.
_COMPAT = re.compile(r"^tf\.compat\.v[12](?:\.compat\.v[12])*(?=\.compat\.v[12](?:\.|$))")


class Branch(IntEnum):
    """On which branch of a test for the release a name is bound, or code runs.

    `TRIED` is the one that runs if something is there, such as the body of a `try`; `FALLBACK` runs if it is not, such
    as its handlers. Under mpls all historical names are there. Of `GATED` ones, it is unknown which runs. `EVERY`: all
    branches bind the name to the same.
    """

    NONE = 0
    FALLBACK = 1
    EVERY = 2
    GATED = 3
    TRIED = 4

    def within(self, outer: Branch) -> Branch:
        """Return the branch of something on this branch of a test that is itself on an outer branch."""
        return outer if self is Branch.NONE or outer is Branch.FALLBACK else self


class Meaning(NamedTuple):
    """What an expression may stand for.

    Attributes:
        paths: the paths.
        is_whole: whether it can stand for nothing else.
        branches: paths that it stands for on a branch of a test for the release only, each with the branch. Only
            `mpls.program.releases` looks for such tests.
    """

    paths: frozenset[str]
    is_whole: bool
    branches: tuple[tuple[str, Branch], ...] = ()


NOTHING = Meaning(frozenset(), False)
_NONE = Meaning(frozenset(), True)


class Modules(Protocol):
    """The user's own modules that a file imports."""

    def module(self, name: str, level: int) -> str | None:
        """Return the file of a module; "" if a package of that name is here but the module is not; None if neither is.

        Args:
            name: its dotted name; "" for a package that is imported by dots alone.
            level: the number of dots before it.
        """


class Others(Protocol):
    """The other files of the user's."""

    def exported(self, file: str, name: str, depth: int) -> Meaning:
        """Return what a name at the top of a file stands for; NOTHING if it is unknown."""

    def submodule(self, file: str, name: str) -> str | None:
        """Return the file of a module in the package that a file is; None or "" if there is none."""


class Meanings:
    """What the names in one file stand for.

    Args:
        survey: what was collected in it.
        modules: the modules of the user's that it imports.
        others: the other files.
    """

    # Packages whose names are followed, with the roots of their paths.
    _followed: Mapping[str, str] = MappingProxyType(ROOTS)

    def __init__(self, survey: Survey, modules: Modules, others: Others) -> None:
        self.survey = survey
        self._modules = modules
        self._others = others
        self._known: dict[tuple[int, str], Meaning] = {}
        self._known_modules: dict[tuple[str, int], Meaning] = {}
        self._of_names: dict[tuple[Meaning, tuple[str, ...]], Meaning] = {}
        # The import statement of each alias, which alone has the name of the module.
        self._module_of = {alias: each.node for each in survey.imports for alias in each.node.names}

    def of(self, node: ast.expr, region: Region, depth: int = 0) -> Meaning:
        """Return what an expression in a scope stands for."""
        if depth > MOST_ALIASES:
            return NOTHING
        if isinstance(node, ast.IfExp) or (isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)):
            return self._one_of(node, region, depth)
        if isinstance(node, ast.Constant) and node.value is None:
            return _NONE
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, region, depth + 1)
        names = plain_chain(node)
        meaning = self.name(names[0], region, depth) if names else NOTHING
        for attribute in names[1:]:
            meaning = self.member(meaning, attribute, depth)
        return meaning

    def of_names(self, names: tuple[str, ...], region: Region) -> Meaning:
        """Return what a name in a scope stands for, with attributes that are read from it."""
        start = self.name(names[0], region)
        if len(names) == 1 or not start.paths:
            return start
        key = start, names[1:]
        if key not in self._of_names:
            meaning = start
            for attribute in names[1:]:
                meaning = self.member(meaning, attribute)
            self._of_names[key] = meaning
        return self._of_names[key]

    def _one_of(self, node: ast.IfExp | ast.BoolOp, region: Region, depth: int) -> Meaning:
        """Return what an expression stands for that is one of its parts: `a if test else b`, `a or b`."""
        parts = node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse)
        return union([self.of(each, region, depth + 1) for each in parts])

    def name(self, name: str, region: Region, depth: int = 0) -> Meaning:
        """Return what a name in a scope stands for."""
        holder = region.holder(name)
        if holder is None and not self.survey.stars:
            return NOTHING
        key = (id(holder), name)
        if key not in self._known:
            # Set first: names may be bound to each other in a circle, and modules import all names of each other.
            self._known[key] = NOTHING
            if holder is None:
                self._known[key] = self._of_stars(name, depth)
            else:
                bindings = holder.names.get(name, [])
                # What it is before it is bound to an attribute of itself.
                before = [each for each in bindings if not _is_own(each, name, holder)]
                if len(before) < len(bindings):
                    self._known[key] = self._of_bindings(before, depth)
                self._known[key] = self._of_bindings(bindings, depth)
        return self._known[key]

    def _of_bindings(self, bindings: list[Binding], depth: int) -> Meaning:
        return union([self._bound(each, depth) for each in bindings])

    def _of_stars(self, name: str, depth: int) -> Meaning:
        """Return what a name stands for that nothing binds but imports of all names of modules."""
        found = [self._in_star(each, name, depth) for each in self.survey.imports if each.node in self.survey.stars]
        meaning = union([each for each in found if each.paths])
        # A module that is not known may have the name too.
        return meaning if all(map(self.module_of, self.survey.stars)) else meaning._replace(is_whole=False)

    def _in_star(self, star: Located, name: str, depth: int) -> Meaning:
        """Return what a name stands for in a module whose names are all imported; NOTHING if it has no such name."""
        path = next(iter(self.module_of(star.node)), "")
        if path.startswith(_OWN):
            return self._within(path, name, depth)
        # Of other packages, only the historical names are known.
        row = None if name.startswith("_") else named(f"{path}.{name}")
        return NOTHING if row is None else Meaning(frozenset((row.path,)), True)

    def member(self, base: Meaning, attribute: str, depth: int = 0) -> Meaning:
        """Return what an attribute of something stands for."""
        if not base.paths:
            return base
        branch_of = dict(base.branches)
        both = union([on_branch(self._within(each, attribute, depth), branch_of.get(each)) for each in base.paths])
        return both if base.is_whole or not both.is_whole else both._replace(is_whole=False)

    def historical(self, meaning: Meaning, names: tuple[str, ...]) -> tuple[int, Meaning, list[Name]]:
        """Return the number of attributes after which all meanings are historical names, the meaning there, and them.

        If there is none, return 0, the meaning of the whole, and no names.
        """
        for position in range(len(names)):
            if position:
                meaning = self.member(meaning, names[position])
            if not meaning.paths:
                break
            rows = [named(path) for path in sorted(meaning.paths)]
            found = [row for row in rows if row is not None and not row.is_namespace]
            if len(found) == len(rows):
                return position, meaning, found
        return 0, meaning, []

    def _within(self, path: str, attribute: str, depth: int) -> Meaning:
        if not path.startswith(_OWN):
            return Meaning(frozenset((_canonical(f"{path}.{attribute}"),)), True)
        if path.startswith(_FOLDER):
            return self._package(f"{path.removeprefix(_FOLDER)}.{attribute}")
        file = path[1:]
        meaning = self._exported(file, attribute, depth + 1) if depth < MOST_ALIASES else NOTHING
        if meaning == NOTHING and file.endswith("__init__.py"):
            inner = self._others.submodule(file, attribute)
            return Meaning(frozenset((f"{_OWN}{inner}",)), True) if inner else NOTHING
        return meaning

    def _exported(self, file: str, name: str, depth: int) -> Meaning:
        """Return what a name at the top of another file stands for; NOTHING if it is unknown."""
        return self._others.exported(file, name, depth)

    def _bound(self, binding: Binding, depth: int) -> Meaning:
        value = binding.value
        if isinstance(value, ast.alias):
            return self.alias(value, depth)
        return self.of(value, binding.region, depth + 1) if isinstance(value, ast.expr) else NOTHING

    def alias(self, alias: ast.alias, depth: int = 0) -> Meaning:
        """Return what an imported name stands for."""
        statement = self._module_of[alias]
        if isinstance(statement, ast.Import):
            return self._module(alias.name, 0) if alias.asname else self._package(alias.name.partition(".")[0])
        found = self.member(self._module(statement.module or "", statement.level), alias.name, depth + 1)
        if found == NOTHING and alias.name != "*":
            # A module may be in a folder that is no package.
            return self._module(".".join(filter(None, (statement.module, alias.name))), statement.level)
        return found

    def _package(self, name: str) -> Meaning:
        """Return what a module, or a folder of the user's with modules that the file imports, stands for."""
        found = self._module(name, 0)
        inner = (each.name for each in self._module_of if each.name.startswith(f"{name}."))
        is_folder = found == NOTHING and any(
            path.startswith(_OWN) for each in inner for path in self._module(each, 0).paths
        )
        return Meaning(frozenset((f"{_FOLDER}{name}",)), True) if is_folder else found

    def base_of(self, alias: ast.alias) -> Meaning | None:
        """Return what the module stands for that an alias is imported from; None if it is a module itself."""
        statement = self._module_of[alias]
        if isinstance(statement, ast.Import):
            return None
        return self._module(statement.module or "", statement.level)

    def of_import(self, alias: ast.alias) -> frozenset[str]:
        """Return the paths of what is imported, or of the module that is."""
        base = self.base_of(alias)
        return (self._module(alias.name, 0) if base is None else base).paths

    def module_of(self, statement: ast.ImportFrom) -> frozenset[str]:
        """Return the paths of the module that a statement imports from."""
        return self._module(statement.module or "", statement.level).paths

    def path_of(self, alias: ast.alias) -> str:
        """Return the path of what is imported, of the module even if its name binds the package.

        It is "" for what is unknown, and for what comes by a module of the user's, in which it is replaced.
        """
        statement = self._module_of[alias]
        if any(path.startswith(_OWN) for path in self.of_import(alias)):
            return ""
        found = self._module(alias.name, 0) if isinstance(statement, ast.Import) else self.alias(alias)
        return next((path for path in found.paths if not path.startswith(_OWN)), "") if found.is_whole else ""

    def _module(self, name: str, level: int) -> Meaning:
        key = name, level
        if key not in self._known_modules:
            self._known_modules[key] = self._module_at(name, level)
        return self._known_modules[key]

    def _module_at(self, name: str, level: int) -> Meaning:
        file = self._modules.module(name, level)
        if file:
            return Meaning(frozenset((f"{_OWN}{file}",)), True)
        top, _, rest = name.partition(".")
        if file is None and not level and top in self._followed:
            return Meaning(frozenset((_canonical(".".join(filter(None, (self._followed[top], rest)))),)), True)
        return NOTHING


def _is_own(binding: Binding, name: str, holder: Region) -> bool:
    """Return whether a name is bound to something that begins with the name: `mp = mp.experimental`."""
    names = plain_chain(binding.value) if isinstance(binding.value, ast.expr) else ()
    return names[:1] == (name,) and binding.region.holder(name) is holder


def _canonical(path: str) -> str:
    path = _OF_KERAS.sub("tf.keras", path)
    return _COMPAT.sub("tf", path) if path.startswith("tf.compat.v") else path


def guessed(names: Sequence[str]) -> tuple[Name, int, int] | None:
    """Return the historical name in a chain from something unknown that may be TensorFlow, or a part of it.

    Args:
        names: the names in the chain.

    Returns:
        The historical name, and where its part of the chain begins and ends; None if there is none.
    """
    if _PARTS.isdisjoint(names):
        return None
    for start, end in itertools.combinations(range(len(names) + 1), 2):
        for root in ("tf", "tf.keras"):
            row = named(".".join((root, *names[start:end])))
            # What is still there has names that others may have too.
            if row is None or (row.last is None and (row.is_namespace or root != "tf" or start != 1)):
                continue
            if not row.is_namespace or (row.path == _NAMESPACE and root == "tf" and end == len(names)):
                return row, start, end
    return None


def union(meanings: list[Meaning]) -> Meaning:
    """Return what something stands for that may be any of several."""
    if not meanings:
        return NOTHING
    if len(meanings) == 1:
        return meanings[0]
    branches: dict[str, Branch] = {}
    for each in meanings:
        for path, branch in each.branches:
            branches[path] = max(branch, branches.get(path, Branch.NONE))
    is_whole = all(each.is_whole for each in meanings)
    return Meaning(frozenset().union(*(each.paths for each in meanings)), is_whole, tuple(branches.items()))


def on_branch(meaning: Meaning, branch: Branch | None) -> Meaning:
    """Return what something stands for that is on a branch of a test for the release."""
    if not branch or not meaning.paths:
        return meaning
    before = dict(meaning.branches)
    branches = tuple((path, before.get(path, Branch.NONE).within(branch)) for path in sorted(meaning.paths))
    return meaning._replace(branches=branches)


class Neighbours:
    """The modules that a file can import from the folders around it.

    Looked at are the file's own folder and those above it, up to the current folder, or to the one that is migrated if
    it is further up: any of them may be where Python looks for modules.

    Args:
        file: the path of the file; None for standard input, around which nothing is looked at.
        top: the folder that is migrated, or "".

    Attributes:
        folder: the file's own folder; None for standard input.
    """

    def __init__(self, file: str | None, top: str = "") -> None:
        self.folder: str | None = None if file is None else os.path.dirname(absolute(file))
        self._roots = [] if self.folder is None else _roots(self.folder, top)

    def module(self, name: str, level: int) -> str | None:
        """Return the file of a module; "" if a package of that name is here but the module is not; None if neither is.

        Args:
            name: its dotted name; "" for a package that is imported by dots alone.
            level: the number of dots before it.
        """
        if level:
            folder = self.folder
            for _ in range(level - 1):
                folder = None if folder is None else os.path.dirname(folder)
            return "" if folder is None else _file_of(folder, name) or ""
        for root in self._roots:
            file = _file_of(root, name)
            if file is not None or _file_of(root, name.partition(".")[0]) is not None:
                return file or ""
        return None


def _roots(folder: str, top: str) -> list[str]:
    roots = [folder]
    ends = [each for each in (absolute(top) if top else "", current_folder()) if each and _is_inside(folder, each)]
    end = min(ends, default=folder)
    while folder != end:
        folder = os.path.dirname(folder)
        roots.append(folder)
    return roots


def _is_inside(folder: str, other: str) -> bool:
    return folder == other or folder.startswith(os.path.join(other, ""))


@functools.lru_cache(maxsize=100_000)
def _file_of(folder: str, name: str) -> str | None:
    base = os.path.join(folder, *name.split(".")) if name else folder
    candidates = [os.path.join(base, "__init__.py")]
    if name:
        candidates.append(f"{base}.py")
    return next((path for path in candidates if os.path.isfile(path)), None)
