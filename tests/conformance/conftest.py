"""Ends a run of the suite with the table of its cells."""

from __future__ import annotations

from typing import Any

from .cells import table


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran = (
        report.nodeid for reports in terminalreporter.stats.values() for report in reports if hasattr(report, "nodeid")
    )
    if any("tests/conformance/" in nodeid for nodeid in ran):
        terminalreporter.section("conformance: family x mode x devices")
        terminalreporter.write_line(table())
