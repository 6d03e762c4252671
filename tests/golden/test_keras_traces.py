"""Recorded training steps of the Keras wrappers: scale and counters exactly, weights and slots bit by bit."""

from __future__ import annotations

import functools
import re
import unittest
from typing import Any

import numpy as np
import pytest
from parameterized import parameterized

from . import replay
from .keras_replay import (
    DIFFERENCES,
    EXPERIMENTAL_RELEASE,
    MODES,
    NATIVE,
    OURS,
    Difference,
    Subject,
    Trace,
    error_of,
    recorded_as,
    spread_of,
)

CASES = replay.load("C_keras_lso")
HERE = tuple(difference for difference in DIFFERENCES if difference.case in CASES)

# Steps with gradients of an unscaled loss are part of the record.
pytestmark = pytest.mark.filterwarnings("ignore::mpls.errors.MplsWarning")


def run_of(case_id: str, subject: Subject, mode: str) -> str:
    """Return the name of the recorded run that a replay must do as."""
    release = subject.release
    if subject.is_experimental and "multiplier" in CASES[case_id]["spec"]["loss_scale"]:
        # Only the experimental class ever had a multiplier; over new optimizers it must refuse it all the same.
        release = EXPERIMENTAL_RELEASE
    for difference in HERE:
        if difference.follows and difference.case == case_id and subject.name in difference.subjects:
            release = difference.follows
    return f"{release}:{mode}"


def modes_of(subject: Subject) -> tuple[str, ...]:
    if subject.is_legacy:
        return tuple(MODES)
    if subject.is_experimental:
        # No release had it; the other three subjects cover the other modes, with the same lines.
        return ("eager", "strategy:eager")
    return tuple(mode for mode in MODES if mode != "graph")


def replays(subjects: tuple[Subject, ...], modes: tuple[str, ...] = tuple(MODES)) -> list[tuple[str, Subject, str]]:
    """Return what was recorded in these modes and concerns these subjects."""
    return [
        (case_id, subject, mode)
        for case_id, case in CASES.items()
        for subject in subjects
        for mode in modes
        if mode in modes_of(subject) and recorded_as(case, run_of(case_id, subject, mode)) is not None
    ]


def declared(case_id: str, subject: Subject, mode: str, of: str) -> list[Difference]:
    return [
        difference
        for difference in HERE
        if (difference.case, difference.of) == (case_id, of)
        and subject.name in difference.subjects
        and mode in difference.modes
    ]


def named(function: Any, index: str, entry: Any) -> str:
    case_id, subject, *mode = entry.args
    return parameterized.to_safe_name("_".join([function.__name__, case_id, subject.name, *mode]))


@functools.cache
def trace_of(case_id: str, subject: Subject, mode: str) -> Any:
    """Return the trace, or the error that kept it from starting."""
    try:
        return MODES[mode](subject, CASES[case_id]["spec"])
    except Exception as error:  # A recorded outcome too, compared by its type.
        return error_of(error)


def states_of(trace: Any) -> Any:
    return trace.states if isinstance(trace, Trace) else trace


def assert_states(actual: Any, expected: Any, rtol: float, ulps: int = 0) -> None:
    """Require the state after every step: scale and counters exactly, variables to `rtol` or `ulps`; errors by type."""
    if replay.is_error(expected):
        assert replay.is_error(actual), f"no {expected['error']} but {actual}"
        assert expected["error"] in actual["error"], f"{actual} is no {expected['error']}"
        return
    assert not replay.is_error(actual), actual
    assert len(actual) == len(expected)
    for index, (state, want) in enumerate(zip(actual, expected, strict=True)):
        if replay.is_error(state) or replay.is_error(want):
            assert_states(state, want, rtol, ulps)
            continue
        for counter in ("scale", "good", "iter"):
            replay.assert_exact(state[counter], want[counter], f"step {index}: {counter}")
        replay.assert_close(state["vars"], want["vars"], f"step {index}: ", rtol=rtol, ulps=ulps)


@functools.cache
def processor_gives_recorded_bits(case_id: str, family: str, mode: str) -> bool:
    """Return whether tf_keras' own wrapper computes the recorded bits on this processor.

    The last bits of a square root or a sum depend on the processor. Where it gives others than it gave to the
    original then, mpls has to give those that it gives to the original now.
    """
    (native,) = (subject for subject in NATIVE if subject.family == family)
    mode = "strategy:eager" if mode.startswith("strategy") else "eager"
    case, run = CASES[case_id], run_of(case_id, native, mode)
    if recorded_as(case, run) is None:
        return True
    trace = trace_of(case_id, native, mode)
    try:
        assert_states(states_of(trace), recorded_as(case, run), rtol=0.0)
        if recorded_as(case, run, "outcomes_slots") is not None:
            replay.assert_exact(trace.slots, recorded_as(case, run, "outcomes_slots"))
    except AssertionError:
        return False
    return True


def recorded_beside(case_id: str, subject: Subject, mode: str, of: str) -> Any:
    """Return what was recorded beside the states; None of replicas, and where the original raised an error at once."""
    case, run = CASES[case_id], run_of(case_id, subject, mode)
    found = recorded_as(case, run, of)
    assert (found is None) == (mode.startswith("strategy") or replay.is_error(recorded_as(case, run))), (run, of)
    return found


def check_trace(case_id: str, subject: Subject, mode: str) -> None:
    case, run, trace = CASES[case_id], run_of(case_id, subject, mode), trace_of(case_id, subject, mode)
    exactly = processor_gives_recorded_bits(case_id, subject.family, mode)
    rtol = 0.0 if exactly else 1e-6 + spread_of(case, run)
    # TensorFlow optimizes the branch that applies as a function of its own, and so in another order.
    ulps = int(mode == "function")
    assert_states(states_of(trace), recorded_as(case, run), rtol, ulps)
    recorded_slots = recorded_beside(case_id, subject, mode, "outcomes_slots")
    if recorded_slots is None:
        return
    assert isinstance(trace, Trace), trace
    slots = list(trace.slots or ())
    for difference in declared(case_id, subject, mode, "outcomes_slots"):
        index = int(difference.path)
        names = {key.partition("/")[2] for key in slots[index]}
        assert names == set(difference.ours), names
        slots[index] = difference.recorded
    rtol = 0.0 if exactly else 1e-6 + spread_of(case, run, "outcomes_slots")
    replay.assert_close(slots, recorded_slots, "slots", rtol=rtol, ulps=ulps)


def without_scope(names: list[str]) -> list[str]:
    """Return names of variables without the conditional in which an optimizer first touched them."""
    return [re.sub(r"\b(cond|StatefulPartitionedCall)\w*/", "", name) for name in names]


def sample(case_id: str, subject: Subject, mode: str) -> tuple[str, tuple[str, str]]:
    """Return what some of the default run's traces must have: each kind of case, and each subject in each mode."""
    return case_id.split(".")[1], (subject.name, mode)


class RecordedTracesTest(unittest.TestCase):
    @parameterized.expand(replays(OURS), name_func=named)
    @pytest.mark.default_run("each value", by=sample)
    def test_it_does_as_recorded(self, case_id: str, subject: Subject, mode: str) -> None:
        check_trace(case_id, subject, mode)

    @parameterized.expand(
        [entry for entry in replays(OURS, ("eager",)) if "multiplier" not in CASES[entry[0]]["spec"]["loss_scale"]],
        name_func=named,
    )
    @pytest.mark.matrix
    def test_bits_are_those_of_tf_keras_own_wrapper(self, case_id: str, subject: Subject, mode: str) -> None:
        (native,) = (other for other in NATIVE if other.family == subject.family)
        ours, theirs = trace_of(case_id, subject, mode), trace_of(case_id, native, mode)
        if replay.is_error(theirs.states[0]):
            # The types of what is raised are compared with the record.
            return
        np.testing.assert_equal(ours.states, theirs.states)
        for index, (mine, yours) in enumerate(zip(ours.slots, theirs.slots, strict=True)):
            different = declared(case_id, subject, mode, "outcomes_slots")
            if str(index) not in {difference.path for difference in different}:
                np.testing.assert_equal(mine, yours, err_msg=f"step {index}")

    @parameterized.expand(replays(OURS), name_func=named)
    @pytest.mark.default_run("each value", by=sample)
    def test_names_and_types_are_as_recorded(self, case_id: str, subject: Subject, mode: str) -> None:
        recorded = recorded_beside(case_id, subject, mode, "metas")
        trace = trace_of(case_id, subject, mode)
        if recorded is None:
            return
        assert isinstance(trace, Trace), trace
        for key in ("grads", "slot_names", "train"):
            if key in recorded:
                assert trace.meta[key] == recorded[key][: len(trace.meta[key] or ())], key
        differences = {difference.path: difference for difference in declared(case_id, subject, mode, "metas")}
        for key in ("weights", "variables"):
            if key not in recorded or replay.is_error(recorded[key]):
                continue
            names, expected = without_scope(trace.meta[key]), without_scope(recorded[key])
            if f"{key}|0" in differences:
                assert names[0] == differences[f"{key}|0"].ours
                names[0] = differences[f"{key}|0"].recorded
            assert names == expected, key
        if mode == "graph":
            prefixes = ("current_loss_scale", "good_steps")
            state, expected = (
                [name for name in names if name.startswith(prefixes)]
                for names in (trace.meta["global_variables"], recorded["global_variables"])
            )
            assert state == expected


class CompletenessTest(unittest.TestCase):
    def test_every_run_of_the_releases_to_follow_is_replayed(self) -> None:
        releases = {subject.release for subject in OURS}
        recorded = {
            (case_id, run)
            for case_id, case in CASES.items()
            for outcome in case["outcomes"]
            for run in outcome["runs"]
            if ":".join(run.split(":")[:2]) in releases
        }
        replayed = {(case_id, f"{subject.release}:{mode}") for case_id, subject, mode in replays(OURS)}
        assert recorded <= replayed
