"""A program that trains on a cluster, and saves itself after each step, to be killed and started again; run by a test.

Usage: restarted_training.py STRATEGY FAMILY FOLDER, with the cluster and the task in `TF_CONFIG`.

The strategies are `workers`, two that take each step together, and `servers`, a chief with a worker and a parameter
server. Who trains says what it sees after each step, and first of all in what it has restored. At the step that the
file `waits` in the folder names, it waits until the file is gone.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import multi_worker_training
import numpy as np
import parameter_server_training
import tensorflow as tf

STEPS = 8
# In seconds, after each step.
PAUSE = 0.1

Named = Mapping[str, Any]


def train(host: Any, variables: Callable[[], Named], take: Callable[[int], None], folder: pathlib.Path) -> None:
    """Restore what was saved last, and take the steps that are left."""
    done, waits = tf.Variable(0, trainable=False, dtype=tf.int64), folder.parent / "waits"
    checkpoint = tf.train.Checkpoint(
        done=done, **{name: value for name, value in vars(host).items() if is_saved(value)}
    )
    manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=2)
    if latest := tf.train.latest_checkpoint(str(folder.parent / "saved")):
        checkpoint.restore(latest)
    while True:
        seen = {name: [float(each).hex() for each in np.ravel(value)] for name, value in variables().items()}
        print(json.dumps({"step": int(done), **seen}), flush=True)
        while waits.exists() and waits.read_text() == str(int(done)):
            time.sleep(PAUSE)
        if int(done) == STEPS:
            break
        take(int(done))
        done.assign_add(1)
        manager.save(checkpoint_number=int(done))
        time.sleep(PAUSE)


def is_saved(value: Any) -> bool:
    return isinstance(value, list | tf.__internal__.tracking.Trackable)


def on_workers(family: str, folder: pathlib.Path, task: Named) -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        training = multi_worker_training.Training(family, "custom", "mpls")

    def variables() -> Named:
        weights = {f"weight {number}": each for number, each in enumerate(training.model.get_weights())}
        return {**{name: value.numpy() for name, value in training.host.state().items()}, **weights}

    def take(step: int) -> None:
        training.run(multi_worker_training.STEPS[step : step + 1])

    training.host.model = training.model
    # All of them write, and what the first one writes is restored.
    train(training.host, variables, take, folder / ("others" if task["index"] else "saved"))


def on_servers(family: str, folder: pathlib.Path, task: Named) -> None:
    training = parameter_server_training.Training(
        family, "mpls", parameter_server_training.strategy_of_chief(task["type"])
    )

    def take(step: int) -> None:
        training.take(parameter_server_training.STEPS[step])

    def variables() -> Named:
        # Slots are made in the first step, and restored then.
        return {name: value.numpy() for name, value in training.variables().items()}

    train(training, variables, take, folder / "saved")


if __name__ == "__main__":
    _, strategy, family, folder = sys.argv
    ways = {"workers": on_workers, "servers": on_servers}
    ways[strategy](family, pathlib.Path(folder), json.loads(os.environ["TF_CONFIG"])["task"])
    # Without waiting for threads of TensorFlow, which may wait for processes that have ended already.
    os._exit(0)
