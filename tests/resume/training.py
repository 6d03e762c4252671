"""Processes that train: from the start, and on from what was saved.

`python -m` runs it as one of: `whole FOLDER JOB...`, which trains each job to the end, saving it half way; `rest FOLDER
JOB...`, which does the rest of each in a new process; both print a JSON line for each job, its states. A job
`FAMILY-backup` is a `fit` with the callback BackupAndRestore. `on FOLDER JOB` trains until it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STEPS, SAVED_AT = 20, 10


# Saved at the end only, and thereby.
SAVES_ITSELF = "v1-monitored"


def train(name: str, folder: Path, last: int, is_saved: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
    """Go on from what was saved up to a step; yield the state that was found and that after each step."""
    from tests.resume.jobs import JOBS

    folder.mkdir(parents=True, exist_ok=True)
    with JOBS[name](folder) as job:
        yield job.state()
        while job.step < last:
            job.advance()
            if is_saved(job.step):
                job.save(folder)
            yield job.state()


def fit(family: str, folder: Path, task: str) -> dict[str, Any]:
    """Fit to the end, on from a backup if there is one; the whole is then begun again, up to an interruption."""
    from tests.resume import jobs

    state = jobs.fit(family, folder, interrupt=False)
    if task == "whole":
        jobs.fit(family, folder, interrupt=True)
    return state


def train_on(folder: Path, name: str, last: str = "") -> None:
    """Train on from what was saved and print the states, saving after every step, or to a last step without saving."""
    # Who has started the tests may have it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests wait for fewer steps than these.
    for state in train(name, folder, int(last or 5000), lambda _: not last):
        print(json.dumps(state), flush=True)


def main() -> None:
    task, folder, *names = sys.argv[1:]
    if task == "on":
        train_on(Path(folder), *names)
        return
    for name in names:
        family, _, kind = name.partition("-")
        if kind == "backup":
            states = [fit(family, Path(folder) / name, task)]
        else:
            last = SAVED_AT if (task, name) == ("whole", SAVES_ITSELF) else STEPS
            states = list(train(name, Path(folder) / name, last, lambda step: (task, step) == ("whole", SAVED_AT)))
        print(json.dumps({"job": name, "states": states}), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
