"""Runs a program as `python` would, with the historical names back."""

from __future__ import annotations

import builtins
import linecache
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER, find_spec
from types import CodeType, ModuleType, TracebackType
from typing import Any

from mpls.tracebacks import clean

__all__ = ["CannotRun", "run_code", "run_module", "run_script", "run_standard_input"]

# What to do with the error that a program ends in, once its traceback has been shown.
OnFailure = Callable[[BaseException], None]


class CannotRun(Exception):
    """There is nothing to run under the name that was given."""


def run_script(path: str, args: Sequence[str], on_failure: OnFailure) -> int:
    """Run a script, or a directory or zip file with a `__main__` module, as `python PATH ARGS` does.

    Args:
        path: the file; or, where there is none, the name of a command that is a Python script, as `jupyter-execute` is.
        args: what the program finds in `sys.argv` after its own name.
        on_failure: gets the error that the program ends in, if it ends in one.

    Returns:
        The exit status.

    Raises:
        CannotRun: there is no such file, or none that Python could run.
    """
    if not os.path.exists(path):
        path = _command(path)
    sys.argv = [path, *args]
    # A directory or a zip file has its main module within.
    spec = PathFinder.find_spec("__main__", [path])
    if spec is not None:
        sys.path[0] = path
        return _exit_status_of(lambda: _execute(_code_of(spec), spec.origin or path, spec), on_failure)
    if os.path.isdir(path):
        raise CannotRun(f"no __main__ module in the directory {path}. Give the path of a Python file in it")
    content, file = _read(path), os.path.abspath(path)
    _set_path(os.path.dirname(file))
    if path.endswith(".pyc") or content.startswith(MAGIC_NUMBER):
        return _run_compiled(file, content, on_failure)
    if b"\0" in content:
        raise CannotRun(f"{path} is no Python source: it has null bytes in it")
    return _exit_status_of(lambda: _execute(_compile(content, file), file, None), on_failure)


def run_module(name: str, args: Sequence[str], on_failure: OnFailure) -> int:
    """Run a module, or a package with a `__main__` module, as `python -m NAME ARGS` does.

    Args:
        name: its dotted name, seen from the current directory.
        args: what the program finds in `sys.argv` after its own name.
        on_failure: gets the error that the program ends in, if it ends in one.

    Returns:
        The exit status.

    Raises:
        CannotRun: there is no such module, or none of Python code.
    """
    _set_path(os.getcwd())
    sys.argv = ["-m", *args]
    return _exit_status_of(lambda: _execute_module(name, args), on_failure)


def run_code(source: str, args: Sequence[str], on_failure: OnFailure) -> int:
    """Run code that is given as a text, as `python -c SOURCE ARGS` does.

    Args:
        source: the code.
        args: what the program finds in `sys.argv` after `-c`.
        on_failure: gets the error that the program ends in, if it ends in one.

    Returns:
        The exit status.
    """
    sys.argv = ["-c", *args]
    _set_path("")

    def execute() -> None:
        code = _compile(source, "<string>")
        # From Python 3.13 on, tracebacks show the lines of such code.
        getattr(linecache, "_register_code", _no_lines)(code, source, "<string>")
        _execute(code, None, None)

    return _exit_status_of(execute, on_failure)


def run_standard_input(args: Sequence[str], on_failure: OnFailure) -> int:
    """Run what comes from standard input, as `python - ARGS` does with a file or a pipe there.

    Args:
        args: what the program finds in `sys.argv` after `-`.
        on_failure: gets the error that the program ends in, if it ends in one.

    Returns:
        The exit status.
    """
    sys.argv = ["-", *args]
    _set_path("")
    source = sys.stdin.buffer.read()
    return _exit_status_of(lambda: _execute(_compile(source, "<stdin>"), "<stdin>", None, BuiltinImporter), on_failure)


def _command(name: str) -> str:
    """Return the path of a command that is a Python script."""
    found = None if os.path.dirname(name) else shutil.which(name)
    if found is not None:
        with open(found, "rb") as file:
            start = file.read(200)
        if start.startswith(b"#!") and b"python" in start:
            return found
    raise CannotRun(f"no such script: {name}. Give the path of a Python file, or -m and the name of a module")


def _no_lines(*_: object) -> None:
    pass


def _set_path(folder: str) -> None:
    """Have modules looked for in the program's folder first, in the place of that of mpls."""
    # With -P neither is there.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}") from None


def _run_compiled(path: str, content: bytes, on_failure: OnFailure) -> int:
    if not content.startswith(MAGIC_NUMBER):
        raise CannotRun(
            f"{path} was compiled by another release of Python than {sys.version_info[0]}.{sys.version_info[1]}, or is "
            "no compiled file. Give the source"
        )
    loader = SourcelessFileLoader("__main__", path)
    try:
        code = loader.get_code("__main__")
    except (EOFError, ImportError, TypeError, ValueError) as error:
        raise CannotRun(f"{path} is a broken compiled file: {error}. Give the source") from None
    return _exit_status_of(lambda: _execute(code, path, None, loader), on_failure)


def _execute_module(name: str, args: Sequence[str]) -> None:
    spec = _spec_of(name)
    if spec is None or spec.loader is None:
        raise CannotRun(f"no module named {name}. It is looked for from the current directory, as python -m does")
    code = _code_of(spec)
    if code is None:
        raise CannotRun(f"{name} is no module of Python code")
    sys.argv = [spec.origin or name, *args]
    _execute(code, spec.origin, spec)


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        # A package that it is in needs another module.
        raise
    except ValueError:
        return None
    if spec is None or spec.submodule_search_locations is None:
        return spec
    main = find_spec(f"{name}.__main__")
    if main is None:
        raise CannotRun(f"{name} is a package without a __main__ module. Name a module in it")
    return main


def _code_of(spec: ModuleSpec) -> Any:
    get_code = getattr(spec.loader, "get_code", None)
    return None if get_code is None else get_code(spec.name)


def _compile(source: str | bytes, file: str) -> CodeType:
    return compile(source, file, "exec", dont_inherit=True)


def _execute(code: Any, file: str | None, spec: ModuleSpec | None, loader: Any = None) -> None:
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __spec__=spec, __annotations__={})
    main.__package__ = None if spec is None else spec.parent
    if file is None:
        main.__loader__ = BuiltinImporter
    else:
        main.__dict__.update(__file__=file, __cached__=None)
        main.__loader__ = loader or (SourceFileLoader("__main__", file) if spec is None else spec.loader)
    # It stays there for what runs at exit.
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _exit_status_of(program: Callable[[], object], on_failure: OnFailure) -> int:
    try:
        program()
    except CannotRun:
        raise
    except SystemExit as stop:
        return _status(stop.code)
    except KeyboardInterrupt as error:
        # Left to Python, which ends the process by the signal once it has shown the traceback.
        clean(error)
        _show_as_is(error.__traceback__)
        raise
    except BaseException as error:
        clean(error)
        sys.excepthook(type(error), error, error.__traceback__)
        on_failure(error)
        return 1
    return 0


def _show_as_is(users: TracebackType | None) -> None:
    hook = sys.excepthook

    def show(error_type: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        error.__traceback__ = users
        hook(error_type, error, users)

    sys.excepthook = show


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1
