"""`mpls plot`: what it reads, what it draws, and what it refuses in one sentence."""

from __future__ import annotations

import json
import math
import os
import pathlib
import sys
import unittest
from typing import Any
from unittest import mock

import pytest
from matplotlib.image import imread
from parameterized import parameterized

from mpls.plotting import read_course
from tests.commands import run_command
from tests.folders import InFolder
from tests.processes import process_environment, run_python

RECORDS: list[dict[str, Any]] = [
    {"step": 0, "loss_scale": 32.0, "skipped_steps": 0},
    {"step": 1, "loss_scale": 16.0, "skipped_steps": 1, "loss": 4.0},
    {"step": 2, "loss_scale": 16.0, "skipped_steps": 1, "loss": None},
    {"step": 3, "loss_scale": 32.0, "skipped_steps": 1, "loss": 1.0},
    {"step": 4, "loss_scale": 16.0, "skipped_steps": 2, "loss": 0.5},
]
CSV = "epoch,loss,loss_scale,skipped_steps,val_loss\n0,2.5,32768.0,0,NA\n1,inf,16384.0,1,1\n"


class FolderTest(InFolder, unittest.TestCase):
    def setUp(self) -> None:
        self.out = str(self.folder / "out.png")

    def file(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)


class SourceTest(FolderTest):
    def test_history(self) -> None:
        path = self.file("history.json", json.dumps(RECORDS))
        course = read_course(path)
        self.assertEqual(course.unit, "step")
        self.assertEqual(course.scale, [(0, 32.0), (1, 16.0), (2, 16.0), (3, 32.0), (4, 16.0)])
        self.assertEqual(course.loss, [(1, 4.0), (3, 1.0), (4, 0.5)])
        self.assertEqual(course.marks()[0], [(1, 16.0), (4, 16.0)])
        status, text, error = run_command("plot", path, "-o", self.out)
        self.assertEqual((status, error), (0, ""))
        self.assertIn("step 0 to 4: loss scale 16 to 32, skipped steps: 2", text)
        height, width, _ = imread(self.out).shape
        self.assertGreaterEqual((width, height), (800, 600))

    def test_csv(self) -> None:
        course = read_course(self.file("log.csv", CSV))
        self.assertEqual((course.unit, course.scale), ("epoch", [(0, 2.0**15), (1, 2.0**14)]))
        self.assertEqual((course.loss, course.marks()[0]), ([(0, 2.5)], [(1, 2.0**14)]))
        self.assertEqual(read_course(self.file("log.tsv", CSV.replace(",", "\t"))).scale, course.scale)

    def test_without_counters_falls_are_marked(self) -> None:
        course = read_course(self.file("log.csv", "step,loss_scale\n1,8\n2,16\n3,8\n"))
        self.assertEqual(course.marks(), ([(3, 8.0)], "scale came down: steps were skipped"))
        self.assertEqual(run_command("plot", self.file("log.csv", "step,loss_scale\n1,8\n"), "-o", self.out)[0], 0)


class NumbersTest(FolderTest):
    def test_what_is_not_finite_is_marked_and_what_is_missing_is_not(self) -> None:
        course = read_course(self.file("a.csv", "epoch,loss,loss_scale\n0,NA,nan\n1,nan,4\n2,inf,inf\n3,1,2\n4,,1\n5"))
        self.assertEqual((course.scale, course.loss, course.bad_loss), ([(1, 4), (3, 2), (4, 1)], [(3, 1)], [1, 2]))
        records = [{"step": 1, "loss_scale": 8.0, "loss": None}, {"step": 2, "loss_scale": None}]
        course = read_course(self.file("a.json", json.dumps(records)))
        self.assertEqual((course.scale, course.loss, course.bad_loss), ([(1, 8.0)], [], [1]))

    def test_each_reading_is_drawn_if_steps_do_not_advance(self) -> None:
        records = [(1, 8, 0), (1, 4, 1), (1, 2, 2), (2, 2, 2), (3, 4, 2)]
        names = ("step", "loss_scale", "skipped_steps")
        text = "step,loss_scale,skipped_steps\n" + "".join("{},{},{}\n".format(*each) for each in records)
        history = self.file("a.json", json.dumps([dict(zip(names, each, strict=True)) for each in records]))
        for path in (history, self.file("a.csv", text)):
            course = read_course(path)
            self.assertEqual((course.unit, course.within), ("reading", "step 1 to 3"))
            self.assertEqual(course.scale, [(1, 8), (2, 4), (3, 2), (4, 2), (5, 4)])
            self.assertEqual(course.marks()[0], [(2, 4), (3, 2)])
        status, said, _ = run_command("plot", history, "-o", str(self.folder / "out.svg"))
        words = "reading 1 to 5 (step 1 to 3): loss scale 2 to 8, skipped steps: 2: "
        self.assertEqual((status, said.removesuffix(f"{self.folder / 'out.svg'}\n")), (0, words))
        self.assertIn("reading (step 1 to 3)", (self.folder / "out.svg").read_text())


class RefusedTest(FolderTest):
    def refused(self, path: str, *words: str) -> None:
        status, text, error = run_command("plot", path, "-o", self.out)
        self.assertEqual((status, text), (2, ""))
        self.assertTrue(error.startswith("mpls plot: "), error)
        self.assertEqual(error.count("\n"), 1)
        self.assertFalse(os.path.exists(self.out))
        for word in words:
            self.assertIn(word, error)

    @parameterized.expand(
        [
            ("truncated", "a.json", json.dumps(RECORDS)[:-9], "is not complete JSON"),
            ("deep", "a.json", "[" * 100_000, "is not complete JSON"),
            ("object", "a.json", '{"step": 1}', "is not a list of objects"),
            ("no scale", "a.json", '[{"step": 1, "loss": 2}]', "has no object with 'step' and 'loss_scale'"),
            ("nan", "a.json", '[{"step": NaN, "loss_scale": 8.0}]', "has no object with"),
            (
                "csv without a scale",
                "a.csv",
                "epoch,d_loss_scale\n0,1\n",
                "has no column 'loss_scale'; Loss",
            ),
            ("csv without steps", "a.csv", "loss_scale\n1\n", "has neither a column 'step' nor a column 'epoch'"),
            ("csv without rows", "a.csv", "epoch,loss_scale\n", "has no number in 'loss_scale'"),
            ("csv without numbers", "a.csv", "epoch,loss_scale\n0,NA\n", "has no number in 'loss_scale'"),
            ("binary", "a.csv", b"\xff\xfe\x00\x81", "is not text"),
            ("nul", "a.csv", b"epoch,loss_scale\n\x00\n", ""),
            ("event file", "events.out.tfevents.1", b"", "is for TensorBoard"),
            ("unreadable name", "a\x1b[31m.csv", "x", "\\x1b"),
        ]
    )
    def test_file(self, name: str, file: str, content: str | bytes, words: str) -> None:
        self.refused(self.file(file, content), words)

    def test_nothing_there(self) -> None:
        self.refused(str(self.folder / "none"), "there is nothing at")

    def test_a_directory_is_for_tensorboard(self) -> None:
        self.refused(str(self.folder), "is for TensorBoard, which draws it")

    def test_existing_image_is_kept(self) -> None:
        path, image = self.file("a.csv", CSV), self.file("out.png", "mine")
        status, _, error = run_command("plot", path, "-o", image)
        self.assertEqual((status, pathlib.Path(image).read_text()), (2, "mine"))
        self.assertIn("exists already", error)
        self.assertEqual(run_command("plot", path, "-o", image, "--force")[0], 0)
        self.assertNotEqual(pathlib.Path(image).read_bytes()[:4], b"mine")

    def test_where_to_write(self) -> None:
        path = self.file("a.csv", CSV)
        _, _, error = run_command("plot", path, "-o", str(self.folder / "out.exe"))
        self.assertIn("must end in .png, .svg or .pdf", error)
        status, _, error = run_command("plot", path, "-o", str(self.folder / "none" / "out.png"))
        self.assertEqual(status, 2)
        self.assertIn("No such file or directory", error)

    def test_without_matplotlib(self) -> None:
        hidden = dict.fromkeys(("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"))
        with mock.patch.dict(sys.modules, hidden):
            self.refused(self.file("a.csv", CSV), "pip install 'mpls[plot]'")


@pytest.mark.programs
class ProgramTest(FolderTest):
    def test_default_image_without_tensorflow(self) -> None:
        steps = [{"step": n, "loss_scale": 2.0 ** (10 + n // 50 % 4), "loss": math.exp(-n / 90)} for n in range(400)]
        command = ["-W", "error", "-X", "importtime", "-m", "mpls", "plot"]
        history, environment = self.file("history.json", json.dumps(steps)), process_environment(needs=["matplotlib"])
        done = run_python(*command, history, folder=self.folder, environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "step 0 to 399: loss scale 1024 to 8192: loss_scale.png\n")
        self.assertGreaterEqual(imread(self.folder / "loss_scale.png").shape[1], 800)
        self.assertNotIn("tensorflow", done.stderr)
