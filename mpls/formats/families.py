"""Which family of optimizers, and which Keras, has written something: told by a config, or by a version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from mpls.formats.record import Family

__all__ = ["FAMILY_MODULES", "FAMILY_NAMES", "Framework", "family_of_config", "framework_of_version"]

# Where the classes of a family are.
FAMILY_MODULES: Mapping[Family, str] = {
    "v1": "tf.compat.v1.train",
    "legacy": "tf_keras.optimizers.legacy",
    "new": "tf_keras.optimizers",
    "keras3": "keras.optimizers",
}
# The packages that write model files.
Framework = Literal["tf_keras", "keras"]

FAMILY_NAMES: Mapping[Family, str] = {
    "v1": "a tf.compat.v1.train optimizer",
    "legacy": "a legacy optimizer of tf_keras",
    "new": "a new optimizer of tf_keras",
    "keras3": "a Keras 3 optimizer",
}


def family_of_config(config: Mapping[str, Any], module: Any = None, *, is_keras_3: bool = False) -> Family:
    """Return the family of an optimizer, without a wrapper, by its config.

    Args:
        config: its settings.
        module: what the serialized config has beside them as module; None if there is none.
        is_keras_3: whether what is around it is Keras 3's.
    """
    # New ones of tf_keras say so, from TF 2.11 on.
    if "is_legacy_optimizer" in config:
        return "legacy" if config["is_legacy_optimizer"] else "new"
    if "jit_compile" in config:
        return "new"
    if isinstance(module, str) and module.endswith(".legacy"):
        return "legacy"
    return "keras3" if is_keras_3 or "use_ema" in config or "loss_scale_factor" in config else "legacy"


def framework_of_version(version: object) -> Framework | None:
    """Return which Keras writes this version into its files, tf_keras standing for all before 3; None if it is none."""
    major = re.match(r"([0-9]{1,4})\.", version) if isinstance(version, str) else None
    if major is None:
        return None
    return "keras" if int(major[1]) >= 3 else "tf_keras"
