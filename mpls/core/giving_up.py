"""What happens when too many steps in a row are skipped: an error, a warning or a call of the user's function.

`Facts` is what is kept about the steps of such a row, on the device, and `cause_of` says what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from mpls.errors import MplsWarning, TrainingStuckError, warn_user

__all__ = ["RECENT", "Cause", "Facts", "Stuck", "asserted", "cause_of", "give_up", "next_facts"]

# How many of the last scales are kept.
RECENT = 8
_SEE = "See MIGRATION.md#giving-up"
Cause = Literal["loss", "model", "unknown", "scale"]
_ADVICE: dict[Cause, str] = {
    "loss": "No loss scale can mend that: look for the op, the input or the learning rate that makes the loss infinite "
    "or NaN.",
    "model": "The model is broken, as its gradients are not finite at the lowest scale: look for an op whose gradient "
    "is not finite, such as a square root, a logarithm or a norm at 0.",
    "unknown": "The gradients are NaN and never infinite. Either the model is broken: look for an op whose gradient is "
    "not finite, such as a square root, a logarithm or a norm at 0. Or, where the model computes in float16, the scale "
    "is still too high: infinities that cancel are NaN. Allow more skipped steps, max_consecutive_skips=50, or start "
    "with a lower scale, initial_scale=1024. If it goes on at the lowest scale, the model is broken.",
    "scale": "The gradients overflow, as the scale is too high: start with a lower one, initial_scale=1024, or let it "
    "fall for longer, max_consecutive_skips=50.",
}
_LOWER = "Where the lowest scale is above 1, lower it too: min_scale=1, or a smaller fixed scale."
_UNKNOWN = "Whether the loss was finite is not known."
_FINITE = "The loss was finite in all of them."


class Facts(NamedTuple):
    """What is known of the steps that were skipped in a row; scalar float32 tensors.

    Attributes:
        lowest: the lowest scale of them.
        highest: the highest.
        lowest_of_loss: the lowest scale at which the loss itself was not finite; 0 if there is none.
        highest_of_loss: the highest.
        may_overflow: 1 if in any of them a gradient was infinite, or none was NaN; else 0.
        at_floor: 1 if the scale of the last step cannot fall; else 0.
    """

    lowest: Any
    highest: Any
    lowest_of_loss: Any
    highest_of_loss: Any
    may_overflow: Any
    at_floor: Any


def next_facts(before: Facts, is_first: Any, scale: Any, floor: Any, loss_is_finite: Any, may_overflow: Any) -> Facts:
    """Return the facts after one more skipped step.

    Args:
        before: those before it.
        is_first: whether the step before was applied, a scalar boolean tensor.
        scale: the scale of the step, a scalar float32 tensor.
        floor: the scale below which it does not fall, a number or a scalar tensor.
        loss_is_finite: whether the loss itself was finite, a scalar boolean tensor; None if that is not known.
        may_overflow: whether a gradient was infinite, or none was NaN, a scalar boolean tensor.
    """
    # Checkpoints that were written without the facts leave zeros.
    is_first = tf.logical_or(is_first, tf.equal(before.highest, 0.0))
    before = Facts(*(tf.where(is_first, 0.0, each) for each in before))
    is_bad = tf.constant(False) if loss_is_finite is None else tf.logical_not(loss_is_finite)
    lowest_of_loss = tf.where(tf.equal(before.highest_of_loss, 0.0), scale, tf.minimum(before.lowest_of_loss, scale))
    return Facts(
        lowest=tf.where(is_first, scale, tf.minimum(before.lowest, scale)),
        highest=tf.maximum(before.highest, scale),
        lowest_of_loss=tf.where(is_bad, lowest_of_loss, before.lowest_of_loss),
        highest_of_loss=tf.where(is_bad, tf.maximum(before.highest_of_loss, scale), before.highest_of_loss),
        may_overflow=tf.maximum(before.may_overflow, tf.cast(may_overflow, tf.float32)),
        at_floor=tf.cast(scale <= tf.cast(floor, tf.float32), tf.float32),
    )


def cause_of(facts: Facts) -> dict[Cause, Any]:
    """Return whether each cause is the one, booleans of which one is true.

    Args:
        facts: scalar tensors, or NumPy numbers.
    """
    at_floor = facts.at_floor > 0
    is_at_lowest = at_floor & (facts.highest_of_loss > 0) & (facts.lowest_of_loss <= facts.lowest)
    of_loss = (facts.highest_of_loss > facts.lowest_of_loss) | is_at_lowest
    of_model = at_floor & ~of_loss
    # NaN alone proves no broken model: in float16, inf - inf and inf * 0 in the backward pass make it too.
    is_unknown = (facts.may_overflow <= 0) & ~(of_loss | of_model)
    return {"loss": of_loss, "model": of_model, "unknown": is_unknown, "scale": ~(of_loss | of_model | is_unknown)}


@dataclass(frozen=True)
class Stuck:
    """What is known when an optimizer gives up; the argument of a function that is passed as `on_give_up`.

    Attributes:
        consecutive_skips: how many steps in a row were skipped.
        nonfinite_losses: in how many of them the loss itself was not finite, or any of several that were scaled since
            the step before; None if no loss is known. A loss that was scaled after gradients of the same step had been
            unscaled, and were not finite, is not counted: it may be computed from them.
        recent_scales: the scales of the last skipped steps, the latest last.
        variables: the names of the variables whose gradients were not finite in the last of them.
        cause: `'loss'`, if the loss itself is broken; `'model'`, if its gradients are; `'scale'`, if the scale is too
            high; `'unknown'`, if the gradients are NaN and never infinite above the lowest scale, so that the model
            may be broken, or the scale too high for one that computes in float16.
        at_floor: whether the scale cannot fall any more.

    Example:
        >>> import tensorflow as tf
        >>> import mpls.monitor, mpls.v1
        >>> def tell(stuck: mpls.monitor.Stuck) -> None:
        ...     print(stuck.consecutive_skips, stuck.nonfinite_losses, stuck.recent_scales, stuck.cause)
        >>> weight = tf.Variable(1.0)
        >>> opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
        ...     tf.compat.v1.train.GradientDescentOptimizer(0.25), "dynamic", max_consecutive_skips=1, on_give_up=tell)
        >>> for _ in range(2):
        ...     opt.minimize(lambda: weight * float("nan"), var_list=[weight])
        2 2 (32768.0, 16384.0) loss
    """

    consecutive_skips: int
    nonfinite_losses: int | None
    recent_scales: tuple[float, ...]
    variables: tuple[str, ...]
    cause: Cause = "scale"
    at_floor: bool = False

    def __str__(self) -> str:
        scales = ", ".join(f"{scale:g}" for scale in self.recent_scales)
        shown = ", ".join(self.variables[:5]) + (
            f" and {len(self.variables) - 5} others" if len(self.variables) > 5 else ""
        )
        is_above_1 = self.at_floor and self.recent_scales[-1] > 1
        return (
            f"LossScaleOptimizer: {self.consecutive_skips} steps in a row were skipped, as gradients were not finite. "
            f"{self._of_losses()} Last scales: {scales}. Variables: {shown or 'not known'}. "
            f"{_advice(self.cause, self.nonfinite_losses is not None, is_above_1)} {_SEE}"
        )

    def _of_losses(self) -> str:
        if self.nonfinite_losses is None:
            return _UNKNOWN
        if self.nonfinite_losses == 0:
            return _FINITE
        return f"The loss itself was not finite in {self.nonfinite_losses} of them."


def _advice(cause: Cause, is_known: bool, may_be_too_high: bool) -> str:
    text = _ADVICE[cause]
    if not is_known:
        text = f"{text} Or the loss was not finite."
    return f"{text} {_LOWER}" if cause == "model" and may_be_too_high else text


def give_up(stuck: Stuck, how: str | Callable[[Stuck], Any]) -> None:
    """Raise, warn, or call the user's function.

    Raises:
        TrainingStuckError: `how` is `'raise'`.
    """
    if callable(how):
        how(stuck)
    elif how == "warn":
        warn_user(str(stuck), MplsWarning)
    else:
        raise TrainingStuckError(str(stuck))


def asserted(is_fine: Any, skips: Any, losses: Any, scales: Any, facts: Facts, names: Sequence[str], bad: Any) -> Any:
    """Return an op of a graph that fails if too many steps in a row were skipped; compiled by XLA, it does nothing.

    XLA compiles no op that chooses between strings, so that there is an assertion for each pair of a cause and a
    variable. The one that fails names the first variable whose gradient was not finite.

    Args:
        is_fine: whether there were not too many, a scalar boolean tensor.
        skips: how many there were.
        losses: in how many of them the loss itself was not finite; None if that is not known.
        scales: the last scales.
        facts: what is known of them.
        names: the names of the variables.
        bad: whether the gradient of each was not finite, a boolean tensor.
    """
    bad = tf.cast(bad, tf.int32)
    number = tf.reduce_sum(bad)
    # The last place is for none, as where only the sum of several replicas overflows.
    place = tf.where(number > 0, tf.argmax(bad, output_type=tf.int32), len(names))
    is_elsewhere = tf.not_equal(tf.range(len(names) + 1), place)
    others = tf.maximum(number - 1, 0)
    of_losses = [_UNKNOWN] if losses is None else ["The loss itself was not finite in so many of them:", losses]
    head = "LossScaleOptimizer: steps in a row that were skipped, as gradients were not finite:"
    # Tensors that the assertions share.
    facts_first = [tf.convert_to_tensor(each) for each in (head, skips, *of_losses, "Last scales:", scales)]
    named = [tf.constant(f"Variable: {name}, and so many others:") for name in [*names, "not known"]]
    checks = []
    for cause, is_cause in cause_of(facts).items():
        advice = f"{_advice(cause, losses is not None, True)} opt.check_skips() names all variables. {_SEE}"
        last = [others, tf.constant(advice)]
        conditions = tf.unstack(is_fine | ~is_cause | is_elsewhere, num=len(named))
        for condition, name in zip(conditions, named, strict=True):
            data = [*facts_first, name, *last]
            checks.append(tf.raw_ops.Assert(condition=condition, data=data, summarize=RECENT))
    return tf.group(*checks)
