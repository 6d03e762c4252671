"""What `python` prints of a program, `mpls run` prints: paths, errors, hooks, warnings, the prompt, statuses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest
import zipfile

import pytest
from parameterized import parameterized

from tests.processes import process_environment

from .test_run import Programs

ABOUT_ITSELF = """
import os, sys
spec = None if __spec__ is None else (__spec__.name, __spec__.origin, __spec__.cached)
print(__file__, __cached__, repr(__package__), type(__loader__).__name__, spec, sys.argv, sys.path[0])
os.chdir("/")
import sibling
"""
FOLLOWING_LINES = """
print("prompt", globals().get("x"))
import sys; print(getattr(sys, "last_value", None), getattr(sys, "last_traceback", None) and sys.last_traceback.tb_next)
"""
Result = tuple[int, str, str]


def result(programs: Programs, *command: str, text: str | bytes = b"", **environment: str) -> Result:
    """Run a program with a file as standard input, and return its exit status, output and errors."""
    path = programs.path / "standard input"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with path.open("rb") as file:
        process = subprocess.run(
            [sys.executable, *command],
            stdin=file,
            cwd=programs.path,
            capture_output=True,
            timeout=60,
            check=False,
            env=process_environment(PYTHONDONTWRITEBYTECODE="1", **environment),
        )
    return process.returncode, *(each.decode(errors="replace") for each in (process.stdout, process.stderr))


def both(programs: Programs, *command: str, text: str | bytes = b"", **environment: str) -> tuple[Result, Result]:
    """Return what `python` and `mpls run` do with a program."""
    expected = result(programs, *command, text=text, **environment)
    return expected, result(programs, "-m", "mpls", "run", *command, text=text, **environment)


class PathsTest(unittest.TestCase):
    @parameterized.expand(
        [
            (" ".join([*command, *environment]), command, environment)
            for environment in ({}, {"PYTHONSAFEPATH": "1"})
            for command in (["packed.zip", "x"], ["./packed.zip"], ["folder"], ["./folder/"], ["folder/../folder"])
        ]
        + [("./program.py", ["./program.py"], {}), ("safe", ["program.py"], {"PYTHONSAFEPATH": "1"})]
        + [("module", ["-m", "program"], {}), ("package", ["-m", "folder"], {})]
        + [
            ("attached module", ["-mprogram", "x", "--v1"], {}),
            ("attached code", ["-cimport sys; print(sys.argv)", "x"], {}),
        ]
    )
    @pytest.mark.programs
    def test_program_is_where_python_says_and_finds_what_is_beside_it(
        self, name: str, command: list[str], environment: dict[str, str]
    ) -> None:
        with Programs(program=ABOUT_ITSELF, sibling="print('sibling')") as programs:
            programs.add_package("folder", __main__=ABOUT_ITSELF, sibling="print('sibling of the folder')")
            with zipfile.ZipFile(programs.path / "packed.zip", "w") as archive:
                for file in (programs.path / "folder").iterdir():
                    archive.write(file, file.name)
            expected, actual = both(programs, *command, **environment)
        self.assertEqual(actual, expected)
        self.assertNotEqual(expected[1], "")


class ModulesTest(unittest.TestCase):
    @parameterized.expand(
        [(" ".join(options), options, []) for options in ([], ["--as-of", "2.3"], ["--v1"], ["--keras", "3"])]
        + [(" ".join(options), options, []) for options in (["--children"], ["--no-auto"], ["--report"])]
        + [("two", ["--keras", "2", "--legacy-optimizers"], []), ("replacing", ["--replace-existing"], [])]
        # The module that stands for it, and no TensorFlow.
        + [("contrib", ["--contrib"], ["tensorflow.contrib"])]
    )
    @pytest.mark.programs
    def test_no_package_is_loaded_before_the_program(self, name: str, options: list[str], own: list[str]) -> None:
        code = (
            "import sys\n"
            "found = {each for each in sys.modules if each.partition('.')[0] not in sys.stdlib_module_names}\n"
            "print(*sorted(each for each in found if not each.startswith(('mpls', '_sysconfigdata_'))))"
        )
        with Programs(program=code) as programs:
            expected = result(programs, "program.py")[1].split()
            for command in (["program.py"], ["-m", "program"], ["-c", code]):
                found = result(programs, "-m", "mpls", "run", *options, *command)[1].split()
                self.assertEqual([each for each in found if not any(each.startswith(one) for one in own)], expected)
        self.assertIn("__main__", expected)


ERRORS = {
    "no hook": "import sys; sys.excepthook = None; 1 / 0",
    "hook deleted": "import sys; del sys.excepthook; 1 / 0",
    "hook fails": "import sys; sys.excepthook = lambda *a: 1 / 0; foo",
    "hook stops": "import sys; sys.excepthook = lambda *a: sys.exit(7); foo",
    "hook interrupts": "import sys\ndef hook(*a):\n    raise KeyboardInterrupt\nsys.excepthook = hook; foo",
    "hook prints": "import sys; sys.excepthook = lambda kind, error, trace: print(error, trace.tb_next); foo",
    "interrupt without a hook": "import sys; sys.excepthook = None; raise KeyboardInterrupt",
    "interrupt with the hook deleted": "import sys; del sys.excepthook; raise KeyboardInterrupt",
    "hook for interrupts": "import sys; sys.excepthook = lambda *a: print(a[1], a[2].tb_next); raise KeyboardInterrupt",
    "audited": "import sys; sys.addaudithook(lambda n, a: n == 'sys.excepthook' and print(a[1:3])); 1 / 0",
    "vetoed": "import sys\ndef audit(name, _):\n    if name == 'sys.excepthook': raise RuntimeError\n"
    "sys.addaudithook(audit); 1 / 0",
    "last": "import atexit, sys\natexit.register(lambda: print([getattr(sys, 'last_' + each, 'none') for each in "
    "('type', 'value', 'exc')], sys.last_traceback.tb_frame.f_code.co_name, sys.last_traceback.tb_next))\n1 / 0",
    "arguments cleared": "import sys; sys.argv.clear()",
    "no arguments": "import sys; sys.argv = None; sys.exit(3)",
    "arguments deleted": "import sys; del sys.argv; 1 / 0",
    "standard error closed": "import sys; sys.stderr.close()",
    "no standard error": "import sys; sys.stderr = None; sys.exit('stopped')",
    "standard output closed": "import sys; sys.stdout.close(); sys.exit(-1)",
    "true": "import sys; sys.exit(True)",
    "not caught by Exception": "raise BaseException(1)",
}


class ErrorsTest(unittest.TestCase):
    """What a program can do about its own end."""

    @parameterized.expand(ERRORS.items())
    @pytest.mark.default_run("one case")
    def test_it_ends_as_with_python(self, name: str, source: str) -> None:
        with Programs() as programs:
            expected, actual = both(programs, "-c", source)
            with_option = result(programs, "-m", "mpls", "run", "-c", source, "--its", "--own")
        self.assertEqual(actual, expected)
        self.assertEqual(with_option, expected)

    @parameterized.expand([(name, ERRORS[name]) for name in ("no hook", "hook deleted", "hook fails", "no arguments")])
    @pytest.mark.default_run("one case")
    def test_what_comes_after_is_still_said(self, name: str, source: str) -> None:
        with Programs() as programs:
            process = result(programs, "-m", "mpls", "run", "--report", "-c", f"{source}  # is ours, not", "--v1")
        self.assertNotIn("/mpls/", process[2])
        self.assertIn("mpls run: no historical name was read", process[2])

    @parameterized.expand(
        [
            ("neither", b"x = 1\nprint('\xe9')\n", True),
            ("unknown", b"# coding: nonsense\nx = 1\n", True),
            ("wrong", b"#!/bin/python\n# coding: ascii\nx = '\xe9'\n", True),
            ("wrong UTF-8", b"# -*- coding: utf-8 -*-\nx = '\xe9'\n", True),
            ("right", b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n", False),
            ("code before", b"x = '\xc3\xa9'\n# coding: ascii\nprint(ascii(x))\n", False),
            ("with an error", b"# coding: latin-1\nprint('\xe9'\n", True),
            ("mark", b"\xef\xbb\xbfprint(ascii('\xc3\xa9'))\n", False),
        ]
    )
    @pytest.mark.programs
    def test_encodings(self, name: str, source: bytes, is_error: bool) -> None:
        with Programs() as programs:
            (programs.path / "program.py").write_bytes(source)
            for command in (["program.py"], ["-"]):
                expected, actual = both(programs, *command, text=source)
                if sys.version_info < (3, 11):
                    # It counts a line too many, and the address is another.
                    expected, actual = (
                        (*each[:2], re.sub(r"line \d|see .*", "", each[2])) for each in (expected, actual)
                    )
                self.assertEqual(actual, expected)
                self.assertEqual(expected[0] == 1, is_error)

    @parameterized.expand([("module", "pack.part"), ("of_python", "json.decoder"), ("main", "pack")])
    def test_module_that_its_package_imports(self, name: str, module: str) -> None:
        with Programs() as programs:
            programs.add_package("pack", __init__="import pack.part, pack.__main__", part="", __main__="")
            expected, actual = both(programs, "-m", module)
        # The line of Python's own file is another; up to 3.10 it is shown.
        message, of_python = (re.sub(r":\d+: ", ": ", each[2]).splitlines()[0] for each in (actual, expected))
        self.assertEqual(message, of_python)
        self.assertRegex(message, "RuntimeWarning: .* found in sys.modules after import of package")
        self.assertEqual(actual[:2], expected[:2])
        self.assertNotIn("mpls", actual[2])


class PromptTest(unittest.TestCase):
    """`python -i`, and PYTHONINSPECT, with which Python goes on to a prompt only in a terminal."""

    @parameterized.expand(
        [
            ("works", "x = 1"),
            ("fails", "x = 1; y"),
            ("stops", "x = 1; import sys; sys.exit(3)"),
            ("stops well", "import sys; sys.exit()"),
            ("interrupted", "x = 1; raise KeyboardInterrupt"),
            ("no hook", "import sys; sys.excepthook = None; x"),
        ]
    )
    @pytest.mark.programs
    def test_it_comes_after_the_program(self, name: str, source: str) -> None:
        with Programs() as programs:
            prompted = result(programs, "-i", "-c", source, text=FOLLOWING_LINES)
            self.assertEqual(result(programs, "-i", "-m", "mpls", "run", "-c", source, text=FOLLOWING_LINES), prompted)
            expected, actual = both(programs, "-c", source, PYTHONINSPECT="1")
        self.assertIn("prompt", prompted[1])
        self.assertEqual(actual, expected)


STACKS = {
    "print_stack": "import traceback; traceback.print_stack()",
    "stack_info": "import logging; logging.warning('x', stack_info=True)",
    "where in pdb": "import pdb; pdb.set_trace()\nx = 1",
    "warning": "import warnings; warnings.warn('at the top', stacklevel=2)",
}
STATE = """
import sys
import argparse

print("argparse", hasattr(argparse, "ArgumentParser"))
print("command", *sys.orig_argv[1:])
print("hook", sys.excepthook is sys.__excepthook__)
print("finders", *(getattr(each, "__module__", type(each).__module__) for each in sys.meta_path))
"""
GRAPH = """
import sys, traceback
import tensorflow.compat.v1 as tf

try:
    tf.no_such_name
except AttributeError:
    traceback.print_exc(file=sys.stdout)
tf.disable_v2_behavior()
with tf.Session() as session:
    session.run(tf.Variable(1.0, use_resource=False) + 1)
"""


def files_of(text: str) -> list[str]:
    """Return the files of the frames in a traceback, a stack or what pdb shows."""
    found = re.findall(r'File "(.+?)", line|(?:^|\(Pdb\) )[> ] ?(\S+)\(\d+\)', text, re.MULTILINE)
    return [file or file_in_pdb for file, file_in_pdb in found]


def is_of_what_runs_it(file: str) -> bool:
    return f"{os.sep}mpls{os.sep}" in file or "runpy" in file


class DifferencesTest(unittest.TestCase):
    """What MIGRATION says that differs from `python`."""

    @parameterized.expand(STACKS.items())
    @pytest.mark.default_run("one case")
    def test_frames_of_mpls_are_below_those_of_the_program(self, name: str, source: str) -> None:
        with Programs(program=source) as programs:
            expected, actual = both(programs, "program.py", text="where\ncontinue\n")
        if name == "warning":
            self.assertRegex(expected[2], "^<?sys>?:[01]: UserWarning: at the top")
            self.assertRegex(actual[2], r"^\S+[/\\]mpls[/\\]run.py:\d+: UserWarning: at the top")
            return
        frames, of_python = (files_of(each[1] + each[2]) for each in (actual, expected))
        self.assertEqual([each for each in frames if not is_of_what_runs_it(each)], of_python)
        self.assertIn(len(frames) - len(of_python), range(8, 14))

    def test_module_of_the_program_with_a_name_of_pythons_does_not_break_mpls(self) -> None:
        names = ("argparse", "json", "random", "shlex", "shutil", "tempfile", "zipfile")
        with Programs(program="print('ran')", **dict.fromkeys(names, "raise RuntimeError('own')")) as programs:
            self.assertEqual(result(programs, "-m", "mpls", "run", "program.py"), (0, "ran\n", ""))

    def test_recursion_is_as_much_less_deep(self) -> None:
        source = """
        def depth(so_far):
            try:
                return depth(so_far + 1)
            except RecursionError:
                return so_far

        print(depth(0))
        """
        with Programs(program=source) as programs:
            expected, actual = both(programs, "program.py")
        self.assertIn(int(expected[1]) - int(actual[1]), range(8, 16))

    def test_state_of_the_interpreter(self) -> None:
        with Programs(program=STATE, argparse="own = True") as programs:
            expected, actual = (
                dict(line.split(maxsplit=1) for line in each[1].splitlines()) for each in both(programs, "program.py")
            )
        self.assertEqual((expected["argparse"], actual["argparse"]), ("False", "True"))
        self.assertEqual((expected["command"], actual["command"]), ("program.py", "-m mpls run program.py"))
        self.assertEqual((expected["hook"], actual["hook"]), ("True", "False"))
        finders = actual["finders"].split()
        self.assertEqual([each for each in finders if not each.startswith("mpls.")], expected["finders"].split())
        self.assertNotEqual(finders, expected["finders"].split())

    @pytest.mark.programs
    def test_errors_of_graphs_show_them_and_printed_tracebacks_do_not(self) -> None:
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        with Programs(program=GRAPH) as programs:
            expected, actual = both(programs, "program.py", **quiet)
        self.assertEqual(actual[0], expected[0])
        self.assertEqual(actual[1], expected[1])
        self.assertIn("no_such_name", actual[1])
        stack = actual[2].partition("Original stack trace")[2]
        self.assertTrue(any(map(is_of_what_runs_it, files_of(stack))), actual[2])
        self.assertFalse(any(map(is_of_what_runs_it, files_of(expected[2]))))

    def test_a_pipe_may_declare_an_encoding(self) -> None:
        command, source = ["-m", "mpls", "run", "-"], b"# coding: latin-1\nprint(ascii('\xe9'))\n"
        process = subprocess.run(
            [sys.executable, *command], input=source, capture_output=True, timeout=60, env=process_environment()
        )
        self.assertEqual((process.returncode, process.stdout.strip()), (0, b"'\\xe9'"))

    def test_command_shows_its_own_exit_where_a_prompt_may_follow(self) -> None:
        with Programs(command="import sys\nfrom mpls.cli import main\nsys.exit(main())") as programs:
            shown = result(programs, "command.py", "run", "-c", "print(1)", PYTHONINSPECT="1")
            plain = result(programs, "command.py", "run", "-c", "print(1)")
        self.assertEqual((shown[1], plain), ("1\n", (0, "1\n", "")))
        self.assertIn("SystemExit: 0", shown[2])
