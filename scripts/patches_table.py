"""Writes the table of what mpls changes in others into CONTRIBUTING.md, from `mpls.patches.changes`."""

from __future__ import annotations

import pathlib

from mpls.patches.changes import table

PATH = pathlib.Path(__file__).parents[1] / "CONTRIBUTING.md"
BEGIN, END = "<!-- patches -->\n", "<!-- /patches -->\n"


def main() -> None:
    """Replace what stands between the two marks."""
    before, _, rest = PATH.read_text().partition(BEGIN)
    PATH.write_text(before + BEGIN + table() + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
