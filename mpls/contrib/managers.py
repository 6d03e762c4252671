"""Loss scale managers, which decide on the scale of a contrib optimizer; users may subclass them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsInt

import tensorflow as tf

from mpls.core.dynamic import checked_settings, select
from mpls.core.numbers import to_float, to_int, to_usable
from mpls.core.rule import ScaleState, UpdateRule, next_state
from mpls.core.state_checks import (
    SavedObject,
    check_fixed,
    examine,
    require_dtype,
    require_dynamic,
    require_keys,
    require_same,
    warn_of_surplus,
    without_surplus,
)
from mpls.core.step_options import ReadOnly, explained_arguments, read_only
from mpls.core.weights import KeepsState, Lock, TrackableBase, plain, read_values, write_values
from mpls.errors import ArgumentTypeError, ArgumentValueError, UndefinedMethodError, error_text
from mpls.formats.state_dicts import (
    DYNAMIC,
    GOOD_STEPS,
    GROWTH_STEPS,
    INITIAL_SCALE,
    SCALE,
    SHRINK_RATIO,
    SHRINK_STEPS,
    fixed_state,
)
from mpls.formats.validity import check_count, check_good_steps, check_scale, is_number
from mpls.formats.wrapper_state import BAD_STEPS, CURRENT_SCALE, MULTIPLIER, STATE_OF_MANAGERS
from mpls.upstream.trackables import AutoTrackable, track

# The arguments of a manager, by the names that they have elsewhere.
ARGUMENTS = {
    "min_scale": "min_scale",
    "max_scale": "max_scale",
    "consecutive_hysteresis": "consecutive_hysteresis",
    "growth_factor": "incr_ratio",
    "multiplier": "incr_ratio",
    "backoff_factor": "decr_ratio",
    "hysteresis": "decr_every_n_nan_or_inf",
    "initial_scale": "init_loss_scale",
    "initial_loss_scale": "init_loss_scale",
    "growth_steps": "incr_every_n_steps",
    "dynamic_growth_steps": "incr_every_n_steps",
    "increment_period": "incr_every_n_steps",
}
# The names of the variables in a `tf.train.Checkpoint`, those of `mpls.v1`, by the keys of a state.
_NAMES_IN_CHECKPOINTS = {SCALE: CURRENT_SCALE, GOOD_STEPS: GOOD_STEPS, BAD_STEPS: BAD_STEPS}
_PLACES = {name: f"{own}={{!r}}" for name, own in ARGUMENTS.items() if name != own}


def _bound(name: str, doc: str) -> ReadOnly:
    return read_only(name, lambda manager: getattr(manager._bounds, name), doc)


if TYPE_CHECKING:
    _Base = TrackableBase
else:
    _Base = AutoTrackable


class LossScaleManager(KeepsState, _Base, metaclass=abc.ABCMeta):
    """Base class of loss scale managers; subclass it to write your own.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.contrib
        >>> class Constant(mpls.contrib.LossScaleManager):
        ...     def get_loss_scale(self):
        ...         return tf.constant(8.0)
        ...     def update_loss_scale(self, finite_grads):
        ...         return tf.no_op()
        >>> float(Constant().get_loss_scale())
        8.0

    A `tf.train.Checkpoint` of the optimizer has the variables that are attributes of the manager.

    Reproduces:
        `tf.contrib.mixed_precision.LossScaleManager`, TF 1.13 to 1.15.
    """

    @abc.abstractmethod
    def get_loss_scale(self) -> Any:
        """Return the current loss scale, a scalar float32 tensor or variable."""

    @abc.abstractmethod
    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Update the loss scale after a step.

        Args:
            finite_grads: scalar boolean tensor, whether all gradients of the step are finite.

        Returns:
            In a graph, the op that updates it; in eager mode None.
        """

    def _read_state_dict(self, session: Any) -> dict[str, Any]:
        del session
        raise UndefinedMethodError(f"{type(self).__name__} defines no state_dict. See mpls docs contrib")

    def _write_state_dict(self, state: Mapping[str, Any], session: Any) -> None:
        del state, session
        raise UndefinedMethodError(f"{type(self).__name__} defines no load_state_dict. See mpls docs contrib")


class FixedLossScaleManager(LossScaleManager):
    """A loss scale that does not change. The optimizer skips steps with non-finite gradients nevertheless.

    Examples:
        >>> import mpls.contrib
        >>> float(mpls.contrib.FixedLossScaleManager(128).get_loss_scale())
        128.0

    Args:
        loss_scale: the scale, from 1 to 2**126; a Python or NumPy number.

    Raises:
        TypeError: `loss_scale` is not a number.
        ValueError: it is below 1, above 2**126, or NaN.

    Reproduces:
        `tf.contrib.mixed_precision.FixedLossScaleManager`, TF 1.13 to 1.15, which accepted NaN and infinity.
    """

    def __init__(self, loss_scale: SupportsFloat) -> None:
        subject = "FixedLossScaleManager: loss_scale"
        advice = "FixedLossScaleManager(128.0)"
        if not is_number(loss_scale):
            raise ArgumentTypeError(error_text(subject, "be a number", loss_scale, advice, "contrib"))
        if to_float(loss_scale, subject) < 1:
            raise ArgumentValueError(error_text(subject, "be at least 1", loss_scale, advice, "contrib"))
        self._loss_scale = to_usable(loss_scale, subject, is_fixed=True)
        self._is_unread = True

    def get_loss_scale(self) -> Any:
        """Return the loss scale, a scalar float32 tensor."""
        self._is_unread = False
        # Made at each call, so that it belongs to the graph in which it is used.
        return tf.convert_to_tensor(self._loss_scale, tf.float32)

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Do nothing.

        Args:
            finite_grads: ignored.

        Returns:
            In a graph, an op that does nothing; in eager mode None.
        """
        del finite_grads
        return tf.no_op()

    def _read_state_dict(self, session: Any) -> dict[str, Any]:
        del session
        return fixed_state(self._loss_scale)

    def _write_state_dict(self, state: Mapping[str, Any], session: Any) -> None:
        del session
        check_fixed(state, self._loss_scale)


class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A loss scale that grows after steps with finite gradients, and shrinks after steps with non-finite gradients.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.contrib
        >>> manager = mpls.contrib.ExponentialUpdateLossScaleManager(16.0, incr_every_n_steps=2)
        >>> for finite in (False, False, True, True):
        ...     manager.update_loss_scale(tf.constant(finite))
        ...     print(round(float(manager.get_loss_scale()), 4))
        16.0
        12.8
        12.8
        25.6

    After `incr_every_n_steps` finite steps in a row, the scale is multiplied by `incr_ratio`, unless the product is
    infinite in float32. After `decr_every_n_nan_or_inf` non-finite steps, the scale is multiplied by `decr_ratio`, but
    does not fall below 1. These steps need not be in a row. A growth of the scale resets their count.

    Args:
        init_loss_scale: the scale of the first step, positive.
        incr_every_n_steps: number of finite steps in a row after which the scale grows.
        decr_every_n_nan_or_inf: number of non-finite steps after which the scale shrinks.
        incr_ratio: the factor by which the scale grows.
        decr_ratio: the factor by which the scale shrinks.
        min_scale: as in `mpls.keras`.
        max_scale: as in `mpls.keras`.
        consecutive_hysteresis: as in `mpls.keras`.

    Raises:
        ValueError: a scale or a ratio is NaN, infinite, zero or negative; `incr_ratio` is below 1 or `decr_ratio` above
            1; or the bounds exclude each other or the initial scale.
        TypeError: an argument has a wrong type.

    Reproduces:
        `tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager`, TF 1.13 to 1.15. TensorFlow does not have the
        arguments after `decr_ratio`.
    """

    min_scale: ReadOnly = _bound("min_scale", "The number below which the scale does not shrink, a float; read-only.")
    max_scale: ReadOnly = _bound("max_scale", "The number above which the scale does not grow, a float; read-only.")
    consecutive_hysteresis: ReadOnly = _bound(
        "consecutive_hysteresis", "Whether non-finite steps must be in a row; read-only."
    )
    # As of `DynamicLossScale`.
    _times_set = 0
    _loss_scale: Any
    _num_good_steps: Any
    _num_bad_steps: Any

    @explained_arguments("ExponentialUpdateLossScaleManager", _PLACES, "contrib")
    def __init__(
        self,
        init_loss_scale: SupportsFloat,
        incr_every_n_steps: SupportsInt,
        decr_every_n_nan_or_inf: SupportsInt = 2,
        incr_ratio: SupportsFloat = 2,
        decr_ratio: SupportsFloat = 0.8,
        *,
        min_scale: SupportsFloat | None = None,
        max_scale: SupportsFloat | None = None,
        consecutive_hysteresis: bool | None = None,
    ) -> None:
        self._incr_every_n_steps = to_int(incr_every_n_steps, _subject_of("incr_every_n_steps"))
        self._decr_every_n_nan_or_inf = to_int(decr_every_n_nan_or_inf, _subject_of("decr_every_n_nan_or_inf"))
        self._incr_ratio = _usable("incr_ratio", incr_ratio)
        if self._incr_ratio < 1:
            raise _error("incr_ratio", "be at least 1", incr_ratio, "incr_ratio=2")
        self._decr_ratio = _usable("decr_ratio", decr_ratio)
        if self._decr_ratio > 1:
            raise _error("decr_ratio", "be at most 1", decr_ratio, "decr_ratio=0.5")
        self._init_loss_scale = _usable("init_loss_scale", init_loss_scale)
        given = {"min_scale": min_scale, "max_scale": max_scale, "consecutive_hysteresis": consecutive_hysteresis}
        self._bounds = checked_settings("ExponentialUpdateLossScaleManager", self._init_loss_scale, given)
        if self._bounds.consecutive_hysteresis and self._decr_every_n_nan_or_inf <= 1:
            constraint = "be left out with a decr_every_n_nan_or_inf of 1, where each such step shrinks the scale"
            advice = "Pass decr_every_n_nan_or_inf=2 with it"
            raise _error("consecutive_hysteresis", constraint, consecutive_hysteresis, advice)
        scale, good_steps = STATE_OF_MANAGERS
        # Not by `__setattr__`, which would track them under these names.
        vars(self).update(
            _loss_scale=_made_variable(scale, self._init_loss_scale, tf.float32),
            _num_good_steps=_made_variable(good_steps, 0, tf.int32),
            _num_bad_steps=_made_variable(BAD_STEPS, 0, tf.int32),
        )
        for name, variable in self._variables().items():
            track(self, variable, _NAMES_IN_CHECKPOINTS[name])
        self._lock = Lock()
        self._is_unread = True

    def get_loss_scale(self) -> Any:
        """Return the loss scale, a scalar float32 variable."""
        self._is_unread = False
        return self._loss_scale

    def _reset_stats(self) -> Any:
        return tf.group(self._num_good_steps.assign(0), self._num_bad_steps.assign(0))

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Count the step, and multiply the scale if growing or shrinking is due.

        Args:
            finite_grads: scalar boolean tensor, whether all gradients of the step are finite.

        Returns:
            In a graph, a scalar boolean tensor whose evaluation updates the state, and which is true if growing or
            shrinking was due; in eager mode None.
        """
        variables = [self._loss_scale, self._num_good_steps, self._num_bad_steps]
        rule = UpdateRule(
            growth_steps=self._incr_every_n_steps,
            multiplier=self._incr_ratio,
            shrink_ratio=self._decr_ratio,
            min_scale=self._bounds.min_scale,
            max_scale=self._bounds.max_scale,
            shrink_steps=self._decr_every_n_nan_or_inf,
            shrink_steps_in_a_row=self._bounds.consecutive_hysteresis,
        )
        # In eager mode, another thread must not read the state between this read and the assignments.
        with self._lock:
            before = ScaleState(*map(tf.convert_to_tensor, variables))
            after = next_state(before, finite_grads, rule, select)
            assigned = [variable.assign(value) for variable, value in zip(variables, after[:3], strict=True)]
        if tf.executing_eagerly():
            return None
        with tf.control_dependencies(assigned):
            return tf.equal(select(finite_grads, after.good_steps, after.bad_steps), 0)

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
            # A larger count than that of this manager shrinks the scale at the next non-finite step.
            BAD_STEPS: check_count,
        }

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        examine(self, self._check_saved_object)
        return super()._trackable_children(save_type, **kwargs)

    def _check_saved_object(self, node: SavedObject) -> None:
        for name, check in self._checks().items():
            held = node.child(_NAMES_IN_CHECKPOINTS[name])
            if held is not None:
                check(held.value(), held.subject)
        require_dtype(node, self._num_good_steps)

    def _saved_numbers(self) -> list[tuple[Any, float, Callable[[Any, str], float]]]:
        """Return the variables, each with its initial value and the function that checks a value from a file."""
        initial = {SCALE: self._init_loss_scale, GOOD_STEPS: 0, BAD_STEPS: 0}
        return [(each, initial[name], self._checks()[name]) for name, each in self._variables().items()]


def _subject_of(argument: str) -> str:
    """Return how errors name an argument."""
    return f"ExponentialUpdateLossScaleManager: {argument}"


def _usable(argument: str, value: Any) -> float:
    """Return an argument as a float.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not positive, or no float32.
    """
    return to_usable(value, _subject_of(argument))


def _error(argument: str, constraint: str, got: Any, advice: str) -> ArgumentValueError:
    return ArgumentValueError(error_text(_subject_of(argument), constraint, got, advice, "contrib"))


def _made_variable(name: str, value: float, dtype: Any) -> Any:
    """Make a variable outside of functions and control flow."""
    with tf.init_scope():
        return tf.compat.v1.Variable(value, name=name, dtype=dtype, trainable=False, use_resource=True)
