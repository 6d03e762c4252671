"""Reads which TensorFlow releases a program's requirements.txt and similar files ask for."""

from __future__ import annotations

import re

from mpls.names import RELEASES
from mpls.reading.signs import FIRST, LAST
from mpls.reading.sources import Program
from mpls.reading.uses import Release, Sign, Where

__all__ = ["pins_of"]

_FILES = (
    "requirements.txt",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "environment.yml",
    "environment.yaml",
    "Pipfile",
)
_SPEC = r"(?:===?|<=?|>=?|~=|=)\s*[\"']?\d[\d.]*(?:\.\*)?"
# A requirement of TensorFlow, except one with an environment marker after a semicolon.
_PIN = re.compile(
    rf"(?<![\w./-])tensorflow(?:-gpu|-cpu)?(?:\[[\w,-]+\])?[\"']?\s*({_SPEC}(?:\s*,\s*{_SPEC})*)(?![^\"'\n]*;)", re.I
)
_EACH = re.compile(r"(===?|<=?|>=?|~=|=)\s*[\"']?(\d[\d.]*)(\.\*)?")
_RELEASES: tuple[Release, ...] = tuple((int(a), int(b)) for a, b in (each.split(".") for each in RELEASES))


def pins_of(program: Program) -> list[Sign]:
    """Return signs of the releases that files beside a program pin; none if the pins contradict each other."""
    signs = []
    for folder in program.sources[0].roots if program.sources else ():
        for name in _FILES:
            text = (folder.read(name) or b"").decode("utf-8", "replace")
            for number, line in enumerate(text.splitlines(), 1):
                match = _PIN.search(line.partition("#")[0])
                if match is not None:
                    found = Where(folder.shown(name), number)
                    signs.append(Sign("release", _releases(match[1]), found, f"has {' '.join(match[0].split())}"))
    first = max((sign.value[0] for sign in signs if isinstance(sign.value, tuple)), default=FIRST)
    last = min((sign.value[1] for sign in signs if isinstance(sign.value, tuple)), default=LAST)
    return signs if first <= last else []


def _releases(specs: str) -> tuple[Release, Release]:
    first, last = FIRST, LAST
    for comparison, version, _ in _EACH.findall(specs):
        parts = [int(part) for part in version.split(".") if part]
        release = (parts[0], parts[1] if len(parts) > 1 else 0)
        if comparison in ("==", "===", "=", "~="):
            is_minor = len(parts) > 1 and (comparison != "~=" or len(parts) > 2)
            first, last = max(first, release), min(last, release if is_minor else (parts[0], 99))
        elif comparison in (">", ">="):
            first = max(first, release)
        elif comparison == "<=" or any(parts[2:]):
            last = min(last, release)
        else:
            last = min(last, max((each for each in _RELEASES if each < release), default=FIRST))
    return first, last
