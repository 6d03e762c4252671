"""`mpls migrate`."""

from __future__ import annotations

import argparse
import difflib
import html
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from mpls.cli.options import USAGE_ERROR
from mpls.cli.standard_output import INTERRUPTED, show, show_bytes
from mpls.errors import printable
from mpls.migrate.files import (
    ChangedMeanwhileError,
    Message,
    Names,
    Reader,
    Result,
    collected,
    default_jobs,
    migrate_content,
    results_of,
    write_atomically,
)
from mpls.migrate.rules import RULES
from mpls.migrate.ruling import Kind, Rule, Settings
from mpls.report import with_progress

__all__ = ["migrate"]

_WOULD_CHANGE = 1
# Fewer files are done before one could look at a progress bar.
_FEW = 200
_STANDARD_INPUT = "-"
_SHOWN_AS = "<stdin>"
# A notebook is a JSON object with this key.
_NOTEBOOK = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{.*"nbformat"\s*:', re.S)
_COLORS = {"---": "\x1b[1m", "+++": "\x1b[1m", "@@": "\x1b[36m", "-": "\x1b[31m", "+": "\x1b[32m"}
_END = "\x1b[0m"
_CONTEXT = 3


def migrate(options: argparse.Namespace) -> int:
    """Migrate files, and return the exit status."""
    if options.list_rules:
        show(_rules_text())
        return 0
    reason = _misused(options)
    if reason:
        print(f"mpls migrate: {reason}", file=sys.stderr)
        return USAGE_ERROR
    rules = frozenset(rule.name for rule in _chosen(options.only, options.skip))
    settings = Settings(rules, options.as_of, options.keras, options.to == "native")
    if options.paths == [_STANDARD_INPUT]:
        return _standard_input(settings, options)
    found = collected(options.paths)
    kept: list[Result] = [Result(path, unread=(reason,)) for path, reason in found.missing]
    results = results_of(found.files, settings, options.jobs or default_jobs())
    for result in with_progress(results, len(found.files), sys.stderr, few=_FEW):
        if result.is_changed or result.messages or result.unread:
            kept.append(result)
            if not (options.report or options.write):
                _show_diff(result)
    if options.write:
        # Not before all are read: what a name means in one file may depend on another.
        written: list[Result] = []
        names: Names = {}
        try:
            for result in kept:
                written.append(_written(result, names))
        except KeyboardInterrupt:
            _tell(f"mpls migrate: interrupted; {_summary(written, len(found.files), is_written=True)}")
            return INTERRUPTED
        kept = written
    return _end(kept, len(found.files), options)


def _misused(options: argparse.Namespace) -> str:
    """Return what is wrong with the options; "" if nothing is."""
    names = {rule.name for rule in RULES}
    unknown = sorted({*options.only, *options.skip} - names)
    if unknown:
        return f"there is no rule {', '.join(map(repr, unknown))}; mpls migrate --list-rules lists them"
    if not options.paths:
        return "give a path, or - for standard input; see mpls migrate --help"
    if _STANDARD_INPUT in options.paths and len(options.paths) > 1:
        return "give - alone: standard input is one program"
    return ""


def _chosen(only: Sequence[str], skip: Sequence[str]) -> list[Rule]:
    return [rule for rule in RULES if (not only or rule.name in only) and rule.name not in skip]


def _rules_text() -> str:
    lines = []
    for rule in RULES:
        lines += [rule.name, textwrap.indent(rule.text.strip(), "    "), ""]
    return "\n".join(lines).rstrip()


def _standard_input(settings: Settings, options: argparse.Namespace) -> int:
    content = b"" if sys.stdin is None else sys.stdin.buffer.read()
    shown_as = f"{_SHOWN_AS}.ipynb" if _NOTEBOOK.match(content) else _SHOWN_AS
    result = migrate_content(content, shown_as, Reader(settings), has_folder=False)
    if options.write and not options.check:
        # What cannot be read goes through as it came.
        show_bytes(content if result.after is None else result.after)
    elif not options.report:
        _show_diff(result)
    return _end([result] if result.is_changed or result.messages or result.unread else [], 1, options)


def _written(result: Result, names: Names) -> Result:
    """Write a file, and return what became of it."""
    if result.after is None:
        return result
    try:
        write_atomically(result.path, result.before, result.after, names)
    except ChangedMeanwhileError as error:
        return Result(result.path, unread=(str(error),))
    except OSError as error:
        return Result(result.path, unread=(f"cannot be written: {error.strerror}",))
    return result


def _show_diff(result: Result) -> None:
    is_colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    if result.parts:
        show(_diff_of(result, is_colored=is_colored))


def _end(results: Sequence[Result], number: int, options: argparse.Namespace) -> int:
    """Print the report, or what is left to the user and one line about the whole, and return the exit status."""
    if options.report and not (options.write and options.paths == [_STANDARD_INPUT]):
        show(_REPORTS[options.report](results, number, options.write))
    else:
        for result in results:
            for reason in result.unread:
                _tell(f"mpls migrate: {printable(result.path)} {printable(reason)}")
            for message in result.messages:
                if message.kind is Kind.LEFT:
                    _tell(f"{_place(result, message)}: {message.text} [{message.rule}]")
        _tell(f"mpls migrate: {_summary(results, number, is_written=options.write)}")
    if any(result.unread for result in results):
        return USAGE_ERROR
    return _WOULD_CHANGE if options.check and any(result.is_changed for result in results) else 0


def _tell(text: str) -> None:
    print(printable(text), file=sys.stderr)


# What is shown.


def _diff_of(result: Result, *, is_colored: bool) -> str:
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


def _place(result: Result, message: Message) -> str:
    """Return the address of a message: `train.py:3`, `old.ipynb:cell 2:3`."""
    cell = "" if message.cell is None else f"cell {message.cell}:"
    return f"{printable(result.path)}:{cell}{message.line}"


def _summary(results: Sequence[Result], number: int, *, is_written: bool) -> str:
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


def _results_as_dict(results: Sequence[Result], number: int, *, is_written: bool) -> dict[str, Any]:
    """Return what a migration does as a JSON-able dict; `mpls docs migrate` describes it."""
    return {
        "summary": _summary(results, number, is_written=is_written),
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
            f"{_place(result, message)}: {message.kind.value}: {printable(message.text)} [{message.rule}]"
            for message in result.messages
        ]
    return "\n".join([*lines, _summary(results, number, is_written=is_written)])


def _json(results: Sequence[Result], number: int, is_written: bool) -> str:
    return json.dumps(_results_as_dict(results, number, is_written=is_written), indent=2, allow_nan=False)


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
    yield f"<p>{html.escape(_summary(results, number, is_written=is_written))}</p>"
    for result in results:
        yield f"<h2>{html.escape(printable(result.path))}</h2>"
        yield from (f"<p>{html.escape(printable(reason))}</p>" for reason in result.unread)
        if result.messages:
            yield "<table><tr><th>where</th><th>what</th><th>message</th><th>rule</th></tr>"
            for message in result.messages:
                cells = (_place(result, message), message.kind.value, printable(message.text), message.rule)
                row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
                yield f'<tr class="{message.kind.value}">{row}</tr>'
            yield "</table>"
        if result.parts:
            lines = _diff_of(result, is_colored=False).split("\n")
            yield f"<pre>{'<br>'.join(map(_html_line, lines))}</pre>"
    yield "</body></html>"


def _html_line(line: str) -> str:
    is_head = line.startswith(("---", "+++"))
    kind = "" if is_head else {"+": "add", "-": "del"}.get(line[:1], "")
    text = html.escape(line)
    return f'<span class="{kind}">{text}</span>' if kind else text


_REPORTS = {"text": _text, "json": _json, "html": _html}
