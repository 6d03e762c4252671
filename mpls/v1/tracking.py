"""How checkpoints see the v1 wrapper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mpls.core.state_checks import is_bare
from mpls.core.wrapper_members import RestorableWithSlots
from mpls.formats.wrapper_state import BASE_OPTIMIZER
from mpls.upstream.optimizers import inner_of, powers_of
from mpls.upstream.tensorflow import native_v1_class
from mpls.upstream.trackables import awaited_parts_of, part_of

__all__ = ["NativeWrapper", "Tracking"]

if TYPE_CHECKING:
    from mpls.core.declared import Optimizer as NativeWrapper
    from mpls.core.declared import Trackable as _Base
else:
    # A base class for isinstance checks in TensorFlow and in users' code; all of its methods are overridden.
    NativeWrapper = native_v1_class("MixedPrecisionLossScaleOptimizer") or tf.compat.v1.train.Optimizer
    _Base = object


_Optimizer: Any = tf.compat.v1.train.Optimizer


# A separate class, so that its methods precede those of the native base class.
class Tracking(RestorableWithSlots, _Base):
    """Object-based checkpoints: those of the native wrapper, and those of the wrapped optimizer alone."""

    _restored_family = "v1"
    _optimizer: Any

    def __dir__(self) -> list[str]:
        # Object-based checkpoints ask every object that lists this name for its slots. `base_optimizer` already lists
        # it; finding the slots twice would be an error.
        return [name for name in super().__dir__() if name != "get_slot_names"]

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._check_restore()
        children: dict[str, Any] = super()._trackable_children(*args, **kwargs)
        return children

    # A checkpoint of a bare optimizer holds that optimizer's parts where the wrapper is now.

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        found = super()._lookup_dependency(name, *args, **kwargs)
        if found is None and is_bare(self, BASE_OPTIMIZER):
            return part_of(self._optimizer, name)
        return found

    @property
    def _deferred_dependencies(self) -> Any:
        if is_bare(self, BASE_OPTIMIZER):
            return awaited_parts_of(self._optimizer)
        return super()._deferred_dependencies


def names_of_powers(optimizer: Any) -> dict[str, str]:
    """Return the names of the non-slot variables of an optimizer, Adam's beta powers, in the current graph.

    Variables of the optimizers that it wraps are included. In eager mode there are none.

    Returns:
        By each name, its last part without the number that makes it unique. The variable's names in files of other
        wrappers end with it.
    """
    names: dict[str, str] = {}
    if tf.executing_eagerly():
        return names
    graph = tf.compat.v1.get_default_graph()
    while isinstance(optimizer, _Optimizer):
        for variable in powers_of(optimizer).values():
            for each in getattr(variable, "values", (variable,)):
                # A function may use eager variables, which have no graph.
                if getattr(each, "graph", None) is graph:
                    names[each.op.name] = re.sub(r"_\d+$", "", each.op.name.rpartition("/")[2])
        optimizer = inner_of(optimizer)
    return names
