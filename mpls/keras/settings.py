"""What a wrapper says of its loss scale, whichever class that is of."""

from __future__ import annotations

from typing import Any

from mpls.core.loss_scale import FixedLossScale, is_dynamic, is_fixed
from mpls.core.numbers import require_usable, to_float
from mpls.errors import ArgumentTypeError, error_text
from mpls.formats.validity import is_number


def initial_scale_of(loss_scale: Any) -> float:
    """Return what a loss scale starts from.

    Raises:
        AttributeError: it is of a user's own class, which need not know.
    """
    if is_dynamic(loss_scale):
        return float(loss_scale.initial_loss_scale)
    if is_fixed(loss_scale):
        return float(loss_scale._loss_scale_value)
    raise AttributeError(f"A LossScaleOptimizer with a {type(loss_scale).__name__} has no initial_scale")


def growth_steps_of(loss_scale: Any) -> int | None:
    """Return after how many finite steps in a row a loss scale grows; None for one that is not dynamic."""
    return int(loss_scale.increment_period) if is_dynamic(loss_scale) else None


def as_loss_scale(value: Any) -> Any:
    """Return the loss scale that a user puts in the place of a wrapper's; a number is a fixed one, as from TF 2.4 on.

    Raises:
        TypeError: it cannot be called and updated.
        ValueError: it is a number that no fixed scale can have.
    """
    subject = "LossScaleOptimizer: _loss_scale"
    if is_number(value):
        return FixedLossScale._unbounded(require_usable(to_float(value, subject), subject, value, is_fixed=True))
    if callable(value) and callable(getattr(value, "update", None)) and not isinstance(value, type):
        return value
    raise ArgumentTypeError(
        error_text(
            subject,
            "be a LossScale or a number",
            value,
            "opt._loss_scale = mpls.experimental.DynamicLossScale(1024)",
            "loss-scale-arguments",
        )
    )
