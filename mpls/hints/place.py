"""Where in the user's code an error arose, what the source says there, and what it says about the whole program."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import FrameType, TracebackType
from typing import Any, TypeVar

from mpls.errors import NOT_THE_USERS
from mpls.importing.user_code import is_users_file
from mpls.program.files import MAX_BYTES_OF_RUN
from mpls.program.programs import Reading, Tree

__all__ = ["Place", "SourceOfProgram", "frames_of", "package_of"]

_Node = TypeVar("_Node", ast.Attribute, ast.Call, ast.Subscript, ast.Import, ast.ImportFrom, ast.Raise)


@dataclass(frozen=True)
class Place:
    """The innermost place in the user's code that an error passed through.

    Attributes:
        frame: its frame.
        file: the file that has its source; for a function that AutoGraph converted, the user's file.
        line: the line there.
    """

    frame: FrameType
    file: str
    line: int

    @staticmethod
    def of(error: BaseException, shown: BaseException) -> Place | None:
        """Return the place of an error; None if no frame is the user's.

        Args:
            error: the error.
            shown: the error as it is shown; TensorFlow has rewritten it if it arose in a `tf.function`.
        """
        places = [
            Place(entry.tb_frame, entry.tb_frame.f_code.co_filename, entry.tb_lineno)
            for entry in _entries(error.__traceback__)
            if package_of(entry.tb_frame) not in (*NOT_THE_USERS, "importlib")
        ]
        stack = getattr(getattr(shown, "ag_error_metadata", None), "translated_stack", ())
        # From the inside to the outside.
        converted = [each for each in stack if each.is_converted]
        if places and converted and "__autograph_generated_file" in places[-1].file:
            return Place(places[-1].frame, converted[0].filename, converted[0].lineno)
        return places[-1] if places else None

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the file; an empty one if its source is unknown."""
        lines = linecache.getlines(self.file, self.frame.f_globals)
        try:
            return ast.parse("".join(lines) or (_code_of_command() if self.file == "<string>" else ""))
        except SyntaxError:
            return ast.Module([], [])

    def nodes(self, kind: type[_Node]) -> Iterator[_Node]:
        """Yield the expressions or statements of a kind that the line belongs to."""
        for node in ast.walk(self.tree):
            if isinstance(node, kind) and node.lineno <= self.line <= (node.end_lineno or node.lineno):
                yield node

    def owners(self, method: str, *, with_arguments: bool) -> list[ast.expr]:
        """Return the objects whose method is called here; for `__init__`, the classes of which objects are made."""
        calls = [each for each in self.nodes(ast.Call) if bool(each.args or each.keywords) is with_arguments]
        if method == "__init__":
            return [each.func for each in calls]
        functions = [each.func for each in calls]
        return [each.value for each in functions if isinstance(each, ast.Attribute) and each.attr == method]

    def value(self, node: ast.expr) -> Any:
        """Return the value of a variable or of an attribute of one; None for any other expression, and if it has none.

        For `super()`, return the object whose method it is in.
        """
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return None if owner is None else getattr(owner, node.attr, None)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            return self.this
        if not isinstance(node, ast.Name):
            return None
        return self.frame.f_locals.get(node.id, self.frame.f_globals.get(node.id))

    @property
    def raises(self) -> bool:
        """Whether the program itself raises an error here."""
        return any(True for _ in self.nodes(ast.Raise))

    @property
    def this(self) -> Any:
        """The first argument of the enclosing function, such as `self`; None if it has no arguments."""
        code = self.frame.f_code
        return self.frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


class SourceOfProgram:
    """What the source of the running program says about the options that it needs.

    Args:
        place: where an error arose. Where the main module shows no option, the file of the place and what it imports
            count as the program.
    """

    def __init__(self, place: Place) -> None:
        main = sys.modules.get("__main__")
        files = {os.path.abspath(each): None for each in (getattr(main, "__file__", None), place.file) if each}
        # IPython and notebooks have the cells in `In`.
        cells = getattr(main, "In", ()) if hasattr(main, "get_ipython") else ()
        text = "\n".join(cells) or _code_of_command()
        tree = Tree()
        programs = [tree.code(text, "code", max_bytes=MAX_BYTES_OF_RUN)] if text else []
        own = [each for each in files if is_users_file(each) and os.path.isfile(each)]
        programs += [tree.script(each, max_bytes=MAX_BYTES_OF_RUN) for each in own]
        self._readings = [Reading(each) for each in programs]
        self._signs = [sign for reading in self._readings for sign in reading.signs]

    def has(self, about: str, value: int | None = None) -> bool:
        """Return whether a line shows something about an option, or that the option needs a value."""
        return any(sign.about == about and value in (None, sign.value) for sign in self._signs)

    def lines_about(self, word: str, file: str) -> set[int]:
        """Return the lines of a file that show an option by a use of something, by a word of its name."""
        of_word = [sign.where for sign in self._signs if word in sign.what]
        return {each.line for each in of_word if os.path.realpath(each.file) == os.path.realpath(file)}

    def choices(self, keras: int | None) -> dict[str, bool | int | str]:
        """Return the options that `mpls run` would choose.

        Args:
            keras: the generation of Keras that is given; None to choose it too.
        """
        decided = (reading.decide(keras).choices for reading in self._readings)
        return {each.option: each.value for each in next(filter(None, decided), ())}


def package_of(frame: FrameType) -> str:
    """Return the package that a frame's code belongs to."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def frames_of(error: BaseException) -> list[FrameType]:
    """Return the frames of an error's traceback, outermost first."""
    return [entry.tb_frame for entry in _entries(error.__traceback__)]


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _code_of_command() -> str:
    """Return the code of `python -c CODE`; "" if the process was started in another way."""
    is_command = sys.argv[:1] == ["-c"] and "-c" in sys.orig_argv
    return sys.orig_argv[sys.orig_argv.index("-c") + 1] if is_command else ""
