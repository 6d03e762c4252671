"""The historical names in a file and what can be asked about them; what rules are, and what becomes of a use."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from mpls.core.releases import behavior_of
from mpls.migrate.source_text import Edit, SourceText
from mpls.migrate.tree_facts import Facts
from mpls.names import SCALE_CLASSES, Name, named, namespaces
from mpls.program.choices import last_pinned
from mpls.program.files import Folder
from mpls.program.meaning import NOTHING, Meaning, Meanings, Neighbours, Others
from mpls.program.objects import Objects, ScaleUse, uses_of_scales
from mpls.program.programs import folders_of
from mpls.program.scopes import Chain, Function, Located, Region, Role, Statement, Survey, is_stored, types_asked
from mpls.program.signs import LAST, LAST_WITH_LOSS_SCALE_OBJECTS, NOT_OF_THE_LAST
from mpls.program.tables import is_public

STAR_RULE = "star-imports"
# Modules that have the same objects, for names that are imported from one statement.
_ALSO_IN = {"mpls.experimental": "mpls.v1", "mpls.v1": "mpls.experimental"}
_OF_POLICIES = "mpls.experimental.policy"


@functools.cache
def replacement_of(path: str) -> str:
    """Return the path that replaces a historical name; "" for a namespace, and for what is to stay as it is.

    What stays are names that only today's packages have (`tf_keras`, and those of Keras 3), and public names of
    policies that mean today what they have always meant.
    """
    row = named(path)
    is_one = row is not None and not row.needs_keras_3 and not row.stays
    return row.replacement.replace("OptimizerV3", "Optimizer") if row is not None and is_one else ""


def left_text(left: str, name: str, instead: str) -> str:
    """Return that something is left, as the name that it begins with may be something else, and what to write."""
    return f"{left} is left, as {name} may be something else here too: write {instead}"


def is_gone(path: str) -> bool:
    """Return whether a path is a historical name or namespace that TensorFlow has removed."""
    row = named(path)
    return row is not None and row.last is not None


@functools.cache
def home_of(path: str) -> str | None:
    """Return the module of mpls that has all members of a removed namespace, by their names; None if none has."""
    row = named(path)
    if row is None or not row.is_namespace or row.last is None:
        return None
    members = [each for each in namespaces().get(row.path, ()) if not each.is_namespace]
    homes = {each.target.partition(":")[0] for each in members}
    if homes <= {"mpls.experimental", _OF_POLICIES} and len(homes) > 1:
        return _OF_POLICIES
    return homes.pop() if len(homes) == 1 else None


def tries(statement: Statement) -> Iterator[ast.Try]:
    """Yield the `try` statements in whose bodies a statement runs, so that the program may go on if it fails."""
    outer: Statement | None = statement
    while outer is not None and not isinstance(outer.node, Function):
        parent = outer.parent
        if parent is not None and isinstance(parent.node, ast.Try) and outer.block is parent.node.body:
            yield parent.node
        outer = parent


_NAMES = (ast.Name, ast.Attribute, ast.Import, ast.ImportFrom)
_SCALING = re.compile(r"\b(mixed_precision|LossScaleOptimizer|\w*[pP]olicy)\b")


def names_scaling(branch: Iterable[ast.AST]) -> bool:
    """Return whether a branch of a program uses names of mixed precision, and does not only bind them."""
    found = (node for each in branch for node in ast.walk(each))
    return any(_SCALING.search(ast.unparse(each)) for each in found if isinstance(each, _NAMES) and not is_stored(each))


def alternatives(path: str) -> list[str]:
    """Return a path of mpls, and that of the same object in another module."""
    home, _, name = path.rpartition(".")
    return [path, f"{_ALSO_IN[home]}.{name}"] if name in SCALE_CLASSES and home in _ALSO_IN else [path]


@dataclass(frozen=True)
class Settings:
    """What the user has chosen.

    Attributes:
        rules: the names of the rules that apply.
        as_of: the release that the program was written for, `"2.2"`; None if it is not said.
        keras: the generation of Keras that the program will live with.
        is_native: whether to write today's own names of TensorFlow and Keras, where they mean the same.
    """

    rules: frozenset[str]
    as_of: str | None
    keras: int
    is_native: bool

    @property
    def has_objects(self) -> bool:
        """Whether wrappers had `LossScale` objects in the release that the user has named."""
        return behavior_of(self.as_of).has_loss_scale_objects


class Outcome(Enum):
    """What a message is about."""

    CHANGED = "changed"
    # Something that works, but differs from what one might expect.
    NOTED = "noted"
    # Something that does not work yet, or may not.
    LEFT = "left"


class Finding(NamedTuple):
    """A message about a part of a file.

    Attributes:
        node: the part.
        text: what was done, or what is left to do.
        kind: what it is about.
        rule: the name of the rule; "" where the rule itself says it.
    """

    node: ast.expr | ast.stmt | ast.alias
    text: str
    kind: Outcome = Outcome.LEFT
    rule: str = ""


@dataclass(eq=False, slots=True)
class Use:
    """A use of a historical name.

    Attributes:
        chain: the chain of names that it is in.
        node: the part of it that stands for the historical name.
        rows: the historical names that it may stand for.
        role: what it is used for.
    """

    chain: Chain
    node: ast.expr
    rows: list[Name]
    role: Role

    @property
    def call(self) -> ast.Call | None:
        """The call, if it is called."""
        return self.chain.call if self.role is Role.CALL else None


@dataclass(slots=True)
class Decision:
    """What becomes of a use.

    Attributes:
        path: the path to write in its place, `"mpls.keras.LossScaleOptimizer"`.
        edits: edits of the call's arguments.
        note: what to say about it, if anything.
        kind: what the note is about.
        otherwise: what becomes of it if the path cannot be written there.
    """

    path: str
    edits: list[Edit] = field(default_factory=list)
    note: str = ""
    kind: Outcome = Outcome.NOTED
    otherwise: Decision | None = None


Replace = Callable[["Use", "Analysis"], "Decision | None"]
Look = Callable[["Analysis"], Iterable["Edit | Finding"]]


@dataclass(frozen=True)
class Rule:
    """A rule of the rewriter.

    Attributes:
        name: its name, for `--only` and `--skip`.
        text: what it changes, and why.
        owns: whether it replaces a historical name; None if it replaces none.
        replace: what becomes of a use of such a name, if not only the name.
        look: what else it finds in a file.
    """

    name: str
    text: str
    owns: Callable[[Name], bool] | None = None
    replace: Replace | None = None
    look: Look | None = None


@dataclass(frozen=True)
class Kept:
    """What a program relies on.

    Attributes:
        node: where it does; None if it calls `mpls.install(as_of=…)`, or a module that it imports does.
        why: what it relies on.
        place: the statement behind which `mpls.install(as_of=…)` is to be called; None if it is called already.
    """

    node: ast.expr | None = None
    why: str = ""
    place: Statement | None = None


class Files(Others, Protocol):
    """The other files of the user's, with what becomes of them."""

    def analysis(self, file: str) -> Analysis | None:
        """Return what becomes of a file; None if it cannot be read."""


class Afterwards(Meanings):
    """What expressions stand for once imports and aliases are replaced.

    Args:
        survey: what was collected in the file.
        neighbours: the modules around it.
        others: the other files.
        aliases: imported names that are replaced, each with the path of its replacement.

    Attributes:
        becomes: expressions that are replaced, each with the path that it becomes.
        stars: imports of all names of a module, each as in `Analysis.names_of_star`.
    """

    def __init__(self, survey: Survey, neighbours: Neighbours, others: Files, aliases: dict[ast.alias, str]) -> None:
        super().__init__(survey, neighbours, others)
        self.becomes: dict[ast.expr, str] = {}
        self.stars: dict[ast.stmt, tuple[str, list[str]]] = {}
        self._aliases = aliases
        self._files = others

    def forget(self) -> None:
        """Forget what was found out, since decisions have changed."""
        self._known.clear()

    def of(self, node: ast.expr, region: Region, depth: int = 0) -> Meaning:
        """Return what an expression in a scope stands for, before it is replaced itself."""
        if node in self.becomes and depth:
            return _one(self.becomes[node])
        if isinstance(node, ast.Attribute):
            return self.member(self.of(node.value, region, depth + 1), node.attr, depth)
        return super().of(node, region, depth)

    def alias(self, alias: ast.alias, depth: int = 0) -> Meaning:
        """Return what an imported name stands for."""
        return _one(self._aliases[alias]) if alias in self._aliases else super().alias(alias, depth)

    def _in_star(self, star: Located, name: str, depth: int) -> Meaning:
        home, names = self.stars.get(star.node, ("", ()))
        return _one(f"{home}.{name}") if name in names else super()._in_star(star, name, depth)

    def _exported(self, file: str, name: str, depth: int) -> Meaning:
        """Return what a name at the top of another file stands for, once that is replaced too."""
        other = self._files.analysis(file)
        return NOTHING if other is None else other.afterwards.name(name, other.survey.module, depth)


def _one(path: str) -> Meaning:
    return Meaning(frozenset((path,)), True)


class Analysis:
    """The historical names in a file, and what becomes of them.

    Args:
        text: the file's text.
        neighbours: the modules around it.
        others: the other files of the user's.
        rules: all rules.
        settings: which of them apply.
        facts: what the files that are migrated say.

    Attributes:
        text: the file's text.
        survey: what was collected in it.
        meanings: what its names stand for.
        settings: what the user has chosen.
        others: the other files of the user's.
        facts: what the files that are migrated say.
        rules: the rules that apply.
        uses: uses of historical names, with what becomes of them; None for those that stay.
        rest: the other chains that begin with a name of TensorFlow or Keras, with what they stand for.
        spaces: uses of removed namespaces as a whole, with the module of mpls that replaces them.
        aliases: imported names that are replaced, each with the path of its replacement.
        afterwards: what expressions stand for then.
        values_of_class: where the class of the experimental wrapper is a value; None if this was not asked.
        is_decided: whether what becomes of the uses is decided.
        kept: what the file relies on that wrappers had up to TF 2.3; None if there is nothing.
    """

    def __init__(
        self,
        text: SourceText,
        neighbours: Neighbours,
        others: Files,
        rules: Sequence[Rule],
        settings: Settings,
        facts: Facts,
    ) -> None:
        self.text = text
        self.survey: Survey = Survey(text.tree)
        self.meanings: Meanings = Meanings(self.survey, neighbours, others)
        self._folder = neighbours.folder
        self.settings = settings
        self.others = others
        self.facts = facts
        self.rules: list[Rule] = [rule for rule in rules if rule.name in settings.rules]
        self.uses: list[tuple[Use, Decision | None]] = []
        self.rest: list[tuple[Chain, Meaning]] = []
        self.spaces: list[tuple[Chain, ast.expr, str]] = []
        self.aliases: dict[ast.alias, str] = {}
        self.afterwards: Afterwards = Afterwards(self.survey, neighbours, others, self.aliases)
        self.kept: Kept | None = None
        self.values_of_class: tuple[ast.expr | ast.alias, ...] | None = None
        self.is_decided = False

    @functools.cached_property
    def imported(self) -> dict[ast.stmt, frozenset[str]]:
        """The paths of what each import statement imports, and of the modules that have it."""
        of_import, alias = self.meanings.of_import, self.meanings.alias
        return {
            node: frozenset().union(*(of_import(each) | alias(each).paths for each in node.names))
            for node, _, _ in self.survey.imports
        }

    @functools.cached_property
    def imports_own(self) -> bool:
        """Whether it imports modules of the program's own."""
        return any(path.startswith("@") for paths in self.imported.values() for path in paths)

    @functools.cached_property
    def chains(self) -> list[tuple[Chain, Meaning]]:
        """The chains that begin with a name of TensorFlow or Keras, or a module that may have some; what that means."""
        known: dict[tuple[int, str], Meaning] = {}
        found = []
        for chain in self.survey.followed:
            key = id(chain.region), chain.names[0]
            meaning = known.get(key)
            if meaning is None:
                meaning = known[key] = self.meanings.name(chain.names[0], chain.region)
            if meaning.paths:
                found.append((chain, meaning))
        return found

    def rule_of(self, row: Name) -> Rule | None:
        """Return the rule that replaces a historical name, if it applies."""
        # With Keras 2, public names mean what they have always meant.
        is_there = self.settings.keras == 2 and row.last is None and not row.is_private and not row.is_contrib
        is_of_keras = is_there and row.target.startswith("mpls.keras:")
        if not replacement_of(row.path) or (is_of_keras and not self.is_unsupported_by_tf_keras):
            return None
        return next((rule for rule in self.rules if rule.owns is not None and rule.owns(row)), None)

    def rule_within(self, row: Name) -> Rule | None:
        """Return a rule that replaces names of a namespace; the first, if several do."""
        rules = [self.rule_of(each) for each in _members(row)]
        inner = [self.rule_within(each) for each in namespaces().get(row.path, ()) if each.is_namespace]
        return next((rule for rule in (*rules, *inner) if rule is not None), None)

    def applies_within(self, path: str) -> bool:
        """Return whether rules apply to all names of a removed namespace."""
        row = named(path)
        return row is not None and all(self.rule_of(each) is not None for each in _members(row))

    @functools.cached_property
    def objects(self) -> Objects:
        """What the expressions of the file are."""
        return Objects(self.meanings, self.facts.has_own_members, names_scaling=self.facts.names_scaling)

    @functools.cached_property
    def scales(self) -> list[ScaleUse]:
        """Where loss scales are taken as objects."""
        return list(uses_of_scales(self.objects))

    @functools.cached_property
    def release_with_objects(self) -> str:
        """The release up to 2.3 to give where the file needs what wrappers had up to then.

        It is the user's, or the one that a file beside the program pins, or else the last.
        """
        if self.settings.has_objects:
            return str(self.settings.as_of)
        pinned = LAST if self._folder is None else last_pinned(folders_of(Folder(self._folder)))
        return ".".join(map(str, min(pinned, LAST_WITH_LOSS_SCALE_OBJECTS)))

    @functools.cached_property
    def is_unsupported_by_tf_keras(self) -> bool:
        """Whether the file uses the public wrapper in a way that the one of tf_keras no longer supports.

        tf_keras wraps optimizers like those of TF 2.11 and later in another class, which is no subclass of the public
        one, and has neither weights nor hyperparameters other than the learning rate. The wrapper of mpls is one class
        for all.
        """
        survey = self.survey
        asked = {*survey.compared}
        for test, _ in survey.type_tests:
            if isinstance(test.func, ast.Name) and test.func.id == "issubclass":
                asked |= {*types_asked(test)}
        for use, _ in self.uses:
            if any(map(is_public, use.rows)) and (use.role is Role.BASE or use.node in asked):
                return True
        return any(
            self.objects.is_wrapper(chain.parts[place - 1], chain.region)
            for chain in survey.chains
            for place, name in enumerate(chain.names)
            if place and name in NOT_OF_THE_LAST
        )

    @functools.cached_property
    def is_mpls_taken(self) -> bool:
        """Whether another thing of the file's may have the name of the package, or it may be unbound in a function."""
        aliases = [(alias, each.region) for each in self.survey.imports for alias in each.node.names]
        own = [each for each in aliases if (each[0].asname or each[0].name).partition(".")[0] == "mpls"]
        is_ours = all(alias.name.partition(".")[0] == "mpls" and alias.asname is None for alias, _ in own)
        is_global = all(region is self.survey.module for _, region in own)
        return "mpls" in self.survey.bound and not (own and is_ours and is_global)

    @functools.cached_property
    def unseen_words(self) -> frozenset[str]:
        """The words in code that is not read: in magics, in what `eval` runs, in what `globals()` is asked for."""
        run = (each for call, _ in self.survey.calls_of("eval", "exec") for each in call.args)
        asked = (each.slice for each, _, _ in self.survey.nodes[ast.Subscript] if isinstance(each.value, ast.Call))
        texts = [str(each.value) for each in (*run, *asked) if isinstance(each, ast.Constant)]
        return frozenset(re.findall(r"\w+", " ".join([*texts, self.text.unread])))

    @functools.cached_property
    def asked_for(self) -> list[tuple[ast.Call, Region, str]]:
        """Calls of `getattr` and `hasattr` that ask for what is gone, with their scopes and its path."""
        found = []
        for call, region in self.survey.probes:
            name = call.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                asked = self.meanings.of(call.args[0], region)
                # A module of the program's own still has what it imports.
                paths = frozenset(path for path in asked.paths if not path.startswith("@"))
                members = self.meanings.member(asked._replace(paths=paths), name.value).paths
                # Of `tf.compat.v1 if is_new else tf`, one is there.
                if all(map(is_gone, members)):
                    found += [(call, region, path) for path in sorted(members)]
        return found

    def names_of_star(self, node: ast.ImportFrom) -> tuple[str, list[str]]:
        """Return the module of mpls that has all public names of a removed module, and the names; ("", []) if none has.

        Args:
            node: a statement that imports all names of a module.
        """
        paths = self.meanings.module_of(node)
        row = named(next(iter(paths))) if len(paths) == 1 else None
        home = None if row is None or not is_gone(row.path) else home_of(row.path)
        is_active = any(rule.name == STAR_RULE for rule in self.rules)
        if row is None or home is None or row.is_private or not is_active or not self.applies_within(row.path):
            return "", []
        members = [each.attribute for each in namespaces().get(row.path, ()) if not each.is_namespace]
        return home, sorted(members)

    def after(self, node: ast.expr, region: Region) -> frozenset[str]:
        """Return the paths that an expression stands for once imports and aliases are replaced."""
        return self.afterwards.of(node, region).paths

    def forget(self) -> None:
        """Undo the circles between what is known of the file, so that its memory is free at once."""
        self.survey.forget()
        known = vars(self).pop("objects", None)
        if known is not None:
            vars(known).clear()


def _members(row: Name) -> list[Name]:
    return [each for each in namespaces().get(row.path, ()) if not each.is_namespace]
