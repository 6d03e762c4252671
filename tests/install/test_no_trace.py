"""`uninstall` undoes all that `install` did, whatever two options it had, in processes of each kind."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

KINDS = ("tf2", "keras2", "v1")
PROGRAM = pathlib.Path(__file__).with_name("trace_program.py")


@functools.cache
def processes() -> dict[str, subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_USE_LEGACY_KERAS", None)
    return {
        kind: subprocess.Popen([sys.executable, str(PROGRAM), kind], stdout=subprocess.PIPE, text=True, env=environment)
        for kind in KINDS
    }


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left(kind: str) -> None:
    output, _ = processes()[kind].communicate(timeout=300)
    found: dict[str, Any] = json.loads(output.strip().split("\n")[-1])
    assert found["seen"] > 10_000
    assert found["left"] == []
