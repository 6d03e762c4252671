"""The settings and the state of LossScaleOptimizers: configs, names in checkpoints, and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpls.formats.families import Family, family_of_config

FLOAT32_MAX = 3.4028234663852886e38
# Numbers up to the first are 0 in float32, those from the second on are infinite.
_ZERO, _INFINITE = 2.0**-150, (2 - 2.0**-24) * 2.0**127
# The reciprocal of a larger power of two is a denormal float32. TensorFlow's graph optimizer turns a division by a
# constant into a multiplication by its reciprocal, and kernels flush denormals to zero.
LARGEST_FIXED_SCALE = 2.0**126


def can_be_scale(value: float) -> bool:
    """Return whether a number is positive and finite in float32."""
    try:
        return _ZERO < float(value) < _INFINITE
    except OverflowError:
        # A whole number that no float holds.
        return False


# The class names of wrappers in Keras, over all releases, and the families that they tell.
WRAPPER, WRAPPER_V1, WRAPPER_V3 = WRAPPERS = ("LossScaleOptimizer", "LossScaleOptimizerV1", "LossScaleOptimizerV3")
WRAPPER_FAMILIES: Mapping[str, Family] = {WRAPPER_V3: "new"}

# The keys of the wrapped optimizer in a wrapper's config: from TF 2.4 on, and up to TF 2.3.
INNER_KEYS = ("inner_optimizer", "optimizer")
# Settings in the config of a wrapper of TF 2.4 and later, besides `inner_optimizer`.
SETTINGS = ("dynamic", "initial_scale", "dynamic_growth_steps")
# Those of mpls alone: of the loss scale, and of the optimizer's steps.
SCALE_OPTIONS = (
    "min_scale",
    "max_scale",
    "growth_factor",
    "backoff_factor",
    "hysteresis",
    "consecutive_hysteresis",
    "adjustable",
    "skip_nonfinite",
)
STEP_OPTIONS = (
    "count_steps",
    "skip_counts_step",
    "track_overflows",
    "max_consecutive_skips",
    "on_give_up",
    "check_unscaled",
    "enabled",
)
# The values of `on_give_up` that a config can hold.
ON_GIVE_UP = ("raise", "warn")
# The arguments of the loss scales of `tf.train.experimental`, in this order, which are the keys of their configs.
LOSS_SCALE_VALUE = "loss_scale_value"
FIXED_CONFIG = (LOSS_SCALE_VALUE,)
INITIAL_LOSS_SCALE, INCREMENT_PERIOD, MULTIPLIER = "initial_loss_scale", "increment_period", "multiplier"
DYNAMIC_CONFIG = (INITIAL_LOSS_SCALE, INCREMENT_PERIOD, MULTIPLIER)
# The arguments of a dynamic one, by their names in wrappers of TF 2.4 and later.
OLD_NAMES: Mapping[str, str] = {"initial_scale": INITIAL_LOSS_SCALE, "dynamic_growth_steps": INCREMENT_PERIOD}
# Defaults of dynamic loss scales. Wrappers of TF 2.4 and later have no setting for the multiplier.
DEFAULT_INITIAL_SCALE, DEFAULT_GROWTH_STEPS, DEFAULT_MULTIPLIER = 2.0**15, 2000, 2.0
# The floor of the originals, and the largest float32, which is all that stops their scales from growing.
DEFAULT_MIN_SCALE, DEFAULT_MAX_SCALE = 1.0, FLOAT32_MAX

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
STATE_IN_CONFIGS = ("scale", "good_steps")
# The key beside it for what only mpls has: arguments of the wrapper that no original has, under "settings", and the
# variables that come with them, under "state". It is there only if there is any.
OPTIONS_KEY = "loss_scale_options"
# The value for a fixed scale over a Keras 3 optimizer. Keras 3 has dynamic scales only, so the config says that the
# scale grows after `NEVER` steps, which Keras' int32 step counter does not reach.
FIXED_STATE: Mapping[str, Any] = {"dynamic": False}
NEVER = 2**31 - 1

# The names under which wrappers track the wrapped optimizer and the loss scale in object-based checkpoints.
BASE_OPTIMIZER, INNER_OPTIMIZER = WRAPPED = ("base_optimizer", "inner_optimizer")
LOSS_SCALE = "loss_scale"
# The scale and the counter of finite steps: as TensorFlow and tf_keras name them, below the loss scale; in Keras 3, as
# attributes of the wrapper itself; and in the managers of tf.contrib, which also count non-finite steps.
CURRENT_SCALE, GOOD_STEPS = STATE = ("current_loss_scale", "good_steps")
DYNAMIC_SCALE, STEP_COUNTER = STATE_OF_KERAS_3 = ("dynamic_scale", "step_counter")
STATE_OF_MANAGERS, BAD_STEPS = ("loss_scale", "good_steps"), "bad_steps"
# Only of dynamic scales whose initial scale is `AUTO`.
SEARCH_STEPS, AUTO = "search_steps", "auto"
# Settings that are variables where they can be adjusted. The first and the last are whole numbers.
ADJUSTABLE = ("growth_steps", "growth_factor", "backoff_factor", "min_scale", "max_scale", "hysteresis")
# Variables of a loss scale that only mpls has, whole numbers and others.
WHOLE_EXTRAS, FLOAT_EXTRAS = (BAD_STEPS, SEARCH_STEPS, ADJUSTABLE[0], ADJUSTABLE[-1]), ADJUSTABLE[1:-1]
# The counters of an optimizer's steps, and the name of the object that has them in object-based checkpoints.
COUNTS, STEP_RECORD = ("applied_steps", "skipped_steps", "consecutive_skips"), "step_record"
# Beside them, for those that give up: the scales of the last skipped steps, how many of the losses were not finite, and
# what tells the cause; checkpoints of mpls 0.1 may lack the last.
RECENT_SCALES, NONFINITE_LOSSES, SKIP_FACTS = "recent_scales", "nonfinite_losses", "skip_facts"
# Below it, the object that counts overflows for each variable. It has three arrays for a list of variables, whose names
# begin like these: how often, the last step, and a number that stands for the variable's name, in ascending order.
OVERFLOWS, OVERFLOW_KINDS = "overflows", ("overflow_counts", "overflow_steps", "overflow_names")


def marks_of(names: Sequence[str]) -> list[int]:
    """Return the numbers that stand for variables' names beside their overflows.

    XLA knows no strings. Of variables with the same name, each has a number of its own.

    Args:
        names: the names, in the order of the variables.
    """
    # Programs that record no overflows start without it.
    import hashlib

    seen: dict[str, int] = {}
    marks = []
    for name in names:
        number = seen[name] = seen.get(name, -1) + 1
        text = f"{name}:{number}" if number else name
        marks.append(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True))
    return marks


def inner_key(config: Mapping[str, Any]) -> str:
    """Return the key of the wrapped optimizer in a wrapper's config; `loss_scale` tells that of TF 2.0 to 2.3."""
    return INNER_KEYS[LOSS_SCALE in config]


def is_of_keras_3(config: Mapping[str, Any], inner: Mapping[str, Any]) -> bool:
    """Return whether a wrapper's config is that of a wrapper over a Keras 3 optimizer.

    Args:
        config: the wrapper's config. Only wrappers of Keras 3 have a name.
        inner: the serialized optimizer in it. In the format of TF 2.0 to 2.3, only those of Keras 3 have a module.
    """
    return "name" in config or (LOSS_SCALE in config and "module" in inner)


def inner_family(config: Mapping[str, Any], inner: Mapping[str, Any]) -> Family:
    """Return the family of the wrapped optimizer; arguments as with `is_of_keras_3`."""
    return family_of_config(inner["config"], inner.get("module"), is_keras_3=is_of_keras_3(config, inner))


def is_fixed_over_keras_3(config: Mapping[str, Any]) -> bool:
    """Return whether a wrapper's config whose state is `FIXED_STATE` is that of a fixed scale."""
    return "dynamic" not in config and config.get("dynamic_growth_steps") == NEVER


def as_fixed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return such a config as wrappers of TF 2.4 and later write it for a fixed scale."""
    return {**config, "dynamic": False, "dynamic_growth_steps": None}
