"""Whatever `python` runs, `mpls run` runs alike; what nobody can run is told in a sentence."""

from __future__ import annotations

import py_compile
import re
import subprocess
import sys
import unittest
import zipfile

import pytest
from parameterized import parameterized

from tests.processes import PACKAGE_ROOT, python_path

from .test_run import Programs

# Without TensorFlow, each takes a tenth of a second.
ABOUT_ITSELF = """
import sys
print(sys.argv, repr(sys.path[0]), sorted(set(globals()) - {"sys"}), __name__, __spec__, __package__)
print(globals().get("__file__"), getattr(__loader__, "__name__", type(__loader__).__name__))
x: int = 1

def broken():
    return 1 / 0

if "fail" in sys.argv:
    broken()
"""


def piped(programs: Programs, *command: str, text: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": python_path(PACKAGE_ROOT)}
    return subprocess.run(
        [sys.executable, *command],
        input=text,
        cwd=programs.path,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )


class CodeTest(unittest.TestCase):
    """Code that is in no file."""

    @parameterized.expand([("works", []), ("fails", ["fail"])])
    def test_code(self, name: str, arguments: list[str]) -> None:
        with Programs() as programs:
            expected = programs.run("-c", ABOUT_ITSELF, "a", *arguments)
            actual = programs.run("-m", "mpls", "run", "-c", ABOUT_ITSELF, "a", *arguments)
        self.assertEqual(
            (actual.returncode, actual.stdout, actual.stderr), (expected.returncode, expected.stdout, expected.stderr)
        )
        self.assertEqual(actual.returncode, len(arguments))

    @parameterized.expand([("works", []), ("fails", ["fail"])])
    def test_standard_input(self, name: str, arguments: list[str]) -> None:
        with Programs() as programs:
            expected = piped(programs, "-", "a", *arguments, text=ABOUT_ITSELF)
            actual = piped(programs, "-m", "mpls", "run", "-", "a", *arguments, text=ABOUT_ITSELF)
        self.assertEqual(
            (actual.returncode, actual.stdout, actual.stderr), (expected.returncode, expected.stdout, expected.stderr)
        )
        self.assertEqual(actual.returncode, len(arguments))

    def test_options_come_before_code(self) -> None:
        with Programs() as programs:
            code = "import mpls, sys; print(mpls.installed().as_of, sys.argv)"
            process = programs.run("-m", "mpls", "run", "--as-of=2.2", "-c", code, "--as-of", "2.3")
        self.assertEqual(process.stdout, "2.2 ['-c', '--as-of', '2.3']\n")


class FilesTest(unittest.TestCase):
    def test_compiled_file(self) -> None:
        with Programs(program=ABOUT_ITSELF) as programs:
            py_compile.compile(str(programs.path / "program.py"), cfile=str(programs.path / "compiled.pyc"))
            for arguments in ([], ["fail"]):
                expected = programs.run("compiled.pyc", *arguments)
                actual = programs.run("-m", "mpls", "run", "compiled.pyc", *arguments)
                self.assertEqual((actual.stdout, actual.stderr), (expected.stdout, expected.stderr))
                self.assertIn("compiled.pyc", actual.stdout)

    @parameterized.expand(
        [
            ("directory without a main module", ["folder"], "no __main__ module in the directory folder"),
            ("other compiled", ["other.pyc"], "{}/other.pyc was compiled by another release of Python than 3."),
            ("truncated compiled", ["short.pyc"], "{}/short.pyc is a broken compiled file"),
            ("steering the terminal", ["no\033[2Jpe.py"], r"no such script: no\x1b[2Jpe.py"),
            ("package without a main module", ["-m", "folder"], "folder is a package without a __main__ module"),
            ("no module", ["-m", "folder.nothing"], "no module named folder.nothing"),
            ("relative module", ["-m", ".folder"], ".folder is a relative name"),
            ("file that may not be read", ["folder/__init__.py/x.py"], "no such script: folder/__init__.py/x.py"),
            ("built-in module", ["-m", "sys"], "sys is no module of Python code"),
            ("two programs", ["--", "-m"], "no such script: -m"),
            ("nothing", [], "give a script, -m and the name of a module, -c and code, or - for standard input"),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_what_cannot_be_run_is_told_in_a_sentence(self, name: str, arguments: list[str], message: str) -> None:
        with Programs(program="") as programs:
            (programs.path / "folder").mkdir()
            (programs.path / "folder" / "__init__.py").touch()
            (programs.path / "other.pyc").write_bytes(b"\0\0\r\n" + bytes(12))
            py_compile.compile(str(programs.path / "program.py"), cfile=str(programs.path / "short.pyc"))
            (programs.path / "short.pyc").write_bytes((programs.path / "short.pyc").read_bytes()[:20])
            process = programs.run("-m", "mpls", "run", *arguments)
            # Without a program, `python` reads one from standard input.
            status = programs.run(*arguments).returncode if arguments else 2
        self.assertEqual((process.returncode, process.stdout), (status, ""))
        self.assertNotEqual(status, 0)
        self.assertTrue(
            process.stderr.startswith(f"mpls run: {message.replace('{}', str(programs.path))}"), process.stderr
        )
        self.assertEqual(process.stderr.count("\n"), 1, process.stderr)

    def test_errors_of_the_program_before_it_starts_are_its_own(self) -> None:
        """A package that needs what is not there is no missing module, and its traceback has no mpls in it."""
        with Programs(program="if:", bad="import not_there") as programs:
            (programs.path / "pack").mkdir()
            (programs.path / "pack" / "__init__.py").write_text("import not_there\n")
            (programs.path / "pack" / "part.py").touch()
            (programs.path / "latin.py").write_bytes(b"x = '\xff'\n")
            errors = {
                each: programs.run("-m", "mpls", "run", *each.split())
                for each in ("-m pack.part", "program.py", "latin.py", "-m program", "bad.py")
            }
        for name, process in errors.items():
            self.assertEqual(process.returncode, 1, name)
            self.assertNotIn("mpls", process.stderr, name)
        self.assertIn("No module named 'not_there'", errors["-m pack.part"].stderr)
        self.assertIn("SyntaxError", errors["latin.py"].stderr)

    @parameterized.expand(
        [
            ("in the middle", b"import os\n \0\nprint(1)\n"),
            ("in a comment", b"print(1)\n# \0 and more\nprint(2)"),
            ("at the end", b"print(1)\n\0"),
            ("no program at all", b"\x7fELF\0\0"),
        ]
    )
    def test_null_bytes(self, name: str, content: bytes) -> None:
        with Programs() as programs:
            (programs.path / "program.py").write_bytes(content)
            expected = programs.run("program.py")
            actual = programs.run("-m", "mpls", "run", "program.py")
        self.assertEqual((actual.returncode, actual.stdout), (1, ""))
        self.assertRegex(
            actual.stderr, r"program\.py\", line \d\n[^\n]*\nSyntaxError: source code cannot contain null bytes\n$"
        )
        # Older ones drop the rest of the line.
        if sys.version_info >= (3, 11, 4):
            self.assertEqual(actual.stderr, expected.stderr)

    @parameterized.expand(
        [
            ("link to a script", "links", ["script.py"]),
            ("link, absolute", ".", ["{}/links/script.py"]),
            ("link to a link", ".", ["links/chain.py"]),
            ("script in a link to a folder", ".", ["folder/script.py"]),
            ("from within a link to a folder", "folder", ["script.py"]),
            ("module from within a link to a folder", "folder", ["-m", "script"]),
            ("not normal", "links", ["./../links//script.py"]),
            ("folder by a link", ".", ["application"]),
            ("this folder", "real/app", ["."]),
            ("folder, not normal", "links", [".././real/app/"]),
            ("zip file by a link", "links", ["app.pyz"]),
            ("safe path", ".", ["links/script.py"]),
            ("safe path, folder", ".", ["application"]),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_where_modules_are_looked_for(self, name: str, cwd: str, command: list[str]) -> None:
        """The folder of the file that a link leads to comes first; everything else is called as it was given."""
        source = "import sys\nimport beside\nprint(sys.path[0], sys.argv, __file__, beside.__file__)\n"
        with Programs() as programs:
            app = programs.path / "real" / "app"
            app.mkdir(parents=True)
            for folder, main in ((app, "__main__.py"), (app.parent, "script.py")):
                (folder / main).write_text(source)
                (folder / "beside.py").touch()
            with zipfile.ZipFile(app.parent / "app.zip", "w") as archive:
                archive.write(app / "__main__.py", "__main__.py")
                archive.write(app / "beside.py", "beside.py")
            links = {
                "links/script.py": "../real/script.py",
                "links/chain.py": "script.py",
                "links/app.pyz": "../real/app.zip",
                "folder": "real",
                "application": "real/app",
            }
            (programs.path / "links").mkdir()
            (programs.path / "links" / "beside.py").write_text("raise ImportError('beside the link')")
            for link, target in links.items():
                (programs.path / link).symlink_to(target)
            programs.path /= cwd
            command = [each.format(programs.path) for each in command]
            safe = [] if "safe" not in name else ["-P"]
            if safe and sys.version_info < (3, 11):
                self.skipTest("this Python has no -P")
            expected = programs.run(*safe, *command)
            actual = programs.run(*safe, "-m", "mpls", "run", *command)
        self.assertEqual(
            (actual.returncode, actual.stdout, actual.stderr[-100:]),
            (expected.returncode, expected.stdout, expected.stderr[-100:]),
        )
        self.assertEqual(actual.returncode, int(name == "safe path"), actual.stderr)


class UsageTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("unknown", ["--fast", "program.py"], "error: unrecognized arguments: --fast"),
            ("abbreviated", ["--rep", "program.py"], "error: unrecognized arguments: --rep"),
            ("no release", ["--as-of", "3.1", "program.py"], "error: argument --as-of: must be a TensorFlow release"),
        ]
    )
    def test_mistakes_show_the_usage_of_run(self, name: str, arguments: list[str], message: str) -> None:
        with Programs(program="print('ran')") as programs:
            process = programs.run("-m", "mpls", "run", *arguments)
        self.assertEqual((process.returncode, process.stdout), (2, ""))
        self.assertTrue(process.stderr.startswith("usage: mpls run [OPTIONS] (SCRIPT"), process.stderr)
        self.assertIn(message, process.stderr)
        self.assertNotIn("install", process.stderr)

    @parameterized.expand(
        [
            ("nothing reads them", "x = 1", ["--v1", "--as-of=2.3", "x"], "--v1, --as-of=2.3"),
            ("values", "x = 1", ["--as-of", "2.3", "x", "--keras", "2", "--v1"], "--as-of 2.3, --keras 2, --v1"),
            ("value after a sign", "x = 1", ["--keras=2"], "--keras=2"),
            ("no value", "x = 1", ["--keras", "--v1", "--as-of"], "--keras, --v1, --as-of"),
            ("value for a shell", "x = 1", ["--as-of", "2.3; x"], "--as-of '2.3; x'"),
            ("program fails", "import sys; sys.exit(len(sys.argv))", ["--contrib"], "--contrib"),
            ("program reads them", "import sys; sys.exit(2 + len(sys.argv))", ["--v1"], None),
            ("a helper reads them", "import helper", ["--v1"], None),
            ("its own", "x = 1", ["--fast"], None),
            ("none", "1 / 0", [], None),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_options_after_the_program_are_pointed_out(
        self, name: str, source: str, arguments: list[str], misplaced: str | None
    ) -> None:
        with Programs(program=source, helper="import argparse") as programs:
            process = programs.run("-m", "mpls", "run", "program.py", *arguments)
        notes = re.findall("^mpls run: .*$", process.stderr, re.MULTILINE)
        if misplaced is None:
            self.assertEqual(notes, [])
        else:
            self.assertEqual(len(notes), 1)
            self.assertIn(f"{misplaced} came after the program, and went to it", notes[0])
            self.assertTrue(notes[0].endswith(f"mpls run {misplaced.replace(',', '')} program.py"))

    @parameterized.expand(
        [
            ("code", ["-c", "x = 1"], "", "-c ..."),
            ("code that reads them", ["-c", "import sys; sys.argv"], "", None),
            ("a helper of code reads them", ["-c", "import helper"], "", None),
            ("code fails", ["-c", "1 / 0"], "", "-c ..."),
            ("standard input", ["-"], "x = 1", "-"),
            ("standard input reads them", ["-"], "import sys; sys.argv", None),
            ("a helper of standard input reads them", ["-"], "import helper", None),
            ("module", ["-m", "program"], "", "-m program"),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_so_they_are_after_programs_in_no_file(
        self, name: str, program: list[str], text: str, shown: str | None
    ) -> None:
        with Programs(program="x = 1", helper="import argparse") as programs:
            process = piped(programs, "-m", "mpls", "run", *program, "--as-of", "2.3", text=text)
        notes = re.findall("^mpls run: .*$", process.stderr, re.MULTILINE)
        expected = (
            f"mpls run: --as-of 2.3 came after the program, and went to it; options of mpls come before: mpls run "
            f"--as-of 2.3 {shown}"
        )
        self.assertEqual(notes, [] if shown is None else [expected])

    def test_without_the_current_directory_it_is_not_said_to_be_looked_in(self) -> None:
        with Programs(program="x = 1") as programs:
            process = programs.run("-m", "mpls", "run", "-m", "program", PYTHONSAFEPATH="1")
        is_safe = sys.version_info >= (3, 11)
        self.assertEqual(process.returncode, is_safe, process.stderr)
        self.assertEqual("not looked for in the current directory" in process.stderr, is_safe)


MISSING = """
import tensorflow as tf

def train():
    return tf.nothing_like_this

def chained():
    try:
        import tensorflow.keras.nothing_at_all
    except ImportError as error:
        raise RuntimeError("the user's own") from error

import sys, threading
if sys.argv[1] == "chained":
    chained()
elif sys.argv[1] == "ours":
    tf.keras.mixed_precision.experimental.LossScaleOptimizer(object(), "dynamic")
else:
    train()
"""


class TracebackTest(unittest.TestCase):
    """No frame of mpls is between the program and what is missing."""

    @parameterized.expand(
        [("attribute", []), ("chained", []), ("attribute", ["--v1"]), ("chained", ["--v1"]), ("chained", ["--report"])]
    )
    @pytest.mark.default_run("each value", rest="full")
    @pytest.mark.programs
    def test_missing_name(self, what: str, options: list[str]) -> None:
        with Programs(program=MISSING) as programs:
            process = programs.run("-m", "mpls", "run", *options, "program.py", what)
        traceback = process.stderr.partition("Traceback")[2]
        self.assertRegex(traceback, "Error: ", process.stderr)
        self.assertNotIn("/mpls/", traceback)
        self.assertNotIn("importlib", traceback)
        self.assertIn("train()" if what == "attribute" else "chained()", traceback)

    @pytest.mark.programs
    def test_error_of_mpls_keeps_its_frames(self) -> None:
        with Programs(program=MISSING) as programs:
            process = programs.run("-m", "mpls", "run", "program.py", "ours")
        self.assertRegex(process.stderr, r"mpls/experimental/\w+.py")
        self.assertNotIn("/mpls/importing/", process.stderr)
