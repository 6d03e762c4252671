"""What a syntax tree says about names: scopes, what binds each name in them, and where names are used."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Binding", "Chain", "Function", "Read", "Region", "Role", "Statement", "chain_parts"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Role(Enum):
    """What a use of a name is for."""

    CALL = "is called"
    TYPE_TEST = "is asked for by isinstance, issubclass or a case"
    ANNOTATION = "annotates"
    BASE = "is a base class"
    VALUE = "anything else"


@dataclass(eq=False, slots=True)
class Statement:
    """A statement, and the block that it is in."""

    node: ast.stmt
    block: list[ast.stmt]
    parent: Statement | None


@dataclass(eq=False, slots=True)
class Binding:
    """What binds a name or an attribute.

    Attributes:
        value: the imported alias, the expression, the class or the function; None for anything else.
        region: the scope in which the value is evaluated.
        statement: the statement that binds it.
    """

    value: ast.alias | ast.expr | ast.ClassDef | Function | None
    region: Region
    statement: Statement


@dataclass(eq=False, slots=True)
class Region:
    """A scope: a module, a class, a function or a comprehension.

    Attributes:
        parent: the scope around it; None for a module.
        owner: the class or function; None for a module and others.
        is_comprehension: whether it is that of a comprehension.
        names: what binds each name.
        outer: names that `global` and `nonlocal` declare, with the scope that has them.
        attributes: what binds each attribute of `self`, for a class.
        self_name: the name of the instance, for a method.
    """

    parent: Region | None
    owner: ast.ClassDef | Function | None = None
    is_comprehension: bool = False
    names: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, Region] = field(default_factory=dict)
    attributes: dict[str, list[Binding]] = field(default_factory=dict)
    self_name: str = ""

    @property
    def is_class(self) -> bool:
        """Whether it is a class, whose names its methods do not see."""
        return isinstance(self.owner, ast.ClassDef)

    def holder(self, name: str) -> Region | None:
        """Return the scope whose binding of a name code in this one sees; None if there is none."""
        if name in self.outer:
            return self.outer[name]
        region: Region | None = self
        while region is not None:
            if name in region.names and (region is self or not region.is_class):
                return region
            region = region.parent
        return None

    def find(self, name: str) -> list[Binding]:
        """Return what binds a name that code in this scope sees."""
        region = self.holder(name)
        return [] if region is None else region.names.get(name, [])

    def method(self) -> Region | None:
        """Return the scope of the method that this one is in."""
        region: Region | None = self
        while region is not None and not region.self_name:
            region = region.parent
        return region

    def is_in(self, other: Region) -> bool:
        """Return whether it is another scope or inside it."""
        region: Region | None = self
        while region is not None and region is not other:
            region = region.parent
        return region is not None


@dataclass(eq=False, slots=True)
class Chain:
    """A use of a name with the attributes that are read from it: `tf.keras.Model`.

    Attributes:
        parts: the nodes from the name to the whole.
        names: the name, and the attributes.
        region: the scope that it is in.
        role: what the whole is used for.
        call: the call, if the whole is called.
        statement: the statement that it is in.
        string: the f-string that it is in.
    """

    parts: list[ast.expr]
    names: tuple[str, ...]
    region: Region
    role: Role
    call: ast.Call | None
    statement: Statement
    string: ast.JoinedStr | None


@dataclass(eq=False, slots=True)
class Read:
    """A read of an attribute of any object.

    Attributes:
        node: the expression.
        call: the call, if it is called.
        region: the scope that it is in.
        statement: the statement that it is in.
        string: the f-string that it is in.
    """

    node: ast.Attribute
    call: ast.Call | None
    region: Region
    statement: Statement
    string: ast.JoinedStr | None


def chain_parts(node: ast.expr) -> tuple[list[ast.expr], tuple[str, ...]] | None:
    """Return the nodes of a chain of attributes from its name on, and the names; None if it begins with no name."""
    parts: list[ast.expr] = []
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node)
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node, *parts[::-1]], (node.id, *names[::-1])
