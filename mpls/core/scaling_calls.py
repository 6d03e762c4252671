"""Notes the scaling calls of a program, and judges each step by its own."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mpls.errors import MplsWarning, advise_user


class _Place:
    """The calls in one graph or, in eager mode, in one thread.

    Attributes:
        now: how often each call was made since gradients were last applied here.
        unapplied: the calls that were made since gradients were last applied here.
        step: how often each call was made in the step that goes on.
        applied: how often this step has applied gradients to each variable, by its `id`.
    """

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.unapplied: set[str] = set()
        self.step: Counter[str] = Counter()
        self.applied: Counter[int] = Counter()


@dataclass(frozen=True)
class Step:
    """The calls that belong to gradients which are applied.

    Attributes:
        calls: how often each call was made since gradients were last applied.
        made: how often each call was made in this step.
        is_scaled: whether as many losses were scaled in this step as it has applied gradients to one variable.
        elsewhere: returns the calls whose gradients may have come from another function or thread.
    """

    calls: Counter[str]
    made: Counter[str]
    is_scaled: bool
    elsewhere: Callable[[], set[str]]


class ScalingCalls:
    """The scaling calls of a program, by graph and, in eager mode, by thread.

    A step begins with the first loss that is scaled after gradients were applied. It may apply gradients several
    times, each time to other variables, or to the same ones as often as it has scaled losses. A call that is missing
    may have been made in another function or thread, one that made it and has not applied gradients itself.

    Args:
        scaling: the calls that scale a loss.
        warns: whether to warn.
    """

    def __init__(self, scaling: Iterable[str], *, warns: bool = True) -> None:
        self.ever: set[str] = set()
        # Those of `ever` that belong to steps which were not refused.
        self._settled: set[str] = set()
        self.scaling: frozenset[str] = frozenset(scaling)
        self._warns = warns
        self._told: set[str] = set()
        self._lock = threading.Lock()
        # In how many places each call was made since gradients were last applied there. Functions and threads that are
        # gone count too: gradients can outlive them.
        self._unapplied: Counter[str] = Counter()
        self._places: weakref.WeakKeyDictionary[Any, _Place] = weakref.WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {"scaling": self.scaling, "warns": self._warns, "ever": set(self.ever), "told": set(self._told)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ScalingCalls.__init__(self, state["scaling"], warns=state["warns"])
        self.ever, self._told = state["ever"], state["told"]
        self._settled = set(self.ever)

    def note(self, call: str) -> None:
        """Record a call."""
        with self._lock:
            self.ever.add(call)
            place = self._place(_here())
            place.now[call] += 1
            self._unapplied[call] += call not in place.unapplied
            place.unapplied.add(call)

    def count(self, *calls: str) -> int:
        """Return how often calls were made here since gradients were last applied."""
        with self._lock:
            now = self._place(_here()).now
            return sum(now[call] for call in calls)

    def count_as_one(self, call: str, before: int) -> None:
        """Take the calls since `count` was `before` for one, as a user's method may call the one that it overrides."""
        with self._lock:
            self._place(_here()).now[call] = before + 1

    def end_step(self, variables: Iterable[Any], *, hides_calls: bool = False) -> Step:
        """Note that gradients are applied, and return the calls that belong to them.

        Args:
            variables: those that they are applied to.
            hides_calls: whether steps run without the calls with which they were compiled, as on JAX.
        """
        here = _here()
        with self._lock:
            place = self._place(here)
            calls, place.now = place.now, Counter()
            for call in place.unapplied:
                self._unapplied[call] -= 1
            place.unapplied.clear()
            if self.scaling.isdisjoint(calls):
                place.step += calls
            else:
                place.step, place.applied = calls, Counter()
            place.applied.update(map(id, variables))
            # A session runs the ops that it is told to: a graph may have two that apply the same gradients.
            is_in_order = not isinstance(here, tf.Graph) or hasattr(here, "outer_graph")
            times = max(place.applied.values(), default=1) if is_in_order and not hides_calls else 1
            is_scaled = sum(place.step[call] for call in self.scaling) >= times
            return Step(calls, place.step, is_scaled, lambda: self._elsewhere(with_settled=hides_calls))

    def settle(self, step: Step) -> None:
        """Note that a step is not refused, so that its calls tell what those hide that run without them."""
        with self._lock:
            self._settled.update(step.calls)

    def _elsewhere(self, *, with_settled: bool) -> set[str]:
        with self._lock:
            return {*+self._unapplied, *(self._settled if with_settled else ())}

    def warn_once(self, message: str) -> None:
        """Warn, but not twice of the same."""
        with self._lock:
            is_told = not self._warns or message in self._told
            self._told.add(message)
        if not is_told:
            advise_user(message, MplsWarning)

    def _place(self, here: Any) -> _Place:
        place = self._places.get(here)
        if place is None:
            place = self._places[here] = _Place()
        return place


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
