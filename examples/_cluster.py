"""What the examples of several machines share: the processes of a cluster, here all on one machine, and what they show.

A script that is started starts itself again once for each task of the cluster, with `--task`. Each of these processes
is told by `TF_CONFIG` where the others are, as on real machines, and says what it has done in lines of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

ATTEMPTS = 4
QUICK_STEPS = 40
# TensorFlow's words for an address that is in use; it has no error class for it.
PORT_TAKEN = "Could not start gRPC server"
GREETINGS = ("I0000 ", "WARNING: All log messages before absl")

Message = dict[str, Any]


class Task(NamedTuple):
    """A process of the cluster: its job, such as `worker` or `ps`, and its number in that job."""

    job: str
    index: int

    @classmethod
    def parse(cls, text: str) -> Task:
        """Read what `str` writes."""
        job, _, index = text.partition(":")
        return cls(job, int(index))

    def __str__(self) -> str:
        return f"{self.job}:{self.index}"


class ClusterError(Exception):
    """A process of the cluster failed, or all together took too long; the text has the output of each."""


# --- in each process of the cluster -----------------------------------------------------------------


def say(**fields: Any) -> None:
    """Send a message to the process that started the cluster."""
    print(json.dumps(fields), flush=True)


@contextlib.contextmanager
def member() -> Iterator[None]:
    """Make this process one of the cluster: do the work in the context, which does not return.

    The process ends with the one that started it, even if that was killed. It does not wait for threads of
    TensorFlow, which may wait for processes that have ended already.
    """
    # Sent before the process is ended for taking too long.
    faulthandler.register(signal.SIGUSR1)
    parent = os.getppid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    status = 1
    try:
        yield
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            # A process that was killed loses its children before the last of its threads closes its pipes.
            orphaned = os.getppid() != parent or bool(select.select([sys.stdin], [], [], 0)[0])
        except BrokenPipeError:
            orphaned = True
        if orphaned:
            # Before the thread had its turn, and nobody is left who would end what this process has started.
            _end_with_parent()
        os._exit(status)


def _end_with_parent() -> None:
    # Nothing is ever written to it: it ends when the other end is closed.
    os.read(sys.stdin.fileno(), 1)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


# --- starting and ending the processes ----------------------------------------------------------------


class _Process:
    """A process of the cluster, seen from the one that started it."""

    def __init__(self, task: Task, command: Sequence[str], environment: Mapping[str, str], events: Any) -> None:
        self.task = task
        self.messages: list[Message] = []
        self._events = events
        self._other_lines: list[str] = []
        # A file, not a pipe: somebody would have to read that all the time.
        self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._popen = subprocess.Popen(
            [*command, "--task", str(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **environment},
            start_new_session=True,  # to be ended together with all that it starts
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _read(self) -> None:
        for line in self._popen.stdout:
            if line.startswith("{"):
                self._events.put((self, json.loads(line)))
            else:
                self._other_lines.append(line)

    def _watch(self) -> None:
        # Without collecting it, so that its number stays its own until `end`, which may come first.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        # What it has started would keep its output open.
        self.send(signal.SIGKILL)
        self._reader.join()
        self._events.put((self, None))

    def send(self, number: int) -> None:
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, number)

    def end(self) -> int:
        """End what is left of it and of what it started; return its exit status, negative for a signal."""
        self.send(signal.SIGKILL)
        status = self._popen.wait()
        self._reader.join()
        self._popen.stdin.close()
        self._popen.stdout.close()
        if not self._stderr.closed:
            self._stderr.seek(0)
            self._other_lines += self._stderr
            self._stderr.close()
        return status

    def output(self) -> str:
        """Return what it has printed, once it has ended, besides messages and the greetings of TensorFlow."""
        return "".join(line for line in self._other_lines if not line.startswith(GREETINGS))


class Cluster:
    """Processes that know each other by `TF_CONFIG`; all of them end with the context.

    Args:
        command: what starts a process; `--task job:index` is added.
        jobs: how many tasks of each job there are.
        ports: the port of each.
        environment: environment variables beside those of this process.
    """

    def __init__(
        self, command: Sequence[str], jobs: Mapping[str, int], ports: Sequence[int], environment: Mapping[str, str]
    ) -> None:
        self._tasks = [Task(job, index) for job, number in jobs.items() for index in range(number)]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self._spec: dict[str, list[str]] = {job: [] for job in jobs}
        for task, address in zip(self._tasks, addresses, strict=True):
            self._spec[task.job].append(address)
        self._command = command
        self._environment = environment
        self._events: Any = queue.Queue()
        self.processes: list[_Process] = []

    def __enter__(self) -> Cluster:
        try:
            for task in self._tasks:
                config = json.dumps({"cluster": self._spec, "task": {"type": task.job, "index": task.index}})
                environment = {**self._environment, "TF_CONFIG": config}
                self.processes.append(_Process(task, self._command, environment, self._events))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.end()

    def wait(self, seconds: float, serving: Sequence[str], on_message: Callable[[Task, Message], None]) -> None:
        """Wait until all have done their work.

        Args:
            seconds: how long at most.
            serving: jobs whose tasks run until the others have ended.
            on_message: called with each message.

        Raises:
            ClusterError: one ended with another status than 0, or one that serves ended at all, or time is up.
        """
        deadline = time.monotonic() + seconds
        working = {process for process in self.processes if process.task.job not in serving}
        while working:
            try:
                process, message = self._events.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                self._show_where_they_are()
                raise self._error(f"not done after {seconds:.0f} seconds") from None
            if message is not None:
                process.messages.append(message)
                on_message(process.task, message)
                continue
            status = process.end()
            if status or process not in working:
                raise self._error(f"{process.task} ended with {_status_text(status)}", process)
            working.remove(process)

    def _show_where_they_are(self) -> None:
        for process in self.processes:
            process.send(signal.SIGUSR1)
        time.sleep(1)

    def _error(self, what: str, culprit: _Process | None = None) -> ClusterError:
        for process in self.processes:
            process.end()
        # The end of a long text is what one sees.
        in_order = sorted(self.processes, key=lambda process: process is culprit)
        outputs = (f"--- {process.task} ---\n{process.output()}" for process in in_order)
        return ClusterError("\n".join([f"{what}; all processes have been ended", *outputs]))


def _status_text(status: int) -> str:
    return f"status {status}" if status >= 0 else signal.Signals(-status).name


def free_ports(number: int) -> list[int]:
    """Return ports that nothing listens on at the moment."""
    with contextlib.ExitStack() as stack:
        # All at once, so that no two are the same.
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("", 0))
        return [each.getsockname()[1] for each in sockets]


def run(
    command: Sequence[str],
    jobs: Mapping[str, int],
    *,
    deadline: float,
    serving: Sequence[str] = ("ps",),
    on_message: Callable[[Task, Message], None] = lambda *_: None,
    environment: Mapping[str, str] | None = None,
    ports: Callable[[int], list[int]] = free_ports,
) -> dict[Task, list[Message]]:
    """Run a cluster until its work is done, and leave no process behind.

    Args:
        command: what starts a process; `--task job:index` is added.
        jobs: how many tasks of each job there are.
        deadline: seconds after which all are ended.
        serving: jobs whose tasks run until the others have ended.
        on_message: called with each message, in this thread.
        environment: environment variables beside those of this process.
        ports: what finds free ports. Another process may take one before it is used; then all begins anew.

    Returns:
        The messages of each task.

    Raises:
        ClusterError: a process failed, or the deadline has passed.
    """
    ends_at = time.monotonic() + deadline
    for attempt in range(1, ATTEMPTS + 1):
        with Cluster(command, jobs, ports(sum(jobs.values())), environment or {}) as cluster:
            try:
                cluster.wait(ends_at - time.monotonic(), serving, on_message)
            except ClusterError as error:
                if PORT_TAKEN not in str(error) or attempt == ATTEMPTS:
                    raise
            else:
                return {process.task: process.messages for process in cluster.processes}
    raise AssertionError


# --- what the user sees -------------------------------------------------------------------------------


class Options(NamedTuple):
    """What the user asked for; `task` is None in the process that the user started."""

    steps: int
    deadline: float
    task: Task | None

    @property
    def damaged_step(self) -> int:
        """The step, counted from 0, in which the examples damage a batch."""
        return self.steps // 2


class Result(NamedTuple):
    """What a process has in the end: numbers, and the weights as it sees them."""

    scale: float
    skipped: int
    accuracy: float
    weights: Sequence[np.ndarray]
    seconds: float

    def cells(self) -> dict[str, str]:
        """Return the row of the table, by column."""
        return {
            "final scale": f"{self.scale:g}",
            "skipped steps": f"{self.skipped}",
            "test accuracy": f"{self.accuracy:.1%}",
            "weights": checksum(self.weights),
            "seconds": f"{self.seconds:.1f}",
        }


def checksum(weights: Iterable[np.ndarray]) -> str:
    """Return a checksum of the bytes of all weights."""
    value = 0
    for array in weights:
        value = zlib.crc32(array.tobytes(), value)
    return f"{value:08x}"


def damaged(images: Any) -> np.ndarray:
    """Return the images with an infinite pixel in the first."""
    copy = np.array(images)
    copy[0, 0] = np.inf
    return copy


def main(
    script: str,
    description: str,
    roles: Mapping[str, Callable[[Options], None]],
    jobs: Mapping[str, int],
    title: str,
    *,
    serving: Sequence[str] = ("ps",),
    steps: int = 1500,
) -> None:
    """Start the cluster, or, in a process that was started for a task, do what it is there for.

    Args:
        script: the file that is run in each process.
        description: what it does.
        roles: for each job, what its tasks do. They say `step=number, scale=number` after each step, and
            `result=cells` at the end.
        jobs: for each job, how many tasks there are.
        title: what the table is about.
        serving: jobs whose tasks run until the others have ended.
        steps: how many there are by default.
    """
    options = command_line(description, steps=steps, quick=QUICK_STEPS)
    if options.task is None:
        show([sys.executable, script, "--steps", str(options.steps)], jobs, options, title, serving)
        return
    with member():
        roles[options.task.job](options)


def command_line(description: str, *, steps: int, quick: int, arguments: Sequence[str] | None = None) -> Options:
    """Read the arguments, or print what is wrong with them and exit with status 2.

    Args:
        description: what the script does, its first line for the help.
        steps: the default number of steps.
        quick: the number of steps of `--quick`.
        arguments: the arguments; by default those of the process.
    """
    parser = argparse.ArgumentParser(
        description=description.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=_integer_from(3), default=steps, help="training steps, at least 3")
    length.add_argument(
        "--quick",
        dest="steps",
        action="store_const",
        const=quick,
        default=argparse.SUPPRESS,
        help=f"only {quick} steps: everything runs, nothing is learned",
    )
    parser.add_argument(
        "--deadline", type=_integer_from(1), default=300, help="seconds after which all processes are ended"
    )
    parser.add_argument("--task", type=Task.parse, help=argparse.SUPPRESS)
    return Options(**vars(parser.parse_args(arguments)))


def _integer_from(minimum: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if not minimum <= number < 2**31:
            raise argparse.ArgumentTypeError(f"must be a whole number from {minimum} to {2**31 - 1}; got {text!r}")
        return number

    return integer


def show(command: Sequence[str], jobs: Mapping[str, int], options: Options, title: str, serving: Sequence[str]) -> None:
    """Run a cluster, with a progress bar and a table at the end; exit if something goes wrong.

    Args:
        command: as `run` takes it; its second part is the script.
        jobs: as `main` takes it.
        options: what the user asked for.
        title: as `main` takes it.
        serving: as `main` takes it.
    """
    script = Path(command[1])
    # The processes would compete for the memory of one GPU.
    environment = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "-1")}
    done: dict[Task, int] = {}
    results: dict[Task, dict[str, str]] = {}
    with tqdm(total=options.steps, desc=script.stem, unit="step", mininterval=0.5) as bar:

        def on_message(task: Task, message: Message) -> None:
            if "step" in message:
                done[task] = message["step"]
                bar.update(max(0, min(done.values()) - bar.n))
                bar.set_postfix(scale=f"{message['scale']:g}", refresh=False)
            else:
                results[task] = message["result"]

        try:
            run(
                command,
                jobs,
                deadline=options.deadline,
                serving=serving,
                on_message=on_message,
                environment=environment,
            )
        except ClusterError as error:
            bar.close()
            sys.exit(f"{script.name}: {error}")
        except KeyboardInterrupt:
            bar.close()
            print(f"{script.name}: interrupted; all processes have been ended", file=sys.stderr)
            sys.exit(130)
    print(f"\n{title}, {options.steps} steps\n\n{table(results)}\n")
    if len({result["weights"] for result in results.values()}) > 1:
        sys.exit("The processes do not see the same weights.")


def table(results: Mapping[Task, Mapping[str, str]]) -> str:
    """Return the results as rows of text."""
    columns = list(next(iter(results.values())))
    rows = [["process", *columns], *([str(task), *results[task].values()] for task in sorted(results))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])
