"""Writes what `mpls migrate` says of each case: `python -m tests.migrate.messages`, to read the difference and commit it."""

from __future__ import annotations

import json
import pathlib

from .cases import CASES, Case
from .migrating import messages

FILE = pathlib.Path(__file__).parent / "data" / "messages.json"


def lines_about(case: Case) -> list[str]:
    """Return a line for each message about a case: its line, kind, rule and text."""
    return ["{line} {kind} {rule}: {text}".format(**each) for each in messages(case.before, *case.options)]


if __name__ == "__main__":
    found = {name: lines_about(case) for name, case in CASES.items()}
    FILE.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
