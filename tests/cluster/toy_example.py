"""A script like the examples, without TensorFlow, whose workers end with different weights; run by a test."""

from __future__ import annotations

import time

import _cluster
import numpy as np


def work(options: _cluster.Options) -> None:
    time.sleep(options.steps / 100)
    _cluster.say(step=options.steps, scale=8.0)
    weights = [np.array([options.task.index])]
    result = _cluster.Result(scale=8.0, skipped=0, accuracy=0.5, weights=weights, seconds=1.0)
    _cluster.say(result=result.cells())


if __name__ == "__main__":
    _cluster.main(__file__, __doc__, {"worker": work}, {"worker": 2}, "Nothing")
