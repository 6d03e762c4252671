"""Every artefact that a release wrote is read with the state that the release held."""

from __future__ import annotations

import pathlib
import shutil
import textwrap
import unittest
from typing import Any

import numpy as np
from parameterized import parameterized

from mpls.errors import SavedStateError
from mpls.formats.record import FileRecord, OptimizerRecord
from mpls.saved.foreign_files import NotAnArtefactError
from mpls.saved.reading import read
from tests.artefacts.replay import SUBJECTS, Artefact
from tests.artefacts.test_configs import SETTINGS
from tests.folders import InFolder
from tests.processes import run_python
from tests.saved.artefacts import ARTEFACTS, CONFIGS, DATA, slots_of

ALGORITHMS = {"MomentumOptimizer": "SGD", "AdamOptimizer": "Adam", "AdagradOptimizer": "Adagrad"}
FORMATS = {"keras_h5": "H5", "keras_tf": "SavedModel", "keras_v3": ".keras", "v1_saver": "v1 checkpoint"}


def read_one(artefact: Artefact) -> tuple[FileRecord, OptimizerRecord]:
    record = read(artefact.path)
    (optimizer,) = record.optimizers
    return record, optimizer


def has_current_scale(artefact: Artefact) -> bool:
    """Files of models that tf_keras writes have none, and a fixed one is only among settings."""
    state = artefact.expected["state"]
    kind = artefact.id.removeprefix("more_").partition(".")[0]
    if state["scale"] is None:
        return False
    if state["good"] is None:
        return kind in ("keras_h5", "keras_tf", "keras_v3")
    return kind not in ("keras_h5", "keras_v3") or artefact.family == "keras3"


class ArtefactTest(unittest.TestCase):
    def test_all_are_there(self) -> None:
        self.assertEqual((len(ARTEFACTS), len(CONFIGS)), (96, 38))

    @parameterized.expand([(each.name, each) for each in ARTEFACTS])
    def test_state(self, name: str, artefact: Artefact) -> None:
        state, spec = artefact.expected["state"], artefact.spec
        record, optimizer = read_one(artefact)
        kind = artefact.id.removeprefix("more_").partition(".")[0]
        self.assertEqual(record.format, FORMATS.get(kind, "object checkpoint"))
        self.assertEqual(record.path, artefact.path)
        self.assertEqual(optimizer.family, artefact.family)
        self.assertEqual(optimizer.algorithm, ALGORITHMS.get(spec["opt"][0], spec["opt"][0]))
        if name.startswith("keras_v3") and optimizer.family == "legacy":
            # These files hold no weights of the optimizer at all.
            self.assertEqual((optimizer.iterations, list(optimizer.variables)), (None, []))
            return
        self.assertEqual(optimizer.iterations, state.get("iter", state.get("gs")))
        self._check_slots(artefact, optimizer)

    def _check_slots(self, artefact: Artefact, optimizer: OptimizerRecord) -> None:
        wanted = slots_of(artefact)
        if artefact.id.startswith("keras_v3"):
            self._check_slots_by_order(wanted, optimizer)
            return
        found = []
        for variable in optimizer.variables:
            assert variable.name is not None
            plain = variable.name.replace("/", "_") if optimizer.family == "keras3" else variable.name
            found += [(plain, slot, value) for slot, value in variable.slots.items()]
            self.assertIsNotNone(variable.key)
        found.sort(key=lambda each: each[:2])
        self.assertEqual([each[:2] for each in found], [each[:2] for each in wanted])
        for (_, _, value), (_, _, right) in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(value, right)

    def _check_slots_by_order(self, wanted: list[tuple[str, str, Any]], optimizer: OptimizerRecord) -> None:
        # Kernels stand before biases.
        ordered = sorted(wanted, key=lambda each: (each[0][:2], "bias" in each[0]))
        self.assertEqual(len(ordered), len(optimizer.variables))
        for variable, (_, slot, right) in zip(optimizer.variables, ordered, strict=True):
            self.assertEqual((variable.key, variable.name, list(variable.slots)), (None, None, [slot]))
            np.testing.assert_array_equal(variable.slots[slot], right)

    @parameterized.expand([(each.name, each) for each in ARTEFACTS])
    def test_loss_scale(self, name: str, artefact: Artefact) -> None:
        state, spec = artefact.expected["state"], artefact.spec
        _, optimizer = read_one(artefact)
        loss_scale = optimizer.loss_scale
        if spec.get("plain") or "adagrad_fixed" in name:
            # A fixed scale leaves no trace in a Saver's checkpoint.
            self.assertIsNone(loss_scale)
            return
        assert loss_scale is not None
        self.assertEqual(loss_scale.dynamic, state["good"] is not None)
        self.assertEqual(loss_scale.scale, state["scale"] if has_current_scale(artefact) else None)
        self.assertEqual(loss_scale.good_steps, state["good"] if has_current_scale(artefact) else None)
        if spec["kind"] == "keras_model":
            settings = spec["loss_scale"]
            self.assertEqual(loss_scale.initial_scale, settings.get("initial", settings.get("fixed")))
            self.assertEqual(loss_scale.growth_steps, settings.get("growth"))
            self.assertEqual(loss_scale.multiplier, 2.0 if loss_scale.dynamic else None)

    @parameterized.expand([(each.name, each) for each in ARTEFACTS if "keras" in each.id])
    def test_hyperparameters(self, name: str, artefact: Artefact) -> None:
        _, optimizer = read_one(artefact)
        settings = artefact.spec["opt"][1]
        found = optimizer.hyperparameters
        names = [key for key in settings if key in found]
        for key in names:
            np.testing.assert_allclose(found[key], settings[key], rtol=1e-6)
        self.assertIn("learning_rate", names)
        if optimizer.family == "legacy":
            # Whether RMSprop is centered is in no checkpoint but for its slots.
            self.assertEqual(set(names) | {"centered", "epsilon"}, set(settings) | {"centered", "epsilon"})

    def test_beta_powers(self) -> None:
        for artefact in ARTEFACTS:
            state = artefact.expected["state"]
            if not state.get("extra"):
                continue
            _, optimizer = read_one(artefact)
            found = {name.rpartition("/")[2]: float(value) for name, value in optimizer.others.items()}
            self.assertEqual(found, {name: float(np.float32(value)) for name, value in state["extra"].items()})

    @parameterized.expand(
        [
            ("keras_object.adam/tf115.exp", "TF 1.14 or later"),
            ("keras_object.adam/tf215.lso3", "TF 2.11 to 2.15, or tf_keras"),
            ("keras_object.plain/tf23.exp", "TF 1.14 or later"),
            ("keras_object.adam/tf21.k3", "Keras 3"),
            ("v1_saver.adam/tf115", "TF 1, or tf.compat.v1"),
            ("v1_object.momentum/tf24", "TF 1, or tf.compat.v1"),
            ("keras_tf.momentum/tf23.exp", "TF 2.3.4"),
            ("keras_h5.momentum/tf28.lso2", "Keras 2.8.0"),
            ("keras_v3.momentum/tf215.lso2", "Keras 2.15.0"),
        ]
    )
    def test_writer(self, name: str, written_by: str) -> None:
        self.assertEqual(read(Artefact(*name.split("/")).path).written_by, written_by)


class ConfigTest(unittest.TestCase):
    @parameterized.expand([(path.stem, path) for path in CONFIGS])
    def test_config(self, name: str, path: pathlib.Path) -> None:
        (optimizer,) = read(path).optimizers
        kind, _, flavour = name.split(".")
        dynamic, scale, growth_steps, algorithm, rate, _ = SETTINGS[kind]
        self.assertEqual((optimizer.family, optimizer.algorithm), (SUBJECTS[flavour].family, algorithm))
        loss_scale = optimizer.loss_scale
        assert loss_scale is not None
        found = (loss_scale.dynamic, loss_scale.scale, loss_scale.initial_scale, loss_scale.growth_steps)
        self.assertEqual(found, (dynamic, None if dynamic else scale, scale, growth_steps))
        self.assertEqual(optimizer.hyperparameters["learning_rate"], rate)


class PathTest(InFolder, unittest.TestCase):
    def setUp(self) -> None:
        self.source = DATA / "artefacts" / "keras_object.adam" / "tf24.lso2"

    def test_ways_to_name_a_checkpoint(self) -> None:
        for file in self.source.glob("ckpt-1*"):
            shutil.copy(file, self.folder)
        names = ("ckpt-1", "ckpt-1.index", "ckpt-1.data-00000-of-00001", "")
        for name in names:
            self.assertEqual(read(self.folder / name).optimizers[0].iterations, 6, name)
        (self.folder / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/ckpt-1"\n')
        for name in (*names, "checkpoint"):
            self.assertEqual(read(self.folder / name).optimizers[0].iterations, 6, name)

    def test_latest_of_several(self) -> None:
        for number, release in ((1, "tf22.exp"), (2, "tf24.lso2")):
            for file in (self.source.parent / release).glob("ckpt-1*"):
                shutil.copy(file, self.folder / file.name.replace("ckpt-1", f"ckpt-{number}"))
        with self.assertRaisesRegex(
            NotAnArtefactError, r"must hold one checkpoint; got '2 checkpoints, ckpt-1, ckpt-2'"
        ):
            read(self.folder)
        (self.folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-2"')
        self.assertEqual(read(self.folder).optimizers[0].iterations, 5)
        (self.folder / "checkpoint").write_text('model_checkpoint_path: "../ckpt-3"\n')
        with self.assertRaisesRegex(SavedStateError, r"checkpoint: model_checkpoint_path must name a checkpoint in"):
            read(self.folder)

    @parameterized.expand([("nothing", None), ("text", b"hello"), ("pickle", b"\x80\x04K\x01.")])
    def test_other_things(self, name: str, content: bytes | None) -> None:
        path = self.folder / "thing"
        if content is not None:
            path.write_bytes(content)
        with self.assertRaisesRegex(
            NotAnArtefactError, r"must (be a checkpoint's prefix, |exist; got nothing).*my-checkpoints"
        ):
            read(path)

    def test_an_empty_file_is_a_broken_one(self) -> None:
        for name in ("model.h5", "model.keras", "config.json", "thing"):
            (self.folder / name).write_bytes(b"")
            with self.assertRaisesRegex(SavedStateError, "must be a checkpoint.*; got an empty file. Copy") as caught:
                read(self.folder / name)
            self.assertNotIsInstance(caught.exception, NotAnArtefactError)

    def test_needs_neither_tensorflow_nor_keras(self) -> None:
        program = textwrap.dedent(
            """
            import sys
            from mpls.saved.reading import read
            for path in sys.argv[1:]:
                assert read(path).optimizers
            loaded = {"tensorflow", "keras", "tf_keras"} & set(sys.modules)
            assert not loaded, loaded
            """
        )
        paths = [each.path for each in ARTEFACTS] + [str(path) for path in CONFIGS]
        done = run_python("-c", program, *paths, folder=DATA.parents[2])
        self.assertEqual(done.returncode, 0, done.stderr)
