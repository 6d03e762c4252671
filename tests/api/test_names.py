"""The table of names is the census of the real packages, and what it points at exists."""

from __future__ import annotations

import importlib
import json
import pathlib
import unittest

from parameterized import parameterized

from mpls.importing.namespaces import hosts
from mpls.names import NAMES, RELEASES, module_of, named
from tests.processes import ROOT, load_file

CENSUS = json.loads((pathlib.Path(__file__).parent / "data" / "names.json").read_text())
PATHS, MODULES = CENSUS["paths"], CENSUS["modules"]

# Modules of the census that have no row.
LEFT_OUT = {
    "keras.src.optimizers.loss_scale_optimizer": "the module of Keras 3's own class, which is there",
    "tensorflow.python.training.experimental.loss_scaling_gradient_tape": "private, and no program is known to use it",
    "tensorflow.train.experimental": "holds much else, and is there",
    "tensorflow.compat.v1.train.experimental": "holds much else, and is there",
    "tensorflow.compat.v2.train.experimental": "holds much else, and is there",
}
# Rows that were never read as an attribute when the census was taken.
NOT_IN_CENSUS = {"tf.compat.v1.keras.mixed_precision", "tf.compat.v2.keras.mixed_precision"}


class CensusTest(unittest.TestCase):
    @parameterized.expand(sorted(PATHS))
    def test_path_has_its_row(self, path: str) -> None:
        row, seen = named(path), PATHS[path]
        self.assertIsNotNone(row)
        last = None if seen["last"] == RELEASES[-1] else seen["last"]
        self.assertEqual((row.first, row.last), (seen["first"], last))
        if last is None and path.startswith("tf."):
            self.assertEqual(row.needs_keras_3, seen["keras_3"] and not seen["keras_2"])

    @parameterized.expand(sorted(MODULES))
    def test_importable_module_has_its_row(self, module: str) -> None:
        if module in LEFT_OUT:
            self.assertIsNone(named(module))
            return
        row = named(module)
        self.assertTrue(row.is_namespace)
        # That it could be imported may have been later than that it was there.
        self.assertLessEqual(RELEASES.index(row.first), RELEASES.index(MODULES[module][0]))
        self.assertEqual(row.last or RELEASES[-1], MODULES[module][1])

    def test_no_public_row_is_made_up(self) -> None:
        rows = {name.path for name in NAMES if not name.is_private}
        self.assertEqual(rows - set(PATHS), NOT_IN_CENSUS)


class TableTest(unittest.TestCase):
    def test_every_target_exists(self) -> None:
        for name in NAMES:
            if name.replacement:
                home, _, attribute = name.target.partition(":")
                self.assertTrue(hasattr(importlib.import_module(home), attribute), name)

    def test_releases_are_in_order(self) -> None:
        for name in NAMES:
            last = name.last or RELEASES[-1]
            self.assertLessEqual(RELEASES.index(name.first), RELEASES.index(last), name)

    def test_namespaces_hold_something(self) -> None:
        parents = {name.parent for name in NAMES}
        for name in NAMES:
            if name.is_namespace:
                self.assertIn(name.path, parents)

    def test_every_member_has_a_module_that_serves_it(self) -> None:
        for name in NAMES:
            self.assertIn(name.parent, hosts()[module_of(name.parent)])

    def test_either_spelling_of_tensorflow_finds_a_row(self) -> None:
        path = "keras.mixed_precision.experimental.Policy"
        self.assertIs(named(f"tensorflow.{path}"), named(f"tf.{path}"))
        self.assertEqual(named(f"tf.{path}").replacement, "mpls.experimental.Policy")
        self.assertIsNone(named("tf.keras.Model"))


class GeneratedTest(unittest.TestCase):
    script = load_file(ROOT / "scripts" / "names_table.py")

    def test_tables_in_the_documentation_are_of_this_table(self) -> None:
        text = self.script.DOCUMENT.read_text(encoding="utf-8")
        self.assertEqual(text, self.script.with_tables(text))
        damaged = text.replace("`tf.contrib.mixed_precision.{", "`tf.contrib.mixed.{", 1)
        self.assertNotEqual(damaged, self.script.with_tables(damaged))

    def test_every_name_with_a_replacement_is_in_one(self) -> None:
        shown = [name for which in ("removed", "still", "private") for name in self.script.rows_of(which)]
        self.assertEqual(len(shown), len(set(shown)))
        self.assertEqual(set(shown), {name for name in NAMES if name.replacement})
