"""The modules of the optimizers that are wrapped, by family."""

from __future__ import annotations

from typing import Any

import keras
import tf_keras

OPTIMIZERS: dict[str, Any] = {
    "legacy": tf_keras.optimizers.legacy,
    "new": tf_keras.optimizers,
    "keras3": keras.optimizers,
}
