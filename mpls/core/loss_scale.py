"""Loss scales, and the identifiers and configs that stand for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat

import tensorflow as tf

from mpls.core.abstract import LossScale, NativeLossScale, StepDecision, recognition_base
from mpls.core.autograph import as_written
from mpls.core.dynamic import DynamicLossScale, NativeDynamicLossScale
from mpls.core.finite import all_finite
from mpls.core.numbers import require_usable, to_bool, to_float
from mpls.core.persistence.state_dict import check_fixed, checked_weights, write_values
from mpls.core.program_calls import note_read
from mpls.core.replicas import decide_together, finite_when_summed
from mpls.core.step_options import read_only
from mpls.errors import ArgumentValueError, TensorArgumentError, error_text
from mpls.formats.state_dicts import WEIGHTS, fixed_state
from mpls.formats.validity import is_number
from mpls.formats.wrapper_state import DEFAULT_MIN_SCALE, LOSS_SCALE_VALUE
from mpls.upstream.tensorflow import fixed_value_of

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "changes_nothing",
    "decide_step",
    "deserialize",
    "floor_of",
    "get",
    "growth_steps_for_files",
    "is_dynamic",
    "is_fixed",
    "is_loss_scale",
    "never_skips",
    "serialize",
]

_NativeFixedLossScale: Any = recognition_base("FixedLossScale")

if TYPE_CHECKING:
    _Base = object
else:
    _Base = _NativeFixedLossScale


class FixedLossScale(LossScale, _Base):
    """A loss scale that never changes, and asks for no step to be skipped unless it is told to.

    Args:
        loss_scale_value: the scale, from 1 to 2**126; a Python or NumPy number.
        skip_nonfinite: whether steps with non-finite gradients are to be skipped; if not, they are applied, and
            variables become NaN.

    Raises:
        ValueError: `loss_scale_value` is no number, below 1, above 2**126, or NaN.
        TypeError: `skip_nonfinite` is no bool.

    Reproduces:
        `tf.compat.v1.train.experimental.FixedLossScale`, TF 1.14 to 2.21, which refused NumPy numbers, and accepted NaN
        and scales so large that every gradient became zero. `skip_nonfinite` is of mpls.

    Example:
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
    """

    _skip_nonfinite = False

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
        value = to_float(loss_scale_value, subject)
        if value < 1:
            raise ArgumentValueError(
                error_text(
                    subject,
                    "be at least 1",
                    loss_scale_value,
                    "Use FixedLossScale(1.0) for no scaling",
                    "fixed-scales",
                )
            )
        self._loss_scale_value = require_usable(value, subject, loss_scale_value, is_fixed=True)
        self._skip_nonfinite = to_bool(skip_nonfinite, "FixedLossScale: skip_nonfinite", "fixed-scales")

    @classmethod
    def _unbounded(cls, value: float, *, skip_nonfinite: bool = False) -> FixedLossScale:
        """Return a fixed loss scale without the lower bound of 1, which the Keras wrappers do not have."""
        loss_scale = cls.__new__(cls)
        LossScale.__init__(loss_scale)
        loss_scale._loss_scale_value = value
        loss_scale._skip_nonfinite = skip_nonfinite
        return loss_scale

    skip_nonfinite = read_only(
        "skip_nonfinite",
        lambda loss_scale: loss_scale._skip_nonfinite,
        "Whether steps with non-finite gradients are to be skipped, a Python bool.",
    )

    @as_written
    def __call__(self) -> tf.Tensor:
        """Return the loss scale as a scalar float32 tensor, always the same number."""
        note_read(self)
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
        are_finite = finite_when_summed if when_summed else all_finite
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


def growth_steps_for_files(loss_scale: Any) -> int | None:
    """Return the growth steps that a dynamic loss scale's saved count must not exceed, or None for any."""
    if isinstance(loss_scale, DynamicLossScale):
        return loss_scale._growth_steps_for_files
    return int(loss_scale.increment_period)


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


def decide_step(loss_scale: Any, grads: Any, *, when_summed: bool, are_same: bool) -> StepDecision:
    """Ask a loss scale, of mpls or of TensorFlow itself, about a step; see `LossScale._decide_step`."""
    # TensorFlow's own classes have `update`, and nothing else is asked of them.
    cls = type(loss_scale) if isinstance(loss_scale, LossScale) else LossScale
    return cls._decide_step(loss_scale, grads, when_summed=when_summed, are_same=are_same)


def get(identifier: Any, subject: str = "mpls.core.loss_scale.get: identifier") -> LossScale | None:
    """Return the loss scale that an identifier stands for.

    Args:
        identifier: `'dynamic'` for a new `DynamicLossScale` with the default settings; a Python or NumPy number for
            a new `FixedLossScale`; a loss scale, of mpls or of TensorFlow itself, for itself; or None for None.
        subject: the public name that the user called and its argument, for errors.

    Returns:
        The loss scale, or None.

    Raises:
        ValueError: anything else, or a number that no fixed scale can have.
        TypeError: a tensor.

    Reproduces:
        `tensorflow.python.training.experimental.loss_scale.get`, TF 1.14 to 2.21.
    """
    if identifier is None or is_loss_scale(identifier):
        return identifier
    if is_number(identifier):
        return FixedLossScale(identifier)
    if isinstance(identifier, str) and identifier == "dynamic":
        return DynamicLossScale()
    error = TensorArgumentError if tf.is_tensor(identifier) else ArgumentValueError
    raise error(
        error_text(
            subject,
            "be 'dynamic', a number or a LossScale",
            identifier,
            "Pass 'dynamic', 128.0 or DynamicLossScale(...)",
            "loss-scale-arguments",
        )
    )


def serialize(loss_scale: LossScale | None) -> dict[str, Any] | None:
    """Return a JSON-able description of a loss scale, as configs of TF 2.0 to 2.3 hold it.

    Args:
        loss_scale: a loss scale, or None.

    Returns:
        `{'class_name': ..., 'config': ...}`, or None for None.
    """
    if loss_scale is None:
        return None
    return {"class_name": type(loss_scale).__name__, "config": loss_scale.get_config()}


def deserialize(config: Any, custom_objects: dict[str, type] | None = None) -> LossScale | None:
    """Create the loss scale that a config describes.

    Args:
        config: `{'class_name': ..., 'config': ...}`, with or without the keys `module` and `registered_name` that
            later formats added; or None.
        custom_objects: classes of the user by class name; they go before those of mpls.

    Returns:
        The loss scale, or None for None.

    Raises:
        ValueError: the config is of another form, or names an unknown class.

    Reproduces:
        `deserialize` of `tensorflow.python.keras.mixed_precision.experimental.loss_scale`, TF 2.0 to 2.3.
    """
    if config is None:
        return None
    classes: dict[str, Any] = {"FixedLossScale": FixedLossScale, "DynamicLossScale": DynamicLossScale}
    classes.update(custom_objects or {})
    if not isinstance(config, dict) or "class_name" not in config or not isinstance(config.get("config"), dict):
        raise ArgumentValueError(
            error_text(
                "deserialize: config",
                "be a dict with 'class_name' and 'config'",
                config,
                "{'class_name': 'DynamicLossScale', 'config': {}}",
                "configs",
            )
        )
    name = config["class_name"]
    if name not in classes:
        raise ArgumentValueError(
            error_text(
                "deserialize: class_name",
                f"be one of {sorted(classes)}",
                name,
                f"Pass custom_objects={{{name!r}: TheClass}}",
                "configs",
            )
        )
    loss_scale: LossScale = classes[name].from_config(dict(config["config"]))
    return loss_scale
