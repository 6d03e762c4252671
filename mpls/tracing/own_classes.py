"""Records the wrappers of mpls, beside those of the frameworks."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from mpls.tracing.recorded_classes import Recording
from mpls.tracing.scale_states import scale_state_of

__all__ = ["OWN_CLASSES"]


def _of_v1(recording: Recording, module: ModuleType) -> None:
    recording.replace(module.MixedPrecisionLossScaleOptimizer, "apply_gradients", recording.applying)


def _of_legacy(recording: Recording, module: ModuleType) -> None:
    recording.replace(module.LegacyAdapter, "apply_gradients", recording.applying)


def _of_new(recording: Recording, module: ModuleType) -> None:
    recording.replace(module.NewAdapter, "apply_gradients", recording.applying)


def _of_keras_3(recording: Recording, module: ModuleType) -> None:
    def taking(method: Any) -> Any:
        # Its gradients are unscaled already, whichever calls the program makes.
        def take_step(wrapper: Any, pairs: Any, *args: Any) -> Any:
            return recording.take(
                wrapper, list(pairs), lambda: scale_state_of(wrapper), lambda: method(wrapper, pairs, *args)
            )

        return take_step

    recording.replace(module.Keras3Adapter, "_take_step", taking)


def _of_all(recording: Recording, module: ModuleType) -> None:
    recording.replace(module.Counted, "_noted_loss", recording.noting_loss)


# What to do when a module of mpls is loaded.
OWN_CLASSES = {
    "mpls.core.wrapper_members": _of_all,
    "mpls.keras.keras3.adapter": _of_keras_3,
    "mpls.keras.legacy": _of_legacy,
    "mpls.keras.new": _of_new,
    "mpls.v1.optimizer": _of_v1,
}
