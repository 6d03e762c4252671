"""Runs a program as `python` would, with the historical names put back."""

from __future__ import annotations

import builtins
import linecache
import os
import runpy
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER, find_spec
from types import ModuleType
from typing import Any

from mpls.ending import OnFailure, exit_status_of
from mpls.source_code import compile_source

__all__ = ["CannotRun", "run_code", "run_module", "run_script", "run_standard_input"]


class CannotRun(Exception):
    """There is no program under the given name.

    Attributes:
        status: the exit status that `python` has in this case.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def run_script(path: str, args: Sequence[str], on_failure: OnFailure) -> int:
    """Run a script, or a directory or zip file with a `__main__` module, as `python PATH ARGS` does.

    Args:
        path: the file; if there is none, the name of a command that is a Python script, such as `jupyter-execute`.
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
    file = _absolute(path)
    # A directory or zip file runs its `__main__` module.
    spec = PathFinder.find_spec("__main__", [file])
    if spec is not None:
        _set_path(file, even_if_safe=True)
        return _exit_status_of(lambda: _execute(_code_of(spec), spec.origin or file, spec), on_failure)
    if os.path.isdir(path):
        raise CannotRun(f"no __main__ module in the directory {path}. Give the path of a Python file in it")
    content = _read(path)
    # For a link, Python finds the modules beside the file that it points to.
    _set_path(os.path.dirname(os.path.realpath(file)))
    if path.endswith(".pyc") or content.startswith(MAGIC_NUMBER):
        return _run_compiled(file, content, on_failure)
    return _exit_status_of(lambda: _execute(compile_source(content, file), file, None), on_failure)


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
    """Run code that is given as a string, as `python -c SOURCE ARGS` does.

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
        code = compile_source(source, "<string>")
        # From Python 3.13 on, tracebacks show the lines of such code; 3.13.0 looks them up by the file name.
        key = code if hasattr(linecache, "_interactive_cache") else "<string>"
        getattr(linecache, "_register_code", _no_lines)(key, source, "<string>")
        _execute(code, None, None)

    return _exit_status_of(execute, on_failure)


def run_standard_input(source: bytes, args: Sequence[str], on_failure: OnFailure) -> int:
    """Run code read from standard input, as `python - ARGS` does if that is a file or a pipe.

    Args:
        source: the code that was read.
        args: what the program finds in `sys.argv` after `-`.
        on_failure: gets the error that the program ends in, if it ends in one.

    Returns:
        The exit status.
    """
    sys.argv = ["-", *args]
    _set_path("")
    return _exit_status_of(
        lambda: _execute(compile_source(source, "<stdin>"), "<stdin>", None, BuiltinImporter), on_failure
    )


def _command(name: str) -> str:
    """Return the path of a command that is a Python script."""
    found = None if os.path.dirname(name) else shutil.which(name)
    if found is not None:
        with open(found, "rb") as file:
            start = file.read(200)
        if start.startswith(b"#!") and b"python" in start:
            return found
    raise CannotRun(f"no such script: {name}. Give the path of a Python file, or -m and the name of a module", status=2)


def _absolute(path: str) -> str:
    """Return a path as programs see it in `__file__`: `/folder/./program.py` on Linux, and links are not resolved."""
    if os.name == "nt":
        return os.path.abspath(path)
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        return path
    is_folder = path == "." and sys.version_info >= (3, 11)
    return folder if is_folder else os.path.join(folder, path)


def _no_lines(*_: object) -> None:
    pass


def _set_path(folder: str, *, even_if_safe: bool = False) -> None:
    """Replace the folder of mpls by the program's own at the start of `sys.path`."""
    # With -P, `sys.path` has neither, except when a directory or zip file is run.
    if not _is_path_safe():
        sys.path[0] = folder
    elif even_if_safe:
        sys.path.insert(0, folder)


def _is_path_safe() -> bool:
    """Return whether Python was told not to look for modules in the program's folder (-P, -I)."""
    # Before Python 3.11, there is only -I.
    return bool(getattr(sys.flags, "safe_path", sys.flags.isolated))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}", status=2) from None


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
    if name.startswith("."):
        raise CannotRun(f"{name} is a relative name, and there is no package that it could be in. Give the whole name")
    spec = _spec_of(name)
    if spec is None or spec.loader is None:
        raise CannotRun(f"no module named {name}. {_where_modules_are()}")
    code = _code_of(spec)
    if code is None:
        raise CannotRun(f"{name} is no module of Python code")
    sys.argv = [spec.origin or name, *args]
    _execute(code, spec.origin, spec)


def _where_modules_are() -> str:
    if _is_path_safe():
        return "It is not looked for in the current directory, as PYTHONSAFEPATH, or -P or -I of python, says"
    return "It is looked for from the current directory, as python -m does"


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        # A parent package of the module failed to import another module.
        raise
    except ValueError:
        return None
    if spec is None or spec.submodule_search_locations is None:
        _warn_if_loaded(name)
        return spec
    main = _spec_of(f"{name}.__main__")
    if main is None:
        raise CannotRun(f"{name} is a package without a __main__ module. Name a module in it")
    return main


def _warn_if_loaded(name: str) -> None:
    """Warn, in the words of `python -m`, that the module was already imported by its package and runs twice."""
    package = name.rpartition(".")[0]
    if package and sys.modules.get(name) is not None:
        message = (
            f"{name!r} found in sys.modules after import of package {package!r}, but prior to execution of {name!r}; "
            "this may result in unpredictable behaviour"
        )
        code = runpy.run_module.__code__
        warnings.warn_explicit(message, RuntimeWarning, code.co_filename, code.co_firstlineno, "runpy")


def _code_of(spec: ModuleSpec) -> Any:
    get_code = getattr(spec.loader, "get_code", None)
    return None if get_code is None else get_code(spec.name)


def _execute(code: Any, file: str | None, spec: ModuleSpec | None, loader: Any = None) -> None:
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __spec__=spec, __annotations__={})
    main.__package__ = None if spec is None else spec.parent
    if file is None:
        main.__loader__ = BuiltinImporter
    else:
        main.__dict__.update(__file__=file, __cached__=None if spec is None else spec.cached)
        main.__loader__ = loader or (SourceFileLoader("__main__", file) if spec is None else spec.loader)
    # It is left there for functions that run at exit.
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _exit_status_of(program: Callable[[], object], on_failure: OnFailure) -> int:
    return exit_status_of(program, on_failure, CannotRun)
