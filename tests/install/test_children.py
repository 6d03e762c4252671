"""Processes that a program under `mpls run` starts have the names too, with the same settings."""

from __future__ import annotations

import ast
import pathlib
import unittest

import pytest
from parameterized import parameterized

import mpls
from tests.processes import PACKAGE_ROOT, python_path

from .test_run import Programs

# Without TensorFlow.
WORKER = """
import multiprocessing
import sys

import sibling

def seen(number):
    import mpls
    now = mpls.installed()
    return __name__, None if now is None else (now.as_of, now.contrib), sys.argv, sibling.__name__

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(seen, [0]))
"""

STARTS_PYTHON = """
import os
import subprocess
import sys

code = "import mpls, sys; print(mpls.installed() and mpls.installed().as_of, sys.path[0], 'tensorflow' in sys.modules)"

def started(**variables):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}).stdout.strip()

print(started())
"""


class ChildrenTest(unittest.TestCase):
    @parameterized.expand(
        [(method, module) for method in ("spawn", "forkserver") for module in ("program.py", "pack.program")]
    )
    @pytest.mark.default_run("one case")
    def test_main_module_of_a_worker(self, method: str, module: str) -> None:
        command = ["-m", module] if module == "pack.program" else [module]
        with Programs(program=WORKER, sibling="") as programs:
            programs.add_package("pack", program=WORKER.replace("import sibling", "from . import sibling"), sibling="")
            process = programs.run("-m", "mpls", "run", "--as-of=2.2", "--contrib", *command, method)
            expected = programs.run(*command, method)
        self.assertEqual(process.stdout.replace("('2.2', True)", "None"), expected.stdout, process.stderr)
        self.assertIn("'__mp_main__', ('2.2', True)", process.stdout)
        self.assertEqual(process.stderr, expected.stderr)

    @parameterized.expand([("default", []), ("children", ["--children"]), ("none", ["--no-children"])])
    @pytest.mark.default_run("one case")
    def test_programs_that_the_program_starts(self, name: str, options: list[str]) -> None:
        with Programs(program=STARTS_PYTHON) as programs:
            process = programs.run("-m", "mpls", "run", "--as-of", "2.2", *options, "program.py")
        expected = "None  False\n" if name == "none" else "2.2  False\n"
        self.assertEqual((process.stdout, process.stderr), (expected, ""))

    def test_other_environments(self) -> None:
        """Other installations, other releases of Python in the same place, and other settings: nothing is put back."""
        program = (
            STARTS_PYTHON
            + """
version, prefix, settings = os.environ["MPLS_RUN"].split(" ", 2)
print(started(MPLS_RUN=f"{version} /elsewhere {settings}"))
print(started(MPLS_RUN=f"2.7 {prefix} {settings}"))
print(started(MPLS_RUN=""))
print(started(MPLS_RUN=f"{version} {prefix} " + '{"settings": {"as_of": "none"}}'))
"""
        )
        with Programs(program=program) as programs:
            process = programs.run("-m", "mpls", "run", "--as-of", "2.2", "program.py")
        self.assertEqual(process.stdout.splitlines(), ["2.2  False", *["None  False"] * 4], process.stderr)

    @parameterized.expand(
        [
            ("there", "import os; print('MPLS_RUN' in os.environ)", "False\nTrue\n"),
            ("fails", "1 / 0", ""),
            ("lacks a module", "import not_there", ""),
            ("absent", None, ""),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_a_sitecustomize_of_the_users(self, name: str, theirs: str | None, printed: str) -> None:
        """It runs in mpls' own process, and in the program, before the names are put back."""
        code = (
            "import mpls, sys; print(mpls.installed().as_of, getattr(sys.modules.get('sitecustomize'), '__file__', 0))"
        )
        with Programs(**({} if theirs is None else {"sitecustomize": theirs})) as programs:
            path = python_path(PACKAGE_ROOT, programs.path)
            process = programs.run("-m", "mpls", "run", "--as-of", "2.2", "-c", code, PYTHONPATH=path)
            said = programs.run("-c", "", PYTHONPATH=path).stderr
        own = pathlib.Path(mpls.__file__).parent / "site"
        file = {"there": f"{programs.path}/sitecustomize.py", "absent": f"{own}/sitecustomize.py"}.get(name, "0")
        self.assertEqual((process.stdout, process.stderr), (f"{printed}2.2 {file}\n", 2 * said))

    def test_what_every_python_reads_is_old_python(self) -> None:
        source = (pathlib.Path(mpls.__file__).parent / "site" / "sitecustomize.py").read_text()
        nodes = [*ast.walk(ast.parse(source, feature_version=(3, 4)))]
        new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFunctionDef, ast.MatMult, ast.Starred)
        self.assertEqual([each for each in nodes if isinstance(each, new)], [])
        signatures = [each for each in nodes if isinstance(each, ast.FunctionDef)]
        self.assertEqual([each.returns for each in signatures], [None] * len(signatures))
        self.assertTrue(source.isascii())

    def test_mpls_where_no_new_interpreter_finds_it(self) -> None:
        start = "import os, sys; from mpls.cli import main; del os.environ['PYTHONPATH']; sys.exit(main())"
        with Programs(program=WORKER, sibling="") as programs:
            process = programs.run("-c", start, "run", "--as-of", "2.2", "program.py", "spawn")
        self.assertIn("'__mp_main__', ('2.2', False)", process.stdout, process.stderr)
