"""The forms of wrappers' configs: the names in them, and what mpls adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["BASE_ARGUMENTS", "FIXED_STATE", "NEVER", "SETTINGS", "STATE_KEY", "WRAPPERS"]

# The names of the classes, whichever release has saved them.
WRAPPERS = ("LossScaleOptimizer", "LossScaleOptimizerV1", "LossScaleOptimizerV3")

# The settings of a wrapper of TF 2.4 and later, beside `inner_optimizer`.
SETTINGS = ("dynamic", "initial_scale", "dynamic_growth_steps")

# What wrappers of Keras 3 up to 3.5 had in their configs without using it, with its defaults.
BASE_ARGUMENTS: Mapping[str, Any] = {
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}

# Beside `class_name` and `config` of the wrapped optimizer, where every Keras ignores it. That it is there is the mark
# of mpls; it is None where there is no such state, or Keras has it among its variables, or writes no file.
STATE_KEY = "loss_scale_state"
# What stands there for a fixed scale over a Keras 3 optimizer. Keras itself knows dynamic ones only, and reads one that
# never grows: a step counter of 32 bits does not get there.
FIXED_STATE: Mapping[str, Any] = {"dynamic": False}
NEVER = 2**31 - 1
