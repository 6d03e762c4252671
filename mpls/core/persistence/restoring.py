"""Members of wrappers of all families with which users restore, read and change state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, SupportsFloat, SupportsInt

import tensorflow as tf

from mpls.core import loss_scale as loss_scales
from mpls.core.adjusting import SettingMembers
from mpls.core.persistence.object_checkpoints import (
    SavedObject,
    examine,
    examine_slot,
    refuse_other_family,
    require_valid_state,
    warn_of_missing_scale,
)
from mpls.core.persistence.state_dict import in_graph_of
from mpls.core.step_record import StepRecord, load_with_counts, with_counts
from mpls.errors import ArgumentTypeError
from mpls.formats.families import Family
from mpls.formats.wrapper_state import LOSS_SCALE, STATE
from mpls.upstream.optimizers import fill_slot
from mpls.upstream.tensorflow import graph_key

__all__ = ["Restorable", "RestorableWithSlots"]


class Restorable(SettingMembers):
    """Checks of the checkpoints that users restore, `state_dict` and `load_state_dict`."""

    _loss_scale: Any
    _record: StepRecord | None

    # The family whose state it can be restored from.
    _restored_family: ClassVar[Family]

    def state_dict(self, session: Any = None) -> dict[str, Any]:
        """Return the state of the loss scale as a small dict that `json` can write.

        It is for people who keep their own checkpoints. The wrapped optimizer's state is not in it.

        Args:
            session: in a v1 graph, the session that has the variables; by default the default one.

        Returns:
            `{'dynamic': True, 'scale': float, 'good_steps': int, 'initial_scale': float, 'growth_steps': int,
            'multiplier': float}`, or `{'dynamic': False, 'scale': float}` for a fixed scale. Floats are exact. A loss
            scale of a user's own class may return another dict. Settings and variables of arguments that the originals
            had not are in it where they are used, counters of steps among them.

        Raises:
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Example:
            >>> import tensorflow as tf
            >>> import mpls.v1
            >>> opt = tf.compat.v1.train.GradientDescentOptimizer(0.25)
            >>> opt = mpls.v1.MixedPrecisionLossScaleOptimizer(opt, "dynamic")
            >>> state = opt.state_dict()
            >>> state["scale"], state["good_steps"]
            (32768.0, 0)
            >>> opt.load_state_dict({**state, "scale": 1024.0})
            >>> opt.state_dict()["scale"]
            1024.0
        """
        session = self._session_of_state(session)
        with in_graph_of(session):
            return with_counts(self._state_keeper().state_dict(session), self._record, session)

    def load_state_dict(self, state: Mapping[str, Any], session: Any = None) -> None:
        """Set the state of the loss scale to what `state_dict` returned; nothing changes unless all of it is right.

        Under a strategy all replicas get it. Settings that decide on the next steps (`'growth_steps'`, `'multiplier'`,
        the scale of a fixed one) must be those of this optimizer; a dict without the first two is taken as it is.
        Of a state with options that this optimizer was made without, the rest is loaded, and a warning names them.

        Args:
            state: what `state_dict` returned, of an optimizer of any family; it is not changed.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: it has other keys, belongs to another kind of loss scale, or holds numbers that none can have;
                or the call is made in a replica context.
            TypeError: it is no dict.
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.
        """
        session = self._session_of_state(session)
        with in_graph_of(session):
            load_with_counts(state, self._record, session, self._state_keeper().load_state_dict)

    def set_scale(self, scale: SupportsFloat, session: Any = None) -> None:
        """Set the current dynamic scale; see `DynamicLossScale.set_scale`.

        Args:
            scale: the scale, between the bounds.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: it is NaN, infinite or out of bounds; or the call is made in a replica context.
            TypeError: it is no number, or the loss scale is not dynamic.
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Example:
            >>> import tf_keras, mpls.keras
            >>> opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD())
            >>> opt.set_scale(1024)
            >>> float(opt.loss_scale)
            1024.0
        """
        self._dynamic_scale_for("set_scale").set_scale(scale, self._session_of_state(session))

    def configure(
        self,
        *,
        growth_steps: SupportsInt | None = None,
        growth_factor: SupportsFloat | None = None,
        backoff_factor: SupportsFloat | None = None,
        min_scale: SupportsFloat | None = None,
        max_scale: SupportsFloat | None = None,
        hysteresis: SupportsInt | None = None,
        session: Any = None,
    ) -> None:
        """Change how the dynamic scale adapts from the next step on; see `DynamicLossScale.configure`.

        Args:
            growth_steps: finite steps in a row after which the scale grows.
            growth_factor: the factor by which it grows, above 1.
            backoff_factor: the factor by which it shrinks, between 0 and 1.
            min_scale: the least scale.
            max_scale: the largest scale.
            hysteresis: non-finite steps after which the scale shrinks.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: a number is out of its range, or the bounds exclude each other; and then nothing has changed.
            TypeError: an argument is no number, or the loss scale is not dynamic.
            RuntimeError: the settings are constants in a graph or a function that is already built; there is no
                session; or the call is made inside of a `tf.function`.

        Example:
            >>> import tf_keras, mpls.keras
            >>> opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), adjustable=True)
            >>> opt.configure(growth_steps=100, max_scale=4096)
            >>> float(opt.loss_scale)
            4096.0
        """
        self._dynamic_scale_for("configure").configure(
            growth_steps=growth_steps,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            min_scale=min_scale,
            max_scale=max_scale,
            hysteresis=hysteresis,
            session=self._session_of_state(session),
        )

    def _setting(self, name: str) -> Any:
        loss_scale = self._loss_scale
        return loss_scale._setting(name) if isinstance(loss_scale, loss_scales.DynamicLossScale) else None

    def _dynamic_scale_for(self, method: str) -> Any:
        if not isinstance(self._loss_scale, loss_scales.DynamicLossScale):
            raise ArgumentTypeError(
                f"{type(self).__name__}: {method}() needs a dynamic loss scale of mpls; got a "
                f"{type(self._loss_scale).__name__}. Wrap the optimizer with a dynamic one. "
                "See MIGRATION.md#bounds-and-dynamics"
            )
        return self._loss_scale

    def _session_of_state(self, session: Any) -> Any:
        """Return the session to use if the user passes this one; families with sessions of their own override it."""
        return session

    def _state_keeper(self) -> Any:
        if not hasattr(self._loss_scale, "load_state_dict"):
            raise ArgumentTypeError(
                f"{type(self).__name__}: the loss scale must have state_dict and load_state_dict; got a "
                f"{type(self._loss_scale).__name__}. Derive its class from mpls.v1.LossScale. "
                "See MIGRATION.md#my-checkpoints"
            )
        return self._loss_scale

    def _check_restore(self) -> None:
        """Check the checkpoint from which TensorFlow is restoring this object; called by `_trackable_children`."""
        examine(self, self._check_saved_object)

    def _check_saved_object(self, node: SavedObject) -> None:
        refuse_other_family(node, self._restored_family)
        if not loss_scales.is_dynamic(self._loss_scale):
            return
        if self._require_valid_loss_scale(node, loss_scales.growth_steps_for_files(self._loss_scale)):
            return
        if not vars(self).get("_has_told_of_missing_scale"):
            vars(self)["_has_told_of_missing_scale"] = True
            warn_of_missing_scale(node.subject, f"stays at {self._scale_known_now()}")

    def _require_valid_loss_scale(self, node: SavedObject, growth_steps: int | None) -> bool:
        """Refuse an invalid state; return whether the checkpoint holds a loss scale."""
        loss_scale = node.child(LOSS_SCALE)
        require_valid_state(loss_scale, growth_steps)
        return loss_scale is not None and loss_scale.child(STATE[0]) is not None

    def _scale_known_now(self) -> float:
        if graph_key() is not None:
            return float(self._loss_scale.initial_loss_scale)
        with tf.init_scope():
            return float(self._loss_scale())


class RestorableWithSlots(Restorable):
    """The same for families whose optimizers restore slot variables of TensorFlow: all but Keras 3."""

    _optimizer: Any

    def _create_or_restore_slot_variable(self, slot_variable_position: Any, *args: Any, **kwargs: Any) -> Any:
        examine_slot(self, slot_variable_position, self._check_saved_object)
        return fill_slot(self._optimizer, slot_variable_position, *args, **kwargs)
