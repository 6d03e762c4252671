"""The readings of an optimizer during training, and the file of them that `mpls plot` draws."""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from mpls.formats.training_history import LOSS, STEP


def reading(step: int, values: Mapping[str, Any], loss: Any = None) -> dict[str, Any]:
    """Return an entry of a history.

    Args:
        step: number of steps so far.
        values: the loss scale and counters, Python numbers, by name.
        loss: the loss, a number or a scalar tensor; None if it is not known.
    """
    return {STEP: step, **values, **({} if loss is None else {LOSS: float(loss)})}


class KeepsHistory:
    """Mixin for callbacks and hooks that read an optimizer during training: the readings, and their file."""

    _history: list[dict[str, Any]]

    @property
    def history(self) -> list[dict[str, Any]]:
        """The readings, a list of dicts, in the order of the steps; the class says which there are.

        Each has `step`, an int; `loss_scale`, a float; if the optimizer counts its steps, `applied_steps`,
        `skipped_steps` and `consecutive_skips`, ints; and `loss`, a float, where it is known.
        """
        return self._history

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the history as JSON, which `mpls plot` draws.

        Args:
            path: the file; an existing one is replaced. It has a list of objects; a number that is not finite is null.

        Raises:
            OSError: it cannot be written.
        """
        lines = [
            json.dumps({name: _in_json(value) for name, value in each.items()}, allow_nan=False)
            for each in self._history
        ]
        pathlib.Path(path).write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def _in_json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
