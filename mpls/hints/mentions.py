"""Whether a word occurs in the program: in its files, in the code that was running, or in a notebook's cells."""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FrameType

from mpls.errors import NOT_THE_USERS
from mpls.hints.exception_hooks import running_ipython
from mpls.hints.failures import Failure
from mpls.importing.user_code import is_users_file, may_mention
from mpls.tracebacks import frames_of

__all__ = ["mentions"]


def mentions(failure: Failure, words: Sequence[str], *, where_unknown: bool) -> bool:
    """Return whether any of some words occurs in the program that an error has ended.

    Args:
        failure: the error.
        words: the words.
        where_unknown: the answer if only a part of the program's source is known, and that part has none of them.
    """
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    frames = [frame for frame in _frames(failure) if _is_users(frame)]
    if any(map(pattern.search, (*_cells(), *_texts({frame.f_code for frame in frames})))):
        return True
    is_main_known = running_ipython() is not None or any(map(_is_main, frames))
    here = [failure.site.frame.f_code.co_filename]
    return may_mention(words, where_unknown=where_unknown and not is_main_known, also_in=here)


def _frames(failure: Failure) -> Iterator[FrameType]:
    """Yield the frames of an error's tracebacks, and those on the main thread's stack."""
    for error in (failure.shown, failure.error):
        yield from (entry.tb_frame for entry in frames_of(error.__traceback__))
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_users(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package not in NOT_THE_USERS and is_users_file(frame.f_code.co_filename)


def _is_main(frame: FrameType) -> bool:
    main = sys.modules.get("__main__")
    if hasattr(sys, "ps1"):
        # In an interactive session, the frame has only one statement of the program.
        return False
    return main is not None and frame.f_globals is vars(main) and frame.f_code.co_name == "<module>"


def _cells() -> Iterator[str]:
    """Yield the lines of code that `linecache` knows and no file has, such as the cells of a notebook."""
    # Entries of another length are lazy ones, which stand for files.
    for _, _, lines, name in [entry for entry in list(linecache.cache.values()) if len(entry) == 4]:
        if is_users_file(name) and not os.path.exists(name):
            yield from lines


def _texts(codes: Iterable[CodeType]) -> Iterator[str]:
    """Yield the names and strings in code objects, and in the functions and classes that they define."""
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        yield from (*code.co_names, *code.co_varnames, *code.co_cellvars)
        yield from (each for each in code.co_consts if isinstance(each, str))
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
