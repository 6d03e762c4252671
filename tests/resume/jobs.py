"""Training that saves itself and goes on from what it has saved, in every family and format.

A job is the same in every process: the same weights at the start, and at each step a batch that depends on the number
of the step alone. Some batches give no finite gradient, so that the scale, its counter and what skipped steps advance
are all in motion.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import mpls.keras
import mpls.v1

FEATURES, BATCH = 3, 4
INITIAL_SCALE, GROWTH_STEPS = 64.0, 3
OVERFLOWS = (4, 5, 9, 13, 18)


def batch(step: int) -> tuple[Any, Any]:
    """Return the inputs and targets of a step; those of some steps have no finite gradient."""
    random = np.random.default_rng(step)
    inputs = random.normal(size=(BATCH, FEATURES)).astype(np.float32)
    targets = inputs.sum(axis=1, keepdims=True)
    return inputs, targets * (np.inf if step in OVERFLOWS else 1.0)


def initial_values() -> list[Any]:
    random = np.random.default_rng(0)
    shapes = [(FEATURES, 2), (2,), (2, 1), (1,)]
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


class Interruption(Exception):
    """Raised in the middle of training."""


def fit(family: str, folder: Path, *, interrupt: bool) -> dict[str, Any]:
    """Fit a model that backs itself up after each epoch; interrupted in the third one, or from there to the end."""
    callbacks = _framework(family).callbacks
    job = KerasJob(family)

    epochs_run: list[int] = []

    def end_of_batch(number: int, logs: Any = None) -> None:
        if interrupt and (epochs_run[-1], number) == (2, 3):
            raise Interruption

    inputs, targets = (np.concatenate(each) for each in zip(*map(batch, range(1, 6)), strict=True))
    backup = [callbacks.BackupAndRestore(str(folder))] if interrupt or folder.exists() else []
    watching = callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: epochs_run.append(epoch), on_train_batch_end=end_of_batch
    )
    with contextlib.suppress(Interruption):
        job.model.fit(inputs, targets, BATCH, epochs=4, shuffle=False, verbose=0, callbacks=[*backup, watching])
    return {**job.state(), "epochs": epochs_run}


def bits(value: Any) -> list[str]:
    """Return numbers so that equal means equal to the last bit."""
    return [float(number).hex() for number in np.ravel(np.asarray(value, np.float64))]


class KerasJob:
    """A Keras model, trained by `train_on_batch`."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.step = 0
        self.model = _model(family)

    def advance(self) -> None:
        self.step += 1
        self.model.train_on_batch(*batch(self.step))

    def state(self) -> dict[str, Any]:
        opt = self.model.optimizer
        return {
            "step": self.step,
            "weights": [bits(each) for each in self.model.get_weights()],
            "slots": sorted(bits(each) for each in opt.get_weights()),
            "iterations": int(opt.iterations),
            "scale": float(opt.loss_scale).hex(),
            "good_steps": int(opt.dynamic_counter),
        }

    def __enter__(self) -> KerasJob:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _framework(family: str) -> Any:
    if family == "keras3":
        import keras

        return keras
    import tf_keras

    return tf_keras


def _model(family: str) -> Any:
    framework = _framework(family)
    optimizers = framework.optimizers.legacy if family == "legacy" else framework.optimizers
    model = framework.Sequential(
        [
            framework.layers.Input((FEATURES,)),
            framework.layers.Dense(2, activation="tanh", name="hidden"),
            framework.layers.Dense(1, name="out"),
        ]
    )
    model.set_weights(initial_values())
    opt = mpls.keras.LossScaleOptimizer(
        optimizers.Adam(0.05), initial_scale=INITIAL_SCALE, dynamic_growth_steps=GROWTH_STEPS
    )
    model.compile(opt, "mse")
    return model


class FileJob(KerasJob):
    """Saved as a whole model, a file or folder for each step, of which the last two are kept."""

    def __init__(self, family: str, folder: Path, suffix: str) -> None:
        super().__init__(family)
        self.suffix = suffix
        saved = self._saved(folder)
        if saved:
            self.step = max(saved)
            self.model = mpls.keras.load_model(saved[self.step])

    def _saved(self, folder: Path) -> dict[int, Path]:
        pattern = re.compile(rf"model-(\d+){re.escape(self.suffix)}")
        matches = {path: pattern.fullmatch(path.name) for path in folder.iterdir()}
        return {int(match[1]): path for path, match in matches.items() if match}

    def save(self, folder: Path) -> None:
        mpls.keras.save_model(self.model, folder / f"model-{self.step}{self.suffix}")
        for step, path in self._saved(folder).items():
            if step < self.step - 1:
                _remove(path)


def _remove(path: Path) -> None:
    # Nothing that a reader could take for a whole model is there while its files go.
    trash = path.with_name(f"removed-{path.name}")
    path.rename(trash)
    for each in sorted(trash.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    trash.rmdir() if trash.is_dir() else trash.unlink()


class CheckpointJob(KerasJob):
    """Saved by a `tf.train.CheckpointManager`."""

    def __init__(self, family: str, folder: Path) -> None:
        super().__init__(family)
        self.counter = tf.Variable(0, dtype=tf.int64)
        checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.model.optimizer, step=self.counter)
        self.manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=2)
        if self.manager.latest_checkpoint:
            checkpoint.restore(self.manager.latest_checkpoint)
            # So that the slots, which get their values when they are created, can be seen before the first step.
            self.model.optimizer._create_all_weights(self.model.trainable_variables)
            self.step = int(self.counter)

    def save(self, folder: Path) -> None:
        self.counter.assign(self.step)
        self.manager.save()


class V1Job:
    """A v1 graph and session, with an Adam optimizer."""

    def __init__(self, folder: Path) -> None:
        v1 = tf.compat.v1
        self.step = 0
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.inputs = v1.placeholder(tf.float32, (None, FEATURES))
            self.targets = v1.placeholder(tf.float32, (None, 1))
            names = ("hidden/kernel", "hidden/bias", "out/kernel", "out/bias")
            self.variables = [
                v1.get_variable(name, initializer=value, use_resource=True)
                for name, value in zip(names, initial_values(), strict=True)
            ]
            hidden_kernel, hidden_bias, kernel, bias = self.variables
            outputs = tf.tanh(self.inputs @ hidden_kernel + hidden_bias) @ kernel + bias
            loss = tf.reduce_mean(tf.square(outputs - self.targets))
            self.loss_scale = mpls.v1.DynamicLossScale(INITIAL_SCALE, GROWTH_STEPS)
            opt = mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.05), self.loss_scale)
            self.optimizer = opt
            self.global_step = v1.train.get_or_create_global_step()
            self.attempts = v1.get_variable("attempts", initializer=np.int64(0), trainable=False, use_resource=True)
            train_op = opt.minimize(loss, global_step=self.global_step)
            with tf.control_dependencies([train_op]):
                self.train_op = tf.group(self.attempts.assign_add(1))
            self.watched = {
                "weights": self.variables,
                "slots": [each for each in opt.variables() if each.dtype.base_dtype == tf.float32],
                "iterations": self.global_step,
                "scale": self.loss_scale(),
                "good_steps": self.loss_scale._num_good_steps,
            }
            self.session = self.start(folder)
        self.step = int(self.run(self.attempts))

    def start(self, folder: Path) -> Any:
        raise NotImplementedError

    def run(self, fetches: Any, feed: Any = None) -> Any:
        return self.session.run(fetches, feed)

    def advance(self) -> None:
        self.step += 1
        self.run(self.train_op, dict(zip((self.inputs, self.targets), batch(self.step), strict=True)))

    def state(self) -> dict[str, Any]:
        values = self.run(self.watched)
        return {
            "step": self.step,
            "weights": [bits(each) for each in values["weights"]],
            "slots": [bits(each) for each in values["slots"]],
            "iterations": int(values["iterations"]),
            "scale": float(values["scale"]).hex(),
            "good_steps": int(values["good_steps"]),
        }

    def __enter__(self) -> V1Job:
        self.default_graph = self.graph.as_default()
        self.default_graph.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.session.close()
        self.default_graph.__exit__(*error)


class SaverJob(V1Job):
    def start(self, folder: Path) -> Any:
        self.saver = tf.compat.v1.train.Saver(max_to_keep=2)
        session = tf.compat.v1.Session()
        latest = tf.train.latest_checkpoint(str(folder))
        if latest:
            self.saver.restore(session, latest)
        else:
            session.run(tf.compat.v1.global_variables_initializer())
        return session

    def save(self, folder: Path) -> None:
        self.saver.save(self.session, str(folder / "model"), global_step=self.step, write_meta_graph=False)


class V1ObjectJob(V1Job):
    def start(self, folder: Path) -> Any:
        session = tf.compat.v1.Session()
        tracked = {f"variable_{number}": each for number, each in enumerate(self.variables)}
        # The whole optimizer, with what it wraps and its loss scale.
        self.checkpoint = tf.compat.v1.train.Checkpoint(
            optimizer=self.optimizer, step=self.global_step, attempts=self.attempts, **tracked
        )
        session.run(tf.compat.v1.global_variables_initializer())
        latest = tf.train.latest_checkpoint(str(folder))
        status = self.checkpoint.restore(latest)
        status.initialize_or_restore(session)
        return session

    def save(self, folder: Path) -> None:
        self.checkpoint.save(str(folder / "model"), session=self.session)


class MonitoredJob(V1Job):
    """Saved by the hook of a `MonitoredTrainingSession`, after every step that is applied, and at the end."""

    def start(self, folder: Path) -> Any:
        return tf.compat.v1.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder),
            save_checkpoint_steps=1,
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
        )

    def save(self, folder: Path) -> None:
        """Do nothing: the hook does it."""


KERAS_FORMATS: dict[str, Any] = {
    "checkpoint": CheckpointJob,
    "h5": functools.partial(FileJob, suffix=".h5"),
    "keras": functools.partial(FileJob, suffix=".keras"),
    "saved_model": functools.partial(FileJob, suffix=""),
}
JOBS: dict[str, Callable[[Path], Any]] = {
    "v1-saver": SaverJob,
    "v1-object": V1ObjectJob,
    "v1-monitored": MonitoredJob,
    **{
        f"{family}-{name}": lambda folder, family=family, job=job: job(family, folder)
        for family, (name, job) in itertools.product(("legacy", "new", "keras3"), KERAS_FORMATS.items())
        # Keras 3 writes saved models for serving only.
        if (family, name) != ("keras3", "saved_model")
    },
}
