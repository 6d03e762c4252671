"""Records of the names and attributes that a program uses, and of the lines that show which options it needs."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from mpls.reading.alternatives import PossiblePath

__all__ = ["Class", "Member", "Release", "Sign", "Use", "Uses", "Where", "keywords_of"]

Release = tuple[int, int]


@dataclass(frozen=True, order=True)
class Where:
    """A line of the program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Use:
    """A place where a program uses a name of TensorFlow or Keras.

    Attributes:
        path: the path of the name, `tf.keras.optimizers.SGD`.
        where: the line.
        is_certain: whether the line uses it on every release.
        call: the call, if it is called there.
        target: the last name of the variable or attribute that the result is assigned to.
    """

    path: str
    where: Where
    is_certain: bool
    call: ast.Call | None = None
    target: str = ""


@dataclass(frozen=True)
class Member:
    """A place where a program reads or sets an attribute of an object.

    Attributes:
        chain: the names, `("self", "opt", "loss_scale")`; the first is "" for an object without a name.
        where: the line.
        is_certain: whether the line runs on every release.
        call: the call, if it is called there.
        within: the class that contains the line.
        is_set: whether the attribute is assigned.
        target: the last name of the variable or attribute that the result is assigned to.
        maker: the call that returns the object without a name.
    """

    chain: tuple[str, ...]
    where: Where
    is_certain: bool
    call: ast.Call | None = None
    within: str = ""
    is_set: bool = False
    target: str = ""
    maker: ast.Call | None = None


@dataclass(frozen=True)
class Class:
    """A class of the program.

    Attributes:
        name: its name.
        bases: the last names of its bases; paths for those of TensorFlow and Keras.
        methods: the methods that it defines.
        arguments: the names of all their arguments.
        where: the line.
        is_certain: whether it is defined on every release.
    """

    name: str
    bases: tuple[PossiblePath, ...]
    methods: frozenset[str]
    arguments: frozenset[str]
    where: Where
    is_certain: bool


@dataclass
class Uses:
    """Everything that a program uses.

    Attributes:
        uses: names of TensorFlow and Keras.
        members: attributes of other objects.
        classes: its own classes.
        returns: for each function, by name, the expressions that it returns, with the paths that they stand for.
        defined: the names of its own functions and methods.
        checked: the last names of objects that `isinstance` tests, each with the class of TensorFlow or Keras.
        type_is: classes of TensorFlow or Keras in `type(…) is` comparisons, each with the line.
        same: attributes that are asserted to be a certain object, by `assert a.b is c`.
        unextended: calls that save or load a model at a path without an extension of Keras.
        for_tf_2: lines that assert that TensorFlow is 2.
        passed: the last names of variables, attributes and parameters that are given a value, with the value; empty for
            programs without the public wrapper.
        too_deep: files that are nested too deeply to be read to the end.
    """

    uses: list[Use] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    returns: dict[str, list[tuple[ast.expr, list[PossiblePath]]]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    checked: list[tuple[str, str]] = field(default_factory=list)
    type_is: list[tuple[str, Where]] = field(default_factory=list)
    same: list[Member] = field(default_factory=list)
    unextended: set[ast.Call] = field(default_factory=set)
    for_tf_2: list[Where] = field(default_factory=list)
    passed: list[tuple[str, ast.expr]] = field(default_factory=list)
    too_deep: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sign:
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


def keywords_of(use: Use | Member) -> list[str | None]:
    """Return the names of a call's keyword arguments; None for `**arguments` whose dict is not a literal."""
    found: list[str | None] = []
    for keyword in () if use.call is None else use.call.keywords:
        keys = keyword.value.keys if keyword.arg is None and isinstance(keyword.value, ast.Dict) else []
        found += [getattr(key, "value", None) for key in keys] or [keyword.arg]
    return found
