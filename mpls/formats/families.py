"""Which family of optimizers has written something: told by a config, or by the objects of a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

from mpls.formats.record import Family

__all__ = ["FAMILY_NAMES", "Framework", "family_of_config", "family_of_object", "framework_of_version"]

# The packages that write model files.
Framework = Literal["tf_keras", "keras"]

FAMILY_NAMES: Mapping[str, str] = {
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


def family_of_object(children: Collection[str], *, has_slots: bool) -> Family | None:
    """Return the family of an optimizer, without a wrapper, by the objects that a checkpoint has it hold.

    Args:
        children: their names.
        has_slots: whether slots are saved beside it, which new optimizers and those of Keras 3 hold themselves.

    Returns:
        The family; None for what is no optimizer, or does not say: nothing but plain SGD is saved, or it is a user's.
    """
    if "_iterations" in children and "_variables" in children:
        return "keras3" if "_trainable_variables" in children else "new"
    if "iter" in children:
        return "legacy"
    return "v1" if has_slots or "beta1_power" in children else None
