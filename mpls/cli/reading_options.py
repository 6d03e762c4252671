"""The options of the commands that only read files of programs and trainings: `mpls migrate` and `mpls compare`."""

from __future__ import annotations

import argparse
import math

from mpls.core.releases import behavior_of
from mpls.errors import ArgumentValueError
from mpls.names import RELEASES

__all__ = ["add_compare", "add_migrate", "release"]


def release(text: str) -> str:
    """Return a release that an option names; the type of an argument."""
    try:
        behavior_of(text)
    except ArgumentValueError:
        first, last = RELEASES[0], RELEASES[-1]
        raise argparse.ArgumentTypeError(
            f"must be a TensorFlow release from {first} to {last}; got {text!r}. See mpls docs as-of"
        ) from None
    return text


def add_migrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mpls migrate`."""
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
        "--as-of", type=release, metavar="RELEASE", help="keep what this TensorFlow release did, e.g. 2.2"
    )
    migration.add_argument(
        "--keras",
        type=int,
        choices=(2, 3),
        default=3,
        help="the Keras that the programs will use; with 2, its public wrapper stays; default: %(default)s",
    )
    _add_migrate_actions(migration)


def _add_migrate_actions(migration: argparse.ArgumentParser) -> None:
    action = migration.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write the files instead of showing a diff")
    action.add_argument("--check", action="store_true", help="exit with 1 if a file would change")
    migration.add_argument(
        "--report",
        choices=("text", "json", "html"),
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


def add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mpls compare`."""
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
    compare.add_argument("--plot", metavar="IMAGE", help="draw both: .png, .svg or .pdf; needs matplotlib")
    compare.add_argument("--force", action="store_true", help="replace an existing image")


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0; got {text!r}")
    return value
