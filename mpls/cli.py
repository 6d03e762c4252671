"""The command line: `mpls run` and `mpls inspect`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TextIO

import mpls
from mpls.errors import printable
from mpls.importing.tf1 import import_as_v1
from mpls.inspect import inspect
from mpls.install import install
from mpls.report import Report
from mpls.run import CannotRun, run_module, run_script

__all__ = ["main"]

_USAGE_ERROR = 2
_DESCRIPTION = """\
Run a program that uses TensorFlow's historical loss-scaling API, unmodified, with the names of that API back.
What follows the script or the module is handed to it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status: the program's own, that of `inspect`, or 2 if nothing ran."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    head, program_arguments = _split(arguments)
    parser = _parser()
    options = parser.parse_args(head)
    if options.command is None:
        parser.print_help(sys.stderr)
        return _USAGE_ERROR
    if options.command == "inspect":
        return _inspect(options)
    return _run(options, program_arguments)


def _inspect(options: argparse.Namespace) -> int:
    try:
        status, text = inspect(options.path, as_json=options.json)
    except OSError as error:
        _print(f"mpls inspect: {printable(str(error))}", sys.stderr)
        return _USAGE_ERROR
    # What is not there is a wrong argument, a broken file is an answer.
    is_error = status == _USAGE_ERROR and not options.json
    _print(f"mpls inspect: {text}" if is_error else text, sys.stderr if is_error else sys.stdout)
    return status


def _print(text: str, stream: TextIO) -> None:
    """Print a text with the names of others in it, those characters escaped that the stream cannot write."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def _run(options: argparse.Namespace, program_arguments: list[str]) -> int:
    if (options.script is None) == (options.module is None):
        print("mpls run: give a script, or -m and the name of a module; see mpls run --help", file=sys.stderr)
        return _USAGE_ERROR
    report = Report() if options.report else None
    try:
        install(
            options.as_of,
            contrib=options.contrib,
            replace_existing=options.replace_existing,
            _on_touch=None if report is None else report.note,
        )
        if options.v1:
            import_as_v1()
        if options.module is not None:
            return run_module(options.module, program_arguments)
        return run_script(options.script, program_arguments)
    except (CannotRun, mpls.errors.ArgumentValueError) as error:
        print(f"mpls run: {error}", file=sys.stderr)
        return _USAGE_ERROR
    finally:
        if report is not None:
            sys.stdout.flush()
            print("\n".join(report.lines()), file=sys.stderr)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split what is for mpls from what is for the program, which starts after its name."""
    if arguments[:1] != ["run"]:
        return arguments, []
    position = 1
    while position < len(arguments):
        argument = arguments[position]
        if argument == "-m":
            return arguments[: position + 2], arguments[position + 2 :]
        if argument == "--as-of":
            position += 2
        elif argument.startswith("-") and argument != "--":
            position += 1
        else:
            position += argument == "--"
            return arguments[: position + 1], arguments[position + 1 :]
    return arguments, []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mpls", description="Mixed-precision loss scaling for TensorFlow.")
    parser.add_argument("--version", action="version", version=f"mpls {mpls.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run an unmodified program with the historical names back",
        usage="mpls run [OPTIONS] (SCRIPT | -m MODULE) [ARGS ...]",
        description=_DESCRIPTION,
    )
    run.add_argument("script", nargs="?", metavar="SCRIPT", help="a Python file")
    run.add_argument("-m", dest="module", metavar="MODULE", help="a module to run in place of a script")
    run.add_argument("--as-of", metavar="RELEASE", help="the TensorFlow release to behave as, 2.2 for example")
    run.add_argument("--contrib", action="store_true", help="put tf.contrib.mixed_precision back too")
    run.add_argument(
        "--v1", action="store_true", help="have `import tensorflow` mean tensorflow.compat.v1, with TF 2 behaviour off"
    )
    run.add_argument(
        "--replace-existing", action="store_true", help="have names that still work mean the objects of mpls too"
    )
    run.add_argument("--report", action="store_true", help="print the historical names that the program has read")
    inspection = commands.add_parser(
        "inspect",
        help="say what a checkpoint, a saved model or a config holds, and what mpls can restore it into",
        description="Say what a file holds. It is only read: no code in it runs. The exit status is 0, or 1 if it is "
        "broken, or 2 if it is nothing that any release has written.",
    )
    inspection.add_argument(
        "path", metavar="PATH", help="a checkpoint (its prefix, or its folder), SavedModel, H5, .keras or JSON file"
    )
    inspection.add_argument("--json", action="store_true", help="print one JSON object, for machines")
    return parser
