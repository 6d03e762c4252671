"""Records reads and updates of a loss scale that a program makes itself, besides the calls of its optimizer."""

from __future__ import annotations

from typing import Any

from mpls.core.graph_local import GraphLocal
from mpls.errors import MplsWarning, advise_user

__all__ = ["ProgramCalls", "begin_step", "is_known_unread", "note_read", "note_update", "read", "warn_if_updated"]

_BEGUN = "has_begun"
_UPDATED = "is_updated"


class ProgramCalls(GraphLocal):
    """Tells whether a program reads a loss scale, or updates it between the scaling and the applying of a step.

    Attributes:
        has_read: whether the program ever read the scale.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_read = False
        self._has_warned = False

    def begin_step(self) -> None:
        """Note that an optimizer scales a loss in this graph or thread."""
        store = self._store()
        store[_BEGUN], store[_UPDATED] = True, False

    def note_update(self) -> None:
        """Note that the loss scale is updated in this graph or thread."""
        store = self._store()
        if store.get(_BEGUN):
            store[_UPDATED] = True

    def end_step(self) -> bool:
        """Note that an optimizer is about to update the loss scale; return whether this is the second update."""
        store = self._store()
        store[_BEGUN] = False
        is_second = store.pop(_UPDATED, False)
        is_first_time, self._has_warned = not self._has_warned, self._has_warned or is_second
        return is_second and is_first_time


def note_read(loss_scale: Any) -> None:
    """Note that a loss scale, or a manager of one, is read."""
    calls = _of(loss_scale)
    if calls is not None:
        calls.has_read = True


def read(loss_scale: Any) -> Any:
    """Return the value of a loss scale for an optimizer, which is no read of the program."""
    calls = _of(loss_scale)
    has_read = calls is not None and calls.has_read
    value = loss_scale()
    if calls is not None:
        calls.has_read = has_read
    return value


def note_update(loss_scale: Any) -> None:
    """Note that a loss scale, or a manager of one, is updated."""
    calls = _of(loss_scale)
    if calls is not None:
        calls.note_update()


def begin_step(loss_scale: Any) -> None:
    """Note that an optimizer scales a loss."""
    calls = _of(loss_scale)
    if calls is not None:
        calls.begin_step()


def is_known_unread(loss_scale: Any) -> bool:
    """Return whether a program never read a loss scale; False if its reads are not recorded."""
    calls = _of(loss_scale)
    return calls is not None and not calls.has_read


def warn_if_updated(loss_scale: Any) -> None:
    """Warn, once, if a program has updated the loss scale in a step in which the optimizer is about to do so too."""
    calls = _of(loss_scale)
    if calls is None or not calls.end_step():
        return
    advise_user(
        "LossScaleOptimizer: the program has updated the loss scale in this step, and apply_gradients() updates it too,"
        " so the step counts twice. Leave out the call of update() or update_loss_scale(), or apply the gradients with "
        "the wrapped optimizer. See MIGRATION.md#updated-twice",
        MplsWarning,
    )


def _of(loss_scale: Any) -> ProgramCalls | None:
    """Return the record of the calls of a loss scale; None for those of TensorFlow and users' own managers."""
    calls: ProgramCalls | None = getattr(loss_scale, "_program_calls", None)
    return calls
