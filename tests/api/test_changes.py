"""The table of what mpls changes in modules and classes of others is complete."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from mpls.patches.changes import CHANGES

from .source_tree import around, called, modules, origins, parsed

# What puts something of mpls in the place of an attribute, or a class of it in that of a module's.
CONSTRUCTORS = {"Layer", "WhileNeeded", "Overlay"}
MUTATORS = {"insert", "append", "extend", "pop", "remove", "update", "register", "clear", "setdefault", "dup2"}
# What sets something of the process, of a class or of a module, by the end of its name.
SETTERS = {
    *("disable_v2_behavior", "set_experimental_options", "set_enabled", "set_class", "linecache.cache.update"),
    *("gc.disable", "gc.enable", "gc.freeze", "gc.set_threshold", "random.seed", "set_random_seed", "set_seed"),
    *("signal.signal", "setitimer", "set_wakeup_fd", "os.chdir", "os.putenv", "os.unsetenv", "os.umask", "settrace"),
    *("setprofile", "setrecursionlimit", "set_int_max_str_digits", "setswitchinterval", "setlocale", "filterwarnings"),
    *("simplefilter", "setdefaulttimeout", "set_start_method", "faulthandler.enable", "set_printoptions", "seterr"),
}
ATTRIBUTE_SETTERS = {"setattr", "delattr"} | {
    f"{each}.{name}" for each in ("object", "type") for name in ("__setattr__", "__delattr__")
}
OWN = ("self", "cls")
# Modules in which an object is changed that a program hands over, or that mpls has made: nothing of a module or class.
OF_OBJECTS = {
    "mpls.core.savers": "notes of mpls on a graph, and on a wrapper of mpls",
    "mpls.core.scaling_calls": "its own state",
    "mpls.core.weights": "the same",
    "mpls.upstream.optimizers": "settings of optimizers that a program sets, and the mark of one that is wrapped",
    "mpls.transfer.settings": "settings of the target of convert_state",
    "mpls.keras.policy": "the class of a policy of mpls",
    "mpls.keras.family_members": "settings of the wrapped optimizer",
    "mpls.keras.optimizer": "a wrapper of mpls, its class, and settings of the optimizer that it wraps",
    "mpls.cli.choosing": "mpls' own options",
    "mpls.importing.modes": "what a program sets on a module of Keras 2",
    "mpls.core.counters": "in sys.modules, names of modules that mpls had",
    "mpls.core.dynamic": "the same",
    "mpls.core.loss_scale": "the same; and a loss scale that it has made",
    "mpls.keras.experimental_wrapper": "the name of a wrapper that it has made",
    "mpls.importing.hooks": "a module that it has made",
    "mpls.install": "its own state",
    "mpls.keras.classes": "a wrapper while it is made, and what its class keeps of concrete ones",
    "mpls.keras.keras3.ops": "a loss scale of mpls",
    "mpls.keras.tf_keras_family": "a copy of a wrapper",
    "mpls.migrate.analysis": "what a class of its own has noted",
    "mpls.program.programs": "a record of its own of a file",
    "mpls.program.scopes": "the same",
    "mpls.monitor.summaries": "a proto that it has made",
    "mpls.hints": "the traceback of an error before it is shown",
    "mpls.tracing.around_steps": "what a class of its own has noted",
    "mpls.upstream.tensorflow": "a graph, which keeps a key of mpls",
    "mpls.upstream.trackables": "what a wrapper of mpls tracks, and a saver while it is built",
    "mpls.v1.optimizer": "the collection of train ops of a graph; a SyncReplicasOptimizer gets what its method sets",
}


def defined(scope: ast.AST) -> set[str]:
    return {node.name for node in ast.walk(scope) if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def is_of_mpls(name: ast.Name, own: set[str]) -> bool:
    """Return whether what is around a name defines it, declares it as an object of mpls, or makes it as one."""
    for scope in around(name):
        if isinstance(scope, ast.FunctionDef):
            arguments = scope.args
            for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if each.arg == name.id:
                    return each.annotation is not None and ast.unparse(each.annotation).partition(" | ")[0] in own
        elif not isinstance(scope, ast.Module):
            continue
        for node in ast.walk(scope):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if isinstance(node, ast.Assign | ast.AnnAssign) and name.id in [
                ast.unparse(each) for each in targets if each
            ]:
                return node.value is not None and called(node.value).partition(".")[0] in own
    return name.id in own


def root_of(node: ast.AST) -> ast.Name | None:
    """Return the name that a chain begins with; of `vars(x)["name"]`, `x`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if called(node) == "vars" and isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        else:
            node = node.func if isinstance(node, ast.Call) else node.value
    return node if isinstance(node, ast.Name) else None


def is_members(node: ast.AST) -> bool:
    """Return whether a node is what an object has: `vars(x)`, `x.__dict__`."""
    return called(node) == "vars" or (isinstance(node, ast.Attribute) and node.attr == "__dict__")


def ends_with(name: str, known: set[str]) -> bool:
    return any(f".{name}".endswith(f".{each}") for each in known)


def is_changing_call(node: ast.Call, known: dict[str, str], own: set[str]) -> bool:
    first, dot, rest = called(node).partition(".")
    name = known.get(first, first) + dot + rest
    root = root_of(node.func)
    if ends_with(name, CONSTRUCTORS) or ends_with(name, SETTERS):
        return True
    if name in ATTRIBUTE_SETTERS:
        return ast.unparse(node.args[0]) not in OWN
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in MUTATORS or root is None:
        return "events" in name and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS
    is_file = name.startswith("os.") and not name.startswith(("os.environ", "os.dup2"))
    if is_members(node.func.value):
        return root.id not in OWN and not is_of_mpls(root, own)
    return "events" in name or (is_of_others(root, known) and not is_file)


def is_of_others(root: ast.Name, known: dict[str, str]) -> bool:
    return known.get(root.id, "mpls").partition(".")[0] != "mpls"


def is_changed_place(node: ast.Attribute | ast.Subscript, known: dict[str, str], own: set[str]) -> bool:
    """Return whether a place that is set or deleted may be of others."""
    root = root_of(node)
    is_named = isinstance(node, ast.Subscript) and ".load(" in ast.unparse(node)
    is_attribute = isinstance(node, ast.Attribute) or is_members(node.value)
    if root is None or root.id in OWN:
        return is_named
    return is_named or is_of_others(root, known) or (is_attribute and not is_of_mpls(root, own))


def changes_in(tree: ast.Module) -> Iterator[str]:
    """Yield the lines in which a module may change what is not of mpls."""
    known = origins(tree)
    own = defined(tree) | {name for name, origin in known.items() if origin.partition(".")[0] == "mpls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            is_change = is_changing_call(node, known, own)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            is_change = is_changed_place(node, known, own)
        else:
            continue
        if is_change:
            yield ast.unparse(node)


def by() -> set[str]:
    return {f"mpls.{name}" for change in CHANGES for name in change.by}


def changing() -> dict[str, list[str]]:
    found = {}
    for name, tree in modules().items():
        lines = list(changes_in(tree))
        if lines and name not in ("mpls.patches", "mpls.patches.changes"):
            found[name] = lines
    return found


def test_every_module_that_changes_others_is_in_the_table() -> None:
    unknown = {name: lines for name, lines in changing().items() if name not in by() and name not in OF_OBJECTS}
    assert unknown == {}


def test_every_module_in_the_table_changes_others() -> None:
    assert by() - set(changing()) == set()
    assert set(OF_OBJECTS) - set(changing()) == set(), "an exception that nobody needs"


@pytest.mark.parametrize(
    "line",
    [
        "import sys\nsys.excepthook = print",
        "import sys\nsys.meta_path.insert(0, finder)",
        "import sys\nsys.modules['name'] = module",
        "import os\nos.environ['NAME'] = '1'",
        "import os\nos.environ.pop('NAME')",
        "import tensorflow as tf\ntf.Variable.assign = ours",
        "import keras\ndel keras.Model.compile",
        "setattr(owner, 'name', ours)",
        "Layer(owner, 'name', make)",
        "spec.loader = ours",
        "set_class(module, ours)",
        "shell.events.register('name', ours)",
        "gc.disable()",
        "random.seed(1)",
        "np.random.seed(1)",
        "def function(module):\n    module.Model.compile = ours",
        "def function(model: Any):\n    model.optimizer = ours",
        "def function():\n    module = sys.modules['keras']\n    module.Model = ours",
        "def function(module):\n    del module.Model",
        "vars(module)['x'] = 1",
        "module.__dict__['x'] = 1",
        "del vars(module)['x']",
        "vars(module).update(x=1)",
        "module.__dict__.pop('x')",
        "object.__setattr__(module, 'x', 1)",
        "object.__delattr__(wrapper, 'get_config')",
        "import keras\ntype.__setattr__(keras.Model, 'x', 1)",
        "signal.signal(signal.SIGINT, ours)",
        "import signal\nsignal.signal(signal.SIGINT, ours)",
        "from sys import path\npath.insert(0, 'folder')",
        "from os import environ\nenviron['X'] = '1'",
        "from os import environ\ndel environ['X']",
        "from random import seed as begin\nbegin(1)",
        "from gc import disable\ndisable()",
        "os.chdir('folder')",
        "warnings.simplefilter('ignore')",
    ],
)
def test_a_change_is_seen(line: str) -> None:
    assert len(list(changes_in(parsed(line)))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "self._held = 1",
        "vars(self)['x'] = 1",
        "object.__setattr__(self, 'x', 1)",
        "from mpls.core import Record\ndef function(record: Record | None):\n    record.step = 1",
        "class Plan: ...\ndef function():\n    plan = Plan()\n    plan.step = 1",
        "import os\nos.remove('file')",
        "found = {}\nfound['x'] = 1",
    ],
)
def test_what_changes_nothing_of_others_is_not_taken_for_a_change(line: str) -> None:
    assert list(changes_in(parsed(line))) == []
