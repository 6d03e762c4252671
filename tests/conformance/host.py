"""What the suite asks of a family of optimizers."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import mpls.v1

from .setups import Scaling, Term

LEARNING_RATE = 0.1
MOMENTUM = 0.9


class Host(abc.ABC):
    """One family: how its optimizers are built, called and read.

    Attributes:
        name: part of the test ids.
        bare_name: the name of the first family with the same bare optimizers; such families share their controls.
        advances_on_skip: whether a skipped step advances the step counter.
        clips_in_optimizer: whether the bare optimizer clips gradients, since custom loops see only scaled ones.
        is_built_first: whether bare optimizers must have their variables before a replica takes the first step.
    """

    name: str
    bare_name: str
    advances_on_skip: bool
    clips_in_optimizer = False
    is_built_first = False

    def make_variable(self, term: Term, name: str) -> Any:
        """Return a variable of the kind that users of the family have."""
        return term.make(name)

    @abc.abstractmethod
    def make_inner(self, kind: str, clip_norm: float | None) -> Any:
        """Return a bare optimizer, `sgd`, `momentum` or `adam`; it clips if it is `clips_in_optimizer`."""

    @abc.abstractmethod
    def wrap(self, inner: Any, scaling: Scaling) -> Any:
        """Return the optimizer with loss scaling around it."""

    @abc.abstractmethod
    def build(self, opt: Any, variables: list[Any]) -> None:
        """Have an optimizer create its variables before the first step, as users do where it cannot."""

    @abc.abstractmethod
    def make_counter(self, inner: Any) -> Any:
        """Return the variable that counts steps."""

    @abc.abstractmethod
    def minimize(self, opt: Any, loss: Callable[[], Any], variables: list[Any], counter: Any) -> Any:
        """Take a step in one call; return the op of a graph."""

    @abc.abstractmethod
    def gradients(self, opt: Any, loss: Callable[[], Any], variables: list[Any], is_scaled: bool) -> list[Any]:
        """Return unscaled gradients, as a custom loop computes them."""

    @abc.abstractmethod
    def apply(self, opt: Any, grads_and_vars: list[Any], counter: Any, aggregate: bool = True) -> Any:
        """Apply unscaled gradients; return the op of a graph."""

    @abc.abstractmethod
    def slots(self, inner: Any, variables: dict[str, Any]) -> dict[str, Any]:
        """Return the variables of an optimizer, but for the step counter and hyperparameters, by name."""

    def initial_slot(self, name: str) -> float:
        """Return the number that fills a new slot."""
        return 0.0

    def scale(self, opt: Any) -> Any:
        """Return the variable that holds a dynamic scale, or the tensor of a fixed one."""
        loss_scale = opt._loss_scale
        return getattr(loss_scale, "_current_loss_scale", None) if opt_is_dynamic(opt) else loss_scale()

    def good_steps(self, opt: Any) -> Any:
        """Return the variable that counts finite steps; None for a fixed scale."""
        return opt._loss_scale._num_good_steps if opt_is_dynamic(opt) else None


def opt_is_dynamic(opt: Any) -> bool:
    return isinstance(opt._loss_scale, mpls.v1.DynamicLossScale)
