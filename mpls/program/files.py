"""Files on disk: which there are, what is in them, and the folders that they add to the search path."""

from __future__ import annotations

import ast
import contextlib
import gc
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import decode_source
from types import MappingProxyType

from mpls.errors import printable

# Limits for a program and for one file: counts rather than time, so that the result is always the same.
MAX_FILES = 400
MAX_BYTES = 1_500_000
MAX_FILE_BYTES = 1_000_000
# `mpls run` reads this much before a program runs, which takes at most 0.3 seconds.
MAX_BYTES_OF_RUN = 500_000

# What the parser raises for what is not Python 3, and decoding beside that.
BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError)
UNREADABLE = (*BROKEN, UnicodeError, LookupError)
_NOT_THE_USERS = ("__pycache__", "node_modules", "site-packages", "dist-packages")
_PARENT = {"pardir": os.pardir, "curdir": os.curdir}
# Functions and methods that keep a path or make it absolute; all paths are made absolute in the end.
_SAME = ("abspath", "realpath", "normpath", "str", "Path", "PosixPath", "PurePath", "fspath", "expanduser")
_SAME_METHODS = ("resolve", "absolute", "as_posix", "expanduser", "__str__")
# The most operations of an expression whose value is looked for. Generated code has sums of thousands of terms.
_MOST_STEPS = 50


def current_folder() -> str:
    """Return the current directory; "" if it is gone, where relative paths lead nowhere."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def absolute(path: str) -> str:
    """Return a path from the root; one that is relative stays so where the current directory is gone."""
    return os.path.normpath(os.path.join(current_folder(), path))


def missing(path: str) -> str:
    """Return why a path is not there, as text that follows the path."""
    is_gone = not os.path.isabs(path) and not current_folder()
    return "is not there: the current directory is gone" if is_gone else "is not there"


class Folder:
    """A folder in which modules are looked for.

    Args:
        path: the folder.
        contents: what files have in place of what is on disk, by their real paths.
    """

    def __init__(self, path: str, contents: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self.path = path
        self.contents = contents

    def read(self, relative: str) -> bytes | None:
        """Return up to MAX_FILE_BYTES + 1 bytes of a file; None if there is no such regular file."""
        path = os.path.join(self.path, relative)
        # Reading a pipe would consume the data that the program wants to read.
        if not os.path.isfile(path):
            return None
        if self.contents and os.path.realpath(path) in self.contents:
            return self.contents[os.path.realpath(path)]
        try:
            with open(path, "rb") as file:
                return file.read(MAX_FILE_BYTES + 1)
        except OSError:
            return None

    def shown(self, relative: str) -> str:
        """Return the path of a file to show to users: relative to the current directory, if it is inside it."""
        path = os.path.join(self.path, relative)
        here = os.path.join(current_folder(), "")
        return printable(absolute(path).removeprefix(here))


def parse(content: bytes | str) -> ast.Module:
    """Parse a file, decoded as Python does, without the warnings of Python's parser.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is not valid Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The parser takes bytes that are not of the file's encoding, where Python refuses the file.
        return ast.parse(content if isinstance(content, str) else decode_source(content))


def parser_message(error: Exception) -> str:
    """Return what to say of a file, or a part of one, that `parse` refused with an error."""
    return f"is not Python 3: {printable(str(error).replace('(<unknown>, line', '(line'))}"


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Turn the garbage collector off for a block; traversing the syntax trees would take time and free nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def files(folder: str, ending: str | tuple[str, ...], unread: Callable[[OSError], None] | None = None) -> Iterator[str]:
    """Yield the files in a folder and its subfolders, except hidden folders, installed packages and environments.

    Args:
        folder: a path.
        ending: the end of the files' names, or some ends.
        unread: gets the error for each folder that cannot be read; by default those are left out.
    """
    for where, folders, names in os.walk(folder, onerror=unread):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _NOT_THE_USERS
            and not os.path.exists(os.path.join(where, name, "pyvenv.cfg"))
        ]
        yield from (os.path.join(where, name) for name in names if name.endswith(ending))


def folders_added(tree: ast.Module, file: str) -> list[str]:
    """Return the folders that a file adds to `sys.path` when it is imported, as far as its source shows them."""
    reading = _Reading(file)
    reading.body(tree.body)
    return reading.folders


class _Reading:
    def __init__(self, file: str) -> None:
        self._known = {"__file__": file}
        self.folders: list[str] = []

    def body(self, body: Iterable[ast.stmt]) -> None:
        for each in body:
            if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
                path = self._path(each.value)
                if path is not None:
                    self._known[each.targets[0].id] = path
            elif isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
                self.folders += [absolute(path) for path in self._added(each.value)]
            elif isinstance(each, ast.If | ast.Try | ast.With):
                self.body(each.body)

    def _added(self, call: ast.Call) -> Iterator[str]:
        """Yield what a call of `sys.path.insert`, `.append` or `.extend` adds."""
        function = call.func
        holder = function.value if isinstance(function, ast.Attribute) else None
        if not (isinstance(function, ast.Attribute) and isinstance(holder, ast.Attribute) and holder.attr == "path"):
            return
        if not isinstance(holder.value, ast.Name) or holder.value.id != "sys" or not call.args:
            return
        value = call.args[-1]
        if function.attr in ("insert", "append", "extend"):
            values = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            yield from filter(None, map(self._path, values))

    def _path(self, node: ast.expr, left: int = _MOST_STEPS) -> str | None:
        """Return the path that an expression evaluates to; None if the source does not show it in so many steps."""
        if not left:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Attribute):
            path = self._path(node.value, left - 1)
            return os.path.dirname(path) if node.attr == "parent" and path else _PARENT.get(node.attr)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
            start, end = self._path(node.left, left - 1), self._path(node.right, left - 1)
            if start is None or end is None:
                return None
            return os.path.join(start, end) if isinstance(node.op, ast.Div) else start + end
        if isinstance(node, ast.Subscript):
            return self._of_parents(node, left - 1)
        return self._called(node, left - 1) if isinstance(node, ast.Call) else None

    def _of_parents(self, node: ast.Subscript, left: int) -> str | None:
        """Return the path that an expression like `path.parents[2]` evaluates to; None if it is unknown."""
        count = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(node.value, ast.Attribute) or node.value.attr != "parents" or not isinstance(count, int):
            return None
        path = self._path(node.value.value, left)
        for _ in range(min(count, 50) + 1):
            path = os.path.dirname(path) if path is not None else None
        return path

    def _called(self, node: ast.Call, left: int) -> str | None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name == "getcwd":
            return current_folder()
        if name in _SAME_METHODS and isinstance(function, ast.Attribute) and not node.args:
            return self._path(function.value, left)
        parts = [self._path(each, left) for each in node.args]
        if not parts or any(part is None for part in parts):
            return None
        if name == "join":
            return os.path.join(*map(str, parts))
        if name == "dirname":
            # Relative paths are relative to the current directory.
            return os.path.dirname(absolute(str(parts[0])))
        return parts[0] if name in _SAME and len(parts) == 1 else None
