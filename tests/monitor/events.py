"""What event files hold."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import tensorflow as tf


def scalars(folder: str | os.PathLike[str]) -> dict[str, list[tuple[int, float]]]:
    """Return the scalars in the event files of a folder and those below, by tag: of TF 1 and of TF 2."""
    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(pathlib.Path(folder).rglob("events*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                is_tensor = value.HasField("tensor")
                array = tf.make_ndarray(value.tensor) if is_tensor else np.asarray(value.simple_value)
                if array.ndim == 0 and array.dtype.kind in "fi":
                    found.setdefault(value.tag, []).append((event.step, float(array)))
    return found
