"""Changed files are made and read in a process of its own, which says what happened meanwhile.

`python -m tests.saved.fuzzing load_model/config 17` runs one case again.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mpls.errors import MplsError, SavedStateError
from mpls.inspect import inspect, text_of
from mpls.saved.reading import read
from tests.saved.mutations import KINDS, SECRET, Canary, changed
from tests.untrusted.payloads import SPY

# In seconds of the processor.
HANGS = 60
_ROOT = pathlib.Path(__file__).resolve().parents[2]
# A file that asks for more gets an error, and the machine goes on.
_ADDRESSES = 12 << 30
# How native code says that it was given no more memory, and ends; where both Kerases go on for ever if layers of a
# config wait for each other, and HDF5 over a heap with free space of no bytes. What a file may cost is not limited.
_COSTS = ("bad_alloc", "out of memory", "Cannot allocate memory", "failed to allocate", "MemoryError")
_COSTS += ("in reconstruct_from_config", "in functional_from_config", "saved/containers.py")
_STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen", "socket.connect")


class Case(NamedTuple):
    """What came of a case: `read`, `refused`, `cost` or `failed`; what was changed; and what should not have been."""

    kind: str
    seed: int
    outcome: str
    what: str
    causes: str

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}: {self.what:.300}\n{self.causes}"


def run(cases: Sequence[tuple[str, int]]) -> list[Case]:
    """Run cases in processes one after another, as many as crash and hang."""
    found: list[Case] = []
    with tempfile.TemporaryDirectory(prefix="mpls-fuzz-") as folder:
        while len(found) < len(cases):
            base = pathlib.Path(folder, str(len(found))).resolve()
            found += _run_some(base, cases[len(found) :])
    return found


def _run_some(base: pathlib.Path, cases: Sequence[tuple[str, int]]) -> list[Case]:
    # Deep enough that what leaves the folder by `..` stays in the base.
    working, temporary = base / "working", base / "a" / "b" / "temporary"
    working.mkdir(parents=True)
    temporary.mkdir(parents=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "HOME": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    code = f"import sys; sys.path.append({str(_ROOT)!r}); from tests.saved.fuzzing import work; work()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        errors="replace",
        cwd=working,
        env=environment,
    )
    # What was made, and what came of it.
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    pairs = zip(cases, lines[::2], lines[1::2], strict=False)
    found = [Case(*case, outcome, what, causes) for case, what, (outcome, causes) in pairs]
    if done.returncode:
        what = lines[-1] if len(lines) % 2 else "not made"
        ended = f"ended by {done.returncode}: {done.stderr[-4000:]}"
        outcome = "cost" if any(word in done.stderr for word in _COSTS) else "failed"
        found.append(Case(*cases[len(found)], outcome, what, ended))
    shutil.rmtree(base)
    return found


class _Audit:
    """Hears from Python of processes that are started, and of whatever is done with the canary's folder."""

    def __init__(self, canary: Canary) -> None:
        self.events: list[str] = []
        self.listens = False
        self._folder = str(canary.folder)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.listens and (event.startswith(_STARTS) or (event != "compile" and self._is_outside(arguments))):
            self.events.append(f"{event} {arguments!r:.200}")

    def _is_outside(self, arguments: tuple[Any, ...]) -> bool:
        paths = [os.fsdecode(each) for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]
        return any(path.startswith(self._folder) for path in paths)


def work() -> None:
    """Run the cases that standard input lists; for each, print what was made, and what came of it."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, most))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # What frameworks print goes where errors go.
    os.dup2(2, 1)
    # What hangs, running or waiting, says where it is, and ends.
    for number in (signal.SIGPROF, signal.SIGALRM):
        faulthandler.register(number, chain=True)
    base = pathlib.Path.cwd().parent
    canary = Canary(base)
    sys.path.append(str(canary.modules))
    audit = _Audit(canary)
    for kind, seed in json.load(sys.stdin):
        folder = base / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        action = kind.partition("/")[0]
        if action != "inspect":
            # What they start as they are imported is not the file's doing.
            import keras  # noqa: F401
            import tf_keras  # noqa: F401
        made = changed(kind, seed, folder, canary)
        answers.write(json.dumps(made[0]) + "\n")
        signal.setitimer(signal.ITIMER_PROF, HANGS)
        signal.setitimer(signal.ITIMER_REAL, 10 * HANGS)
        came = _watched(audit, base, _ACTIONS[action], str(made[1]))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(json.dumps(came) + "\n")


_Action = Callable[[str], None]


def _watched(audit: _Audit, base: pathlib.Path, action: _Action, path: str) -> tuple[str, str]:
    """Do something, and return what came of it, and what should not have happened."""
    before = _files(base)
    audit.events, audit.listens = [], True
    outcome, causes = _outcome(action, path)
    audit.listens = False
    causes += [f"heard: {event}" for event in audit.events]
    if sys.modules.pop(SPY, None) is not None:
        causes.append(f"imported {SPY}")
    if gone_or_new := before ^ _files(base):
        causes.append(f"changed files: {sorted(gone_or_new)}")
    return "failed" if causes else outcome, "\n".join(causes)


def _files(base: pathlib.Path) -> set[tuple[str, int]]:
    """Return all that is there, where temporary files are not."""
    found = ((each, each.lstat()) for each in base.rglob("*") if "temporary" not in each.parts)
    return {(str(each.relative_to(base)), status.st_mtime_ns if each.is_file() else 0) for each, status in found}


def _outcome(action: _Action, path: str) -> tuple[str, list[str]]:
    try:
        # Settings that are changed may be ones that the frameworks warn about.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action(path)
    except MplsError:
        return "refused", []
    except MemoryError:
        return "cost", []
    except (Exception, SystemExit):
        return "failed", [traceback.format_exc(limit=-12)]
    return "read", []


def _inspect(path: str) -> None:
    """Read a file in both ways that `mpls inspect` has, which agree."""
    refused = None
    try:
        record = read(path)
    except SavedStateError as error:
        refused = error
    else:
        scales = [each.loss_scale.scale for each in record.optimizers if each.loss_scale is not None]
        assert all(scale is None or 0 < scale < math.inf for scale in scales), f"scales {scales}"
        slots = [slot for each in record.optimizers for one in each.variables for slot in one.slots.values()]
        # HDF5 opens files without telling Python.
        assert not any(np.any(slot == SECRET) for slot in slots), "it has numbers from elsewhere"
    _, text = inspect(path, as_json=True)
    description = json.loads(text)
    # Both are printed.
    (text + text_of(description)).encode("utf-8")
    assert (description["status"] == "ok") == (refused is None), "inspect says else than read"
    if refused is not None:
        raise refused


def _load_model(path: str) -> None:
    from mpls.keras import load_model

    model = load_model(path)
    scale = float(getattr(model.optimizer, "loss_scale", 1.0))
    assert 0 < scale < math.inf, f"a scale of {scale}"


_ACTIONS: dict[str, _Action] = {
    "inspect": _inspect,
    "load_model": _load_model,
}

if __name__ == "__main__":
    assert sys.argv[1] in KINDS, KINDS
    print(*run([(sys.argv[1], int(sys.argv[2]))]))
