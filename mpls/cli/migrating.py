"""`mpls migrate`."""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Sequence

from mpls.cli.options import USAGE_ERROR
from mpls.cli.standard_output import INTERRUPTED, show, show_bytes
from mpls.errors import printable
from mpls.migrate.atomic_writing import ChangedMeanwhileError, Names, write_atomically
from mpls.migrate.collecting import collected
from mpls.migrate.documents import Result, migrate_content
from mpls.migrate.progress import with_progress
from mpls.migrate.reader import Reader
from mpls.migrate.rules import RULES
from mpls.migrate.ruling import Kind, Rule, Settings
from mpls.migrate.showing import REPORTS, diff_of, place, summary
from mpls.migrate.workers import default_jobs, results_of

__all__ = ["migrate"]

_WOULD_CHANGE = 1
_STANDARD_INPUT = "-"
_SHOWN_AS = "<stdin>"
# A notebook is a JSON object with this key.
_NOTEBOOK = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{.*"nbformat"\s*:', re.S)


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
    for result in with_progress(results, len(found.files), sys.stderr):
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
            _tell(f"mpls migrate: interrupted; {summary(written, len(found.files), is_written=True)}")
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
        show(diff_of(result, is_colored=is_colored))


def _end(results: Sequence[Result], number: int, options: argparse.Namespace) -> int:
    """Print the report, or what is left to the user and one line about the whole, and return the exit status."""
    if options.report and not (options.write and options.paths == [_STANDARD_INPUT]):
        show(REPORTS[options.report](results, number, options.write))
    else:
        for result in results:
            for reason in result.unread:
                _tell(f"mpls migrate: {printable(result.path)} {printable(reason)}")
            for message in result.messages:
                if message.kind is Kind.LEFT:
                    _tell(f"{place(result, message)}: {message.text} [{message.rule}]")
        _tell(f"mpls migrate: {summary(results, number, is_written=options.write)}")
    if any(result.unread for result in results):
        return USAGE_ERROR
    return _WOULD_CHANGE if options.check and any(result.is_changed for result in results) else 0


def _tell(text: str) -> None:
    print(printable(text), file=sys.stderr)
