"""The examples of several machines: one command each starts all processes, trains, and shows a table."""

from __future__ import annotations

import os
import pathlib
import re
import tempfile
import uuid
from typing import Any

import pytest

from tests.processes import run_python

from .launcher import EXAMPLES, environment, processes_of

pytestmark = pytest.mark.programs

COLUMNS = ["process", "final scale", "skipped steps", "test accuracy", "weights", "seconds"]
# Each script with the processes that its table shows.
SCRIPTS = (
    ("multi_worker", ("worker:0", "worker:1")),
    ("between_graph", ("worker:0", "worker:1")),
    ("parameter_server", ("chief:0",)),
)


def run_script(script: pathlib.Path, *arguments: str) -> dict[str, Any]:
    """Return the exit status of a script, its streams, and what it has left: processes and files."""
    marker = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        settings = {**os.environ, **environment(marker, ["matplotlib", "sklearn"])}
        process = run_python(str(script), *arguments, folder=folder, environment=settings)
        files = os.listdir(folder)
    return {
        "status": process.returncode,
        "stdout": process.stdout,
        "stderr": process.stderr,
        "processes": processes_of(marker),
        "files": files,
    }


def table_of(run: dict[str, Any]) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Return the columns, and the rows by process."""
    lines = [line for line in run["stdout"].splitlines() if " | " in line]
    header, *rows = ([cell.strip() for cell in line.split(" | ")] for line in lines)
    return header, {row[0]: dict(zip(header, row, strict=True)) for row in rows}


@pytest.mark.parametrize(("script", "processes"), SCRIPTS)
@pytest.mark.default_run("one case", rest="full")
def test_quick_run(script: str, processes: tuple[str, ...]) -> None:
    run = run_script(EXAMPLES / f"{script}.py", "--quick")
    assert run["status"] == 0, run["stderr"]
    header, rows = table_of(run)
    assert header == COLUMNS
    assert tuple(rows) == processes
    for row in rows.values():
        # One overflow, from 2**15, on one worker.
        assert (row["final scale"], row["skipped steps"]) == ("16384", "1")
        assert re.fullmatch("[0-9a-f]{8}", row["weights"])
    assert len({row["weights"] for row in rows.values()}) == 1
    assert re.search(rf"{script}: 100%.* 40/40 .*scale=", run["stderr"])
    assert "Warning" not in run["stderr"]
    assert (run["processes"], run["files"]) == ([], [])
