"""Traces for the tests, as small as can be."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def content(steps: int = 6, **changes: Any) -> dict[str, Any]:
    """Return the content of a trace of one optimizer with two variables, in which step 3 is skipped."""
    rows = [row(number) for number in range(1, steps + 1)]
    variables = [
        {"name": "dense/kernel", "shape": [2, 3], "dtype": "float32"},
        {"name": "dense/bias", "shape": [3], "dtype": "float32"},
    ]
    wrapper = {"class": "LossScaleOptimizer", "optimizer": "Adam", "framework": "tensorflow", "variables": variables}
    whole = {
        "format": "mpls trace",
        "version": 1,
        "program": "train.py",
        "settings": {"every": None, "steps": None, "variables": None, "seed": None},
        "steps": rows,
        "environment": {"tensorflow": "2.2.3"},
        "options": {},
        "wrappers": [wrapper],
        "ended_by": None,
    }
    return {**whole, **changes}


def row(number: int) -> Row:
    is_skipped = number == 3
    scale, counter = (16.0, number - 1) if number <= 3 else (8.0, number - 4)
    return {
        "wrapper": 0,
        "step": number,
        "scale": scale,
        "counter": counter,
        "applied": not is_skipped,
        "nonfinite": 2 if is_skipped else 0,
        "loss": "inf" if is_skipped else 4.0 / number,
        "gradient_norms": ["nan", 1.0] if is_skipped else [2.0 / number, 1.0 / number],
        "gradients_digest": f"{number:08x}",
        "variable_norms": [3.0 + number / 8, 1.0],
        "variables_digest": f"{number + 100:08x}",
        "scale_after": 8.0 if is_skipped else scale,
        "counter_after": 0 if is_skipped else counter + 1,
    }


def of_today(steps: int = 6, **changes: Any) -> dict[str, Any]:
    """Return the same as `mpls trace` records it."""
    about = content(steps)
    environment = {"tensorflow": "2.21.0", "mpls": "1.0.0"}
    wrapper = {**about["wrappers"][0], "framework": "tf_keras"}
    return {**about, "environment": environment, "wrappers": [wrapper], **changes}


def changed(about: dict[str, Any], number: int, **values: Any) -> dict[str, Any]:
    """Return a trace of which a step is changed; what is callable gets the value that was there."""
    rows = []
    for each in about["steps"]:
        if each["step"] == number:
            new = {name: value(each[name]) if isinstance(value, Callable) else value for name, value in values.items()}
            each = {**each, **new}
        rows.append(each)
    return {**about, "steps": rows}


def written(folder: pathlib.Path, name: str, about: Any) -> str:
    """Write a trace, and return its path."""
    path = folder / name
    path.write_text(json.dumps(about))
    return str(path)
