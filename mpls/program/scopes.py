"""A file's scopes: what binds each name in them, where names are used, and the places that questions are about."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from mpls.optimizer_members import SCALING_METHODS
from mpls.program.tables import MEMBERS

# Members of wrappers that were something else in some releases, and those that only wrappers have.
_READ = frozenset(("loss_scale", "get_config", *SCALING_METHODS))
# Functions that read an attribute by its name.
_READERS = ("getattr", "__getattribute__")
_LITERALS = (ast.List, ast.Tuple)
# Kinds of nodes that questions ask for.
_NOTED = frozenset((ast.Assert, ast.Compare, ast.Dict, ast.Subscript, ast.UnaryOp))
# Of the kinds that are asked for most; unions take several times as long.
_NAMES = (ast.Name, ast.Attribute)
_PLAIN_FIELDS = frozenset(("arg", "attr", "conversion", "ctx", "id", "kind", "op", "ops", "simple", "type_comment"))
# The fields of nodes that may have others in them; operators and contexts have none.
_FIELDS = {
    kind: tuple(name for name in kind._fields if name not in _PLAIN_FIELDS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
_PATH = re.compile(r"mixed_precision\.\w|\.mixed_precision\b|train\.experimental\.\w")
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
        is_class: whether it is that of a class, whose names its methods do not see.
        is_comprehension: whether it is that of a comprehension.
        names: what binds each name.
        outer: names that `global` and `nonlocal` declare, with the scope that has them.
        attributes: what binds each attribute of `self`, for a class.
        self_name: the name of the instance, for a method.
    """

    parent: Region | None
    owner: ast.ClassDef | Function | None = None
    is_class: bool = False
    is_comprehension: bool = False
    names: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, Region] = field(default_factory=dict)
    attributes: dict[str, list[Binding]] = field(default_factory=dict)
    self_name: str = ""

    def holder(self, name: str) -> Region | None:
        """Return the scope whose binding of a name code in this one sees; None if there is none."""
        if name in self.outer:
            return self.outer[name]
        return next((each for each in self.around() if name in each.names), None)

    def around(self) -> Iterator[Region]:
        """Yield it, and the scopes around it whose names code in it sees, from the inside out."""
        yield self
        region = self.parent
        while region is not None:
            if not region.is_class:
                yield region
            region = region.parent

    def find(self, name: str) -> list[Binding]:
        """Return what binds a name that code in this scope sees."""
        region = self.holder(name)
        return [] if region is None else region.names.get(name, [])

    def only(self, name: str) -> Binding | None:
        """Return what binds a name that code in this scope sees, if one thing alone does; else None."""
        bindings = self.find(name)
        return bindings[0] if len(bindings) == 1 else None

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


class Choice(NamedTuple):
    """A part of `a if b else c`, `a or b` or `a and b`, or a default of `getattr`, and what that is a part of."""

    node: ast.IfExp | ast.BoolOp | ast.Call
    part: ast.expr
    outer: Choice | None


@dataclass(eq=False, slots=True)
class Chain:
    """A use of a name with the attributes that are read from it: `tf.keras.Model`.

    Attributes:
        node: the whole.
        names: the name, and the attributes.
        region: the scope that it is in.
        role: what the whole is used for.
        call: the call, if the whole is called.
        statement: the statement that it is in.
        string: the f-string that it is in.
        choice: the part of a conditional expression that it is in.
    """

    node: ast.expr
    names: tuple[str, ...]
    region: Region
    role: Role
    call: ast.Call | None
    statement: Statement
    string: ast.JoinedStr | None
    choice: Choice | None = None

    @property
    def parts(self) -> list[ast.expr]:
        """The nodes from the name to the whole."""
        return parts_of(self.node)

    @property
    def name(self) -> str:
        """The last name."""
        return self.names[-1]


class Located(NamedTuple):
    """A node of the syntax tree, with the statement and the scope that it is in."""

    node: Any
    statement: Statement
    region: Region


class Assigned(NamedTuple):
    """A variable, an attribute or an item, with a value that it gets, and where it gets it."""

    target: ast.expr
    value: ast.expr
    statement: Statement
    region: Region


@dataclass(eq=False, slots=True)
class Member:
    """An attribute that is read from an object, or set, by name or by `getattr`; or a function that is called.

    Attributes:
        node: the expression.
        call: the call, if it is called.
        region: the scope that it is in.
        statement: the statement that it is in.
        choice: the part of a conditional expression that it is in.
    """

    node: ast.expr
    call: ast.Call | None
    region: Region
    statement: Statement
    choice: Choice | None = None

    @property
    def name(self) -> str:
        """The name of the attribute."""
        return attribute_of(self.node)[1]

    @property
    def is_set(self) -> bool:
        """Whether it is assigned."""
        return is_stored(self.node)

    @property
    def owner(self) -> ast.expr:
        """The object that the attribute is read from."""
        owner = attribute_of(self.node)[0]
        assert owner is not None
        return owner


def is_stored(node: ast.AST) -> bool:
    """Return whether a name or an attribute is assigned."""
    return isinstance(node, _NAMES) and isinstance(node.ctx, ast.Store)


def attribute_of(node: ast.AST) -> tuple[ast.expr | None, str]:
    """Return the object and the attribute that an expression reads, also by `getattr` or `object.__getattribute__`.

    None and "" for any other expression.
    """
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if isinstance(node, ast.Call) and len(node.args) in (2, 3) and not node.keywords:
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        name = node.args[1]
        if called in _READERS and isinstance(name, ast.Constant) and isinstance(name.value, str):
            return node.args[0], name.value
    return None, ""


def chain_of(node: ast.AST) -> tuple[str, ...]:
    """Return the names in a chain of attribute reads: `("self", "opt")`; "" for a part that has no name."""
    names: list[str] = []
    while True:
        value, attribute = attribute_of(node)
        if value is not None:
            names.append(attribute)
            node = value
        elif isinstance(node, ast.Subscript):
            # An item of a container goes by the container's name.
            node = node.value
        else:
            return (node.id if isinstance(node, ast.Name) else "", *names[::-1])


def loaded_module(node: ast.expr) -> str:
    """Return the module that an expression loads or has by its name, as `importlib.import_module("x")`; else ""."""
    match node:
        case ast.Call(func=called, args=[ast.Constant(value=str() as name)]) if "import_module" in chain_of(called):
            return name
        case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str() as name)], keywords=others):
            return name if others else name.partition(".")[0]
        case ast.Subscript(value=ast.Attribute(attr="modules"), slice=ast.Constant(value=str() as name)):
            return name
    return ""


def names_of(place: Chain | Member) -> tuple[str, ...]:
    """Return the names in a chain, as `chain_of`; with those of a module that the chain begins by loading."""
    loaded = "" if isinstance(place, Chain) else loaded_module(parts_of(place.node)[0])
    names = place.names if isinstance(place, Chain) else chain_of(place.node)
    return (*loaded.split("."), *names[1:]) if loaded and not names[0] else names


def argument_names(arguments: ast.arguments) -> list[str]:
    """Return the names of a function's arguments."""
    return [each.arg for each in _all_arguments(arguments)]


def types_asked(test: ast.Call) -> list[ast.expr]:
    """Return the classes that a call of `isinstance` or `issubclass` asks for."""
    return test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]


def plain_chain(node: ast.expr) -> tuple[str, ...]:
    """Return the names in a chain of attributes that begins with a name; none for any other expression."""
    if isinstance(node, ast.Name):
        return (node.id,)
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *names[::-1]) if isinstance(node, ast.Name) else ()


def parts_of(node: ast.expr) -> list[ast.expr]:
    """Return the nodes of a chain of attributes from its beginning on."""
    parts = [node]
    while isinstance(node, ast.Attribute):
        node = node.value
        parts.append(node)
    return parts[::-1]


class Survey:
    """The scopes of a file, and the places in it that rules look at, from one walk through its syntax tree.

    Args:
        tree: the parsed file.
        may_be_cut: whether a file that is nested too deeply is read as far as that; else it raises RecursionError.

    Attributes:
        module: the scope of the whole file.
        bound: all names that are bound anywhere.
        imports: the import statements.
        stars: imports of all names of a module.
        exported: the names in `__all__`.
        returns: what each function returns.
        functions: the names of all functions and methods.
        classes: the scopes of classes.
        bodies: the scopes of functions.
        chains: uses of names with the attributes that are read from them, in the order of the file.
        members: reads of attributes that tell what an object is or what it needs.
        loose: reads of attributes from something else than a name, `f().x` and `getattr(tf, "x")`.
        assigned: what gets a value other than a constant.
        nodes: the assertions, comparisons, dictionaries, subscripts, and unary operations such as `not`.
        strings: strings that may name a path of the API; docstrings are not among them.
        is_cut: whether the file is nested too deeply to be read to the end.
    """

    def __init__(self, tree: ast.Module, *, may_be_cut: bool = False) -> None:
        self._regions: list[Region] = []
        self._with_value: set[str] = set()
        self.module: Region = self._new_region(None)
        self.bound: set[str] = set()
        self.imports: list[Located] = []
        self.stars: list[ast.ImportFrom] = []
        self.exported: set[str] = set()
        self.returns: dict[ast.AST | None, list[tuple[ast.expr | None, Region]]] = {}
        self.functions: set[str] = set()
        self.classes: dict[ast.ClassDef, Region] = {}
        self.bodies: dict[Function, Region] = {}
        self.chains: list[Chain] = []
        self.members: list[Member] = []
        self.loose: list[Member] = []
        self.assigned: list[Assigned] = []
        self.nodes: dict[type[ast.AST], list[Located]] = {kind: [] for kind in _NOTED}
        self.strings: list[ast.Constant] = []
        self.is_cut: bool = False
        self._region = self.module
        # The statement that is visited, None outside of all.
        self._here: Statement = None  # type: ignore[assignment]
        self._string: ast.JoinedStr | None = None
        self._choice: Choice | None = None
        try:
            self._block(tree.body)
        except RecursionError:
            if not may_be_cut:
                raise
            self.is_cut = True

    @functools.cached_property
    def followed(self) -> list[Chain]:
        """Uses of names that may stand for something imported: not of parameters and other names without a value."""
        return self.chains if self.stars else [each for each in self.chains if each.names[0] in self._with_value]

    @property
    def places(self) -> Iterator[Chain | Member]:
        """The chains, and the reads of attributes from something else than a name."""
        yield from self.chains
        yield from self.loose

    @functools.cached_property
    def called(self) -> dict[str, list[Chain]]:
        """Uses of names that are called, by the last name."""
        found: dict[str, list[Chain]] = {}
        for chain in self.chains:
            if chain.call is not None:
                found.setdefault(chain.names[-1], []).append(chain)
        return found

    def calls_of(self, *names: str) -> list[tuple[ast.Call, Region]]:
        """Return the calls of plain names, with their scopes."""
        found = (each for name in names for each in self.called.get(name, ()))
        return [(each.call, each.region) for each in found if each.call is not None and len(each.names) == 1]

    @functools.cached_property
    def reads(self) -> list[Member]:
        """Reads of `loss_scale` and `get_config`, and of methods that only wrappers of Keras 2 have."""
        return [each for each in self.members if each.name in _READ and isinstance(each.node, ast.Attribute)]

    @functools.cached_property
    def type_tests(self) -> list[tuple[ast.Call, Region]]:
        """Calls of `isinstance` and `issubclass`, with their scopes."""
        return [each for each in self.calls_of("isinstance", "issubclass") if len(each[0].args) == 2]

    @functools.cached_property
    def probes(self) -> list[tuple[ast.Call, Region]]:
        """Calls of `getattr` and `hasattr`, with their scopes."""
        return [each for each in self.calls_of("getattr", "hasattr") if len(each[0].args) >= 2]

    @property
    def comparisons(self) -> list[tuple[ast.expr, ...]]:
        """The sides of each comparison."""
        return [(node.left, *node.comparators) for node, _, _ in self.nodes[ast.Compare]]

    @property
    def compared(self) -> Iterator[ast.expr | None]:
        """What is compared, or in a tuple, list or set that is, and the keys and values of dictionaries."""
        for sides in self.comparisons:
            for each in sides:
                yield from each.elts if isinstance(each, ast.Tuple | ast.List | ast.Set) else [each]
        for dictionary, _, _ in self.nodes[ast.Dict]:
            yield from (*dictionary.keys, *dictionary.values)

    def forget(self) -> None:
        """Forget what binds names: a binding knows its scope, which knows its bindings; nothing can be asked then."""
        for region in self._regions:
            region.names.clear()
            region.attributes.clear()
            region.outer.clear()

    def _new_region(
        self, parent: Region | None, owner: ast.ClassDef | Function | None = None, is_comprehension: bool = False
    ) -> Region:
        region = Region(parent, owner, isinstance(owner, ast.ClassDef), is_comprehension)
        self._regions.append(region)
        return region

    def _block(self, body: list[ast.stmt]) -> None:
        outer = self._here
        for node in body:
            self._here = Statement(node, body, outer)
            # Not a docstring, or a string in place of a comment.
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                self._visit(node)
        self._here = outer

    def _visit(self, node: ast.AST) -> None:
        kind = type(node)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, node)
            return
        if kind in _NOTED:
            self.nodes[kind].append(Located(node, self._here, self._region))
        for name in _FIELDS[kind]:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                self._visit(value)
            elif isinstance(value, list) and value:
                if isinstance(value[0], ast.stmt):
                    self._block(value)
                else:
                    self._all(value)

    def _all(self, nodes: Sequence[ast.AST | str | None]) -> None:
        for node in nodes:
            if isinstance(node, ast.AST):
                self._visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.imports.append(Located(node, self._here, self._region))
        for alias in node.names:
            if alias.name == "*":
                assert isinstance(node, ast.ImportFrom)
                self.stars.append(node)
            else:
                top = alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                self._bind(alias.asname or top, alias)

    def _global(self, node: ast.Global) -> None:
        for name in node.names:
            self._region.outer[name] = self.module

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            region = self._region.parent
            while region is not None and (region.is_class or name not in region.names):
                region = region.parent
            if region is not None:
                self._region.outer[name] = region

    def _class(self, node: ast.ClassDef) -> None:
        self._all(node.decorator_list)
        for base in node.bases:
            self._in_role(base, Role.BASE)
        self._all([each.value for each in node.keywords])
        self._bind(node.name, node)
        self.classes[node] = self._new_region(self._region, node)
        self._within(self.classes[node], node.body)

    def _function(self, node: Function) -> None:
        self._all(node.decorator_list)
        self._signature(node.args)
        if node.returns is not None:
            self._in_role(node.returns, Role.ANNOTATION)
        self._bind(node.name, node)
        self.functions.add(node.name)
        self.bodies[node] = region = self._new_region(self._region, node)
        first = [*node.args.posonlyargs, *node.args.args][:1]
        decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        if self._region.is_class and first and not decorators & {"staticmethod", "classmethod"}:
            region.self_name = first[0].arg
        outer, self._region = self._region, region
        self._parameters(node.args)
        self._region = outer
        self._within(region, node.body)

    def _within(self, region: Region, body: list[ast.stmt]) -> None:
        outer, self._region = self._region, region
        self._block(body)
        self._region = outer

    def _signature(self, arguments: ast.arguments) -> None:
        for each in _all_arguments(arguments):
            if each.annotation is not None:
                self._in_role(each.annotation, Role.ANNOTATION)
        self._all([*arguments.defaults, *arguments.kw_defaults])

    def _parameters(self, arguments: ast.arguments) -> None:
        for each in _all_arguments(arguments):
            self._bind(each.arg, None)

    def _return(self, node: ast.Return) -> None:
        self.returns.setdefault(self._region.owner, []).append((node.value, self._region))
        self._all([node.value])

    def _assigned(self, value: ast.expr | None, targets: list[ast.expr]) -> None:
        for target in targets:
            self._target(target, value)
        self._all([value])

    def _assign(self, node: ast.Assign) -> None:
        self._assigned(node.value, node.targets)
        if any(isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets):
            self.exported |= {str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant)}

    def _annotated(self, node: ast.AnnAssign) -> None:
        self._in_role(node.annotation, Role.ANNOTATION)
        self._assigned(node.value, [node.target])

    def _augmented(self, node: ast.AugAssign) -> None:
        self._visit(node.value)
        self._target(node.target, None)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit(node.iter)
        for item in _items(node.iter, node.target):
            self._target(node.target, item)
        self._block(node.body)
        self._block(node.orelse)

    def _with_item(self, node: ast.withitem) -> None:
        self._visit(node.context_expr)
        if node.optional_vars is not None:
            self._target(node.optional_vars, None)

    def _handler(self, node: ast.ExceptHandler) -> None:
        self._all([node.type])
        if node.name is not None:
            self._bind(node.name, None)
        self._block(node.body)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._target(target, None)

    def _captured(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self._bind(name, None)
        self._all([getattr(node, "pattern", None), *getattr(node, "keys", ()), *getattr(node, "patterns", ())])

    def _bind(self, name: str, value: Any, region: Region | None = None) -> None:
        region = region or self._region
        region = region.outer.get(name, region)
        self.bound.add(name)
        if value is not None:
            self._with_value.add(name)
        region.names.setdefault(name, []).append(Binding(value, self._region, self._here))

    def _target(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, value)
            self._note_assigned(target, value)
        elif isinstance(target, _LITERALS):
            values = value.elts if isinstance(value, _LITERALS) else _made_by(value) * len(target.elts)
            is_plain = len(values) == len(target.elts) and not any(
                isinstance(each, ast.Starred) for each in (*values, *target.elts)
            )
            for number, each in enumerate(target.elts):
                self._target(each, values[number] if is_plain else None)
        elif isinstance(target, ast.Starred):
            self._target(target.value, None)
        else:
            if isinstance(target, ast.Attribute):
                self._bind_attribute(target, value)
            self._note_assigned(target, value)
            self._visit(target)

    def _note_assigned(self, target: ast.expr, value: ast.expr | None) -> None:
        if value is not None and type(value) is not ast.Constant:
            self.assigned.append(Assigned(target, value, self._here, self._region))

    def _bind_attribute(self, target: ast.Attribute, value: ast.expr | None) -> None:
        method = self._region.method()
        if method is not None and isinstance(target.value, ast.Name) and target.value.id == method.self_name:
            assert method.parent is not None
            method.parent.attributes.setdefault(target.attr, []).append(Binding(value, self._region, self._here))

    def _in_role(self, node: ast.expr, role: Role) -> None:
        """Visit an expression that is used for something, or a tuple, list, union or subscript of such."""
        if isinstance(node, _NAMES):
            self._chain(node, role)
        elif isinstance(node, ast.Tuple | ast.List):
            for each in node.elts:
                self._in_role(each, role)
        elif isinstance(node, ast.BinOp):
            self._in_role(node.left, role)
            self._in_role(node.right, role)
        elif isinstance(node, ast.Subscript) and role is Role.ANNOTATION:
            self._in_role(node.value, role)
            self._in_role(node.slice, role)
        else:
            self._visit(node)

    def _name(self, node: ast.Name) -> None:
        names = (node.id,)
        self.chains.append(Chain(node, names, self._region, Role.VALUE, None, self._here, self._string, self._choice))

    def _chain(self, node: ast.Name | ast.Attribute, role: Role = Role.VALUE, call: ast.Call | None = None) -> None:
        names = plain_chain(node)
        if names:
            self.chains.append(Chain(node, names, self._region, role, call, self._here, self._string, self._choice))
            if role is not Role.ANNOTATION and len(names) > 1 and not MEMBERS.isdisjoint(names):
                self._note_members(node, call)
        else:
            assert isinstance(node, ast.Attribute)
            self._note_loose(node, call)
            self._visit_below(node)

    def _note_members(self, node: ast.expr, call: ast.Call | None) -> None:
        """Note the attributes that an expression reads, from the last to the first."""
        inner: ast.expr | None = node
        while inner is not None:
            value, name = attribute_of(inner)
            if name in MEMBERS:
                self.members.append(self._member(inner, call if inner is node else None))
            inner = None if is_stored(inner) else value

    def _member(self, node: ast.expr, call: ast.Call | None) -> Member:
        return Member(node, call, self._region, self._here, self._choice)

    def _note_loose(self, node: ast.expr, call: ast.Call | None) -> None:
        self.loose.append(self._member(node, call))
        self._note_members(node, call)

    def _visit_below(self, node: ast.Attribute) -> None:
        value = node.value
        while isinstance(value, ast.Attribute):
            value = value.value
        self._visit(value)

    def _call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, _NAMES):
            self._chain(function, Role.CALL, node)
        else:
            if isinstance(function, ast.Call) and attribute_of(function)[0] is not None:
                self._note_loose(function, node)
            self._visit(function)
        name = function.id if isinstance(function, ast.Name) else ""
        called = name or (function.attr if isinstance(function, ast.Attribute) else "")
        if called in _READERS and attribute_of(node)[0] is not None:
            self._note_loose(node, None)
        arguments = node.args
        if name in ("isinstance", "issubclass") and len(arguments) == 2:
            self._visit(arguments[0])
            self._in_role(arguments[1], Role.TYPE_TEST)
        elif name == "getattr" and len(arguments) == 3:
            self._all(arguments[:2])
            self._choice = Choice(node, arguments[2], self._choice)
            self._visit(arguments[2])
            self._choice = self._choice.outer
        else:
            self._all(arguments)
        for keyword in node.keywords:
            self._visit(keyword.value)

    def _constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and _PATH.search(node.value):
            self.strings.append(node)

    def _walrus(self, node: ast.NamedExpr) -> None:
        self._visit(node.value)
        region = self._region
        # The name belongs to the function around a comprehension.
        while region.is_comprehension and region.parent is not None:
            region = region.parent
        self._bind(node.target.id, node.value, region)
        self._note_assigned(node.target, node.value)

    def _case(self, node: ast.MatchClass) -> None:
        self._in_role(node.cls, Role.TYPE_TEST)
        self._all([*node.patterns, *node.kwd_patterns])

    def _lambda(self, node: ast.Lambda) -> None:
        self._signature(node.args)
        outer, self._region = self._region, self._new_region(self._region)
        self._parameters(node.args)
        self._visit(node.body)
        self._region = outer

    def _comprehend(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._visit(node.generators[0].iter)
        outer, self._region = self._region, self._new_region(self._region, is_comprehension=True)
        for number, each in enumerate(node.generators):
            if number:
                self._visit(each.iter)
            for item in _items(each.iter, each.target):
                self._target(each.target, item)
            self._all(each.ifs)
        self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._region = outer

    def _choose(self, node: ast.IfExp | ast.BoolOp) -> None:
        parts = node.values if isinstance(node, ast.BoolOp) else [node.test, node.body, node.orelse]
        outer = self._choice
        for part in parts:
            self._choice = Choice(node, part, outer)
            self._visit(part)
        self._choice = outer

    def _f_string(self, node: ast.JoinedStr) -> None:
        outer, self._string = self._string, self._string or node
        for each in node.values:
            if not isinstance(each, ast.Constant):
                self._visit(each)
        self._string = outer


_HANDLERS: dict[type, Callable[[Survey, Any], None]] = {
    ast.AnnAssign: Survey._annotated,
    ast.Assign: Survey._assign,
    ast.AsyncFor: Survey._for,
    ast.AsyncFunctionDef: Survey._function,
    ast.Attribute: Survey._chain,
    ast.AugAssign: Survey._augmented,
    ast.BoolOp: Survey._choose,
    ast.Call: Survey._call,
    ast.ClassDef: Survey._class,
    ast.Constant: Survey._constant,
    ast.Delete: Survey._delete,
    ast.DictComp: Survey._comprehend,
    ast.ExceptHandler: Survey._handler,
    ast.For: Survey._for,
    ast.FunctionDef: Survey._function,
    ast.GeneratorExp: Survey._comprehend,
    ast.Global: Survey._global,
    ast.IfExp: Survey._choose,
    ast.Import: Survey._import,
    ast.ImportFrom: Survey._import,
    ast.JoinedStr: Survey._f_string,
    ast.Lambda: Survey._lambda,
    ast.ListComp: Survey._comprehend,
    ast.MatchAs: Survey._captured,
    ast.MatchClass: Survey._case,
    ast.MatchMapping: Survey._captured,
    ast.MatchStar: Survey._captured,
    ast.Name: Survey._name,
    ast.NamedExpr: Survey._walrus,
    ast.Nonlocal: Survey._nonlocal,
    ast.Return: Survey._return,
    ast.SetComp: Survey._comprehend,
    ast.withitem: Survey._with_item,
}


def _items(values: ast.expr, target: ast.expr) -> list[ast.expr | None]:
    """Return what each round of a loop assigns to its target: the elements of a literal, or any item of the rest.

    None stands for what is unknown.
    """
    if not isinstance(values, _LITERALS):
        return [_item_of(values)]
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    is_plain = not any(isinstance(each, ast.Starred) for each in values.elts)
    known = is_plain and all(isinstance(each, ast.Name) for each in names)
    return [*values.elts] or [None] if known else [None]


def _item_of(values: ast.expr) -> ast.expr:
    """Return an expression for any item of what is looped over: `opts[...]`, of which no value is known."""
    item = ast.Subscript(values, ast.Constant(...), ast.Load())
    match values:
        case ast.Call(func=ast.Name(id="enumerate"), args=[counted, *_]):
            return ast.Tuple([item, _item_of(counted)], ast.Load())
        case ast.Call(func=ast.Name(id="zip"), args=zipped):
            return ast.Tuple([*map(_item_of, zipped)], ast.Load())
        case ast.Call(func=ast.Attribute(value=mapping, attr="items"), args=[]):
            return ast.Tuple([item, _item_of(mapping)], ast.Load())
        case ast.Call(func=ast.Attribute(value=mapping, attr="values"), args=[]):
            return _item_of(mapping)
    return item


def _made_by(value: ast.expr | None) -> list[ast.expr]:
    """Return the call that makes each item of a comprehension; none if the comprehension may rename what is called."""
    if not isinstance(value, ast.ListComp | ast.GeneratorExp) or not isinstance(value.elt, ast.Call):
        return []
    renamed = {each.id for part in value.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)}
    return [] if chain_of(value.elt.func)[0] in renamed else [value.elt]


def _all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    others = [arguments.vararg, arguments.kwarg]
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *others]
    return [each for each in found if each is not None]
