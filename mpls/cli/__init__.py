"""The command line: `mpls run`, `trace`, `compare`, `doctor`, `migrate`, `inspect`, `plot` and `docs`."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence

from mpls.cli.options import USAGE_ERROR, parser, split
from mpls.cli.standard_output import show, with_output
from mpls.errors import MplsError, did_you_mean, printable

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status: the program's own, the command's, or 2 if it was misused."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    head, program_arguments = split(arguments)
    whole = parser()
    commands = [*_READING, "run", "trace"]
    if head and not head[0].startswith("-") and head[0] not in commands:
        whole.error(f"no command {printable(head[0])!r}. {did_you_mean(head[0], commands)}".rstrip())
    options, unknown = whole.parse_known_args(head)
    if unknown:
        command = getattr(options, "parser", whole)
        near = did_you_mean(unknown[0].partition("=")[0], command._option_string_actions)
        command.error(f"unrecognized arguments: {' '.join(unknown)}. {near}".rstrip())
    if options.command is None:
        whole.print_help(sys.stderr)
        return USAGE_ERROR
    if options.command in _READING:
        return with_output(options.command, functools.partial(_READING[options.command], options))
    if options.command == "trace":
        from mpls.cli.recording import trace

        return trace(options, program_arguments)
    from mpls.cli.running import run

    return run(options, program_arguments)


# Each command imports only what it needs, so that programs start with nearly the same modules as under `python`.


def _migrate(options: argparse.Namespace) -> int:
    from mpls.cli.migrating import migrate

    return migrate(options)


def _docs(options: argparse.Namespace) -> int:
    from mpls.documentation import docs

    return docs(options.words, show)


def _inspect(options: argparse.Namespace) -> int:
    from mpls.inspect import inspect

    try:
        status, text = inspect(options.path, as_json=options.json)
    except OSError as error:
        _say(f"mpls inspect: {printable(str(error))}")
        return USAGE_ERROR
    # A missing file is a usage error; a broken file is a result.
    is_error = status == USAGE_ERROR and not options.json
    if is_error:
        _say(f"mpls inspect: {text}")
    else:
        show(text)
    return status


def _doctor(options: argparse.Namespace) -> int:
    import json

    from mpls.doctor import describe, text_of

    description = describe(options.paths, sys.stderr)
    text = json.dumps(description, indent=2) if options.json else text_of(description, has_all=options.all)
    if text:
        show(text)
    for each in () if options.json else description["unread"]:
        _say(f"mpls doctor: {printable(each['path'])} {printable(each['reason'])}")
    return int(description["status"])


def _plot(options: argparse.Namespace) -> int:
    from mpls.plotting import plot

    try:
        text = plot(options.path, options.out, force=options.force)
    except (MplsError, OSError) as error:
        _say(f"mpls plot: {printable(str(error))}. See mpls docs plots")
        return USAGE_ERROR
    show(text)
    return 0


def _compare(options: argparse.Namespace) -> int:
    from mpls.comparing import DIFFERENT, SAME_BITS, SAME_UP_TO_ROUNDING, compare, json_of, text_of

    try:
        comparison = compare(options.old, options.new, options.tolerance)
        show(json_of(comparison) if options.json else text_of(comparison))
    except (MplsError, OSError) as error:
        _say(f"mpls compare: {printable(str(error))}. See mpls docs proof")
        return USAGE_ERROR
    return {SAME_BITS: 0, DIFFERENT: 1, SAME_UP_TO_ROUNDING: 3}[comparison.verdict]


def _say(text: str) -> None:
    """Print a text on standard error, and escape characters that it cannot encode."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


# The commands that print, and run no program.
_READING = {
    "inspect": _inspect,
    "doctor": _doctor,
    "migrate": _migrate,
    "plot": _plot,
    "compare": _compare,
    "docs": _docs,
}
