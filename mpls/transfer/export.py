"""Live optimizers into records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpls.errors import ArgumentValueError, SavedStateError, error_text
from mpls.formats import algorithms
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.transfer.hosts import ANCHOR, Host, Place, as_numpy, host_of
from mpls.transfer.scales import scale_of
from mpls.transfer.settings import settings_of
from mpls.upstream.optimizers import counter_of


def export(optimizer: Any, variables: Sequence[Any] | None = None, key: str = "optimizer") -> OptimizerRecord:
    """Return a record of a live optimizer's state, and of its wrapper's loss scale.

    Args:
        optimizer: of tf_keras, legacy or new, of Keras 3 or of `tf.compat.v1.train`; bare or wrapped.
        variables: those that it trains, in the order that the record is to have; by default its own order.
        key: what the record calls the optimizer.

    Raises:
        TypeError: it is no optimizer.
        ValueError: it does not know one of the variables.
        SavedStateError: it has state that a record cannot hold.
    """
    host = host_of(optimizer, "convert_state: source", takes_v1=True)
    unknown = host.uncounted() if host.state is None else []
    if unknown:
        raise SavedStateError(
            f"convert_state: source must keep its state in lists, one element for each variable; {host} has "
            f"{', '.join(unknown)} elsewhere. Save and restore it with tf.train.Checkpoint. See MIGRATION.md#{ANCHOR}"
        )
    if host.is_built(None) and variables is not None and host.state is not None:
        _require_slots(host, host.places(variables))
    places = host.places(variables if host.is_built(None) else None)
    return OptimizerRecord(
        key=key,
        family=host.family,
        algorithm=host.algorithm,
        iterations=_iterations(host),
        hyperparameters=settings_of(host),
        variables=[_variable_record(host, place) for place in places],
        others={name: as_numpy(variable) for name, variable in host.others().items()},
        loss_scale=_loss_scale(host),
    )


def _loss_scale(host: Host) -> LossScaleRecord | None:
    if host.wrapper is None:
        return None
    scale = scale_of(host.wrapper)
    # Of a user's own class nobody knows more than that it is there.
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
        # They count in `global_step`, which they do not know; the loader reads Adam's powers.
        return None
    counter = counter_of(host.inner)
    return 0 if counter is None else int(as_numpy(counter))
