"""Recorded training steps of the Keras wrappers: scale and counters exactly, weights and slots nearly.

Weights and slots are compared to the last bit with those of tf_keras' own wrapper, on the same processor.
"""

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
    MODES,
    NATIVE,
    OURS,
    Subject,
    Trace,
    error_of,
    spread_of,
)

CASES = replay.load("C_keras_lso")
# From 2.5 on, without aggregation, only the first replica's gradients were tested: an infinity on another replica was
# applied there, and the replicas' weights differed from then on.
NOT_AGGREGATED = "C.strategy.sgd_no_aggregate"
# In eager mode a legacy optimizer had no slots until the first step that was not skipped; mpls creates them all at the
# first step, as a graph does.
LATE_SLOTS = {
    "C.x.adadelta.dynamic": ("accum_grad", "accum_var"),
    "C.x.adam.clipnorm": ("m", "v"),
    "C.x.adam.embed_clipnorm": ("m", "v"),
}

# Steps with gradients of an unscaled loss are part of the record.
pytestmark = pytest.mark.filterwarnings("ignore::mpls.errors.MplsWarning")


def run_of(case_id: str, subject: Subject, mode: str) -> str:
    """Return the name of the recorded run that a replay must do as."""
    return f"{'tf24:lso2' if case_id == NOT_AGGREGATED else subject.release}:{mode}"


def replays(subjects: tuple[Subject, ...], modes: tuple[str, ...] = tuple(MODES)) -> list[tuple[str, Subject, str]]:
    """Return what was recorded in these modes and concerns these subjects."""
    return [
        (case_id, subject, mode)
        for case_id, case in CASES.items()
        for subject in subjects
        for mode in modes
        if replay.recorded_as(case, run_of(case_id, subject, mode)) is not None
    ]


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


def recorded_beside(case_id: str, subject: Subject, mode: str, of: str) -> Any:
    """Return what was recorded beside the states; None of replicas, and where the original raised an error at once."""
    case, run = CASES[case_id], run_of(case_id, subject, mode)
    found = replay.recorded_as(case, run, of)
    assert (found is None) == (mode.startswith("strategy") or replay.is_error(replay.recorded_as(case, run))), (run, of)
    return found


def has_late_slots(case_id: str, subject: Subject, mode: str) -> bool:
    return case_id in LATE_SLOTS and subject.is_legacy and mode == "eager"


def without_scope(names: list[str]) -> list[str]:
    """Return names of variables without the conditional in which an optimizer first touched them."""
    return [re.sub(r"\b(cond|StatefulPartitionedCall)\w*/", "", name) for name in names]


def sample(case_id: str, subject: Subject, mode: str) -> tuple[str, tuple[str, str]]:
    """Return what some of the default run's traces must have: each kind of case, and each subject in each mode."""
    return case_id.split(".")[1], (subject.name, mode)


class RecordedTracesTest(unittest.TestCase):
    @replay.expand(replays(OURS))
    @pytest.mark.default_run("each value", by=sample)
    def test_it_does_as_recorded(self, case_id: str, subject: Subject, mode: str) -> None:
        case, run, trace = CASES[case_id], run_of(case_id, subject, mode), trace_of(case_id, subject, mode)
        # The last bits of a square root or a sum depend on the processor; below they are compared with tf_keras' own.
        assert_states(states_of(trace), replay.recorded_as(case, run), 1e-6 + spread_of(case, run), ulps=1)
        recorded_slots = recorded_beside(case_id, subject, mode, "outcomes_slots")
        if recorded_slots is None:
            return
        assert isinstance(trace, Trace), trace
        slots = list(trace.slots or ())
        if has_late_slots(case_id, subject, mode):
            assert recorded_slots[0] == {}
            assert {key.partition("/")[2] for key in slots[0]} == set(LATE_SLOTS[case_id])
            slots[0] = {}
        replay.assert_close(slots, recorded_slots, "slots", rtol=1e-6 + spread_of(case, run, "outcomes_slots"), ulps=1)

    @parameterized.expand(
        [entry for entry in replays(OURS, ("eager",)) if "multiplier" not in CASES[entry[0]]["spec"]["loss_scale"]],
        name_func=replay.named,
    )
    @pytest.mark.default_run("each value", by=sample)
    def test_bits_are_those_of_tf_keras_own_wrapper(self, case_id: str, subject: Subject, mode: str) -> None:
        (native,) = (other for other in NATIVE if other.family == subject.family)
        ours, theirs = trace_of(case_id, subject, mode), trace_of(case_id, native, mode)
        if replay.is_error(theirs.states[0]):
            # The types of what is raised are compared with the record.
            return
        np.testing.assert_equal(ours.states, theirs.states)
        first = int(has_late_slots(case_id, subject, mode))
        np.testing.assert_equal(ours.slots[first:], theirs.slots[first:])

    @replay.expand(replays(OURS))
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
        for key in ("weights", "variables"):
            if key not in recorded or replay.is_error(recorded[key]):
                continue
            names, expected = without_scope(trace.meta[key]), without_scope(recorded[key])
            assert names == expected, key
        if mode == "graph":
            prefixes = ("current_loss_scale", "good_steps")
            state, expected = (
                [name for name in names if name.startswith(prefixes)]
                for names in (trace.meta["global_variables"], recorded["global_variables"])
            )
            assert state == expected
