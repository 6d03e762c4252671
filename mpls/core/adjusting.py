"""Changing the scale and the settings of a dynamic loss scale during training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsInt

import tensorflow as tf

from mpls.core.current_settings import current_settings
from mpls.core.numbers import to_whole
from mpls.core.persistence.state_dict import in_graph_of, plain, read_values, require_no_replica, write_values
from mpls.core.rule import SEARCH_OVER, UpdateRule
from mpls.core.scale_settings import DEFAULTS, NUMBERS, ScaleSettings, checked_settings, to_number
from mpls.core.step_options import ReadOnly, refuse_assignment
from mpls.core.weights import Stateful, require_used_here
from mpls.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CallOrderError,
    MplsWarning,
    SavedStateError,
    error_text,
    warn_user,
)
from mpls.formats.validity import is_count, usable_growth_steps
from mpls.formats.wrapper_options import least_of
from mpls.formats.wrapper_state import BAD_STEPS, CURRENT_SCALE, GOOD_STEPS, SEARCH_STEPS
from mpls.upstream.tensorflow import graph_key

__all__ = ["Adjusting", "SettingMembers"]

_SUBJECT = "configure"


def _setting(name: str, doc: str) -> Any:
    """Return a property that shows a setting, and by which `configure` changes it.

    Args:
        name: that of the setting.
        doc: the property's docstring.
    """

    def write(owner: Any, value: Any) -> None:
        if name not in NUMBERS or not hasattr(owner, "configure"):
            refuse_assignment(owner, name, value)
        if value is None:
            subject = f"{type(owner).__name__}: {name}"
            raise ArgumentTypeError(error_text(subject, "be a number", None, "Pass a number", "bounds-and-dynamics"))
        owner.configure(**{name: value})

    return property(lambda owner: owner._setting(name), write, doc=doc)


class SettingMembers:
    """Properties of dynamic loss scales, and of optimizers that have one; with another scale they are None.

    Setting one is the same as `configure` with that argument. In a graph they show what Python code has set last.
    """

    growth_steps = _setting("growth_steps", "Finite steps in a row after which the scale grows, a Python int.")
    growth_factor = _setting("growth_factor", "The factor by which the scale grows, a Python float.")
    backoff_factor = _setting("backoff_factor", "The factor by which the scale shrinks, a Python float.")
    min_scale = _setting("min_scale", "The floor of a shrinking scale, a Python float.")
    max_scale = _setting("max_scale", "The ceiling of a growing scale, a Python float.")
    hysteresis = _setting("hysteresis", "Non-finite steps after which the scale shrinks, a Python int.")
    consecutive_hysteresis: ReadOnly = _setting("consecutive_hysteresis", "Whether these must be in a row; read-only.")
    adjustable: ReadOnly = _setting("adjustable", "Whether `configure` reaches what is built already; read-only.")


class Adjusting(SettingMembers, Stateful):
    """Mixin for dynamic loss scales: their settings, as constants or as variables, and methods that change them."""

    _initial_loss_scale: float
    _increment_period: int
    _multiplier: float
    # Users' subclasses may define a constructor that does not call this class's.
    _scale_settings: ScaleSettings = DEFAULTS
    _searches = False
    # Whether the settings are constants in a graph.
    _is_built_in = False
    # Whether `configure` has set a hysteresis of 1 that was more before; the count of non-finite steps stays.
    _has_counted_bad_steps = False
    # Bounds of which a warning has said that a checkpoint replaces them.
    _told_of_replaced: frozenset[str] = frozenset()
    # How often the program has set the scale, so that messages do not take it for steps.
    _times_set = 0

    if TYPE_CHECKING:

        @property
        def _current_loss_scale(self) -> Any: ...
        @property
        def _num_good_steps(self) -> Any: ...

    def _rule(self, dtype: Any) -> UpdateRule:
        """Return the rule that the settings make, its numbers constants or tensors.

        Args:
            dtype: that of the counter of finite steps, with which the growth steps are compared.
        """
        settings = self._scale_settings
        if not settings.adjustable:
            return settings.rule(self._growth_steps(dtype), self._multiplier)
        factors = (tf.convert_to_tensor(self._created_weight(name)) for name in NUMBERS[1:])
        growth, backoff, least, most, hysteresis = factors
        in_a_row = settings.consecutive_hysteresis
        return UpdateRule(self._growth_steps(dtype), growth, least, most, backoff, hysteresis, in_a_row)

    def _bounds(self) -> UpdateRule:
        """Return the bounds of the current rule, which has the originals' numbers for the rest."""
        settings = self._scale_settings
        if not settings.adjustable:
            return UpdateRule(min_scale=settings.min_scale, max_scale=settings.max_scale)
        least, most = (tf.convert_to_tensor(self._created_weight(name)) for name in ("min_scale", "max_scale"))
        return UpdateRule(min_scale=least, max_scale=most)

    @property
    def _counts_bad_steps(self) -> bool:
        """Whether the state has a count of non-finite steps."""
        return self._scale_settings.counts_bad_steps or self._has_counted_bad_steps

    def _growth_steps(self, dtype: Any) -> Any:
        if self._scale_settings.adjustable:
            # A cast would wrap a number that the count cannot reach.
            return tf.cast(tf.minimum(tf.convert_to_tensor(self._created_weight("growth_steps")), dtype.max), dtype)
        if not tf.executing_eagerly():
            self._is_built_in = True
        # The count has to be compared in its own dtype, whatever number the user has passed.
        return usable_growth_steps(self._increment_period, dtype.max)

    def _growth_steps_now(self) -> int:
        """Return the growth steps that hold for the next step, also after a restored checkpoint; in eager mode."""
        return int(self._read_numbers(None, "state_dict")["growth_steps"])

    def _initial_extras(self) -> dict[str, tuple[Any, Any]]:
        """Return initial value and dtype, by name, of the variables that only settings of mpls need."""
        extras: dict[str, tuple[Any, Any]] = {}
        if self._counts_bad_steps:
            extras[BAD_STEPS] = (0, tf.int64)
        if self._searches:
            extras[SEARCH_STEPS] = (1, tf.int64)
        if self._scale_settings.adjustable:
            for name, value in self._numbers().items():
                extras[name] = (value, tf.float32 if isinstance(value, float) else tf.int64)
        return extras

    def _setting(self, name: str) -> Any:
        """Return a setting, which a checkpoint may have changed, by the name of its argument."""
        now = current_settings(self)
        numbers = now.settings.numbers(now.growth_steps, self._multiplier)
        return numbers[name] if name in numbers else getattr(now.settings, name)

    def set_scale(self, scale: SupportsFloat, session: Any = None) -> None:
        """Set the current scale, for what is already built too; the counts of steps start anew.

        A search that an initial scale of `'auto'` has begun ends.

        Args:
            scale: the scale, between the bounds.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: it is NaN, infinite or out of bounds; or the call is made in a replica context.
            TypeError: it is no number.
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Example:
            >>> import mpls.v1
            >>> loss_scale = mpls.v1.DynamicLossScale()
            >>> loss_scale.set_scale(1024)
            >>> float(loss_scale())
            1024.0
        """
        require_no_replica("set_scale")
        value = to_number(scale, "set_scale: scale")
        with in_graph_of(session), self._lock:
            require_used_here(self, session, "set_scale")
            self._set_scale(value, scale, session)

    def _set_scale(self, value: float, given: Any, session: Any) -> None:
        subject = "set_scale: scale"
        bounds = self._read_numbers(session, "set_scale")
        least, most = bounds["min_scale"], bounds["max_scale"]
        if not least <= value <= most:
            constraint = f"be from {least:g} to {most:g}, the bounds"
            advice = "Change min_scale and max_scale first: configure(min_scale=...)"
            raise ArgumentValueError(error_text(subject, constraint, given, advice, "bounds-and-dynamics"))
        # A scale that the user sets ends the search.
        ended = {SEARCH_STEPS: SEARCH_OVER} if self._searches else {}
        self._write_values({**self._begun_with(value), **ended}, session, "set_scale")
        self._times_set += 1

    def configure(
        self,
        *,
        growth_steps: SupportsInt | None = None,
        growth_factor: SupportsFloat | None = None,
        backoff_factor: SupportsFloat | None = None,
        min_scale: SupportsFloat | None = None,
        max_scale: SupportsFloat | None = None,
        hysteresis: SupportsInt | None = None,
        session: Any = None,
    ) -> None:
        """Change how the scale adapts from the next step on; the current scale is moved between new bounds.

        With `adjustable=True` this works everywhere, without a retrace: in eager mode, in functions that are already
        traced, and in graphs that a session runs. Without it, the settings are constants of what is already built.

        Args:
            growth_steps: finite steps in a row after which the scale grows.
            growth_factor: the factor by which it grows, above 1.
            backoff_factor: the factor by which it shrinks, between 0 and 1.
            min_scale: the least scale.
            max_scale: the largest scale; the initial scale is moved between new bounds too.
            hysteresis: non-finite steps after which the scale shrinks.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: a number is out of its range, or the bounds exclude each other; and then nothing has changed.
            TypeError: an argument is no number.
            RuntimeError: the settings are constants in a graph or a function that is already built; `hysteresis` is
                above 1, and the loss scale was made without `hysteresis` and `adjustable`, so that nothing counts for
                it; there is no session; or the call is made inside of a `tf.function`.

        Example:
            >>> import mpls.v1
            >>> loss_scale = mpls.v1.DynamicLossScale(adjustable=True)
            >>> loss_scale.configure(max_scale=4096, growth_steps=100)
            >>> float(loss_scale())
            4096.0
        """
        require_no_replica(_SUBJECT)
        given = (growth_factor, backoff_factor, min_scale, max_scale, hysteresis)
        wanted = dict(zip(NUMBERS[1:], given, strict=True))
        steps = None
        if growth_steps is not None:
            steps = to_whole(growth_steps, f"{_SUBJECT}: growth_steps", "growth_steps=2000", "bounds-and-dynamics")
        with in_graph_of(session), self._lock:
            require_used_here(self, session, _SUBJECT)
            self._configure(steps, wanted, session)

    def _configure(self, growth_steps: int | None, wanted: Mapping[str, Any], session: Any) -> None:
        self._require_adjustable()
        numbers = self._read_numbers(session, _SUBJECT)
        settings = checked_settings(_SUBJECT, None, wanted, self._with_numbers(numbers))
        if settings.counts_bad_steps and not self._counts_bad_steps:
            raise CallOrderError(_text("hysteresis is a setting that nothing counts for"))
        steps = numbers["growth_steps"] if growth_steps is None else usable_growth_steps(growth_steps)
        scale, good_steps = self._read_values((CURRENT_SCALE, GOOD_STEPS), session, _SUBJECT).values()
        moved, initial = scale, self._initial_loss_scale
        if wanted["min_scale"] is not None or wanted["max_scale"] is not None:
            # A loss scale that is made anew, from the config or in another graph, starts between the bounds too.
            moved, initial = (min(max(each, settings.min_scale), settings.max_scale) for each in (scale, initial))
        changes = {} if moved == scale else self._begun_with(moved)
        if good_steps >= steps and not changes:
            # The scale grows at the next finite step, as it would by the larger count, which no file may hold.
            changes[GOOD_STEPS] = steps - 1
        if settings.adjustable:
            numbers = settings.numbers(steps, self._multiplier)
            changes.update(numbers if growth_steps is not None else _without(numbers, "growth_steps"))
        # Where the write is refused, nothing has changed.
        self._write_values(changes, session, _SUBJECT)
        self._times_set += CURRENT_SCALE in changes
        self._has_counted_bad_steps = self._counts_bad_steps
        self._scale_settings, self._initial_loss_scale = settings, initial
        if growth_steps is not None:
            self._increment_period = growth_steps

    def _require_adjustable(self) -> None:
        if self._scale_settings.adjustable or (graph_key() is None and not self._is_built_in):
            return
        raise CallOrderError(_text("the settings are constants in a graph or a function that is already built"))

    def _numbers(self) -> dict[str, Any]:
        """Return the values of the variables of adjustable settings."""
        return self._scale_settings.numbers(usable_growth_steps(self._increment_period), self._multiplier)

    def _read_numbers(self, session: Any, call: str) -> dict[str, Any]:
        """Return the current settings, which a checkpoint may have changed."""
        return self._read_values(NUMBERS, session, call) if self._scale_settings.adjustable else self._numbers()

    def _require_usable_numbers(self, found: Mapping[str, Any], subject: str, session: Any = None) -> None:
        """Refuse settings in a saved state that no loss scale can have.

        Args:
            found: the values for variables, by name; those that are not there stay as they are.
            subject: what the user called, for errors.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            SavedStateError: a number is out of its range, or the bounds exclude each other.
        """
        given = {name: plain(value) for name, value in found.items() if name in NUMBERS}
        if not given:
            return
        numbers = {**self._read_numbers(session, subject), **given}
        if not is_count(numbers["growth_steps"], least := least_of("growth_steps")):
            constraint, advice = f"be at least {least}", "Pass what state_dict() returned"
            raise SavedStateError(
                error_text(f"{subject}: growth_steps", constraint, given["growth_steps"], advice, "bounds-and-dynamics")
            )
        try:
            checked_settings(subject, None, _without(numbers, "growth_steps"))
        except ValueError as error:
            raise SavedStateError(str(error)) from error

    def _tell_of_replaced(self, found: Mapping[str, Any], subject: str) -> None:
        """Warn that a checkpoint replaces bounds that the code has set, once for each.

        Args:
            found: the values in the checkpoint, by name; those of other settings may be among them.
            subject: the file and the key.
        """
        of_code = {name: self._setting(name) for name in ("min_scale", "max_scale")}
        of_code = {name: value for name, value in of_code.items() if value != getattr(DEFAULTS, name)}
        others = {
            name: value
            for name, value in of_code.items()
            if found.get(name, value) != value and name not in self._told_of_replaced
        }
        if not others:
            return
        self._told_of_replaced |= others.keys()
        taken = ", ".join(f"{name}={plain(found[name])!r}" for name in others)
        kept = ", ".join(f"{name}={value!r}" for name, value in others.items())
        warn_user(
            f"{subject}: {taken} is taken from the checkpoint, where the code has {kept}. To go on with what the code "
            f"has, call configure({kept}) after it is restored. See MIGRATION.md#bounds-and-dynamics",
            MplsWarning,
        )

    def _with_numbers(self, numbers: Mapping[str, Any]) -> ScaleSettings:
        if not self._scale_settings.adjustable:
            return self._scale_settings
        values = _without(dict(numbers), "growth_steps")
        return ScaleSettings(
            **values, consecutive_hysteresis=self._scale_settings.consecutive_hysteresis, adjustable=True
        )

    def _begun_with(self, scale: float) -> dict[str, Any]:
        """Return the state of a scale that has just changed."""
        bad_steps = {BAD_STEPS: 0} if self._counts_bad_steps else {}
        return {CURRENT_SCALE: scale, GOOD_STEPS: 0, **bad_steps}

    def _read_values(self, names: Iterable[str], session: Any, call: str = "state_dict") -> dict[str, Any]:
        variables = {name: self._created_weight(name) for name in names}
        return {name: plain(value) for name, value in read_values(variables, session, call).items()}

    def _write_values(self, values: Mapping[str, Any], session: Any, call: str = "load_state_dict") -> None:
        write_values({name: self._created_weight(name) for name in values}, values, session, call)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Graphs and functions are built with the original of a copy.
        super().__setstate__({**state, "_is_built_in": False})  # type: ignore[misc]


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _text(reason: str) -> str:
    return (
        f"{_SUBJECT}() needs a loss scale that was made with adjustable=True; here {reason}. Call "
        "DynamicLossScale(..., adjustable=True) or LossScaleOptimizer(..., adjustable=True). "
        "See MIGRATION.md#bounds-and-dynamics"
    )
