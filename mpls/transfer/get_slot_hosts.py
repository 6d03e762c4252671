"""Live optimizers whose slots are found by `get_slot`: those of `tf.compat.v1.train`, and legacy ones of tf_keras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from mpls.formats import algorithms
from mpls.transfer.hosts import Host, Place, name_of, scope_of
from mpls.upstream import table
from mpls.upstream.optimizers import counter_of, create_weights, name_of_legacy, powers_of


class _GetSlotHost(Host):
    def _called(self, name: str) -> str:
        return algorithms.slot_called(self.state, self.family, name)

    def places(self, variables: Sequence[Any] | None = None) -> list[Place]:
        if variables is not None:
            return [Place(name_of(each), self._slots_of(each), each) for each in variables]
        return [
            Place(self._name_from(slots), {self._called(name): slot for name, slot in slots.items()})
            for slots in self._by_variable().values()
        ]

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        found = {}
        for name in self.inner.get_slot_names():
            try:
                slot = self.inner.get_slot(variable, name)
            except KeyError:
                continue
            if slot is not None:
                found[self._called(name)] = slot
        return found

    def _by_variable(self) -> dict[Any, dict[str, Any]]:
        raise NotImplementedError

    @staticmethod
    def _name_from(slots: Mapping[str, Any]) -> str | None:
        for slot in slots.values():
            # The names of slot variables are those of their variables, a slash and more.
            return str(slot.name).partition(":")[0].rpartition("/")[0] or None
        return None

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        if variables is None:
            return bool(self._by_variable())
        return all(self._slots_of(each) for each in variables)


class V1Host(_GetSlotHost):
    """Optimizers of `tf.compat.v1.train`."""

    family = "v1"

    @property
    def iterations(self) -> Any:
        """None: the program counts steps in `global_step`, and passes it to the optimizer."""
        return None

    def _by_variable(self) -> dict[Any, dict[str, Any]]:
        found: dict[Any, dict[str, Any]] = {}
        for name, slots in table.V1_SLOTS.needed_of(self.inner).items():
            for key, slot in slots.items():
                found.setdefault(key, {})[name] = slot
        return found

    def others(self) -> dict[str, Any]:
        """Return the variables that are no slots, such as Adam's beta powers, by name."""
        return {name: variable for (name, _), variable in powers_of(self.inner).items()}


class LegacyHost(_GetSlotHost):
    """Legacy optimizers of tf_keras."""

    family = "legacy"

    @property
    def iterations(self) -> Any:
        """The variable that counts steps; reading it creates it."""
        return self.inner.iterations

    def build(self, variables: Sequence[Any]) -> None:
        """Create the slots of variables that have none yet; slots of others stay."""
        with scope_of(variables), tf.name_scope(name_of_legacy(self.inner)):
            create_weights(self.optimizer, list(variables))

    def _by_variable(self) -> dict[Any, dict[str, Any]]:
        found: dict[Any, dict[str, Any]] = table.LEGACY_SLOTS.needed_of(self.inner)
        return found

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        """Return whether the slots of these variables exist; an SGD without momentum creates none."""
        without_slots = self.state == "SGD" and not table.MOMENTUM.of(self.inner, True)
        return bool(without_slots and table.HAS_HYPERS.of(self.inner)) or super().is_built(variables)

    def others(self) -> dict[str, Any]:
        """Return what the optimizer has created with `add_weight` and is no slot, such as Nadam's momentum cache."""
        slots = {id(slot) for slots in self._by_variable().values() for slot in slots.values()}
        counter = counter_of(self.inner)
        made = table.WEIGHTS.needed_of(self.inner)
        weights = [each for each in made if id(each) not in slots and each is not counter]
        return {str(each.name).partition(":")[0].rpartition("/")[2]: each for each in weights}
