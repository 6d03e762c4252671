"""`mpls run`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from mpls.children import begin, hand_down_to_all
from mpls.cli.choosing import choose
from mpls.cli.options import USAGE_ERROR, options_of_mpls
from mpls.ending import OnFailure
from mpls.errors import MplsError, printable
from mpls.hints import say
from mpls.importing.user_code import may_mention
from mpls.install import is_run
from mpls.report import Report
from mpls.run import CannotRun, run_code, run_module, run_script, run_standard_input

__all__ = ["PROGRAMS", "SETTINGS", "has_program", "run"]

PROGRAMS = "a script, -m and the name of a module, -c and code, or - for standard input"
# The options that child processes get too.
SETTINGS = ("as_of", "contrib", "replace_existing", "v1", "keras", "legacy_optimizers")
_STARTS_KERNELS = ("jupyter", "nbclient", "nbconvert", "notebook", "papermill")
# A program that reads its arguments mentions one of these names.
_READERS_OF_ARGUMENTS = (
    *("argv", "orig_argv", "argparse", "optparse", "getopt", "ArgumentParser", "parse_args"),
    *("absl", "app", "flags", "FLAGS", "click", "typer", "fire", "docopt", "hydra", "simple_parsing", "tap"),
)


def has_program(options: argparse.Namespace) -> bool:
    """Return whether the options name one program."""
    return sum(each is not None for each in (options.script, options.module, options.code)) == 1


def run(
    options: argparse.Namespace,
    program_arguments: list[str],
    before: Callable[[], None] = lambda: None,
    on_failure: OnFailure = lambda _: None,
) -> int:
    """Run a program with the names put back, and return its exit status.

    Args:
        options: the parsed command line.
        program_arguments: what the program gets.
        before: called once the names are back, before the program.
        on_failure: called with the error that the program ends in, if it ends in one; a `CannotRun` if none was run.
    """
    if not has_program(options):
        return _refuse(f"give {PROGRAMS}; see mpls run --help")
    choose(options)
    report = Report() if options.report else None
    settings = {name: getattr(options, name) for name in SETTINGS}
    try:
        is_run()
        begin(settings, _on_touch=None if report is None else report.note)
    except MplsError as error:
        return _refuse(str(error))
    _see_to_children(options, settings)

    def failed(error: BaseException) -> None:
        say(error, settings, None)
        on_failure(error)

    try:
        source = _standard_input() if options.script == "-" else None
        before()
        status = _run_program(options, source, program_arguments, failed)
        text = options.code if source is None else source.decode("latin-1")
        _say_if_misplaced(options, text, program_arguments, status)
        return status
    except CannotRun as error:
        on_failure(error)
        _tell(f"mpls run: {printable(str(error))}")
        return error.status
    finally:
        if report is not None:
            _show(report)


def _refuse(text: str) -> int:
    print(f"mpls run: {printable(text)}", file=sys.stderr)
    return USAGE_ERROR


def _see_to_children(options: argparse.Namespace, settings: dict[str, Any]) -> None:
    if options.children:
        hand_down_to_all(settings)
    elif os.path.basename(options.script or options.module or "").startswith(_STARTS_KERNELS):
        print(
            "mpls run: kernels of notebooks are processes of their own, which have the names with --children. "
            "See mpls docs notebooks",
            file=sys.stderr,
        )


def _show(report: Report) -> None:
    output = _stream("stdout")
    if output is not None:
        output.flush()
    _tell("\n".join(report.lines()))


def _standard_input() -> bytes:
    return b"" if sys.stdin is None else sys.stdin.buffer.read()


def _run_program(options: argparse.Namespace, source: bytes | None, arguments: list[str], on_failure: OnFailure) -> int:
    if options.module is not None:
        return run_module(options.module, arguments, on_failure)
    if options.code is not None:
        return run_code(options.code, arguments, on_failure)
    if source is not None:
        return run_standard_input(source, arguments, on_failure)
    return run_script(options.script, arguments, on_failure)


def _say_if_misplaced(
    options: argparse.Namespace, source: str | None, program_arguments: list[str], status: int
) -> None:
    """Point out options of mpls that were placed after the program's name, if the program does not use them."""
    misplaced = options_of_mpls(program_arguments)
    # A program that reads its arguments and does not end with status 1 or 2 has accepted them.
    if not misplaced or (status not in (1, USAGE_ERROR) and may_mention(_READERS_OF_ARGUMENTS, source=source)):
        return
    program = options.script or (f"-m {options.module}" if options.module else "-c ...")
    _tell(
        f"mpls run: {', '.join(misplaced)} came after the program, and went to it; options of mpls come before: "
        f"mpls run {' '.join(misplaced)} {program}"
    )


def _tell(text: str) -> None:
    """Print a text on standard error, unless the program has closed or removed it."""
    stream = _stream("stderr")
    if stream is not None:
        print(text, file=stream)


def _stream(name: str) -> TextIO | None:
    stream = getattr(sys, name, None)
    return None if getattr(stream, "closed", False) else stream
