"""What options save, as `mpls inspect` shows it and `mpls.convert_state` carries it, for every kind of file."""

from __future__ import annotations

import json
import pathlib
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.formats.wrapper_state import BAD_STEPS, COUNTS, SEARCH_STEPS
from mpls.inspect import describe, inspect
from tests.folders import InFolder
from tests.keras.families import OPTIMIZERS

from .trainers import model_of

INF = np.inf
OPTIONS: dict[str, Any] = {
    "initial_scale": "auto",
    "dynamic_growth_steps": 100,
    "min_scale": 0.5,
    "hysteresis": 3,
    "count_steps": True,
    "track_overflows": True,
}
SUFFIXES = (".keras", ".h5", "", "checkpoint")
FILES = [
    (f"{family}_{suffix.lstrip('.') or 'savedmodel'}", family, suffix)
    for family in OPTIMIZERS
    for suffix in SUFFIXES
    # Keras 3 writes no SavedModels.
    if family != "keras3" or suffix
]


# The search has ended once, and two of three steps are counted after which the scale shrinks.
VALUES = (1.0, INF, INF, INF, 1.0, INF, INF)


def written(folder: pathlib.Path, model: Any, suffix: str) -> str:
    path = str(folder / f"model{suffix}")
    if suffix != "checkpoint":
        mpls.keras.save_model(model, path)
        return path
    saved: str = tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(path)
    return saved


class FilesTest(InFolder, unittest.TestCase):
    @parameterized.expand(FILES)
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_models_and_checkpoints(self, name: str, family: str, suffix: str) -> None:
        model = model_of(family, VALUES, **OPTIONS)
        path = written(self.folder, model, suffix)
        (optimizer,) = describe(path)["optimizers"]
        state = model.optimizer.state_dict()
        self.assertEqual((state[BAD_STEPS], state[SEARCH_STEPS], state["skipped_steps"]), (2, 32, 5))
        self.assertEqual(optimizer["counts"], {name: state[name] for name in COUNTS})
        found = optimizer["loss_scale"]["options"]
        for name in (BAD_STEPS, SEARCH_STEPS):
            self.assertEqual(found[name], state[name], name)
        text = inspect(path)[1]
        self.assertIn("    steps: applied_steps 2, skipped_steps 5, consecutive_skips 2\n", text)
        if suffix == "checkpoint":
            self.assertIn("    options: bad_steps 2, search_steps 32\n", text)
        else:
            self.assertIn(
                "options: initial_scale auto, min_scale 0.5, hysteresis 3, bad_steps 2, search_steps 32", text
            )
            self.assertEqual(optimizer["options"], {"count_steps": True, "track_overflows": True})
        json.loads(inspect(path, as_json=True)[1])


BAD: list[tuple[str, Any]] = [
    ("no_dict", 3),
    ("no_state", {"settings": {}}),
    ("more_keys", {"settings": {}, "state": {}, "run": 1}),
    ("no_number", {"settings": {}, "state": {"bad_steps": "two"}}),
    ("negative", {"settings": {}, "state": {"skipped_steps": -1}}),
    ("part_of_a_step", {"settings": {"count_steps": True}, "state": {"skipped_steps": 1.5}}),
    ("infinite", {"settings": {}, "state": {"min_scale": 1e39}}),
    ("unknown", {"settings": {}, "state": {"run": 1}}),
    ("no_growth_steps", {"settings": {"adjustable": True}, "state": {"growth_steps": 0}}),
    ("bounds_in_state", {"settings": {"adjustable": True, "min_scale": 2.0}, "state": {"max_scale": 1.0}}),
    ("bounds", {"settings": {"min_scale": 4.0, "max_scale": 2.0}, "state": {}}),
    ("initial_scale", {"settings": {"max_scale": 4.0}, "state": {}}),
    *(
        (f"{name}_{value!r:.8}", {"settings": {name: value}, "state": {}})
        for name, value in (
            ("run", "this"),
            ("min_scale", {"class_name": "x"}),
            ("min_scale", 1e-40),
            ("max_scale", "%s{0}"),
            ("growth_factor", True),
            ("growth_factor", 0.5),
            ("backoff_factor", 10**400),
            ("hysteresis", 2.5),
            ("hysteresis", 0),
            ("initial_scale", "foo"),
            ("max_consecutive_skips", "many"),
            ("consecutive_hysteresis", 1),
            ("count_steps", None),
            ("skip_nonfinite", False),
            ("on_give_up", "stop"),
            ("enabled", "auto"),
        )
    ),
]


class BrokenTest(InFolder, unittest.TestCase):
    @parameterized.expand(BAD)
    def test_configs(self, name: str, entry: Any) -> None:
        config = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD()).get_config()
        config["inner_optimizer"]["loss_scale_options"] = entry
        with self.assertRaises(ValueError) as caught:
            mpls.keras.LossScaleOptimizer.from_config(config)
        self.assertIn(" must ", str(caught.exception))
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        found = describe(path)
        self.assertEqual(found["status"], "broken")
        self.assertIn("loss_scale_options", found["reason"])


class ConvertTest(InFolder, unittest.TestCase):
    @parameterized.expand([(f"{row[0]}_to_{target}", *row[1:], target) for row in FILES for target in OPTIMIZERS])
    @pytest.mark.default_run("one case")
    def test_files(self, name: str, family: str, suffix: str, target: str) -> None:
        source = model_of(family, VALUES, **OPTIONS)
        path = written(self.folder, source, suffix)
        model = model_of(target, (), **OPTIONS)
        report = mpls.convert_state(path, model.optimizer, model.trainable_variables)
        before, after = source.optimizer.state_dict(), model.optimizer.state_dict()
        for kind in ("scale", "good_steps", BAD_STEPS, SEARCH_STEPS, *COUNTS):
            self.assertEqual(after[kind], before[kind], kind)
        self.assertIn("counts: bad_steps 2, search_steps 32, applied_steps 2, skipped_steps 5", str(report))
        # One more shrinks the scale, and counts on.
        for each in (source, model):
            each.train_on_batch(np.full([2, 2], INF, np.float32), np.ones([2, 1], np.float32))
        before, after = source.optimizer.state_dict(), model.optimizer.state_dict()
        self.assertEqual([after[kind] for kind in ("scale", *COUNTS)], [before[kind] for kind in ("scale", *COUNTS)])
        self.assertEqual(after["scale"], 128.0)

    def test_a_target_without_options_gets_none_and_the_report_says_so(self) -> None:
        source, model = model_of("legacy", VALUES, **OPTIONS), model_of("new", (), initial_scale=8)
        report = mpls.convert_state(
            source.optimizer, model.optimizer, model.trainable_variables, source_variables=source.trainable_variables
        )
        left = "\n".join(report.left_out)
        for what in ("bad steps of the loss scale", "search steps of the loss scale", "counts of steps"):
            self.assertIn(what, left)
        self.assertIn("loss scale, hysteresis: 3, 1", report.differences)
        self.assertIn("loss scale, min scale: 0.5, 1", report.differences)
        self.assertEqual(report.counts, ())
