"""A loss scale as users write them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import mpls.v1


class Counting(mpls.v1.LossScale):
    """Doubles at every step, and counts the steps."""

    def __init__(self, start: float = 4.0) -> None:
        super().__init__()
        self.start = start
        self.value = self._add_weight("value", start, tf.float32)
        self.steps = self._add_weight("steps", [0, 0], tf.int32)

    def __call__(self) -> Any:
        return tf.convert_to_tensor(self.value)

    def update(self, grads: Any) -> tuple[Any, bool]:
        return tf.group(self.value.assign(self.value * 2.0), self.steps.assign_add([1, 0])), True

    def get_config(self) -> dict[str, Any]:
        return {"start": self.start}
