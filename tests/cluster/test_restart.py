"""A cluster of which one process is killed, and the same job, which goes on from what it has saved.

The others end with an error of TensorFlow. The coordinator of parameter servers waits for another worker instead.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from .launcher import CLUSTER, FOLDER, environment

pytestmark = pytest.mark.programs

TASKS = {"workers": ("worker:0", "worker:1"), "servers": ("chief:0", "worker:0", "ps:0")}
STEPS = 8
# In seconds. TensorFlow notices that a process is gone after 10 or so.
MOST = 200


class Job:
    """The processes of a cluster that train, all of which end with the context."""

    def __init__(self, strategy: str, family: str, folder: pathlib.Path) -> None:
        self._folder = folder
        self._tasks = [CLUSTER.Task.parse(each) for each in TASKS[strategy]]
        self._command = [sys.executable, str(FOLDER / "restarted_training.py"), strategy, family, str(folder)]
        self.processes: dict[str, subprocess.Popen[str]] = {}

    @contextlib.contextmanager
    def running(self, life: str) -> Iterator[Callable[[str], None]]:
        """Start all processes; yield a function that starts one of them anew, at the same address."""
        ports = CLUSTER.free_ports(len(self._tasks))
        cluster: dict[str, list[str]] = {}
        for task, port in zip(self._tasks, ports, strict=True):
            cluster.setdefault(task.job, []).append(f"127.0.0.1:{port}")
        with contextlib.ExitStack() as stack:

            def start(name: str) -> None:
                task = CLUSTER.Task.parse(name)
                config = json.dumps({"cluster": cluster, "task": {"type": task.job, "index": task.index}})
                variables = {**os.environ, **environment(), "TF_CONFIG": config}
                files = [stack.enter_context(self._file(life, task, end).open("w")) for end in ("out", "err")]
                process = subprocess.Popen(self._command, env=variables, stdout=files[0], stderr=files[1], text=True)
                stack.callback(process.wait)
                stack.callback(process.kill)
                self.processes[name] = process

            for task in self._tasks:
                start(str(task))
            yield start

    def _file(self, life: str, task: Any, end: str) -> pathlib.Path:
        return self._folder / f"{life}.{task.job}.{task.index}.{end}"

    def seen(self, life: str) -> list[dict[str, Any]]:
        """Return what the first task has seen."""
        lines = self._file(life, self._tasks[0], "out").read_text().splitlines(keepends=True)
        # The last line may be half a line.
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def wait_for(self, life: str, states: int) -> None:
        ends_at = time.monotonic() + MOST
        while len(self.seen(life)) < states:
            assert time.monotonic() < ends_at, self.errors(life)
            assert self.processes[str(self._tasks[0])].poll() is None, self.errors(life)
            time.sleep(0.02)

    def end_of_first(self) -> int:
        return self.processes[str(self._tasks[0])].wait(MOST)

    def errors(self, life: str) -> str:
        return self._file(life, self._tasks[0], "err").read_text()[-3000:]


CASES = [
    *(("workers", family, task) for family, task in (("new", "worker:1"), ("keras3", "worker:0"), ("v1", "worker:1"))),
    *(("servers", family, "ps:0") for family in ("v1", "keras3_apply")),
]


@pytest.mark.long
@pytest.mark.parametrize(("strategy", "family", "killed"), CASES)
def test_a_killed_process(strategy: str, family: str, killed: str, tmp_path: pathlib.Path) -> None:
    expected = _uninterrupted(strategy, family, tmp_path)
    job = Job(strategy, family, tmp_path)
    with job.running("first"):
        job.wait_for("first", 4)
        job.processes[killed].kill()
        status = job.end_of_first()
        if killed != TASKS[strategy][0]:
            assert status == 1
            assert "UnavailableError" in job.errors("first")
    with job.running("second"):
        assert job.end_of_first() == 0, job.errors("second")
    _check(expected, job.seen("first"), job.seen("second"))


@pytest.mark.parametrize("family", ["v1", "keras3_apply"])
@pytest.mark.default_run("one case", rest="full")
def test_a_killed_worker_of_a_parameter_server(family: str, tmp_path: pathlib.Path) -> None:
    """Killed between two steps, it is replaced; killed in a step, what it has done of the step is lost."""
    expected = _uninterrupted("servers", family, tmp_path)
    waits = tmp_path / "waits"
    waits.write_text("4")
    job = Job("servers", family, tmp_path)
    with job.running("first") as start:
        job.wait_for("first", 5)
        job.processes["worker:0"].kill()
        start("worker:0")
        waits.unlink()
        job.wait_for("first", 7)
        job.processes["worker:0"].kill()
    with job.running("second"):
        assert job.end_of_first() == 0, job.errors("second")
    _check(expected, job.seen("first"), job.seen("second"))


def _uninterrupted(strategy: str, family: str, folder: pathlib.Path) -> dict[int, Any]:
    """Return the state after each step of a job of which no process is killed."""
    whole = folder / "whole"
    whole.mkdir()
    job = Job(strategy, family, whole)
    with job.running("only"):
        assert job.end_of_first() == 0, job.errors("only")
    expected = {state["step"]: state for state in job.seen("only")}
    assert len(expected) == STEPS + 1
    return expected


def _check(expected: dict[int, Any], first: Sequence[Any], second: Sequence[Any]) -> None:
    assert [state["step"] for state in second] == list(range(second[0]["step"], STEPS + 1))
    # What was seen is saved before the next step; one more may be, which was not said any more.
    assert second[0]["step"] in (first[-1]["step"] - 1, first[-1]["step"], first[-1]["step"] + 1)
    for state in (*first, *second):
        assert state == {name: value for name, value in expected[state["step"]].items() if name in state}
