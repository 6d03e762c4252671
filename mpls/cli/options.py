"""The options and arguments of the command line."""

from __future__ import annotations

import argparse
import math
import shlex
from functools import cache
from typing import NamedTuple

import mpls
from mpls.core.releases import behavior_of
from mpls.errors import ArgumentValueError
from mpls.names import RELEASES
from mpls.tracing import add_recording_options

USAGE_ERROR = 2
_DESCRIPTION = """\
Run an unmodified program in which the removed names of TensorFlow's loss-scaling API work again.
Options of mpls go before the program; arguments after it go to the program."""
_NAME_A_PROGRAM = ("-m", "-c")


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into those of mpls, up to the program's name, and those of the program after it."""
    if arguments[:1] == ["run"]:
        _, end = _place_of_program(arguments, _run_options())
        return arguments[:end], arguments[end:]
    if arguments[:1] == ["trace"]:
        start, end = _place_of_program(arguments, _trace_options())
        if start < len(arguments) and not arguments[start].startswith("-"):
            # The first word is the trace. argparse wants it beside the program, without options in between.
            without = [*arguments[:start], *arguments[start + 1 :]]
            place, end = _place_of_program(without, _trace_options())
            return [*without[:place], arguments[start], *without[place:end]], without[end:]
        return arguments[:end], arguments[end:]
    return arguments, []


def _place_of_program(arguments: list[str], options: _Options) -> tuple[int, int]:
    """Return where the program's name begins, `-m` and `-c` with it, and where it ends; the length if there is none."""
    position = 1
    while position < len(arguments):
        argument = arguments[position]
        if argument.startswith(_NAME_A_PROGRAM):
            # The value may be attached, as in -mMODULE.
            return position, position + (2 if argument in _NAME_A_PROGRAM else 1)
        if argument in options.values:
            position += 2
        elif argument.startswith("-") and argument not in ("--", "-"):
            position += 1
        else:
            return position, position + 1 + (argument == "--")
    return len(arguments), len(arguments)


def options_of_mpls(program_arguments: list[str]) -> list[str]:
    """Return those of a program's arguments that look like options of `mpls run`, quoted for a shell.

    An option that takes a value includes it: `"--as-of 2.3"`.
    """
    options = _run_options()
    ours = {*options.values, *options.flags} - {*_NAME_A_PROGRAM, "-h", "--help"}
    found = []
    for place, argument in enumerate(program_arguments):
        if argument.partition("=")[0] in ours:
            following = program_arguments[place + 1 : place + 2] if argument in options.values else []
            found.append(shlex.join([argument, *(each for each in following if not each.startswith("-"))]))
    return found


class _Options(NamedTuple):
    values: frozenset[str]
    flags: frozenset[str]


@cache
def _run_options() -> _Options:
    """Return the options of `mpls run`: those that take a value, and the others."""
    # By default, argparse takes the name from `sys.argv`, which belongs to the program.
    run = argparse.ArgumentParser(prog="mpls run")
    _add_run_options(run)
    return _options_of(run)


@cache
def _trace_options() -> _Options:
    """Return the options of `mpls trace`, which has those of `mpls run` too."""
    trace = argparse.ArgumentParser(prog="mpls trace")
    _add_run_options(trace)
    add_recording_options(trace)
    return _options_of(trace)


def _options_of(command: argparse.ArgumentParser) -> _Options:
    actions = [action for action in command._actions if action.option_strings]
    values, flags = (
        frozenset(name for action in actions if (action.nargs == 0) is is_flag for name in action.option_strings)
        for is_flag in (False, True)
    )
    return _Options(values, flags)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="mpls", description="Mixed-precision loss scaling for TensorFlow.")
    parser.add_argument("--version", action="version", version=f"mpls {mpls.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(commands)
    _add_trace(commands)
    _add_doctor(commands)
    _add_migrate(commands)
    _add_inspect(commands)
    _add_plot(commands)
    _add_compare(commands)
    documentation = commands.add_parser(
        "docs",
        help="show or search the documentation",
        description="Show a page or a section of the documentation, or search it. Messages name sections.",
    )
    documentation.set_defaults(parser=documentation)
    documentation.add_argument(
        "words",
        nargs="*",
        metavar="WORDS",
        help="a page, the section that a message names, a historical name, or words to search for; without, the pages",
    )
    return parser


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="run an unmodified program with the removed names back",
        usage="mpls run [OPTIONS] (SCRIPT | -m MODULE | -c CODE | -) [ARGS ...]",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    # Errors show the usage of this parser.
    run.set_defaults(parser=run)
    _add_run_options(run)


def _add_trace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    trace = commands.add_parser(
        "trace",
        help="run a program and record its loss-scaling optimizers, step by step",
        usage="mpls trace [OPTIONS] OUT.json (SCRIPT | -m MODULE | -c CODE | -) [ARGS ...]\n"
        "       mpls trace --recorder > mpls_recorder.py",
        description="Run a program as `mpls run` does, and record its loss-scaling optimizers, step by step, for "
        "`mpls compare`. Exit status: that of the program; 2 if nothing was run.",
        allow_abbrev=False,
    )
    trace.set_defaults(parser=trace)
    trace.add_argument("out", nargs="?", metavar="OUT.json", help="the trace")
    trace.add_argument(
        "--recorder",
        action="store_true",
        help="print the recorder for old machines, one file for TensorFlow 1.13 to 2.15",
    )
    add_recording_options(trace)
    _add_run_options(trace)


def _add_run_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("script", nargs="?", metavar="SCRIPT", help="a Python file; - for standard input")
    run.add_argument("-m", dest="module", metavar="MODULE", help="run a module instead of a script")
    run.add_argument("-c", dest="code", metavar="CODE", help="run code instead of a script")
    run.add_argument("--as-of", type=_release, metavar="RELEASE", help="behave as this TensorFlow release, e.g. 2.2")
    run.add_argument("--contrib", action="store_true", help="bring tf.contrib.mixed_precision back too")
    run.add_argument(
        "--v1", action="store_true", help="`import tensorflow` imports tensorflow.compat.v1, with TF 2 behaviour off"
    )
    run.add_argument(
        "--keras",
        type=int,
        choices=(2, 3),
        help="use this Keras as tf.keras; with 2, `import keras` is tf_keras too",
    )
    run.add_argument(
        "--legacy-optimizers",
        action="store_true",
        help="use the optimizers of TF 2.10 and earlier as tf.keras.optimizers; needs --keras 2",
    )
    run.add_argument(
        "--replace-existing", action="store_true", help="replace names that still work in TensorFlow by mpls too"
    )
    run.add_argument(
        "--no-children",
        action="store_true",
        help="do not bring the names back in Python processes that the program starts",
    )
    run.add_argument("--children", action="store_true", help="has no effect: it is the default")
    run.add_argument("--no-auto", action="store_true", help="do not choose options automatically from the source")
    run.add_argument(
        "--report",
        action="store_true",
        help="at the end, list the historical names that the program used, and what to write today; not those of "
        "processes that it starts",
    )


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="say what programs need to run today, without running them",
        description="Say what programs need to run today: options of `mpls run`, names to replace, and names that "
        "are gone for good. It reads the source and runs nothing. Exit status: 0; 1 if a name is gone for good; 2 if a "
        "path does not exist, is not Python 3, or is too large.",
    )
    doctor.set_defaults(parser=doctor)
    doctor.add_argument("paths", nargs="+", metavar="PATH", help="a script, a notebook, or a folder of them")
    doctor.add_argument("--all", action="store_true", help="also show programs that need nothing")
    doctor.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def _add_inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    inspection = commands.add_parser(
        "inspect",
        help="say what a checkpoint, model or config is, and how to load it",
        description="Say what a checkpoint, model or config is, what it holds, and how to load it. It runs no code of "
        "the file. Exit status: 0; 1 if the file is broken; 2 if it is of no known kind.",
    )
    inspection.add_argument(
        "path", metavar="PATH", help="a checkpoint (its prefix, or its folder), SavedModel, H5, .keras or JSON file"
    )
    inspection.set_defaults(parser=inspection)
    inspection.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def _add_plot(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    plot = commands.add_parser(
        "plot",
        help="draw the loss scale, skipped steps and loss of a training",
        description="Draw the loss scale, skipped steps and loss of a training. Exit status: 0; 2 if there is "
        "nothing to draw, the image exists, or matplotlib is missing: pip install 'mpls[plot]'.",
    )
    plot.set_defaults(parser=plot)
    plot.add_argument("path", metavar="PATH", help="a CSV file of CSVLogger, a history in JSON, or a trace")
    plot.add_argument(
        "-o", "--out", default="loss_scale.png", help="the image: .png, .svg or .pdf; default: %(default)s"
    )
    plot.add_argument("--force", action="store_true", help="replace an existing image")


def _release(text: str) -> str:
    """Return a release that an option names; the type of an argument."""
    try:
        behavior_of(text)
    except ArgumentValueError:
        first, last = RELEASES[0], RELEASES[-1]
        raise argparse.ArgumentTypeError(
            f"must be a TensorFlow release from {first} to {last}; got {text!r}. See mpls docs as-of"
        ) from None
    return text


def _add_migrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    migration = commands.add_parser(
        "migrate",
        help="rewrite programs and notebooks to today's names",
        description="Show a diff of programs and notebooks in which the historical names are replaced, or write them. "
        "It reads the source and runs nothing. Exit status: 0; 1 with --check if a file would change; 2 if a path does "
        "not exist, or cannot be read or written.",
    )
    migration.set_defaults(parser=migration)
    migration.add_argument(
        "paths", nargs="*", metavar="PATH", help="a program, a notebook, or a folder of them; - for standard input"
    )
    migration.add_argument(
        "--to",
        choices=("mpls", "native"),
        default="mpls",
        help="write names of mpls, or TensorFlow's and Keras' own names where they mean the same; default: %(default)s",
    )
    migration.add_argument(
        "--as-of", type=_release, metavar="RELEASE", help="keep what this TensorFlow release did, e.g. 2.2"
    )
    migration.add_argument(
        "--keras",
        type=int,
        choices=(2, 3),
        default=3,
        help="the Keras that the programs will use; with 2, its public wrapper stays; default: %(default)s",
    )
    action = migration.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write the files instead of showing a diff")
    action.add_argument("--check", action="store_true", help="exit with 1 if a file would change")
    migration.add_argument(
        "--report",
        choices=("text", "json"),
        help="print what changes and what is left to you, instead of a diff",
    )
    for name, text in (("--only", "apply only these rules"), ("--skip", "do not apply these rules")):
        migration.add_argument(name, type=_names, default=(), metavar="RULE[,RULE]", help=text)
    migration.add_argument("--list-rules", action="store_true", help="explain each rule")
    migration.add_argument(
        "--jobs", type=_count, metavar="N", help="the number of processes; default: one for each core"
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1; got {text!r}")
    return number


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    compare = commands.add_parser(
        "compare",
        help="say whether two recorded trainings are the same, or where they first differ",
        description="Compare two traces of `mpls trace` or of its recorder. Exit status: 0 if they have the same bits, "
        "3 if they are the same up to rounding, 1 if they differ, 2 if they cannot be compared.",
    )
    compare.set_defaults(parser=compare)
    compare.add_argument("old", metavar="OLD.json", help="the trace of the old program")
    compare.add_argument("new", metavar="NEW.json", help="the trace of the new one")
    compare.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="X",
        help="the largest relative difference that counts as rounding; default: 1e-5; with float16 layers use 5e-3",
    )
    compare.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0; got {text!r}")
    return value
