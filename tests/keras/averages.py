"""What a weight and its average (`use_ema`) are after steps of which some are skipped."""

from __future__ import annotations

from collections.abc import Sequence

INF = float("inf")
RATE, MOMENTUM = 0.5, 0.75
# Whether a skipped step counts; None for what the family does.
COUNTS = (None, False, True)
# The gradients of steps, by which of them are bad.
FACTORS = {
    "the first": (INF, 1.0, 2.0),
    "several": (INF, INF, 1.0, INF, 2.0, 0.5),
    "later ones": (1.0, INF, 2.0),
    "all": (INF, INF),
}


def expected(family: str, counts: bool | None, factors: Sequence[float]) -> tuple[float, float]:
    """Return a weight that began as 1, and its average, after steps with these gradients."""
    weight = average = 1.0
    is_counted = family == "new" if counts is None else counts
    iterations = 0
    for factor in factors:
        if factor == INF:
            iterations += is_counted
            continue
        weight -= RATE * factor
        # Keras 3 takes the average from the first step that it knows of, tf_keras from the weight before it.
        momentum = 0.0 if family == "keras3" and iterations == 0 else MOMENTUM
        average = momentum * average + (1 - momentum) * weight
        iterations += 1
    return weight, average
