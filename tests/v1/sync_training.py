"""A program that trains with `SyncReplicasOptimizer` in one process, and prints what came out; run by a test.

Usage: sync_training.py (counted | disabled)...
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

import mpls.v1

v1: Any = tf.compat.v1

# Never closed: closing waits for the threads of the chief.
sessions: list[Any] = []


def session_of(sync: Any, num_tokens: int = 0) -> Any:
    """Return the session of the chief. Without tokens to start with, a step ends when the chief has applied it."""
    hooks = [sync.make_session_run_hook(is_chief=True, num_tokens=num_tokens)]
    sessions.append(v1.train.MonitoredTrainingSession(is_chief=True, hooks=hooks))
    return sessions[-1]


def count() -> list[float]:
    """Count the steps of a fixed scale that is never skipped, each of the gradients of two calls."""
    variable = v1.get_variable("v", initializer=1.0)
    global_step = v1.train.get_or_create_global_step()
    sync = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.5), 2, 2)
    opt = mpls.v1.MixedPrecisionLossScaleOptimizer(sync, mpls.v1.FixedLossScale(8), count_steps=True)
    train_op = opt.minimize(variable * 2.0, global_step=global_step)
    session = session_of(sync, 2)
    # The tokens let two calls pass. The third and the fifth wait until the chief has applied a step.
    for _ in range(5):
        session.run(train_op)
    state = [variable, global_step, opt.applied_steps, opt.skipped_steps]
    return [float(number) for number in session.run(state)]


def disable() -> list[str]:
    """Train with loss scaling switched off: nothing is skipped, as without a wrapper."""
    variable = v1.get_variable("v", initializer=1.0)
    global_step = v1.train.get_or_create_global_step()
    sync = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.5), 1, 1)
    opt = mpls.v1.MixedPrecisionLossScaleOptimizer(sync, mpls.v1.DynamicLossScale(8, 2), enabled=False)
    train_op = opt.minimize(variable * float("inf"), global_step=global_step)
    session = session_of(sync)
    session.run(train_op)
    return [str(number) for number in session.run([variable, global_step])]


if __name__ == "__main__":
    v1.disable_v2_behavior()
    warnings.simplefilter("error", mpls.errors.MplsWarning)
    for each in sys.argv[1:]:
        with tf.Graph().as_default():
            print(json.dumps(count() if each == "counted" else disable()), flush=True)
    os._exit(0)
