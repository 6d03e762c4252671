"""`uninstall` undoes all that `install` did, whatever two options it had, in processes of each kind."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.processes import ROOT, process_environment

KINDS = ("tf2", "keras2", "v1")
PROGRAM = pathlib.Path(__file__).with_name("trace_program.py")


def run(kind: str) -> dict[str, Any]:
    inherited = process_environment(ROOT)
    inherited.pop("TF_USE_LEGACY_KERAS", None)
    command = [sys.executable, str(PROGRAM), kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=inherited, timeout=300, check=True)
    return json.loads(done.stdout.strip().split("\n")[-1])


@pytest.mark.programs
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.default_run("one case", rest="full")
def test_nothing_is_left(kind: str) -> None:
    found = run(kind)
    assert found["seen"] > 10_000
    assert found["left"] == []
