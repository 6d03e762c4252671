"""Runs programs one after the other in one process, and prints what became of each: `run_programs.py FOLDER`."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import runpy
import sys
import traceback
import warnings

import mpls.errors


def outcome(path: pathlib.Path) -> str:
    """Return '' for a program that runs to its end, else the traceback."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("error", mpls.errors.MplsWarning)
            runpy.run_path(str(path))
    except Exception:
        return traceback.format_exc()
    return ""


def main(folder: str) -> None:
    outcomes = {path.stem: outcome(path) for path in sorted(pathlib.Path(folder).glob("right_*.py"))}
    print(json.dumps({"outcomes": outcomes, "mpls": mpls.__file__}))


if __name__ == "__main__":
    main(sys.argv[1])
