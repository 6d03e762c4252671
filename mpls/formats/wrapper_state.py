"""The settings and the state of LossScaleOptimizers: their names in configs and checkpoints, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "BAD_STEPS",
    "BASE_ARGUMENTS",
    "DEFAULT_GROWTH_STEPS",
    "DEFAULT_INITIAL_SCALE",
    "DEFAULT_MULTIPLIER",
    "FIXED_STATE",
    "LOSS_SCALE",
    "NEVER",
    "SETTINGS",
    "STATE",
    "STATE_KEY",
    "STATE_OF_KERAS_3",
    "STATE_OF_MANAGERS",
    "WRAPPED",
    "WRAPPERS",
]

# The class names of wrappers in Keras, over all releases.
WRAPPERS = ("LossScaleOptimizer", "LossScaleOptimizerV1", "LossScaleOptimizerV3")

# Settings in the config of a wrapper of TF 2.4 and later, besides `inner_optimizer`.
SETTINGS = ("dynamic", "initial_scale", "dynamic_growth_steps")
# Defaults of dynamic loss scales. Wrappers of TF 2.4 and later have no setting for the multiplier.
DEFAULT_INITIAL_SCALE, DEFAULT_GROWTH_STEPS, DEFAULT_MULTIPLIER = 2.0**15, 2000, 2.0

# Arguments of Keras 3's base class, with their defaults: wrappers of Keras 3 up to 3.5 write them, and do not use them.
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

# The key that mpls adds to the serialized inner optimizer, beside `class_name` and `config`, where every Keras ignores
# it. The key marks a config as written by mpls. Its value is the state of the loss scale, or None: where there is no
# state, where Keras saves it as variables, or where no file is written.
STATE_KEY = "loss_scale_state"
# The value for a fixed scale over a Keras 3 optimizer. Keras 3 has dynamic scales only, so the config says that the
# scale grows after `NEVER` steps, which Keras' int32 step counter does not reach.
FIXED_STATE: Mapping[str, Any] = {"dynamic": False}
NEVER = 2**31 - 1

# The names under which wrappers track the wrapped optimizer and the loss scale in object-based checkpoints.
WRAPPED, LOSS_SCALE = ("base_optimizer", "inner_optimizer"), "loss_scale"
# The scale and the counter of finite steps: as TensorFlow and tf_keras name them, below the loss scale; in Keras 3, as
# attributes of the wrapper itself; and in the managers of tf.contrib, which also count non-finite steps.
STATE = ("current_loss_scale", "good_steps")
STATE_OF_KERAS_3 = ("dynamic_scale", "step_counter")
STATE_OF_MANAGERS, BAD_STEPS = ("loss_scale", "good_steps"), "bad_steps"
