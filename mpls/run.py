"""Runs a program as `python` would, with the historical names back."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

__all__ = ["CannotRun", "run_module", "run_script"]

_HERE = os.path.join(Path(__file__).parent, "")


class CannotRun(Exception):
    """There is nothing to run under the name that was given."""


def run_script(path: str, args: Sequence[str]) -> int:
    """Run a script, or a directory or zip file with a `__main__` module, as `python PATH ARGS` does.

    Args:
        path: the file.
        args: what the program finds in `sys.argv` after its own name.

    Returns:
        The exit status.

    Raises:
        CannotRun: there is no such file.
    """
    if not os.path.exists(path):
        raise CannotRun(f"no such script: {path}. Give the path of a Python file, or -m and the name of a module")
    sys.argv = [path, *args]
    # A directory or a zip file has its main module within.
    spec = PathFinder.find_spec("__main__", [path])
    if spec is not None:
        sys.path[0] = path
        return _exit_status_of(lambda: _execute(_code_of(spec), spec.origin or path, spec))
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    return _exit_status_of(lambda: _execute(_compile(os.path.abspath(path)), os.path.abspath(path), None))


def run_module(name: str, args: Sequence[str]) -> int:
    """Run a module, or a package with a `__main__` module, as `python -m NAME ARGS` does.

    Args:
        name: its dotted name, seen from the current directory.
        args: what the program finds in `sys.argv` after its own name.

    Returns:
        The exit status.

    Raises:
        CannotRun: there is no such module.
    """
    sys.path[0] = os.getcwd()
    try:
        spec = _spec_of(name)
    except (ModuleNotFoundError, ValueError):
        spec = None
    if spec is None or spec.loader is None:
        raise CannotRun(f"no module named {name}. It is looked for from the current directory, as python -m does")
    sys.argv = [spec.origin or name, *args]
    return _exit_status_of(lambda: _execute(_code_of(spec), spec.origin, spec))


def _spec_of(name: str) -> ModuleSpec | None:
    spec = find_spec(name)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return find_spec(f"{name}.__main__") if is_package else spec


def _code_of(spec: ModuleSpec) -> Any:
    loader: Any = spec.loader
    return loader.get_code(spec.name)


def _compile(path: str) -> Any:
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _execute(code: Any, file: str | None, spec: ModuleSpec | None) -> None:
    main = ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=builtins, __cached__=None, __spec__=spec)
    main.__loader__ = SourceFileLoader("__main__", file or "") if spec is None else spec.loader
    main.__package__ = None if spec is None else spec.parent
    # It stays there for what runs at exit.
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _exit_status_of(program: Callable[[], object]) -> int:
    try:
        program()
    except SystemExit as stop:
        return _status(stop.code)
    except KeyboardInterrupt as error:
        # Left to Python, which ends the process by the signal once it has shown the traceback.
        _show_without_ours(error)
        raise
    except BaseException as error:
        error.__traceback__ = _without_ours(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _show_without_ours(error: BaseException) -> None:
    hook, users = sys.excepthook, _without_ours(error.__traceback__)

    def show(error_type: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        error.__traceback__ = users
        hook(error_type, error, users)

    sys.excepthook = show


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that `python` would show: without what led to the program."""
    while traceback is not None and _is_ours(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback


def _is_ours(filename: str) -> bool:
    return filename.startswith(_HERE)
