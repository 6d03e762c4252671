"""Processes that train: from the start, and on from what was saved.

`python -m` runs it as one of: `whole FOLDER JOB...`, which trains each job to the end, saving it half way; `rest FOLDER
JOB...`, which does the rest of each in a new process; both print a JSON line for each job, its states. A job
`FAMILY-backup` is a `fit` with the callback BackupAndRestore. `serve` runs jobs that are there to be killed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

STEPS, SAVED_AT = 20, 10


def whole(name: str, folder: Path) -> list[dict[str, Any]]:
    """Train without interruption, and return the states after it was saved."""
    from tests.resume.jobs import JOBS

    folder.mkdir(parents=True)
    states = []
    with JOBS[name](folder) as job:
        for step in range(1, (SAVED_AT if job.saves_by_itself else STEPS) + 1):
            job.advance()
            if step == SAVED_AT:
                job.save(folder)
            states.append(job.state())
    return states


def rest(name: str, folder: Path) -> list[dict[str, Any]]:
    """Go on from what was saved, and return the state that was found and those after it."""
    from tests.resume.jobs import JOBS

    with JOBS[name](folder) as job:
        states = [job.state()]
        while job.step < STEPS:
            job.advance()
            states.append(job.state())
    return states


def fit_whole(family: str, folder: Path) -> list[dict[str, Any]]:
    """Fit once without interruption, and once until an interruption; return the state after the first."""
    from tests.resume.jobs import fit

    state = fit(family, folder, interrupt=False)
    fit(family, folder, interrupt=True)
    return [state]


def fit_rest(family: str, folder: Path) -> list[dict[str, Any]]:
    """Fit on from the backup, and return the state at the end."""
    from tests.resume.jobs import fit

    return [fit(family, folder, interrupt=False)]


def save_for_ever(name: str, folder: Path) -> None:
    """Train on from what was saved, save after every step, and print the states, until killed."""
    from tests.resume.jobs import JOBS

    with JOBS[name](folder) as job:
        print(json.dumps(job.state()), flush=True)
        # Tests wait for fewer steps than these.
        for _ in range(500):
            job.advance()
            job.save(folder)
            print(json.dumps(job.state()), flush=True)


def train_to(step: int, name: str, folder: Path) -> None:
    """Train from the start, without saving, and print the states, the first of them before the first step."""
    from tests.resume.jobs import JOBS

    with JOBS[name](folder) as job:
        print(json.dumps(job.state()), flush=True)
        while job.step < step:
            job.advance()
            print(json.dumps(job.state()), flush=True)


def serve() -> None:
    """Run what the lines of the standard input say, each in a child, and answer with its process number.

    A line is `[NAME, FOLDER, OUTPUT]` for `save_for_ever`, or `[NAME, FOLDER, OUTPUT, STEP]` for `train_to`. A number
    is that of a child to wait for, answered with its status.
    """
    # Loaded once. Nothing of it has been used when the children come to be, and so none of it has threads.
    for module in ("keras", "tf_keras", "tests.resume.jobs"):
        importlib.import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            _, status = os.waitpid(order, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        _become(*order)


def _become(name: str, folder: str, output: str, step: int | None = None) -> None:
    status = 1
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        # Who has started the tests may have it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if step is None:
            save_for_ever(name, Path(folder))
        else:
            train_to(step, name, Path(folder))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def main() -> None:
    if sys.argv[1] == "serve":
        serve()
        return
    task, folder, *names = sys.argv[1:]
    for name in names:
        family, _, kind = name.partition("-")
        if kind == "backup":
            states = {"whole": fit_whole, "rest": fit_rest}[task](family, Path(folder) / name)
        else:
            states = {"whole": whole, "rest": rest}[task](name, Path(folder) / name)
        print(json.dumps({"job": name, "states": states}), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
