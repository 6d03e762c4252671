"""Records the scaling calls of custom loops: gradients are unscaled exactly once, forgotten calls cause a warning."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from mpls.core.autograph import as_written
from mpls.errors import ArgumentValueError, CallOrderError, MplsWarning, advise_user, error_text
from mpls.optimizer_members import SCALING_METHODS

# The methods of Keras 2's style, which users' subclasses override.
SCALING = GET_SCALED_LOSS, GET_UNSCALED_GRADIENTS = SCALING_METHODS
SCALE_LOSS = "scale_loss"


class ScalingCalls:
    """The scaling calls that were made since gradients were last applied, and all that were ever made.

    With Keras 3, a custom loop has one of two styles, which the calls of a step tell: `get_scaled_loss`,
    `get_unscaled_gradients`, `apply_gradients`, as in Keras 2; or `scale_loss`, `apply` or `apply_gradients`, of which
    the last two unscale. A step's calls are those that are traced in one function, with the functions inside it; in
    eager mode, those of one thread. If a step is split over functions that are traced at different times, or over
    threads, its style is that of the previous step.

    Args:
        warns: whether to warn of forgotten calls.
    """

    def __init__(self, *, warns: bool = True) -> None:
        self.ever: set[str] = set()
        self.has_warned = not warns
        # By method, the last tensor that it returned.
        self._returned: dict[str, Any] = {}
        self._has_unscaled_style = False
        self._lock = threading.Lock()
        # By graph or thread. Weak keys drop the calls of a step that never finishes, with its graph or thread.
        self._pending: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name not in ("_lock", "_pending", "_returned")}
        return {**state, "ever": set(self.ever)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        vars(self).update(state)

    def note(self, call: str) -> None:
        """Record a call."""
        with self._lock:
            self.ever.add(call)
            self._pending.setdefault(_here(), set()).add(call)

    def checked(self, call: str, given: Any, result: Any) -> Any:
        """Return the result of a scaling call; warn, once, if its argument is the result of the last such call.

        Args:
            call: the method.
            given: its argument; only tensors and `tf.IndexedSlices` are compared.
            result: its result.
        """
        last = self._returned.get(call)
        if last is not None and last() is given and tf.is_tensor(given) and self.is_first_warning():
            advise_user(
                f"LossScaleOptimizer: {call}() got what it has returned before, so the loss scale is applied twice to "
                "the same tensors. Call it once for each. See MIGRATION.md#forgotten-scaling",
                MplsWarning,
            )
        if tf.is_tensor(result) and result is not given:
            self._returned[call] = weakref.ref(result)
        return result

    def begin_step(self) -> set[str]:
        """Forget the calls of the step that ends, and return them."""
        with self._lock:
            here = _here()
            places = [place for place in self._pending if _is_within(place, here)]
            # A step that only applies gradients has made its other calls in another function or thread.
            places = places if here in self._pending else list(self._pending)
            return set().union(*map(self._pending.pop, places))

    def is_pending(self, call: str) -> bool:
        """Return whether a call was made in any function or thread and belongs to no step yet."""
        with self._lock:
            return any(call in calls for calls in self._pending.values())

    def is_first_warning(self) -> bool:
        """Return whether this is the first warning, and remember that it was given."""
        with self._lock:
            is_first, self.has_warned = not self.has_warned, True
            return is_first

    def warn_if_forgotten(self) -> None:
        """Begin a new step, and warn, once, if a custom loop applies gradients without having called both methods."""
        self.begin_step()
        forgotten = [call for call in SCALING if call not in self.ever]
        if not forgotten or not self.is_first_warning():
            return
        advise_user(
            f"LossScaleOptimizer: apply_gradients() was called, but {'() and '.join(forgotten)}() never was, so the "
            "gradients that are applied are not those of the loss, or were computed without loss scaling. "
            "In a custom loop:\n"
            "    with tf.GradientTape() as tape:\n"
            "        scaled_loss = opt.get_scaled_loss(loss_fn())\n"
            "    grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, variables))\n"
            "    opt.apply_gradients(zip(grads, variables))\n"
            "See MIGRATION.md#forgotten-scaling",
            MplsWarning,
        )

    def require_unscaled_once(self, applying: str) -> bool:
        """Return whether the gradients that are applied now still have to be unscaled, and begin a new step.

        Args:
            applying: the method that applies them: `apply_gradients`, which either style ends with, or one that only
                the style of Keras 3 has.

        Raises:
            CallOrderError: the calls of the step would scale or unscale twice, or never unscale.
        """
        calls = self.begin_step()
        _refuse_mix(calls, applying)
        if applying != "apply_gradients":
            return True
        if GET_UNSCALED_GRADIENTS in calls:
            self._has_unscaled_style = True
        elif SCALE_LOSS in calls:
            self._has_unscaled_style = False
        elif self.is_pending(GET_UNSCALED_GRADIENTS) and GET_SCALED_LOSS in calls:
            # Eager code calls a `tf.function` that unscales.
            self._has_unscaled_style = True
        elif GET_SCALED_LOSS in calls and not self._has_unscaled_style:
            raise CallOrderError(
                "LossScaleOptimizer: get_unscaled_gradients() must be called between get_scaled_loss() and "
                "apply_gradients(); got gradients that are still scaled. Call "
                "grads = opt.get_unscaled_gradients(grads), or use scale_loss() in place of get_scaled_loss(). "
                "See MIGRATION.md#calling-styles"
            )
        return not self._has_unscaled_style


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
        _note(self._calls, call)
        return method(self, *args, **kwargs)

    return noting


def noted_function(call: str, function: Callable[..., Any], calls: ScalingCalls) -> Callable[..., Any]:
    """Wrap a function that a user assigns to one instance in place of a method, to record its calls."""

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        _note(calls, call)
        return function(*args, **kwargs)

    return noting


@as_written
def _note(calls: ScalingCalls, call: str) -> None:
    calls.note(call)


def _refuse_mix(calls: set[str], applying: str) -> None:
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
        "See MIGRATION.md#calling-styles"
    )


class _Thread:
    """A weakly referenceable stand-in for a running thread."""


_threads = threading.local()


def _here() -> Any:
    """Return the graph that is being built; in eager mode and on other backends, the stand-in for the thread."""
    if not tf.executing_eagerly():
        return tf.compat.v1.get_default_graph()
    here = getattr(_threads, "here", None)
    if here is None:
        here = _threads.here = _Thread()
    return here


def _is_within(place: Any, here: Any) -> bool:
    """Return whether a place is `here`, or a graph that is built inside of it."""
    while place is not here and isinstance(place, tf.Graph):
        # Only graphs of functions have an outer one.
        place = getattr(place, "outer_graph", None)
    return place is here


def drop_missing_gradients(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the pairs that have a gradient, and log the names of the variables that have none.

    Raises:
        ValueError: there are pairs, and none has a gradient.
    """
    pairs = list(grads_and_vars)
    require_gradients(pairs)
    missing = _without_gradient(pairs)
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
    """Refuse pairs of which none has a gradient.

    Raises:
        ValueError: there are pairs, and none has a gradient.
    """
    missing = _without_gradient(grads_and_vars)
    if missing and len(missing) == len(grads_and_vars):
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: grads_and_vars",
                "hold at least one gradient that is not None",
                missing,
                "Check that the loss depends on the variables: tape.gradient(loss, variables)",
                "no-gradients",
            )
        )


def _without_gradient(grads_and_vars: list[tuple[Any, Any]]) -> list[str]:
    return [str(getattr(variable, "name", variable)) for grad, variable in grads_and_vars if grad is None]
