"""Has processes make and read mutated files, and sees which crash and which hang.

`python -m tests.saved.fuzz_driver load_model/config 17` runs one case again, and `--count 2000` many of all kinds.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.saved.fuzz_cases import KINDS, spread

# In seconds of the processor.
HANGS = 60.0
_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Frameworks keep something of every model.
_CASES_OF_A_PROCESS = 500
# More say nothing new, and each that crashes takes a new process.
_MOST_FAILURES = 100
# How native code says that it was given no more memory, and ends; and where both Kerases go on for ever if layers of a
# config wait for each other. What a file may cost is not limited.
_COSTS = ("bad_alloc", "out of memory", "Cannot allocate memory", "failed to allocate", "MemoryError")
_COSTS += ("in reconstruct_from_config", "in functional_from_config")


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


def run(cases: Sequence[tuple[str, int]], lanes: int = 1, hangs: float = HANGS) -> Results:
    """Run cases, each lane in one process after another."""
    results = Results()

    def work(number: int) -> None:
        base, left = pathlib.Path(folder, str(number), "base").resolve(), [*cases[number::lanes]]
        while left and len(results.failures) < _MOST_FAILURES:
            shutil.rmtree(base, ignore_errors=True)
            del left[: _run_some(base, pathlib.Path(folder, "today"), left[:_CASES_OF_A_PROCESS], hangs, results)]

    with tempfile.TemporaryDirectory(prefix="mpls-fuzz-") as folder, ThreadPoolExecutor(lanes) as pool:
        list(pool.map(work, range(lanes)))
    return results


def _run_some(
    base: pathlib.Path, today: pathlib.Path, cases: Sequence[tuple[str, int]], hangs: float, results: Results
) -> int:
    """Run cases in a process until one ends it, and return how many have been run."""
    # Deep enough that whatever leaves the folder by `..` stays in the base.
    working, temporary = base / "working", base / "a" / "b" / "c" / "temporary"
    working.mkdir(parents=True)
    temporary.mkdir(parents=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "HOME": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_NUM_INTEROP_THREADS": "1"}
    environment |= {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}
    code = f"import sys; sys.path.append({str(_ROOT)!r}); from tests.saved import fuzz_worker; fuzz_worker.main()"
    with (temporary / "errors").open("w+") as errors:
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps({"cases": cases, "of_today": str(today), "hangs": hangs}),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=working,
            env=environment,
        )
        errors.seek(0)
        said = errors.read()[-20_000:]
    # Two lines of each case: what was made, and what came of it.
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        made = lines if len(lines) % 2 else [*lines, "not made"]
        lines = [*made, _without_answer(done.returncode, said)]
    for (kind, seed), what, answer in zip(cases, lines[::2], lines[1::2], strict=False):
        results.outcomes.append((kind, answer["outcome"]))
        if answer["causes"]:
            results.failures.append(Failure(kind, seed, tuple(answer["causes"]), what, answer["trace"]))
    return len(lines) // 2


def _without_answer(status: int, said: str) -> dict[str, object]:
    if any(word in said for word in _COSTS):
        return {"outcome": "cost", "causes": [], "trace": ""}
    name = signal.Signals(-status).name if status < 0 else ""
    cause = "hung" if name in ("SIGPROF", "SIGALRM") else f"crashed by {name}" if name else f"ended with {status}"
    # faulthandler says where it was.
    start = max(said.rfind("most recent call first") - 300, 0)
    return {"outcome": "died", "causes": [cause], "trace": said[start : start + 3000]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.saved.fuzz_driver")
    parser.add_argument("kind", nargs="?", choices=KINDS)
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--count", type=int, default=300, help="how many")
    options = parser.parse_args()
    results = run([(options.kind, options.seed)] if options.kind else spread(options.count), lanes=2)
    print("\n\n".join(map(str, results.failures)))
    for (kind, outcome), count in sorted(collections.Counter(results.outcomes).items()):
        print(f"  {kind}: {count} {outcome}")
    return bool(results.failures)


if __name__ == "__main__":
    sys.exit(main())
