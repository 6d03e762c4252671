"""What mpls puts in the place of others' attributes is there once something needs it; what others put there stays."""

from __future__ import annotations

import copy
import functools
import gc
import sys
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
Place = tuple[Any, str]
ABSENT: Any = object()
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


POLICY = mpls.experimental.Policy("mixed_float16")


class PolicyOfEach(mpls.experimental.Policy, tf_keras.mixed_precision.Policy, keras.DTypePolicy):
    """A policy that need not become one of the two Kerases."""


def set_and_reset(policy: Any) -> None:
    mpls.experimental.set_policy(policy)
    mpls.keras.set_global_policy(None)


def current(place: Place) -> Any:
    owner, name = place
    return vars(owner).get(name, ABSENT)


# What needs replacements, and where.
NEEDS: dict[str, tuple[Callable[[], Any], list[Place]]] = {
    "v1": (lambda: mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(), 8), []),
    "legacy": (lambda: Ours(tf_keras.optimizers.legacy.Adam()), []),
    "new": (lambda: Ours(tf_keras.optimizers.Adam(), dynamic=False, initial_scale=8), []),
    "keras3": (lambda: Ours(keras.optimizers.Adam()), []),
    "graph": (graph_with_wrapper, SAVERS),
    "policy": (lambda: mpls.experimental.Policy("mixed_float16", None), COMPILE),
    "policy of each": (lambda: PolicyOfEach("mixed_float16", 8), COMPILE),
    "copied policy": (lambda: copy.copy(POLICY), COMPILE),
    "policy that is set": (lambda: set_and_reset(POLICY), COMPILE),
    "plain policy": (lambda: mpls.keras.Policy("mixed_float16"), []),
    "plain policy that is set": (lambda: set_and_reset("float64"), COMPILE),
}


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
