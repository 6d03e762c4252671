"""The base class of loss scales: trackable state, of which each graph has its own."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import tensorflow as tf

from mpls.core.persistence.object_checkpoints import check_when_attached
from mpls.core.persistence.state_dict import (
    checked_weights,
    in_graph_of,
    require_keys,
    require_same,
    warn_of_surplus,
    without_surplus,
    write_values,
)
from mpls.core.program_calls import ProgramCalls
from mpls.core.weights import Lock, Stateful, Weights
from mpls.formats.state_dicts import CLASS_NAME, WEIGHTS
from mpls.formats.wrapper_state import DEFAULT_MIN_SCALE
from mpls.upstream.tensorflow import native_v1_class
from mpls.upstream.trackables import Trackable


def recognition_base(name: str) -> Any:
    """Return TensorFlow's own class of that name, as a base class that is there for `isinstance` only.

    Every method that it defines is overridden. Where TensorFlow no longer has the class, return an empty one.
    """
    return native_v1_class(name) or type(name, (Trackable,), {})


NativeLossScale: Any = recognition_base("LossScale")

if TYPE_CHECKING:
    from mpls.core.declared import Trackable as _Base
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


class LossScale(Stateful, _Base, metaclass=abc.ABCMeta):
    """Base class of loss scales; subclass it to write your own.

    A subclass calls `super().__init__()`, creates its state with `_add_weight`, and defines `__call__`, `update` and
    `get_config`. Optimizers of mpls call `update` once a step for every subclass, and obey what it returns.

    Reproduces:
        `tf.compat.v1.train.experimental.LossScale`, TF 1.14 to 2.21, and
        `tf.mixed_precision.experimental.LossScale`, TF 2.1 to 2.8. There, optimizers called `update` only for
        `DynamicLossScale` and silently ignored it for other subclasses.

    Example:
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
    """

    def __init__(self) -> None:
        check_when_attached(self)
        self._variables = Weights()
        self._lock = Lock()
        self._program_calls: ProgramCalls | None = ProgramCalls()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and unpickled objects do not run __init__.
        check_when_attached(self)
        self.__dict__.update(state)

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
            `(update_op, should_apply)`: the op that updates the state, or None in eager mode, where the state is
            updated when the call returns; and a scalar boolean tensor or Python bool, False when the step must be
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

    def state_dict(self, session: Any = None) -> dict[str, Any]:
        """Return the state as a small dict that `json` can write, for people who keep their own checkpoints.

        Args:
            session: in a v1 graph, the session that has the variables; by default the default one.

        Returns:
            `{'dynamic': True, 'scale': float, 'good_steps': int}` with the settings `'initial_scale'`,
            `'growth_steps'` and `'multiplier'` for a dynamic loss scale; `{'dynamic': False, 'scale': float}` for a
            fixed one; `{'class_name': str, 'weights': dict}` for one of a user's own class, with the values of its
            variables. Floats are exact.

        Raises:
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Example:
            >>> import mpls.v1
            >>> scale = mpls.v1.DynamicLossScale(8)
            >>> scale.state_dict()["scale"], scale.state_dict()["good_steps"]
            (8.0, 0)
        """
        with in_graph_of(session):
            return self._read_state_dict(session)

    def load_state_dict(self, state: Mapping[str, Any], session: Any = None) -> None:
        """Set the state to what `state_dict` returned; nothing changes unless all of it is right.

        Settings that decide on the next steps, and the scale of a fixed loss scale, must be those of this one; a dict
        without them is taken as it is.

        Args:
            state: what `state_dict` of the same kind of loss scale returned; it is not changed.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: it has other keys, belongs to another kind of loss scale, or holds numbers that none can have;
                or the call is made in a replica context.
            TypeError: it is no dict.
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Example:
            >>> import mpls.v1
            >>> scale = mpls.v1.DynamicLossScale()
            >>> scale.load_state_dict({"dynamic": True, "scale": 1024.0, "good_steps": 7})
            >>> float(scale())
            1024.0
        """
        with in_graph_of(session):
            self._write_state_dict(state, session)

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
