"""Where in the user's code an error arose, and what that code was reading: found from frames, not from messages."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from mpls.errors import NOT_THE_USERS
from mpls.tracebacks import frames_of

__all__ = ["Site", "original", "site_of"]

_SKIPPED = (*NOT_THE_USERS, "importlib")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_NAMES = (
    "LOAD_NAME",
    "LOAD_GLOBAL",
    "LOAD_FAST",
    "LOAD_DEREF",
    "LOAD_CLASSDEREF",
    "LOAD_FAST_CHECK",
    "LOAD_FAST_BORROW",
)
_CALLS = ("CALL", "CALL_FUNCTION", "CALL_METHOD", "PRECALL")
# Opcodes between the reads that have no effect on what is read.
_SHUFFLES = ("CACHE", "EXTENDED_ARG", "PUSH_NULL", "PRECALL", "KW_NAMES", "NOP", "RESUME", "COPY", "SWAP")
_MISSING: Any = object()


@dataclass(frozen=True)
class Site:
    """The innermost place in the user's code that an error passed through.

    Attributes:
        frame: its frame.
        offset: the bytecode offset at which the frame was.
        reads: the chain of attributes that is read here, including those after the failed one: for
            `tf.contrib.slim.x`, `("contrib", "slim", "x")`.
        base: the object that the first of them is read from; None if that is not a plain variable.
        is_call: whether the last of them was being called, without arguments.
        imports: the module that is imported here, and the names imported from it; `("", ())` if there is no import.
    """

    frame: FrameType
    offset: int
    reads: tuple[str, ...] = ()
    base: Any = None
    is_call: bool = False
    imports: tuple[str, tuple[str, ...]] = ("", ())

    def owner(self, attribute: str) -> Any:
        """Return the object that an attribute is read from here; None if it is not read, or the object is unknown."""
        if attribute not in self.reads or self.base is None:
            return None
        return _followed(self.base, self.reads[: self.reads.index(attribute)])

    @property
    def this(self) -> Any:
        """The first argument of the enclosing function, such as `self`; None if it has no arguments."""
        code = self.frame.f_code
        return self.frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None

    def owner_of_call(self, method: str) -> Any:
        """Return the object whose method was called here, or most recently before; None if it is unknown."""
        before = self._instructions()
        at = next((at for at in reversed(range(len(before))) if _reads(before[at], method)), None)
        if at is None:
            return None
        if before[at].opname.startswith("LOAD_SUPER") or _is_super(before[at - 1]):
            return self.this
        first = _first_of_chain(before, at)
        value = _value(self.frame, before[first - 1]) if first else None
        return _followed(value, [str(each.argval) for each in before[first:at]])

    def key_is_read_of(self, key: str, method: str) -> Any:
        """Return the object that a key is read from here, if it is a variable's value; else None.

        For a key that is read directly from the result of the method, called without arguments, return True.
        """
        before = self._instructions()
        if len(before) < 4 or not before[-1].opname.startswith("BINARY_") or before[-2].argval != key:
            return None
        if before[-3].opname in _CALLS:
            return not before[-3].arg and _reads(before[-4], method)
        return _value(self.frame, before[-3])

    def _instructions(self) -> list[dis.Instruction]:
        return [each for each in _instructions(self.frame.f_code) if each.offset <= self.offset]


def original(error: BaseException) -> BaseException:
    """Return the original error, for one that TensorFlow rewrote in a `tf.function`; any other error as it is."""
    is_rewritten = hasattr(error, "ag_error_metadata") or str(error).startswith("in user code:")
    return error.__context__ if is_rewritten and error.__context__ is not None else error


def site_of(error: BaseException) -> Site | None:
    """Return the innermost place in the user's code that an error passed through; None if there is none."""
    entries = frames_of(error.__traceback__)
    for entry in reversed(entries):
        module = str(entry.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _SKIPPED:
            return _described(entry.tb_frame, entry.tb_lasti)
    return None


def _described(frame: FrameType, offset: int) -> Site:
    instructions = _instructions(frame.f_code)
    before = [index for index, each in enumerate(instructions) if each.offset <= offset]
    at = before[-1] if before else 0
    if instructions[at].opname in ("IMPORT_NAME", "IMPORT_FROM"):
        return Site(frame, offset, imports=_imports(instructions, at))
    is_call, last = _called(instructions, at)
    if instructions[last].opname not in _ATTRIBUTES:
        return Site(frame, offset)
    first = _first_of_chain(instructions, last)
    end = last + 1
    while not is_call and end < len(instructions) and instructions[end].opname in _ATTRIBUTES:
        end += 1
    reads = tuple(str(each.argval) for each in instructions[first:end])
    base = _value(frame, instructions[first - 1]) if first else None
    return Site(frame, offset, reads, base, is_call)


def _first_of_chain(instructions: list[dis.Instruction], last: int) -> int:
    """Return the index of the first read in the chain of attribute reads that ends at `last`."""
    first = last
    while first > 0 and instructions[first - 1].opname in _ATTRIBUTES:
        first -= 1
    return first


def _reads(instruction: dis.Instruction, attribute: str) -> bool:
    is_read = instruction.opname in _ATTRIBUTES or instruction.opname.startswith("LOAD_SUPER")
    return is_read and instruction.argval == attribute


def _is_super(instruction: dis.Instruction) -> bool:
    # The call in `super().method` or `super(Class, self).method`.
    return instruction.opname in _CALLS and instruction.arg in (0, 2)


def _followed(value: Any, attributes: Sequence[str]) -> Any:
    for each in attributes:
        value = getattr(value, each, None)
    return value


def _called(instructions: list[dis.Instruction], at: int) -> tuple[bool, int]:
    """Return whether an instruction calls something without arguments, and the index of the last read before it."""
    if instructions[at].opname not in _CALLS:
        return False, at
    if not instructions[at].arg:
        return True, at - 1
    # AutoGraph calls `ag__.converted_call(function, args, kwargs, scope)`; here, without args and kwargs.
    arguments = [each.argval for each in instructions[max(at - 3, 0) : at]]
    return (True, at - 4) if arguments[:2] == [(), None] else (False, at)


def _instructions(code: CodeType) -> list[dis.Instruction]:
    found: list[dis.Instruction] = []
    for each in dis.get_instructions(code):
        if each.opname in _SHUFFLES:
            continue
        found.append(each)
        if each.opname in _CALLS and [one.argval for one in found[-4:-2]] == ["ag__", "ld"]:
            # AutoGraph reads a variable by `ag__.ld(variable)`.
            found[-4:] = [found[-2]]
    return found


def _imports(instructions: list[dis.Instruction], at: int) -> tuple[str, tuple[str, ...]]:
    while at > 0 and instructions[at].opname != "IMPORT_NAME":
        at -= 1
    names = []
    for each in instructions[at + 1 :]:
        if each.opname == "IMPORT_FROM":
            names.append(str(each.argval))
        elif not each.opname.startswith("STORE_"):
            break
    return str(instructions[at].argval), tuple(names)


def _value(frame: FrameType, instruction: dis.Instruction) -> Any:
    """Return the value that an instruction loads, if it loads a variable; else None."""
    if not instruction.opname.startswith(_NAMES):
        return None
    # Newer Pythons have instructions that load two variables at once.
    name = instruction.argval[-1] if isinstance(instruction.argval, tuple) else instruction.argval
    for scope in (frame.f_locals, frame.f_globals):
        value = scope.get(name, _MISSING)
        if value is not _MISSING:
            return value
    return None
