"""Live optimizers that keep their slots in lists, one for each kind: new ones of tf_keras, and those of Keras 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpls.errors import ArgumentValueError, error_text
from mpls.formats import algorithms
from mpls.formats.validity import ANCHOR
from mpls.transfer.hosts import Host, Place, name_of
from mpls.upstream import table
from mpls.upstream.optimizers import (
    counters_of,
    index_of,
    is_built,
    kept_variables,
    lists_of,
    settle_counts,
    trained_variables,
)


class _SlotListHost(Host):
    def is_built(self, variables: Sequence[Any] | None) -> bool:
        # They create all slots at once.
        del variables
        return is_built(self.inner)

    def _index(self, variable: Any) -> int:
        raise NotImplementedError

    def _own(self) -> list[Any]:
        """Return the variables that it was built with; a None for each if it does not keep them."""
        raise NotImplementedError

    def _lists(self) -> dict[str, list[Any]]:
        known = {id(each) for each in self.inner.variables}
        count = len(self._own())
        lists = {}
        for name, value in lists_of(self.inner).items():
            # A variable without this slot has None in its place, or in Adafactor a placeholder.
            own = [each if id(each) in known else None for each in value]
            if len(own) == count and any(each is not None for each in own):
                lists[name] = own
        return lists

    def places(self, variables: Sequence[Any] | None = None) -> list[Place]:
        own, lists = self._own(), self._lists()
        indices = range(len(own)) if variables is None else [self._known_index(each) for each in variables]
        found = []
        for place, index in enumerate(indices):
            slots = {
                algorithms.slot_called(self.state, self.family, name): slots[index]
                for name, slots in lists.items()
                if slots[index] is not None
            }
            variable = own[index] if variables is None else variables[place]
            found.append(Place(self._name_from(variable, slots), slots, variable))
        return found

    def _known_index(self, variable: Any) -> int:
        try:
            return self._index(variable)
        except KeyError:
            advice = "Pass the variables that it was built with, or none"
            raise ArgumentValueError(
                error_text("convert_state: variables", "be known to the optimizer", variable, advice, ANCHOR)
            ) from None

    def _name_from(self, variable: Any, slots: Mapping[str, Any]) -> str | None:
        del slots
        return name_of(variable)

    def others(self) -> dict[str, Any]:
        return kept_variables(self.inner)

    def uncounted(self) -> list[str]:
        counted = {id(slot) for slots in self._lists().values() for slot in slots}
        counted |= {id(each) for each in (*self.others().values(), *counters_of(self.inner))}
        return [str(each.name) for each in self.inner.variables if id(each) not in counted]


class NewHost(_SlotListHost):
    """New optimizers of tf_keras."""

    family = "new"

    def _index(self, variable: Any) -> int:
        return index_of(self.inner, variable)

    def _own(self) -> list[Any]:
        return [None] * (len(table.INDEX.needed_of(self.inner)) if is_built(self.inner) else 0)

    def _name_from(self, variable: Any, slots: Mapping[str, Any]) -> str | None:
        if variable is not None:
            return name_of(variable)
        for name, slot in slots.items():
            own = algorithms.slot_names(self.state, "new").get(name, name) if self.state else name
            # The name is optimizer/slot/variable.
            return f"/{slot.name}".partition(":")[0].partition(f"/{own}/")[2] or None
        return None

    def settle(self, steps: int) -> None:
        """Set the count that Nadam keeps as a Python number, and the current learning rate of a schedule."""
        settle_counts(self.inner, steps)


class Keras3Host(_SlotListHost):
    """Optimizers of Keras 3."""

    family = "keras3"

    def _index(self, variable: Any) -> int:
        return index_of(self.inner, variable)

    def _own(self) -> list[Any]:
        return trained_variables(self.inner)
