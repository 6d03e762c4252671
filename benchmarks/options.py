"""What the options of mpls beyond the originals cost in a step whose gradients are finite."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from benchmarks.models import ModelStep
from benchmarks.steps import BARE, MPLS, ORIGINAL
from benchmarks.timing import Samples, measure

# Arguments of the wrappers, by the name of the column.
OPTIONS: dict[str, dict[str, Any]] = {
    MPLS: {},
    "bounds": {"min_scale": 0.5, "max_scale": 2.0**24, "growth_factor": 4.0, "backoff_factor": 0.25},
    "hysteresis": {"hysteresis": 2},
    "adjustable": {"adjustable": True},
    "auto": {"initial_scale": "auto", "max_scale": 2.0**12},
    "count_steps": {"count_steps": True},
    "track": {"track_overflows": True},
    "give_up": {"max_consecutive_skips": 50},
    "unscaled": {"check_unscaled": True},
    "disabled": {"enabled": False},
}
# All of them that can be on at once.
OPTIONS["all"] = {
    name: value
    for column in ("bounds", "hysteresis", "adjustable", "count_steps", "track", "give_up", "unscaled")
    for name, value in OPTIONS[column].items()
}
# A mode and a model in which loss scaling weighs much, and one in which gradients are large.
STEPS = (("eager", "controller"), ("function", "deep perceptron"), ("function", "perceptron"))


def measure_options(model: str, family: str, mode: str, seconds: float, turn: int) -> Samples:
    """Measure a step without loss scaling, with the original, and with mpls and each of the options.

    They are built in another order each turn.
    """
    names = [BARE, ORIGINAL, *OPTIONS]
    first = turn % len(names)
    steps = {}
    for name in names[first:] + names[:first]:
        candidate = name if name in (BARE, ORIGINAL) else MPLS
        steps[name] = ModelStep(model, family, candidate, mode, settings=OPTIONS.get(name, {})).step
    samples = measure(steps, 4 * seconds)
    tf.keras.backend.clear_session()
    return samples
