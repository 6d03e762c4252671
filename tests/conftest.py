"""Process-wide setting of every test: CPU only, two logical devices, quiet native logs."""

from __future__ import annotations

import gc
import inspect
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# The recorded numbers were computed without oneDNN's reordered sums.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import pytest
import tensorflow as tf


def split_cpu() -> None:
    """Split the CPU in two logical devices, before the first op fixes the device list."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process before any test is collected."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None and capture.is_globally_capturing():
        # What native libraries printed while they were loaded would come out after the summary.
        capture.read_global_capture()
    split_cpu()


@pytest.fixture(autouse=True)
def _collective_keys_of_its_own() -> None:
    """Keep the strategies of one test from taking part in collective ops of another's, in the same process."""
    tf.distribute.MirroredStrategy._collective_key_base += 10_007


@pytest.fixture(scope="module")
def only_what_is_new_is_collected() -> Iterator[None]:
    """Leave what other tests hold out of collections, which would take seconds each."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


_ASKED_FOR = ("long", "matrix", "programs")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip GPU tests where there is no GPU, and leave out those that are run only when they are asked for."""
    if not tf.config.list_physical_devices("GPU"):
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a GPU, and TensorFlow sees none"))
    _mark_all_but_pairs(items)
    expression = config.getoption("-m") or ""
    left_out = {mark for mark in _ASKED_FOR if mark not in expression}
    # A test that has been named runs, whatever it costs.
    named = [argument.partition("[")[0] for argument in config.args if "::" in argument]
    is_left_out = [bool(left_out & item.keywords.keys()) and not _is_named(item, named) for item in items]
    config.hook.pytest_deselected(items=list(itertools.compress(items, is_left_out)))
    items[:] = [item for item, is_out in zip(items, is_left_out, strict=True) if not is_out]


def _is_named(item: pytest.Item, named: list[str]) -> bool:
    return any(item.nodeid.startswith(each.removeprefix("./")) for each in named)


def _mark_all_but_pairs(items: list[pytest.Item]) -> None:
    """Mark as `matrix` what adds no pair of values to the cases of a test that is marked as `pairwise`."""
    marked = [item for item in items if "pairwise" in item.keywords]
    for _, group in itertools.groupby(marked, key=_name_without_case):
        cases = list(group)
        chosen = covering([_arguments(item) for item in cases])
        for index, item in enumerate(cases):
            if index not in chosen:
                item.add_marker("matrix")


def _name_without_case(item: pytest.Item) -> str:
    return f"{item.nodeid.rpartition('::')[0]}::{_parameterized(item).__wrapped__.__qualname__}"


def _arguments(item: pytest.Item) -> tuple[Any, ...]:
    return inspect.getclosurevars(_parameterized(item)).nonlocals["p"].args


def _parameterized(item: pytest.Item) -> Any:
    """Return the function that `parameterized.expand` has made for a case."""
    assert isinstance(item, pytest.Function)
    return item.function


def covering(cases: Sequence[Sequence[Any]], given: Iterable[int] = ()) -> set[int]:
    """Return the indices of few cases in which each pair of values meets that meets in any.

    Args:
        cases: tuples of the same length. What is different in each of them is a label, and makes no pairs.
        given: indices of cases that are among them in any case.
    """
    values = [[_key(value) for value in case] for case in cases]
    columns = [column for column in zip(*values, strict=True) if len(set(column)) < len(column)]
    if not columns:
        return set(range(len(cases)))
    size = min(2, len(columns))
    pairs = [set(itertools.combinations(enumerate(row), size)) for row in zip(*columns, strict=True)]
    chosen = set(given)
    missing = set().union(*pairs).difference(*(pairs[index] for index in chosen))
    while missing:
        # The first of those that add most: the same in each process that collects.
        best = max(range(len(cases)), key=lambda index: (len(pairs[index] & missing), -index))
        chosen.add(best)
        missing -= pairs[best]
    return chosen


def _key(value: Any) -> Any:
    """Return what tells a value from others: itself if it can be told so, else how it is shown."""
    try:
        hash(value)
    except TypeError:
        return f"{type(value).__name__} {value!r}"
    return type(value), value
