"""`mpls migrate`."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mpls.cli.options import USAGE_ERROR
from mpls.cli.standard_output import INTERRUPTED, show, show_bytes
from mpls.doctor import described
from mpls.errors import printable
from mpls.migrate.analysis import Outcome, Rule, Settings
from mpls.migrate.many_files import (
    ChangedMeanwhileError,
    Message,
    Reader,
    Result,
    collected,
    default_jobs,
    migrate_content,
    results_of,
    write_atomically,
)
from mpls.migrate.rules import RULES
from mpls.program.choices import pins_of
from mpls.program.files import MAX_BYTES_OF_RUN, Folder, absolute, current_folder, without_collector
from mpls.program.programs import Found, Program, Reading, Tree, Unread
from mpls.progress import with_progress, wrapped

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
# The most paths in a line about what is still needed.
_MANY = 3
_WAS = "was written for"


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
    files, missing = collected(options.paths)
    kept: list[Result] = [Result(path, unread=(reason,)) for path, reason in missing]
    results = results_of(files, settings, options.jobs or default_jobs())
    shows = not (options.report or options.write)
    # A bar would stand between the differences.
    number = 0 if shows and sys.stdout.isatty() else len(files)
    for result in with_progress(results, number, sys.stderr, few=_FEW):
        if result.is_changed or result.messages or result.unread:
            kept.append(result)
            if shows:
                _show_diff(result)
    if options.write:
        # Not before all are read: what a name means in one file may depend on another.
        written: list[Result] = []
        try:
            for result in kept:
                written.append(_written(result))
        except KeyboardInterrupt:
            _tell(f"mpls migrate: interrupted; {_summary(written, len(files), is_written=True)}")
            return INTERRUPTED
        kept = written
    return _end(kept, files, options)


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
        lines.append(rule.name)
        for paragraph in rule.text.strip().split("\n\n"):
            lines += [*wrapped(paragraph, 4, 0), ""]
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
    results = [result] if result.is_changed or result.messages or result.unread else []
    return _end(results, [shown_as], options, {shown_as: content if result.after is None else result.after})


def _written(result: Result) -> Result:
    """Write a file, and return what became of it."""
    if result.after is None:
        return result
    try:
        write_atomically(result.path, result.before, result.after)
    except ChangedMeanwhileError as error:
        return Result(result.path, unread=(str(error),))
    except OSError as error:
        return Result(result.path, unread=(f"cannot be written: {error.strerror}",))
    return result


def _show_diff(result: Result) -> None:
    is_colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    if result.parts:
        show(_diff_of(result, is_colored=is_colored))


def _end(
    results: Sequence[Result],
    files: Collection[str],
    options: argparse.Namespace,
    contents: Mapping[str, bytes] | None = None,
) -> int:
    """Print the report, or what is left to the user and lines about the whole, and return the exit status.

    Args:
        results: those of files of which there is something to say.
        files: the files that were looked at.
        options: the parsed command line.
        contents: the new text of standard input, by its name.
    """
    number = len(files)
    if contents is None:
        contents = {os.path.realpath(each.path): each.after for each in results if each.after is not None}
    needs = _needs(results, files, contents, has_release=options.as_of is not None, keras=options.keras)
    if options.report and not (options.write and options.paths == [_STANDARD_INPUT]):
        show(_REPORTS[options.report](results, number, options.write, needs))
    else:
        for result in results:
            for reason in result.unread:
                _tell(f"mpls migrate: {printable(result.path)} {printable(reason)}")
            for message in result.messages:
                if message.kind is Outcome.LEFT:
                    _tell(f"{_place(result, message)}: {message.text} [{message.rule}]")
        for line in (_summary(results, number, is_written=options.write), *needs):
            _tell(f"mpls migrate: {line}")
    if any(result.unread for result in results):
        return USAGE_ERROR
    return _WOULD_CHANGE if options.check and any(result.is_changed for result in results) else 0


def _tell(text: str) -> None:
    print(*wrapped(printable(text)), sep="\n", file=sys.stderr)


# What the rewritten programs still need, as `mpls doctor` says it.


def _program(tree: Tree, path: str) -> Found | Unread:
    """Return a program with what it imports, as it is after the migration."""
    if path.endswith(".ipynb"):
        return tree.notebook(path, max_bytes=MAX_BYTES_OF_RUN)
    content = tree.contents.get(path)
    if content is None:
        return Found(tree.script(path, max_bytes=MAX_BYTES_OF_RUN))
    folder = os.path.dirname(absolute(path))
    return Found(tree.code(content, path, folder=folder, max_bytes=MAX_BYTES_OF_RUN))


class _Said(NamedTuple):
    """What is said of one program, or of several."""

    singular: str
    plural: str
    what: str


def _importers(files: Collection[str], results: Sequence[Result]) -> Iterator[Result]:
    """Yield those of some files that may import a changed file, and of which there is nothing else to say."""
    known = {each.path for each in results}
    stems = {os.path.splitext(os.path.basename(each.path))[0] for each in results if each.is_changed}
    named = re.compile(rf"\b(?:{'|'.join(map(re.escape, stems))})\b".encode())
    for path in files if stems else ():
        if path not in known and named.search(Folder(os.path.dirname(path)).read(os.path.basename(path)) or b""):
            yield Result(path)


def _needs(
    results: Sequence[Result], files: Collection[str], contents: Mapping[str, bytes], *, has_release: bool, keras: int
) -> list[str]:
    """Return what programs still need, a line for each kind of need.

    Args:
        results: those of files of which there is something to say; each is asked about as a program.
        files: the files that were looked at; those that import a changed file are asked about, too.
        contents: the new contents of those that change, by their paths.
        has_release: whether the user has said for which release the programs were written.
        keras: the Keras for which they are rewritten.
    """
    tree, left, not_asked = Tree(contents), MAX_BYTES_OF_RUN, 0
    changed = [each for each in results if each.is_changed]
    before_it = {each.path if each.path in contents else os.path.realpath(each.path): each.before for each in changed}
    old = Tree({**contents, **before_it})
    here = Folder(current_folder())
    rewritten = {here.shown(each.path) for each in changed}
    imported: set[str] = set()
    found: dict[str, list[_Said]] = {}
    for result in [*results, *_importers(files, results)]:
        if result.unread and not result.is_changed:
            continue
        if left <= 0:
            not_asked += 1
            continue
        with without_collector():
            program = _program(tree, result.path)
            shown = [] if isinstance(program, Unread) else [each.file.shown for each in program.program.sources]
            is_other = not (result.is_changed or result.messages)
            if isinstance(program, Unread) or not shown or (is_other and rewritten.isdisjoint(shown)):
                continue
            after = described(program)
            found[result.path] = list(_needs_of(after, is_notebook=program.cells is not None))
            before = _program(old, result.path) if keras == 3 or not has_release else None
            if isinstance(before, Found):
                found[result.path] += _keras_of(before, after) if keras == 3 else ()
                found[result.path] += () if has_release else _release_of(before.program)
        left -= program.program.bytes_read
        imported.update(shown[1:])
    needs: dict[_Said, list[str]] = {}
    for path, each in found.items():
        # What a module needs, the program that imports it needs.
        for need in each if here.shown(path) not in imported else ():
            needs.setdefault(need, []).append(path)
    # Releases come last.
    in_order = sorted(needs.items(), key=lambda each: each[0].singular == _WAS)
    lines = [
        f"{_several(sorted(paths))} {said.plural if len(paths) > 1 else said.singular} {said.what}"
        for said, paths in in_order
    ]
    if not_asked:
        lines.append(f"what {_count(not_asked, 'other file')} may need: mpls doctor PATH")
    return lines


def _needs_of(program: Mapping[str, Any], *, is_notebook: bool) -> Iterator[_Said]:
    flags = " ".join(each["flag"] for each in program["options"])
    if flags:
        run = f"mpls run {flags}{' -m jupyter execute NOTEBOOK' if is_notebook else ''}"
        v1 = [each["because"]["what"] for each in program["options"] if each["option"] == "v1"]
        what = ", ".join([run, *(f"or tf_upgrade_v2 of TensorFlow, as it {what}" for what in v1)])
        yield _Said("still needs", "still need", what)
    for each in program["disagreements"]:
        what = f"{each['flag']} to you, as its lines disagree: mpls doctor has them"
        yield _Said("still leaves", "still leave", what)
    for each in program["gone"]:
        yield _Said("still uses", "still use", f"{each['name']}, which no option brings back: {each['today']}")


def _keras_of(before: Found, after: Mapping[str, Any]) -> Iterator[_Said]:
    """Yield that a program used Keras 2 under `mpls run`, and uses Keras 3 now: it may train differently."""
    if after["options"]:
        return
    old = {each["option"]: each for each in described(before)["options"]}
    if "keras" in old and old["keras"]["value"] == 2:
        flags = " ".join(old[option]["flag"] for option in ("keras", "legacy_optimizers") if option in old)
        yield _Said(
            "runs", "run", f"with Keras 3 now, as far as the source shows; to train as before, mpls run {flags}"
        )


def _release_of(program: Program) -> Iterator[_Said]:
    """Yield the old release that a file beside a program pins and that matters to it, and what to do."""
    if not program.sources or not pins_of(program.sources[0].roots):
        return
    as_of = Reading(program).decide().value("as_of")
    where = [
        each.where
        for each in pins_of(program.sources[0].roots)
        if isinstance(each.value, tuple) and ".".join(map(str, each.value[1])) == as_of
    ]
    for file, line in where[:1]:
        yield _Said(_WAS, "were written for", f"{as_of}, {file}:{line}: give --as-of {as_of}")


def _several(paths: Sequence[str]) -> str:
    more = len(paths) - _MANY
    return f"{', '.join(paths[:_MANY])}{f' and {more} more' if more > 0 else ''}"


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
    left = sum(message.kind is Outcome.LEFT for result in results for message in result.messages)
    verb = "changed" if is_written else "would change"
    parts = [f"{changed} of {_count(number, 'file')} {verb}"]
    if left:
        parts.append(f"{_count(left, 'place')} left to you")
    unread = sum(bool(result.unread) for result in results)
    if unread:
        parts.append(f"{_count(unread, 'file')} not read{' or not written' if is_written else ''}")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _text(results: Sequence[Result], number: int, is_written: bool, needs: Sequence[str]) -> str:
    lines = []
    for result in results:
        lines += [f"{printable(result.path)}: {printable(reason)}" for reason in result.unread]
        lines += [
            f"{_place(result, message)}: {message.kind.value}: {printable(message.text)} [{message.rule}]"
            for message in result.messages
        ]
    return "\n".join([*lines, _summary(results, number, is_written=is_written), *map(printable, needs)])


def _json(results: Sequence[Result], number: int, is_written: bool, needs: Sequence[str]) -> str:
    """Return what a migration does as a JSON object; `mpls docs migrate` describes it."""
    files = [
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
    ]
    report = {
        "summary": _summary(results, number, is_written=is_written),
        "is_written": is_written,
        "looked_at": number,
        "files": files,
        "still_needed": list(map(printable, needs)),
    }
    return json.dumps(report, indent=2, allow_nan=False)


_REPORTS = {"text": _text, "json": _json}
