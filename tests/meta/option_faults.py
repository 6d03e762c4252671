"""Faults in the options of mpls, and the conformance tests of options that must find each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import mpls.core.counters
import mpls.core.dynamic
import mpls.core.rule

from .faults import KERAS, KERAS_3, V1, Fault, Patch, changed_rule

SUITE = "test_options"
CELLS = (V1, *KERAS, KERAS_3)

_note = mpls.core.counters.Overflows.note


def _replaced(target: Any, name: str, replacement: Any) -> Callable[[], list[Patch]]:
    return lambda: [(target, name, replacement)]


def _forget_no_bad_step() -> list[Patch]:
    def count(self: Any, good_steps: Any) -> Any:
        return good_steps.assign_add(1)

    rule = changed_rule(shrink_steps_in_a_row=lambda _: False)
    return [*rule(), (mpls.core.dynamic.DynamicLossScale, "_count", count)]


def _skip_silently(self: Any, names: Any, grads: Any, known: Any, scale: Any, floor: Any) -> Any:
    return tf.no_op()


def _count_on_in_a_row(self: Any) -> Any:
    return self.counter("applied_steps").assign_add(1)


def _blame_all(self: Any, names: Any, are_finite: Any, step: Any) -> Any:
    return _note(self, names, tf.zeros_like(are_finite), step)


OPTION_FAULTS = tuple(
    Fault(name, patches, found_by, CELLS, SUITE)
    for name, patches, found_by in (
        ("the lower bound is ignored", changed_rule(min_scale=lambda _: 2.0**-100), ("low_floor_to_it",)),
        ("the upper bound is ignored", changed_rule(max_scale=lambda _: 2.0**100), ("ceiling_to_it_and_down",)),
        ("the scale shrinks as it grows", changed_rule(shrink_ratio=lambda _: 0.125), ("factors_up_and_down",)),
        (
            "the first overflow shrinks the scale",
            changed_rule(shrink_steps=lambda _: 1),
            ("hysteresis_only_growth_resets", "in_a_row_finite_steps_reset"),
        ),
        ("overflows need not be in a row", _forget_no_bad_step, ("in_a_row_finite_steps_reset",)),
        (
            "the search does not end",
            _replaced(mpls.core.rule, "_after_search", lambda search_steps, rule, select: search_steps),
            ("auto_search_that_ends",),
        ),
        (
            "skipped steps are not counted",
            _replaced(mpls.core.counters.StepRecord, "skipped", _skip_silently),
            ("counted_several_in_a_row", "tracked_one", "gives_up_too_many"),
        ),
        (
            "an applied step does not end a row of skipped ones",
            _replaced(mpls.core.counters.StepRecord, "applied", _count_on_in_a_row),
            ("counted_several_in_a_row",),
        ),
        (
            "each variable is blamed",
            _replaced(mpls.core.counters.Overflows, "note", _blame_all),
            ("tracked_one",),
        ),
        (
            "nobody gives up",
            _replaced(mpls.core.counters.StepRecord, "check_skips", lambda self, session: None),
            ("gives_up_too_many",),
        ),
        (
            "clipping hides overflows",
            _replaced(mpls.core.counters.UnscaledGradients, "flags", lambda self, grads, variables: []),
            ("unscaled_is_checked_hidden",),
        ),
    )
)
