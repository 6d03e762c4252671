"""Runs programs by `launcher.py`, each in a fork of a process that has imported TensorFlow: an import takes seconds.

A program that imports TensorFlow finds it imported, and nothing computed with it.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from tests.migrate import launcher

__all__ = ["run_warm", "stop"]

# The variable that pytest sets for each test.
_CURRENT_TEST = "PYTEST_CURRENT_TEST"


def run_warm(
    words: list[str], folder: Path, settings: dict[str, str], timeout: int
) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its exit status and what it printed.

    Args:
        words: the arguments of the launcher.
        folder: the working directory.
        settings: the environment.
        timeout: how many seconds it may take.
    """
    with tempfile.TemporaryDirectory() as temporary:
        out, err = (os.path.join(temporary, name) for name in ("out", "err"))
        # What differs from test to test is no other environment: each has a process that holds TensorFlow.
        server = _server(tuple(sorted((name, value) for name, value in settings.items() if name != _CURRENT_TEST)))
        assert server.stdin is not None
        assert server.stdout is not None
        request = {"words": words, "folder": str(folder), "out": out, "err": err, "timeout": timeout}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        printed, said = (Path(each).read_text() for each in (out, err))
    return subprocess.CompletedProcess(words, status, printed, said)


@functools.cache
def _server(settings: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    """Return the process for an environment."""
    command = [sys.executable, "-m", __name__]
    server = subprocess.Popen(command, env=dict(settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _servers.append(server)
    assert len(_servers) <= _MOST, f"{len(_servers)} environments: something in them changes with each program"
    return server


_servers: list[subprocess.Popen[str]] = []
# With either Keras.
_MOST = 2


@atexit.register
def stop() -> None:
    """End the processes."""
    _server.cache_clear()
    while _servers:
        server = _servers.pop()
        server.kill()
        server.communicate()


def _serve() -> None:
    import tensorflow  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _become(request)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(request: dict[str, Any]) -> NoReturn:
    """Run a program in this process, and end it."""
    for name, descriptor in (("out", 1), ("err", 2)):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Kills the process, unless the program says otherwise.
    signal.alarm(request["timeout"])
    os.chdir(request["folder"])
    sys.argv = [launcher.__file__, *request["words"]]
    status: Any = 0
    try:
        launcher.main()
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


if __name__ == "__main__":
    _serve()
