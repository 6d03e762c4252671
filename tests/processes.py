"""The processes that tests start, and what is released of the checkout."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Collection
from typing import Any

import mpls

# Where the tests find mpls, and where they are themselves.
PACKAGE_ROOT = pathlib.Path(mpls.__file__).parents[1]
ROOT = pathlib.Path(__file__).parents[1]

# TensorFlow and Keras import these wherever they find them, which is a third of the time that a process needs to start.
# A folder for each has a module of its name that cannot be imported.
_LEFT_OUT = ROOT / "tests" / "left_out"
OPTIONAL = ("jax", "matplotlib", "sklearn")


def python_path(*paths: os.PathLike[str] | str, needs: Collection[str] = ()) -> str:
    """Return `PYTHONPATH` for a process that finds no optional package but those that it needs.

    Args:
        paths: folders that the process finds modules in, before what the variable has now.
        needs: those of `OPTIONAL` that it is to find.
    """
    inherited = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    hidden = [os.fspath(_LEFT_OUT / name) for name in OPTIONAL]
    kept = [path for name, path in zip(OPTIONAL, hidden, strict=True) if name not in needs]
    return os.pathsep.join([*kept, *map(os.fspath, paths), *(each for each in inherited if each not in hidden)])


def process_environment(
    *paths: os.PathLike[str] | str, needs: Collection[str] = (), **variables: str
) -> dict[str, str]:
    """Return the environment of a process that finds mpls: that of this one, with variables of its own.

    Args:
        paths: further folders that the process finds modules in.
        needs: optional packages that it is to find.
        variables: what is different from the environment of this process.
    """
    return {**os.environ, "PYTHONPATH": python_path(PACKAGE_ROOT, *paths, needs=needs), **variables}


def run_python(
    *command: str,
    folder: os.PathLike[str] | str | None = None,
    environment: dict[str, str] | None = None,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `python COMMAND...` in a folder, with an environment of `process_environment` and a text to read."""
    command = (sys.executable, *command)
    env = process_environment() if environment is None else environment
    return subprocess.run(command, cwd=folder, env=env, input=text, capture_output=True, text=True, timeout=900)


def load_file(path: pathlib.Path) -> Any:
    """Return a file of no package as a module."""
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # Its NamedTuples and postponed annotations look their module up.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


class Forks:
    """Runs programs in processes that have loaded the frameworks, but used nothing of them.

    Not for what has to come before them, such as `mpls run` and `mpls.install(v1=True)`.

    Args:
        variables: what is different from the environment of this process, where the frameworks are loaded.
    """

    def __init__(self, **variables: str) -> None:
        self._variables = variables
        self._server: subprocess.Popen[str] | None = None

    def run(
        self, *command: str, folder: os.PathLike[str] | str, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run `python COMMAND...` in a folder; the command is the path of a program and its arguments."""
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.forks"],
                cwd=ROOT,
                env=process_environment(**self._variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            atexit.register(self._server.communicate)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as output:
            order = {"command": command, "folder": os.fspath(folder), "environment": environment, "output": output}
            print(json.dumps(order), file=self._server.stdin, flush=True)
            status = int(self._server.stdout.readline())
            texts = ((pathlib.Path(output) / name).read_text() for name in ("stdout", "stderr"))
            return subprocess.CompletedProcess(command, status, *texts)


def build(source: pathlib.Path, target: pathlib.Path, *kinds: str) -> None:
    """Build what is released of a checkout, `"sdist"` or `"wheel"`, into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *(f"-t{kind}" for kind in kinds)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def share_packages(environment: pathlib.Path) -> pathlib.Path:
    """Let a virtual environment find the packages of this one, after its own; return the folder of its own."""
    (packages,) = environment.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    return packages
