"""The optimizers that the programs of this folder train with: those of the conformance suite, called as there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tf_keras

from tests.conformance.hosts import HOSTS
from tests.conformance.setups import Scaling

# By family: the name in the conformance suite, and the framework that has the layers.
FAMILIES: dict[str, tuple[str, Any]] = {
    "legacy": ("keras_legacy", tf_keras),
    "new": ("keras_new", tf_keras),
    "keras3": ("keras3", keras),
    "keras3_apply": ("keras3_apply", keras),
    "v1": ("v1", tf_keras),
}
# The scale grows from 8, after two finite steps.
SCALING = Scaling(8.0, growth_steps=2)


def wrapped(inner: Any, family: str) -> Any:
    """Return a bare optimizer with loss scaling around it."""
    return HOSTS[FAMILIES[family][0]].wrap(inner, SCALING)


class Optimizer:
    """An optimizer of a family.

    Args:
        family: a key of `FAMILIES`.
        api: whose loss scaling it has: `mpls`, or that of nobody, `bare`.
    """

    def __init__(self, family: str, api: str) -> None:
        name, self.keras = FAMILIES[family]
        self._api, self._host = api, HOSTS[name]
        self.inner = self._host.make_inner("momentum", None)
        self.counter = self._host.make_counter(self.inner)
        self.opt = self.inner if api == "bare" else wrapped(self.inner, family)

    def step(
        self, loss: Callable[[], Any], variables: list[Any], reduce: Callable[[list[Any]], list[Any]] | None = None
    ) -> None:
        """Take a step of a custom loop, which may sum the gradients over the replicas itself."""
        grads = self._host.gradients(self.opt, loss, variables, self._api != "bare")
        # Bare optimizers of Keras 3 always do that.
        is_reduced = reduce is not None and not (self._api == "bare" and self.keras is keras)
        if reduce is not None and is_reduced:
            grads = reduce(grads)
        pairs = list(zip(grads, variables, strict=True))
        self._host.apply(self.opt, pairs, self.counter, aggregate=not is_reduced)

    def state(self) -> dict[str, Any]:
        """Return the variables that hold the step counter, the scale and the count of finite steps."""
        state = {"iterations": self.counter}
        if self._api == "mpls":
            state |= {"scale": self._host.scale(self.opt), "good_steps": self._host.good_steps(self.opt)}
        return state

    def slots(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Return what the bare optimizer has created for variables."""
        return self._host.slots(self.inner, variables)
