"""Processes that a program under `mpls run` starts have the names too, with the same settings."""

from __future__ import annotations

import importlib.util
import json
import unittest

import pytest

from tests.processes import PACKAGE_ROOT, python_path

from .test_run import Programs

# Its main module uses an old name, as soon as it is imported: without the names no worker ever gets to work.
POOLS = """
import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import tensorflow as tf

Wrapper = tf.keras.mixed_precision.experimental.LossScaleOptimizer
PARENT = int(os.environ.setdefault("PARENT_OF_ALL", str(os.getpid())))

def work(number):
    import mpls
    now = mpls.installed()
    contrib = "tensorflow.contrib" in sys.modules
    return number, Wrapper.__module__, now.as_of, contrib, tf.__name__, tf.executing_eagerly(), os.getpid() != PARENT

def nested(number):
    # Processes of processes.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(work, [number]))[0]

def main():
    results = {}
    for method in sys.argv[1].split(","):
        if method == "joblib":
            import joblib
            results[method] = joblib.Parallel(2, batch_size=1)(joblib.delayed(work)(number) for number in (0, 1))[0]
        elif method == "executor":
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                results[method] = list(pool.map(nested, [0]))[0]
        else:
            with multiprocessing.get_context(method).Pool(1) as pool:
                results[method] = pool.map(work, [0])[0]
    print(json.dumps(results))

if __name__ == "__main__":
    main()
"""

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
import subprocess
import sys

code = "import mpls, sys; print(mpls.installed() and mpls.installed().as_of, sys.path[0], 'tensorflow' in sys.modules)"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout, end="")
"""


def has_joblib() -> bool:
    return importlib.util.find_spec("joblib") is not None


class PoolsTest(unittest.TestCase):
    @pytest.mark.programs
    def test_workers_of_each_start_method(self) -> None:
        methods = ["spawn", "forkserver", "fork", "executor", *(["joblib"] if has_joblib() else [])]
        options = ["--v1", "--contrib", "--as-of", "2.3"]
        with Programs(program=POOLS) as programs:
            process = programs.run("-m", "mpls", "run", *options, "program.py", ",".join(methods))
        self.assertEqual(process.returncode, 0, process.stderr)
        expected = [0, "mpls.experimental", "2.3", True, "tensorflow.compat.v1", False, True]
        self.assertEqual(json.loads(process.stdout.splitlines()[-1]), dict.fromkeys(methods, expected))
        if not has_joblib():
            self.skipTest("joblib is not installed; all others have been tested")

    def test_main_module_of_a_worker(self) -> None:
        for method in ("spawn", "forkserver"):
            with Programs(program=WORKER, sibling="") as programs:
                process = programs.run("-m", "mpls", "run", "--as-of=2.2", "--contrib", "program.py", method)
                expected = programs.run("program.py", method)
            self.assertEqual(process.stdout.replace("('2.2', True)", "None"), expected.stdout, process.stderr)
            self.assertIn("'__mp_main__', ('2.2', True)", process.stdout)

    def test_module_of_a_package_and_a_place_that_no_new_interpreter_knows(self) -> None:
        """mpls is found where the parent has it, also by a worker that is not told of it by the environment."""
        start = "import os, sys; from mpls.cli import main; del os.environ['PYTHONPATH']; sys.exit(main())"
        with Programs(program=WORKER, sibling="") as programs:
            (programs.path / "pack").mkdir()
            for name in ("program.py", "sibling.py"):
                (programs.path / name).rename(programs.path / "pack" / name)
            program = programs.path / "pack" / "program.py"
            program.write_text(program.read_text().replace("import sibling", "from . import sibling"))
            process = programs.run("-c", start, "run", "--as-of", "2.2", "-m", "pack.program", "spawn")
        self.assertIn("'__mp_main__', ('2.2', False)", process.stdout, process.stderr)


class ProgramsTest(unittest.TestCase):
    """Whole Python programs: with `--children` only."""

    def test_only_if_asked_for(self) -> None:
        with Programs(program=STARTS_PYTHON) as programs:
            without = programs.run("-m", "mpls", "run", "--as-of", "2.2", "program.py")
            with_them = programs.run("-m", "mpls", "run", "--as-of", "2.2", "--children", "program.py")
        self.assertEqual(without.stdout, "None  False\n")
        self.assertEqual(with_them.stdout, "2.2  False\n")
        self.assertEqual((without.stderr, with_them.stderr), ("", ""))

    def test_what_else_runs_at_the_start_still_does(self) -> None:
        """A sitecustomize of the user's runs, other environments are left alone, and broken settings harm nobody."""
        program = """
        import json, os, subprocess, sys
        code = "import mpls, sys; print(mpls.installed() is not None, sys.modules['sitecustomize'].__file__)"
        def started():
            return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
        print(started())
        told = json.loads(os.environ["MPLS_CHILDREN"])
        os.environ["MPLS_CHILDREN"] = json.dumps({**told, "prefix": "/elsewhere"})
        print(started()[0])
        del os.environ["MPLS_CHILDREN"]
        print(started()[0])
        """
        with Programs(program=program, sitecustomize="import sys; sys.was_here = True") as programs:
            path = python_path(PACKAGE_ROOT, programs.path)
            process = programs.run("-m", "mpls", "run", "--children", "program.py", PYTHONPATH=path)
        expected = [f"['True', '{programs.path}/sitecustomize.py']", "False", "False"]
        self.assertEqual(process.stdout.splitlines(), expected, process.stderr)

    @pytest.mark.programs
    def test_pool_of_a_program_that_is_started(self) -> None:
        program = "import subprocess, sys; subprocess.run([sys.executable, 'worker.py', 'spawn'], check=True)"
        with Programs(program=program, worker=WORKER, sibling="") as programs:
            process = programs.run("-m", "mpls", "run", "--children", "--as-of=2.2", "program.py")
        self.assertIn("'__mp_main__', ('2.2', False)", process.stdout, process.stderr)
