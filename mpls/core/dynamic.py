"""The dynamic loss scale: its settings, its variables, and the update rule applied to them."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat, SupportsInt, TypeVar

import numpy as np
import tensorflow as tf

from mpls.core import fast
from mpls.core.autograph import as_written
from mpls.core.fast import group, one_of
from mpls.core.gradients import finite_at_once
from mpls.core.loss_scale import (
    LossScale,
    NativeDynamicLossScale,
    StepDecision,
)
from mpls.core.numbers import to_bool, to_int, to_usable, to_whole
from mpls.core.replicas import decide_together, finite_when_summed
from mpls.core.rule import (
    SEARCH_OVER,
    ScaleState,
    UpdateRule,
    growth_period,
    has_bounds,
    is_within,
    next_state,
    only_counts,
)
from mpls.core.state_checks import (
    SavedObject,
    checked_dynamic,
    checked_extras,
    checked_weights,
    examine,
    require_dtype,
    require_valid_state,
    warn_of_surplus,
    without_surplus,
)
from mpls.core.step_options import ReadOnly, explained_arguments, read_only, refuse_assignment, without_idle
from mpls.core.weights import (
    in_graph_of,
    increment,
    plain,
    read_values,
    require_used_here,
    value_of_variable,
    write_values,
)
from mpls.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CallOrderError,
    MplsWarning,
    SavedStateError,
    error_text,
    warn_user,
)
from mpls.formats.state_dicts import GROWTH_STEPS, INITIAL_SCALE, WEIGHTS, dynamic_state
from mpls.formats.validity import (
    constraint_on,
    constraint_on_bounds,
    is_count,
    is_initial_scale,
    least_of,
    usable_growth_steps,
    without_effect,
)
from mpls.formats.wrapper_state import (
    ADJUSTABLE,
    AUTO,
    BAD_STEPS,
    CURRENT_SCALE,
    DEFAULT_MAX_SCALE,
    DEFAULT_MIN_SCALE,
    DYNAMIC_CONFIG,
    GOOD_STEPS,
    MULTIPLIER,
    SCALE_OPTIONS,
    SEARCH_STEPS,
    STATE,
)
from mpls.upstream.tensorflow import graph_key

# Pickles that earlier versions wrote name these modules.
sys.modules.update({f"mpls.core.{name}": sys.modules[__name__] for name in ("scale_settings",)})

_ANCHOR = "bounds-and-dynamics"
_SUBJECT = "configure"
_Self = TypeVar("_Self", bound="DynamicLossScale")
# What to write in place of arguments of wrappers.
_PLACES = {
    "initial_scale": "initial_loss_scale={!r}",
    "dynamic_growth_steps": "increment_period={!r}",
    "growth_steps": "increment_period={!r}",
}
NOT_CONFIGURED = {
    "initial_scale": "set_scale({!r})",
    "dynamic_growth_steps": "configure(growth_steps={!r})",
    "increment_period": "configure(growth_steps={!r})",
    "consecutive_hysteresis": "Pass it to the constructor",
    "adjustable": "Pass it to the constructor",
}


@dataclasses.dataclass(frozen=True)
class ScaleSettings:
    """Settings of a dynamic loss scale, whole numbers or in float32; `DynamicLossScale` explains each.

    Without a factor, the scale is multiplied or divided by the multiplier.
    """

    min_scale: float = DEFAULT_MIN_SCALE
    max_scale: float = DEFAULT_MAX_SCALE
    growth_factor: float | None = None
    backoff_factor: float | None = None
    hysteresis: int = 1
    consecutive_hysteresis: bool = False
    adjustable: bool = False

    def changed(self) -> dict[str, Any]:
        """Return the settings that are not the defaults, for configs."""
        changed = {name: value for name, value in vars(self).items() if value != getattr(DEFAULTS, name)}
        # After `configure` has set a hysteresis of 1.
        idle = without_effect(changed, skips=True)
        return {name: value for name, value in changed.items() if name not in idle}

    @property
    def counts_bad_steps(self) -> bool:
        """Whether the state has a count of non-finite steps."""
        return self.adjustable or self.hysteresis > 1

    def numbers(self, growth_steps: int, multiplier: float) -> dict[str, Any]:
        """Return the initial values of the variables of adjustable settings, by name."""
        growth = multiplier if self.growth_factor is None else self.growth_factor
        backoff = 1 / multiplier if self.backoff_factor is None else self.backoff_factor
        values = (growth_steps, growth, backoff, self.min_scale, self.max_scale, self.hysteresis)
        return dict(zip(NUMBERS, values, strict=True))

    def rule(self, growth_steps: Any, multiplier: float) -> UpdateRule:
        """Return the rule of settings that are constants."""
        return UpdateRule(
            growth_steps=growth_steps,
            # Division by the multiplier is what the originals do; the factors are the user's own.
            multiplier=multiplier if self.growth_factor is None else self.growth_factor,
            min_scale=self.min_scale,
            max_scale=self.max_scale,
            shrink_ratio=self.backoff_factor if self.growth_factor is None else self.backoff_factor or 1 / multiplier,
            shrink_steps=self.hysteresis,
            shrink_steps_in_a_row=self.consecutive_hysteresis,
        )


DEFAULTS = ScaleSettings()
# Settings that `configure` changes.
NUMBERS = ADJUSTABLE


def checked_settings(
    subject: str, initial_scale: float | None, given: Mapping[str, Any], before: ScaleSettings = DEFAULTS
) -> ScaleSettings:
    """Return settings, some of them given by the user.

    Args:
        subject: the public name that the user called, for errors.
        initial_scale: the scale that has to be between the bounds; None if it will be moved there.
        given: values by name; None leaves a setting as it was before.
        before: the other settings.

    Raises:
        ValueError: a number is NaN, infinite, negative or out of its range; or the bounds exclude each other or the
            initial scale.
        TypeError: a value is not a number, or not a bool.
    """
    changes: dict[str, Any] = {
        name: _CHECKS[name](value, f"{subject}: {name}") for name, value in given.items() if value is not None
    }
    settings = dataclasses.replace(before, **changes)
    if constraint := constraint_on_bounds(settings.min_scale, settings.max_scale):
        if "max_scale" not in changes:
            constraint, advice = f"be at most max_scale, {settings.max_scale:g}", f"Pass min_scale={settings.max_scale}"
            raise ArgumentValueError(_error(f"{subject}: min_scale", constraint, settings.min_scale, advice))
        raise ArgumentValueError(
            _error(f"{subject}: max_scale", constraint, settings.max_scale, "Pass max_scale=2.0**24")
        )
    if initial_scale is None:
        return settings
    if not is_initial_scale(initial_scale, settings.min_scale, settings.max_scale):
        constraint = f"be from {settings.min_scale:g} to {settings.max_scale:g}, the bounds"
        advice = "Choose an initial scale between min_scale and max_scale"
        raise ArgumentValueError(_error(f"{subject}: the initial scale", constraint, initial_scale, advice))
    return settings


def require_effect(subject: str, settings: ScaleSettings) -> None:
    """Refuse settings that have no effect beside the others.

    Args:
        subject: the public name that the user called, for errors.
        settings: all of them, as a constructor got them.

    Raises:
        ValueError: there is one.
    """
    for name, constraint in without_effect(vars(settings), skips=True).items():
        advice = f"Pass hysteresis=2 with it, or leave {name} out"
        raise ArgumentValueError(_error(f"{subject}: {name}", constraint, getattr(settings, name), advice))


def _error(subject: str, constraint: str, got: Any, advice: str) -> str:
    return error_text(subject, constraint, got, advice, _ANCHOR)


def to_number(value: Any, subject: str) -> float:
    """Return a positive number as float32 holds it; bools and strings are not taken for one."""
    if isinstance(value, bool | np.bool_ | str):
        raise ArgumentValueError(_error(subject, "be a number", value, "Pass a Python number"))
    return float(np.float32(to_usable(value, subject)))


def _in_range(setting: str, advice: str) -> Callable[[Any, str], float]:
    def checked(value: Any, subject: str) -> float:
        number = to_number(value, subject)
        if constraint := constraint_on(setting, number):
            raise ArgumentValueError(_error(subject, constraint, value, advice))
        return number

    return checked


_CHECKS = {
    "min_scale": _in_range("min_scale", "min_scale=0.5"),
    "max_scale": _in_range("max_scale", "max_scale=2.0**24"),
    "growth_factor": _in_range("growth_factor", "growth_factor=2.0"),
    "backoff_factor": _in_range("backoff_factor", "backoff_factor=0.5"),
    "hysteresis": lambda value, subject: to_whole(value, subject, "hysteresis=2", _ANCHOR, least=1),
    "consecutive_hysteresis": lambda value, subject: to_bool(value, subject, _ANCHOR),
    "adjustable": lambda value, subject: to_bool(value, subject, _ANCHOR),
}
# So low that hardly any gradient overflows; it takes seven finite steps from here to the usual 2**15.
START = 2.0**8


def is_auto(initial_scale: Any) -> bool:
    """Return whether an initial scale is to be looked for."""
    return isinstance(initial_scale, str) and initial_scale == AUTO


def start_between(settings: ScaleSettings) -> float:
    """Return the scale from which a search starts, between the bounds."""
    return min(max(START, settings.min_scale), settings.max_scale)


def start_of(initial_scale: Any, settings: Mapping[str, Any]) -> Any:
    """Return the number that a scale starts from: the initial scale, or the start of a search.

    Args:
        initial_scale: a checked number, or `'auto'`.
        settings: checked arguments of a dynamic loss scale by name, the bounds among them.
    """
    return start_between(checked_settings("", None, settings)) if is_auto(initial_scale) else initial_scale


def _setting(name: str, doc: str) -> Any:
    """Return a property that shows a setting, and by which `configure` changes it."""

    def write(owner: Any, value: Any) -> None:
        if not hasattr(owner, "configure"):
            refuse_assignment(owner, name, value)
        if value is None:
            subject = f"{type(owner).__name__}: {name}"
            raise ArgumentTypeError(_error(subject, "be a number", None, "Pass a number"))
        owner.configure(**{name: value})

    return property(lambda owner: owner._setting(name), write, doc=doc)


def _fixed_setting(name: str, doc: str) -> ReadOnly:
    return read_only(name, lambda owner: owner._setting(name), doc)


class SettingMembers:
    """Properties of dynamic loss scales, and of optimizers that have one; with another scale they are None.

    Setting one is the same as `configure` with that argument. In a graph they show what Python code has set last.
    """

    growth_steps: Any = _setting(
        "growth_steps", "Number of finite steps in a row after which the scale grows, a Python int."
    )
    growth_factor: Any = _setting("growth_factor", "The factor by which the scale grows, a Python float.")
    backoff_factor: Any = _setting("backoff_factor", "The factor by which the scale shrinks, a Python float.")
    min_scale: Any = _setting("min_scale", "The number below which the scale does not shrink, a Python float.")
    max_scale: Any = _setting("max_scale", "The number above which the scale does not grow, a Python float.")
    hysteresis: Any = _setting("hysteresis", "Number of non-finite steps after which the scale shrinks, a Python int.")
    consecutive_hysteresis: ReadOnly = _fixed_setting(
        "consecutive_hysteresis", "Whether the steps of `hysteresis` must be in a row, a Python bool; read-only."
    )
    adjustable: ReadOnly = _fixed_setting(
        "adjustable", "Whether `configure` also changes existing functions and graphs, a Python bool; read-only."
    )

    def _session_of_state(self, session: Any) -> Any:
        """Return the session to use if the user passes this one; families with sessions of their own override it."""
        return session


class ScaleMembers(SettingMembers):
    """Methods that change a dynamic loss scale: its own, and those of wrappers that have one."""

    def _dynamic_scale_for(self, method: str) -> DynamicLossScale:
        """Return the loss scale that a method is to change, or refuse."""
        raise NotImplementedError

    def set_scale(self, scale: SupportsFloat, session: Any = None) -> None:
        """Set the current scale, also for existing functions and graphs, and reset the counts of steps.

        This ends a search of `initial_loss_scale='auto'`.

        Args:
            scale: the scale, between the bounds.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: it is NaN, infinite or out of bounds; or the call is made in a replica context.
            TypeError: it is not a number.
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Examples:
            >>> import mpls.v1
            >>> loss_scale = mpls.v1.DynamicLossScale()
            >>> loss_scale.set_scale(1024)
            >>> float(loss_scale())
            1024.0
        """
        self._dynamic_scale_for("set_scale")._set_scale(scale, self._session_of_state(session))

    @explained_arguments(_SUBJECT, NOT_CONFIGURED)
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
        """Change how the scale grows and shrinks, from the next step on; new bounds also apply to the current scale.

        With `adjustable=True`, this also works for `tf.function`s that were traced and graphs that a session has run.
        Without it, the settings are constants in existing functions and graphs.

        Args:
            growth_steps: number of finite steps in a row after which the scale grows.
            growth_factor: the factor by which the scale grows, above 1.
            backoff_factor: the factor by which the scale shrinks, between 0 and 1.
            min_scale: the lowest scale.
            max_scale: the highest scale; new bounds also apply to the initial scale.
            hysteresis: number of non-finite steps after which the scale shrinks.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: a number is out of range, or the bounds exclude each other; nothing has changed then.
            TypeError: an argument is not a number.
            RuntimeError: without `adjustable=True`, a graph or function exists already, or the loss scale was created
                without the counter that `hysteresis` needs; there is no session; or the call is inside a `tf.function`.

        Examples:
            >>> import mpls.v1
            >>> loss_scale = mpls.v1.DynamicLossScale(adjustable=True)
            >>> loss_scale.configure(max_scale=4096, growth_steps=100)
            >>> float(loss_scale())
            4096.0
        """
        values = growth_steps, growth_factor, backoff_factor, min_scale, max_scale, hysteresis
        given = dict(zip(NUMBERS, values, strict=True))
        self._dynamic_scale_for("configure")._configure(given, self._session_of_state(session))


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _text(reason: str, needed: str = "adjustable=True") -> str:
    return (
        f"{_SUBJECT}() needs a loss scale that was made with {needed}; here {reason}. Call "
        "DynamicLossScale(..., adjustable=True) or LossScaleOptimizer(..., adjustable=True). "
        "See mpls docs bounds-and-dynamics"
    )


if TYPE_CHECKING:
    _Base = object
else:
    _Base = NativeDynamicLossScale


class DynamicLossScale(ScaleMembers, LossScale, _Base):
    """A loss scale that grows while gradients are finite, and shrinks when they are not.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> scale = mpls.v1.DynamicLossScale(initial_loss_scale=8, increment_period=2)
        >>> _, should_apply = scale.update([tf.constant(float("inf"))])
        >>> bool(should_apply), float(scale())
        (False, 4.0)

        A scale that may fall below 1, and shrinks at the second of two overflows:

        >>> scale = mpls.v1.DynamicLossScale(1, min_scale=0.25, hysteresis=2)
        >>> for _ in range(4):
        ...     _ = scale.update([tf.constant(float("inf"))])
        >>> float(scale())
        0.25

    After every `increment_period` finite steps in a row, the scale is multiplied by `multiplier`, unless the product is
    infinite in float32. If the product is above `max_scale`, the scale becomes `max_scale`. After a step with a
    non-finite gradient, the scale is divided by `multiplier`, but not below 1, and the step should be skipped.

    The state consists of two variables, `current_loss_scale` (float32) and `good_steps` (int64). Each graph that uses
    the object has its own state. In eager mode, the variables are created at first use, or when an optimizer around the
    object is built, under the current strategy.

    Args:
        initial_loss_scale: the scale of the first step, positive. If it is too high, a few steps are skipped; if it is
            too low, it takes thousands of steps to grow. `'auto'` searches for the highest scale that does not
            overflow; see `mpls docs finding-the-scale`.
        increment_period: number of finite steps in a row after which the scale grows; 1 or less means every step.
        multiplier: the factor by which the scale grows and shrinks, positive.
        min_scale: as in `mpls.keras`.
        max_scale: as in `mpls.keras`.
        growth_factor: as in `mpls.keras`; by default the multiplier.
        backoff_factor: as in `mpls.keras`; by default one divided by the multiplier.
        hysteresis: as in `mpls.keras`. With more than 1, there is also the variable `bad_steps` (int64).
        consecutive_hysteresis: as in `mpls.keras`.
        adjustable: as in `mpls.keras`.

    Raises:
        ValueError: a number is out of range; the bounds exclude each other or the initial scale; or `multiplier` is at
            most 1, `adjustable` is set, and the factors are not.
        TypeError: an argument is not a number, or not a bool.

    Reproduces:
        `tf.compat.v1.train.experimental.DynamicLossScale`, TF 1.14 to 2.21, to the last bit of the scale.
        In TensorFlow, the state belonged to the graph in which the object was created, and `update` in a replica
        context raised an AttributeError. TensorFlow does not have the arguments after `multiplier`.
    """

    _initial_loss_scale: float
    _increment_period: int
    _multiplier: float
    # Users' subclasses may define a constructor that does not call this class's.
    _scale_settings: ScaleSettings = DEFAULTS
    _searches = False
    _is_unread = True
    # Whether the settings are constants in a graph.
    _is_built_in = False
    # Whether `configure` has set a hysteresis of 1 that was more before; the count of non-finite steps stays.
    _has_counted_bad_steps = False
    # Bounds of which a warning has said that a checkpoint replaces them.
    _told_of_replaced: frozenset[str] = frozenset()
    # How often the program has set the scale, so that messages do not take it for steps.
    _times_set = 0

    @explained_arguments("DynamicLossScale", _PLACES)
    def __init__(
        self,
        initial_loss_scale: SupportsFloat | str = 2**15,
        increment_period: SupportsInt | str = 2000,
        multiplier: SupportsFloat | str = 2.0,
        *,
        min_scale: SupportsFloat | None = None,
        max_scale: SupportsFloat | None = None,
        growth_factor: SupportsFloat | None = None,
        backoff_factor: SupportsFloat | None = None,
        hysteresis: SupportsInt | None = None,
        consecutive_hysteresis: bool | None = None,
        adjustable: bool | None = None,
    ) -> None:
        super().__init__()
        self._searches = is_auto(initial_loss_scale)
        initial = None if self._searches else to_usable(initial_loss_scale, "DynamicLossScale: initial_loss_scale")
        self._increment_period = to_int(increment_period, "DynamicLossScale: increment_period")
        self._multiplier = to_usable(multiplier, "DynamicLossScale: multiplier")
        values = min_scale, max_scale, growth_factor, backoff_factor, hysteresis, consecutive_hysteresis, adjustable
        given = dict(zip(_CHECKS, values, strict=True))
        self._scale_settings = checked_settings("DynamicLossScale", initial, given)
        require_effect("DynamicLossScale", self._scale_settings)
        numbers = self._scale_settings.numbers(1, self._multiplier)
        factors = ("growth_factor", "backoff_factor")
        if self._scale_settings.adjustable and any(constraint_on(name, numbers[name]) for name in factors):
            # No saved state with such values would be loaded.
            constraint = "be above 1 with adjustable=True"
            advice = "Pass growth_factor and backoff_factor, or leave adjustable out"
            raise ArgumentValueError(_error("DynamicLossScale: multiplier", constraint, multiplier, advice))
        self._initial_loss_scale = start_between(self._scale_settings) if initial is None else initial
        with tf.init_scope():
            is_graph = not tf.executing_eagerly()
        if is_graph:
            # An initializer op or a Saver that the user makes before the first use has to include the state.
            self._create_weights()

    @property
    def initial_loss_scale(self) -> float:
        """The scale at the start, a Python float."""
        return current_settings(self).initial_scale

    @property
    def increment_period(self) -> int:
        """The number of finite steps in a row after which the scale grows, a Python int."""
        return current_settings(self).growth_steps

    @property
    def multiplier(self) -> float:
        """The factor by which the scale grows and shrinks, a Python float."""
        return self._multiplier

    @property
    def _current_loss_scale(self) -> Any:
        return self._created_weight(CURRENT_SCALE)

    @_current_loss_scale.setter
    def _current_loss_scale(self, variable: Any) -> None:
        # Users' subclasses assign variables that they have made with _add_weight, as the original class did.
        self._weights_here()[CURRENT_SCALE] = variable

    @property
    def _num_good_steps(self) -> Any:
        return self._created_weight(GOOD_STEPS)

    @_num_good_steps.setter
    def _num_good_steps(self, variable: Any) -> None:
        self._weights_here()[GOOD_STEPS] = variable

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        return {**self._initial_state(), **self._initial_extras()}

    def _initial_state(self) -> dict[str, tuple[Any, Any]]:
        return {CURRENT_SCALE: (self._initial_loss_scale, tf.float32), GOOD_STEPS: (0, tf.int64)}

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        children = super()._trackable_children(save_type, **kwargs)
        examine(self, self._check_saved_object)
        return children

    @property
    def _growth_steps_for_files(self) -> int | None:
        """The growth steps that a saved count must not exceed; None where a file brings them with the count."""
        return None if self._scale_settings.adjustable else self._increment_period

    def _check_saved_object(self, node: SavedObject) -> None:
        require_valid_state(node, self._growth_steps_for_files)
        require_dtype(node, self._num_good_steps)
        if self._scale_settings.adjustable:
            held = {name: node.child(name) for name in ("min_scale", "max_scale")}
            found = {name: each.value() for name, each in held.items() if each is not None}
            self._tell_of_replaced(found, node.subject)

    @as_written
    def __call__(self) -> tf.Tensor:
        """Return the current loss scale as a scalar float32 tensor."""
        self._is_unread = False
        return value_of_variable(self._current_loss_scale)

    @as_written
    def update(self, grads: Any) -> tuple[Any, tf.Tensor]:
        """Grow or shrink the scale, depending on whether every gradient is finite.

        Under a strategy, the gradients of all replicas are checked, and all replicas get the same result. You can call
        the method in a replica context and in a cross-replica context.

        Args:
            grads: nested structure of unscaled gradients, tensors or `tf.IndexedSlices` of any float dtype; None
                entries are ignored, and no gradients at all count as finite.

        Returns:
            `(update_op, should_apply)`. `update_op` is None in eager mode; in a graph it is a scalar boolean tensor
            that updates the state when it is computed, true if the scale was due to grow. `should_apply` is a scalar
            boolean tensor, true if all gradients are finite.
        """
        op, should_apply = decide_together(grads, lambda finite: (self._advanced(finite), finite))
        return op, should_apply

    def _advanced(self, grads_finite: Any) -> Any:
        """Update the state for a step; in a graph, return a tensor that says whether the scale was due to grow."""
        op = self._advance(grads_finite)
        if op is None:
            return None
        with tf.control_dependencies([op]):
            # The count is 0 after growth, and after a step whose gradients are not finite.
            return tf.logical_and(grads_finite, tf.equal(tf.convert_to_tensor(self._num_good_steps), 0))

    def _decide_step(self, grads: Any, *, when_summed: bool, are_same: bool) -> StepDecision:
        """Decide as `update` does, and leave the update of the state to the branches: each needs half of the rule."""
        if type(self).update is not DynamicLossScale.update:
            # A user's subclass has overridden it.
            return super()._decide_step(grads, when_summed=when_summed, are_same=are_same)
        are_finite = finite_when_summed if when_summed else finite_at_once
        (grads_finite,) = decide_together(grads, lambda finite: (finite,), are_finite, are_same=are_same)
        return StepDecision(grads_finite, self._advance)

    def _floor(self) -> Any:
        settings = self._scale_settings
        return tf.convert_to_tensor(self._created_weight("min_scale")) if settings.adjustable else settings.min_scale

    def _advance(self, grads_finite: Any) -> Any:
        """Update the state for a step; in a graph, return the op that does it.

        Args:
            grads_finite: whether every gradient was finite, a scalar boolean tensor; or a bool, where that is known.
        """
        if not tf.executing_eagerly() or tf.distribute.has_strategy():
            return self._write_next(grads_finite)
        # A step in another thread must not read the state before this one has written it.
        with self._lock:
            return self._write_next(bool(grads_finite))

    def _write_next(self, grads_finite: Any) -> Any:
        """Update the state; in a graph, return the op that does it; `grads_finite` is a tensor, or a bool if known."""
        good_steps = self._num_good_steps
        growth_steps = self._growth_steps(good_steps.dtype)
        # Read as late as possible: another worker may have changed it while gradients were computed.
        with tf.control_dependencies([] if isinstance(grads_finite, bool) else [grads_finite]):
            steps_before = value_of_variable(good_steps)
            search_steps = None
            if self._searches:
                search_steps = tf.cast(tf.convert_to_tensor(self._created_weight(SEARCH_STEPS)), good_steps.dtype)

        def write_all() -> Any:
            variables = self._state_variables(good_steps)
            before = ScaleState(tf.convert_to_tensor(variables.scale), steps_before, None, search_steps)
            if variables.bad_steps is not None:
                before = before._replace(bad_steps=tf.convert_to_tensor(variables.bad_steps))
            after = next_state(before, grads_finite, self._rule(good_steps.dtype), select)
            if search_steps is not None:
                after = after._replace(search_steps=tf.cast(after.search_steps, tf.int64))
            pairs = zip(variables, after, strict=True)
            return group(*(variable.assign(value) for variable, value in pairs if variable is not None))

        if grads_finite is False or fast.uses_plain_ways():
            return write_all()
        if search_steps is not None:
            growth_steps = growth_period(search_steps, growth_steps, select)
        # In eager mode they are known, and ops would take longer than Python.
        is_known = tf.executing_eagerly()
        counts = only_counts(int(steps_before) if is_known else steps_before, growth_steps)
        if grads_finite is not True:
            counts &= grads_finite
        bounds = self._bounds()
        if has_bounds(bounds):
            # A checkpoint may bring a scale that is outside of them, at any time.
            scale = value_of_variable(self._current_loss_scale)
            counts &= is_within(float(scale) if is_known else scale, bounds)
        # Nearly every step only increments the count. It must be one op for parameter servers, whose workers do not
        # wait for each other: writing back the scale that was read could undo another worker's decrease.
        held = self._weights_here().values()
        return one_of(counts, lambda: self._count(good_steps), lambda: fast.apart_in_session(write_all, held))

    def _state_variables(self, good_steps: Any) -> ScaleState:
        bad_steps = self._created_weight(BAD_STEPS) if self._counts_bad_steps else None
        search_steps = self._created_weight(SEARCH_STEPS) if self._searches else None
        return ScaleState(self._current_loss_scale, good_steps, bad_steps, search_steps)

    def _count(self, good_steps: Any) -> Any:
        """Count a finite step; with `consecutive_hysteresis`, also reset the count of non-finite steps."""
        counted = increment(good_steps)
        if not self._counts_bad_steps or not self._scale_settings.consecutive_hysteresis:
            return counted
        return group(counted, self._created_weight(BAD_STEPS).assign(0))

    def get_config(self) -> dict[str, Any]:
        """Return `{'initial_loss_scale': float or 'auto', 'increment_period': int, 'multiplier': float}`.

        If an option of mpls is not the default, the dict has it too.
        """
        now = current_settings(self)
        values = (AUTO if self._searches else now.initial_scale, now.growth_steps, self._multiplier)
        return {**dict(zip(DYNAMIC_CONFIG, values, strict=True)), **now.settings.changed()}

    @classmethod
    def from_config(cls: type[_Self], config: dict[str, Any]) -> _Self:
        """Create a loss scale from its config.

        Args:
            config: what `get_config` returned. Configs up to mpls 0.2 may have settings without
                effect: they are left out, and a warning says so.

        Returns:
            The loss scale.
        """
        return cls(**without_idle(config, f"{cls.__name__}.from_config", skips=True))

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
        return usable_growth_steps(self._increment_period, _largest_of(dtype))

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

    def _dynamic_scale_for(self, method: str) -> DynamicLossScale:
        del method
        return self

    def _setting(self, name: str) -> Any:
        """Return a setting, which a checkpoint may have changed, by the name of its argument."""
        now = current_settings(self)
        numbers = now.settings.numbers(now.growth_steps, self._multiplier)
        return numbers[name] if name in numbers else getattr(now.settings, name)

    def _set_scale(self, scale: SupportsFloat, session: Any) -> None:
        value = to_number(scale, "set_scale: scale")
        with in_graph_of(session), self._lock:
            require_used_here(self, session, "set_scale")
            bounds = self._read_numbers(session, "set_scale")
            least, most = bounds["min_scale"], bounds["max_scale"]
            if not least <= value <= most:
                constraint = f"be from {least:g} to {most:g}, the bounds"
                advice = "Change min_scale and max_scale first: configure(min_scale=...)"
                raise ArgumentValueError(_error("set_scale: scale", constraint, scale, advice))
            # A scale that the user sets ends the search.
            ended = {SEARCH_STEPS: SEARCH_OVER} if self._searches else {}
            self._write_values({**self._begun_with(value), **ended}, session, "set_scale")
            self._times_set += 1

    def _configure(self, given: Mapping[str, Any], session: Any) -> None:
        """Change settings, by the names of the arguments of `configure`; None leaves one as it is."""
        wanted, steps = _without(dict(given), "growth_steps"), given["growth_steps"]
        if steps is not None:
            steps = to_whole(steps, f"{_SUBJECT}: growth_steps", "growth_steps=2000", _ANCHOR)
        with in_graph_of(session), self._lock:
            require_used_here(self, session, _SUBJECT)
            self._change(steps, wanted, session)

    def _change(self, growth_steps: int | None, wanted: Mapping[str, Any], session: Any) -> None:
        self._require_adjustable()
        numbers = self._read_numbers(session, _SUBJECT)
        settings = self._scale_settings
        if settings.adjustable:
            settings = dataclasses.replace(settings, **_without(numbers, "growth_steps"))
        settings = checked_settings(_SUBJECT, None, wanted, settings)
        if settings.counts_bad_steps and not self._counts_bad_steps:
            raise CallOrderError(
                _text("hysteresis is a setting that nothing counts for", "hysteresis=2 or adjustable=True")
            )
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
            changes.update(settings.numbers(steps, self._multiplier))
        # Where the write is refused, nothing has changed.
        self._write_values(changes, session, _SUBJECT)
        self._times_set += CURRENT_SCALE in changes
        self._has_counted_bad_steps = self._counts_bad_steps
        self._scale_settings, self._initial_loss_scale = settings, initial
        if growth_steps is not None:
            self._increment_period = growth_steps

    def _require_adjustable(self) -> None:
        if not self._scale_settings.adjustable and (self._is_built_in or graph_key() is not None):
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
            raise SavedStateError(_error(f"{subject}: growth_steps", constraint, given["growth_steps"], advice))
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
            f"has, call configure({kept}) after it is restored. See mpls docs bounds-and-dynamics",
            MplsWarning,
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

    def _read_state_dict(self, session: Any) -> dict[str, Any]:
        scale, good_steps = self._read_values(STATE, session).values()
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
        given = state if isinstance(state, Mapping) else {}
        own = {name: value for name, value in settings.items() if name in SCALE_OPTIONS}
        others = {name for name, value in own.items() if given.get(name, value) != value}
        state, surplus = without_surplus(state, {*names, *settings} - others)
        scale, good_steps = checked_dynamic(state, settings, optional=names)
        found = checked_extras(state, {name: self._created_weight(name) for name in extras})
        self._require_usable_numbers(found, "load_state_dict", session)
        weights = {name: weight for name, weight in self._weights_here().items() if name not in (*STATE, *extras)}
        values = checked_weights(state, weights)
        warn_of_surplus(surplus)
        self._write_values({CURRENT_SCALE: scale, GOOD_STEPS: good_steps, **found}, session)
        write_values(weights, values, session)
        self._times_set += 1

    def _settings(self) -> dict[str, Any]:
        """Return the settings that are constants, by their keys in a state."""
        settings = {GROWTH_STEPS: self._increment_period, MULTIPLIER: self._multiplier}
        changed = self._scale_settings.changed()
        return {name: value for name, value in {**settings, **changed}.items() if name not in self._initial_extras()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Graphs and functions are built with the original of a copy.
        vars(self).update({**state, "_is_built_in": False})

    def __repr__(self) -> str:
        now = current_settings(self)
        state, initial = "", AUTO if self._searches else now.initial_scale
        if tf.executing_eagerly():
            weights = self._weights_here()
            scale, good_steps = now.initial_scale, 0
            if GOOD_STEPS in weights:
                scale, good_steps = weights[CURRENT_SCALE].numpy(), weights[GOOD_STEPS].numpy()
            state = f"current_loss_scale={scale}, num_good_steps={good_steps}, "
        return (
            f"DynamicLossScale({state}initial_loss_scale={initial}, "
            f"increment_period={now.growth_steps}, multiplier={self._multiplier}"
            + "".join(f", {name}={value}" for name, value in now.settings.changed().items())
            + ")"
        )


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return one of two scalars, as `tf.where` does; a Python number takes the dtype of the tensor beside it.

    Args:
        condition: scalar boolean tensor.
        if_true: scalar tensor or Python number.
        if_false: the same.
    """
    dtype = next((value.dtype for value in (if_true, if_false) if tf.is_tensor(value)), None)
    values = [value if dtype is None else tf.cast(value, dtype) for value in (if_true, if_false)]
    return tf.where(condition, *values)


# `dtype.max` takes as long as an op in eager mode.
@functools.cache
def _largest_of(dtype: Any) -> int:
    return int(dtype.max)


def growth_steps_for_files(loss_scale: Any) -> int | None:
    """Return the growth steps that a dynamic loss scale's saved count must not exceed, or None for any."""
    if isinstance(loss_scale, DynamicLossScale):
        return loss_scale._growth_steps_for_files
    return int(loss_scale.increment_period)


class CurrentSettings(NamedTuple):
    """What the constructor of a dynamic loss scale takes; `settings` are those that the originals had not."""

    initial_scale: float
    growth_steps: int
    settings: ScaleSettings


def current_settings(loss_scale: DynamicLossScale) -> CurrentSettings:
    """Return the settings of a `DynamicLossScale`, which a checkpoint or `load_state_dict` may have brought.

    In a graph, the values of variables are not known; the settings are those that Python code passed last.
    """
    settings, initial = loss_scale._scale_settings, loss_scale._initial_loss_scale
    growth_steps = loss_scale._increment_period
    if settings.adjustable and tf.executing_eagerly() and NUMBERS[0] in loss_scale._weights_here():
        # A setting whose variable still has the initial value stays as it was passed: a factor as None, growth steps
        # beyond int64.
        passed = {
            name: float(np.float32(value)) if isinstance(value, float) else value
            for name, value in loss_scale._numbers().items()
        }
        found = loss_scale._read_numbers(None, "get_config")
        changed = {name: value for name, value in found.items() if value != passed[name]}
        growth_steps = changed.pop(NUMBERS[0], growth_steps)
        settings = dataclasses.replace(settings, **changed)
        initial = min(max(initial, settings.min_scale), settings.max_scale)
    return CurrentSettings(initial, growth_steps, settings)
