"""Models compiled as a file says, where the framework's own loader would not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from mpls.keras.base import LossScaleOptimizer
from mpls.keras.files.contents import ModelFile

# What `compile` takes of it; what else there is, the metrics' own state included, H5 files do not hold.
_PASSED_ON = ("loss_weights", "run_eagerly", "steps_per_execution", "jit_compile")


def compile_from_h5(model: Any, file: ModelFile, custom_objects: dict[str, Any]) -> None:
    """Compile a Keras 3 model that an H5 file holds.

    Keras' own loader (3.6 to 3.15) fails over losses and metrics that are given by a short name, as 'mse', and builds
    the optimizer such that it cannot train.

    Args:
        model: the model, not compiled.
        file: the file.
        custom_objects: classes of the user by name.
    """
    settings = file.configs.get("training_config")
    if not isinstance(settings, dict):
        return
    with keras.saving.CustomObjectScope(custom_objects):
        optimizer = _optimizer(settings["optimizer_config"], custom_objects)
        arguments = {key: settings[key] for key in _PASSED_ON if settings.get(key) is not None}
        for key, made in (("loss", keras.losses), ("metrics", keras.metrics), ("weighted_metrics", keras.metrics)):
            arguments[key] = _resolved(settings.get(key), made.deserialize)
        model.compile(optimizer=optimizer, **arguments)


def _optimizer(config: dict[str, Any], custom_objects: dict[str, Any]) -> Any:
    if config["class_name"] == "LossScaleOptimizer" and config["class_name"] not in custom_objects:
        # The native wrapper has no fixed scale.
        return LossScaleOptimizer.from_config(config["config"], custom_objects)
    return keras.optimizers.deserialize(config)


def _resolved(config: Any, deserialize: Callable[[Any], Any]) -> Any:
    """Return a loss or metrics, nested as they were; names stay, as `compile` knows them all."""
    if isinstance(config, dict) and "class_name" in config:
        return deserialize(config)
    if isinstance(config, dict):
        return {key: _resolved(value, deserialize) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_resolved(value, deserialize) for value in config]
    return config
