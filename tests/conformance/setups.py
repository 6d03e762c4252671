"""What is trained, and how: the columns of the suite that a build depends on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.monitor import Stuck

from .devices import tf_variable


@dataclasses.dataclass(frozen=True)
class Scaling:
    """Settings of a loss scale, fixed if there are no growth steps, and of what scales with it.

    Attributes:
        initial: the scale at the start, or `'auto'`.
        growth_steps: as the constructors name them.
        multiplier: the same.
        of_scale: arguments that only mpls has, as the loss scale takes them, by name.
        of_steps: those of the optimizer's steps.
    """

    initial: Any
    growth_steps: int | None = None
    multiplier: float = 2.0
    of_scale: tuple[tuple[str, Any], ...] = ()
    of_steps: tuple[tuple[str, Any], ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.of_scale + self.of_steps)

    @property
    def skips(self) -> bool:
        """Whether a step whose gradients are not finite is skipped."""
        options = self.options
        is_able = self.growth_steps is not None or options.get("skip_nonfinite", False)
        return is_able and options.get("enabled", True)


@dataclasses.dataclass(frozen=True)
class Term:
    """A variable, and the term of the loss that its gradient comes from.

    Attributes:
        values: its initial values; none is a short binary fraction, so that every wrong rounding shows.
        dtype: its dtype.
        rows: indices that are looked up, which makes the gradient sparse; one of them twice.
        is_used: whether the loss depends on it.
    """

    values: Any
    dtype: Any = tf.float32
    rows: tuple[int, ...] = ()
    is_used: bool = True

    def initial(self) -> Any:
        return np.array(self.values, np.float64).astype(self.dtype.as_numpy_dtype)

    def make(self, name: str) -> Any:
        """Return the variable, one of TensorFlow's."""
        return tf.compat.v1.Variable(self.initial(), name=name, use_resource=True)

    def loss(self, variable: Any, factor: Any) -> Any:
        """Return `factor * sum((x - 0.7) ** 2) * 0.3` in the variable's dtype."""
        x = tf_variable(variable)
        x = tf.nn.embedding_lookup(x, tf.constant(self.rows)) if self.rows else tf.convert_to_tensor(x)
        distance = x - tf.constant(0.7, x.dtype)
        return tf.cast(factor, x.dtype) * tf.constant(0.3, x.dtype) * tf.reduce_sum(distance * distance)


Model = dict[str, Term]


@dataclasses.dataclass(frozen=True)
class Setup:
    """What one build trains; every scenario names the setup that it runs on.

    Attributes:
        name: part of the test ids.
        model: the terms of the loss by name; a step's factors are in the order of those that are used.
        optimizer: `sgd`, `momentum` or `adam`.
        scaling: what the wrapper is constructed with.
        is_custom_loop: whether gradients are computed and applied in two calls, instead of minimized in one.
        clip_norm: the global norm to which a custom loop clips unscaled gradients.
        hides_overflows: whether it makes them finite too, and asks the optimizer for the norm.
        aggregate: whether the optimizer sums gradients over replicas.
        loss_dtype: dtype in which the terms are added, the dtype of the loss.
    """

    name: str
    model: Model = dataclasses.field(hash=False)
    optimizer: str = "momentum"
    scaling: Scaling = Scaling(8.0, 2)
    is_custom_loop: bool = False
    clip_norm: float | None = None
    hides_overflows: bool = False
    aggregate: bool = True
    loss_dtype: Any = tf.float32

    def without_scaling(self) -> Setup:
        """Return what a control trains: setups that differ in the scaling alone share one."""
        return dataclasses.replace(self, name="", scaling=Scaling(1.0))

    @property
    def terms(self) -> list[str]:
        return [name for name, term in self.model.items() if term.is_used]

    def loss(self, variables: dict[str, Any], factors: Any) -> Callable[[], Any]:
        def loss() -> Any:
            terms = [self.model[name].loss(variables[name], factors[index]) for index, name in enumerate(self.terms)]
            return tf.add_n([tf.cast(term, self.loss_dtype) for term in terms])

        return loss


_DENSE: Model = {
    "first": Term([0.1, -0.3, 1.7]),
    "second": Term([[0.9], [0.2]]),
    "unused": Term([0.3], is_used=False),
}
_SPARSE: Model = {
    "rows": Term([[0.1, 0.2], [0.3, 0.4], [0.6, -0.9], [1.3, 0.8]], rows=(0, 2, 2)),
}
# Gradients that are stacked, as several of a shape are, between others that are not.
_STACKED: Model = {
    "matrix": Term([[0.9, 0.2], [-0.7, 1.1]]),
    **{f"row_{index}": Term([[0.1 * index, -0.3, 1.7]]) for index in range(3)},
    "short": Term([0.4]),
    "unused": Term([[0.3, 0.5, 0.6]], is_used=False),
    **{f"row_{index}": Term([[0.1 * index, 0.8, -0.6]]) for index in range(3, 5)},
}


def _one(dtype: Any) -> Model:
    # One dtype each: no optimizer can sum gradients of several dtypes over replicas.
    return {"dense": Term([0.1, -0.3, 1.7], dtype)}


_PLAIN = (
    Setup("minimize", _DENSE),
    Setup("adam_clipped", _DENSE, optimizer="adam", is_custom_loop=True, clip_norm=0.5),
    Setup("by_four", _DENSE, scaling=Scaling(8.0, 2, multiplier=4.0)),
    Setup("fixed", _DENSE, scaling=Scaling(128.0)),
    Setup("sparse", _SPARSE),
    Setup("stacked", _STACKED),
    Setup("float16", _one(tf.float16), loss_dtype=tf.float16),
    Setup("bfloat16", _one(tf.bfloat16)),
    Setup("float64", _one(tf.float64)),
    Setup("unaggregated", _DENSE, is_custom_loop=True, aggregate=False),
)

# Those who gave up, each as what the optimizer told.
GIVEN_UP: list[Stuck] = []


def _with(
    name: str,
    of_scale: dict[str, Any] | None = None,
    initial: Any = 8.0,
    growth_steps: int | None = 2,
    clip_norm: float | None = None,
    **of_steps: Any,
) -> Setup:
    """Return a setup whose wrapper has options; the name is no other's beginning."""
    scaling = Scaling(initial, growth_steps, of_scale=tuple((of_scale or {}).items()), of_steps=tuple(of_steps.items()))
    has_loop = clip_norm is not None
    return Setup(name, _DENSE, scaling=scaling, is_custom_loop=has_loop, clip_norm=clip_norm, hides_overflows=has_loop)


_OPTIONS = (
    _with("low_floor", {"min_scale": 0.25}),
    _with("ceiling", {"max_scale": 16.0}),
    _with("factors", {"growth_factor": 8.0, "backoff_factor": 0.25}),
    _with("hysteresis", {"hysteresis": 2}),
    _with("in_a_row", {"hysteresis": 2, "consecutive_hysteresis": True}),
    _with("adjustable", {"adjustable": True}),
    _with("auto", initial="auto", growth_steps=40),
    _with("counted", count_steps=True),
    _with("skips_count", count_steps=True, skip_counts_step=True),
    _with("skips_do_not_count", count_steps=True, skip_counts_step=False),
    _with("tracked", track_overflows=True),
    _with("gives_up", max_consecutive_skips=1, on_give_up=GIVEN_UP.append),
    _with("unscaled_is_checked", check_unscaled=True, clip_norm=0.5),
    _with("skips_at_a_fixed_scale", {"skip_nonfinite": True}, 128.0, None, count_steps=True),
    _with(
        "disabled",
        {"adjustable": True, "min_scale": 0.5},
        enabled=False,
        track_overflows=True,
        max_consecutive_skips=1,
        on_give_up=GIVEN_UP.append,
        check_unscaled=True,
    ),
    _with(
        "together",
        {"min_scale": 0.5, "max_scale": 64.0, "growth_factor": 4.0, "backoff_factor": 0.25, "hysteresis": 2}
        | {"consecutive_hysteresis": True, "adjustable": True},
        "auto",
        40,
        clip_norm=0.5,
        skip_counts_step=True,
        track_overflows=True,
        max_consecutive_skips=2,
        on_give_up=GIVEN_UP.append,
        check_unscaled=True,
    ),
)

PLAIN_SETUPS = tuple(setup.name for setup in _PLAIN)
OPTION_SETUPS = tuple(setup.name for setup in _OPTIONS)
SETUPS: dict[str, Setup] = {setup.name: setup for setup in (*_PLAIN, *_OPTIONS)}
