"""Run conformance tests with each fault planted in turn; writes what failed to a JSON file.

A process of its own, so that nothing that a fault leaves behind reaches other tests:
`python run_with_faults.py RESULTS.json`, with the directory `tests` on the path.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys
import unittest
import unittest.mock
from typing import Any


def run(tests: list[tuple[str, str]]) -> dict[str, Any]:
    """Run tests, given as class and name; return which failed, and the errors of those that broke."""
    from conformance import test_conformance

    suite = unittest.TestSuite(getattr(test_conformance, case)(test) for case, test in tests)
    result = unittest.TestResult()
    suite.run(result)

    def name(case: Any) -> str:
        return f"{type(case).__name__}.{getattr(case, '_testMethodName', case)}"

    return {
        "run": result.testsRun,
        "failed": sorted(name(case) for case, _ in result.failures),
        "broken": {name(case): text for case, text in result.errors},
    }


def main(path: pathlib.Path) -> None:
    import conftest

    conftest.split_cpu()
    from meta.faults import FAULTS
    from mpls.core import gradients

    results = {"no fault": run(sorted({test for fault in FAULTS for test in fault.tests}))}
    for fault in FAULTS:
        with contextlib.ExitStack() as stack:
            for target, attribute, replacement in fault.patches():
                stack.enter_context(unittest.mock.patch.object(target, attribute, replacement))
            # The functions traced without the fault.
            gradients._unscale_as_one_op._functions.clear()
            results[fault.name] = run(fault.tests)
    path.write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
