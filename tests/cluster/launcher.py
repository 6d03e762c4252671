"""Starts the programs of this folder as clusters, with the launcher of the examples, and sees that none is left."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import sys
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from tests.processes import PACKAGE_ROOT, ROOT, load_file, python_path

FOLDER = pathlib.Path(__file__).resolve().parent
EXAMPLES = ROOT / "examples"
# Tells the processes of a launch, and all that they start, from all others.
MARKER = "MPLS_TEST_LAUNCH"

Messages = dict[str, list[dict[str, Any]]]
WORKERS = ("worker:0", "worker:1")

CLUSTER = load_file(EXAMPLES / "_cluster.py")


def environment(marker: str = "", needs: Collection[str] = ()) -> dict[str, str]:
    """Return what processes need beside the environment that they inherit; `needs` as in `tests.processes`."""
    path = python_path(PACKAGE_ROOT, EXAMPLES, ROOT, needs=needs)
    return {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", MARKER: marker}


def launch(program: str, jobs: Mapping[str, int], *arguments: str, deadline: float = 240, **kwargs: Any) -> Messages:
    """Run a program of this folder as a cluster; return the messages of each task.

    Raises:
        ClusterError: a process failed, or the deadline has passed; with the output of each.
        AssertionError: a process is left.
    """
    marker = uuid.uuid4().hex
    command = [sys.executable, str(FOLDER / program), *arguments]
    try:
        messages = CLUSTER.run(command, jobs, deadline=deadline, environment=environment(marker), **kwargs)
    finally:
        left = processes_of(marker)
        assert not left, f"{program} has left processes behind: {commands_of(left)}"
    return {str(task): said for task, said in messages.items()}


def said(messages: Messages, case: str, tasks: Sequence[str] = WORKERS) -> list[dict[str, Any]]:
    """Return what each of some tasks said of a case."""
    return [next(message for message in messages[task] if message["case"] == case) for task in tasks]


def assert_skips(steps: list[dict[str, Any]], applied: Collection[int], scales: Iterable[tuple[int, int]]) -> None:
    """Require these scales and counts of finite steps, and that steps which are not applied change nothing else."""
    assert [(step["scale"], step["good_steps"]) for step in steps] == list(scales)
    states = [without_scale(step) for step in steps]
    for number in set(range(len(steps))) - set(applied):
        assert states[number] == states[number - 1], f"step {number}"


def without_scale(step: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name not in ("scale", "good_steps")}


def processes_of(marker: str) -> list[int]:
    """Return the processes of a launch that are alive, where the system shows environments."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue  # Gone meanwhile, or somebody else's.
        if wanted in variables:
            found.append(int(path.parent.name))
    return found


def commands_of(processes: Iterable[int]) -> dict[int, str]:
    """Return what each of these processes runs; nothing for one that has ended meanwhile."""
    commands = {}
    for process in processes:
        with contextlib.suppress(OSError):
            commands[process] = pathlib.Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    return commands


def once(function: Callable[[], Any]) -> Callable[[], Any]:
    """Have a function called once for all tests of a file; failures are kept too."""

    @functools.cache
    def result() -> tuple[Any, str]:
        try:
            return function(), ""
        except (CLUSTER.ClusterError, AssertionError) as error:
            return None, str(error)

    def outcome() -> Any:
        messages, failure = result()
        assert not failure, failure
        return messages

    return outcome
