"""`mpls docs`: what messages point at is installed, found, and leads somewhere."""

from __future__ import annotations

import ast
import contextlib
import os
import pathlib
import pty
import re
import subprocess
import sys
import unittest
from collections.abc import Iterator

import pytest
from parameterized import parameterized

from mpls.documentation import PAGES, name_page, search, section_text, sections
from mpls.hints.causes import CAUSES
from mpls.names import NAMES
from tests.commands import run_command
from tests.processes import process_environment, run_python

ROOT = pathlib.Path(__file__).parents[2]
ENVIRONMENT = process_environment(TERM="xterm")
# The sections of MIGRATION.md that messages of mpls 0.2.0 name.
SECTIONS_OF_0_2_0 = """
    all-reduce another-keras as-of bounds-and-dynamics calling-styles checkpoints clipping configs contrib
    counted-steps disabling doctor experimental files-of-ones-own finding-the-scale fixed-scales float16-losses
    forgotten-scaling giving-up going-back graph-rewrite hyperparameters ignored-rules install integer-losses
    keras-2 keras-3 loss-scale-arguments migrate models monitoring my-checkpoints newer-frameworks no-gradients
    notebooks optimizer-arguments outside-of-mpls overflows plots policies private-members programs-as-they-are
    proof refused-files refused-numbers removed-with-tf-1 savers second-argument several-losses strategies types
    updated-twice which-import-replaces-which wrapping
"""


def shown(*arguments: str) -> tuple[int, str, str]:
    return run_command("docs", *arguments)


def named_in(source: str) -> Iterator[str]:
    """The sections that messages of a module name: in their text, as an argument of `error_text`, or in `ANCHOR`."""
    yield from re.findall(r"mpls docs ([a-z][a-z0-9-]*[a-z0-9])", source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "error_text":
            yield from (each.value for each in node.args[4:] if isinstance(each, ast.Constant))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).lstrip("_") == "ANCHOR":
            yield ast.literal_eval(node.value)


class SectionTest(unittest.TestCase):
    @parameterized.expand([("as-of",), ("#as-of",), ("MIGRATION.md#as-of",), ("docs/run.md#as-of",), ("As", "of")])
    def test_section(self, *name: str) -> None:
        status, text, _ = shown(*name)
        self.assertEqual(status, 0)
        self.assertTrue(text.startswith("### As of\n"), text)
        self.assertIn("| up to 2.2 | a skipped step", text)
        self.assertNotIn("### Install", text)
        self.assertNotIn("\033", text)

    def test_page_has_its_sections(self) -> None:
        text = shown("run")[1]
        self.assertIn("### As of", text)
        self.assertNotIn("# Migrating", text)

    def test_links_and_comments_are_for_readers_of_a_terminal(self) -> None:
        text = shown("checkpoints")[1]
        self.assertIn("state of another Keras than you train with now (mpls docs another-keras)", text)
        self.assertNotIn("<!--", text)
        self.assertIn("security (mpls docs security)", text)

    def test_list(self) -> None:
        status, text, _ = shown()
        self.assertEqual(status, 0)
        listed = [line.split()[0] for line in text.splitlines()[2:]]
        self.assertEqual(listed, [*PAGES, "migration", "security"])
        self.assertLess(max(map(len, text.splitlines())), 120)

    def test_every_page_is_listed_and_opens_with_a_question(self) -> None:
        self.assertEqual({path.stem for path in (ROOT / "docs").glob("*.md")}, set(PAGES))
        for page in PAGES:
            title, empty, *opening = (ROOT / "docs" / f"{page}.md").read_text().splitlines()[:6]
            self.assertTrue(title.startswith("# ") and not empty, page)
            self.assertRegex(opening[0], r"^\*\*.+[?.]\*\* ", page)

    def test_names_of_sections_are_unique(self) -> None:
        anchors = [each.anchor for each in sections()]
        self.assertEqual(sorted(anchors), sorted(set(anchors)))

    def test_every_message_points_at_a_section(self) -> None:
        found = {row.anchor for row in CAUSES}
        for path in (ROOT / "mpls").rglob("*.py"):
            found |= set(named_in(path.read_text()))
        self.assertGreater(len(found), 35)
        self.assertEqual({each for each in found if section_text(each) is None}, set())

    def test_sections_of_0_2_0_lead_somewhere(self) -> None:
        headings = {each.anchor for each in sections() if each.page == "migration"}
        text = (ROOT / "MIGRATION.md").read_text()
        for anchor in SECTIONS_OF_0_2_0.split():
            self.assertIsNotNone(section_text(f"MIGRATION.md#{anchor}"), anchor)
            self.assertTrue(anchor in headings or f'<a id="{anchor}"></a>' in text, anchor)

    def test_links_lead_somewhere(self) -> None:
        files = [ROOT / "README.md", ROOT / "MIGRATION.md", *(ROOT / "docs").glob("*.md")]
        anchors: dict[str, set[str]] = {}
        for each in sections():
            anchors.setdefault(each.page, set()).add(each.anchor)
        broken = []
        for file in files:
            for path, anchor in re.findall(r"\]\((?!http)([^)#\s]*)(?:#([^)]+))?\)", file.read_text()):
                target = (file.parent / path).resolve() if path else file
                is_page = target.stem.lower() in anchors and target.suffix == ".md"
                if not target.exists() or (anchor and is_page and anchor not in anchors[target.stem.lower()]):
                    broken.append(f"{file.name}: {path}#{anchor}")
        self.assertEqual(broken, [])


class SearchTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("nan", "the-loss-is-nan"),
            ("stuck", "the-scale-is-stuck-at-its-floor"),
            ("tensorboard", "tensorboard"),
            ("gpu", "gpu-and-tpu"),
            ("isinstance", "isinstance"),
            ("horovod", "tested-on"),
            ("session checkpoint", "savers"),
            ("gan", "gans-and-several-optimizers"),
            ("accumulation", "gradient-accumulation"),
            ("container", "the-recorder-in-a-container"),
        ]
    )
    def test_words_find_their_section(self, words: str, anchor: str) -> None:
        hits = [each.anchor for each in search(words)]
        self.assertIn(anchor, hits[:3])
        status, text, _ = shown(*words.split())
        self.assertEqual(status, 0)
        if section_text(words) is None:
            self.assertIn(f"mpls docs {anchor}\n", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)

    @parameterized.expand([("asof", "as-of"), ("strategie", "strategies"), ("contrb", "contrib")])
    def test_unknown_name_is_told_with_the_nearest(self, name: str, near: str) -> None:
        _, text, error = shown(name)
        self.assertIn(near, error or text)
        self.assertEqual(shown("zzzz\033")[2], "mpls docs: nothing found for 'zzzz\\x1b'. The list: mpls docs\n")
        self.assertEqual(shown("zzzz", "yyyy")[0], 2)
        self.assertEqual(search(""), [])


class NamesTest(unittest.TestCase):
    def test_each_name_has_a_page(self) -> None:
        for row in NAMES:
            if row.replacement:
                page = name_page(row)
                self.assertIn(f"TensorFlow {row.releases} had this name.", page)
                self.assertIn("```python", page, row.path)

    def test_page_says_what_to_write(self) -> None:
        status, text, _ = shown("tf.keras.mixed_precision.experimental.LossScaleOptimizer")
        self.assertEqual(status, 0)
        self.assertIn("1.14 to 2.8", text)
        self.assertIn("+from mpls.keras import LossScaleOptimizer", text)
        self.assertEqual(shown("tensorflow.keras.mixed_precision.experimental.LossScaleOptimizer")[1], text)


# Programs that fail on today's TensorFlow.
DEAD = [
    "tf.keras.mixed_precision.experimental",
    "from tensorflow.keras.mixed_precision import experimental",
    "import tensorflow.keras.mixed_precision.experimental",
    "tf.mixed_precision.experimental",
    "tf.train.experimental.DynamicLossScale",
    "tf.train.experimental.enable_mixed_precision_graph_rewrite",
    "from keras.mixed_precision.loss_scale_optimizer import LossScaleOptimizer",
    "from tensorflow.python.keras.mixed_precision.experimental import policy",
    "tf.contrib.mixed_precision",
    "tf.placeholder",
    "tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD()).get_scaled_loss",
    "tf.keras.optimizers.Adam().lr",
    "tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD()).loss_scale()",
    "from tensorflow.contrib import slim",
    "tf.estimator",
]
RUNS_THE_DEAD = """
import sys
import tensorflow as tf, tf_keras
for program in sys.argv[1:]:
    try:
        exec(program)
    except Exception as error:
        print(str(error).partition(" (/")[0])
    else:
        print("works:", program)
"""


class ImportErrorTest(unittest.TestCase):
    @pytest.mark.programs
    def test_the_page_shows_the_errors_in_their_order(self) -> None:
        done = run_python("-c", RUNS_THE_DEAD, *DEAD, environment=ENVIRONMENT)
        page = (ROOT / "docs" / "import-errors.md").read_text()
        rows = [line.split("`")[1] for line in page.splitlines() if re.match(r"\| `.*\| (`mpls|no option)", line)]
        self.assertEqual(rows, done.stdout.splitlines())


class TerminalTest(unittest.TestCase):
    def test_terminal_gets_the_pager(self) -> None:
        parent, child = pty.openpty()
        command, settings = [sys.executable, "-m", "mpls", "docs", "notebooks"], {**ENVIRONMENT, "PAGER": "cat"}
        process = subprocess.Popen(command, env=settings, stdin=child, stdout=child, stderr=child)
        os.close(child)
        text = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(parent, 4096):
                text += chunk
        os.close(parent)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertIn(b"Notebooks", text)
        # Colours only where the pager is known to show them.
        self.assertFalse(any(mark in text for mark in (b"### ", b"\033[1m")))
