"""The contrib optimizer, whose loss scale a manager decides on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsInt

import tensorflow as tf

from mpls.contrib.managers import ARGUMENTS, ExponentialUpdateLossScaleManager, FixedLossScaleManager
from mpls.core.counters import Stuck
from mpls.core.dynamic import SettingMembers
from mpls.core.gradients import unscale_gradients
from mpls.core.loss_scale import LossScale, is_known_unread
from mpls.core.replicas import decide_together
from mpls.core.step_options import ReadOnly, checked_options, explained_arguments, read_only
from mpls.errors import ArgumentTypeError, UndefinedMethodError, error_text
from mpls.formats.wrapper_state import LOSS_SCALE, STEP_OPTIONS
from mpls.upstream.trackables import Trackable, track
from mpls.v1.optimizer import WrapperMembers, require_optimizer

_Optimizer: Any = tf.compat.v1.train.Optimizer

if TYPE_CHECKING:
    _Base = object
else:
    _Base = _Optimizer


class Manager(Protocol):
    """A `LossScaleManager`, or any object that has its two methods."""

    def get_loss_scale(self) -> Any:
        """Return the current loss scale."""

    def update_loss_scale(self, finite_grads: Any, /) -> Any:
        """Update the loss scale after a step."""


_PLACES = {
    **{
        name: f"Pass it to the manager: LossScaleOptimizer(opt, ExponentialUpdateLossScaleManager(..., {own}={{!r}}))"
        for name, own in ARGUMENTS.items()
    },
    "adjustable": "Change a scale by manager.load_state_dict({{**manager.state_dict(), 'scale': 64.0}})",
    "skip_nonfinite": "With every manager, a step with non-finite gradients is skipped",
}


class LossScaleOptimizer(SettingMembers, WrapperMembers, _Base):
    """Wrap a `tf.compat.v1.train.Optimizer` so that it scales the loss with the scale of a manager.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.contrib
        >>> weight = tf.Variable(1.0)
        >>> manager = mpls.contrib.FixedLossScaleManager(128)
        >>> opt = tf.compat.v1.train.GradientDescentOptimizer(0.25)
        >>> opt = mpls.contrib.LossScaleOptimizer(opt, manager)
        >>> opt.minimize(lambda: weight * 2.0, var_list=[weight])
        >>> float(weight)
        0.5
        >>> opt.minimize(lambda: weight * float("nan"), var_list=[weight])
        >>> float(weight)
        0.5

    A step with a non-finite gradient is skipped, even if the scale is fixed: variables, slots and `global_step` do not
    change.

    Args:
        opt: the optimizer to wrap.
        loss_scale_manager: the manager that has the scale.
        count_steps: as in `mpls.keras`.
        skip_counts_step: whether a skipped step advances `global_step`; by default it does not.
        track_overflows: as in `mpls.keras`.
        max_consecutive_skips: as in `mpls.keras`.
        on_give_up: as in `mpls.keras`.
        check_unscaled: as in `mpls.keras`.
        enabled: whether to scale the loss; if not, the wrapper only calls `opt`, and not the manager; see
            `mpls docs disabling`.

    Raises:
        ValueError: `opt` is not a `tf.compat.v1.train.Optimizer`, or an option is out of range.
        TypeError: `loss_scale_manager` lacks `get_loss_scale` or `update_loss_scale`, or an option is not a bool.

    Reproduces:
        `tf.contrib.mixed_precision.LossScaleOptimizer`, TF 1.13 to 1.15. The original did not check its arguments,
        and its `get_name`, `variables` and `get_slot_names` raised AttributeError.
    """

    _subject = "LossScaleOptimizer"

    skip_nonfinite: ReadOnly = read_only(
        "skip_nonfinite", lambda _: True, "Always True: each manager skips such steps."
    )

    @explained_arguments("LossScaleOptimizer", _PLACES, "contrib")
    def __init__(
        self,
        opt: Any,
        loss_scale_manager: Manager,
        *,
        count_steps: bool = False,
        skip_counts_step: bool | None = None,
        track_overflows: bool = False,
        max_consecutive_skips: SupportsInt | None = None,
        on_give_up: Literal["raise", "warn"] | Callable[[Stuck], Any] = "raise",
        check_unscaled: bool = False,
        enabled: bool = True,
    ) -> None:
        if not all(hasattr(loss_scale_manager, name) for name in ("get_loss_scale", "update_loss_scale")):
            raise ArgumentTypeError(
                error_text(
                    "LossScaleOptimizer: loss_scale_manager",
                    "have get_loss_scale and update_loss_scale",
                    loss_scale_manager,
                    "LossScaleOptimizer(opt, FixedLossScaleManager(128))",
                    "contrib",
                )
            )
        values = count_steps, skip_counts_step, track_overflows, max_consecutive_skips, on_give_up, check_unscaled
        given = dict(zip(STEP_OPTIONS, (*values, enabled), strict=True))
        options = checked_options("LossScaleOptimizer", given)
        require_optimizer(opt, self._subject)
        self._wrap(opt, _ManagedLossScale(loss_scale_manager), options)
        self._opt = opt
        self._loss_scale_manager = loss_scale_manager
        if isinstance(loss_scale_manager, Trackable):
            track(self, loss_scale_manager, LOSS_SCALE)

    def _setting(self, name: str) -> Any:
        manager = self._loss_scale_manager
        if not isinstance(manager, ExponentialUpdateLossScaleManager):
            return None
        own = {
            "growth_steps": manager._incr_every_n_steps,
            "growth_factor": manager._incr_ratio,
            "backoff_factor": manager._decr_ratio,
            "hysteresis": manager._decr_every_n_nan_or_inf,
        }
        return {**vars(manager._bounds), **own}[name]

    def _down_scale(self, grads_vars: Iterable[tuple[Any, Any]], loss_scale: Any) -> list[tuple[Any, Any]]:
        pairs = list(grads_vars)
        grads = unscale_gradients([grad for grad, _ in pairs], tf.convert_to_tensor(loss_scale, tf.float32))
        return [(grad, variable) for grad, (_, variable) in zip(grads, pairs, strict=True)]

    def _state_keeper(self) -> Any:
        manager = self._loss_scale_manager
        for method in ("state_dict", "load_state_dict"):
            if not hasattr(manager, method):
                raise UndefinedMethodError(f"{type(manager).__name__} defines no {method}. See mpls docs contrib")
        return manager

    @property
    def _has_saved_scale(self) -> bool:
        return isinstance(self._loss_scale_manager, ExponentialUpdateLossScaleManager)

    @property
    def _part_with_scale(self) -> Any:
        return self._loss_scale_manager

    def variables(self) -> list[Any]:
        """Return the variables of the wrapped optimizer."""
        variables: list[Any] = self._opt.variables()
        return variables


class _ManagedLossScale(LossScale):
    """A manager as the `LossScale` that the v1 wrapper takes."""

    _manager: Any = None

    def __init__(self, manager: Any) -> None:
        super().__init__()
        self._manager = manager

    @property
    def _is_unread(self) -> bool:
        return is_known_unread(self._manager)

    @_is_unread.setter
    def _is_unread(self, is_unread: bool) -> None:
        self._manager._is_unread = is_unread

    def __call__(self) -> Any:
        return tf.convert_to_tensor(self._manager.get_loss_scale())

    # As `DynamicLossScale` has them, for checks of checkpoints.

    @property
    def increment_period(self) -> int:
        """The number of finite steps in a row after which the scale of an exponential manager grows."""
        steps: int = self._manager._incr_every_n_steps
        return steps

    @property
    def initial_loss_scale(self) -> float:
        """The scale at the start of an exponential manager."""
        initial: float = self._manager._init_loss_scale
        return initial

    def update(self, grads: Any) -> tuple[Any, Any]:
        op, grads_finite = decide_together(grads, self._decide)
        return op, grads_finite

    def _floor(self) -> Any:
        manager = self._manager
        if isinstance(manager, FixedLossScaleManager):
            return manager._loss_scale
        return manager._bounds.min_scale if isinstance(manager, ExponentialUpdateLossScaleManager) else super()._floor()

    def _decide(self, grads_finite: Any) -> tuple[Any, Any]:
        return self._manager.update_loss_scale(grads_finite), grads_finite

    def _saved_numbers(self) -> list[Any]:
        return list(getattr(self._manager, "_saved_numbers", list)())

    def get_config(self) -> dict[str, Any]:
        raise UndefinedMethodError("managers have no config. See mpls docs contrib")
