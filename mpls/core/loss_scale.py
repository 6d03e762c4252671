"""Loss scales: their base class, the fixed one, and a scale that is read once for a step."""

from __future__ import annotations

import abc
import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeVar

import tensorflow as tf

from mpls.core.autograph import as_written
from mpls.core.fast import group
from mpls.core.gradients import finite_at_once, largest_scale, scale_loss
from mpls.core.numbers import to_bool, to_float, to_usable
from mpls.core.replicas import (
    call_in_cross_replica_context,
    decide_together,
    finite_when_summed,
    merges_in_replica_context,
)
from mpls.core.state_checks import (
    check_fixed,
    checked_weights,
    require_keys,
    require_same,
    warn_of_surplus,
    without_surplus,
)
from mpls.core.step_options import ReadOnly, explained_arguments, read_only
from mpls.core.weights import GraphLocal, KeepsState, Lock, Stateful, Weights, plain, write_values
from mpls.errors import ArgumentValueError, MplsWarning, advise_user, error_text
from mpls.formats.state_dicts import CLASS_NAME, WEIGHTS, fixed_state
from mpls.formats.validity import is_number
from mpls.formats.wrapper_state import DEFAULT_MIN_SCALE, LOSS_SCALE_VALUE
from mpls.upstream.tensorflow import fixed_value_of, native_v1_class
from mpls.upstream.trackables import Trackable

# Pickles that earlier versions wrote name these modules.
sys.modules.update({f"mpls.core.{name}": sys.modules[__name__] for name in ("abstract", "program_calls")})

# Pickles that earlier versions wrote hold an instance of it.
ProgramCalls = GraphLocal


def read(loss_scale: Any) -> Any:
    """Return the value of a loss scale for an optimizer, which is no read of the program."""
    is_unread = is_known_unread(loss_scale)
    value = loss_scale()
    if is_unread:
        loss_scale._is_unread = True
    return value


def is_known_unread(loss_scale: Any) -> bool:
    """Return whether a program never read a loss scale; False if its reads are not recorded."""
    return getattr(loss_scale, "_is_unread", False)


def recognition_base(name: str) -> Any:
    """Return TensorFlow's own class of that name, as a base class that is there for `isinstance` only.

    Every method that it defines is overridden. Where TensorFlow no longer has the class, return an empty one.
    """
    return native_v1_class(name) or type(name, (Trackable,), {})


NativeLossScale: Any = recognition_base("LossScale")
_NativeFixedLossScale: Any = recognition_base("FixedLossScale")
NativeDynamicLossScale: Any = recognition_base("DynamicLossScale")


if TYPE_CHECKING:
    _Base = object
else:
    _Base = NativeLossScale


_Self = TypeVar("_Self", bound="LossScale")


def _do_nothing(is_applied: bool) -> None:
    """Leave the state alone, whatever becomes of the step."""


@dataclass(frozen=True)
class StepDecision:
    """What a loss scale says about a step.

    Attributes:
        should_apply: scalar boolean tensor, the same for all replicas, or Python bool: whether to apply the gradients.
        advance: updates the state; called in the branch that applies with True and in the one that skips with False.
            Returns an op, or None.
        update_op: an op that updates the state in either case; None where there is nothing else to run.
    """

    should_apply: Any
    advance: Callable[[bool], Any] = _do_nothing
    update_op: Any = None


class LossScale(KeepsState, Stateful, _Base, metaclass=abc.ABCMeta):
    """Base class of loss scales; subclass it to write your own.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> class Halving(mpls.v1.LossScale):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self._value = self._add_weight("value", 1024.0, tf.float32)
        ...     def __call__(self):
        ...         return tf.convert_to_tensor(self._value)
        ...     def update(self, grads):
        ...         self._value.assign(self._value / 2)
        ...         return None, True
        ...     def get_config(self):
        ...         return {}
        >>> scale = Halving()
        >>> _ = scale.update([])
        >>> float(scale())
        512.0

    A subclass calls `super().__init__()`, creates its state with `_add_weight`, and defines `__call__`, `update` and
    `get_config`. Optimizers of mpls call `update` once a step for every subclass, and obey what it returns.

    Reproduces:
        `tf.compat.v1.train.experimental.LossScale`, TF 1.14 to 2.21, and
        `tf.mixed_precision.experimental.LossScale`, TF 2.1 to 2.8. There, optimizers called `update` only for
        `DynamicLossScale` and silently ignored it for other subclasses.
    """

    # Users' subclasses may define a constructor that does not call this one.
    _skips_in_a_row = 0
    _has_told_of_skips = False
    # Whether the program has never read the scale, and so cannot scale by itself.
    _is_unread = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__call__" in vars(cls):
            # A subclass of the user's that reads the scale in its own way does not record it.
            cls._is_unread = vars(cls).get("_is_unread", False)

    def __init__(self) -> None:
        self._variables = Weights()
        self._lock = Lock()

    @abc.abstractmethod
    def __call__(self) -> tf.Tensor:
        """Return the current loss scale.

        Returns:
            Scalar float32 tensor.
        """

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, tf.Tensor | bool]:
        """Update the loss scale for a step that produced these gradients.

        Args:
            grads: nested structure of unscaled gradients, tensors or `tf.IndexedSlices` of any float dtype; None
                entries are ignored.

        Returns:
            `(update_op, should_apply)`. `update_op` updates the state; in eager mode it is None, and the call has
            updated the state. `should_apply` is a scalar boolean tensor or Python bool, False if the step must be
            skipped.
        """

    def _never_skips(self) -> bool:
        """Return whether every step is applied, so that the loss scale need not be asked about any."""
        return False

    def _floor(self) -> Any:
        """Return the scale below which it does not fall, a number or a scalar tensor; that of the originals."""
        return DEFAULT_MIN_SCALE

    def _decide_step(self, grads: Any, *, when_summed: bool, are_same: bool) -> StepDecision:
        """Return what `scaled_step` does with the gradients of a step: what `update` says.

        Args:
            grads: the gradients, None among them; those of the caller's replica, or per-replica values.
            when_summed: whether the sums over replicas, which are computed later, have to be finite too.
            are_same: whether all replicas are known to have the same gradients.
        """
        del when_summed, are_same
        update_op, should_apply = self.update(grads)
        return StepDecision(should_apply, update_op=update_op)

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments that recreate this loss scale, as plain numbers."""

    @classmethod
    def from_config(cls: type[_Self], config: dict[str, Any]) -> _Self:
        """Create a loss scale from its config.

        Args:
            config: what `get_config` returned.

        Returns:
            The loss scale.
        """
        return cls(**config)

    def _read_state_dict(self, session: Any) -> dict[str, Any]:
        return {CLASS_NAME: type(self).__name__, **self._read_weights(session, without=())}

    def _write_state_dict(self, state: Mapping[str, Any], session: Any) -> None:
        state, surplus = without_surplus(state, ())
        require_keys(state, {WEIGHTS}, {CLASS_NAME})
        require_same(state, {CLASS_NAME: type(self).__name__})
        weights = self._weights_here()
        values = checked_weights(state, weights)
        warn_of_surplus(surplus)
        write_values(weights, values, session)


if TYPE_CHECKING:
    _FixedBase = object
else:
    _FixedBase = _NativeFixedLossScale


class FixedLossScale(LossScale, _FixedBase):
    """A loss scale that never changes, and skips no step unless `skip_nonfinite` is set.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> scale = mpls.v1.FixedLossScale(128)
        >>> float(scale())
        128.0
        >>> scale.update([tf.constant(float("nan"))])
        (None, True)
        >>> scale = mpls.v1.FixedLossScale(128, skip_nonfinite=True)
        >>> bool(scale.update([tf.constant(float("nan"))])[1])
        False

    Args:
        loss_scale_value: the scale, from 1 to 2**126; a Python or NumPy number.
        skip_nonfinite: as in `mpls.keras`.

    Raises:
        ValueError: `loss_scale_value` is not a number from 1 to 2**126.
        TypeError: `skip_nonfinite` is not a bool.

    Reproduces:
        `tf.compat.v1.train.experimental.FixedLossScale`, TF 1.14 to 2.21, which refused NumPy numbers, and accepted NaN
        and scales so large that every gradient became zero. `skip_nonfinite` is of mpls.
    """

    _skip_nonfinite = False
    _is_unread = True

    @explained_arguments("FixedLossScale", {"initial_scale": "loss_scale_value={!r}"}, "fixed-scales")
    def __init__(self, loss_scale_value: SupportsFloat, *, skip_nonfinite: bool = False) -> None:
        super().__init__()
        subject = "FixedLossScale: loss_scale_value"
        if not is_number(loss_scale_value):
            raise ArgumentValueError(
                error_text(
                    subject,
                    "be a Python or NumPy number",
                    loss_scale_value,
                    "FixedLossScale(128.0)",
                    "fixed-scales",
                )
            )
        if to_float(loss_scale_value, subject) < 1:
            raise ArgumentValueError(
                error_text(
                    subject,
                    "be at least 1",
                    loss_scale_value,
                    "Use FixedLossScale(1.0) for no scaling",
                    "fixed-scales",
                )
            )
        self._loss_scale_value = to_usable(loss_scale_value, subject, is_fixed=True)
        self._skip_nonfinite = to_bool(skip_nonfinite, "FixedLossScale: skip_nonfinite", "fixed-scales")

    @classmethod
    def _unbounded(cls, value: float, *, skip_nonfinite: bool = False) -> FixedLossScale:
        """Return a fixed loss scale without the lower bound of 1, which the Keras wrappers do not have."""
        loss_scale = cls.__new__(cls)
        LossScale.__init__(loss_scale)
        loss_scale._loss_scale_value = value
        loss_scale._skip_nonfinite = skip_nonfinite
        return loss_scale

    skip_nonfinite: ReadOnly = read_only(
        "skip_nonfinite",
        lambda loss_scale: loss_scale._skip_nonfinite,
        "Whether steps with non-finite gradients are to be skipped, a Python bool.",
    )

    @as_written
    def __call__(self) -> tf.Tensor:
        """Return the loss scale as a scalar float32 tensor, always the same number."""
        self._is_unread = False
        # A new constant at each call: it belongs to the graph and the device of the caller.
        return tf.constant(self._loss_scale_value, tf.float32)

    @as_written
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Change nothing, and say whether to apply the step.

        Args:
            grads: nested structure of unscaled gradients; ignored unless `skip_nonfinite` is set.

        Returns:
            `(op, should_apply)`: an op that does nothing, None in eager mode; and True, or with `skip_nonfinite` a
            scalar boolean tensor, whether all gradients are finite, on all replicas.
        """
        if not self._skip_nonfinite:
            return tf.no_op(), True
        return tf.no_op(), decide_together(grads, lambda finite: (finite,))[0]

    def _decide_step(self, grads: Any, *, when_summed: bool, are_same: bool) -> StepDecision:
        if not self._skip_nonfinite or type(self).update is not FixedLossScale.update:
            return super()._decide_step(grads, when_summed=when_summed, are_same=are_same)
        are_finite = finite_when_summed if when_summed else finite_at_once
        return StepDecision(*decide_together(grads, lambda finite: (finite,), are_finite, are_same=are_same))

    def _never_skips(self) -> bool:
        # A user's subclass that overrides `update` decides by it.
        return type(self).update is FixedLossScale.update and not self._skip_nonfinite

    def _floor(self) -> float:
        return self._loss_scale_value

    def get_config(self) -> dict[str, Any]:
        """Return `{'loss_scale_value': float}`, and `'skip_nonfinite'` where it is set."""
        skips = {"skip_nonfinite": True} if self._skip_nonfinite else {}
        return {LOSS_SCALE_VALUE: self._loss_scale_value, **skips}

    def _read_state_dict(self, session: Any) -> dict[str, Any]:
        others = self._read_weights(session, without=())
        return {**fixed_state(float(self._loss_scale_value)), **(others if others[WEIGHTS] else {})}

    def _write_state_dict(self, state: Mapping[str, Any], session: Any) -> None:
        check_fixed(state, float(self._loss_scale_value), optional=[WEIGHTS])
        weights = self._weights_here()
        write_values(weights, checked_weights(state, weights), session)

    def __repr__(self) -> str:
        skips = ", skip_nonfinite=True" if self._skip_nonfinite else ""
        return f"FixedLossScale({self._loss_scale_value}{skips})"


def is_loss_scale(value: Any) -> bool:
    """Return whether the value is a loss scale of any class, of mpls or of TensorFlow itself."""
    return isinstance(value, NativeLossScale)


def is_fixed(loss_scale: Any) -> bool:
    """Return whether a loss scale is a `FixedLossScale`, of mpls or of TensorFlow itself."""
    return isinstance(loss_scale, _NativeFixedLossScale)


def is_dynamic(loss_scale: Any) -> bool:
    """Return whether a loss scale is a `DynamicLossScale`, of mpls or of TensorFlow itself."""
    return isinstance(loss_scale, NativeDynamicLossScale)


def never_skips(loss_scale: Any) -> bool:
    """Return whether a loss scale is fixed, applies all steps, and is of a class that does not override `update`."""
    if isinstance(loss_scale, LossScale):
        return loss_scale._never_skips()
    # TensorFlow's own class says it by its type only; a user's subclass of it may decide by its `update`.
    return is_fixed(loss_scale) and type(loss_scale).update is _NativeFixedLossScale.update


def changes_nothing(loss_scale: Any) -> bool:
    """Return whether a loss scale is always 1 and applies all steps, so that a program may leave it out."""
    return never_skips(loss_scale) and fixed_value_of(loss_scale) == 1


def floor_of(loss_scale: Any) -> Any:
    """Return the scale below which a loss scale does not fall, a number or a scalar tensor."""
    if isinstance(loss_scale, LossScale):
        return loss_scale._floor()
    return fixed_value_of(loss_scale) if is_fixed(loss_scale) else DEFAULT_MIN_SCALE


def variables_of(loss_scale: Any) -> list[Any]:
    """Return the variables of a loss scale in the current graph, or in eager mode; none of a class of TensorFlow."""
    return list(loss_scale._weights_here().values()) if isinstance(loss_scale, LossScale) else []


# How many steps in a row are skipped before a warning: where the scale cannot fall, and where it falls.
_FEW_SKIPS, _MANY_SKIPS = 3, 20


def note_applied(loss_scale: Any) -> None:
    """Note that a step is applied, for `tell_of_skips`."""
    if isinstance(loss_scale, LossScale) and loss_scale._skips_in_a_row:
        loss_scale._skips_in_a_row = 0


def tell_of_skips(loss_scale: Any) -> None:
    """Note that a step was skipped in eager mode; warn once if many were in a row, or the scale cannot fall any more.

    In a graph this would take ops in each step, where `max_consecutive_skips` asks for them.
    """
    if not isinstance(loss_scale, LossScale):
        return
    loss_scale._skips_in_a_row = skips = loss_scale._skips_in_a_row + 1
    if loss_scale._has_told_of_skips or skips < _FEW_SKIPS:
        return
    scale = float(plain(read(loss_scale)))
    is_at_floor = scale <= float(loss_scale._floor())
    if not is_at_floor and skips < _MANY_SKIPS:
        return
    loss_scale._has_told_of_skips = True
    of_scale = "has reached its floor" if is_at_floor else "has fallen each time"
    advise_user(
        f"LossScaleOptimizer: the last {skips} steps were all skipped, as gradients were infinite or NaN, and the loss "
        f"scale {of_scale}: it is {scale:g}. Nothing is learned in such steps. Pass max_consecutive_skips=20: the "
        "optimizer then stops, and says why. See mpls docs the-scale-is-stuck-at-its-floor",
        MplsWarning,
    )


def decide_step(loss_scale: Any, grads: Any, *, when_summed: bool, are_same: bool) -> StepDecision:
    """Ask a loss scale, of mpls or of TensorFlow itself, about a step; see `LossScale._decide_step`."""
    # TensorFlow's own classes have `update`, and nothing else is asked of them.
    cls = type(loss_scale) if isinstance(loss_scale, LossScale) else LossScale
    return cls._decide_step(loss_scale, grads, when_summed=when_summed, are_same=are_same)


# The name of the variable.
STEP_SCALE = "step_scale"


class LossScaling:
    """A loss scale read once, so that the gradients are divided by the number that multiplied the loss.

    A fixed scale that is infinite in the loss's dtype would make every step overflow; it is lowered to the largest
    power of two that the dtype holds. A dynamic scale is used as it is, since it shrinks by itself.

    Attributes:
        scale: scalar float32 tensor to divide the gradients by; final once the loss has been computed.
    """

    def __init__(self, loss_scale: LossScale) -> None:
        self._loss_scale = loss_scale
        self.scale: Any = read(loss_scale)

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss, or the callable that computes it, multiplied by the scale."""
        return scale_loss(loss, self._scale_for)

    def _scale_for(self, dtype: Any) -> Any:
        if exceeds(self._loss_scale, dtype):
            self.scale = tf.constant(largest_scale(dtype), tf.float32)
        return self.scale


class StepScale(Stateful):
    """The value of a shared loss scale for one of the optimizers that share it, which changes with its own steps only.

    So the number that multiplies a loss divides its gradients, whatever steps the other optimizers take in between, and
    in whichever function, graph or thread the two happen.

    Args:
        loss_scale: the shared loss scale.
    """

    def __init__(self, loss_scale: Any) -> None:
        self._variables = Weights()
        self._lock = Lock()
        self._loss_scale = loss_scale
        self._times_set = self._times_set_now()
        if tf.distribute.has_strategy() and not is_fixed(loss_scale):
            # A first step inside a replica cannot create it where `merge_call` is forbidden.
            self._created_weight(STEP_SCALE)

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        # In a graph, the shared variable has no value before a session has run.
        is_eager = tf.executing_eagerly()
        initial = plain(self._loss_scale()) if is_eager else self._loss_scale.initial_loss_scale
        return {STEP_SCALE: (initial, tf.float32)}

    def _times_set_now(self) -> int:
        # TensorFlow's own classes cannot be set.
        return getattr(self._loss_scale, "_times_set", 0)

    def __call__(self) -> Any:
        """Return the value, a scalar float32 tensor."""
        if is_fixed(self._loss_scale):
            return self._loss_scale()
        if tf.executing_eagerly() and self._times_set != self._times_set_now():
            self._follow()
        return tf.convert_to_tensor(self._created_weight(STEP_SCALE))

    def after(self, step: Any) -> Any:
        """Take over the shared value after a step of the optimizer.

        Args:
            step: the op of the step; None in eager mode.

        Returns:
            An op that does both; None in eager mode.
        """
        if is_fixed(self._loss_scale):
            return step
        with tf.control_dependencies([] if step is None else [step]):
            follows = self._follow() if merges_in_replica_context() else call_in_cross_replica_context(self._follow)
        return group(step, follows)

    def _follow(self) -> Any:
        self._times_set = self._times_set_now()
        return self._created_weight(STEP_SCALE).assign(self._loss_scale())


def exceeds(loss_scale: Any, dtype: Any) -> bool:
    """Return whether a loss scale is fixed at a value that is infinite in the loss's dtype."""
    return is_fixed(loss_scale) and dtype.is_floating and fixed_value_of(loss_scale) > _max_of(dtype)


# `dtype.max` takes longer than scaling a loss.
@functools.cache
def _max_of(dtype: Any) -> float:
    return float(dtype.max)
