"""What was read during a training, and its file, which `mpls plot` draws."""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from mpls.formats.training_history import LOSS, STEP

__all__ = ["reading", "save_history"]


def reading(step: int, values: Mapping[str, Any], loss: Any = None) -> dict[str, Any]:
    """Return an entry of a history.

    Args:
        step: number of steps so far.
        values: the loss scale and counters, Python numbers, by name.
        loss: the loss, a number or a scalar tensor; None if it is not known.
    """
    return {STEP: step, **values, **({} if loss is None else {LOSS: float(loss)})}


def save_history(history: Iterable[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write a history as JSON: a list of objects, a line for each; a number that is not finite is null."""
    lines = [json.dumps({name: _in_json(value) for name, value in each.items()}, allow_nan=False) for each in history]
    pathlib.Path(path).write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def _in_json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
