"""What decides on the loss scale of a contrib optimizer: managers, which users subclass."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow as tf

from mpls.core.numbers import is_number, require_usable, to_float, to_int
from mpls.core.rule import AccumulatingState, UpdateRule, next_state
from mpls.core.select import select
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text


class LossScaleManager(metaclass=abc.ABCMeta):
    """Base class of loss scale managers; subclass it to write one's own.

    Reproduces:
        `tf.contrib.mixed_precision.LossScaleManager`, TF 1.13 to 1.15.

    Example:
        >>> import tensorflow as tf
        >>> import mpls.contrib
        >>> class Constant(mpls.contrib.LossScaleManager):
        ...     def get_loss_scale(self):
        ...         return tf.constant(8.0)
        ...     def update_loss_scale(self, finite_grads):
        ...         return tf.no_op()
        >>> float(Constant().get_loss_scale())
        8.0
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


class FixedLossScaleManager(LossScaleManager):
    """A loss scale that never changes. The optimizer skips steps with non-finite gradients all the same.

    Args:
        loss_scale: the scale, from 1 to 2**126; a Python or NumPy number.

    Raises:
        TypeError: `loss_scale` is no number.
        ValueError: it is below 1, above 2**126, or NaN.

    Reproduces:
        `tf.contrib.mixed_precision.FixedLossScaleManager`, TF 1.13 to 1.15, which accepted NaN and infinity.

    Example:
        >>> import mpls.contrib
        >>> float(mpls.contrib.FixedLossScaleManager(128).get_loss_scale())
        128.0
    """

    def __init__(self, loss_scale: float) -> None:
        subject = "FixedLossScaleManager: loss_scale"
        advice = "FixedLossScaleManager(128.0)"
        if not is_number(loss_scale):
            raise ArgumentTypeError(error_text(subject, "be a number", loss_scale, advice, "contrib"))
        value = to_float(loss_scale, subject)
        if value < 1:
            raise ArgumentValueError(error_text(subject, "be at least 1", loss_scale, advice, "contrib"))
        self._loss_scale = require_usable(value, subject, loss_scale, is_fixed=True)

    def get_loss_scale(self) -> Any:
        """Return the loss scale, a scalar float32 tensor."""
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


class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A loss scale that grows after steps with finite gradients, and shrinks after several without.

    After `incr_every_n_steps` finite steps in a row it is multiplied by `incr_ratio`, unless that leaves float32. After
    `decr_every_n_nan_or_inf` non-finite steps it is multiplied by `decr_ratio`, not below 1; the steps need not be in a
    row, but growth starts their count again.

    Args:
        init_loss_scale: the scale to start from, positive.
        incr_every_n_steps: finite steps in a row after which it grows.
        decr_every_n_nan_or_inf: non-finite steps after which it shrinks.
        incr_ratio: the factor by which it grows.
        decr_ratio: the factor by which it shrinks.

    Raises:
        ValueError: a scale or a ratio is NaN, infinite, zero or negative.
        TypeError: an argument cannot be converted to a number.

    Reproduces:
        `tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager`, TF 1.13 to 1.15.

    Example:
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
    """

    def __init__(
        self,
        init_loss_scale: float,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ) -> None:
        self._incr_every_n_steps = to_int(incr_every_n_steps, _subject("incr_every_n_steps"))
        self._decr_every_n_nan_or_inf = to_int(decr_every_n_nan_or_inf, _subject("decr_every_n_nan_or_inf"))
        self._incr_ratio = _usable("incr_ratio", incr_ratio)
        self._decr_ratio = _usable("decr_ratio", decr_ratio)
        scale = _usable("init_loss_scale", init_loss_scale)
        self._loss_scale = _variable("loss_scale", scale, tf.float32)
        self._num_good_steps = _variable("good_steps", 0, tf.int32)
        self._num_bad_steps = _variable("bad_steps", 0, tf.int32)

    def get_loss_scale(self) -> Any:
        """Return the loss scale, a scalar float32 variable."""
        return self._loss_scale

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Count the step, and let the scale grow or shrink if that is due.

        Args:
            finite_grads: scalar boolean tensor, whether all gradients of the step are finite.

        Returns:
            In a graph, the op that does it; in eager mode None.
        """
        variables = AccumulatingState(self._loss_scale, self._num_good_steps, self._num_bad_steps)
        rule = UpdateRule(
            growth_steps=self._incr_every_n_steps,
            multiplier=self._incr_ratio,
            shrink_ratio=self._decr_ratio,
            shrink_steps=self._decr_every_n_nan_or_inf,
        )
        before = AccumulatingState(*(tf.convert_to_tensor(variable) for variable in variables))
        after = next_state(before, finite_grads, rule, select)
        return tf.group(*(variable.assign(value) for variable, value in zip(variables, after, strict=True)))


def _subject(argument: str) -> str:
    return f"ExponentialUpdateLossScaleManager: {argument}"


def _usable(argument: str, value: Any) -> float:
    return require_usable(to_float(value, _subject(argument)), _subject(argument), value)


def _variable(name: str, value: float, dtype: Any) -> Any:
    with tf.init_scope():
        return tf.compat.v1.Variable(value, name=name, dtype=dtype, trainable=False, use_resource=True)
