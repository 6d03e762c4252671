"""Runs the clients on the releases that they were written for, and keeps what they print.

`python -m tests.clients.record --python 1.15=PYTHON --python 2.2=PYTHON … [NAME…]`, with the interpreters of
environments that have these releases, writes `data/NAME.json`: by release, the lines that the script printed. Without
names, all of them. `scripts/` print lines of JSON, `programs/`, which `corpus.py` lists, what such programs print. The
environments need `protobuf<3.20`, up to TF 2.3 `h5py<3` too; the recorded ones had TF 1.15.5, 2.1.4, 2.2.3, 2.3.4,
2.4.4 and 2.8.4.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .corpus import PROGRAMS

HERE = Path(__file__).resolve().parent
_LEFT_OUT = ("PYTHONPATH", "PYTHONWARNINGS", "TF_USE_LEGACY_KERAS")


def environment() -> dict[str, str]:
    """Return the environment of a run: one thread's sums, no GPU, quiet."""
    settings = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}
    kept = {key: value for key, value in os.environ.items() if key not in _LEFT_OUT}
    return {**kept, **settings}


def lines_of(stdout: str) -> list[dict[str, object]]:
    """Return the lines of JSON that a script printed."""
    return [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]


def path_of(name: str) -> Path:
    """Return where a client is."""
    return HERE / PROGRAMS[name].folder / f"{name}.py"


def record(name: str, python: str) -> list[Any]:
    """Run a client with an interpreter; raise if it fails."""
    command = [python, str(path_of(name))]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} failed with {python}:\n{done.stdout}\n{done.stderr[-3000:]}")
    return lines_of(done.stdout) if PROGRAMS[name].folder == "scripts" else done.stdout.splitlines()


def asked_for() -> tuple[dict[str, str], list[str]]:
    """Return what the command line has: interpreters by release, and names of programs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="append", default=[], metavar="RELEASE=PYTHON")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    return dict(given.split("=", 1) for given in arguments.python), arguments.names


def main() -> None:
    """Record what the command line asks for, and keep what was recorded of other releases."""
    pythons, names = asked_for()
    for name in names or PROGRAMS:
        path = HERE / "data" / f"{name}.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        for release in PROGRAMS[name].releases:
            if release in pythons:
                known[release] = record(name, pythons[release])
                print(name, release, len(known[release]), "lines")
        rows = ",\n".join(
            f'"{release}": [\n' + ",\n".join(json.dumps(line) for line in known[release]) + "\n]"
            for release in PROGRAMS[name].releases
            if release in known
        )
        path.write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    main()
