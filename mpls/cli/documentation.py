"""`mpls docs`."""

from __future__ import annotations

import os
import pydoc
import re
import sys

from mpls.documentation import nearest, section_text, sections
from mpls.errors import printable

__all__ = ["docs"]


def docs(anchor: str | None) -> int:
    """Show a section of MIGRATION.md, or the list of sections, and return the exit status."""
    text = _contents() if anchor is None else section_text(anchor)
    if text is None:
        near = nearest(anchor or "")
        advice = f"Nearest: {', '.join(near)}" if near else "mpls docs lists what there is"
        print(f"mpls docs: no section {printable(repr(anchor))}. {advice}", file=sys.stderr)
        return 2
    try:
        _show(text)
    except BrokenPipeError:
        # The reader closed the pipe; keep Python from complaining about it when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _contents() -> str:
    return "\n".join(f"{'  ' * (each.level - 1)}{each.anchor}" for each in sections())


def _show(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    if not sys.stdout.isatty():
        print(text, flush=True)
        return
    if "NO_COLOR" not in os.environ and "PAGER" not in os.environ and "MANPAGER" not in os.environ:
        # Without -R, `less` would show the escape codes.
        os.environ.setdefault("LESS", "-RF")
        text = re.sub(r"^#+ .+$", "\033[1m\\g<0>\033[0m", text, flags=re.MULTILINE)
    pydoc.pager(text)
