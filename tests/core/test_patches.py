"""What mpls puts in the place of others' attributes is there once something needs it; `uninstall` leaves no trace."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import mpls.experimental
import mpls.keras
import mpls.v1

# What other tests of the process have left behind is put back by these alone.
from mpls.errors import MplsWarning
from mpls.experimental import policy
from mpls.upstream import trackables

v1 = tf.compat.v1
Undo = Callable[[], None]
Place = tuple[Any, str]
ABSENT: Any = object()
EXPERIMENTAL, NATIVE = (
    getattr(each, "_tfmw_wrapped_module", each) for each in (v1.train.experimental, v1.mixed_precision)
)
# Methods that are replaced once an object needs it.
SAVERS = [(v1.train.Saver, "restore"), (v1.train.Saver, "_build")]
COMPILE = [
    (tf_keras.Model, "_get_optimizer"),
    (next(owner for owner in keras.Model.__mro__ if "compile" in vars(owner)), "compile"),
]
Ours: Any = mpls.keras.LossScaleOptimizer


def graph_with_wrapper(loss_scale: Any = "dynamic") -> Any:
    graph = tf.Graph()
    with graph.as_default():
        weight = v1.get_variable("weight", initializer=1.0)
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.5), loss_scale)
        opt.minimize(weight**2)
    return graph


def current(place: Place) -> Any:
    owner, name = place
    return vars(owner).get(name, ABSENT)


def installed(**settings: Any) -> Callable[[], Undo]:
    def apply() -> Undo:
        block = mpls.install(**settings).__enter__()
        return lambda: block.__exit__(None, None, None)

    return apply


def rewriting() -> Undo:
    block = mpls.install().__enter__()
    mpls.v1.enable_mixed_precision_graph_rewrite(v1.train.GradientDescentOptimizer(0.5))
    return lambda: block.__exit__(None, None, None)


# Each change: what makes it, and returns what undoes it; and the places that it changes.
CHANGES: dict[str, tuple[Callable[[], Undo], list[Place]]] = {
    "names": (installed(), [(EXPERIMENTAL, "__getattr__"), (EXPERIMENTAL, "__dir__"), (sys, "excepthook")]),
    "taken names": (installed(replace_existing=True, contrib=True), [(NATIVE, "__dir__")]),
    "as of": (installed(as_of="2.3"), [(EXPERIMENTAL, "__getattr__"), (threading, "excepthook")]),
    "rewrite": (rewriting, []),
}
PAIRS = list(itertools.combinations_with_replacement(CHANGES, 2))
ALL_PLACES = [place for _, places in CHANGES.values() for place in places]
# What needs replacements, and where.
NEEDS: dict[str, tuple[Callable[[], Any], list[Place]]] = {
    "v1": (lambda: mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(), 8), []),
    "legacy": (lambda: Ours(tf_keras.optimizers.legacy.Adam()), []),
    "new": (lambda: Ours(tf_keras.optimizers.Adam(), dynamic=False, initial_scale=8), []),
    "keras3": (lambda: Ours(keras.optimizers.Adam()), []),
    "graph": (graph_with_wrapper, SAVERS),
    "policy": (lambda: mpls.experimental.Policy("mixed_float16", None), COMPILE),
    "plain policy": (lambda: mpls.keras.Policy("mixed_float16"), []),
}


def state() -> dict[str, Any]:
    """Return what stands at every place that a change above has."""
    gc.collect()
    found: dict[str, Any] = {f"{place[0]!r}.{place[1]}": current(place) for place in ALL_PLACES}
    found["class"] = type(NATIVE)
    found["finders"], found["environment"] = list(sys.meta_path), dict(os.environ)
    found["rewrite"] = tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled()
    found["options"] = tf.config.optimizer.get_experimental_options()
    return found


def differing(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [key for key, value in before.items() if value is not after[key] and value != after[key]]


def take_all_away() -> None:
    for each in (policy._patches, *trackables._saver_hooks.values()):
        each.take_away()


@pytest.fixture(autouse=True)
def _nothing_else_is_patched() -> Iterator[None]:
    mpls.uninstall()
    take_all_away()
    # What waits for the other Keras to be loaded stays.
    Ours(keras.optimizers.SGD()), Ours(tf_keras.optimizers.SGD())
    gc.collect()
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


def test_what_another_library_has_put_around_ours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with mpls.install():
        # It copies the attributes of what it wraps, by which mpls knows its own.
        theirs = functools.wraps(sys.excepthook)(lambda *_: None)
        monkeypatch.setattr(sys, "excepthook", theirs)
    for _ in range(2):
        assert sys.excepthook is theirs
        with mpls.install():
            assert sys.excepthook is not theirs


@pytest.mark.parametrize("name", NEEDS)
def test_it_is_there_once_an_object_needs_it(name: str) -> None:
    make, places = NEEDS[name]
    take_all_away()
    before = {place: current(place) for place in [*SAVERS, *COMPILE]}
    for _ in range(2):
        made = make()
        assert [place for place in before if current(place) is not before[place]] == places, made
    mpls.install()
    mpls.uninstall()
    assert all(current(place) is before[place] for place in COMPILE)
