"""Sends mutated files to processes that read them, and sees from outside what happens.

`python -m tests.saved.fuzz_driver load_model/configs 17` runs one case again, and `--keep FOLDER` keeps its file.
`python -m tests.saved.fuzz_driver --count 2000` runs many of all kinds, and `--first 300` leaves out what was seen.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import importlib.metadata
import pathlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.saved import watching
from tests.saved.fuzz_process import FRAMEWORKS, INSPECTION, Limits, Process
from tests.saved.mutations import cases
from tests.saved.mutations.canary import Canary
from tests.saved.mutations.sources import Sources, sources

# `write_direct_chunk` of h5py up to 3.15 takes none of h5py's own locks, and lanes are threads.
_MAKING = threading.Lock()

# Frameworks keep something of every model.
CASES_OF_A_PROCESS = 200
_GROWTH = 500 << 20


@dataclass(frozen=True)
class Failure:
    """What should not have happened.

    Attributes:
        kind: the kind of case.
        seed: its seed.
        causes: what was seen, the worst first.
        what: what was mutated.
        evidence: tracebacks.
        few: whether it was made of few of the fresh models.
    """

    kind: str
    seed: int
    causes: tuple[str, ...]
    what: str
    evidence: str
    few: bool

    def __str__(self) -> str:
        lines = [f"{self.kind}, seed {self.seed}: {self.what:.300}", *self.causes, *self.evidence.splitlines()]
        if self.kind in cases.KINDS:
            few = " --few" if self.few else ""
            lines.append(f"alone: python -m tests.saved.fuzz_driver {self.kind} {self.seed}{few}")
        return "\n  ".join(lines)


@dataclass
class Results:
    """What came of all cases: failures, how often each kind had which outcome, and how long they took."""

    failures: list[Failure] = field(default_factory=list)
    outcomes: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    seconds: float = 0.0

    def share(self, *actions: str) -> float:
        """Return which part of the cases of some actions was read."""
        counts = {key: count for key, count in self.outcomes.items() if key[0].partition("/")[0] in actions}
        return sum(count for (_, each), count in counts.items() if each == "read") / max(sum(counts.values()), 1)


# What the newest of the recorded releases wrote, and whether that or a later one is installed.
_NEWEST_RUN = "tf21."
_IS_NEWEST = tuple(map(int, importlib.metadata.version("tensorflow").split(".")[:2])) >= (2, 21)


class Lane:
    """One process at a time, with a canary, a folder for its cases, and a watch of its own."""

    def __init__(self, base: pathlib.Path, found: Sources, few: bool, limits: dict[str, Limits] | None = None) -> None:
        self.base, self._sources, self._few = base, found, few
        self._limits = limits or {}
        self.canary = Canary(base)
        self._watch = watching.Watch(self.canary.folder) if watching.IS_SUPPORTED else None
        self._processes: dict[str, Process] = {}
        self.results = Results()

    def close(self) -> None:
        for process in self._processes.values():
            process.stop()
        if self._watch is not None:
            self._watch.close()

    def process(self, sort: str) -> Process:
        """Return a process that has read honest files."""
        process = self._processes.get(sort)
        if process is not None and process.is_alive:
            if process.cases < CASES_OF_A_PROCESS and process.growth() < _GROWTH:
                return process
            process.stop()
        folder = self.base / f"{sort}.process"
        process = self._processes[sort] = Process(sort, folder, self.canary.modules)
        self._introduce(process, sort)
        return process

    def use(self, found: Sources) -> None:
        """Make cases of other sources, which the processes that are there read too."""
        self._sources = found
        for sort, process in self._processes.items():
            self._introduce(process, sort)

    def _introduce(self, process: Process, sort: str) -> None:
        """Have a process read honest files, after which it imports nothing more."""
        for source in _honest(self._sources):
            if sort == INSPECTION or source.format in ("keras", "h5", "saved_model"):
                action = "inspect" if sort == INSPECTION else "load_model"
                request = {"action": action, "path": str(source.named), "folder": str(source.root), "honest_file": True}
                answer = process.ask(request, Limits(60, 4 << 30, 90))
                if answer.outcome != "read" or answer.causes:
                    self._fail("honest", 0, (answer.outcome, answer.detail, *answer.causes), source.name, answer.trace)
        if self._watch is not None:
            self._watch.seen()

    def run(self, kind: str, seed: int, keep: pathlib.Path | None = None) -> None:
        """Run a case."""
        folder = self.base / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with _MAKING:
            case = cases.make(kind, seed, folder, self.canary, self._sources)
        if keep is not None:
            cases.keep(case, keep)
        action = kind.partition("/")[0]
        self.request(action, case.path, case.honest, kind=kind, seed=seed, what=case.what)

    def request(
        self, action: str, path: str, honest: str = "", *, kind: str = "", seed: int = 0, what: str = ""
    ) -> None:
        """Have a process do something, and note what came of it."""
        process = self.process(INSPECTION if action in ("inspect", "hole", "sleep") else FRAMEWORKS)
        folder = self.base / "case"
        folder.mkdir(exist_ok=True)
        before = _files(folder)
        if self._watch is not None:
            # Making the case may have looked.
            self._watch.seen()
        limits = self._limits.get(action) or (Limits.of_inspection() if action == "inspect" else Limits())
        answer = process.ask({"action": action, "path": path, "honest": honest, "folder": str(folder)}, limits)
        causes = list(answer.causes)
        touched = self._watch.seen() if self._watch is not None else []
        if touched or self.canary.touched.exists():
            causes.insert(0, f"outside the file: {', '.join(touched) or 'something was written'}")
        causes += [f"heard: {event}" for event in answer.events]
        if answer.outcome in ("raised", "odd"):
            causes.append(f"{answer.outcome}: {answer.detail}")
        left = [*process.left_behind(), *(set(_files(folder)) ^ set(before)), *self._escaped()]
        if left:
            causes.append(f"changed files: {', '.join(map(str, left))}")
        self.results.outcomes[kind, answer.outcome] += 1
        if causes:
            self._fail(kind, seed, tuple(causes), what, answer.trace)
            self.canary.fill()
            process.clean()
            if self._watch is not None:
                self._watch.renew()

    def _escaped(self) -> list[pathlib.Path]:
        """Return what archives have put where it does not belong; in temporary folders it does."""
        return [path for path in self.base.rglob("escaped*") if "temporary" not in path.parts]

    def _fail(self, kind: str, seed: int, causes: tuple[str, ...], what: str, trace: str) -> None:
        self.results.failures.append(Failure(kind, seed, causes, what, trace, self._few))


def _honest(found: Sources) -> list[Any]:
    """Return one file of every sort, and all that are fresh."""
    chosen: dict[Any, Any] = {}
    for source in found.files:
        if source.name.rpartition("/")[2].startswith(_NEWEST_RUN) and not _IS_NEWEST:
            # Older frameworks do not read all of it.
            continue
        is_fresh = source.name.startswith("fresh")
        chosen.setdefault(source.name if is_fresh else (source.format, source.name.rpartition(".")[2]), source)
    return list(chosen.values())


def _files(folder: pathlib.Path) -> list[tuple[str, int, int]]:
    found = [(path, path.lstat()) for path in sorted(folder.rglob("*"))]
    return [(str(path.relative_to(folder)), status.st_size, status.st_mtime_ns) for path, status in found]


def prepare(base: pathlib.Path, few: bool, builder: Process | None = None) -> Sources:
    """Write the fresh models, and return all that can be mutated.

    Args:
        base: where.
        few: whether to write few.
        builder: the process with frameworks that writes them; None for one that ends afterwards.
    """
    fresh = base / "fresh"
    fresh.mkdir()
    process = builder or Process(FRAMEWORKS, base / "builder", base)
    answer = process.ask(
        {
            "action": "build",
            "path": str(fresh),
            "honest": "few" if few else "",
            "folder": str(fresh),
            "honest_file": True,
        },
        Limits(300, 8 << 30, 300),
    )
    if builder is None:
        process.stop()
    if answer.outcome != "read":
        raise RuntimeError(f"{answer.outcome}: {answer.detail}\n{answer.trace}")
    return sources(fresh)


def run(chosen: Sequence[tuple[str, int]], few: bool, keep: pathlib.Path | None = None, tells: bool = False) -> Results:
    """Run cases in two lanes: by what reads them if they are few, else by halves.

    Args:
        chosen: kinds and seeds.
        few: whether to make few fresh models, and start one process with frameworks only.
        keep: a folder for the last case's file.
        tells: whether to print failures as they come.
    """
    # Mutations use it in both lanes, and two threads that import it together may break it.
    importlib.import_module("keras")
    started = time.monotonic()
    whole = Results()
    with tempfile.TemporaryDirectory(prefix="mpls-fuzz-") as name:
        base = pathlib.Path(name).resolve()
        found = prepare(base, few)
        if few:
            parts = [
                [each for each in chosen if each[0].startswith("inspect/") == is_first] for is_first in (False, True)
            ]
        else:
            parts = [list(chosen[0::2]), list(chosen[1::2])]
        errors: list[BaseException] = []
        threads = []
        for number, part in enumerate(parts):

            def work(number: int = number, part: Any = part) -> None:
                try:
                    with contextlib.closing(Lane(base / f"lane{number}", found, few)) as lane:
                        _run(lane, part, keep, tells)
                        whole.failures += lane.results.failures
                        whole.outcomes += lane.results.outcomes
                except BaseException as error:
                    errors.append(error)

            if part:
                threads.append(threading.Thread(target=work))
                threads[-1].start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
    whole.seconds = time.monotonic() - started
    return whole


def _run(lane: Lane, part: Sequence[tuple[str, int]], keep: pathlib.Path | None, tells: bool) -> None:
    # Those of one process after each other.
    for kind, seed in sorted(part, key=lambda each: each[0].startswith("inspect/")):
        known = len(lane.results.failures)
        lane.run(kind, seed, keep)
        if tells:
            for failure in lane.results.failures[known:]:
                print(failure, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.saved.fuzz_driver")
    parser.add_argument("kind", nargs="?", choices=list(cases.KINDS))
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--few", action="store_true", help="of few fresh models, as the quick test does")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="where to keep the file")
    parser.add_argument("--count", type=int, default=300, help="how many, of all kinds or of the one named")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="leave out smaller seeds")
    options = parser.parse_args()
    if options.seed is not None:
        chosen = [(options.kind, options.seed)]
    elif options.kind is not None:
        chosen = [(options.kind, seed) for seed in range(options.count)]
    else:
        chosen = cases.spread(options.count)
    chosen = [(kind, seed) for kind, seed in chosen if seed >= options.first or options.seed is not None]
    results = run(chosen, options.few, options.keep, tells=True)
    print(f"{len(chosen)} cases, {results.seconds:.0f} s, {len(results.failures)} failures")
    for (kind, outcome), count in sorted(results.outcomes.items()):
        print(f"  {kind}: {count} {outcome}")
    return bool(results.failures)


if __name__ == "__main__":
    sys.exit(main())
