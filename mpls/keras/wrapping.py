"""How a wrapper takes an optimizer: the adapter class, the loss scale, the options of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mpls.core import releases
from mpls.core.counters import StepRecord
from mpls.core.dynamic import DynamicLossScale
from mpls.core.loss_scale import LossScale, StepScale
from mpls.core.releases import ReleaseBehavior
from mpls.core.step import StepHooks, scaled_step
from mpls.core.step_options import StepOptions
from mpls.formats.wrapper_state import CURRENT_SCALE
from mpls.keras.arguments import refuse_wrapped
from mpls.keras.calls import ScalingCalls
from mpls.keras.classes import class_for
from mpls.keras.members import Members
from mpls.keras.own_files import recognise_own_files
from mpls.keras.strategies import require_supported_strategy
from mpls.upstream.modules import set_class
from mpls.upstream.optimizers import mark_as_wrapped

__all__ = ["Wrapping"]


class Wrapping(Members):
    """The construction of the public class."""

    if TYPE_CHECKING:
        # A family defines these.
        def _init_family(self, inner_optimizer: Any, name: str | None, options: StepOptions) -> None: ...
        def _make_loss_scale(
            self, initial_scale: Any, growth_steps: int | None, settings: dict[str, Any]
        ) -> LossScale: ...
        def _make_record(self, options: StepOptions) -> StepRecord: ...
        def _track_record(self) -> None: ...
        def _held(self, loss_scale: Any) -> Any: ...
        def _shared(self, other: Any) -> Any: ...
        def _make_step_scale(self, loss_scale: Any) -> StepScale: ...
        def _track_inner(self) -> None: ...
        def _track_loss_scale(self) -> None: ...
        def _scale(self, loss: Any) -> Any: ...
        def _unscale(self, grads: list[Any]) -> list[Any]: ...
        def _family_config(self) -> dict[str, Any]: ...

    _behavior: ReleaseBehavior
    _calls: ScalingCalls
    # Where the loss scale is shared.
    _step_scale: StepScale | None

    def _wrap(
        self,
        inner_optimizer: Any,
        adapter: Any,
        name: str | None,
        options: StepOptions,
        *,
        shows_object: bool = False,
    ) -> None:
        require_supported_strategy(adapter)
        refuse_wrapped(inner_optimizer)
        recognise_own_files()
        behavior = releases.current()
        # The inner optimizer decides on the family, so the instance gets the adapter's methods only here. Users'
        # subclasses keep their own methods.
        set_class(self, class_for(type(self), adapter))
        self._init_family(inner_optimizer, name, options)
        # Bypass the __setattr__ of the frameworks' bases, which tracks and delegates attributes.
        vars(self).update(
            _optimizer=inner_optimizer,
            _behavior=behavior,
            _shows_loss_scale_object=shows_object,
            _calls=ScalingCalls(warns=options.enabled),
            _options=options,
            _record=self._make_record(options) if options.needs_record else None,
            _step_scale=None,
            _no_scaling=None if options.enabled else self._make_loss_scale(1.0, None, {}),
        )

    def _scale_shared_with(self, other: Any) -> Any:
        """Return the loss scale of another wrapper, which is told that it is shared."""
        loss_scale = self._shared(other)
        for wrapper in (self, other):
            if wrapper._step_scale is None:
                vars(wrapper)["_step_scale"] = wrapper._make_step_scale(loss_scale)
        return loss_scale

    def _scale_of_step(self) -> Any:
        """Return the loss scale that multiplies a loss and divides its gradients."""
        return self._loss_scale() if self._step_scale is None else self._step_scale()

    def _scaled_step(self, pairs: list[tuple[Any, Any]], hooks: StepHooks) -> Any:
        done = scaled_step(pairs, self._acting_scale, hooks, self._record)
        return done if self._step_scale is None else self._step_scale.after(done)

    def _begin_with(self, loss_scale: Any) -> None:
        vars(self)["_loss_scale"] = loss_scale
        self._track_inner()
        if self._record is not None:
            self._track_record()
        if tf.distribute.has_strategy():
            # Create the state now: a first step inside a replica cannot, where merge_call is forbidden.
            self._create_state()
        mark_as_wrapped(self._optimizer)

    def _create_state(self) -> None:
        """Create the state of the loss scale and the counters, if they do not exist yet."""
        if isinstance(self._loss_scale, DynamicLossScale):
            # This also creates the counter. Every step calls it; if both variables exist, it does nothing.
            self._loss_scale._created_weight(CURRENT_SCALE)
        if self._record is not None:
            self._record.create()
        if self._step_scale is not None:
            self._step_scale.create()
