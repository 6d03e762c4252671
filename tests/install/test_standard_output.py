"""Commands that print, where standard output is closed, full, or a pipe whose reader has gone."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.comparing.traces import changed, content
from tests.processes import process_environment

# Each with the exit status that it has by itself.
COMMANDS: dict[str, tuple[list[str], int]] = {
    "compare": (["compare", "old.json", "new.json"], 1),
    "migrate": (["migrate", "old.py"], 0),
    "migrate --check": (["migrate", "--check", "old.py"], 1),
    "migrate -": (["migrate", "--write", "-"], 0),
    "plot": (["plot", "old.json", "--force"], 0),
    "trace": (["trace", "--recorder"], 0),
    "docs": (["docs", "proof"], 0),
    "doctor": (["doctor", "old.py"], 0),
    "inspect": (["inspect", "config.json"], 1),
}
OLD = "import tensorflow as tf\nscale = tf.compat.v1.mixed_precision.FixedLossScale(8)\n"
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def run(folder: pathlib.Path, name: str, where: str, **variables: str) -> tuple[int, str]:
    """Run a command by a shell, and return its exit status and what it says on standard error."""
    arguments = COMMANDS[name][0]
    (folder / "old.json").write_text(json.dumps(content()))
    (folder / "new.json").write_text(json.dumps(changed(content(), 2, scale=4.0)))
    (folder / "old.py").write_text(OLD)
    config: dict[str, Any] = {"dynamic": True, "initial_scale": 8.0, "dynamic_growth_steps": 2}
    (folder / "config.json").write_text(json.dumps({"class_name": "LossScaleOptimizer", "config": config}))
    command = f"{sys.executable} -m mpls {' '.join(arguments)} < old.py"
    # The reader ends before the command begins.
    script = (
        f"(sleep 0.1; {command}; echo $? > status) | true"
        if where == "gone"
        else f"{command} {where}; echo $? > status"
    )
    settings = process_environment(needs=["matplotlib"] if name.startswith("plot") else [], **variables)
    done = subprocess.run(["sh", "-c", script], cwd=folder, env=settings, capture_output=True, text=True)
    return int((folder / "status").read_text()), done.stderr


def check(folder: pathlib.Path, name: str, where: str, **variables: str) -> None:
    status, said = run(folder, name, where, **variables)
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    command = f"mpls {name.split()[0]}: "
    if where == "gone":
        assert status == COMMANDS[name][1], said
        assert "standard output" not in said
        return
    why = "is closed" if where == ">&-" else "cannot be written: No space left on device"
    assert (status, said.splitlines()[-1]) == (2, f"{command}standard output {why}")


@pytest.mark.programs
@pytest.mark.parametrize("where", ["gone", ">&-", "> /dev/full"])
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.default_run("each value", rest="full")
def test_it_is_a_sentence_and_a_status(tmp_path: pathlib.Path, name: str, where: str) -> None:
    assert run(tmp_path, name, "> out")[0] == COMMANDS[name][1]
    check(tmp_path, name, where)


def test_compare_keeps_its_status_before_head(tmp_path: pathlib.Path) -> None:
    check(tmp_path, "compare", "gone", **UNBUFFERED)
