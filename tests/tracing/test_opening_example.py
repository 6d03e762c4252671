"""docs/proof.md has an example: each of its commands runs, and prints what stands there."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from mpls.documentation import sections
from tests.clients.record import environment
from tests.processes import PACKAGE_ROOT, python_path

from .record import HERE, data_of

ANCHOR = "a-complete-example"
# Run on an old machine; what it has recorded there is in `data`.
ON_OLD_MACHINE = "python mpls_recorder.py old.json train.py"


def blocks(language: str) -> list[str]:
    (section,) = [each for each in sections() if each.anchor == ANCHOR]
    return re.findall(rf"^```{language}\n(.*?)^```", "\n".join(section.lines), re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    return [line.partition("  #")[0] for block in blocks("bash") for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("example")
    (path / "train.py").write_text(blocks("python")[0])
    (path / "test_training.py").write_text(blocks("python")[1])
    shutil.copy(data_of("train"), path / "old.json")
    return path


def run(folder: pathlib.Path, command: str) -> subprocess.CompletedProcess[str]:
    prologue = 'mpls() { "$PYTHON" -m mpls "$@"; }\npython() { "$PYTHON" "$@"; }\n'
    settings = {**environment(), "PYTHON": sys.executable, "PYTHONPATH": python_path(PACKAGE_ROOT)}
    return subprocess.run(
        ["bash", "-euc", prologue + command], cwd=folder, env=settings, capture_output=True, text=True
    )


def test_the_program_is_the_one_that_was_recorded() -> None:
    assert blocks("python")[0] == (HERE / "programs" / "train.py").read_text()


@pytest.mark.programs
def test_each_command_does_what_stands_there(folder: pathlib.Path) -> None:
    said = []
    assert ON_OLD_MACHINE in commands()
    for command in commands():
        if command == ON_OLD_MACHINE:
            assert (folder / "mpls_recorder.py").read_text().startswith('"""Records what')
            continue
        done = run(folder, command)
        if command.startswith("mpls compare"):
            said.append((done.returncode, done.stdout))
        else:
            assert done.returncode == 0, done.stderr
        if command == "mpls migrate --as-of 2.2 train.py":
            assert done.stdout == blocks("diff")[0]
    # They differ; then they are the same up to rounding.
    assert [status for status, _ in said] == [1, 3, 3]
    for (_, printed), shown in zip(said, blocks("text"), strict=True):
        # The last digits are those of a machine.
        assert _without_digits(printed) == _without_digits(shown)


def _without_digits(text: str) -> str:
    text = re.sub(r"(TensorFlow 2\.)(1[6-9]|2\d)[-.\da-z]*, mpls [\d.a-z+]+", r"\1x, mpls x", text)
    text = re.sub(r"\d(\.\d)?e-\d+, relatively", "x, relatively", text)
    return re.sub(r"(\d\.\d{3})\d+", r"\1", re.sub(r" +", " ", text))
