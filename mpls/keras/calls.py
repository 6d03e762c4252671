"""The scaling calls of custom loops over Keras optimizers: which ones a step must make, and must not."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Container, Iterable
from typing import Any

import tensorflow as tf

from mpls.core import scaling_calls
from mpls.core.autograph import as_written
from mpls.core.gradients import require_gradient
from mpls.core.loss_scale import changes_nothing
from mpls.errors import ArgumentValueError, CallOrderError, error_text
from mpls.optimizer_members import SCALING_METHODS

# The methods of Keras 2's style, which users' subclasses override.
SCALING = GET_SCALED_LOSS, GET_UNSCALED_GRADIENTS = SCALING_METHODS
SCALE_LOSS = "scale_loss"


class ScalingCalls(scaling_calls.ScalingCalls):
    """The scaling calls of Keras wrappers, and the warnings and errors about them.

    With Keras 3, a custom loop has one of two styles, which the calls of a step tell: `get_scaled_loss`,
    `get_unscaled_gradients`, `apply_gradients`, as in Keras 2; or `scale_loss`, `apply` or `apply_gradients`, of which
    the last two unscale.

    Args:
        warns: whether to warn.
    """

    def __init__(self, *, warns: bool = True) -> None:
        super().__init__((GET_SCALED_LOSS, SCALE_LOSS), warns=warns)
        # By method, the last tensor that it returned.
        self._returned: dict[str, Any] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._returned = {}

    def checked(self, call: str, given: Any, result: Any) -> Any:
        """Return the result of a scaling call; warn, once, if its argument is the result of the last such call.

        Args:
            call: the method.
            given: its argument; only tensors and `tf.IndexedSlices` are compared.
            result: its result.
        """
        if self._has_returned(call, given):
            self.warn_once(
                f"LossScaleOptimizer: {call}() got what it has returned before, so the loss scale is applied twice to "
                "the same tensors. Call it once for each. See mpls docs forgotten-scaling"
            )
        if tf.is_tensor(result) and result is not given:
            self._returned[call] = weakref.ref(result)
        return result

    def _has_returned(self, call: str, given: Any) -> bool:
        last = self._returned.get(call)
        return last is not None and last() is given and tf.is_tensor(given)

    def not_scaled(self, loss: Any) -> Any:
        """Return a loss that mpls is about to scale; a callable is returned as one that checks what it returns.

        Raises:
            CallOrderError: the program has scaled it.
        """
        if callable(loss):
            return functools.partial(self._called, loss)
        if any(self._has_returned(call, loss) for call in self.scaling):
            raise CallOrderError(
                "LossScaleOptimizer: minimize() must get a loss that is not scaled, as it scales the loss itself; got "
                "what get_scaled_loss() has returned. Call opt.minimize(lambda: loss_fn(), variables). "
                "See mpls docs forgotten-scaling"
            )
        return loss

    def _called(self, loss: Callable[[], Any]) -> Any:
        before = self._open_losses()
        result = self.not_scaled(loss())
        if self._open_losses() > before:
            self.warn_once(
                "LossScaleOptimizer: the loss that minimize() computes calls get_scaled_loss(), and minimize() scales "
                "the loss itself, so the loss scale is applied twice. Call opt.minimize(lambda: loss_fn(), variables). "
                "See mpls docs forgotten-scaling"
            )
        return result

    def _open_losses(self) -> int:
        return self.count(*self.scaling) - self.count(GET_UNSCALED_GRADIENTS)

    def warn_if_forgotten(self, loss_scale: Any, variables: Iterable[Any]) -> None:
        """Begin a new step, and warn if the step that ends has not called both methods of Keras 2.

        Args:
            loss_scale: that of the optimizer.
            variables: those that gradients are applied to.
        """
        step = self.end_step(variables)
        if (step.is_scaled and GET_UNSCALED_GRADIENTS in step.made) or changes_nothing(loss_scale):
            return
        elsewhere = step.elsewhere()
        is_repeated = not step.calls and not step.is_scaled
        forgotten = []
        if not step.is_scaled and GET_SCALED_LOSS not in elsewhere:
            forgotten.append(GET_SCALED_LOSS)
        if (is_repeated or GET_UNSCALED_GRADIENTS not in step.made) and GET_UNSCALED_GRADIENTS not in elsewhere:
            forgotten.append(GET_UNSCALED_GRADIENTS)
        if not forgotten:
            return
        self.warn_once(
            f"LossScaleOptimizer: apply_gradients() was called, but {'() and '.join(forgotten)}() never was in this "
            f"step, so the gradients {_EFFECTS[tuple(forgotten)]}. In a custom loop, each step does this:\n"
            "    with tf.GradientTape() as tape:\n"
            "        scaled_loss = opt.get_scaled_loss(loss_fn())\n"
            "    grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, variables))\n"
            "    opt.apply_gradients(zip(grads, variables))\n"
            "See mpls docs forgotten-scaling"
        )

    def require_unscaled_once(
        self, loss_scale: Any, applying: str, variables: Iterable[Any], *, hides_calls: bool
    ) -> bool:
        """Return whether the gradients that are applied now still have to be unscaled, and begin a new step.

        Args:
            loss_scale: that of the optimizer.
            applying: the method that applies them: `apply_gradients`, which either style ends with, or one that only
                the style of Keras 3 has.
            variables: those that they are applied to.
            hides_calls: as in `end_step`.

        Raises:
            CallOrderError: the calls of the step would scale or unscale twice, or never unscale.
        """
        step = self.end_step(variables, hides_calls=hides_calls)
        calls = step.calls
        _refuse_mix(calls, applying)
        if calls and applying == "apply_gradients":
            is_scaled = GET_UNSCALED_GRADIENTS not in calls
            if is_scaled and SCALE_LOSS not in calls:
                is_scaled = False
                if GET_UNSCALED_GRADIENTS not in step.elsewhere():
                    raise CallOrderError(
                        "LossScaleOptimizer: get_unscaled_gradients() must be called between get_scaled_loss() and "
                        "apply_gradients(); got gradients that are still scaled. Call "
                        "grads = opt.get_unscaled_gradients(grads), or use scale_loss() in place of get_scaled_loss(). "
                        "See mpls docs calling-styles"
                    )
        else:
            is_new = bool(calls) or (hides_calls and applying != "apply_gradients")
            is_scaled = is_new or self._has_new_style(step, applying)
        self.settle(step)
        is_forgotten = not step.is_scaled and self.scaling.isdisjoint(step.elsewhere())
        if is_forgotten and not changes_nothing(loss_scale):
            unscaled = "divided by a loss scale that the loss was not multiplied by"
            if not is_scaled and not calls:
                unscaled = "not scaled"
            self.warn_once(
                f"LossScaleOptimizer: {applying}() was called, but neither scale_loss() nor get_scaled_loss() was in "
                f"this step, so the gradients are {unscaled}. In a custom loop, each step does this:\n"
                "    with tf.GradientTape() as tape:\n"
                "        scaled_loss = opt.scale_loss(loss_fn())\n"
                "    opt.apply(tape.gradient(scaled_loss, variables), variables)\n"
                "See mpls docs forgotten-scaling"
            )
        return is_scaled

    def _has_new_style(self, step: scaling_calls.Step, applying: str) -> bool:
        """Return whether gradients are in the style of Keras 3, where no call of theirs was made here.

        What was called before in this step tells the style, and in functions and threads that have not applied
        gradients; or what was ever called.

        Raises:
            CallOrderError: that tells both styles, or another one than the method that applies them.
        """
        styles = {SCALE_LOSS, GET_UNSCALED_GRADIENTS}
        known = styles & (step.made.keys() | step.elsewhere()) or styles & self.ever
        if known == styles or (GET_UNSCALED_GRADIENTS in known and applying != "apply_gradients"):
            raise CallOrderError(
                f"LossScaleOptimizer: {applying}() must know whether gradients are unscaled; got some of another "
                "function or thread, in a program that calls get_unscaled_gradients() and scale_loss() or apply(). "
                "Use one style in the whole program. See mpls docs calling-styles"
            )
        return GET_UNSCALED_GRADIENTS not in known


_EFFECTS = {
    (GET_SCALED_LOSS,): "are divided by a loss scale that the loss was not multiplied by",
    (GET_UNSCALED_GRADIENTS,): "are still multiplied by the loss scale",
    SCALING: "were computed without loss scaling",
}


def first_of(grads: list[Any]) -> Any:
    """Return the first gradient that is not None; None if there is none."""
    return next((grad for grad in grads if grad is not None), None)


def noted_method(call: str, method: Any) -> Any:
    """Wrap a method of a user's subclass to record its calls; anything but a function is returned as it is."""
    if not inspect.isfunction(method):
        return method

    # functools.wraps lets AutoGraph convert the user's function.
    @functools.wraps(method)
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _note(self._calls, call)
        result = method(self, *args, **kwargs)
        _count_as_one(self._calls, call, before)
        return result

    return noting


def noted_function(call: str, function: Callable[..., Any], calls: ScalingCalls) -> Callable[..., Any]:
    """Wrap a function that a user assigns to one instance in place of a method, to record its calls."""

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        before = _note(calls, call)
        result = function(*args, **kwargs)
        _count_as_one(calls, call, before)
        return result

    return noting


@as_written
def _note(calls: ScalingCalls, call: str) -> int:
    before = calls.count(call)
    calls.note(call)
    return before


@as_written
def _count_as_one(calls: ScalingCalls, call: str, before: int) -> None:
    calls.count_as_one(call, before)


def _refuse_mix(calls: Container[str], applying: str) -> None:
    is_unscaled = GET_UNSCALED_GRADIENTS in calls
    if SCALE_LOSS in calls and GET_SCALED_LOSS in calls:
        one_too_many = SCALE_LOSS if is_unscaled and applying == "apply_gradients" else GET_SCALED_LOSS
        reason = "the loss is scaled by both"
    elif is_unscaled and (SCALE_LOSS in calls or applying != "apply_gradients"):
        one_too_many = GET_UNSCALED_GRADIENTS
        reason = f"{applying}() unscales by itself here"
    else:
        return
    made = ", ".join(f"{call}()" for call in (GET_SCALED_LOSS, SCALE_LOSS, GET_UNSCALED_GRADIENTS) if call in calls)
    raise CallOrderError(
        f"LossScaleOptimizer: a step must be either get_scaled_loss(), get_unscaled_gradients(), apply_gradients() or "
        f"scale_loss(), apply(); got {made}, {applying}(). {one_too_many}() is one too many: {reason}. "
        "See mpls docs calling-styles"
    )


def drop_missing_gradients(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the pairs that have a gradient, and log the names of the variables that have none.

    Raises:
        ValueError: there are pairs, and none has a gradient.
    """
    pairs = list(grads_and_vars)
    require_gradients(pairs)
    missing = [str(getattr(variable, "name", variable)) for grad, variable in pairs if grad is None]
    if missing:
        tf.get_logger().warning("LossScaleOptimizer: there are no gradients for the variables %s.", missing)
    return [(grad, variable) for grad, variable in pairs if grad is not None]


def some_pairs(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the pairs as a list.

    Raises:
        ValueError: there is none.
    """
    pairs = list(grads_and_vars)
    if pairs:
        return pairs
    advice = "opt.apply_gradients(zip(grads, variables))"
    raise ArgumentValueError(
        error_text("LossScaleOptimizer: grads_and_vars", "hold at least one pair", pairs, advice, "no-gradients")
    )


def require_gradients(grads_and_vars: list[tuple[Any, Any]]) -> None:
    """Refuse pairs of which none has a gradient; no pairs at all are taken.

    Raises:
        ValueError: there are pairs, and none has a gradient.
    """
    if grads_and_vars:
        advice = "Check that the loss depends on the variables: tape.gradient(loss, variables)"
        require_gradient(grads_and_vars, "LossScaleOptimizer", advice)
