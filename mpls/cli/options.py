"""What the command line takes."""

from __future__ import annotations

import argparse

import mpls

__all__ = ["parser", "split"]

_DESCRIPTION = """\
Run a program that uses TensorFlow's historical loss-scaling API, unmodified, with the names of that API back.
What follows the script or the module is handed to it."""


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
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


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="mpls", description="Mixed-precision loss scaling for TensorFlow.")
    parser.add_argument("--version", action="version", version=f"mpls {mpls.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(commands)
    _add_inspect(commands)
    return parser


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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


def _add_inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
