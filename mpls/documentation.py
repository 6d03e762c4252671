"""`mpls docs`: the sections of MIGRATION.md, which messages refer to, and of SECURITY.md."""

from __future__ import annotations

import difflib
import os
import pydoc
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mpls.errors import printable

__all__ = ["Section", "docs", "nearest", "section_text", "sections"]

_HERE = Path(__file__).parent
_NAMES = ("MIGRATION.md", "SECURITY.md")


@dataclass(frozen=True)
class Section:
    """A section of a document.

    Attributes:
        anchor: its name in links and messages.
        title: its heading.
        level: the level of the heading; 1 is the document's title.
        lines: its lines, including the heading and nested sections.
    """

    anchor: str
    title: str
    level: int
    lines: tuple[str, ...]


def docs(anchor: str | None, show: Callable[[str], None] = print) -> int:
    """Show a section, or the list of sections, and return the exit status.

    Args:
        anchor: the section; None for the list.
        show: prints a text where there is no terminal.
    """
    text = _contents() if anchor is None else section_text(anchor)
    if text is None:
        near = nearest(anchor or "")
        advice = f"Nearest: {', '.join(near)}" if near else "mpls docs lists what there is"
        print(f"mpls docs: no section {printable(repr(anchor))}. {advice}", file=sys.stderr)
        return 2
    if sys.stdout.isatty():
        _page(text)
    else:
        show(text)
    return 0


def sections() -> list[Section]:
    """Return all sections, in the order of the documents.

    Example:
        >>> from mpls.documentation import sections
        >>> [section.title for section in sections() if section.anchor == "as-of"]
        ['as-of']
    """
    return [section for name in _NAMES for section in _sections_of(name)]


def _sections_of(name: str) -> list[Section]:
    # A wheel has the documents inside the package, a source tree beside it.
    path = next(path for path in (_HERE / name, _HERE.parent / name) if path.exists())
    lines = path.read_text(encoding="utf-8").splitlines()
    headings = []
    is_code = False
    for number, line in enumerate(lines):
        is_code ^= line.lstrip().startswith("```")
        found = None if is_code else re.match(r"(#+) (.+)", line)
        if found:
            headings.append((number, len(found[1]), found[2]))
    result = []
    for place, (start, level, title) in enumerate(headings):
        following = (each for each, other, _ in headings[place + 1 :] if other <= level)
        result.append(Section(_anchor(title), title, level, tuple(lines[start : next(following, len(lines))])))
    return result


def section_text(name: str) -> str | None:
    """Return the text of a section; None if there is no such section.

    Args:
        name: its anchor, as in messages: `"as-of"`, `"#as-of"` or `"MIGRATION.md#as-of"`.
    """
    anchor = _plain(name)
    return next(("\n".join(each.lines).rstrip() for each in sections() if each.anchor == anchor), None)


def nearest(name: str) -> Sequence[str]:
    """Return the anchors that are similar to a name, the most similar first."""
    anchors = [each.anchor for each in sections()]
    name = _plain(name)
    within = [anchor for anchor in anchors if name and name in anchor]
    return list(dict.fromkeys([*difflib.get_close_matches(name, anchors, 3, 0.5), *within]))[:5]


def _plain(name: str) -> str:
    return name.rpartition("#")[2].strip().lower()


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _contents() -> str:
    return "\n".join(f"{'  ' * (each.level - 1)}{each.anchor}" for each in sections())


def _page(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    if "NO_COLOR" not in os.environ and "PAGER" not in os.environ and "MANPAGER" not in os.environ:
        # Without -R, `less` would show the escape codes.
        os.environ.setdefault("LESS", "-RF")
        text = re.sub(r"^#+ .+$", "\033[1m\\g<0>\033[0m", text, flags=re.MULTILINE)
    pydoc.pager(text)
