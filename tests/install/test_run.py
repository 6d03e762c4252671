"""`mpls run` is `python`, with the historical names back."""

from __future__ import annotations

import ast
import pathlib
import py_compile
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

import pytest
from parameterized import parameterized

import mpls
from tests.commands import run_command
from tests.processes import PACKAGE_ROOT, process_environment, run_python


class Programs:
    """Programs in a directory of their own."""

    def __init__(self, **sources: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name).resolve()
        for name, source in sources.items():
            (self.path / f"{name}.py").write_text(textwrap.dedent(source))

    def add_package(self, package: str, **sources: str) -> None:
        """Write the modules of a package."""
        (self.path / package).mkdir()
        for name, source in sources.items():
            (self.path / package / f"{name}.py").write_text(textwrap.dedent(source))

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run_python(*command, folder=self.path, environment=process_environment(**variables))


# Without TensorFlow, each takes a fifth of a second.
ABOUT_ITSELF = """
import os, sys
spec = None if __spec__ is None else (__spec__.name, __spec__.origin, __spec__.cached)
print(__name__, globals().get("__file__"), globals().get("__cached__"), repr(__package__), type(__loader__), spec)
print(sys.argv, sys.orig_argv[-len(sys.argv) :], sys.path, sorted(globals()))
print(sys.flags, sys.warnoptions, sys._xoptions, sys.stdout.write_through)
print(*(f"{name}={value}" for name, value in sorted(os.environ.items())), sep="\\n")
"""
ENDS = {
    "error": "def broken():\n    1 / 0\nbroken()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError from error",
    "status": "import sys; sys.exit(3)",
    "message": "import sys; sys.exit('stopped')",
    "syntax": "this is no Python",
    "interrupt": "raise KeyboardInterrupt",
    "ctrl-c": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "missing module": "import os.not_there",
    "error in a thread": "import threading; thread = threading.Thread(target=lambda: 1 / 0); thread.start()",
    "stack": "import traceback; traceback.print_stack()",
    "warning": "import warnings; warnings.warn('at the top', stacklevel=2)",
}
# What is typed after `python` or `mpls run`, before that, and in the environment.
COMMANDS: list[tuple[str, list[str], list[str], dict[str, str]]] = [
    *((f"script {name}", [f"{name.replace(' ', '_')}.py"], [], {}) for name in ENDS),
    *((f"code {name}", ["-c", source], [], {}) for name, source in ENDS.items()),
    *((f"module {name}", ["-m", name.replace(" ", "_")], [], {}) for name in ("error", "status", "syntax", "stack")),
    *((" ".join([*flags, "error"]), ["error.py"], flags, {}) for flags in (["-i"], ["-q"])),
    *(
        (" ".join(command), command, [], {})
        for command in (
            ["about.py", "a", "--", "-c"],
            ["./about.py"],
            ["link.py"],
            ["-m", "about", "a"],
            ["-m", "pack"],
            ["-m", "pack.part"],
            ["folder", "a"],
            ["packed.zip", "a"],
            ["compiled.pyc"],
            ["latin.py"],
            ["own_argparse.py"],
            ["nowhere.py"],
            ["-m", "nowhere.at.all"],
            ["-m", "sys"],
            ["-"],
        )
    ),
    ("code about", ["-c", ABOUT_ITSELF, "a"], [], {}),
    *(
        (" ".join(flags), ["about.py"], flags, {})
        for flags in (["-Werror", "-Wignore::UserWarning"], ["-X", "dev"], ["-u"], ["-OO"])
    ),
    *(
        (" ".join(variables), ["about.py"], [], variables)
        for variables in ({"PYTHONHASHSEED": "3"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONPYCACHEPREFIX": "cache"})
    ),
    ("inspected", ["-c", "x = 1"], [], {"PYTHONINSPECT": "1"}),
]
# Decides as on Windows.
IN_A_CHILD = """
import sys
del sys.path[0]
import mpls.cli.running
mpls.cli.running.REPLACES_ITSELF = False
sys.exit(mpls.cli.main(["run", "--no-children", *sys.argv[1:]]))
"""
INPUT = "print('from standard input', __name__, __file__)\nwhere\ncontinue\n"


class AsPythonTest(unittest.TestCase):
    """Standard output, standard error and status are those of `python`, to the last character."""

    @classmethod
    def setUpClass(cls) -> None:
        sources = {name.replace(" ", "_"): source for name, source in ENDS.items()}
        cls.programs = programs = Programs(
            about=f"{ABOUT_ITSELF}\nimport sibling", sibling="print(__name__)", **sources
        ).__enter__()
        cls.addClassCleanup(programs.__exit__)
        programs.add_package("pack", __init__="", __main__=ABOUT_ITSELF, part=ABOUT_ITSELF)
        programs.add_package("folder", __main__=f"{ABOUT_ITSELF}\nimport sibling", sibling="print('in the folder')")
        with zipfile.ZipFile(programs.path / "packed.zip", "w") as archive:
            for file in (programs.path / "folder").iterdir():
                archive.write(file, file.name)
        py_compile.compile(str(programs.path / "about.py"), cfile=str(programs.path / "compiled.pyc"))
        (programs.path / "link.py").symlink_to("pack/part.py")
        (programs.path / "latin.py").write_bytes(b"x = '\xff'\n")
        # Of a name that mpls itself imports.
        (programs.path / "own_argparse.py").write_text("import argparse; print(argparse.own)")
        (programs.path / "argparse.py").write_text("own = True")

    def result(self, *command: str, **variables: str) -> tuple[int, str, str]:
        settings = process_environment(PYTHONDONTWRITEBYTECODE="1", **variables)
        process = run_python(*command, folder=self.programs.path, environment=settings, text=INPUT)
        texts = (re.sub("Thread-[0-9]+|0x[0-9a-f]+", "", each) for each in (process.stdout, process.stderr))
        return process.returncode, *texts

    @parameterized.expand(COMMANDS)
    @pytest.mark.default_run("one case")
    def test_it_is_python(self, name: str, command: list[str], flags: list[str], variables: dict[str, str]) -> None:
        expected = self.result(*flags, *command, **variables)
        actual = self.result(*flags, "-m", "mpls", "run", "--no-children", *command, **variables)
        self.assertEqual(actual, expected)

    @parameterized.expand(["error", "status"])
    @pytest.mark.default_run("one case")
    def test_it_is_python_in_a_child(self, name: str) -> None:
        """As on Windows, which cannot replace a process."""
        self.assertEqual(self.result("-c", IN_A_CHILD, f"{name}.py"), self.result(f"{name}.py"))

    def test_the_command_is_the_module(self) -> None:
        with Programs(program="print('ran')", command="import sys; from mpls.cli import main; sys.exit(main())") as own:
            process = own.run("command.py", "run", "program.py")
        self.assertEqual((process.returncode, process.stdout, process.stderr), (0, "ran\n", ""))

    def test_tensorflow_is_not_loaded_for_those_that_do_not(self) -> None:
        with Programs(program="import sys; print('tensorflow' in sys.modules, 'keras' in sys.modules)") as programs:
            actual = programs.run("-m", "mpls", "run", "--contrib", "--v1", "program.py")
        self.assertEqual(actual.stdout, "False False\n")


class UsageTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("unknown", ["--fast", "program.py"], "error: unrecognized arguments: --fast"),
            ("abbreviated", ["--rep", "program.py"], "error: unrecognized arguments: --rep"),
            (
                "misspelt",
                ["--as-off", "2.2", "program.py"],
                "error: unrecognized arguments: --as-off. Did you mean --as-of?",
            ),
            ("release", ["--as-of", "3.1", "program.py"], "error: argument --as-of: must be a TensorFlow release"),
            ("no release", ["--as-of"], "error: argument --as-of: expected one argument"),
            ("nothing to run", [], "mpls run: give a script, -m and the name of a module, -c and code, or - for"),
            (
                "keras",
                ["--legacy-optimizers", "program.py"],
                "mpls run: install: keras must be 2 for legacy_optimizers",
            ),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_mistakes_are_told_with_status_2(self, name: str, arguments: list[str], message: str) -> None:
        with Programs(program="print('ran')") as programs:
            process = programs.run("-m", "mpls", "run", *arguments, TF_USE_LEGACY_KERAS="0")
        self.assertEqual((process.returncode, process.stdout), (2, ""))
        self.assertIn(message, process.stderr)
        self.assertNotIn("Traceback", process.stderr)

    def test_a_misspelt_command_is_told_with_the_nearest(self) -> None:
        status, _, err = run_command("inspct", "file")
        self.assertEqual(status, 2)
        self.assertIn("no command 'inspct'. Did you mean inspect?", err)

    @parameterized.expand(["-I", "-E", "-S"])
    @pytest.mark.default_run("one case")
    def test_a_python_that_would_not_find_the_names_is_refused(self, flag: str) -> None:
        paths = [str(PACKAGE_ROOT), *sys.path]
        start = f"import sys; sys.path[:0] = {paths!r}; from mpls.cli import main; sys.exit(main())"
        with Programs(program="print('ran')") as programs:
            for command in (["run"], ["trace", "out.json"]):
                process = programs.run(flag, "-c", start, *command, "program.py")
                self.assertEqual((process.returncode, process.stdout), (2, ""), process.stderr)
                self.assertIn(f"mpls {command[0]}: with -I, -E or -S, Python does not read", process.stderr)
            self.assertEqual([each.name for each in programs.path.iterdir()], ["program.py"])

    @parameterized.expand(
        [
            ("script", ["program.py"], ["--v1", "--as-of=2.3", "x"], "--v1, --as-of=2.3"),
            ("values", ["-c", ""], ["--as-of", "2.3", "x", "--keras", "2", "--v1"], "--as-of 2.3, --keras 2, --v1"),
            ("value for a shell", ["program.py"], ["--as-of", "2.3; x"], "--as-of '2.3; x'"),
            ("module", ["-m", "program"], ["--report"], "--report"),
            ("code", ["-c", "x = 1"], ["--no-children"], "--no-children"),
            ("standard input", ["-"], ["--v1"], "--v1"),
            ("a module of the program's own has it", ["program.py"], ["--contrib", "--keras=2", "--v1"], "--v1"),
            ("all are its own", ["program.py"], ["--contrib", "--fast"], None),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_options_after_the_program_are_pointed_out(
        self, name: str, command: list[str], arguments: list[str], misplaced: str | None
    ) -> None:
        helper = "import argparse; argparse.ArgumentParser().add_argument('--contrib'); FLAGS = ['keras']"
        with Programs(program="import helper", helper=helper) as programs:
            process = programs.run("-m", "mpls", "run", *command, *arguments)
        shown = "-c ..." if command[0] == "-c" else " ".join(command)
        expected = (
            f"mpls run: {misplaced} came after the program, and went to it; options of mpls come before: mpls run "
            f"{str(misplaced).replace(',', '')} {shown}\n"
        )
        self.assertEqual((process.returncode, process.stderr), (0, "" if misplaced is None else expected))

    def test_without_a_command_it_says_what_there_is(self) -> None:
        with Programs() as programs:
            process = programs.run("-m", "mpls")
            self.assertEqual(programs.run("-m", "mpls", "--version").stdout, f"mpls {mpls.__version__}\n")
        self.assertEqual(process.returncode, 2)
        self.assertIn("run", process.stderr)


MISSING = """
import sys
import tensorflow as tf

def train():
    return tf.nothing_like_this

def chained():
    try:
        import tensorflow.keras.nothing_at_all
    except ImportError as error:
        raise RuntimeError("the user's own") from error

if sys.argv[1] == "ours":
    tf.keras.mixed_precision.experimental.LossScaleOptimizer(object(), "dynamic")
elif sys.argv[1] == "thread":
    import threading
    thread = threading.Thread(target=chained)
    thread.start()
else:
    globals()[sys.argv[1]]()
"""


@pytest.mark.programs
class TracebackTest(unittest.TestCase):
    """No frame of mpls is between the program and what is missing."""

    @parameterized.expand(
        [
            (how, options)
            for how in ("train", "chained", "thread")
            for options in ([], ["--v1"], ["--keras=2"], ["--report"])
        ]
    )
    @pytest.mark.default_run("each value", rest="full")
    def test_missing_name(self, how: str, options: list[str]) -> None:
        with Programs(program=MISSING) as programs:
            process = programs.run("-m", "mpls", "run", *options, "program.py", how)
        traceback = process.stderr.partition("Traceback")[2]
        self.assertRegex(traceback, "Error: ", process.stderr)
        self.assertNotIn("/mpls/", traceback)
        self.assertNotIn("importlib", traceback)
        self.assertIn("in train" if how == "train" else "in chained", traceback)

    def test_error_of_mpls_keeps_its_frames(self) -> None:
        with Programs(program=MISSING) as programs:
            process = programs.run("-m", "mpls", "run", "program.py", "ours")
        self.assertRegex(process.stderr, r"mpls/keras/\w+.py")
        self.assertNotIn("/mpls/importing/", process.stderr)

    def test_a_hint_comes_where_the_program_shows_its_errors_itself(self) -> None:
        source = "import sys\nsys.excepthook = lambda *_: print('own')\nimport tensorflow as tf\ntf.placeholder(1)"
        with Programs(program=source) as programs:
            process = programs.run("-m", "mpls", "run", "--no-auto", "program.py")
        self.assertEqual((process.returncode, process.stdout), (1, "own\n"))
        self.assertEqual(process.stderr.count("Run it with --v1"), 1, process.stderr)


# Each form in which programs import a name that is gone.
IMPORTS = """
import tensorflow as tf
import tensorflow.keras.mixed_precision.experimental as by_path
from tensorflow.keras.mixed_precision import experimental
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer, Policy
from tensorflow.keras import mixed_precision
from tensorflow.compat.v2.keras.mixed_precision import experimental as of_v2
from tensorflow.compat.v1.keras.mixed_precision import experimental as of_v1
from tensorflow.train.experimental import DynamicLossScale, enable_mixed_precision_graph_rewrite
from tensorflow.mixed_precision import experimental as core
from tensorflow.mixed_precision.experimental import FixedLossScale
from tensorflow.python.keras.mixed_precision.experimental import loss_scale_optimizer, policy
from tensorflow.python.keras.mixed_precision.experimental import device_compatibility_check
from tensorflow.python.training.experimental.loss_scale import get_loss_scale_weights
from tensorflow.python.training.experimental.mixed_precision import disable_mixed_precision_graph_rewrite
from keras.mixed_precision.loss_scale_optimizer import LossScaleOptimizerV3
import tf_keras
import mpls.experimental

spellings = [
    tf.keras.mixed_precision.experimental.LossScaleOptimizer,
    tf.compat.v2.keras.mixed_precision.experimental.LossScaleOptimizer,
    tf.compat.v1.keras.mixed_precision.experimental.LossScaleOptimizer,
    tf_keras.mixed_precision.experimental.LossScaleOptimizer,
    LossScaleOptimizer,
    *(each.LossScaleOptimizer for each in (by_path, experimental, mixed_precision.experimental, of_v1, of_v2)),
    loss_scale_optimizer.LossScaleOptimizer,
]
print({each is mpls.experimental.LossScaleOptimizer for each in spellings})
print(tf.mixed_precision.experimental.DynamicLossScale is DynamicLossScale, core.FixedLossScale is FixedLossScale)
print(policy.Policy is Policy, by_path.set_policy is tf.keras.mixed_precision.experimental.set_policy)
print(enable_mixed_precision_graph_rewrite is mpls.v1.enable_mixed_precision_graph_rewrite)
print(get_loss_scale_weights(FixedLossScale(2)), tf.__name__, hasattr(tf, "contrib"))
"""

# A program of TF 1.15.
TF1 = """
import keras
import tensorflow as tf
from tensorflow.contrib.mixed_precision import FixedLossScaleManager

# Installed packages have the TensorFlow that they were written for.
print(tf.__name__, keras.src.backend.tensorflow.core.tf.__name__)
opt = tf.contrib.mixed_precision.LossScaleOptimizer(tf.train.AdamOptimizer(0.5), FixedLossScaleManager(8))
"""


class NamesTest(unittest.TestCase):
    """Fresh interpreters, since what TensorFlow is depends on who imports it first."""

    @parameterized.expand([("keras_3", "0"), ("keras_2", "1")])
    @pytest.mark.programs
    @pytest.mark.default_run("one case", rest="full")
    def test_each_form_of_import_works(self, name: str, use_legacy: str) -> None:
        with Programs(program=IMPORTS) as programs:
            process = programs.run("-m", "mpls", "run", "program.py", TF_USE_LEGACY_KERAS=use_legacy)
        self.assertEqual(process.returncode, 0, process.stderr)
        lines = process.stdout.splitlines()
        self.assertEqual(lines[:4], ["{True}", "True True", "True True", "True"])
        self.assertEqual(lines[4], "[] tensorflow False")

    @parameterized.expand([("as_of='2.3'", "2.3", True), ("as_of='2.3', keras=3", "2.3", False), ("", "2.2", True)])
    @pytest.mark.programs
    def test_what_a_program_installs_leaves_the_options_that_it_does_not_give(
        self, given: str, as_of: str, is_legacy: bool
    ) -> None:
        code = f"import mpls\nmpls.install({given})\nprint(mpls.installed().settings)\n"
        code += "with mpls.install(as_of='2.1') as block:\n    print(block.settings)\n"
        options = ("--keras", "2", "--legacy-optimizers", "--contrib", "--as-of", "2.2")
        with Programs(program=code) as programs:
            done = programs.run("-m", "mpls", "run", *options, "program.py")
        self.assertEqual(done.stderr, "")
        for line, release in zip(done.stdout.splitlines(), (as_of, "2.1"), strict=True):
            settings = ast.literal_eval(line)
            self.assertEqual((settings["as_of"], settings["contrib"], settings["v1"]), (release, True, False))
            if release == as_of:
                self.assertEqual((settings["keras"], settings["legacy_optimizers"]), (2 if is_legacy else 3, is_legacy))

    @pytest.mark.programs
    def test_v1_and_contrib(self) -> None:
        with Programs(program=TF1) as programs:
            process = programs.run("-m", "mpls", "run", "--no-auto", "--v1", "--contrib", "--report", "program.py")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stdout, "tensorflow.compat.v1 tensorflow\n")

        report = process.stderr[process.stderr.index("mpls run: the historical names") :].splitlines()
        self.assertEqual([line.split()[0] for line in report[1::2]], ["program.py:4", "program.py:8"])
        manager = "FixedLossScaleManager"
        self.assertEqual(report[1], f"program.py:4  tf.contrib.mixed_precision.{manager} (1.13 to 1.15)")
        self.assertEqual(report[2], f"    mpls.contrib.{manager}")
        self.assertLessEqual(max(map(len, report)), 100)
