"""The pages' own names, in programs that call `mpls.install(replace_existing=True)`."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

import mpls
from tests.processes import ROOT, process_environment

from .families import NAMES, VARIABLE, looked_up


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_that_of_mpls(name: str) -> None:
    with mpls.install(replace_existing=True):
        assert looked_up(name) is NAMES[name]


@pytest.mark.programs
def test_all_that_the_pages_say_holds_by_their_names_where_tf_keras_is_keras_2() -> None:
    here = pathlib.Path(__file__).resolve()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", here.parent, f"--ignore={here}", "-q", "-p", "no:cacheprovider", "-n", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=process_environment(ROOT, **{VARIABLE: "1", "TF_USE_LEGACY_KERAS": "1"}),
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
