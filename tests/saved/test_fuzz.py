"""Changed files are read or loaded, or refused with an error of mpls: nothing else is raised, run or opened.

`python -m tests.saved.test_fuzz 17 18` tries case 17 alone.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import mpls.keras
from mpls.errors import MplsError
from mpls.inspect import inspect
from tests.processes import ROOT, process_environment, run_python
from tests.saved.artefacts import ARTEFACTS
from tests.untrusted.models import KINDS, Templates
from tests.untrusted.payloads import PAYLOADS, SPY

ODD: list[Any] = [
    0,
    -1,
    2.5,
    1e39,
    2**63,
    10**400,
    float("nan"),
    float("inf"),
    None,
    True,
    "",
    "\x00",
    "../../x",
    "Adam",
]
ODD += [[], {}, [1, 2], {"a": 1}, "\ud800", "os>system", "LossScaleOptimizerV3"]
# What a file may cost is not limited: a case that asks for more memory, or takes longer, ends with a MemoryError.
ADDRESSES, SECONDS = 12 << 30, 60
STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen", "socket.connect")
TEMPLATES = Templates()


def changed_bytes(r: random.Random, target: pathlib.Path) -> str:
    """Copy an artefact with bits of a file flipped, or a part cut off, blanked or doubled; return what to read."""
    source = pathlib.Path(r.choice(ARTEFACTS).path)
    folder = source if source.is_dir() else source.parent
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("expected.json"), dirs_exist_ok=True)
    file = r.choice(sorted(each for each in target.rglob("*") if each.is_file()))
    content = bytearray(file.read_bytes() or bytes(8))
    start, length = r.randrange(len(content)), r.choice((1, 4, 8, 64, 512))
    kind = r.choice(("flip", "flip", "cut", "blank", "double"))
    if kind == "flip":
        for _ in range(r.choice((1, 8, 64))):
            content[r.randrange(len(content))] ^= 1 << r.randrange(8)
    elif kind == "cut":
        del content[start:]
    elif kind == "blank":
        content[start : start + length] = bytes(len(content[start : start + length]))
    else:
        content[start:start] = content[start : start + length]
    file.write_bytes(content)
    return str(target if source.is_dir() else target / source.name)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a config as `(container, key)`."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def changed_config(r: random.Random, target: pathlib.Path) -> str:
    """Save a model with something else at a place of its configs."""

    def change(parts: dict[str, Any]) -> None:
        container, key = r.choice([*places(parts["model"]), *places(parts["compile"]["optimizer"])])
        container[key] = r.choice([PAYLOADS[r.choice(sorted(PAYLOADS))], r.choice(ODD)])

    return TEMPLATES.changed(*r.choice(KINDS), target, change)


def out_of_time(*arguments: Any) -> None:
    raise MemoryError


def work(seeds: range) -> None:
    """Try cases, and print a list of those that failed, and how many were read whole."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGPROF, out_of_time)
    warnings.simplefilter("ignore")
    for kind in KINDS:
        TEMPLATES.path(*kind)
    heard: list[str] = []
    sys.addaudithook(lambda event, arguments: heard.append(event) if event.startswith(STARTS) else None)
    failures, read = [], 0
    for seed in seeds:
        print("case", seed, file=sys.stderr, flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        r = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            path = r.choice((changed_bytes, changed_config))(r, pathlib.Path(folder))
            heard.clear()
            for action in (lambda path: inspect(path, as_json=True)[1].encode(), mpls.keras.load_model):
                try:
                    action(path)
                    read += action is mpls.keras.load_model
                except (MplsError, MemoryError):
                    pass
                except (Exception, SystemExit):
                    failures.append([seed, path, traceback.format_exc(limit=-6)])
            if heard or SPY in sys.modules:
                failures.append([seed, path, [*heard, SPY in sys.modules]])
    print(json.dumps({"failures": failures, "read": read}))
    TEMPLATES.remove()


def check(seeds: range) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / f"{SPY}.py").write_text("")
        # AutoGraph compiles what it writes there.
        settings = process_environment(ROOT, folder, TMPDIR=folder, PYTHONDONTWRITEBYTECODE="1")
        done = run_python("-m", "tests.saved.test_fuzz", str(seeds.start), str(seeds.stop), environment=settings)
        assert done.returncode == 0, done.stderr[-4000:]
        assert os.listdir(folder) == [f"{SPY}.py"]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == []
    # Neither does everything pass, nor nothing.
    assert 0.02 < found["read"] / len(seeds) < 0.9


@pytest.mark.programs
def test_samples() -> None:
    check(range(100))


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 20_000, 1000))
def test_many(start: int) -> None:
    check(range(start, start + 1000))


if __name__ == "__main__":
    work(range(*map(int, sys.argv[1:])))
