"""`mpls run`."""

from __future__ import annotations

import argparse
import sys

import mpls
from mpls.importing.tf1 import import_as_v1
from mpls.install import install
from mpls.report import Report
from mpls.run import CannotRun, run_module, run_script

__all__ = ["USAGE_ERROR", "run"]

USAGE_ERROR = 2


def run(options: argparse.Namespace, program_arguments: list[str]) -> int:
    """Run a program with the names back, and return its exit status."""
    if (options.script is None) == (options.module is None):
        print("mpls run: give a script, or -m and the name of a module; see mpls run --help", file=sys.stderr)
        return USAGE_ERROR
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
        return USAGE_ERROR
    finally:
        if report is not None:
            sys.stdout.flush()
            print("\n".join(report.lines()), file=sys.stderr)
