"""Shows what a migration does: as a diff, or as a report in text, JSON or HTML."""

from __future__ import annotations

import difflib
import html
import json
from collections.abc import Iterator, Sequence
from typing import Any

from mpls.errors import printable
from mpls.migrate.documents import Message, Result
from mpls.migrate.ruling import Kind

__all__ = ["REPORTS", "diff_of", "place", "results_as_dict", "summary"]

_COLORS = {"---": "\x1b[1m", "+++": "\x1b[1m", "@@": "\x1b[36m", "-": "\x1b[31m", "+": "\x1b[32m"}
_END = "\x1b[0m"
_CONTEXT = 3


def diff_of(result: Result, *, is_colored: bool) -> str:
    """Return what changes in a file as a unified diff; notebooks cell by cell."""
    lines: list[str] = []
    for part in result.parts:
        shown = printable(part.shown)
        before, after = part.before.splitlines(keepends=True), part.after.splitlines(keepends=True)
        for line in difflib.unified_diff(before, after, shown, shown, n=_CONTEXT):
            body = line.rstrip("\r\n")
            color = next((_COLORS[start] for start in _COLORS if body.startswith(start)), "") if is_colored else ""
            lines.append(f"{color}{_visible(body)}{_END if color else ''}")
            if not line.endswith(("\r", "\n")):
                lines.append("\\ No newline at end of file")
    return "\n".join(lines)


def _visible(line: str) -> str:
    """Return a line in which control characters, which could change a terminal, are escaped; tabs stay."""
    return "\t".join(printable(each) for each in line.split("\t"))


def place(result: Result, message: Message) -> str:
    """Return the address of a message: `train.py:3`, `old.ipynb:cell 2:3`."""
    cell = "" if message.cell is None else f"cell {message.cell}:"
    return f"{printable(result.path)}:{cell}{message.line}"


def summary(results: Sequence[Result], number: int, *, is_written: bool) -> str:
    """Return one line that says what has happened to how many files.

    Args:
        results: those of files of which there is something to say.
        number: how many files were looked at.
        is_written: whether changes were written.
    """
    changed = sum(result.is_changed for result in results)
    left = sum(message.kind is Kind.LEFT for result in results for message in result.messages)
    verb = "changed" if is_written else "would change"
    parts = [f"{changed} of {_count(number, 'file')} {verb}"]
    if left:
        parts.append(f"{_count(left, 'place')} left to you")
    unread = sum(bool(result.unread) for result in results)
    if unread:
        parts.append(f"{_count(unread, 'file')} not read")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def results_as_dict(results: Sequence[Result], number: int, *, is_written: bool) -> dict[str, Any]:
    """Return what a migration does as a JSON-able dict; `mpls docs migrate` describes it."""
    return {
        "summary": summary(results, number, is_written=is_written),
        "is_written": is_written,
        "looked_at": number,
        "files": [
            {
                "path": printable(result.path),
                "is_changed": result.is_changed,
                "unread": list(map(printable, result.unread)),
                "messages": [
                    {
                        "cell": message.cell,
                        "line": message.line,
                        "rule": message.rule,
                        "kind": message.kind.value,
                        "text": printable(message.text),
                    }
                    for message in result.messages
                ],
            }
            for result in results
        ],
    }


def _text(results: Sequence[Result], number: int, is_written: bool) -> str:
    lines = []
    for result in results:
        lines += [f"{printable(result.path)}: {printable(reason)}" for reason in result.unread]
        lines += [
            f"{place(result, message)}: {message.kind.value}: {printable(message.text)} [{message.rule}]"
            for message in result.messages
        ]
    return "\n".join([*lines, summary(results, number, is_written=is_written)])


def _json(results: Sequence[Result], number: int, is_written: bool) -> str:
    return json.dumps(results_as_dict(results, number, is_written=is_written), indent=2, allow_nan=False)


_STYLE = (
    "body{font-family:sans-serif;max-width:75em;margin:2em auto;padding:0 1em}pre{overflow:auto;background:#f6f6f6;"
    "padding:.7em}.add{background:#dfd}.del{background:#fdd}table{border-collapse:collapse}td,th{border:1px solid #ccc;"
    "padding:.2em .6em;text-align:left}.left{background:#ffd}"
)


def _html(results: Sequence[Result], number: int, is_written: bool) -> str:
    return "\n".join(_html_lines(results, number, is_written))


def _html_lines(results: Sequence[Result], number: int, is_written: bool) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8"><title>mpls migrate</title>'
    yield f"<style>{_STYLE}</style></head><body><h1>mpls migrate</h1>"
    yield f"<p>{html.escape(summary(results, number, is_written=is_written))}</p>"
    for result in results:
        yield f"<h2>{html.escape(printable(result.path))}</h2>"
        yield from (f"<p>{html.escape(printable(reason))}</p>" for reason in result.unread)
        if result.messages:
            yield "<table><tr><th>where</th><th>what</th><th>message</th><th>rule</th></tr>"
            for message in result.messages:
                cells = (place(result, message), message.kind.value, printable(message.text), message.rule)
                row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
                yield f'<tr class="{message.kind.value}">{row}</tr>'
            yield "</table>"
        if result.parts:
            lines = diff_of(result, is_colored=False).split("\n")
            yield f"<pre>{'<br>'.join(map(_html_line, lines))}</pre>"
    yield "</body></html>"


def _html_line(line: str) -> str:
    is_head = line.startswith(("---", "+++"))
    kind = "" if is_head else {"+": "add", "-": "del"}.get(line[:1], "")
    text = html.escape(line)
    return f'<span class="{kind}">{text}</span>' if kind else text


REPORTS = {"text": _text, "json": _json, "html": _html}
