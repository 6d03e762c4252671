"""`mpls.install()` in IPython."""

from __future__ import annotations

import importlib.util
import sys
import unittest

import mpls

from .test_run import Programs


class ReprTest(unittest.TestCase):
    def test_one_line_that_says_what_was_asked_for(self) -> None:
        with mpls.install(as_of="2.3", contrib=True) as installation:
            self.assertEqual(
                repr(installation), f"<mpls.install(as_of='2.3', contrib=True): {len(installation.names)} names>"
            )
            self.assertIn("tf.keras.mixed_precision.experimental.Policy", installation.names)
            self.assertEqual(mpls.install(**installation.settings), installation)


class ExtensionTest(unittest.TestCase):
    def test_loading_and_unloading(self) -> None:
        mpls.load_ipython_extension(None)
        try:
            self.assertEqual(mpls.installed().settings, mpls.install().settings)
            mpls.install(as_of="2.2")
            mpls.load_ipython_extension(None)
            self.assertEqual(mpls.installed().as_of, "2.2")
        finally:
            mpls.unload_ipython_extension(None)
        self.assertIsNone(mpls.installed())


CELLS = [
    "%load_ext mpls",
    "import mpls\nmpls.installed()",
    "import tensorflow as tf\ntf.keras.mixed_precision.experimental.Policy.__module__",
    "try:\n    raise ValueError\nexcept ValueError:\n    pass",
    "tf.contrib.mixed_precision.LossScaleManager",
    "opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD())",
    "opt.get_scaled_loss(tf.constant(1.0))",
    "import threading\nthread = threading.Thread(target=lambda: tf.placeholder)\nthread.start()\nthread.join()",
    "%unload_ext mpls",
    "with mpls.install():\n    tf.Session",
    "print(mpls.installed())",
]

IN_IPYTHON = f"""
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in {CELLS!r}:
    shell.run_cell(cell, store_history=True)
"""


@unittest.skipIf(importlib.util.find_spec("IPython") is None, "IPython not installed")
class IPythonTest(unittest.TestCase):
    def test_cells(self) -> None:
        with Programs(program=IN_IPYTHON) as programs:
            process = programs.run("program.py")
        self.assertIn("<mpls.install(): ", process.stdout)
        self.assertIn("'mpls.experimental'", process.stdout)
        # All that the cells up to the error need.
        for arguments, count in (("contrib=True, keras=2", 2), ("v1=True, contrib=True, keras=2", 2)):
            output = process.stderr + process.stdout
            self.assertEqual(process.stderr.count(f"Call mpls.install({arguments})"), count, output)
        self.assertNotIn("mpls/importing", process.stdout + process.stderr)
        self.assertTrue(process.stdout.endswith("None\n"))


class CommandTest(unittest.TestCase):
    """`jupyter-execute` is no file here, and no kernel runs in its process."""

    def test_commands_that_are_scripts_are_found(self) -> None:
        with Programs() as programs:
            command = programs.path / "jupyter-stand-in"
            command.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv)\n")
            command.chmod(0o755)
            (programs.path / "elsewhere").mkdir()
            command.rename(programs.path / "elsewhere" / "jupyter-stand-in")
            path = f"{programs.path}/elsewhere:/usr/bin:/bin"
            process = programs.run("-m", "mpls", "run", "jupyter-stand-in", "x", PATH=path)
            other = programs.run("-m", "mpls", "run", "ls", PATH=path)
            expected = programs.run("ls", PATH=path)
        self.assertEqual(
            (process.stdout, process.stderr), (f"['{programs.path}/elsewhere/jupyter-stand-in', 'x']\n", "")
        )
        self.assertEqual((other.returncode, other.stderr), (expected.returncode, expected.stderr))
