"""Write the tables of historical names in MIGRATION.md from `mpls.names`; with `--check`, only say whether they are."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby

from mpls.names import NAMES, Name

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "MIGRATION.md"
BLOCK = re.compile(r"(?P<begin><!-- names: (?P<which>\w+) -->\n)(?P<body>.*?)(?P<end><!-- end of names -->)", re.DOTALL)
HEADER = "| the code says | TensorFlow | today | write |\n|---|---|---|---|\n"


def rows_of(which: str) -> Iterator[Name]:
    """Return the names of a table."""
    for name in NAMES:
        if not name.replacement:
            continue
        kind = "private" if name.is_private else "still" if name.last is None else "removed"
        if kind == which:
            yield name


def table_of(names: Iterable[Name]) -> str:
    """Return a table in Markdown, names of the same place and fate in one row."""
    lines = [HEADER]
    for (parent, releases, fate, home), group in groupby(names, _place):
        attributes = [name.attribute for name in group]
        rows = [name for name in NAMES if name.parent == parent and name.attribute in attributes]
        written = list(dict.fromkeys(name.replacement.rpartition(".")[2] for name in rows))
        same = len(written) > 1 and written == attributes
        replacement = f"{home}.{'…' if same else _braces(written)}"
        lines.append(f"| `{parent}.{_braces(attributes)}` | {releases} | {fate} | `{replacement}` |\n")
    return "".join(lines)


def _place(name: Name) -> tuple[str, str, str, str]:
    return name.parent, name.releases, name.fate, name.target.partition(":")[0]


def _braces(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else "{" + ",".join(parts) + "}"


def with_tables(text: str) -> str:
    """Return a document with its tables of names as they should be."""
    return BLOCK.sub(lambda block: block["begin"] + table_of(rows_of(block["which"])) + block["end"], text)


def main() -> int:
    """Write the tables, or check them; return the exit status."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        if text == with_tables(text):
            return 0
        print("The tables of names in MIGRATION.md are not those of mpls/names.py. Run scripts/names_table.py")
        return 1
    DOCUMENT.write_text(with_tables(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
