"""The conformance suite goes red for each of the faults that it is there to find."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import tempfile
import unittest
from typing import Any

import pytest
from parameterized import parameterized

from tests.processes import ROOT, process_environment, run_python

from .faults import FAULTS, Fault

_HERE = pathlib.Path(__file__).parent


@functools.cache
def _run_all() -> tuple[str, str]:
    """Return what failed with each fault planted, as JSON, and the errors of the one process that plants them."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "results.json"
        settings = process_environment(_HERE.parent, ROOT)
        done = run_python(str(_HERE / "run_with_faults.py"), str(path), environment=settings)
        return (path.read_text(encoding="utf-8") if done.returncode == 0 else ""), done.stderr


def results() -> dict[str, Any]:
    written, stderr = _run_all()
    assert written, stderr[-4000:]
    return json.loads(written)


def by_fault(function: Any, index: int, call: Any) -> str:
    return re.sub(r"\W+", "_", f"{function.__name__}_{call.args[0]}")


@pytest.mark.matrix
class TestPlantedFaults(unittest.TestCase):
    def test_without_a_fault_all_pass(self) -> None:
        result = results()["no fault"]
        self.assertEqual(result["run"], len({test for fault in FAULTS for test in fault.tests}))
        self.assertEqual(result["broken"], {})
        self.assertEqual(result["failed"], [])

    @parameterized.expand([(fault.name, fault) for fault in FAULTS], name_func=by_fault)
    def test_found(self, name: str, fault: Fault) -> None:
        result = results()[name]
        self.assertEqual(result["broken"], {}, "tests must fail, not break")
        self.assertEqual(result["failed"], sorted(f"{case}.{test}" for case, test in fault.tests))
