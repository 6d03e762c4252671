"""The state of a dynamic loss scale as a small dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpls.core.current_settings import current_settings
from mpls.core.persistence.state_dict import (
    checked_dynamic,
    checked_extras,
    checked_weights,
    read_values,
    warn_of_surplus,
    without_surplus,
    write_values,
)
from mpls.core.updating import Updating
from mpls.formats.state_dicts import (
    GOOD_STEPS,
    GROWTH_STEPS,
    INITIAL_SCALE,
    MULTIPLIER,
    SCALE,
    WEIGHTS,
    dynamic_state,
)
from mpls.formats.wrapper_state import OWN_SCALE_SETTINGS, STATE

__all__ = ["DynamicStateDict"]


class DynamicStateDict(Updating):
    """Mixin for dynamic loss scales: what `state_dict` returns, and `load_state_dict` takes."""

    def _read_state_dict(self, session: Any) -> dict[str, Any]:
        scale, good_steps = self._read_state(session)
        state = {**dynamic_state(scale, good_steps), INITIAL_SCALE: current_settings(self).initial_scale}
        names = self._initial_extras()
        others = self._read_weights(session, without=[*STATE, *names])
        extras = self._read_values(names, session)
        return {**state, **self._settings(), **extras, **(others if others[WEIGHTS] else {})}

    def _write_state_dict(self, state: Mapping[str, Any], session: Any) -> None:
        extras = self._initial_extras()
        names = [WEIGHTS, *extras]
        settings = self._settings()
        # The code decides on settings that are constants; only those of the originals must agree.
        others = {name for name in settings if name in OWN_SCALE_SETTINGS and _differs(state, name, settings[name])}
        state, surplus = without_surplus(state, {*names, *settings} - others)
        scale, good_steps = checked_dynamic(state, settings, optional=names)
        found = checked_extras(state, {name: self._created_weight(name) for name in extras})
        self._require_usable_numbers(found, "load_state_dict", session)
        weights = {name: weight for name, weight in self._weights_here().items() if name not in (*STATE, *extras)}
        values = checked_weights(state, weights)
        warn_of_surplus(surplus)
        self._write_state(scale, good_steps, session)
        self._write_values(found, session)
        write_values(weights, values, session)
        self._times_set += 1

    def _settings(self) -> dict[str, Any]:
        """Return the settings that are constants, by their keys in a state."""
        settings = {GROWTH_STEPS: self._increment_period, MULTIPLIER: self._multiplier}
        changed = self._scale_settings.changed()
        return {name: value for name, value in {**settings, **changed}.items() if name not in self._initial_extras()}

    def _read_state(self, session: Any) -> tuple[float, int]:
        values = read_values({SCALE: self._current_loss_scale, GOOD_STEPS: self._num_good_steps}, session)
        return float(values[SCALE]), int(values[GOOD_STEPS])

    def _write_state(self, scale: float, good_steps: int, session: Any) -> None:
        variables = {SCALE: self._current_loss_scale, GOOD_STEPS: self._num_good_steps}
        write_values(variables, {SCALE: scale, GOOD_STEPS: good_steps}, session)


def _differs(state: Any, name: str, value: Any) -> bool:
    return isinstance(state, Mapping) and name in state and state[name] != value
