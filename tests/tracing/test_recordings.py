"""Programs recorded on the releases that they were written for, beside what `mpls trace` records of them today."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

from mpls.comparing import compare, read_trace, text_of
from tests.clients.record import environment
from tests.processes import PACKAGE_ROOT, python_path, run_python

from .record import RECORDED, data_of


def trace(name: str, out: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["-m", "mpls", "trace", "--every", "1", *options, str(out), f"{name}.py"]
    settings = {**environment(), "PYTHONPATH": python_path(PACKAGE_ROOT)}
    return run_python(*command, folder=RECORDED[name].folder, environment=settings)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_is_of_that_release(name: str) -> None:
    found = read_trace(str(data_of(name)))
    assert found.environment["tensorflow"].startswith(RECORDED[name].release)
    assert not found.is_of_mpls
    assert found.ended_by is None
    assert all(step.loss is not None for step in found.steps) or name == "accumulate_train_step"


def test_there_is_no_recording_that_nothing_is_compared_with() -> None:
    assert {path.name for path in data_of("train").parent.iterdir()} == {data_of(name).name for name in RECORDED}


@pytest.mark.programs
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.default_run(
    "each value", by=lambda name: (RECORDED[name].release, len(RECORDED[name].options)), rest="full"
)
def test_today_is_the_same(tmp_path: pathlib.Path, name: str) -> None:
    about = RECORDED[name]
    out = tmp_path / "new.json"
    done = trace(name, out, *about.options)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    compared = compare(str(data_of(name)), str(out), about.tolerance)
    assert compared.first is None, text_of(compared)
    assert json.loads(out.read_text())["options"]["as_of"] == ("2.2" if "2.2" in about.options else None)


@pytest.mark.programs
def test_a_release_that_counts_skips_otherwise_is_found(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "new.json"
    assert trace("train", out).returncode == 0
    compared = compare(str(data_of("train")), str(out))
    assert compared.first is not None
    assert compared.first.quantity == "variables"
    # The step after the one that was skipped.
    assert [step.old.applied for step in compared.steps[: compared.first.at]] == [True, True, True, False]
    assert "try --as-of 2.2" in text_of(compared)
