"""Runs programs in processes forked from one that has loaded the frameworks, which is most of what a process costs.

It reads orders, lines of JSON, and answers each with the status in which the program has ended; `Forks` of
`tests.processes` writes them. Nothing here imports mpls: programs do that, after the frameworks.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import sys
import traceback
from typing import Any


def paths_of(environment: Any) -> list[str]:
    return [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]


def serve() -> None:
    """Run a program for each order, one after the other."""
    # Nothing of them has been used when the children come to be, and so none of them has threads.
    for framework in ("tensorflow", "keras", "tf_keras"):
        importlib.import_module(framework)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            become(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(command: list[str], folder: str, environment: dict[str, str], output: str) -> None:
    """Be a program, and end with it."""
    status = 1
    try:
        for stream, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(os.path.join(output, name), os.O_WRONLY | os.O_CREAT), stream)
        os.chdir(folder)
        installed = [each for each in sys.path[1:] if each not in paths_of(os.environ)]
        sys.path[:] = [os.path.dirname(command[0]), *paths_of(environment), *installed]
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else bool(error.code)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
