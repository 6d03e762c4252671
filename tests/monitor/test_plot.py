"""`mpls plot`: what it reads, what it draws, and what it refuses in one sentence."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from matplotlib.image import imread
from parameterized import parameterized

import mpls
import mpls.v1
from mpls.cli import main
from mpls.monitor import LossScaleCallback, LossScaleHook, write_scalars
from mpls.plotting import read_course, scalars
from tests.processes import process_environment

from .models import data, keras_of, model_of, wrapped

RECORDS: list[dict[str, Any]] = [
    {"step": 0, "loss_scale": 32.0, "skipped_steps": 0},
    {"step": 1, "loss_scale": 16.0, "skipped_steps": 1, "loss": 4.0},
    {"step": 2, "loss_scale": 16.0, "skipped_steps": 1, "loss": None},
    {"step": 3, "loss_scale": 32.0, "skipped_steps": 1, "loss": 1.0},
    {"step": 4, "loss_scale": 16.0, "skipped_steps": 2, "loss": 0.5},
]
# By the rule, where batch 3 of each epoch of four overflows, and three finite ones double the scale.
AT_EPOCHS = ([(0, 16.0), (1, 16.0)], [(0, 1.0), (1, 2.0)])
AT_BATCHES = [(1, 16.0), (2, 16.0), (3, 32.0), (4, 16.0), (5, 16.0), (6, 16.0), (7, 32.0), (8, 16.0)]
CSV = "epoch,loss,loss_scale,skipped_steps,val_loss\n0,2.5,32768.0,0,NA\n1,inf,16384.0,1,1\n"


def plot(*arguments: str) -> tuple[int, str, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(["plot", *arguments])
    return status, out.getvalue(), err.getvalue()


def write_events(folder: pathlib.Path, records: list[dict[str, Any]], prefix: str = "") -> None:
    with tf.summary.create_file_writer(str(folder)).as_default():
        for record in records:
            for name, value in record.items():
                if name != "step" and value is not None:
                    tf.summary.scalar(prefix + name, value, step=record["step"])
        # What is no scalar does not matter.
        tf.summary.text("text", "words", step=0)
        tf.summary.histogram("weights", [1.0, 2.0], step=0)
        tf.summary.image("image", tf.random.uniform([1, 200, 200, 3]), step=0)


class FolderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = str(self.folder / "out.png")

    def file(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)


class SourceTest(FolderTest):
    def check(self, path: str, unit: str) -> Any:
        course = read_course(path)
        self.assertEqual(course.unit, unit)
        self.assertEqual(course.scale, [(0, 32.0), (1, 16.0), (2, 16.0), (3, 32.0), (4, 16.0)])
        self.assertEqual(course.loss, [(1, 4.0), (3, 1.0), (4, 0.5)])
        self.assertEqual(course.marks()[0], [(1, 16.0), (4, 16.0)])
        status, text, error = plot(path, "-o", self.out)
        self.assertEqual((status, error), (0, ""))
        self.assertIn("step 0 to 4: loss scale 16 to 32, skipped steps: 2", text.replace(unit, "step"))
        height, width, _ = imread(self.out).shape
        self.assertGreaterEqual((width, height), (800, 600))

    def test_history(self) -> None:
        self.check(self.file("history.json", json.dumps(RECORDS)), "step")

    @parameterized.expand([("step", "", "step"), ("epoch", "epoch_", "epoch"), ("name", "train/", "step")])
    @pytest.mark.default_run("one case")
    def test_events(self, name: str, prefix: str, unit: str) -> None:
        write_events(self.folder / "run" / "train", RECORDS, prefix)
        write_events(self.folder / "run" / "validation", [{"step": 0, "epoch_loss": 1.0}])
        self.check(str(self.folder / "run"), unit)

    def test_batches_are_taken_where_there_are_both(self) -> None:
        write_events(self.folder / "run", RECORDS, "batch_")
        write_events(self.folder / "run", RECORDS[:2], "epoch_")
        self.check(str(self.folder / "run"), "step")

    def test_csv(self) -> None:
        course = read_course(self.file("log.csv", CSV))
        self.assertEqual((course.unit, course.scale), ("epoch", [(0, 2.0**15), (1, 2.0**14)]))
        self.assertEqual((course.loss, course.marks()[0]), ([(0, 2.5)], [(1, 2.0**14)]))
        self.assertEqual(read_course(self.file("log.tsv", CSV.replace(",", "\t"))).scale, course.scale)

    def test_without_counters_falls_are_marked(self) -> None:
        course = read_course(self.file("log.csv", "step,loss_scale\n1,8\n2,16\n3,8\n"))
        self.assertEqual(course.marks(), ([(3, 8.0)], "scale came down: steps were skipped"))
        self.assertEqual(plot(self.file("log.csv", "step,loss_scale\n1,8\n"), "-o", self.out)[0], 0)

    def test_every_event_that_tensorflow_reads_is_read(self) -> None:
        write_events(self.folder / "run", RECORDS)
        (path,) = (self.folder / "run").iterdir()
        found = {(tag, step, value) for tag, step, value in scalars(path)}
        expected = set()
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    expected.add((value.tag, event.step, float(tf.make_ndarray(value.tensor))))
        self.assertEqual(found, expected)
        self.assertEqual(len(expected), 13)

    def test_file_that_is_still_written_to(self) -> None:
        write_events(self.folder / "run", RECORDS)
        (path,) = (self.folder / "run").iterdir()
        whole = path.read_bytes()
        for size in range(0, len(whole), 997):
            path.write_bytes(whole[:size])
            self.assertLessEqual(len(list(scalars(path))), 13)


class NumbersTest(FolderTest):
    def test_what_is_not_finite_is_marked_and_what_is_missing_is_not(self) -> None:
        course = read_course(self.file("a.csv", "epoch,loss,loss_scale\n0,NA,nan\n1,nan,4\n2,inf,inf\n3,1,2\n4,,1\n5"))
        self.assertEqual((course.scale, course.loss, course.bad_loss), ([(1, 4), (3, 2), (4, 1)], [(3, 1)], [1, 2]))
        records = [{"step": 1, "loss_scale": 8.0, "loss": None}, {"step": 2, "loss_scale": None}]
        course = read_course(self.file("a.json", json.dumps(records)))
        self.assertEqual((course.scale, course.loss, course.bad_loss), ([(1, 8.0)], [], [1]))

    def test_an_axis_has_no_numbers_that_nothing_has(self) -> None:
        records = self.file("a.json", json.dumps([{"step": 7, "loss_scale": 8.0, "loss": None}]))
        image = self.folder / "a.svg"
        self.assertEqual(plot(records, "-o", str(image))[0], 0)
        # Beside the shapes of a text there is a comment with the text.
        texts = [each for each in re.findall("<!-- (.*) -->", image.read_text()) if "$" not in each]
        expected = ["7", "step", "loss scale (factor)", "loss scale", "loss", "not finite (1 times)"]
        self.assertCountEqual(texts, [*expected, "Loss scale of a.json"])

    def test_of_a_step_that_is_there_twice_the_later_counts(self) -> None:
        rows = "1,8,3\n2,4,2\n3,2,9\n2,16,1\n"
        course = read_course(self.file("a.csv", f"step,loss_scale,loss\n{rows}"))
        self.assertEqual((course.scale, course.loss), ([(1, 8), (2, 16), (3, 2)], [(1, 3), (2, 1), (3, 9)]))

    def test_each_reading_of_a_step_is_drawn(self) -> None:
        records = [(1, 8, 0), (1, 4, 1), (1, 2, 2), (2, 2, 2), (3, 4, 2)]
        names = ("step", "loss_scale", "skipped_steps")
        rows: list[dict[str, Any]] = [dict(zip(names, each, strict=True)) for each in records]
        write_events(self.folder / "run", [{**each, "loss_scale": float(each["loss_scale"])} for each in rows])
        text = "step,loss_scale,skipped_steps\n" + "".join("{},{},{}\n".format(*each) for each in records)
        history = self.file("a.json", json.dumps(rows))
        for path in (history, self.file("a.csv", text), str(self.folder / "run")):
            course = read_course(path)
            self.assertEqual((course.unit, course.within), ("reading", "step 1 to 3"))
            self.assertEqual(course.scale, [(1, 8), (2, 4), (3, 2), (4, 2), (5, 4)])
            self.assertEqual(course.marks()[0], [(2, 4), (3, 2)])
        status, said, _ = plot(history, "-o", str(self.folder / "out.svg"))
        words = "reading 1 to 5 (step 1 to 3): loss scale 2 to 8, skipped steps: 2: "
        self.assertEqual((status, said.removesuffix(f"{self.folder / 'out.svg'}\n")), (0, words))
        self.assertIn("reading (step 1 to 3)", (self.folder / "out.svg").read_text())

    def test_readings_of_a_step_that_was_resumed_replace_the_older_ones(self) -> None:
        rows = "1,8,1\n2,4,1\n2,2,NA\n2,1,3\n3,1,1\n2,32,5\n2,16,6\n"
        course = read_course(self.file("a.csv", f"step,loss_scale,loss\n{rows}"))
        self.assertEqual(course.scale, [(1, 8), (2, 32), (3, 16), (4, 1)])
        self.assertEqual(course.loss, [(1, 1), (2, 5), (3, 6), (4, 1)])

    @parameterized.expand(
        [
            ("zero", "1,0,1\n2,8,-1"),
            ("as large as float32", f"{-(2**63)},{2.0**127},3e38\n{2**63},{2.0**-149},-3e38"),
            ("beyond", "1,1e308,1e308\n1e300,4,1\n3,2,-1e308\n4,-1e308,0"),
            ("no finite loss", "1,8,nan\n2,4,inf"),
            ("one", "1,8,1"),
            ("many", "\n".join(f"{n},{2 ** (5 + n % 2)},{'nan' if n % 3 else 1}" for n in range(200))),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_all_that_is_read_is_drawn(self, name: str, rows: str) -> None:
        status, _, error = plot(self.file("a.csv", f"step,loss_scale,loss\n{rows}\n"), "-o", self.out)
        self.assertEqual((status, error), (0, ""))
        self.assertGreaterEqual(imread(self.out).shape[1], 800)

    @parameterized.expand(
        [
            ("math", "$\\frac$ %s {x} " + "long" * 20, "png"),
            ("script", "\u8bad\u7ec3", "svg"),
            ("control", "\x1b\udcff", "pdf"),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_names_that_mean_something_elsewhere(self, name: str, file: str, suffix: str) -> None:
        path = self.file(f"{file}.csv", CSV)
        self.assertEqual(plot(path, "-o", str(self.folder / f"out.{suffix}"))[0], 0)


class WrittenTest(FolderTest):
    """What is drawn of files that the monitor, and callbacks after it, have written."""

    @parameterized.expand([("tf_keras", "new"), ("keras3", "keras3")])
    @pytest.mark.default_run("one case")
    def test_fit(self, name: str, family: str) -> None:
        model, callbacks, callback = model_of(family, count_steps=True), keras_of(family).callbacks, LossScaleCallback()
        csv, logs, each_batch = (str(self.folder / each) for each in ("log.csv", "logs", "each_batch"))
        after = [
            *(callbacks.CSVLogger(csv, separator=";"), callbacks.TensorBoard(logs)),
            callbacks.TensorBoard(each_batch, update_freq=1),
        ]
        x = np.ones([4, 1], np.float32)
        validation = {"validation_data": (x, x)}
        model.fit(**data(3), **validation, epochs=2, callbacks=[callback, *after])
        history = str(self.folder / "history.json")
        callback.save(history)
        for path in (csv, logs):
            course = read_course(path)
            self.assertEqual((course.unit, course.scale, course.skipped), ("epoch", *AT_EPOCHS), path)
            self.assertEqual((len(course.loss), course.bad_loss), (0, [0, 1]))
        course = read_course(history)
        self.assertEqual((course.unit, course.scale), ("step", [(0, 16.0), *AT_BATCHES]))
        self.assertEqual((course.marks()[0], course.bad_loss), ([(4, 16.0), (8, 16.0)], [4, 8]))
        scales = [scale for _, scale in read_course(each_batch).scale]
        self.assertEqual(scales, [scale for _, scale in AT_BATCHES])
        self.assertEqual(plot(history, "-o", self.out)[0], 0)

    @parameterized.expand(["loss_scale", "train/scale"])
    def test_write_scalars(self, name: str) -> None:
        opt = wrapped(initial_scale=16, count_steps=True)
        loss = f"{name.rpartition('/')[0]}/loss".removeprefix("/")
        weight, logs = tf.Variable(1.0), str(self.folder / "logs")
        with tf.summary.create_file_writer(logs).as_default():
            for step, gradient in enumerate([1.0, math.inf, 1.0]):
                grads = opt.get_unscaled_gradients([opt.get_scaled_loss(tf.constant(gradient))])
                opt.apply_gradients([(grads[0], weight)])
                write_scalars(opt, step, name)
                tf.summary.scalar(loss, gradient, step)
        course = read_course(logs)
        self.assertEqual((course.unit, course.scale), ("step", [(0, 16.0), (1, 8.0), (2, 8.0)]))
        self.assertEqual((course.skipped, course.marks()[0]), ([(0, 0), (1, 1), (2, 1)], [(1, 8.0)]))
        self.assertEqual((course.loss, course.bad_loss), ([(0, 1.0), (2, 1.0)], [1]))

    def test_hook(self) -> None:
        v1, logs = tf.compat.v1, str(self.folder / "logs")
        with tf.Graph().as_default():
            opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
                v1.train.GradientDescentOptimizer(0.25), mpls.v1.DynamicLossScale(16, 3), count_steps=True
            )
            gradient = v1.placeholder(tf.float32, [])
            step = v1.train.get_or_create_global_step()
            train_op = opt.minimize(v1.Variable(1.0, use_resource=True) * gradient, step)
            hook = LossScaleHook(opt, every=1, loss=gradient, summary_dir=logs)
            with v1.train.MonitoredSession(hooks=[hook]) as session:
                for each in (1.0, 2.0, 4.0, 8.0):
                    session.run(train_op, {gradient: each})
        hook.save(self.folder / "history.json")
        scale, loss = [(1, 16.0), (2, 16.0), (3, 32.0), (4, 32.0)], [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)]
        for path in (logs, str(self.folder / "history.json")):
            course = read_course(path)
            self.assertEqual((course.unit, course.scale, course.loss), ("step", scale, loss))

    def test_hook_of_steps_that_do_not_advance(self) -> None:
        v1, logs = tf.compat.v1, str(self.folder / "logs")
        with tf.Graph().as_default():
            opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
                v1.train.GradientDescentOptimizer(0.25), mpls.v1.DynamicLossScale(16, 3), count_steps=True
            )
            gradient = v1.placeholder(tf.float32, [])
            v1.train.get_or_create_global_step()
            train_op = opt.minimize(v1.Variable(1.0, use_resource=True) * gradient)
            hook = LossScaleHook(opt, every=1, summary_dir=logs)
            with v1.train.MonitoredSession(hooks=[hook]) as session:
                for each in (1.0, math.inf, math.inf, 8.0):
                    session.run(train_op, {gradient: each})
        hook.save(self.folder / "history.json")
        for path in (logs, str(self.folder / "history.json")):
            course = read_course(path)
            self.assertEqual((course.unit, course.within), ("reading", "step 0 to 0"))
            self.assertEqual(course.scale, [(1, 16.0), (2, 8.0), (3, 4.0), (4, 4.0)])
            self.assertEqual(course.marks()[0], [(2, 8.0), (3, 4.0)])


class RefusedTest(FolderTest):
    def refused(self, path: str, *words: str) -> None:
        status, text, error = plot(path, "-o", self.out)
        self.assertEqual((status, text), (2, ""))
        self.assertTrue(error.startswith("mpls plot: "), error)
        self.assertEqual(error.count("\n"), 1)
        self.assertFalse(os.path.exists(self.out))
        for word in words:
            self.assertIn(word, error)

    @parameterized.expand(
        [
            ("truncated", "a.json", json.dumps(RECORDS)[:-9], "is not complete JSON"),
            ("empty json", "a.json", "", "is not complete JSON"),
            ("deep", "a.json", "[" * 100_000, "is not complete JSON"),
            ("object", "a.json", '{"step": 1}', "is not a list of objects"),
            ("numbers", "a.json", "[1, 2]", "is not a list of objects"),
            ("no scale", "a.json", '[{"step": 1, "loss": 2}]', "has no object with 'step' and 'loss_scale'"),
            ("scale of text", "a.json", '[{"step": 1, "loss_scale": "x"}]', "has no object with"),
            ("nan", "a.json", '[{"step": NaN, "loss_scale": 8.0}]', "has no object with"),
            ("empty list", "a.json", "[]", "has no object with"),
            ("csv without a scale", "a.csv", "epoch,loss\n0,1\n", "goes before CSVLogger"),
            ("empty csv", "a.csv", "", "lacks the columns"),
            ("csv without rows", "a.csv", "epoch,loss_scale\n", "has no number in 'loss_scale'"),
            ("csv without numbers", "a.csv", "epoch,loss_scale\n0,NA\n", "has no number in 'loss_scale'"),
            ("binary", "a.csv", b"\xff\xfe\x00\x81", "is not text"),
            ("nul", "a.csv", b"epoch,loss_scale\n\x00\n", ""),
            ("one event file", "events.out.tfevents.1", b"", "give the directory"),
            ("unreadable name", "a\x1b[31m.csv", "x", "\\x1b"),
        ]
    )
    def test_file(self, name: str, file: str, content: str | bytes, words: str) -> None:
        self.refused(self.file(file, content), words)

    def test_nothing_there(self) -> None:
        self.refused(str(self.folder / "none"), "there is nothing at")

    def test_directories(self) -> None:
        run = self.folder / "run"
        run.mkdir()
        self.refused(str(run), "has no event files")
        write_events(run / "a", [{"step": 1, "loss": 1.0}])
        self.refused(str(run), "goes before TensorBoard")
        write_events(run / "b", RECORDS)
        write_events(run / "c", RECORDS)
        self.refused(str(run), "has several runs", f"{run / 'b'}, {run / 'c'}")

    @parameterized.expand([("length", 5), ("content", 20)])
    def test_broken_event_files(self, name: str, place: int) -> None:
        write_events(self.folder / "run", RECORDS)
        (path,) = (self.folder / "run").iterdir()
        data = bytearray(path.read_bytes())
        data[place] ^= 0xFF
        path.write_bytes(data)
        self.refused(str(self.folder / "run"), "is broken", "checksum")

    def test_existing_image_is_kept(self) -> None:
        path, image = self.file("a.csv", CSV), self.file("out.png", "mine")
        status, _, error = plot(path, "-o", image)
        self.assertEqual((status, pathlib.Path(image).read_text()), (2, "mine"))
        self.assertIn("exists already", error)
        self.assertEqual(plot(path, "-o", image, "--force")[0], 0)
        self.assertNotEqual(pathlib.Path(image).read_bytes()[:4], b"mine")

    def test_where_to_write(self) -> None:
        path = self.file("a.csv", CSV)
        self.assertIn("must end in .png, .svg or .pdf", plot(path, "-o", str(self.folder / "out.exe"))[2])
        status, _, error = plot(path, "-o", str(self.folder / "none" / "out.png"))
        self.assertEqual(status, 2)
        self.assertIn("No such file or directory", error)

    def test_without_matplotlib(self) -> None:
        hidden = dict.fromkeys(("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"))
        with mock.patch.dict(sys.modules, hidden):
            self.refused(self.file("a.csv", CSV), "pip install 'mpls[plot]'")


@pytest.mark.programs
class ProgramTest(FolderTest):
    def run_plot(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-X", "importtime", "-m", "mpls", "plot", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=process_environment(needs=["matplotlib"]),
        )

    def test_default_image_without_tensorflow(self) -> None:
        steps = [{"step": n, "loss_scale": 2.0 ** (10 + n // 50 % 4), "loss": math.exp(-n / 90)} for n in range(400)]
        done = self.run_plot(self.file("history.json", json.dumps(steps)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "step 0 to 399: loss scale 1024 to 8192: loss_scale.png\n")
        self.assertGreaterEqual(imread(self.folder / "loss_scale.png").shape[1], 800)
        self.assertNotIn("tensorflow", done.stderr)

    def test_no_traceback(self) -> None:
        done = self.run_plot("nothing")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("mpls plot: there is nothing at nothing. See mpls docs plots\n", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_backend_that_matplotlib_lacks_is_a_sentence(self) -> None:
        with mock.patch.dict(os.environ, {"MPLBACKEND": "nonsense"}):
            done = self.run_plot(self.file("a.csv", CSV), "-o", self.out)
        (said,) = (line for line in done.stderr.splitlines() if not line.startswith("import time:"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(said, "^mpls plot: matplotlib refuses its settings, such as MPLBACKEND: .*'nonsense'")
