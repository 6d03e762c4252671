"""What Keras makes wrappers in files from."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mpls.core import dialect
from mpls.upstream import loaded_keras, loaded_tf_keras

__all__ = ["register_with_keras"]

# Files name the class of the native wrapper, over legacy optimizers the first, over new ones the last; in between is
# the experimental one of TF 2.4 to 2.8. In H5 files and saved models Keras looks for it in lower case: code that hands
# the class over under its name is not heard.
_NAMES = ("LossScaleOptimizer", "LossScaleOptimizerV1", "LossScaleOptimizerV3")


class _WrapperFromFile:
    """Stands for the class of a wrapper in a file, where its state would be lost otherwise."""

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        """Create the wrapper: the experimental one where a release is asked for that had no other."""
        package = "mpls.experimental" if dialect.current().has_loss_scale_objects else "mpls.keras"
        return import_module(package).LossScaleOptimizer.from_config(config, custom_objects)


def register_with_keras(wrapper: type) -> None:
    """Have the Kerases that are loaded load the wrappers in files as those of mpls.

    In tf_keras all of them, as its own classes give neither the scale nor, over new optimizers, the state of H5 files
    back; in Keras 3 those that mpls has written, but not in H5 files.

    Args:
        wrapper: the public class.
    """
    keras, tf_keras = loaded_keras(), loaded_tf_keras()
    if keras is not None:
        keras.saving.get_custom_objects().setdefault(wrapper.__name__, wrapper)
    if tf_keras is not None:
        for name in (*_NAMES, *map(str.lower, _NAMES)):
            tf_keras.saving.get_custom_objects().setdefault(name, _WrapperFromFile)
