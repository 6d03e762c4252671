"""The command line: `mpls run`, `trace`, `compare`, `doctor`, `migrate`, `inspect`, `plot` and `docs`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TextIO

from mpls.cli.options import USAGE_ERROR, parser, split
from mpls.errors import MplsError, printable

__all__ = ["main"]

DIFFERS = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status: the program's own, the command's, or 2 if it was misused."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    head, program_arguments = split(arguments)
    whole = parser()
    options, unknown = whole.parse_known_args(head)
    if unknown:
        getattr(options, "parser", whole).error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command is None:
        whole.print_help(sys.stderr)
        return USAGE_ERROR
    if options.command == "inspect":
        return _inspect(options)
    if options.command == "doctor":
        return _doctor(options)
    if options.command == "migrate":
        from mpls.cli.migrating import migrate

        return migrate(options)
    if options.command == "plot":
        return _plot(options)
    if options.command == "compare":
        return _compare(options)
    # Each command imports only what it needs, so that programs start with nearly the same modules as under `python`.
    if options.command == "docs":
        from mpls.documentation import docs

        return docs(options.anchor)
    if options.command == "trace":
        from mpls.cli.recording import trace

        return trace(options, program_arguments)
    from mpls.cli.running import run

    return run(options, program_arguments)


def _inspect(options: argparse.Namespace) -> int:
    from mpls.inspect import inspect

    try:
        status, text = inspect(options.path, as_json=options.json)
    except OSError as error:
        _print(f"mpls inspect: {printable(str(error))}", sys.stderr)
        return USAGE_ERROR
    # A missing file is a usage error; a broken file is a result.
    is_error = status == USAGE_ERROR and not options.json
    _print(f"mpls inspect: {text}" if is_error else text, sys.stderr if is_error else sys.stdout)
    return status


def _doctor(options: argparse.Namespace) -> int:
    from mpls.doctor import doctor

    status, text, unread = doctor(options.paths, as_json=options.json)
    if text:
        _print(text, sys.stdout)
    for each in unread:
        _print(f"mpls doctor: {each}", sys.stderr)
    return status


def _plot(options: argparse.Namespace) -> int:
    from mpls.plotting import plot

    try:
        text = plot(options.path, options.out, force=options.force)
    except (MplsError, OSError) as error:
        _print(f"mpls plot: {printable(str(error))}. See mpls docs plots", sys.stderr)
        return USAGE_ERROR
    _print(text, sys.stdout)
    return 0


def _compare(options: argparse.Namespace) -> int:
    from mpls.comparing import compare, text_of

    try:
        comparison = compare(options.old, options.new, options.tolerance)
        _print(text_of(comparison), sys.stdout)
        if options.plot is not None:
            from mpls.plotting import plot_traces

            first = comparison.first
            at = None if first is None or first.step is None else first.step.old.step
            _print(plot_traces(comparison.old, comparison.new, at, options.plot, force=options.force), sys.stdout)
    except (MplsError, OSError) as error:
        _print(f"mpls compare: {printable(str(error))}. See mpls docs proof", sys.stderr)
        return USAGE_ERROR
    return 0 if comparison.first is None else DIFFERS


def _print(text: str, stream: TextIO) -> None:
    """Print a text, and escape characters that the stream cannot encode."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)
