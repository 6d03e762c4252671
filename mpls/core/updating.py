"""How the variables of a dynamic loss scale go from one step to the next."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.adjusting import Adjusting
from mpls.core.fast import choices
from mpls.core.fast.branches import group, one_of, select
from mpls.core.rule import (
    AccumulatingState,
    ScaleState,
    SearchingAccumulatingState,
    SearchingState,
    growth_period,
    has_bounds,
    is_within,
    next_state,
    only_counts,
)
from mpls.formats.wrapper_state import BAD_STEPS, SEARCH_STEPS

__all__ = ["Updating"]


class Updating(Adjusting):
    """Mixin for dynamic loss scales: applies the rule to the variables."""

    def _write_next(self, grads_finite: Any) -> Any:
        """Update the state; in a graph, return the op that does it; `grads_finite` is a tensor, or a bool if known."""
        good_steps = self._num_good_steps
        growth_steps = self._growth_steps(good_steps.dtype)
        # Read as late as possible: another worker may have changed it while gradients were computed.
        with tf.control_dependencies([grads_finite] if tf.is_tensor(grads_finite) else []):
            steps_before = tf.convert_to_tensor(good_steps)
            search_steps = self._search_steps(good_steps.dtype) if self._searches else None

        def write_all() -> Any:
            variables = self._state_variables(good_steps)
            known = {"good_steps": steps_before, "search_steps": search_steps}
            before = type(variables)(
                *(
                    tf.convert_to_tensor(each) if known.get(name) is None else known[name]
                    for name, each in variables._asdict().items()
                )
            )
            after = next_state(before, grads_finite, self._rule(good_steps.dtype), select)
            if isinstance(after, SearchingState | SearchingAccumulatingState):
                after = after._replace(search_steps=tf.cast(after.search_steps, tf.int64))
            return group(*(variable.assign(value) for variable, value in zip(variables, after, strict=True)))

        if grads_finite is False or choices.uses_plain_ways():
            return write_all()
        if search_steps is not None:
            growth_steps = growth_period(search_steps, growth_steps, select)
        counts = only_counts(steps_before, growth_steps)
        if grads_finite is not True:
            counts &= grads_finite
        bounds = self._bounds()
        if has_bounds(bounds):
            # A checkpoint may bring a scale that is outside of them, at any time.
            counts &= is_within(tf.convert_to_tensor(self._current_loss_scale), bounds)
        # Nearly every step only increments the count. It must be one op for parameter servers, whose workers do not
        # wait for each other: writing back the scale that was read could undo another worker's decrease.
        return one_of(counts, lambda: self._count(good_steps), write_all)

    def _search_steps(self, dtype: Any) -> Any:
        return tf.cast(tf.convert_to_tensor(self._created_weight(SEARCH_STEPS)), dtype)

    def _state_variables(self, good_steps: Any) -> Any:
        scale = self._current_loss_scale
        search_steps = self._created_weight(SEARCH_STEPS) if self._searches else None
        if not self._counts_bad_steps:
            return (
                ScaleState(scale, good_steps)
                if search_steps is None
                else SearchingState(scale, good_steps, search_steps)
            )
        bad_steps = self._created_weight(BAD_STEPS)
        if search_steps is None:
            return AccumulatingState(scale, good_steps, bad_steps)
        return SearchingAccumulatingState(scale, good_steps, bad_steps, search_steps)

    def _count(self, good_steps: Any) -> Any:
        """Count a finite step; with `consecutive_hysteresis`, also reset the count of non-finite steps."""
        counted = good_steps.assign_add(1)
        if not self._counts_bad_steps or not self._scale_settings.consecutive_hysteresis:
            return counted
        return group(counted, self._created_weight(BAD_STEPS).assign(0))
