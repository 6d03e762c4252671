"""`mpls docs`: what messages point at is installed, and found."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import pty
import re
import subprocess
import sys
import unittest

from parameterized import parameterized

from mpls.cli import main
from mpls.documentation import sections
from mpls.hints.causes import CAUSES
from tests.processes import process_environment

ROOT = pathlib.Path(__file__).parents[2]
ENVIRONMENT = process_environment(TERM="xterm")


def shown(*arguments: str) -> tuple[int, str, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(["docs", *arguments])
    return status, out.getvalue(), err.getvalue()


class DocsTest(unittest.TestCase):
    @parameterized.expand(["as-of", "#as-of", "MIGRATION.md#as-of"])
    def test_section(self, name: str) -> None:
        status, text, _ = shown(name)
        self.assertEqual(status, 0)
        self.assertTrue(text.startswith("### as-of\n"), text)
        self.assertIn("| up to 2.2 | a skipped step", text)
        self.assertNotIn("### install", text)
        self.assertNotIn("\033", text)

    def test_section_has_those_within(self) -> None:
        text = shown("programs-as-they-are")[1]
        self.assertIn("### as-of", text)
        self.assertNotIn("\n## ", text)

    def test_list(self) -> None:
        status, text, _ = shown()
        names = text.split()
        self.assertEqual(status, 0)
        self.assertEqual(names, [each.anchor for each in sections()])
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("what-the-originals-got-wrong-and-mpls-does-right", names)

    @parameterized.expand(
        [("asof", "as-of"), ("strategy", "strategies"), ("contrb", "contrib"), ("scales", "fixed-scales")]
    )
    def test_unknown_name_is_told_with_the_nearest(self, name: str, near: str) -> None:
        status, text, error = shown(name)
        self.assertEqual((status, text), (2, ""))
        self.assertIn(near, error)
        self.assertEqual(shown("zzzz\033")[2], "mpls docs: no section 'zzzz\\x1b'. mpls docs lists what there is\n")

    def test_every_message_points_at_a_section(self) -> None:
        names = {each.anchor for each in sections()}
        found = {row.anchor for row in CAUSES}
        for path in (ROOT / "mpls").rglob("*.py"):
            found |= set(re.findall(r"(?:MIGRATION\.md#|See mpls docs )([a-z][\w-]+)", path.read_text()))
        self.assertGreater(len(found), 15)
        self.assertEqual(found - names, set())


class TerminalTest(unittest.TestCase):
    def test_reader_that_has_seen_enough(self) -> None:
        command = f"{sys.executable} -m mpls docs programs-as-they-are | head -n 1"
        done = subprocess.run(["bash", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("## Programs as they are\n", ""))

    def test_terminal_gets_the_pager(self) -> None:
        """Colours only where the pager is known to show them."""
        for extra, is_own in (({"PAGER": "cat"}, True), ({"PAGER": ""}, False)):
            parent, child = pty.openpty()
            command = [sys.executable, "-m", "mpls", "docs", "notebooks"]
            settings = {key: value for key, value in {**ENVIRONMENT, **extra}.items() if value}
            process = subprocess.Popen(command, env=settings, stdin=child, stdout=child, stderr=child)
            os.close(child)
            text = b""
            with contextlib.suppress(OSError):
                while chunk := os.read(parent, 4096):
                    text += chunk
                    if b"jupyter-execute" in text and not is_own:
                        os.write(parent, b"q")
            os.close(parent)
            self.assertEqual(process.wait(timeout=60), 0)
            self.assertIn(b"### notebooks", text)
            if is_own:
                self.assertNotIn(b"\033[1m", text)
