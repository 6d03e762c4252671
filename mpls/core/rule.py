"""The update rule of dynamic loss scaling: the only code in the package that makes a scale grow or shrink.

A scale also changes where users set it: by assignment, by `set_scale`, from a checkpoint, or by `load_state_dict`; and
`configure` moves it between new bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from mpls.formats.wrapper_state import (
    DEFAULT_GROWTH_STEPS,
    DEFAULT_MAX_SCALE,
    DEFAULT_MIN_SCALE,
    DEFAULT_MULTIPLIER,
    FLOAT32_MAX,
)


@dataclass(frozen=True)
class UpdateRule:
    """The settings in which the generations of dynamic loss scaling differ.

    Attributes:
        growth_steps: consecutive finite steps after which the scale grows; 1 or less means every step.
        multiplier: factor by which the scale grows, and by which a shrinking one is divided.
        min_scale: floor that a shrinking scale does not pass.
        max_scale: ceiling, at which a growing scale stops. Without a ceiling, which is the largest float32, the scale
            stays as it is if the product leaves float32.
        shrink_ratio: factor that a shrinking scale is multiplied by, in place of the division; None to divide.
        shrink_steps: non-finite steps after which the scale shrinks, if the state has `bad_steps`.
        shrink_steps_in_a_row: whether these steps must be in a row, so that a finite step resets their count; if not,
            of finite steps only growth does.
    """

    growth_steps: int = DEFAULT_GROWTH_STEPS
    multiplier: float = DEFAULT_MULTIPLIER
    # Tensors where they can be adjusted.
    min_scale: Any = DEFAULT_MIN_SCALE
    max_scale: Any = DEFAULT_MAX_SCALE
    shrink_ratio: float | None = None
    shrink_steps: int = 1
    shrink_steps_in_a_row: bool = False


class ScaleState(NamedTuple):
    """The state of a dynamic loss scale.

    Attributes:
        scale: scalar float32, the current loss scale.
        good_steps: scalar integer, finite steps in a row since the scale last changed or was due to grow.
        bad_steps: scalar integer, non-finite steps since then, in a row or not; None where the first shrinks the scale.
        search_steps: scalar integer, finite steps in a row after which a scale grows that looks for the highest one
            which does not overflow; `SEARCH_OVER` after the search; None for a scale that does not search.
    """

    scale: Any
    good_steps: Any
    bad_steps: Any = None
    search_steps: Any = None


# One bad batch causes an overflow too, and so may end the first search too early. So the scale is tried again after 32
# finite steps in a row, then after 32 times as many, and so on, as long as that is less than the growth steps.
SEARCH_FACTOR = 32
SEARCH_OVER = 2**30


def only_counts(good_steps: Any, growth_steps: Any) -> Any:
    """Return whether the next finite step leaves the scale as it is; if not, the scale is due to grow.

    `next_state` decides by it, and so does `DynamicLossScale`, which then writes only counts: it increments
    `good_steps`, and with `consecutive_hysteresis` resets `bad_steps`.
    """
    return good_steps < growth_steps - 1


def growth_period(search_steps: Any, growth_steps: Any, select: Callable[[Any, Any, Any], Any]) -> Any:
    """Return the finite steps in a row after which a scale that searches grows.

    Args:
        search_steps: as in the state.
        growth_steps: after which it grows when the search is over.
        select: as in `next_state`.
    """
    return select(search_steps < growth_steps, search_steps, growth_steps)


def next_state(
    state: ScaleState, grads_finite: Any, rule: UpdateRule, select: Callable[[Any, Any, Any], Any]
) -> ScaleState:
    """Return the state after a step.

    A finite step increments the count. The `growth_steps`-th finite step in a row resets the count and multiplies the
    scale, up to `max_scale`; if that is the largest float32, an infinite product leaves the scale as it is. A
    non-finite step resets the count and shrinks the scale, but not below `min_scale`; if the state counts such steps,
    only the `shrink_steps`-th shrinks it. A scale that is already infinite or NaN, as in a damaged checkpoint, is back
    in range once it has shrunk.

    A scale outside of bounds that differ from the originals', as a checkpoint may bring it, is moved to the nearest one
    by each step. The originals' bounds move no scale: one below 1 stays until it shrinks.

    A state that searches grows after `search_steps` finite steps instead, as long as these are fewer. Each step that
    shrinks the scale makes them `SEARCH_FACTOR` times as many; a ceiling that is reached ends the search.

    The function has no branch on state, so it takes Python and NumPy numbers as well as tensors, for which `select`
    builds the same ops in eager mode, in a v1 graph, in a `tf.function` and under XLA.

    Args:
        state: the state before the step.
        grads_finite: scalar boolean, whether every gradient of the step was finite; for a Python bool, only that case
            is computed.
        rule: the settings.
        select: `select(condition, if_true, if_false)` for the kind of number that the state holds.

    Returns:
        The state after the step, with the fields that `state` has.
    """
    if isinstance(grads_finite, bool):
        return (_after_finite if grads_finite else _after_non_finite)(state, rule, select)
    cases = zip(_after_finite(state, rule, select), _after_non_finite(state, rule, select), strict=True)
    return ScaleState(*(None if finite is None else select(grads_finite, finite, other) for finite, other in cases))


def _after_finite(state: ScaleState, rule: UpdateRule, select: Callable[[Any, Any, Any], Any]) -> ScaleState:
    growth_steps = rule.growth_steps
    if state.search_steps is not None:
        growth_steps = growth_period(state.search_steps, growth_steps, select)
    not_due = only_counts(state.good_steps, growth_steps)
    scale = _moved(state.scale, rule, select)
    grown = _grown(scale, rule, select)
    after = state._replace(scale=select(not_due, scale, grown), good_steps=select(not_due, state.good_steps + 1, 0))
    if state.bad_steps is not None:
        after = after._replace(bad_steps=0 if rule.shrink_steps_in_a_row else select(not_due, state.bad_steps, 0))
    if state.search_steps is not None:
        ends = select(grown > scale, state.search_steps, SEARCH_OVER)
        after = after._replace(search_steps=select(not_due, state.search_steps, ends))
    return after


def _has_ceiling(rule: UpdateRule) -> bool:
    """Return whether the ceiling is, or may be, another than the originals'; a tensor may be."""
    return not isinstance(rule.max_scale, float) or rule.max_scale != FLOAT32_MAX


def _has_floor(rule: UpdateRule) -> bool:
    return not isinstance(rule.min_scale, float) or rule.min_scale != DEFAULT_MIN_SCALE


def has_bounds(rule: UpdateRule) -> bool:
    """Return whether a step may have to move the scale between bounds."""
    return _has_ceiling(rule) or _has_floor(rule)


def is_within(scale: Any, rule: UpdateRule) -> Any:
    """Return whether the next step need not move the scale between bounds.

    Args:
        scale: as in the state.
        rule: settings that have bounds.
    """
    is_low_enough = scale <= rule.max_scale
    if not _has_floor(rule):
        return is_low_enough
    floor = rule.min_scale
    is_high_enough = scale >= floor
    if not isinstance(floor, float):
        # Not `==`, which programs of TF 1 may have turned into a comparison of identities.
        is_high_enough |= (floor >= DEFAULT_MIN_SCALE) & (floor <= DEFAULT_MIN_SCALE)
    return is_low_enough & is_high_enough


def _moved(scale: Any, rule: UpdateRule, select: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a scale, moved to the nearest bound if it is outside of bounds that differ from the originals'."""
    if not has_bounds(rule):
        return scale
    return select(is_within(scale, rule), scale, _bounded(scale, rule, select))


def _bounded(scale: Any, rule: UpdateRule, select: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a scale between the bounds. NaN fails the first comparison, and so becomes the floor."""
    scale = select(scale > rule.min_scale, scale, rule.min_scale)
    return select(scale < rule.max_scale, scale, rule.max_scale)


def _grown(scale: Any, rule: UpdateRule, select: Callable[[Any, Any, Any], Any]) -> Any:
    """Return the scale after growth, stopped at the ceiling; the largest float32 is none."""
    product = scale * rule.multiplier
    if not _has_ceiling(rule):
        return select(product <= FLOAT32_MAX, product, scale)
    capped = select(product < rule.max_scale, product, rule.max_scale)
    if isinstance(rule.max_scale, float):
        return capped
    return select((product <= FLOAT32_MAX) | (rule.max_scale < FLOAT32_MAX), capped, scale)


def _after_non_finite(state: ScaleState, rule: UpdateRule, select: Callable[[Any, Any, Any], Any]) -> ScaleState:
    shrunk = state.scale / rule.multiplier if rule.shrink_ratio is None else state.scale * rule.shrink_ratio
    shrunk = _bounded(shrunk, rule, select)
    if state.bad_steps is None:
        longer = None if state.search_steps is None else _after_search(state.search_steps, rule, select)
        return ScaleState(shrunk, 0, search_steps=longer)
    bad_steps = state.bad_steps + 1
    must_shrink = bad_steps >= rule.shrink_steps
    scale = _moved(state.scale, rule, select)
    after = ScaleState(select(must_shrink, shrunk, scale), 0, select(must_shrink, 0, bad_steps))
    if state.search_steps is not None:
        longer = _after_search(state.search_steps, rule, select)
        after = after._replace(search_steps=select(must_shrink, longer, state.search_steps))
    return after


def _after_search(search_steps: Any, rule: UpdateRule, select: Callable[[Any, Any, Any], Any]) -> Any:
    """Return the finite steps after which a scale grows that has just shrunk; a damaged number counts as 1."""
    least = select(search_steps < 1, 1, search_steps)
    return select(least < rule.growth_steps // SEARCH_FACTOR, least * SEARCH_FACTOR, SEARCH_OVER)
