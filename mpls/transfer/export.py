"""`export`: the record of a live optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpls.errors import ArgumentValueError, SavedStateError, error_text
from mpls.formats import algorithms
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.formats.validity import ANCHOR, SEE_MIGRATION
from mpls.transfer.hosts import Host, Place, as_numpy
from mpls.transfer.scales import scale_of
from mpls.transfer.settings import settings_of
from mpls.transfer.step_counts import counts_of
from mpls.transfer.unwrapping import host_of
from mpls.upstream.optimizers import counter_of


def export(optimizer: Any, variables: Sequence[Any] | None = None, key: str = "optimizer") -> OptimizerRecord:
    """Return a record of the state of a live optimizer, and of its wrapper's loss scale.

    Args:
        optimizer: an optimizer of tf_keras, legacy or new, of Keras 3 or of `tf.compat.v1.train`; bare or wrapped.
        variables: the variables that it trains, in the order for the record; by default in the optimizer's order.
        key: the key of the record.

    Raises:
        TypeError: it is not an optimizer.
        ValueError: it does not know one of the variables.
        SavedStateError: it is of an unknown algorithm, with variables outside of lists of slots.
    """
    host = host_of(optimizer, "convert_state: source", takes_v1=True)
    unknown = host.uncounted() if host.state is None else []
    if unknown:
        raise SavedStateError(
            f"convert_state: source must keep its state in lists, one element for each variable; {host} has "
            f"{', '.join(unknown)} elsewhere. Save and restore it with tf.train.Checkpoint. {SEE_MIGRATION}"
        )
    if host.is_built(None) and variables is not None and host.state is not None:
        _require_slots(host, host.places(variables))
    places = host.places(variables if host.is_built(None) else None)
    counts, overflows = counts_of(host.wrapper)
    return OptimizerRecord(
        key=key,
        family=host.family,
        algorithm=host.algorithm,
        iterations=_iterations(host),
        hyperparameters=settings_of(host),
        variables=[_variable_record(host, place) for place in places],
        others={name: as_numpy(variable) for name, variable in host.others().items()},
        loss_scale=_loss_scale(host),
        counts=counts,
        overflows=overflows,
    )


def _loss_scale(host: Host) -> LossScaleRecord | None:
    if host.wrapper is None:
        return None
    scale = scale_of(host.wrapper)
    # A user's own class of loss scale has no state that mpls knows.
    return LossScaleRecord(dynamic=True) if scale is None else scale.record


def _variable_record(host: Host, place: Place) -> VariableRecord:
    own = algorithms.slot_names(host.state, host.family) if host.state else {}
    slots = {own.get(name, name): as_numpy(slot) for name, slot in place.slots.items()}
    return VariableRecord(key=None, name=place.name, slots=slots)


def _require_slots(host: Host, places: Sequence[Place]) -> None:
    names = {name for place in places for name in place.slots}
    for place in places:
        if set(place.slots) != names or (not names and any(each.slots for each in host.places())):
            raise ArgumentValueError(
                error_text(
                    "convert_state: source_variables",
                    f"be variables that {host} has trained",
                    place.name,
                    "Pass the source's own variables: convert_state(old, new, new_variables, source_variables=...)",
                    ANCHOR,
                )
            )


def _iterations(host: Host) -> int | None:
    if host.family == "v1":
        # The program counts in `global_step`. `load_record` counts by the beta powers of an Adam.
        return None
    counter = counter_of(host.inner)
    return 0 if counter is None else int(as_numpy(counter))
