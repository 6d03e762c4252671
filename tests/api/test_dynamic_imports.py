"""What is imported by a name in a string is in the contract on imports too, and who looks at the stack is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from mpls.names import NAMES
from mpls.tracing.own_classes import OWN_CLASSES

from .source_tree import called, is_docstring, modules, parsed

IMPORTERS = {"import_module", "_import_module", "__import__", "find_spec", "run_module", "run_path", "when_loaded"}
FRAMEWORKS = ("tensorflow", "tf_keras", "keras")
# Modules that import by a name that is no constant, or a framework by its name, and why no statement serves.
BY_NAME = {
    "mpls": "its parts, on first access: import mpls loads no TensorFlow",
    "mpls.hints.causes": "tf_keras, to look for what Keras 3 lacks, after an error",
    "mpls.importing.post_import": "the modules that programs import",
    "mpls.importing.hooks": "the modules that programs import, and the rows of mpls.names",
    "mpls.importing.modes": "the modules of TensorFlow and tf_keras, for a program that imports them",
    "mpls.keras.files.loading": "the framework that wrote a file",
    "mpls.keras.files.optimizer_state": "tf_keras, which wrote the file",
    "mpls.keras.own_files": "the Kerases, when the program loads them",
    "mpls.run": "TensorFlow, when a process that the program has started loads it",
    "mpls.saved.containers": "h5py, which TensorFlow brings",
    "mpls.tracing.standalone": "the program, where it is a module",
    "mpls.upstream.keras_packages": "the private modules in its table",
    "mpls.upstream.table": "the private modules in its table",
}
# Modules that hand on a function that imports, and why.
HAND_ON = {
    "mpls.importing.hooks": "to pickle, for the module itself",
}
# Modules that run source code, and whose.
RUN_CODE = {"mpls.tracing.standalone": "the program"}
# Modules that look at the stack, or at frames, and what for.
LOOK_AT_FRAMES = {
    "mpls.errors": "the line of the user that a warning is for",
    "mpls.importing.user_code": "whether a program reads a name, or a framework",
    "mpls.importing.modes": "whether a program imports, or an installed package",
    "mpls.keras.own_files": "whether Keras asks, or a user",
    "mpls.upstream.keras_packages": "which callbacks `fit` has before one",
    "mpls.upstream.trackables": "from which checkpoint TensorFlow restores an object",
}

# What gives frames, and those further up; and what does so in one module, but may mean something else in others.
FRAME_NAMES = {"_getframe", "_getframemodulename", "_current_frames", "_current_exceptions", "currentframe", "f_back"}
FRAME_NAMES |= {"walk_stack", "extract_stack", "format_stack", "print_stack", "getouterframes", "get_stack"}
STACK_NAMES = {"inspect.stack", "inspect.trace"}


def imports_by_name(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports by a name in a string."""
    for node in ast.walk(tree):
        name = called(node).rpartition(".")[2]
        if name in IMPORTERS and isinstance(node, ast.Call) and node.args:
            yield ast.unparse(node.args[0])


def hidden_imports(tree: ast.Module) -> Iterator[str]:
    """Yield what could import unseen by `imports_by_name`: importers by other names or uncalled, parts of `mpls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in ("importlib", "pkgutil", "runpy"):
            yield from (f"{each.name} as {each.asname}" for each in node.names if each.asname not in {None, *IMPORTERS})
        elif isinstance(node, ast.Import):
            # `import mpls` alone says nothing of the parts that are then read from it.
            is_root = any((each.name, each.asname or "mpls") == ("mpls", "mpls") for each in node.names)
            parts = {part.split(".")[1] for part in modules() if "." in part} - {"errors", "names"}
            uses = [each for each in ast.walk(tree) if isinstance(each, ast.Attribute) and each.attr in parts]
            yield from (ast.unparse(each) for each in uses if is_root and ast.unparse(each.value) == "mpls")
        elif isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).rpartition(".")[2] in IMPORTERS:
            is_called = isinstance(node.parent, ast.Call) and node.parent.func is node  # type: ignore[union-attr]
            yield from () if is_called else [ast.unparse(node)]


def names_own_modules(tree: ast.Module) -> Iterator[str]:
    """Yield the strings in which a module names another of mpls."""
    known = set(modules())
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_docstring(node):
            yield from {node.value} & known - {"mpls"}


def taken_from_sys_modules(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of mpls that a module takes from `sys.modules`, where no import says so."""
    for node in ast.walk(tree):
        keys = []
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            keys = [node.slice]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("sys.modules."):
            keys = node.args[:1]
        yield from (ast.unparse(key) for key in keys if ast.unparse(key).strip("'").partition(".")[0] == "mpls")


def asked_of_sys_modules(tree: ast.Module) -> set[str]:
    """Return the modules of mpls that a module asks for in `sys.modules`."""
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    keys = [each.left for each in compared if ast.unparse(each.comparators[0]) == "sys.modules"]
    return {key.value for key in keys if isinstance(key, ast.Constant) and str(key.value).startswith("mpls")}


def imported_by_statements(tree: ast.Module) -> set[str]:
    return {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def looks_at_frames(tree: ast.Module) -> bool:
    """Return whether a module reads the stack, by an attribute, an import or a string, or frames further up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (node.attr in FRAME_NAMES or ast.unparse(node) in STACK_NAMES):
            return True
        if isinstance(node, ast.ImportFrom):
            names = {each.name for each in node.names}
            if names & FRAME_NAMES or {f"{node.module}.{name}" for name in names} & STACK_NAMES:
                return True
        if isinstance(node, ast.Constant) and node.value in FRAME_NAMES:
            return True
    return False


def test_who_imports_by_name_is_known() -> None:
    found = {name: names for name, tree in modules().items() if (names := list(imports_by_name(tree)))}
    assert {name: names for name, names in found.items() if name not in BY_NAME} == {}
    assert set(BY_NAME) - set(found) == set(), "an exception that nobody needs"


def test_no_import_is_hidden() -> None:
    hidden = {name: found for name, tree in modules().items() if (found := list(hidden_imports(tree)))}
    assert {name: found for name, found in hidden.items() if name not in HAND_ON} == {}
    assert set(hidden) == set(HAND_ON), "an exception that nobody needs"


@pytest.mark.parametrize(
    "source",
    [
        "from importlib import import_module as load",
        "from pkgutil import resolve_name as find",
        "import importlib\nload = importlib.import_module",
        "import mpls\nmpls.keras.LossScaleOptimizer",
    ],
)
def test_a_hidden_import_is_seen(source: str) -> None:
    assert len(list(hidden_imports(parsed(source)))) == 1


def test_who_runs_source_code_is_known() -> None:
    runs = {
        name for name, tree in modules().items() if any(called(node) in ("exec", "eval") for node in ast.walk(tree))
    }
    assert runs == set(RUN_CODE)


def test_no_module_of_mpls_is_imported_by_name() -> None:
    """Where one is, the contract on imports does not see it."""
    found = {(name, each) for name, tree in modules().items() for each in names_own_modules(tree)}
    allowed = {
        # The face: convert_state.
        ("mpls", "mpls.transfer.convert"),
    }
    # They ask whether a program has loaded them, in sys.modules.
    allowed |= {("mpls.install", "mpls.keras.own_files"), ("mpls.install", "mpls.experimental.compiling")}
    # Rows of the table, of which the next test knows all; and whose frames do not count as a reader's.
    allowed |= {("mpls.names", "mpls.experimental.loss_scales"), ("mpls.names", "mpls.experimental.policy")}
    allowed |= {("mpls.migrate.replacements", "mpls.experimental.policy")}
    allowed |= {("mpls.importing.user_code", "mpls.importing")}
    # It waits until the program has loaded them.
    allowed |= {("mpls.tracing.own_classes", each) for each in OWN_CLASSES}
    faces = {"mpls.keras", "mpls.experimental", "mpls.contrib", "mpls.v1"}
    # What classes are called, and names in tables: not imported.
    called_so = {(name, each) for name, each in found if each in faces}
    assert found - called_so == allowed


def test_no_module_of_mpls_is_taken_from_sys_modules() -> None:
    """It may be asked for there; what uses it then imports it, which the contract on imports sees."""
    assert {name: each for name, tree in modules().items() for each in taken_from_sys_modules(tree)} == {}
    for tree in modules().values():
        assert asked_of_sys_modules(tree) <= imported_by_statements(tree)


@pytest.mark.parametrize("line", ["sys.modules['mpls.keras']", "sys.modules.get('mpls')", "sys.modules.pop('mpls.v1')"])
def test_a_module_that_is_taken_is_seen(line: str) -> None:
    assert len(list(taken_from_sys_modules(parsed(line)))) == 1


def test_old_names_lead_to_public_packages_only() -> None:
    """mpls.importing imports them by the names in the table."""
    homes = {name.target.partition(":")[0] for name in NAMES if name.target}
    public = {"mpls.v1", "mpls.keras", "mpls.experimental", "mpls.contrib"}
    within = {"mpls.experimental.loss_scales", "mpls.experimental.policy"}
    # Which TensorFlow has to this day.
    assert homes == public | within | {"tensorflow.__internal__.train"}


def test_who_looks_at_the_stack_is_known() -> None:
    assert {name for name, tree in modules().items() if looks_at_frames(tree)} == set(LOOK_AT_FRAMES)


@pytest.mark.parametrize("line", ["import_module('keras.layers')", "importlib.import_module(name)", "__import__(name)"])
def test_an_import_by_name_is_seen(line: str) -> None:
    assert len(list(imports_by_name(parsed(line)))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "sys._getframe(1)",
        "inspect.stack()",
        "inspect.currentframe()",
        "frame.f_back",
        "from sys import _getframe",
        "from inspect import stack",
        "from inspect import currentframe as here",
        "traceback.walk_stack(None)",
        "traceback.extract_stack()",
        "from traceback import extract_stack",
        "getattr(sys, '_getframe')(1)",
    ],
)
def test_a_look_at_the_stack_is_seen(line: str) -> None:
    assert looks_at_frames(parsed(line))
