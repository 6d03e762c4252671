"""Lets the processes of a test run share what the clusters said."""

from __future__ import annotations

import os

import pytest

from .launcher import SharedFolder


@pytest.fixture(scope="session", autouse=True)
def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    SharedFolder.path = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
