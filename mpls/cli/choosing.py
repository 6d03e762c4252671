"""Chooses options of `mpls run` automatically from a program's source."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence

from mpls.errors import printable
from mpls.program.choices import Choice, Decision
from mpls.program.files import MAX_BYTES_OF_RUN, current_folder, without_collector
from mpls.program.programs import Found, Reading, Tree
from mpls.program.uses import Sign
from mpls.upstream.modules import KERAS_VARIABLE, is_keras_2


def choose(options: argparse.Namespace, arguments: Sequence[str] = ()) -> Iterable[bytes]:
    """Set the options that a program shows it needs and the user has not given, and print them on standard error.

    Nothing is read with `--no-auto`, if the program comes from standard input, or if the current directory is gone.

    Args:
        options: the parsed command line; changed in place.
        arguments: what the program gets. A command that is no file here, and gets a notebook, runs the notebook.

    Returns:
        The source of each file that was read.
    """
    if options.no_auto or options.script == "-" or not current_folder():
        return []
    given = options.keras or _keras_of_environment()
    with without_collector():
        found = _found(options, arguments)
        reading = Reading(found.program)
        decision = reading.decide(given)
    if not reading.program.is_whole:
        print(
            "mpls run: chose no option, as the program has more source than is read before it runs; `mpls doctor PATH` "
            "reads more, and --no-auto switches this off",
            file=sys.stderr,
        )
    chosen = [choice for choice in decision.choices if not _is_given(options, choice, given)]
    for choice in chosen:
        setattr(options, choice.option, choice.value)
    line = _line(chosen, decision, options, given, found)
    if line:
        print(printable(f"mpls run: {line}"), file=sys.stderr)
    return (source.file.read() for source in reading.program.sources)


def _found(options: argparse.Namespace, arguments: Sequence[str]) -> Found:
    tree = Tree()
    if options.code is not None:
        return Found(tree.code(options.code, "-c", max_bytes=MAX_BYTES_OF_RUN))
    run = tree.script if options.module is None else tree.module
    program = run(options.script or options.module, max_bytes=MAX_BYTES_OF_RUN)
    notebooks = [each for each in arguments if each.endswith(".ipynb")]
    if not program.sources and len(notebooks) == 1:
        found = tree.notebook(notebooks[0], max_bytes=MAX_BYTES_OF_RUN)
        return found if isinstance(found, Found) else Found(program)
    return Found(program)


def _is_given(options: argparse.Namespace, choice: Choice, keras: int | None) -> bool:
    return bool(getattr(options, choice.option)) or (choice.option == "keras" and keras is not None)


def _keras_of_environment() -> int | None:
    value = os.environ.get(KERAS_VARIABLE)
    return None if not value else 2 if is_keras_2(value) else 3


def _line(
    chosen: list[Choice], decision: Decision, options: argparse.Namespace, keras: int | None, found: Found
) -> str:
    def place(sign: Sign) -> str:
        cell, line = found.place(sign.where)
        return str(sign.where) if cell is None else f"{sign.where.file}:cell {cell}:{line}"

    parts = []
    if chosen:
        reasons = dict.fromkeys(f"{place(choice.sign)} {choice.sign.what}" for choice in chosen)
        parts.append(f"chose {' '.join(choice.flag for choice in chosen)} ({', '.join(reasons)})")
    for each in decision.disagreements:
        if not getattr(options, each.option) and not (each.option == "keras" and keras is not None):
            first, second = each.signs
            signs = f"{place(first)} {first.what}, but {place(second)} {second.what}"
            parts.append(f"left {each.flag} to you, as its lines disagree: {signs}")
    return "; ".join([*parts, "--no-auto switches this off"]) if parts else ""
