"""Whatever mpls changes in others goes without a trace: applied twice, undone in any order, over others' patches."""

from __future__ import annotations

import builtins
import functools
import gc
import importlib
import itertools
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import mpls
import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.core import state_checks as arrival
from mpls.errors import MplsWarning
from mpls.experimental import compiling
from mpls.hints import Announcer
from mpls.importing.hooks import Overlay, legacy_compile
from mpls.importing.modes import Redirection
from mpls.keras import own_files
from mpls.patches import ABSENT, WhileNeeded
from mpls.upstream import rewrite, trackables
from mpls.upstream.keras_packages import compile_hooks
from mpls.upstream.modules import inner_module

v1 = tf.compat.v1
Undo = Callable[[], None]


def current(place: tuple[Any, str]) -> Any:
    owner, name = place
    return vars(owner).get(name, ABSENT)


def state() -> dict[str, Any]:
    """Return what stands at every place that a change below has."""
    gc.collect()
    places = [place for _, places in CHANGES.values() for place in places]
    found: dict[str, Any] = {f"{owner!r}.{name}": current((owner, name)) for owner, name in places}
    found["classes"] = [type(module) for module in MODULES]
    found["finders"] = list(sys.meta_path)
    found["environment"] = dict(os.environ)
    found["rewrite"] = rewrite.graph_rewrite_state()
    return found


def differing(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [key for key, value in before.items() if value is not after[key] and value != after[key]]


# Each change: what makes it, and returns what undoes it; and a place where another library may have put something.


def held(needed: WhileNeeded) -> Callable[[], Undo]:
    def apply() -> Undo:
        owner = [types.SimpleNamespace()]
        holder: Any = type("Holder", (), {})()
        owner[0] = holder
        needed.hold_for(holder)
        del holder
        return owner.clear

    return apply


def installed(**settings: Any) -> Callable[[], Undo]:
    def apply() -> Undo:
        block = mpls.install(**settings).__enter__()
        return lambda: block.__exit__(None, None, None)

    return apply


def layered(make: Callable[[], Any]) -> Callable[[], Undo]:
    return lambda: make().take_away


def redirected() -> Undo:
    return Redirection({"nothing_of_this_name": lambda *_: None}).take_away


def compile_patched() -> Undo:
    layers = legacy_compile("tf_keras", tf_keras)
    return lambda: [layer.take_away() for layer in layers] and None


def announced() -> Undo:
    announcer = Announcer(lambda _: None)
    announcer.listen(True)
    return lambda: announcer.listen(False)


def recognised() -> Undo:
    own_files.recognise_while_installed(True)
    return lambda: own_files.recognise_while_installed(False)


def rewriting() -> Undo:
    block = mpls.install().__enter__()
    mpls.v1.enable_mixed_precision_graph_rewrite(v1.train.GradientDescentOptimizer(0.5))
    return lambda: block.__exit__(None, None, None)


def saver_hooks() -> Undo:
    graphs = [tf.Graph()]
    with graphs[0].as_default():
        weight = v1.get_variable("weight", initializer=1.0)
        mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.5), "dynamic").minimize(weight**2)
    return graphs.clear


TrackableSaver = importlib.import_module("tensorflow.python.checkpoint.checkpoint").TrackableSaver
MODULES = [
    inner_module(each) for each in (v1.train.experimental, v1.mixed_precision, tf_keras.mixed_precision, v1.train)
]
EXPERIMENTAL, NATIVE, _, TRAIN = MODULES
CHANGES: dict[str, tuple[Callable[[], Undo], list[tuple[Any, str]]]] = {
    "names": (installed(), [(EXPERIMENTAL, "__getattr__"), (EXPERIMENTAL, "__dir__"), (sys, "excepthook")]),
    "taken names": (installed(replace_existing=True, contrib=True), [(NATIVE, "__dir__")]),
    "as of": (installed(as_of="2.3"), [(EXPERIMENTAL, "__getattr__")]),
    "imports": (redirected, [(builtins, "__import__"), (importlib, "import_module")]),
    "class of a module": (layered(lambda: Overlay(TRAIN, {"Optimizer": lambda value: value})), []),
    "compile of tf_keras": (compile_patched, [(tf_keras.Model, "compile")]),
    "hooks of errors": (announced, [(sys, "excepthook"), (threading, "excepthook")]),
    "restore": (held(arrival._watch), [(TrackableSaver, "restore")]),
    "savers": (saver_hooks, [(v1.train.Saver, "restore"), (v1.train.Saver, "_build")]),
    "compile": (held(compiling._while_needed), compile_hooks()),
    "own files": (recognised, [(keras.optimizers.LossScaleOptimizer, "from_config")]),
    "rewrite": (rewriting, []),
}
PAIRS = list(itertools.combinations_with_replacement(CHANGES, 2))


@pytest.fixture(autouse=True)
def _nothing_else_is_patched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mpls.uninstall()
    for needed in (arrival._watch, compiling._while_needed, *trackables._saver_hooks.values()):
        needed.undo()
    # As in a process that has made no wrapper.
    own_files._reasons.discard(own_files._USE)
    own_files.recognise_while_installed(False)
    monkeypatch.setattr(own_files, "_USE", "used in another test")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MplsWarning)
        yield


@pytest.mark.default_run("each value")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_changes_go_in_any_order(first: str, second: str) -> None:
    for is_first_last in (False, True):
        before = state()
        undo = [CHANGES[first][0](), CHANGES[second][0]()]
        assert differing(before, state())
        for each in reversed(undo) if is_first_last else undo:
            each()
        assert differing(before, state()) == []


def of_another_library(place: tuple[Any, str]) -> tuple[Any, Undo]:
    """Put a function of another library at a place, over what is there; return it, and what puts that back."""
    beneath = current(place)
    called = beneath.__func__ if isinstance(beneath, classmethod) else beneath

    def theirs(*args: Any, **kwargs: Any) -> Any:
        if beneath is ABSENT:
            raise AttributeError(args)
        return called(*args, **kwargs)

    if called is not ABSENT and not isinstance(called, functools.partial):
        # It copies the attributes of what it wraps, those of ours among them.
        functools.update_wrapper(theirs, called)
    put(place, classmethod(theirs) if isinstance(beneath, classmethod) else theirs)
    return current(place), lambda: put(place, beneath)


def put(place: tuple[Any, str], value: Any) -> None:
    owner, name = place
    if isinstance(owner, types.ModuleType):
        vars(owner).pop(name, None) if value is ABSENT else vars(owner).__setitem__(name, value)
    else:
        setattr(owner, name, value)


@pytest.mark.default_run("each value")
@pytest.mark.parametrize(("first", "second"), [pair for pair in PAIRS if CHANGES[pair[0]][1]])
def test_what_another_library_has_put_there_stays(first: str, second: str) -> None:
    for is_first_last in (False, True):
        before = state()
        undo = [CHANGES[first][0]()]
        theirs = [(place, *of_another_library(place)) for place in CHANGES[first][1]]
        undo.append(CHANGES[second][0]())
        for each in reversed(undo) if is_first_last else undo:
            each()
        gc.collect()
        for place, value, _ in theirs:
            assert current(place) is value
        for _, _, put_back in theirs:
            put_back()
        # They have put back what stood there when they came, which is ours and does nothing; it goes with the next.
        CHANGES[first][0]()()
        assert differing(before, state()) == []
