"""The dicts that `state_dict` of loss scales, their managers and wrappers returns, and `load_state_dict` takes."""

from __future__ import annotations

from typing import Any

from mpls.formats.wrapper_state import (
    AUTO,
    BAD_STEPS,
    COUNTS,
    SCALE_OPTIONS,
    SEARCH_STEPS,
    STATE_IN_CONFIGS,
)

# Whether the scale is a dynamic one; and its state, of which a fixed one has the scale only.
DYNAMIC = "dynamic"
SCALE, GOOD_STEPS = STATE_IN_CONFIGS
# Of dynamic ones: where the scale has started, and settings; the last two are those of the managers of `tf.contrib`.
INITIAL_SCALE, GROWTH_STEPS = "initial_scale", "growth_steps"
SHRINK_STEPS, SHRINK_RATIO = "shrink_steps", "shrink_ratio"
# Of users' own classes: the name of the class, and the values of its variables by name.
CLASS_NAME, WEIGHTS = "class_name", "weights"


# The keys that only options bring, and the option, as code.
OPTIONS_OF_KEYS = {
    **{name: name for name in SCALE_OPTIONS},
    BAD_STEPS: "hysteresis=2 or adjustable=True",
    SEARCH_STEPS: f"initial_scale={AUTO!r}",
    **dict.fromkeys(COUNTS, "count_steps=True"),
}


def fixed_state(scale: float) -> dict[str, Any]:
    """Return what each dict of a fixed loss scale has."""
    return {DYNAMIC: False, SCALE: scale}


def dynamic_state(scale: float, good_steps: int) -> dict[str, Any]:
    """Return what each dict of a dynamic loss scale has."""
    return {DYNAMIC: True, SCALE: scale, GOOD_STEPS: good_steps}
