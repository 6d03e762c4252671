"""Only `mpls.upstream` touches what frameworks keep private."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator

import pytest

from mpls.upstream.table import MISSING_ATTRIBUTES
from mpls.upstream.table import ROWS as ROWS_OF_UPSTREAM

from .own_members import classes, classes_in, imported, is_private, names_of, names_of_self
from .source_tree import around, called, functions_around, is_docstring, modules, origins, parsed

# Private attributes of Python's own objects.
OF_PYTHON = {"_replace", "_asdict", "_fields", "_actions", "_option_string_actions"}
# Private members of objects of mpls, where no import tells of their class, and why.
_WRAPPER = "the wrapper, whose class imports this module"
_ANY_OPTIMIZER = "an optimizer of mpls, of any family; others have none, and are asked whether they do"
OF_MPLS: dict[str, tuple[str, set[str]]] = {
    "mpls.core.loss_scale": ("made by the line before", {"loss_scale._loss_scale_value"}),
    "mpls.core.state_checks": (
        "what is attached to a root, and has such a method only if it is of mpls",
        {"trackable._check_saved_object", "_check_saved_object"},
    ),
    "mpls.core.savers": (
        _ANY_OPTIMIZER,
        {"_loss_scale", "_replaced_loss_scale", "_record", "_saved_numbers", "each._loss_scale"}
        | {"_has_told_of_missing_scale"},
    ),
    "mpls.keras.calls": ("a method of a subclass of the wrapper", {"self._calls"}),
    "mpls.keras.classes": (
        "what classes of wrappers and families have, and a wrapper while it is made",
        {"_called_class", "_concrete_classes", "_family_adapter", "_is_being_constructed"}
        | {"_is_experimental", "called._is_experimental", "_restored_family", "adapter._restored_family"},
    ),
    "mpls.keras.configs": (_WRAPPER, {"wrapper._loss_scale", "wrapper._family_config_of_old"}),
    "mpls.keras.keras3.ops": (
        _WRAPPER,
        {f"wrapper.{name}" for name in ("_acting_scale", "_loss_scale", "_optimizer", "_record", "_skips_count")},
    ),
    "mpls.keras.keras3.state": (_WRAPPER, {"_loss_scale", "_record", "wrapper._loss_scale"}),
    "mpls.keras.legacy": ("the adapter itself, which overrides it", {"LegacyAdapter._aggregate_gradients"}),
    "mpls.keras.own_files": (
        f"{_WRAPPER}; and a DynamicLossScale of mpls, as is checked there",
        {"cls._native_knows_fixed", "wrapper._loss_scale", "wrapper._record"}
        | {"loss_scale._current_loss_scale", "loss_scale._num_good_steps"},
    ),
    "mpls.keras.strategies": (
        f"{_WRAPPER}; users' subclasses override the method",
        {"wrapper._shows_loss_scale_object", "_aggregate_gradients"},
    ),
    "mpls.monitor.scale_readings": ("the optimizer of mpls.contrib", {"_loss_scale_manager"}),
    "mpls.transfer.scales": ("the optimizer of mpls.contrib, which is below no other", {"_loss_scale_manager"}),
    "mpls.transfer.hosts": ("the same", {"_loss_scale_manager"}),
}
# Strings that look like private names and name no attribute that is read, by modules; the set where there are few.
NO_MEMBERS: dict[str, tuple[str, set[str]]] = {
    "mpls.core.counters": ("ends of names", {"f'_{len(names)}'", "f'_{alike}'"}),
    "mpls.core.releases": ("the name of a ContextVar", {"_blocks"}),
    "mpls.formats.algorithms": ("ends of words", {"f'_{word}'"}),
    "mpls.formats.file_kinds": (
        "identifiers in files",
        {"_tf_keras_model", "_tf_keras_network", "_tf_keras_sequential"},
    ),
    "mpls.importing.hooks": ("methods that an overlay overrides", {"table.KEEP.name", "table.DROP.name"}),
    "mpls.experimental.compiling": (
        "methods that upstream finds, and this module replaces",
        {"table.TF_KERAS_COMPILE.name", "table.TF_KERAS_COMPILE_V1.name"},
    ),
    "mpls.hints.causes": ("what an error says is missing", {"_create_all_weights"}),
    "mpls.keras.arguments": (
        "methods of users' subclasses",
        {"_resource_apply_dense", "_resource_apply_sparse", "_apply_dense", "_apply_sparse"},
    ),
    "mpls.keras.keras3.adapter": ("the list that the wrapper itself sets", {"table.TRAINABLE.name"}),
    "mpls.keras.policy": ("names of policies", {"_infer", "_float32_vars"}),
    "mpls.migrate.kept_objects": ("what programs set", {"_loss_scale"}),
    "mpls.migrate.native": ("the end of names of policies", {"_vars"}),
    "mpls.migrate.rules": ("the end of names of policies", {"_float32_vars"}),
    "mpls.program.signs": (
        "what programs use, and the end of names",
        {"_loss_scale", "_with_float32_vars", "_create_all_weights", "_decayed_lr"},
    ),
    "mpls.program.tables": ("what programs use", {"_loss_scale"}),
    "mpls.program.uses": ("what programs use", {"_loss_scale"}),
    "mpls.saved.config_safety": ("the end of a key", {"_type"}),
    "mpls.saved.graph_safety": (
        "children of objects in SavedModels",
        {"_create_resource", "_initialize", "_destroy_resource"},
    ),
    "mpls.saved.name_checkpoints": ("ends of names", {"f'_{number}'"}),
    "mpls.saved.saved_models": ("the beginning of identifiers in files", {"_tf_keras_"}),
}
# Modules of nothing but tables that have private names of frameworks as data.
TABLES_OF_NAMES = {
    "mpls.formats.algorithms": "names in files",
    "mpls.formats.object_graph": "names in files",
    "mpls.optimizer_members": "what programs use",
}
OWN_RECEIVERS = ("self", "cls", "type(self)", "super()")
PRIVATE_NAME = re.compile(r"_[A-Za-z0-9]\w*")
PRIVATE_MODULE = re.compile(
    r"(tensorflow\.(python|compiler|core|__internal__)|(tf_)?keras\.(src|__internal__)|keras\._tf_keras|tf_keras\.api)\b"
    r"[\w.]*"
)
# Of modules, as attributes: these are private wherever, and those of TensorFlow itself.
PRIVATE_PARTS = {"__internal__", "src", "_tf_keras"}
PARTS_OF_TF = {"python", "compiler", "core"}
PRIVATE_CHAIN = re.compile(r"(tf|tensorflow)\.(python|compiler|core)")
PRIVATE_PART = re.compile(r"[}.](src|__internal__|_tf_keras|tensorflow\.(python|compiler|core))\b")
# Modules that know the historical names of modules, which are data there: nothing is imported by them, but what a
# program of the user imports.
NAMES_OF_OLD = {
    "mpls.hints.removed_names": "where names of private modules have gone",
    "mpls.hints.causes": "the names that Keras 3 has for its own modules",
    "mpls.importing.modes": "the package `keras` of Keras 2 had its sources and its API in one",
    "mpls.importing.namespaces": "the modules that `tf.keras` is",
    "mpls.names": "the historical paths",
}
# Of the wrappers of mpls too, whose other modules read it.
OF_BOTH = {"_loss_scale"}
OF_FRAMEWORKS = {row.name for row in ROWS_OF_UPSTREAM.values() if is_private(row.name)} | set(MISSING_ATTRIBUTES)
OF_FRAMEWORKS -= OF_BOTH


def class_around(node: ast.AST, module: str) -> str:
    """Return the place of the class that a node is in, of the innermost one."""
    return next((f"{module}:{each.name}" for each in around(node) if isinstance(each, ast.ClassDef)), "")


@functools.cache
def own_names(module: str) -> frozenset[str]:
    """Return the private members that a module may know: those of its own classes, and of imported ones."""
    tree = modules()[module]
    places = [*imported(tree).values(), *(place for place in classes() if place.startswith(f"{module}:"))]
    return frozenset().union(*map(names_of, places))


def attribute_uses(tree: ast.Module, module: str, own: frozenset[str]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the private attributes in a module's syntax that are not of mpls."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not is_private(node.attr) or node.attr in OF_PYTHON:
            continue
        receiver = ast.unparse(node.value)
        if isinstance(node.value, ast.Name) and receiver in sys.stdlib_module_names:
            continue
        around_it = class_around(node, module)
        # Functions that are made into methods elsewhere have a `self` too.
        of_self = names_of_self(around_it) if around_it in classes() else own
        if receiver in OWN_RECEIVERS:
            if node.attr in of_self:
                continue
        elif node.attr in own and node.attr not in OF_FRAMEWORKS:
            continue
        # A method that overrides one of a framework's class, which calls it, passes on to it. Where no framework has
        # it any more, none calls it.
        is_passed_on = called(node.value) == "super" or receiver == "Trackable"
        if not is_passed_on or node.attr not in functions_around(node)[:1]:
            yield node, f"{receiver}.{node.attr}"


def is_passed_to_itself(node: ast.Constant) -> bool:
    """Return whether a string is the name of what it is assigned to: `_T = TypeVar("_T")`."""
    call = getattr(node, "parent", None)
    assigned = getattr(call, "parent", None)
    return isinstance(assigned, ast.Assign) and node.value in [ast.unparse(each) for each in assigned.targets]


def string_uses(tree: ast.Module, own: frozenset[str]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the strings in a module that look like private names not of mpls, and those that are put together so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_docstring(node):
            name = node.value
            if not PRIVATE_NAME.fullmatch(name) or name.startswith("_mpls_") or is_passed_to_itself(node):
                continue
            if name not in own or name in OF_FRAMEWORKS:
                yield node, name
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            if isinstance(node.left, ast.Constant) and re.fullmatch(r"_\w*", str(node.left.value)):
                yield node, ast.unparse(node)
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            if re.fullmatch(r"_\w*", node.values[0].value):
                yield node, ast.unparse(node)
        elif isinstance(node, ast.Attribute) and node.attr == "name" and ast.unparse(node.value).startswith("table."):
            # The name in a row, for whoever reads it without the row.
            yield node, ast.unparse(node)


def private_modules(tree: ast.Module) -> list[str]:
    """Return the names of frameworks' private modules in a module: in imports, in chains of attributes, in strings."""
    found = []
    known = origins(tree)
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            chain = f"{known.get(first, first)}{dot}{rest}"
            is_end = node.attr in PRIVATE_PARTS or (node.attr in PARTS_OF_TF and PRIVATE_CHAIN.fullmatch(chain))
            names = [chain] if is_end else []
        elif isinstance(node, ast.JoinedStr):
            names = [ast.unparse(node)] if PRIVATE_PART.search(ast.unparse(node)) else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_docstring(node):
            names = [each for each in node.value.split() if PRIVATE_MODULE.match(each) or "__internal__" in each]
        is_chain = isinstance(node, ast.Attribute | ast.JoinedStr | ast.Constant)
        found += [f"{node.lineno}: {name}" for name in names if is_chain or PRIVATE_MODULE.match(name)]  # type: ignore[attr-defined]
    return found


def outside() -> dict[str, ast.Module]:
    """Return the modules that touch nothing private: all but `upstream`, and the recorder, which imports nothing."""
    packages = ("mpls.upstream.", "mpls.tracing.")
    return {name: tree for name, tree in modules().items() if not f"{name}.".startswith(packages)}


def uses(tree: ast.Module, module: str, own: frozenset[str]) -> list[str]:
    """Return the private names in a module that are not of mpls, and may be of a framework."""
    return [use for _, use in (*attribute_uses(tree, module, own), *string_uses(tree, own))]


def test_private_names_of_frameworks_are_in_upstream_only() -> None:
    allowed = {name: OF_MPLS.get(name, ("", set()))[1] | NO_MEMBERS.get(name, ("", set()))[1] for name in modules()}
    found = {name: set(uses(tree, name, own_names(name))) for name, tree in outside().items()}
    left = {name: names - allowed[name] for name, names in found.items() if name not in TABLES_OF_NAMES}
    assert {name: names for name, names in left.items() if names} == {}
    unneeded = {name: names - found[name] for name, names in allowed.items() if names}
    assert {name: names for name, names in unneeded.items() if names} == {}, "an exception that nobody needs"
    assert all(found[name] for name in TABLES_OF_NAMES), "an exception that nobody needs"


# Private names in upstream that are neither in a table nor among those without a row, and why.
OF_UPSTREAM = {
    "_optimizer": "the attribute of wrappers of Horovod and mpls; TensorFlow's own is a row",
    "f'_{name}'": "settings that optimizers of users keep so, as those of the frameworks do, whose are rows",
    "graph._mpls_key": "of mpls",
}


def test_each_private_name_in_upstream_has_a_row_or_a_reason() -> None:
    known = {row.name for row in ROWS_OF_UPSTREAM.values()} | set(MISSING_ATTRIBUTES)
    found = {
        use
        for name, tree in modules().items()
        if name.startswith("mpls.upstream.") and not name.endswith("table")
        for use in uses(tree, name, own_names(name))
        if not use.startswith("table.") and use.rpartition(".")[2] not in known
    }
    assert found == set(OF_UPSTREAM)


def test_tables_of_names_read_no_attribute() -> None:
    """They have no reader, so that a name in them is data."""
    for name in TABLES_OF_NAMES:
        assert not [use for _, use in attribute_uses(modules()[name], name, own_names(name))]


def test_private_modules_of_frameworks_are_named_by_upstream_only() -> None:
    named = {name: found for name, tree in outside().items() if (found := private_modules(tree))}
    assert {name: found for name, found in named.items() if name not in NAMES_OF_OLD} == {}
    assert set(named) == set(NAMES_OF_OLD), "an exception that nobody needs"


# How a private member of an object can be read or set, in the body of a method that has the object as an argument.
FORMS = [
    "model._hyper",
    "self._optimizer._slots",
    "self._track_trackable(1)",
    "graph._graph_key",
    "model._a_new_one",
    "super()._lookup_dependency('name')",
    "getattr(optimizer, '_momentum', None)",
    "getattr(model, name='_x')",
    "setattr(optimizer, '_momentum', 1)",
    "getattr(model, '_' + 'x')",
    "getattr(model, '_' + name)",
    "getattr(model, f'_{name}')",
    "getattr(model, table.HYPER.name)",
    "vars(optimizer).get('_u_product')",
    "vars(optimizer)['_momentum'] = 1",
    "model.__dict__['_x']",
    "model.__dict__.get(table.KERAS_3_COMPILED.name)",
    "'_x' in vars(model)",
    "members = vars(model); members['_x']",
    "object.__getattribute__(model, '_x')",
    "object.__setattr__(model, '_x', 1)",
    "operator.attrgetter('_x')(model)",
    "methodcaller('_x')(model)",
    "inspect.getattr_static(model, '_x')",
    "NAME = '_x'; getattr(model, NAME)",
    "for name in ('_x',): getattr(model, name)",
]


@pytest.mark.parametrize("line", FORMS)
def test_a_use_elsewhere_is_seen(line: str) -> None:
    tree = parsed(f"class C:\n    def function(self):\n        {line}\n")
    assert len(uses(tree, "elsewhere", frozenset({"_optimizer", "_name"}))) == 1


@pytest.mark.parametrize("use", ["model._value", "model._layers", "model._graph", "optimizer._state"])
def test_a_member_of_another_class_of_mpls_is_no_member_of_this_one(use: str) -> None:
    module = "mpls.keras.keras3.adapter"
    assert uses(parsed(use), module, own_names(module)) == [use]


@pytest.mark.parametrize("line", ["loss_scale._own", "self._own", "vars(loss_scale)['_own']", "_T = TypeVar('_T')"])
def test_what_is_of_mpls_is_not_taken_for_a_frameworks(line: str) -> None:
    tree = parsed(f"def function(self):\n    {line}\n")
    assert uses(tree, "elsewhere", frozenset({"_own"})) == []


def test_what_type_checkers_read_defines_nothing() -> None:
    source = """
class Members:
    if TYPE_CHECKING:
        _variables: list

        def _declared(self): ...
    else:
        _other = 1

    def __init__(self):
        self._own = vars(self)["_kept"] = 1
        model._foreign = _local = 1
        self.__dict__[_NAME] = 1

_NAME = "_named"
"""
    (found,) = classes_in("module", parsed(source))
    assert found.names == {"_other", "_own", "_kept", "_named"}


@pytest.mark.parametrize(
    "line",
    [
        "import tensorflow.python.eager",
        "from keras.src import ops",
        "import_module('tf_keras.src.backend')",
        "tf.__internal__",
        "tf.python.eager.context",
        "import tensorflow as flow\nflow.python.eager",
        "tf.compat.v1.__internal__.tracking",
        "keras.src.ops",
        "tf_keras.src.backend.track_variable",
        "import_module(f'{root}.src.x')",
        "getattr(tf, '__internal__')",
        "import_module(f'tensorflow.python.{name}')",
    ],
)
def test_a_private_module_elsewhere_is_seen(line: str) -> None:
    assert private_modules(parsed(line))
