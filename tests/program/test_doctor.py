"""`mpls doctor` says of programs what they need, and runs nothing."""

from __future__ import annotations

import json
import os
import pathlib
import unittest
from typing import Any
from unittest import mock

from parameterized import parameterized

from mpls.program.files import MAX_BYTES_OF_RUN
from tests.clients.corpus import PROGRAMS
from tests.clients.record import path_of
from tests.commands import run_command
from tests.folders import InFolder
from tests.processes import process_environment, run_python

from .programs import OBJECTS, choices

NEW = "import tensorflow as tf\nprint(tf.__version__)\n"
DISAGREEING = "import tensorflow as tf\nx = tf.placeholder(tf.float32)\nwith tf.GradientTape() as tape:\n    pass\n"
SLIM = """import tensorflow as tf
from tensorflow.contrib import slim
x = tf.placeholder(tf.float32)
y = slim.fully_connected(x, 3)
manager = tf.contrib.mixed_precision.FixedLossScaleManager(8)
"""
PROGRAM_KEYS = ["path", "kind", "is_whole", "options", "is_chosen", "disagreements", "names", "gone", "unread"]


def run(*arguments: str) -> tuple[int, str, str]:
    return run_command("doctor", *arguments)


def read(*paths: str) -> dict[str, Any]:
    status, out, err = run("--json", *paths)
    description = json.loads(out)
    assert err == ""
    assert description["status"] == status
    return description


def cells(*sources: str, **metadata: Any) -> str:
    """Return a notebook with these code cells, each after one of text."""
    found: list[dict[str, Any]] = []
    for source in sources:
        found.append({"cell_type": "markdown", "source": ["import nothing"]})
        found.append({"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": []})
    return json.dumps({"nbformat": 4, "metadata": metadata, "cells": found})


class _InFolder(InFolder, unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def write(self, source: str | bytes, name: str = "train.py") -> str:
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.encode() if isinstance(source, str) else source)
        return name


class ScriptTest(_InFolder):
    def test_text(self) -> None:
        status, out, err = run(self.write(OBJECTS))
        name = "tf.keras.mixed_precision.experimental.LossScaleOptimizer"
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(
            out,
            "train.py: needs --keras 2 --legacy-optimizers --as-of 2.3\n"
            "  --keras 2            line 3 calls .loss_scale()\n"
            "  --legacy-optimizers  line 3 calls .loss_scale()\n"
            "  --as-of 2.3          line 3 calls .loss_scale()\n"
            "  historical names, and what to write today\n"
            f"    line 2: {name} (1.14 to 2.8)\n"
            # Not the class that warns when it is made.
            "        mpls.keras.LossScaleOptimizer\n",
        )

    def test_json(self) -> None:
        description = read(self.write(OBJECTS))
        self.assertEqual(list(description), ["status", "unread", "programs"])
        (program,) = description["programs"]
        self.assertEqual(list(program), PROGRAM_KEYS)
        place = {"file": "train.py", "cell": None, "line": 3, "certain": True, "behind": None}
        because = {"place": place, "what": "calls .loss_scale()"}
        self.assertEqual(
            program["options"],
            [
                {"option": "keras", "value": 2, "flag": "--keras 2", "because": because},
                {"option": "legacy_optimizers", "value": True, "flag": "--legacy-optimizers", "because": because},
                {"option": "as_of", "value": "2.3", "flag": "--as-of 2.3", "because": because},
            ],
        )
        (name,) = program["names"]
        self.assertEqual(name["name"], "tf.keras.mixed_precision.experimental.LossScaleOptimizer")
        self.assertEqual((name["releases"], name["today"]), ("1.14 to 2.8", "mpls.keras.LossScaleOptimizer"))
        self.assertEqual(name["places"], [{**place, "line": 2}])
        self.assertEqual([program[key] for key in ("kind", "disagreements", "gone", "unread")], ["script", [], [], []])

    def test_names_of_what_may_be_tensorflow(self) -> None:
        name = "keras.mixed_precision.experimental.Policy"
        self.write(f"self.tf.{name}\nMODULES['tf'].{name}\nexec('tf.{name}()')\nprint('mixed_precision.x')\n")
        (found,) = read("train.py")["programs"][0]["names"]
        places = [(each["line"], each["certain"]) for each in found["places"]]
        self.assertEqual((found["name"], places), (f"tf.{name}", [(1, False), (2, False), (3, False)]))

    def test_nothing_is_found(self) -> None:
        self.assertEqual(run(self.write(NEW)), (0, "train.py: nothing found that needs an option\n", ""))

    def test_lines_disagree(self) -> None:
        status, out, _ = run(self.write(DISAGREEING))
        self.assertEqual(status, 0)
        self.assertIn("train.py: its lines disagree about options\n", out)
        self.assertIn("--v1 is left to you, as its lines disagree: line 2 uses tf.placeholder, but line 3 uses", out)
        (found,) = read("train.py")["programs"][0]["disagreements"]
        self.assertEqual((found["option"], found["flag"]), ("v1", "--v1"))
        self.assertEqual([each["place"]["line"] for each in found["because"]], [2, 3])

    def test_other_files_of_it(self) -> None:
        self.write(OBJECTS, "precision.py")
        self.write("def broken(:\n", "helper.py")
        (program,) = read(self.write("import precision\nimport helper\n"))["programs"]
        self.assertEqual(program["path"], "train.py")
        self.assertEqual(program["options"][0]["because"]["place"]["file"], "precision.py")
        self.assertEqual([each["path"] for each in program["unread"]], ["helper.py"])
        self.assertIn("  not read: helper.py is not Python 3: ", run("train.py")[1])

    def test_larger_than_what_run_reads(self) -> None:
        program = "import part\nimport tensorflow as tf\ntf.placeholder(tf.float32)\n"
        size = MAX_BYTES_OF_RUN - len(program)
        for more, is_chosen in ((0, True), (1, False)):
            self.write("#" * (size + more), "part.py")
            _, out, _ = run(self.write(program))
            self.assertTrue(out.startswith("train.py: needs --v1\n"), out)
            self.assertEqual("mpls run reads at most 500 kB, and chooses none of them" in out, not is_chosen)
            self.assertEqual(read("train.py")["programs"][0]["is_chosen"], is_chosen)
            self.assertEqual(choices("train.py")[0], {"v1": True} if is_chosen else {})


class GoneTest(_InFolder):
    def test_a_guarded_import_of_contrib_is_named(self) -> None:
        guarded = (
            "try:\n    from tensorflow.contrib.mixed_precision import LossScaleOptimizer\nexcept ImportError:\n    pass"
        )
        note = "mpls run has this name only with --contrib"
        self.write(guarded)
        self.assertIn(note, run("train.py")[1])
        self.write(guarded.splitlines()[1].strip())
        self.assertNotIn(note, run("train.py")[1])

    def gone(self, source: str) -> tuple[int, dict[str, str]]:
        description = read(self.write(source))
        (program,) = description["programs"]
        return description["status"], {each["name"]: each["today"] for each in program["gone"]}

    def test_text(self) -> None:
        status, out, _ = run(self.write(SLIM))
        self.assertEqual(status, 1)
        self.assertIn("train.py: needs --v1 --contrib\n", out)
        self.assertIn("  lines 2, 4: tf.contrib.slim is gone for good: tf.contrib ended with TF 1.15; the", out)

    @parameterized.expand(
        [
            ("import tensorflow as tf\ntf.contrib.layers.xavier_initializer()", "tf.contrib.layers", "tf_slim.layers"),
            ("import tensorflow as tf\ntf.estimator.Estimator()", "tf.estimator", "people use Keras"),
            (
                "from tensorflow.keras.utils import multi_gpu_model",
                "tf.keras.utils.multi_gpu_model",
                "MirroredStrategy",
            ),
            (
                "from tensorflow.keras.mixed_precision.experimental import Policy\nPolicy('infer')",
                "the policy 'infer'",
                "Policy('float32')",
            ),
        ]
    )
    def test_what_people_use(self, source: str, name: str, today: str) -> None:
        status, found = self.gone(source)
        self.assertEqual((status, list(found)), (1, [name]))
        self.assertIn(today, found[name])

    @parameterized.expand(
        [
            ("if", "import tensorflow as tf\nif hasattr(tf, 'contrib'):\n    tf.contrib.layers.conv2d()"),
            ("try", "try:\n    from tensorflow.contrib import slim\nexcept ImportError:\n    import tf_slim as slim"),
            ("ours", "import tensorflow.contrib.mixed_precision as prec\nprec.FixedLossScaleManager(1)"),
            (
                "whole",
                "import tensorflow as tf\ncontrib = tf.contrib\ncontrib.mixed_precision.FixedLossScaleManager(1)",
            ),
            ("there", "import tensorflow as tf\ntf.keras.experimental.CosineDecay(0.1, 5)"),
            ("own", "class tf: pass\ntf.estimator"),
            ("comment", "import tensorflow as tf\n# tf.estimator.Estimator\n'tf.contrib.slim'"),
        ]
    )
    def test_what_is_not_gone(self, name: str, source: str) -> None:
        self.assertEqual(self.gone(source), (0, {}))


class NotebookTest(_InFolder):
    def test_lines_of_cells(self) -> None:
        first = "%matplotlib inline\n!pip install \\\n  tensorflow\nimport tensorflow as tf\n"
        second = "\n# Wrap.\n" + OBJECTS.partition("\n")[2]
        self.write(cells("%%bash\nls (\n", first, second), "old.ipynb")
        status, out, _ = run("old.ipynb")
        self.assertEqual(status, 0)
        self.assertIn("old.ipynb: needs --keras 2 --legacy-optimizers --as-of 2.3\n", out)
        self.assertIn("  mpls run --keras 2 --legacy-optimizers --as-of 2.3 -m jupyter execute", out)
        self.assertIn("  --as-of 2.3          cell 3:4 calls .loss_scale()\n", out)
        self.assertIn("    cell 3:3: tf.keras.mixed_precision.experimental.LossScaleOptimizer", out)
        (program,) = read("old.ipynb")["programs"]
        self.assertEqual((program["kind"], program["unread"]), ("notebook", []))
        place = {"file": "old.ipynb", "cell": 3, "line": 4, "certain": True, "behind": None}
        self.assertEqual(program["options"][2]["because"]["place"], place)
        # Commands and modules that run it get the same options.
        for words in (("-m", "jupyter", "execute"), ("jupyter-execute",)):
            self.assertRegex(choices(*words, "old.ipynb")[1], r"^mpls run: chose --.* \(old\.ipynb:cell 3:4 calls ")
        self.assertEqual(choices("-m", "jupyter", "execute", "missing.ipynb"), ({}, ""))

    @parameterized.expand(
        [
            ("%time opt = 1",),
            ("files = !ls (",),
            ("if True:\n    !ls",),
            ("tf.Session?",),
            ("text = ('%d'\n  %(1,))\n!ls",),
            ("text = '''\n!ls\n'''\n%cd ..",),
            ("await x",),
            ("",),
        ]
    )
    def test_what_is_no_python_leaves_the_rest(self, cell: str) -> None:
        self.write(cells(cell, "import tensorflow as tf\ntf.estimator"), "old.ipynb")
        (program,) = read("old.ipynb")["programs"]
        self.assertEqual(program["unread"], [])
        self.assertEqual([each["places"][0]["cell"] for each in program["gone"]], [2])
        self.assertEqual([each["places"][0]["line"] for each in program["gone"]], [2])

    def test_broken_cells_are_named(self) -> None:
        self.write(cells("print 'x'\n", "import tensorflow as tf\ntf.estimator"), "old.ipynb")
        (program,) = read("old.ipynb")["programs"]
        (unread,) = program["unread"]
        self.assertEqual(unread["path"], "old.ipynb:cell 1")
        self.assertIn("is not Python 3: ", unread["reason"])
        self.assertEqual(program["gone"][0]["places"][0]["cell"], 2)

    def test_files_beside_it_and_the_old_format(self) -> None:
        self.write("import tensorflow as tf\nx = tf.placeholder(tf.float32)\n", "nets/model.py")
        sheet = {"cells": [{"cell_type": "code", "input": "import model\r\nmodel.x\r\nmodel.tf.estimator\r\n"}]}
        self.write(json.dumps({"nbformat": 3, "metadata": {}, "worksheets": [sheet]}), "nets/old.ipynb")
        (program,) = read("nets/old.ipynb")["programs"]
        self.assertEqual([option["flag"] for option in program["options"]], ["--v1"])
        self.assertEqual([each["places"][0]["line"] for each in program["gone"]], [3])
        place = {"file": "nets/model.py", "cell": None, "line": 2, "certain": True, "behind": None}
        self.assertEqual(program["options"][0]["because"]["place"], place)


class FolderTest(_InFolder):
    def paths(self, *paths: str) -> list[str]:
        return [program["path"] for program in read(*paths)["programs"]]

    def test_programs(self) -> None:
        self.write("import model\nif __name__ == '__main__':\n    pass\n", "work/train.py")
        self.write("import train, layers.core\n", "work/tune.py")
        self.write("import tensorflow as tf\ntf.estimator\n", "work/model.py")
        self.write("", "work/layers/__init__.py")
        self.write("", "work/layers/core.py")
        self.write("x", "work/tools/plot.pyw")
        os.symlink("train.py", "work/again.py")
        os.symlink("old.ipynb", "work/again.ipynb")
        self.write("", "work/empty/__init__.py")
        self.write("from . import one\n", "work/library/__init__.py")
        self.write("", "work/library/one.py")
        self.write(cells("import model"), "work/old.ipynb")
        for aside in (".hidden", "__pycache__", "lib/site-packages", "venv", ".ipynb_checkpoints"):
            self.write("x", f"work/{aside}/aside.py")
            self.write(cells("x"), f"work/{aside}/aside.ipynb")
        self.write("", "work/venv/pyvenv.cfg")
        self.assertEqual(
            self.paths("work"),
            [
                *(f"work/{name}" for name in ("library/__init__.py", "tools/plot.pyw", "train.py", "tune.py")),
                "work/old.ipynb",
            ],
        )
        self.assertEqual(read("work")["status"], 1)

    def test_broken_ones(self) -> None:
        self.write(NEW, "work/new.py")
        for source, line in (("print 'x'", r" \(line 1\)"), (b"# \xe9\n", "")):
            self.write(source, "work/old.py")
            status, out, err = run("work")
            self.assertEqual((status, out), (2, "work/new.py: nothing found that needs an option\n"))
            self.assertRegex(err, r"^mpls doctor: work/old\.py is not Python 3: [^<]*" + line + "\n$")

    def test_nothing_in_it(self) -> None:
        self.write("x", "work/notes.txt")
        self.assertEqual(run("work"), (2, "", "mpls doctor: work has no Python source in it\n"))
        with mock.patch("os.scandir", side_effect=PermissionError(13, "Permission denied", "work")):
            self.assertEqual(run("work"), (2, "", "mpls doctor: work cannot be read: Permission denied\n"))


class PathsTest(_InFolder):
    def test_several(self) -> None:
        self.write(OBJECTS)
        self.write(SLIM, "slim.py")
        status, out, err = run("train.py", "slim.py", "train.py")
        self.assertEqual((status, err), (1, ""))
        heads = [line for line in out.splitlines() if line and not line.startswith(" ")]
        summary = "2 programs: 2 need options, 1 uses what no option brings back"
        needs = ["train.py: needs --keras 2 --legacy-optimizers --as-of 2.3", "slim.py: needs --v1 --contrib"]
        self.assertEqual(heads, [summary, *needs])
        counts = ["  1  mpls run --keras 2 --legacy-optimizers --as-of 2.3", "  1  mpls run --v1 --contrib"]
        self.assertEqual(out.splitlines()[1:3], counts)

    def test_those_that_need_nothing_are_counted(self) -> None:
        self.write(OBJECTS, "work/train.py")
        self.write("import tensorflow as tf\ntf.keras.mixed_precision.set_global_policy('float32')\n", "work/policy.py")
        self.write(NEW, "work/new.py")
        out = run("work")[1]
        self.assertTrue(out.startswith("3 programs: 1 needs options, nothing was found in 2\n"), out)
        self.assertNotIn("new.py", out)
        self.assertNotIn("policy.py", out)
        shown = run("work", "--all")[1]
        self.assertIn("work/new.py: nothing found that needs an option\n", shown)
        self.assertIn("    line 2: tf.keras.mixed_precision.set_global_policy (2.4 to 2.21)\n", shown)

    def test_one_is_missing(self) -> None:
        self.write(SLIM)
        status, out, err = run("missing.py", "train.py")
        self.assertEqual((status, err), (2, "mpls doctor: missing.py is not there\n"))
        self.assertIn("train.py: needs --v1 --contrib\n", out)
        description = read("missing.py", "train.py")
        self.assertEqual(description["unread"], [{"path": "missing.py", "reason": "is not there"}])
        self.assertEqual(len(description["programs"]), 1)

    def test_a_pipe_is_not_opened(self) -> None:
        for name in ("pipe.py", "pipe.ipynb"):
            os.mkfifo(name)
            self.assertEqual(run(name)[0], 2)

    def test_names_do_not_steer_the_terminal(self) -> None:
        name = self.write(f"{SLIM}getattr(tf.contrib, 'a\\x1b[2J')\n", "a\x1b[2J\nb.py")
        missing = "c\x1b[2J\n\u202e.py"
        _, out, err = run(name, missing)
        for text in (out, err):
            self.assertTrue(all(line.isprintable() for line in text.splitlines()), text)
        self.assertIn("a\\x1b[2J\\nb.py: needs", out)
        self.assertIn(": tf.contrib.a\\x1b[2J is gone", out)
        self.assertEqual(err, "mpls doctor: c\\x1b[2J\\n\\u202e.py is not there\n")
        self.assertEqual(read(name, missing)["unread"][0]["path"], missing)

    def test_frameworks_are_not_imported_and_nothing_runs(self) -> None:
        self.write("import os\nos.mkdir('ran')\n" + SLIM)
        self.write(cells("!mkdir ran", OBJECTS), "old.ipynb")
        program = (
            "import sys; from mpls.cli import main; status = main(['doctor', '.', '\\xfc.py'])\n"
            "assert status == 2; assert not {'tensorflow', 'keras', 'tf_keras'} & set(sys.modules)"
        )
        done = run_python("-c", program, environment=process_environment(PYTHONIOENCODING="ascii"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("train.py: needs --v1 --contrib\n", done.stdout)
        self.assertIn("old.ipynb: needs --keras 2", done.stdout)
        self.assertEqual(done.stderr, "mpls doctor: \\xfc.py is not there\n")
        self.assertFalse(pathlib.Path("ran").exists())


class CorpusTest(unittest.TestCase):
    def test_the_options_are_those_that_run_chooses(self) -> None:
        paths = [str(path_of(name)) for name in PROGRAMS]
        found = read(*paths)
        self.assertEqual((len(found["programs"]), found["unread"]), (len(paths), []))
        self.assertEqual(found["status"], 1)
        gone = [program["path"] for program in found["programs"] if program["gone"]]
        self.assertEqual([pathlib.Path(path).stem for path in gone], ["old_policies"])
        for path, program in zip(paths, found["programs"], strict=True):
            self.assertEqual({each["option"]: each["value"] for each in program["options"]}, choices(path)[0], path)
