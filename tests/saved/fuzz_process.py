"""A process that reads mutated files, seen from outside: its time, its memory, how it ends, what it leaves."""

from __future__ import annotations

import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

INSPECTION, FRAMEWORKS = "inspect", "frameworks"
ROOT = pathlib.Path(__file__).resolve().parents[2]
_STARTING = 120.0
_START = "import sys; sys.path += {paths!r}; from tests.saved import fuzz_worker; fuzz_worker.main({sort!r})"
# What it is killed for at once, in multiples of what is a failure.
_FAR_TOO_MUCH = 3


@dataclass(frozen=True)
class Limits:
    """What one case may take.

    Attributes:
        seconds: of time, if as many of computing went by: others may share the machine.
        memory: in bytes, of the whole process.
        watchdog: seconds after which the process is killed, if it has computed for `seconds` or hardly at all; where
            it competes with others, after four times as many.
        refused: seconds in which a file is refused.
        written: bytes that may be written, to temporary files too.
    """

    seconds: float = 10
    memory: int = 1500 << 20
    watchdog: float = 30
    refused: float = 10
    written: int = 256 << 20

    @classmethod
    def of_inspection(cls) -> Limits:
        return cls(seconds=10, memory=500 << 20, refused=2)


@dataclass
class Answer:
    """What came of a request: what the process says of it, and what was seen from outside."""

    outcome: str
    detail: str = ""
    trace: str = ""
    events: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)


class Process:
    """It runs until it is stopped, killed, or dead."""

    def __init__(self, sort: str, folder: pathlib.Path, modules: pathlib.Path) -> None:
        """Start one.

        Args:
            sort: `INSPECTION` or `FRAMEWORKS`.
            folder: for its own files; made anew.
            modules: where it finds modules that no file may have imported.
        """
        shutil.rmtree(folder, ignore_errors=True)
        self._working, temporary = folder / "working", folder / "a" / "b" / "c" / "temporary"
        self._working.mkdir(parents=True)
        temporary.mkdir(parents=True)
        self._errors = folder / "errors"
        environment = {**os.environ, "TMPDIR": str(temporary), "HOME": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}
        # It has the native threads that it needs on a machine of many.
        environment |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1"}
        code = _START.format(paths=[str(ROOT), str(modules)], sort=sort)
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._working,
                env=environment,
            )
        self.cases = 0
        self._buffer = b""
        if self._line(Limits(_STARTING, 1 << 40, _STARTING)) is None:
            self.stop()
            raise RuntimeError(f"it did not start: {self._last_errors()}")
        self._at_start = self._memory("VmRSS")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        if self.is_alive:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def growth(self) -> int:
        """Return by how many bytes it has grown."""
        return self._memory("VmRSS") - self._at_start

    def ask(self, request: dict[str, Any], limits: Limits) -> Answer:
        """Send a request, wait for the answer, and judge what it took."""
        self.cases += 1
        self._forget_peak()
        started, computing, written = time.monotonic(), self._computing(), self._written()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        line = self._line(limits)
        took, peak = time.monotonic() - started, self._memory("VmHWM")
        if line is None:
            return self._without_answer(took, limits)
        answer = Answer(**json.loads(line))
        computed = min(took, self._computing() - computing)
        allowed = limits.refused if answer.outcome == "refused" else limits.seconds
        if computed > allowed:
            answer.causes.append(f"too slow: {computed:.1f} s, and {answer.outcome}")
        if (wrote := self._written() - written) > limits.written:
            answer.causes.append(f"wrote too much: {wrote >> 20} MB, and {answer.outcome}")
        if peak > limits.memory:
            answer.causes.append(f"too much memory: {peak >> 20} MB, and {answer.outcome}")
            # What it keeps would count for the next ones too.
            self.stop()
        return answer

    def _without_answer(self, took: float, limits: Limits) -> Answer:
        if self.is_alive and self._memory("VmRSS") > limits.memory * _FAR_TOO_MUCH:
            cause = f"too much memory: more than {self._memory('VmRSS') >> 20} MB, and killed"
        elif self.is_alive and took >= limits.watchdog:
            cause = f"too slow: killed after {took:.0f} s"
            # It says where it is.
            self._process.send_signal(signal.SIGABRT)
            self._process.wait(10)
        else:
            code = self._process.wait()
            cause = f"crashed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        self.stop()
        return Answer("died", causes=[cause], trace=self._last_errors())

    def _line(self, limits: Limits) -> bytes | None:
        """Return the next line of its output; None if it ends, is silent too long or takes far too much memory."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        started, computing = time.monotonic(), self._computing()
        while b"\n" not in self._buffer:
            took = time.monotonic() - started
            if took > limits.watchdog:
                computed = self._computing() - computing
                if computed > limits.seconds or computed < took / 100 or took > 4 * limits.watchdog:
                    return None
            if self._memory("VmRSS") > limits.memory * _FAR_TOO_MUCH:
                return None
            ready, _, _ = select.select([descriptor], [], [], 0.05)
            if ready:
                content = os.read(descriptor, 1 << 16)
                if not content:
                    return None
                self._buffer += content
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _last_errors(self) -> str:
        lines = [line[:200] for line in self._errors.read_text("utf-8", "replace").splitlines() if line.strip()]
        start = max(
            (number for number, line in enumerate(lines) if "most recent call first" in line), default=len(lines) - 5
        )
        return "\n".join(lines[max(start - 2, 0) : start + 20])

    def left_behind(self) -> list[pathlib.Path]:
        """Return what is in its working folder, which should be nothing."""
        return sorted(self._working.rglob("*"))

    def clean(self) -> None:
        for path in self._working.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _memory(self, key: str) -> int:
        try:
            status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return 0
        found = [line.split()[1] for line in status.splitlines() if line.startswith(f"{key}:")]
        return int(found[0]) << 10 if found else 0

    def _written(self) -> int:
        """Return how many bytes it has written so far; where the system does not say, none."""
        try:
            lines = pathlib.Path(f"/proc/{self._process.pid}/io").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("wchar:")), 0)

    def _forget_peak(self) -> None:
        try:
            pathlib.Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        except OSError:
            # The peak is that of all cases so far, which is a failure just as well, once.
            return

    def _computing(self) -> float:
        """Return the seconds that it has computed; where the system does not say, those that have gone by."""
        try:
            fields = pathlib.Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
