"""Tracebacks as `python` would show them: without the frames of mpls that run the program and put names back."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import TracebackType

__all__ = ["clean", "frames_of"]

_HERE = os.path.join(Path(__file__).parent, "")
# Files of mpls whose frames are hidden: they run the program, or serve its imports and attribute reads. Other frames of
# mpls stay, since they help to understand its errors.
_BETWEEN = tuple(_HERE + name for name in ("importing", "cli", "children", "patches", "run.py"))
_FROZEN_IMPORTS = "<frozen importlib._bootstrap"
_IMPORT_MODULE = importlib.__file__


def clean(error: BaseException) -> None:
    """Remove the frames of mpls that run programs or put names back, from the tracebacks of an error and its causes."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _cleaned(each.__traceback__)
        waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def frames_of(traceback: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback, outermost first."""
    found = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


def _cleaned(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and _file_of(traceback).startswith(_HERE):
        traceback = traceback.tb_next
    entries = frames_of(traceback)
    if not any(_file_of(entry).startswith(_BETWEEN) for entry in entries):
        return traceback
    kept: list[TracebackType] = []
    is_between = False
    for entry in entries:
        file = _file_of(entry)
        # Python hides the frames of its import system itself, but not if frames of mpls are among them.
        is_import = file.startswith(_FROZEN_IMPORTS) or (is_between and file == _IMPORT_MODULE)
        is_between = is_import or file.startswith(_BETWEEN)
        if not is_between:
            kept.append(entry)
    for entry, following in zip(kept, [*kept[1:], None], strict=True):
        entry.tb_next = following
    return kept[0] if kept else None


def _file_of(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename
