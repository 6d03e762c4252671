"""`mpls run`: the command by which Python runs a program, and its environment."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from mpls.cli.choosing import choose
from mpls.cli.options import USAGE_ERROR, options_of_mpls
from mpls.errors import printable
from mpls.run import environment

PROGRAMS = "a script, -m and the name of a module, -c and code, or - for standard input"
# Windows cannot replace a process.
REPLACES_ITSELF = os.name != "nt"
# The arguments of `install`.
_SETTINGS = ("as_of", "contrib", "replace_existing", "v1", "keras", "legacy_optimizers")


def has_program(options: argparse.Namespace) -> bool:
    """Return whether the options name one program."""
    return sum(each is not None for each in (options.script, options.module, options.code)) == 1


def why_not() -> str | None:
    """Return why no program can be run from this Python; None if one can."""
    if sys.flags.isolated or sys.flags.ignore_environment or sys.flags.no_site:
        return (
            "with -I, -E or -S, Python does not read the environment variables by which the names come back. Leave the "
            "option out, or call mpls.install() in the program"
        )
    if not sys.executable:
        return "this Python does not know its own path (sys.executable). Call mpls.install() in the program"
    return None


def run(options: argparse.Namespace, program_arguments: list[str], trace: Mapping[str, Any] | None = None) -> int:
    """Have Python replace this process, and run a program with the names back; or return the status of a refusal.

    On Windows, Python is a child of this process, and its exit status is returned.

    Args:
        options: the parsed command line.
        program_arguments: what the program gets.
        trace: what is recorded, as `environment` takes it.
    """
    refusal = why_not() if has_program(options) else f"give {PROGRAMS}; see mpls run --help"
    if refusal is not None:
        print(f"mpls run: {refusal}", file=sys.stderr)
        return USAGE_ERROR
    command, variables = _prepared(options, program_arguments, trace)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    if REPLACES_ITSELF:
        os.execve(command[0], command, variables)
    process = subprocess.Popen(command, env=variables, close_fds=False)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # A terminal sends Ctrl-C to the program too, which decides what becomes of it.
            continue


def _prepared(
    options: argparse.Namespace, arguments: list[str], trace: Mapping[str, Any] | None
) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of the program, and say which options are chosen or misplaced."""
    _say_if_misplaced(options, choose(options, arguments), arguments)
    settings = {name: getattr(options, name) for name in _SETTINGS}
    variables = environment(settings, children=not options.no_children, report=options.report, trace=trace)
    return [sys.executable, *_flags_of_python(), *_program(options), *arguments], variables


def _flags_of_python() -> list[str]:
    """Return the options of `python` that this process was started with."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    for name, value in sys._xoptions.items():
        option = name if value is True else f"{name}={value}"
        flags += [] if option in flags else ["-X", option]
    return [*flags, *["-i"] * bool(sys.flags.interactive), *["-u"] * getattr(sys.stdout, "write_through", False)]


def _program(options: argparse.Namespace) -> list[str]:
    if options.module is not None:
        return ["-m", options.module]
    if options.code is not None:
        return ["-c", options.code]
    script: str = options.script
    if not os.path.exists(script) and not os.path.dirname(script):
        script = _command(script) or script
    return ["--"] * (script != "-" and script.startswith("-")) + [script]


def _command(name: str) -> str | None:
    """Return the path of a command that is a Python script, such as `jupyter-execute`; None if there is none."""
    import shutil

    found = shutil.which(name)
    if found is None:
        return None
    with open(found, "rb") as file:
        start = file.read(200)
    return found if start.startswith(b"#!") and b"python" in start else None


def _say_if_misplaced(options: argparse.Namespace, sources: Iterable[bytes], arguments: list[str]) -> None:
    """Point out options of mpls that were placed after the program, unless its source has them too."""
    found = options_of_mpls(arguments)
    texts = list(sources) if found else []
    misplaced = [each for each in found if not any(_mentions(text, each) for text in texts)]
    if misplaced:
        program = options.script or (f"-m {options.module}" if options.module else "-c ...")
        words = (
            f"{', '.join(misplaced)} came after the program, and went to it; options of mpls come before: "
            f"mpls run {' '.join(misplaced)} {program}"
        )
        print(f"mpls run: {printable(words)}", file=sys.stderr)


def _mentions(source: bytes, option: str) -> bool:
    """Return whether a source has the name of an option as a string: `"--as-of"`, or `"as_of"`."""
    name = re.split("[ =]", option)[0].lstrip("-").replace("-", "[-_]")
    return re.search(rb"""["'](--)?%b["'=]""" % name.encode(), source) is not None
