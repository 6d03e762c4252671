"""The modules of the optimizers that are wrapped, by family; and blocks under a policy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tf_keras

OPTIMIZERS: dict[str, Any] = {
    "legacy": tf_keras.optimizers.legacy,
    "new": tf_keras.optimizers,
    "keras3": keras.optimizers,
}


@contextlib.contextmanager
def global_policy(framework: Any, name: str) -> Iterator[None]:
    """Set the policy of tf_keras or Keras 3 in a block."""
    before = framework.mixed_precision.global_policy()
    framework.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        framework.mixed_precision.set_global_policy(before)
