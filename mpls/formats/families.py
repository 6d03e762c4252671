"""The four families of optimizers: their modules and writers, and how a config or a version tells one from another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

# The optimizers of `tf.compat.v1.train`; legacy and new ones of tf_keras, and of the Keras in TF 1.15 to 2.15; Keras 3.
Family = Literal["v1", "legacy", "new", "keras3"]
# The packages that write model files.
Framework = Literal["tf_keras", "keras"]

# The public module of each family's classes.
FAMILY_MODULES: Mapping[Family, str] = {
    "v1": "tf.compat.v1.train",
    "legacy": "tf_keras.optimizers.legacy",
    "new": "tf_keras.optimizers",
    "keras3": "keras.optimizers",
}
FAMILY_NAMES: Mapping[Family, str] = {
    "v1": "a tf.compat.v1.train optimizer",
    "legacy": "a legacy optimizer of tf_keras",
    "new": "a new optimizer of tf_keras",
    "keras3": "a Keras 3 optimizer",
}
# The releases that write each family's state, in words.
FAMILY_WRITERS: Mapping[Family, str] = {
    "v1": "TF 1, or tf.compat.v1",
    "legacy": "TF 1.14 or later",
    "new": "TF 2.11 to 2.15, or tf_keras",
    "keras3": "Keras 3",
}
# Keys in the config of an optimizer of Keras 2 that tell the family; from TF 2.11 on, new ones have one of them.
FAMILY_MARKS = ("is_legacy_optimizer", "jit_compile")


def family_of_config(config: Mapping[str, Any], module: Any = None, *, is_keras_3: bool = False) -> Family:
    """Return the family of a bare optimizer, told by its config.

    Args:
        config: the optimizer's settings, as `get_config` returned them.
        module: the `module` entry of the serialized config; None if it has none.
        is_keras_3: whether the surrounding config is of Keras 3.
    """
    is_legacy, is_new = FAMILY_MARKS
    if is_legacy in config:
        return "legacy" if config[is_legacy] else "new"
    if is_new in config:
        return "new"
    if isinstance(module, str) and module.endswith(".legacy"):
        return "legacy"
    return "keras3" if is_keras_3 or "use_ema" in config or "loss_scale_factor" in config else "legacy"


def framework_of_version(version: object) -> Framework | None:
    """Return the package that writes this Keras version into its files; None if it is not a version.

    `'tf_keras'` stands for every Keras before 3.
    """
    major = re.match(r"([0-9]{1,4})\.", version) if isinstance(version, str) else None
    if major is None:
        return None
    return "keras" if int(major[1]) >= 3 else "tf_keras"


def keras_release(version: object) -> str:
    """Return which Keras wrote a file with this version, in words, as `'tf_keras 2.18.0'` or `'Keras 3.6.0'`.

    Keras 2.16 and later is tf_keras; 2.15 and earlier is the Keras in TensorFlow.
    """
    if not isinstance(version, str) or not version:
        return "Keras"
    numbers = version.split(".")
    is_tf_keras = numbers[0] == "2" and numbers[1:] and numbers[1].isdecimal() and int(numbers[1]) >= 16
    return f"{'tf_keras' if is_tf_keras else 'Keras'} {version}"
