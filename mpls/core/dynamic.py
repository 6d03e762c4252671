"""The dynamic loss scale: variables, and the update rule applied to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsInt, TypeVar

import tensorflow as tf

from mpls.core.abstract import LossScale, StepDecision, recognition_base
from mpls.core.autograph import as_written
from mpls.core.current_settings import current_settings
from mpls.core.finite import all_finite
from mpls.core.numbers import require_usable, to_float, to_int
from mpls.core.persistence.dynamic_state import DynamicStateDict
from mpls.core.persistence.object_checkpoints import SavedObject, examine, require_valid_state
from mpls.core.program_calls import note_read, note_update
from mpls.core.replicas import decide_together, finite_when_summed
from mpls.core.scale_settings import checked_settings, require_effect, require_multiplier
from mpls.core.searching import is_auto, start_between
from mpls.core.step_options import without_idle
from mpls.formats.wrapper_state import AUTO, CURRENT_SCALE, DYNAMIC_CONFIG, GOOD_STEPS

_Self = TypeVar("_Self", bound="DynamicLossScale")

NativeDynamicLossScale: Any = recognition_base("DynamicLossScale")

if TYPE_CHECKING:
    _Base = object
else:
    _Base = NativeDynamicLossScale


class DynamicLossScale(DynamicStateDict, LossScale, _Base):
    """A loss scale that grows while gradients stay finite and shrinks when they do not.

    Every `increment_period` finite steps in a row the scale is multiplied by `multiplier`, unless that leaves float32;
    with `max_scale`, it then goes to `max_scale`.
    At a step with a non-finite gradient it is divided by `multiplier`, not below 1, and the step is to be skipped.

    The state, `current_loss_scale` (float32) and `good_steps` (int64), is created once for each graph in which the
    object is used, and in eager mode at first use, or when an optimizer around it is built, under the strategy of the
    moment.

    Args:
        initial_loss_scale: the scale to start from, positive. Too high is cheap, a few skipped steps; too low is slow
            to grow. `'auto'` looks for the highest one in the first steps: it starts from 2**8, or the bound nearest to
            it, and grows at each finite step until one is skipped; see MIGRATION.md#finding-the-scale.
        increment_period: finite steps in a row after which the scale grows; 1 or less means every step.
        multiplier: the factor, positive.
        min_scale: floor of a shrinking scale, at least 2**-126; by default 1.
        max_scale: ceiling of a growing scale; by default the largest float32.
        growth_factor: the factor by which the scale grows, above 1; by default the multiplier.
        backoff_factor: the factor by which it shrinks, between 0 and 1; by default one divided by the multiplier.
        hysteresis: steps with non-finite gradients after which the scale shrinks, each of which is skipped; by
            default 1. With more, there is also the variable `bad_steps` (int64).
        consecutive_hysteresis: whether they must be in a row; if not, of finite steps only growth resets their count.
        adjustable: whether `configure` can also change what is built already: a function that is traced, a graph that
            a session runs. The settings are variables then, named as the arguments are, and saved in checkpoints.

    Raises:
        ValueError: `initial_loss_scale` or `multiplier` is NaN, infinite, zero or negative, or a string that is no
            number; another number is out of its range; the bounds exclude each other or the initial scale; or
            `multiplier` is at most 1, and `adjustable` is set without factors.
        TypeError: an argument cannot be converted to a number, or is no bool where one is needed.

    Reproduces:
        `tf.compat.v1.train.experimental.DynamicLossScale`, TF 1.14 to 2.21, to the last bit of the scale.
        There, the state belonged to the graph in which the object was built, and `update` in a replica context was an
        AttributeError. The arguments after `multiplier` are of mpls.

    Example:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> scale = mpls.v1.DynamicLossScale(initial_loss_scale=8, increment_period=2)
        >>> _, should_apply = scale.update([tf.constant(float("inf"))])
        >>> bool(should_apply), float(scale())
        (False, 4.0)

        A scale that may fall below 1, and shrinks at the second of two overflows:

        >>> scale = mpls.v1.DynamicLossScale(1, min_scale=0.25, hysteresis=2)
        >>> for _ in range(4):
        ...     _ = scale.update([tf.constant(float("inf"))])
        >>> float(scale())
        0.25
    """

    def __init__(
        self,
        initial_loss_scale: SupportsFloat | str = 2**15,
        increment_period: SupportsInt | str = 2000,
        multiplier: SupportsFloat | str = 2.0,
        *,
        min_scale: SupportsFloat | None = None,
        max_scale: SupportsFloat | None = None,
        growth_factor: SupportsFloat | None = None,
        backoff_factor: SupportsFloat | None = None,
        hysteresis: SupportsInt | None = None,
        consecutive_hysteresis: bool | None = None,
        adjustable: bool | None = None,
    ) -> None:
        super().__init__()
        self._searches = is_auto(initial_loss_scale)
        initial = None if self._searches else _usable_float(initial_loss_scale, "initial_loss_scale")
        self._increment_period = to_int(increment_period, "DynamicLossScale: increment_period")
        self._multiplier = _usable_float(multiplier, "multiplier")
        given = {
            "min_scale": min_scale,
            "max_scale": max_scale,
            "growth_factor": growth_factor,
            "backoff_factor": backoff_factor,
            "hysteresis": hysteresis,
            "consecutive_hysteresis": consecutive_hysteresis,
            "adjustable": adjustable,
        }
        self._scale_settings = checked_settings("DynamicLossScale", initial, given)
        require_effect("DynamicLossScale", self._scale_settings)
        require_multiplier(self._scale_settings, self._multiplier)
        self._initial_loss_scale = start_between(self._scale_settings) if initial is None else initial
        with tf.init_scope():
            is_graph = not tf.executing_eagerly()
        if is_graph:
            # An initializer op or a Saver that the user makes before the first use has to include the state.
            self._create_weights()

    @property
    def initial_loss_scale(self) -> float:
        """The scale at the start, a Python float."""
        return current_settings(self).initial_scale

    @property
    def increment_period(self) -> int:
        """The number of finite steps in a row after which the scale grows, a Python int."""
        return current_settings(self).growth_steps

    @property
    def multiplier(self) -> float:
        """The factor by which the scale grows and shrinks, a Python float."""
        return self._multiplier

    @property
    def _current_loss_scale(self) -> Any:
        return self._created_weight(CURRENT_SCALE)

    @_current_loss_scale.setter
    def _current_loss_scale(self, variable: Any) -> None:
        self._use_weight(CURRENT_SCALE, variable)

    @property
    def _num_good_steps(self) -> Any:
        return self._created_weight(GOOD_STEPS)

    @_num_good_steps.setter
    def _num_good_steps(self, variable: Any) -> None:
        self._use_weight(GOOD_STEPS, variable)

    def _use_weight(self, name: str, variable: Any) -> None:
        # Users' subclasses assign variables that they have made with _add_weight, as the original class did.
        self._weights_here()[name] = variable

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        return {**self._initial_state(), **self._initial_extras()}

    def _initial_state(self) -> dict[str, tuple[Any, Any]]:
        return {CURRENT_SCALE: (self._initial_loss_scale, tf.float32), GOOD_STEPS: (0, tf.int64)}

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        children = super()._trackable_children(save_type, **kwargs)
        examine(self, self._check_saved_object)
        return children

    @property
    def _growth_steps_for_files(self) -> int | None:
        """The growth steps that a saved count must not exceed; None where a file brings them with the count."""
        return None if self._scale_settings.adjustable else self._increment_period

    def _check_saved_object(self, node: SavedObject) -> None:
        require_valid_state(node, self._growth_steps_for_files)
        if self._scale_settings.adjustable:
            held = {name: node.child(name) for name in ("min_scale", "max_scale")}
            found = {name: each.value() for name, each in held.items() if each is not None}
            self._tell_of_replaced(found, node.subject)

    @as_written
    def __call__(self) -> tf.Tensor:
        """Return the current loss scale as a scalar float32 tensor."""
        note_read(self)
        return tf.convert_to_tensor(self._current_loss_scale)

    @as_written
    def update(self, grads: Any) -> tuple[Any, tf.Tensor]:
        """Grow or shrink the scale, depending on whether every gradient is finite.

        Under a strategy the gradients of all replicas are looked at, and all replicas get the same answer;
        it may be called in a replica context and in a cross-replica context.

        Args:
            grads: nested structure of unscaled gradients, tensors or `tf.IndexedSlices` of any float dtype; None
                entries are ignored, and no gradients at all count as finite.

        Returns:
            `(update_op, should_apply)`: in a graph and inside `tf.function` a scalar boolean tensor, which updates the
            state when it is computed, and is true where the scale was due to grow; in eager mode None. And a scalar
            boolean tensor, whether all gradients are finite.
        """
        note_update(self)
        op, should_apply = decide_together(grads, lambda finite: (self._advanced(finite), finite), self._are_finite)
        return op, should_apply

    def _advanced(self, grads_finite: Any) -> Any:
        """Update the state for a step; in a graph, return a tensor that says whether the scale was due to grow."""
        op = self._advance(grads_finite)
        if op is None:
            return None
        with tf.control_dependencies([op]):
            # The count is 0 after growth, and after a step whose gradients are not finite.
            return tf.logical_and(grads_finite, tf.equal(tf.convert_to_tensor(self._num_good_steps), 0))

    def _decide_step(self, grads: Any, *, when_summed: bool, are_same: bool) -> StepDecision:
        """Decide as `update` does, and leave the update of the state to the branches: each needs half of the rule."""
        if type(self).update is not DynamicLossScale.update:
            # A user's subclass has overridden it.
            return super()._decide_step(grads, when_summed=when_summed, are_same=are_same)
        are_finite = self._are_finite_when_summed if when_summed else self._are_finite
        (grads_finite,) = decide_together(grads, lambda finite: (finite,), are_finite, are_same=are_same)
        return StepDecision(grads_finite, self._advance)

    def _floor(self) -> Any:
        settings = self._scale_settings
        return tf.convert_to_tensor(self._created_weight("min_scale")) if settings.adjustable else settings.min_scale

    # Whether the gradients of one replica are finite.
    _are_finite = staticmethod(all_finite)
    _are_finite_when_summed = staticmethod(finite_when_summed)

    def _advance(self, grads_finite: Any) -> Any:
        """Update the state for a step; in a graph, return the op that does it.

        Args:
            grads_finite: whether every gradient was finite, a scalar boolean tensor; or a bool, where that is known.
        """
        if not tf.executing_eagerly() or tf.distribute.has_strategy():
            return self._write_next(grads_finite)
        # A step in another thread must not read the state before this one has written it.
        with self._lock:
            return self._write_next(bool(grads_finite))

    def get_config(self) -> dict[str, Any]:
        """Return `{'initial_loss_scale': float or 'auto', 'increment_period': int, 'multiplier': float}`.

        Arguments beyond those of the originals are in it where they are not the defaults.
        """
        now = current_settings(self)
        values = (AUTO if self._searches else now.initial_scale, now.growth_steps, self._multiplier)
        return {**dict(zip(DYNAMIC_CONFIG, values, strict=True)), **now.settings.changed()}

    @classmethod
    def from_config(cls: type[_Self], config: dict[str, Any]) -> _Self:
        """Create a loss scale from its config.

        Args:
            config: what `get_config` returned. Of settings that had no effect, which configs up to mpls 0.2 may have,
                one warning says that they are left out.

        Returns:
            The loss scale.
        """
        return cls(**without_idle(config, f"{cls.__name__}.from_config", skips=True))

    def __repr__(self) -> str:
        now = current_settings(self)
        state, initial = "", AUTO if self._searches else now.initial_scale
        if tf.executing_eagerly():
            weights = self._weights_here()
            scale, good_steps = now.initial_scale, 0
            if GOOD_STEPS in weights:
                scale, good_steps = weights[CURRENT_SCALE].numpy(), weights[GOOD_STEPS].numpy()
            state = f"current_loss_scale={scale}, num_good_steps={good_steps}, "
        return (
            f"DynamicLossScale({state}initial_loss_scale={initial}, "
            f"increment_period={now.growth_steps}, multiplier={self._multiplier}"
            + "".join(f", {name}={value}" for name, value in now.settings.changed().items())
            + ")"
        )


def _usable_float(value: Any, argument: str) -> float:
    subject = f"DynamicLossScale: {argument}"
    return require_usable(to_float(value, subject), subject, value)
