"""The examples of README.md, of the pages and of docstrings run, and public docstrings are complete.

Run as a program, this file runs examples in a process of its own, which keeps switches that they turn from
other tests: `test_docs.py blocks FILE` or `test_docs.py doctests`.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import json
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from parameterized import parameterized

import mpls.keras
import mpls.monitor
from mpls.documentation import PAGES
from mpls.names import NAMES, Name
from tests.processes import OPTIONAL, ROOT, Forks, process_environment

DOCUMENTS = ("README.md", *(f"docs/{page}.md" for page in PAGES))
# Each package in one page, of which the examples take no time.
QUICK = "docs/names.md"
PUBLIC_PACKAGES = ("mpls.v1", "mpls.keras", "mpls.experimental", "mpls.contrib", "mpls.monitor")


SKIP = re.compile(r"<!--\s*skip:\s*(?P<reason>.*?)\s*-->")
# Before commands that run where the Python blocks above them have run.
RUNS = "<!-- runs -->"


@dataclass(frozen=True)
class Block:
    line: int
    code: str
    skip_reason: str | None
    is_shell: bool = False


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks marked as Python, with the reason to skip them if there is one, and the commands that run."""
    before, start, indent, lines, is_shell = "", 0, "", None, False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if lines is not None and stripped == "```":
            skip = SKIP.fullmatch(before)
            yield Block(start, textwrap.dedent("\n".join(lines)), skip["reason"] if skip else None, is_shell)
            before, lines = "", None
        elif lines is not None:
            lines.append(line)
        elif stripped == "```python" or (stripped == "```bash" and before == RUNS):
            is_shell = stripped == "```bash"
            start, indent, lines = number + 1, line[: len(line) - len(line.lstrip())], []
        elif stripped:
            before = stripped
    assert lines is None, f"the block at line {start} does not end; it is indented by {indent!r}"


def has_examples(name: str) -> bool:
    return any(block.skip_reason is None for block in blocks_of((ROOT / name).read_text()))


def run_blocks(path: pathlib.Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(path.read_text()):
        if block.is_shell:
            run_commands(block.code)
        elif block.skip_reason is None:
            # Empty lines before it let a traceback name the line of the document.
            code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
            exec(code, namespace)


def run_commands(code: str) -> None:
    """Run shell commands, with this interpreter's `mpls`."""
    prologue = 'mpls() { "$PYTHON" -m mpls "$@"; }\n'
    environment = {**os.environ, "PYTHON": sys.executable}
    result = subprocess.run(["bash", "-euc", prologue + code], env=environment, check=False)
    assert result.returncode == 0, f"status {result.returncode} of:\n{code}"


OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_doctests() -> tuple[str, int]:
    """Run the examples of every module; return the report, empty if all is well, and their number."""
    report, examples = io.StringIO(), 0
    names = ["mpls", *(module.name for module in pkgutil.walk_packages(mpls.__path__, "mpls."))]
    for name in names:
        if name.endswith("__main__"):
            continue
        runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
        for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name):
            # What the examples print is compared by the runner; what they log is no part of them.
            with contextlib.redirect_stderr(io.StringIO()):
                runner.run(test, out=report.write, clear_globs=True)
        examples += runner.tries
    return report.getvalue(), examples


FORKS = Forks()


def run_here(*arguments: str) -> str:
    environment = process_environment(ROOT, needs=OPTIONAL, MPLBACKEND="Agg")
    with tempfile.TemporaryDirectory() as folder:
        result = FORKS.run(__file__, *arguments, folder=folder, environment=environment)
    if result.returncode:
        raise AssertionError(f"{' '.join(arguments)}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")
    return result.stdout


class ExampleTest(unittest.TestCase):
    """What is shown to users works."""

    @parameterized.expand([(name,) for name in DOCUMENTS if name != QUICK and has_examples(name)])
    @pytest.mark.programs
    def test_blocks_of_document_run(self, name: str) -> None:
        run_here("blocks", str(ROOT / name))

    def test_blocks_of_the_page_of_names_run(self) -> None:
        run_here("blocks", str(ROOT / QUICK))

    @pytest.mark.matrix
    def test_doctests(self) -> None:
        report, examples = json.loads(run_here("doctests").splitlines()[-1])
        self.assertEqual(report, "")
        self.assertGreater(examples, 20)


# What no release of TensorFlow had.
NEW = (
    mpls.keras.load_model,
    mpls.keras.save_model,
    mpls.monitor.LossScaleCallback,
    mpls.monitor.LossScaleHook,
    mpls.monitor.Stuck,
    mpls.monitor.write_scalars,
)


def public_objects() -> Iterator[tuple[str, Any]]:
    for package in PUBLIC_PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            yield f"{package}.{name}", getattr(module, name)


def public_methods() -> Iterator[tuple[str, Any]]:
    """Public methods and properties that mpls itself defines, of public classes."""
    seen = set()
    for path, cls in public_objects():
        if not inspect.isclass(cls):
            continue
        for owner in (c for c in cls.__mro__ if c.__module__.split(".")[0] == "mpls"):
            for name, value in vars(owner).items():
                if name.startswith("_") or (owner, name) in seen:
                    continue
                seen.add((owner, name))
                if not isinstance(value, property | classmethod | staticmethod):
                    # On the class, what families define is a function.
                    value = getattr(owner, name)
                if isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value):
                    yield f"{path}: {owner.__qualname__}.{name}", value


def left_out(function: Any, doc: str) -> set[str]:
    """The parameters that a docstring has neither in a list nor in backticks; the linter sees what it has too many."""
    # A method that only calls that of the wrapped optimizer is documented by the framework.
    if re.match(r"`\w+` of the wrapped optimizer\b", doc):
        return set()
    names = set(inspect.signature(function).parameters) - {"self", "cls"}
    listed = re.findall(r"^ +((?:\*{0,2}[a-z_]+, )*\*{0,2}[a-z_]+):", doc, re.MULTILINE)
    said = {each.strip(" *") for line in listed for each in line.split(",")} | set(re.findall(r"`([a-z_]+)`", doc))
    return names - said


def stands_for(row: Name) -> Any:
    home, _, attribute = row.target.partition(":")
    return getattr(importlib.import_module(home), attribute, None)


class DocstringTest(unittest.TestCase):
    """Public docstrings tell all that there is to know."""

    @parameterized.expand(public_objects())
    def test_public_object(self, path: str, value: Any) -> None:
        constructor = value.__init__ if inspect.isclass(value) else value
        self.assertTrue(value.__doc__)
        # The site shows examples elsewhere as text.
        self.assertNotIn(">>>", value.__doc__.partition("Examples:")[0])
        if inspect.isfunction(constructor) and constructor.__module__.split(".")[0] == "mpls":
            self.assertEqual(left_out(constructor, value.__doc__), set())

    @parameterized.expand(public_objects())
    def test_says_what_it_reproduces(self, path: str, value: Any) -> None:
        if value in NEW:
            return
        text = re.split(r"\n\w+:\n", inspect.cleandoc(value.__doc__).partition("\nReproduces:\n")[2])[0]
        paths = [row.path for row in NAMES if row.target and stands_for(row) is value]
        self.assertTrue(any(f"`{recorded}`" in text for recorded in paths), f"none of {paths} is in: {text!r}")
        self.assertRegex(text, r"\b(TF|tf_keras|TensorFlow) \d\.\d+", "the releases that had it")

    @parameterized.expand(public_methods())
    def test_public_method(self, path: str, value: Any) -> None:
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        self.assertTrue(function.__doc__)
        self.assertNotIn(">>>", function.__doc__.partition("Examples:")[0])
        if not isinstance(value, property):
            self.assertEqual(left_out(function, function.__doc__), set())


def main(command: str, *arguments: str) -> None:
    if command == "blocks":
        run_blocks(pathlib.Path(*arguments))
    else:
        print(json.dumps(run_doctests()))


if __name__ == "__main__":
    main(*sys.argv[1:])
