"""Process-wide setting of every test: CPU only, two logical devices, quiet native logs."""

from __future__ import annotations

import gc
import inspect
import itertools
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# The recorded numbers were computed without oneDNN's reordered sums.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import pytest

from tests import known_differences
from tests.processes import python_path


def split_cpu() -> None:
    """Split the CPU in two logical devices, before the first op fixes the device list."""
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process before any test is collected."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        # It hands tests out to other processes; without TensorFlow, these start sooner.
        return
    # Processes that tests start, and that are given no environment of their own.
    os.environ["PYTHONPATH"] = python_path()
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None or not capture.is_globally_capturing():
        split_cpu()
        return
    # What native libraries print while they are loaded is no part of the report.
    capture.resume_global_capture()
    split_cpu()
    capture.suspend_global_capture()
    capture.read_global_capture()


def pytest_collection_finish() -> None:
    """Leave what imports have made, which lives to the end, out of the collections of garbage."""
    gc.collect()
    gc.freeze()
    # Each full collection takes a quarter of a second, and there would be hundreds.
    gc.set_threshold(*gc.get_threshold()[:2], 30)


def pytest_sessionfinish() -> None:
    """Let pytest's last collections, of which there are five, look at nothing but what one of them leaves."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _ends_of_threads_are_seen_at_once() -> Iterator[None]:
    """Wait for the threads of a `MirroredStrategy`, which looks once a second whether they have ended."""
    import tensorflow as tf

    join = tf.train.Coordinator.join

    def join_soon(self: Any, threads: Iterable[threading.Thread] | None = None, **settings: Any) -> None:
        threads = list(threads or ())
        for thread in threads:
            thread.join(0.1)
        join(self, threads, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.train.Coordinator, "join", join_soon)
        yield


@pytest.fixture(autouse=True)
def _collective_keys_of_its_own() -> None:
    """Keep the strategies of one test from taking part in collective ops of another's, in the same process."""
    import tensorflow as tf

    tf.distribute.MirroredStrategy._collective_key_base += 10_007


@pytest.fixture(scope="module", autouse=True)
def _only_what_is_new_is_collected() -> None:
    """Leave what other files' tests hold, most of it graphs, out of collections, which would take seconds each."""
    gc.collect()
    gc.freeze()


_ASKED_FOR = {"full", "long", "matrix", "programs"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip GPU tests where there is no GPU, and leave out those that are run only when they are asked for."""
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a GPU, and TensorFlow sees none"))
    if os.environ.get("TF_USE_LEGACY_KERAS") == "1":
        known_differences.mark(items, known_differences.WITH_KERAS_2)
    if metadata.version("keras").startswith("3.6."):
        known_differences.mark(items, known_differences.WITH_OLDEST_KERAS)
    _mark_all_but_some(items, is_chosen=bool(config.getoption("-m")))
    # An expression says by itself what runs.
    if config.getoption("-m"):
        return
    # A test that has been named runs, whatever it costs.
    named = [argument.partition("[")[0] for argument in config.args if "::" in argument]
    is_left_out = [bool(_ASKED_FOR & item.keywords.keys()) and not _is_named(item, named) for item in items]
    config.hook.pytest_deselected(items=list(itertools.compress(items, is_left_out)))
    items[:] = [item for item, is_out in zip(items, is_left_out, strict=True) if not is_out]


def _is_named(item: pytest.Item, named: list[str]) -> bool:
    return any(item.nodeid.startswith(each.removeprefix("./")) for each in named)


# What the default run has of a parameterized test: how many of its values are to meet in the cases that it has.
_MEETING = {"one case": 0, "each value": 1, "each pair": 2}


def _mark_all_but_some(items: list[pytest.Item], is_chosen: bool) -> None:
    """Mark as `matrix`, or what the mark says, the cases of tests that the mark `default_run` leaves out.

    Those stay in which each pair of values meets, or each value, or one case: by the name of the test, such that the
    tests of a file hold different families. Of the others, those are marked as `full` too that no pair of values needs.

    Args:
        items: the tests.
        is_chosen: whether an expression says what runs, which may name `full`.
    """
    products: dict[str, dict[tuple[Any, ...], list[pytest.Item]]] = {}
    given: dict[str, set[tuple[Any, ...]]] = {}
    marks: dict[str, pytest.Mark] = {}
    for item in items:
        mark = item.get_closest_marker("default_run")
        if mark is None:
            continue
        product, values = _product_and_values(item, mark.kwargs.get("by"), mark.kwargs.get("of"))
        is_always_run = mark.kwargs.get("always", _never)(item)
        marks[product] = mark
        if values is not None:
            products.setdefault(product, {}).setdefault(values, []).append(item)
            given.setdefault(product, set()).update([values] if is_always_run else [])
        elif not is_always_run:
            item.add_marker(_rest_of(mark))
            item.add_marker("full")
    for product, cases in products.items():
        (has,) = marks[product].args
        size = _MEETING[has]
        chosen = covering(list(cases), size, given[product] if size else {_one_of(product, list(cases))})
        # Finding them takes a while.
        meets = _meeting_in_pairs(cases, chosen, marks[product]) if is_chosen and size < 2 else set(cases)
        _mark_cases(cases, chosen, meets, marks[product])


def _meeting_in_pairs(cases: Iterable[Any], chosen: set[Any], mark: pytest.Mark) -> set[Any]:
    """Return the cases in which each pair of values meets; of a module's tests, a tuple counts as several values."""
    if "of" not in mark.kwargs:
        return covering(list(cases), 2, chosen)
    flat = {
        case: tuple(itertools.chain(*(each if isinstance(each, tuple) else (each,) for each in case))) for case in cases
    }
    case_of = {values: case for case, values in flat.items()}
    return {case_of[values] for values in covering(list(case_of), 2, [flat[case] for case in chosen])}


def _rest_of(mark: pytest.Mark) -> str:
    """Return what the cases are marked as that the default run leaves out."""
    return str(mark.kwargs.get("rest", "matrix"))


def _one_of(test: str, cases: Sequence[Any]) -> Any:
    """Return the same case for a test's name in each process, and another for other names."""
    return cases[zlib.crc32(test.encode()) % len(cases)]


def _mark_cases(
    cases: dict[tuple[Any, ...], list[pytest.Item]],
    chosen: set[tuple[Any, ...]],
    meets: set[tuple[Any, ...]],
    mark: pytest.Mark,
) -> None:
    """Mark those that are not chosen, and as `full` those that no pair of values needs."""
    # Tests of a module that have the same values share what they build; of a test's cases, one is enough.
    is_shared = "of" in mark.kwargs
    for values, alike in cases.items():
        for item in alike if values not in chosen else [] if is_shared else alike[1:]:
            item.add_marker(_rest_of(mark))
            if values not in meets or (item is not alike[0] and not is_shared):
                item.add_marker("full")


def _never(item: pytest.Item) -> bool:
    return False


def _product_and_values(
    item: pytest.Item,
    by: Callable[..., tuple[Any, ...]] | None,
    of: Callable[[pytest.Item], tuple[Any, ...] | None] | None,
) -> tuple[str, tuple[Any, ...] | None]:
    """Return the name of the cross product that a test is of, and the values that meet in it, None if it has none.

    Args:
        item: the test.
        by: gets the arguments of a test's case, and returns the values; else those are the values.
        of: gets a test, and returns the values; the tests of a module are one product then. None is for tests that
            differ from others in nothing that a value says, which run in full alone.
    """
    if of is not None:
        return item.nodeid.partition("::")[0], of(item)
    test, arguments = _test_and_arguments(item)
    return test, tuple(map(_hashable, arguments if by is None else by(*arguments)))


def _test_and_arguments(item: pytest.Item) -> tuple[str, tuple[Any, ...]]:
    """Return the name of the test of which this is one case, and the case's arguments."""
    assert isinstance(item, pytest.Function)
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        # `pytest.mark.parametrize`.
        return item.nodeid.partition("[")[0], tuple(callspec.params.values())
    # `parameterized.expand`.
    # What the function that it has made calls: `func`, with the arguments `p`.
    case = inspect.getclosurevars(item.function).nonlocals
    return f"{item.nodeid.rpartition('::')[0]}::{case['func'].__name__}", case["p"].args


def _hashable(value: Any) -> Any:
    """Return what tells a value from others: itself if it can be told so, else how it is shown."""
    try:
        hash(value)
    except TypeError:
        return f"{type(value).__name__} {value!r}"
    return type(value), value


def covering(
    cases: Sequence[tuple[Any, ...]], size: int = 2, given: Iterable[tuple[Any, ...]] = ()
) -> set[tuple[Any, ...]]:
    """Return few of some cases, in which each pair of values meets that meets in any.

    Args:
        cases: tuples of the same length. A value that is different in each of them is a label, and makes no pairs.
        size: how many values are to meet: 2 for pairs; 0 for what is given alone.
        given: those that are among them in any case.
    """
    if size == 0:
        return set(given)
    columns = [index for index, column in enumerate(zip(*cases, strict=True)) if len(set(column)) < len(column)]
    if not columns:
        return set(cases)
    size = min(size, len(columns))
    pairs = {case: set(itertools.combinations([(index, case[index]) for index in columns], size)) for case in cases}
    chosen = set(given)
    missing = set().union(*pairs.values()).difference(*(pairs[case] for case in chosen))
    while missing:
        # The first of those that add most: the same in each process that collects.
        best = max(cases, key=lambda case: len(pairs[case] & missing))
        chosen.add(best)
        missing -= pairs[best]
    return chosen
