"""Members and step hooks that both families of tf_keras share."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tensorflow as tf
import tf_keras

from mpls.core.dynamic import DynamicLossScale
from mpls.core.gradients import scale_loss, unscale_gradients
from mpls.core.loss_scale import FixedLossScale, LossScale, is_dynamic, is_loss_scale, never_skips
from mpls.core.replicas import in_replica_context
from mpls.core.savers import StepNames, hook_user_savers
from mpls.core.step_options import StepOptions
from mpls.core.wrapper_members import RestorableWithSlots
from mpls.errors import ArgumentTypeError, NotPicklableError, error_text
from mpls.formats.wrapper_state import LOSS_SCALE, STEP_RECORD
from mpls.keras.calls import GET_SCALED_LOSS, GET_UNSCALED_GRADIENTS
from mpls.keras.family_members import FamilyMembers
from mpls.upstream.keras_packages import keras_graph_session, track_in_keras_graph
from mpls.upstream.optimizers import name_of_legacy
from mpls.upstream.tensorflow import graph_key, weights_of
from mpls.upstream.trackables import Trackable, part_of, parts_of, show_in_place_of, track


class TfKerasMembers(RestorableWithSlots, FamilyMembers):
    """State, configs, and how checkpoints see the wrapper."""

    _native_knows_fixed = True
    works_with_parameter_servers = False

    def _init_family(self, inner_optimizer: Any, name: str | None, options: StepOptions) -> None:
        del inner_optimizer, options
        if name is not None:
            raise ArgumentTypeError(
                error_text(
                    "LossScaleOptimizer: name",
                    "be left out for an optimizer of tf_keras, whose wrappers have none",
                    name,
                    "LossScaleOptimizer(optimizer)",
                    "optimizer-arguments",
                )
            )

    def _make_loss_scale(self, initial_scale: Any, growth_steps: int | None, settings: dict[str, Any]) -> LossScale:
        if growth_steps is None:
            return FixedLossScale._unbounded(initial_scale, **settings)
        return DynamicLossScale(initial_scale, growth_steps, 2.0, **settings)

    @staticmethod
    def _global_policy() -> Any:
        return tf_keras.mixed_precision.global_policy()

    def _track_record(self) -> None:
        track(self._optimizer, self._record, STEP_RECORD, overwrite=True)

    def _held(self, loss_scale: Any) -> Any:
        for variable in weights_of(loss_scale) if is_loss_scale(loss_scale) else ():
            track_in_keras_graph(variable)
        return loss_scale

    @staticmethod
    def _shared(other: Any) -> Any:
        return other._loss_scale

    def _track_inner(self) -> None:
        # Checkpoints hold the wrapped optimizer in the wrapper's place, with the loss scale as one of its parts.
        show_in_place_of(self, self._optimizer)
        is_object = self._shows_loss_scale_object or self._step_scale is not None
        if isinstance(self._loss_scale, DynamicLossScale) or is_object:
            self._track_loss_scale()

    def _track_loss_scale(self) -> None:
        if isinstance(self._loss_scale, Trackable):
            track(self._optimizer, self._loss_scale, LOSS_SCALE, overwrite=True)

    def _create_own_weights(self, variables: list[Any]) -> None:
        """Create the state of the loss scale, and what is counted of the variables, with that of the optimizer.

        A `tf.function` that creates variables is traced twice. Creating them before its first call avoids that.
        """
        if not in_replica_context():
            self._create_state()
            if self._record is not None:
                self._record.create_for(variables)

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._check_restore()
        inner = self._optimizer
        children: dict[str, Any] = parts_of(inner, *args, **kwargs)
        # New optimizers cache their children, possibly before they were wrapped.
        own = {name: part_of(inner, name) for name in (LOSS_SCALE, STEP_RECORD)}
        return {**children, **{name: part for name, part in own.items() if part is not None}}

    @property
    def _skips_count(self) -> bool:
        return self._options.skips_count(self._behavior.skipped_steps_count)

    def _session_of_state(self, session: Any) -> Any:
        if session is None and graph_key() is not None and tf.compat.v1.get_default_session() is None:
            return keras_graph_session()
        return session

    def _set_iterations(self, value: Any) -> None:
        self._optimizer.iterations = value

    # Users' code reads these.

    @property
    def _loss_has_been_scaled(self) -> bool:
        return GET_SCALED_LOSS in self._calls.ever

    @property
    def _gradients_have_been_unscaled(self) -> bool:
        return GET_UNSCALED_GRADIENTS in self._calls.ever

    def _scale(self, loss: Any) -> Any:
        return scale_loss(loss, self._scale_for)

    def _unscale(self, grads: list[Any]) -> list[Any]:
        unscaled: list[Any] = unscale_gradients(grads, self._scale_of_step())
        return unscaled

    def _unscale_pairs(self, grads_and_vars: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        # Call the public method, which users' subclasses override.
        grads = self.get_unscaled_gradients([grad for grad, _ in grads_and_vars])
        return [(grad, variable) for grad, (_, variable) in zip(grads, grads_and_vars, strict=True)]

    def __copy__(self) -> Any:
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise NotPicklableError(
            "LossScaleOptimizer: an optimizer that is pickled must be one of Keras 3; got one of tf_keras, which "
            "cannot be pickled by itself either. Pickle the model, or opt.get_config() and opt.state_dict(). "
            "See mpls docs state-in-a-dict"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        vars(copied).update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return copied

    def _family_config(self) -> dict[str, Any]:
        inner = tf_keras.optimizers.serialize(self._optimizer)
        return {"inner_optimizer": inner, "dynamic": is_dynamic(self._loss_scale)}

    def _family_config_of_old(self) -> dict[str, Any]:
        serialized = tf_keras.optimizers.serialize(self._optimizer)
        return {"optimizer": {key: serialized[key] for key in ("class_name", "config")}}


@dataclass
class TfKerasStep:
    """Step hooks: how the wrapped optimizer is called, and what a skipped step advances.

    Attributes:
        optimizer: the wrapped optimizer.
        skips_count: whether a skipped step advances `iterations`, as from TF 2.3 on.
        args: its positional arguments after the pairs.
        kwargs: its keyword arguments.
        are_same: whether Keras itself has summed the gradients, so that all replicas have the same.
    """

    optimizer: Any
    skips_count: bool
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    are_same: bool = False

    sums_gradients: ClassVar[bool] = False

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        """Call the wrapped optimizer, which advances `iterations`."""
        return self.optimizer.apply_gradients(grads_and_vars, *self.args, **self.kwargs)

    def skip(self) -> Any:
        """Advance `iterations`, or do nothing."""
        return self.optimizer.iterations.assign_add(1, read_value=False) if self.skips_count else None


def scope_of_weights(wrapper: Any) -> AbstractContextManager[Any]:
    """Return the name scope in which a wrapped legacy optimizer's variables are to be made.

    They get the names that they have without the wrapper. In a graph, the names that tf_keras' own wrapper would give
    them are noted too.
    """
    inner = wrapper._optimizer
    name = name_of_legacy(inner)
    scope: AbstractContextManager[Any]
    scope = tf.name_scope(name) if tf.executing_eagerly() else _noted(wrapper, name)
    return scope


@contextmanager
def _noted(wrapper: Any, name: str) -> Iterator[None]:
    hook_user_savers(wrapper)
    is_fixed = never_skips(wrapper._acting_scale)
    names = StepNames(has_conditional=not is_fixed)
    before = _global_variables()
    scope = name
    if is_fixed:
        # The wrapped optimizer enters the scope itself, outside of any conditional, which uses up a unique name.
        scope = tf.compat.v1.get_default_graph().unique_name(name, mark_as_used=False) + "/"
    with tf.name_scope(scope) as prefix:
        yield
    made = {each.op.name for each in _global_variables()} - {each.op.name for each in before}
    names.note({own: f"{name}/{own.removeprefix(prefix)}" for own in sorted(made) if own.startswith(prefix)})


def _global_variables() -> list[Any]:
    with tf.init_scope():
        # A tf.function in eager mode has no v1 variable names to record.
        return [] if tf.executing_eagerly() else list(tf.compat.v1.global_variables())
