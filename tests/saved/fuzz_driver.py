"""Has processes make and read mutated files, and sees which crash and which hang.

`python -m tests.saved.fuzz_driver load_model/config 17` runs one case again, and `--keep FOLDER` keeps its file.
`python -m tests.saved.fuzz_driver --count 2000` runs many of all kinds.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.saved.fuzz_cases import KINDS, spread

HANGS = 60.0
_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Frameworks keep something of every model.
_CASES_OF_A_PROCESS = 500
# More say nothing new, and each that crashes takes a new process.
_MOST_FAILURES = 100
# How native code says that it was given no more memory, and ends.
_NO_MEMORY = ("bad_alloc", "out of memory", "Cannot allocate memory", "failed to allocate", "MemoryError")

# Where both Kerases go on for ever if layers of a config wait for each other.
_ENDLESS = ("in reconstruct_from_config", "in functional_from_config")


@dataclass(frozen=True)
class Failure:
    """What should not have happened: of which case, what was seen, what had been changed, and evidence."""

    kind: str
    seed: int
    causes: tuple[str, ...]
    what: str
    evidence: str

    def __str__(self) -> str:
        lines = [f"{self.kind}, seed {self.seed}: {self.what:.300}", *self.causes, *self.evidence.splitlines()]
        return "\n  ".join([*lines, f"alone: python -m tests.saved.fuzz_driver {self.kind} {self.seed}"])


@dataclass
class Results:
    """What came of cases: failures, and the kind and outcome of each."""

    failures: list[Failure] = field(default_factory=list)
    outcomes: list[tuple[str, str]] = field(default_factory=list)


class Lane:
    """One process at a time, in a temporary folder that is there in a block.

    Args:
        hangs: the seconds after which a case hangs.
        of_today: the folder for what today's frameworks write; None for one of its own.
        tells: whether to print failures as they come.
    """

    def __init__(self, hangs: float = HANGS, of_today: pathlib.Path | None = None, tells: bool = False) -> None:
        self.results = Results()
        self._hangs, self._of_today, self._tells = hangs, of_today, tells
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer, self._cases = b"", 0

    def __enter__(self) -> Lane:
        self._folder = tempfile.TemporaryDirectory(prefix="mpls-fuzz-")
        self.base = pathlib.Path(self._folder.name).resolve() / "base"
        self._of_today = self._of_today or self.base.parent / "today"
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.cleanup()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            # This closes the pipes.
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._cases < _CASES_OF_A_PROCESS:
            return self._process
        self._stop()
        self._buffer, self._cases = b"", 0
        shutil.rmtree(self.base, ignore_errors=True)
        # Deep enough that whatever leaves the folder by `..` stays in the base.
        working, temporary = self.base / "working", self.base / "a" / "b" / "c" / "temporary"
        working.mkdir(parents=True)
        temporary.mkdir(parents=True)
        environment = {**os.environ, "TMPDIR": str(temporary), "HOME": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_NUM_INTEROP_THREADS": "1"}
        environment |= {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}
        code = f"import sys; sys.path.append({str(_ROOT)!r}); from tests.saved import fuzz_worker; fuzz_worker.main()"
        with (temporary / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=working,
                env=environment,
            )
        return self._process

    def run(self, kind: str, seed: int) -> None:
        """Run a case, and note what came of it."""
        process = self._started()
        self._cases += 1
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps([kind, seed, str(self._of_today)]).encode() + b"\n")
            process.stdin.flush()
        # The first case waits for the frameworks, and the first of today's files for these to be written.
        what = self._line(process, 10 * HANGS)
        answer = None if what is None else self._line(process, self._hangs)
        if answer is None:
            answer = self._without_answer(process)
            self._stop()
        self.results.outcomes.append((kind, answer["outcome"]))
        if answer["causes"]:
            shown = "not made" if what is None else str(what)
            self.results.failures.append(Failure(kind, seed, tuple(answer["causes"]), shown, answer["trace"]))
            if self._tells:
                print(self.results.failures[-1], flush=True)

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> Any:
        """Return the next line of its output, decoded; None if it ends, or is silent for too long.

        That is so many seconds of its processor, as other work may keep it waiting; or ten times as many of the clock.
        """
        assert process.stdout is not None
        end, start = time.monotonic() + 10 * seconds, _processor_seconds(process.pid)
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([process.stdout], [], [], 1)
            if not ready and time.monotonic() < end and _processor_seconds(process.pid) - start < seconds:
                continue
            content = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
            if not content:
                if ready:
                    process.wait()
                return None
            self._buffer += content
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _without_answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        code = process.poll()
        if code is None:
            cause = f"hung for {self._hangs:.0f} s"
            # It says where it is.
            process.send_signal(signal.SIGABRT)
            process.wait()
        else:
            cause = f"crashed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        text = (self.base / "a" / "b" / "c" / "temporary" / "errors").read_text("utf-8", "replace")[-20_000:]
        known = {"crashed": _NO_MEMORY, "hung": _ENDLESS}.get(cause.partition(" ")[0], ())
        if any(word in text for word in known):
            return {"outcome": "cost", "causes": [], "trace": ""}
        lines = [line[:200] for line in text.splitlines() if line.strip()]
        starts = [number for number, line in enumerate(lines) if "most recent call first" in line]
        start = max((starts[-1] if starts else len(lines) - 20) - 3, 0)
        return {"outcome": "died", "causes": [cause], "trace": "\n".join(lines[start : start + 25])}


def _processor_seconds(process: int) -> float:
    """Return what a process has used of the processors; elsewhere than on Linux, the time of the clock."""
    path = pathlib.Path(f"/proc/{process}/stat")
    if not path.exists():
        return time.monotonic()
    # The fields behind the name, which may have blanks.
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(chosen: Sequence[tuple[str, int]], lanes: int = 2, keep: pathlib.Path | None = None) -> Results:
    """Run cases, and print failures as they come.

    Args:
        chosen: kinds and seeds.
        lanes: how many processes to use.
        keep: a folder for the last case's file.
    """
    whole = Results()

    def work(part: Sequence[tuple[str, int]]) -> None:
        with Lane(of_today=pathlib.Path(shared, "today"), tells=True) as lane:
            lane.results = whole
            for kind, seed in part:
                if len(whole.failures) < _MOST_FAILURES:
                    lane.run(kind, seed)
            if keep is not None:
                shutil.copytree(lane.base / "case", keep, dirs_exist_ok=True, symlinks=True)

    with tempfile.TemporaryDirectory() as shared, ThreadPoolExecutor(lanes) as pool:
        list(pool.map(work, [part for number in range(lanes) if (part := chosen[number::lanes])]))
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.saved.fuzz_driver")
    parser.add_argument("kind", nargs="?", choices=KINDS)
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="where to keep the file")
    parser.add_argument("--count", type=int, default=300, help="how many, of all kinds or of the one named")
    parser.add_argument("--lanes", type=int, default=2, help="how many processes")
    options = parser.parse_args()
    if options.seed is not None:
        chosen = [(options.kind, options.seed)]
    elif options.kind is not None:
        chosen = [(options.kind, seed) for seed in range(options.count)]
    else:
        chosen = spread(options.count)
    started = time.monotonic()
    results = run(chosen, options.lanes, options.keep)
    print(f"{len(chosen)} cases, {time.monotonic() - started:.0f} s, {len(results.failures)} failures")
    for (kind, outcome), count in sorted(collections.Counter(results.outcomes).items()):
        print(f"  {kind}: {count} {outcome}")
    return bool(results.failures)


if __name__ == "__main__":
    sys.exit(main())
