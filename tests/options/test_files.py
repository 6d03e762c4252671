"""Options and their state in configs, dicts, pickles, checkpoints and model files; and files with and without them."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import subprocess
import sys
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.inspect
import mpls.v1
from mpls.errors import SavedStateError
from tests.folders import InFolder
from tests.keras.families import FRAMEWORKS

from .trainers import FAMILIES, SCALE_SETTINGS, Trainer, model_of

v1 = tf.compat.v1
INF = float("inf")
OPTIONS = {
    "min_scale": 0.5,
    "hysteresis": 2,
    "adjustable": True,
    "count_steps": True,
    "skip_counts_step": True,
    "track_overflows": True,
    "max_consecutive_skips": 5,
    "on_give_up": "warn",
}
AUTO_OPTIONS: dict[str, Any] = {"initial_scale": "auto", "hysteresis": 2, "count_steps": True, "adjustable": True}
# Where mpls 0.2.0 had classes of which pickles hold instances.
FORMER_MODULES = {
    b"ScaleSettings": b"scale_settings",
    b"StepRecord": b"step_record",
    b"Overflows": b"overflows",
    b"StepLosses": b"step_losses",
    b"UnscaledGradients": b"unscaled",
}
STEPS = (1.0, INF, 1.0, 1.0, INF, INF)


# The initial scale, growth steps and options; what shows that the state is there; and numbers that it cannot have.
CHOSEN: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "options": (8.0, 2, OPTIONS),
    "auto": ("auto", 2000, {"max_scale": 2.0**20, "skip_counts_step": False}),
}
SAVED = {"plain": (8.0, 2, {}), **CHOSEN}
STATES: dict[str, dict[str, Any]] = {
    "options": {"skipped_steps": 3, "growth_steps": 7, "scale": 8.0},
    "auto": {"search_steps": 32, "scale": 512.0},
}
BAD_NUMBERS: dict[str, list[dict[str, Any]]] = {
    "options": [
        {"skipped_steps": -1},
        {"min_scale": 0.0},
        {"min_scale": 2.0**-130},
        {"max_scale": 2.0**-3},
        {"growth_factor": 0.5},
        {"backoff_factor": 3.0},
        {"growth_steps": 0},
        {"hysteresis": 0},
    ],
    "auto": [{"search_steps": -1}, {"search_steps": 1.5}, {"search_steps": "1"}],
}


def trained(family: str, mode: str = "eager", initial: Any = 8.0, steps: int = 2, **options: Any) -> Any:
    training = Trainer(family, mode, lambda: FAMILIES[family](initial, steps, **options))
    # A search ends with its second overflow.
    for value in STEPS[:1] * 2 + STEPS[1:3] if initial == "auto" else STEPS:
        training.take(value)
    return training


KINDS: dict[str, dict[str, Any]] = {
    "dynamic": {**OPTIONS, "initial_scale": 8, "dynamic_growth_steps": 5},
    "auto": {"initial_scale": "auto", "max_scale": 2.0**20, "skip_counts_step": True},
    "disabled": {"initial_scale": 8, "enabled": False, "count_steps": True},
}


class StateTest(InFolder, unittest.TestCase):
    @parameterized.expand([(f"{family}_{kind}", family, kind) for family in FAMILIES for kind in CHOSEN])
    def test_configs(self, name: str, family: str, kind: str) -> None:
        initial, steps, options = CHOSEN[kind]
        opt = FAMILIES[family](initial, steps, **options)
        if family == "v1":
            config = opt._loss_scale.get_config()
            again = mpls.v1.DynamicLossScale.from_config(json.loads(json.dumps(config)))
            self.assertEqual((again.get_config(), repr(again)), (config, repr(opt._loss_scale)))
            return
        config = opt.get_config()
        self.assertEqual({name: config[name] for name in options}, options)
        self.assertEqual(config["initial_scale"], initial)
        again = type(opt).from_config(json.loads(json.dumps(config)))
        self.assertEqual((again.get_config(), again.state_dict()), (config, opt.state_dict()))
        plain = FAMILIES[family](8.0, 2).get_config()
        self.assertEqual((plain.keys() & options.keys(), plain["initial_scale"]), (set(), 8.0))
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        found = mpls.inspect.describe(path)
        of_scale = {name: value for name, value in options.items() if name in SCALE_SETTINGS}
        of_scale.update({"initial_scale": initial} if initial == "auto" else {})
        (shown,) = found["optimizers"]
        self.assertEqual((found["status"], shown["loss_scale"]["options"]), ("ok", of_scale))
        self.assertEqual(shown["options"], {name: options[name] for name in options.keys() - of_scale.keys()})

    @parameterized.expand([(f"{family}_{kind}", family, kind) for family in FAMILIES for kind in CHOSEN])
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_dicts(self, name: str, family: str, kind: str) -> None:
        initial, steps, options = CHOSEN[kind]
        training = trained(family, initial=initial, steps=steps, **options)
        if kind == "options":
            training.opt.configure(growth_steps=7)
        state = json.loads(json.dumps(training.opt.state_dict()))
        self.assertEqual({name: state[name] for name in STATES[kind]}, STATES[kind])
        again = FAMILIES[family](initial, steps, **options)
        again.load_state_dict(state)
        self.assertEqual(again.state_dict(), state)
        # A state of before the options were used is taken, and leaves what it does not have.
        older = FAMILIES[family](8.0, steps).state_dict()
        again.load_state_dict({**older, "scale": 2.0})
        kept = [name for name in STATES[kind] if name not in ("scale", "growth_steps")]
        self.assertEqual({name: again.state_dict()[name] for name in kept}, {name: state[name] for name in kept})
        for bad in BAD_NUMBERS[kind]:
            with self.assertRaisesRegex(SavedStateError, "must be"):
                again.load_state_dict({**state, **bad})

    @parameterized.expand([(f"{family}_{kind}", family, kind) for family in FAMILIES for kind in CHOSEN])
    @pytest.mark.default_run("one case")
    def test_checkpoints_of_objects(self, name: str, family: str, kind: str) -> None:
        initial, steps, options = CHOSEN[kind]
        training = trained(family, initial=initial, steps=steps, **options)
        if kind == "options":
            training.opt.configure(max_scale=64)
        written = training.opt.state_dict()
        new, old = self.folder / "new", self.folder / "old"
        tf.train.Checkpoint(opt=training.opt).write(str(new))
        tf.train.Checkpoint(opt=trained(family).opt).write(str(old))
        # Before the first step, and later.
        again = trained(family, initial=initial, steps=steps, **options)
        for opt in FAMILIES[family](initial, steps, **options), again.opt:
            tf.train.Checkpoint(opt=opt).read(str(new))
            self.assertEqual(opt.state_dict(), written)
        # Without the options, what they need is left out; with them, what is not there stays.
        plain = trained(family).opt
        scale = plain.state_dict()["scale"]
        tf.train.Checkpoint(opt=plain).read(str(new)).expect_partial()
        self.assertEqual(plain.state_dict()["scale"], written["scale"])
        tf.train.Checkpoint(opt=again.opt).read(str(old)).expect_partial()
        self.assertEqual(again.opt.state_dict()["scale"], scale)
        if kind == "options":
            self.assertEqual(again.opt.state_dict()["max_scale"], 64.0)

    @parameterized.expand(
        [(family, *kinds) for family in ("v1", "legacy", "experimental") for kinds in itertools.permutations(SAVED, 2)]
    )
    @pytest.mark.default_run("each value", by=lambda family, writer, reader: (family, (writer, reader)))
    def test_savers(self, family: str, writer: str, reader: str) -> None:
        path = str(self.folder / "saved")
        with trained(family, "session", *SAVED[writer][:2], **SAVED[writer][2]) as training:
            v1.train.Saver().save(training.session, path)
            written = training.opt.state_dict(training.session)
        with trained(family, "session", *SAVED[reader][:2], **SAVED[reader][2]) as training:
            training.session.run(v1.global_variables_initializer())
            fresh = training.opt.state_dict(training.session)
            saver = v1.train.Saver()
            saver.restore(training.session, path)
            state = training.opt.state_dict(training.session)
            differ = {"initial_scale", "growth_steps", "max_scale"}
            for name in fresh.keys() - differ:
                self.assertEqual(state[name], written.get(name, fresh[name]), name)
            for variable in v1.global_variables():
                if "max_scale" in variable.op.name:
                    variable.load(0.0, training.session)
                    saver.save(training.session, path)
                    with self.assertRaisesRegex(SavedStateError, "saved: max_scale must"):
                        saver.restore(training.session, path)

    def test_pickles_that_name_former_modules(self) -> None:
        opt = trained("v1", **OPTIONS, check_unscaled=True).opt
        written = pickle.dumps(opt, protocol=2)
        for name, module in FORMER_MODULES.items():
            written, count = re.subn(
                rb"cmpls\.core\.\w+\n%b\n" % name, b"cmpls.core.%b\n%b\n" % (module, name), written
            )
            self.assertEqual(count, 1, name)
        self.assertEqual(pickle.loads(written).state_dict(), opt.state_dict())
        # Loss scales had one.
        pickle.loads(b"cmpls.core.program_calls\nProgramCalls\n(tR.")
        self.assertIs(pickle.loads(b"cmpls.core.abstract\nLossScale\n."), mpls.v1.LossScale)

    def test_weights_of_keras_3_are_without_the_state_of_options(self) -> None:
        options = {**AUTO_OPTIONS, "track_overflows": True}
        old, new = (model_of("keras3", (1.0, INF, 1.0), **options) for _ in range(2))
        report = new.optimizer.overflow_report()
        x, y = np.ones([2, 2], np.float32), np.ones([2, 1], np.float32)
        old.optimizer.configure(growth_steps=77)
        for _ in range(2):
            old.train_on_batch(np.full([2, 2], np.inf, np.float32), y)
        old.train_on_batch(x, y)
        fresh = new.optimizer.state_dict()
        old.save_weights(self.folder / "a.weights.h5")
        new.load_weights(self.folder / "a.weights.h5")
        saved, found = old.optimizer.state_dict(), new.optimizer.state_dict()
        self.assertEqual(int(new.optimizer.iterations), int(old.optimizer.iterations))
        kept = {"scale", "good_steps"}
        self.assertEqual({name: found[name] for name in kept}, {name: saved[name] for name in kept})
        rest = [name for name in saved if name not in kept]
        self.assertEqual({name: found[name] for name in rest}, {name: fresh[name] for name in rest})
        differ = {"search_steps", "applied_steps", "skipped_steps", "growth_steps"}
        self.assertLessEqual(differ, {name for name in rest if saved[name] != found[name]})
        self.assertEqual(new.optimizer.overflow_report(), report)
        self.assertNotEqual(old.optimizer.overflow_report(), report)
        # As the documents advise.
        new.optimizer.load_state_dict(saved)
        self.assertEqual(new.optimizer.state_dict(), saved)

    @pytest.mark.programs
    def test_files_load_where_mpls_is_not(self) -> None:
        suffixes = {"legacy": (".keras", ".h5"), "new": (".keras", ".h5"), "keras3": (".keras",)}
        for kind, family in itertools.product(("dynamic", "auto", "disabled"), FRAMEWORKS):
            for suffix in suffixes[family]:
                model = model_of(family, (1.0, INF, 1.0), **KINDS[kind])
                model.save(self.folder / f"{FRAMEWORKS[family].__name__}-{kind}-{family}{suffix}")
        program = (
            "import sys, pathlib, importlib\n"
            "sys.modules['mpls'] = None\n"
            f"for path in sorted(pathlib.Path({str(self.folder)!r}).iterdir()):\n"
            "    framework = importlib.import_module(path.name.partition('-')[0])\n"
            "    optimizer = framework.models.load_model(path).optimizer\n"
            "    print(path.name, type(optimizer).__module__.partition('.')[0], int(optimizer.iterations))\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 15, done.stdout)
        for line in lines:
            path, module, iterations = line.split()
            self.assertEqual(module, path.partition("-")[0])
            # As without options: tf_keras writes no iterations of a legacy optimizer into `.keras`, and does not read
            # those of a new one in a wrapper from H5.
            self.assertEqual(int(iterations), 0 if path.endswith(("legacy.keras", "new.h5")) else 3)
