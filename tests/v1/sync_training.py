"""A program that trains with `SyncReplicasOptimizer` in one process, and prints what came out; run by a test.

Usage: sync_training.py (bare | outside | inside | counted | disabled)...
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

VALUES = (1.0, 1.0, float("inf"), 2.0, float("nan"), 1.0)


# Never closed: closing waits for the threads of the chief.
sessions: list[Any] = []


def session_of(sync: Any, num_tokens: int = 0) -> Any:
    """Return the session of the chief. Without tokens to start with, a step ends when the chief has applied it."""
    hooks = [sync.make_session_run_hook(is_chief=True, num_tokens=num_tokens)]
    sessions.append(v1.train.MonitoredTrainingSession(is_chief=True, hooks=hooks))
    return sessions[-1]


def train(order: str) -> dict[str, Any]:
    feed = v1.placeholder(tf.float32, [])
    variable = v1.get_variable("v", initializer=1.0)
    global_step = v1.train.get_or_create_global_step()
    optimizer = v1.train.MomentumOptimizer(0.5, 0.5)
    scale = mpls.v1.DynamicLossScale(8, 2)

    def synchronize(wrapped: Any) -> Any:
        return v1.train.SyncReplicasOptimizer(wrapped, replicas_to_aggregate=1, total_num_replicas=1)

    if order == "bare":
        train_on = sync = synchronize(optimizer)
    elif order == "outside":
        train_on = sync = synchronize(mpls.v1.MixedPrecisionLossScaleOptimizer(optimizer, scale))
    else:
        sync = synchronize(optimizer)
        train_on = mpls.v1.MixedPrecisionLossScaleOptimizer(sync, scale)
    train_op = train_on.minimize(variable * feed, global_step=global_step)

    state = [variable, global_step, scale._current_loss_scale, scale._num_good_steps]
    slots = sorted(set(train_on.get_slot_names()) | set(optimizer.get_slot_names()))
    session = session_of(sync)
    steps: list[list[float]] = []
    for value in VALUES:
        if order == "bare" and not abs(value) < float("inf"):
            continue
        session.run(train_op, {feed: value})
        steps.append([float(number) for number in session.run(state)])
    return {"steps": steps, "slots": slots}


def count() -> dict[str, Any]:
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
    return {"steps": [[float(number) for number in session.run(state)]]}


def disable() -> dict[str, Any]:
    """Train with loss scaling switched off: nothing is skipped, as without a wrapper."""
    variable = v1.get_variable("v", initializer=1.0)
    global_step = v1.train.get_or_create_global_step()
    sync = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.5), 1, 1)
    opt = mpls.v1.MixedPrecisionLossScaleOptimizer(sync, mpls.v1.DynamicLossScale(8, 2), enabled=False)
    train_op = opt.minimize(variable * float("inf"), global_step=global_step)
    session = session_of(sync)
    session.run(train_op)
    return {"steps": [str(number) for number in session.run([variable, global_step])]}


if __name__ == "__main__":
    v1.disable_v2_behavior()
    warnings.simplefilter("error", mpls.errors.MplsWarning)
    for each in sys.argv[1:]:
        with tf.Graph().as_default():
            made = count() if each == "counted" else disable() if each == "disabled" else train(each)
            print(json.dumps(made), flush=True)
    os._exit(0)
