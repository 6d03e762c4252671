"""The state of a manager whose loss scale adapts: its variables, its settings, and the dict of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpls.core.dynamic import ScaleSettings
from mpls.core.state_checks import require_dynamic, require_keys, require_same, warn_of_surplus, without_surplus
from mpls.core.step_options import ReadOnly, read_only
from mpls.core.weights import plain, read_values, write_values
from mpls.formats.state_dicts import DYNAMIC, GOOD_STEPS, GROWTH_STEPS, INITIAL_SCALE, SCALE, SHRINK_RATIO, SHRINK_STEPS
from mpls.formats.validity import check_good_steps, check_scale
from mpls.formats.wrapper_state import BAD_STEPS, MULTIPLIER


def _bound(name: str, doc: str) -> ReadOnly:
    return read_only(name, lambda manager: getattr(manager._bounds, name), doc)


class ManagedState:
    """Mixin for a manager: what its `state_dict` returns, and `load_state_dict` takes."""

    _init_loss_scale: float
    _incr_every_n_steps: int
    _decr_every_n_nan_or_inf: int
    _incr_ratio: float
    _decr_ratio: float
    _bounds: ScaleSettings
    _loss_scale: Any
    _num_good_steps: Any
    _num_bad_steps: Any
    min_scale = _bound("min_scale", "The floor of a shrinking scale, a Python float; read-only.")
    max_scale = _bound("max_scale", "The ceiling of a growing scale, a Python float; read-only.")
    consecutive_hysteresis = _bound("consecutive_hysteresis", "Whether non-finite steps must be in a row; read-only.")
    # As of `DynamicLossScale`.
    _times_set = 0

    def _read_state_dict(self, session: Any) -> dict[str, Any]:
        values = {name: plain(value) for name, value in read_values(self._variables(), session).items()}
        return {DYNAMIC: True, **values, INITIAL_SCALE: self._init_loss_scale, **self._settings()}

    def _write_state_dict(self, state: Mapping[str, Any], session: Any) -> None:
        require_dynamic(state, True)
        state, surplus = without_surplus(state, {*self._variables(), *self._settings()})
        require_keys(state, {DYNAMIC, *self._variables()}, {INITIAL_SCALE, *self._settings()})
        values = {name: check(state[name], f"load_state_dict: {name}") for name, check in self._checks().items()}
        require_same(state, self._settings())
        warn_of_surplus(surplus)
        write_values(self._variables(), values, session)
        self._times_set += 1

    def _variables(self) -> dict[str, Any]:
        return {SCALE: self._loss_scale, GOOD_STEPS: self._num_good_steps, BAD_STEPS: self._num_bad_steps}

    def _settings(self) -> dict[str, Any]:
        return {
            GROWTH_STEPS: self._incr_every_n_steps,
            MULTIPLIER: self._incr_ratio,
            SHRINK_STEPS: self._decr_every_n_nan_or_inf,
            SHRINK_RATIO: self._decr_ratio,
            **self._bounds.changed(),
            **({"consecutive_hysteresis": True} if self._bounds.consecutive_hysteresis else {}),
        }

    def _checks(self) -> dict[str, Callable[[Any, str], float]]:
        return {
            SCALE: check_scale,
            GOOD_STEPS: lambda value, subject: check_good_steps(value, subject, self._incr_every_n_steps),
            BAD_STEPS: lambda value, subject: check_good_steps(value, subject, self._decr_every_n_nan_or_inf),
        }

    def _saved_numbers(self) -> list[tuple[Any, float, Callable[[Any, str], float]]]:
        """Return the variables, each with its initial value and the function that checks a value from a file."""
        initial = {SCALE: self._init_loss_scale, GOOD_STEPS: 0, BAD_STEPS: 0}
        return [(each, initial[name], self._checks()[name]) for name, each in self._variables().items()]
