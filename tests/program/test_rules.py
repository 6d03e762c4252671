"""Each rule with programs that it holds for, and with ones that nearly look the same."""

from __future__ import annotations

import ast
import re
import unittest

from parameterized import parameterized

from tests.commands import run_command

from .programs import EXPERIMENTAL, NEW, TF, WRAPPED, described, flags, program, read
from .rules_all import SWITCHES, TABLES

# A line for each option.
SIGNS = {
    "--v1": "tensorflow.placeholder(1)",
    "--contrib": "tensorflow.contrib.mixed_precision.FixedLossScaleManager(8)",
    "--keras 2": "tensorflow.keras.backend.learning_phase()",
    "--legacy-optimizers": "tensorflow.keras.optimizers.SGD(decay=1)",
    "--replace-existing": "tensorflow.keras.mixed_precision.LossScaleOptimizer(None, True)",
}
_DEFINING = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)
ROWS = [(f"{table}: {label}", *row) for table, rows in TABLES.items() for label, *row in rows]


class RulesTest(unittest.TestCase):
    @parameterized.expand(ROWS)
    def test_options(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    def test_a_second_line_for_the_same_options(self) -> None:
        """Signs of one kind agree with those of another."""
        for label, source, expected in (row for row in ROWS if row[2]):
            lines = [line for flag, line in SIGNS.items() if flag in expected]
            # A file with statements of its own is a program, in which nothing else calls a function.
            if all(isinstance(each, _DEFINING) for each in ast.parse(source).body):
                lines = [f"def f{number}(): {line}" for number, line in enumerate(lines)]
            with self.subTest(label):
                self.assertEqual(flags("\n".join(["import tensorflow", *lines, source])), expected)

    @parameterized.expand(SWITCHES)
    def test_constants_that_switch(self, label: str, source: str, expected: str) -> None:
        found = read(source)
        self.assertEqual(" ".join(each["flag"] for each in found["options"]), expected)
        self.assertEqual(found["disagreements"], [])

    @parameterized.expand(
        [
            ("m.save_weights('a')", 3, "gives .save_weights() a path that does not end in .weights.h5"),
            ("m.load_weights('a')", 3, "gives .load_weights() a path that has no extension"),
            (f"{NEW}opt.momentum = 1", 5, "sets .momentum of a wrapper"),
            (f"{NEW}opt.momentum", 5, "uses .momentum of a wrapper"),
            (
                f"{WRAPPED}class A:\n    def __init__(self): self.s = opt.loss_scale\n"
                "    def f(self): self.s()\nA().f()",
                8,
                "calls self.s, a .loss_scale",
            ),
        ]
    )
    def test_reasons(self, source: str, line: int, reason: str) -> None:
        because = read(f"{TF}m = tf.keras.Sequential()\n{source}")["options"][-1]["because"]
        self.assertEqual((because["place"]["line"], because["what"]), (line, reason))

    def test_names_on_no_release_are_left_out(self) -> None:
        use = "tf.keras.mixed_precision.experimental.set_policy('float32')"
        self.assertEqual(read(f"{TF}release = tf.__version__\nif release < '2':\n    {use}")["names"], [])

    def test_names_behind_a_switch_are_marked(self) -> None:
        use = "    tf.keras.mixed_precision.experimental.set_policy('float32')\n"
        with program(main=f"{TF}AMP = False\nif AMP:\n{use}if x:\n{use}"):
            (name,) = described("main.py")["programs"][0]["names"]
            _, out, _ = run_command("doctor", "main.py")
        places = [(place["line"], place["certain"], place["behind"]) for place in name["places"]]
        self.assertEqual(places, [(4, False, "AMP"), (6, True, None)])
        self.assertIn("4 (behind AMP), 6", out)

    @parameterized.expand(
        [
            ("AMP = False\nUSE if AMP else None", "AMP"),
            ("AMP = True\nNone if AMP else USE", "not AMP"),
            ("AMP = True\nNone if not AMP else USE", None),
            ("AMP = False\nAMP and USE", "AMP"),
            ("AMP = True\nAMP or USE", "not AMP"),
            ("AMP = True\nnot AMP and USE", "not AMP"),
            ("AMP = True\ndef f():\n    if AMP: return\n    USE\nf()", "not AMP"),
            ("AMP = False\ndef f():\n    if not AMP: return\n    USE\nf()", "AMP"),
            ("AMP = False\ndef f():\n    if AMP: pass\n    else: return\n    USE\nf()", "AMP"),
            ("AMP = False\nif AMP and x: USE", "AMP and x"),
            ("A = True\nB = A\nif not B: USE", "not B"),
        ]
    )
    def test_which_switch_a_name_is_behind(self, source: str, behind: str | None) -> None:
        source = source.replace("USE", "tf.keras.mixed_precision.experimental.set_policy('float32')")
        (name,) = read(TF + source)["names"]
        self.assertEqual([(each["certain"], each["behind"]) for each in name["places"]], [(behind is None, behind)])

    def test_what_replaces_a_removed_policy_in_graph_mode(self) -> None:
        use = "tf.keras.mixed_precision.experimental.set_policy('float16_with_float32_vars')\n"
        for before, is_graph in (("", False), ("tf.compat.v1.disable_v2_behavior()\n", True), ("tf.Session()\n", True)):
            (gone,) = read(TF + before + use)["gone"]
            self.assertEqual(gone["name"], "the policy 'float16_with_float32_vars'")
            self.assertEqual("enable_v2_dtype_behavior() and --keras 2" in gone["today"], is_graph)


class TreeTest(unittest.TestCase):
    @parameterized.expand([("beside", ""), ("above", "import sys\nsys.path.append('.')\nimport shared\n")])
    def test_programs_of_a_folder_find_their_own_modules_of_one_name(self, where: str, start: str) -> None:
        """Also where one module of the folder above links them differently."""
        main = start or "import tools\ntools.x.Session()\n"
        sources = {f"{name}__main": main for name in "ab"}
        sources |= {"a__tools": "import tensorflow as x", "b__tools": "import numpy as x"}
        with program(**sources, shared="from tools import x\nx.Session()"):
            for order in (("a", "b"), ("b", "a")):
                found = {each["path"]: each["options"] for each in described(*order)["programs"]}
                self.assertEqual([bool(found[f"{name}/main.py"]) for name in "ab"], [True, False])


class DisagreementTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("TF 2", TF + "tf.random.set_seed(1)\nwith tf.GradientTape() as tape: pass"),
            (
                "new optimizers",
                TF + "tf.keras.backend.learning_phase()\ntf.keras.optimizers.AdamW()\n"
                "tf.keras.optimizers.SGD(jit_compile=True)",
            ),
        ]
    )
    def test_lines_without_an_option_agree(self, label: str, source: str) -> None:
        self.assertEqual(read(source)["disagreements"], [])

    @parameterized.expand(
        [
            ("v1", TF + "tf.placeholder(tf.float32)\nwith tf.GradientTape() as tape: pass", "v1", (2, 3), ""),
            (
                "tf_keras",
                TF + "import tf_keras\ntf_keras.Model\ntf.keras.layers.experimental.preprocessing.Rescaling(2)",
                "keras",
                (4, 2),
                "",
            ),
            ("keras", EXPERIMENTAL + "prec.set_policy('float16')\nx = tf.keras.ops.sum(1)", "keras", (2, 4), ""),
            ("of TF 2", TF + "tf.placeholder(tf.float32)\ntf.random.set_seed(1)", "v1", (2, 3), ""),
            ("legacy optimizers", WRAPPED + "tf.keras.optimizers.AdamW()", "legacy_optimizers", (2, 4), "--keras 2"),
            (
                "arguments of new ones",
                WRAPPED + "tf.keras.optimizers.SGD(jit_compile=True)",
                "legacy_optimizers",
                (2, 4),
                "--keras 2",
            ),
            (
                "releases",
                WRAPPED + "opt.loss_scale()\ntf.keras.mixed_precision.set_global_policy('float16')",
                "as_of",
                (4, 5),
                "",
            ),
        ]
    )
    def test_nothing_is_chosen(
        self, label: str, source: str, option: str, lines: tuple[int, int], expected: str
    ) -> None:
        found = read(source)
        (disagreement,) = found["disagreements"]
        self.assertEqual(disagreement["option"], option)
        self.assertEqual(tuple(each["place"]["line"] for each in disagreement["because"]), lines)
        self.assertTrue(all(re.match("(uses|gives|calls) ", each["what"]) for each in disagreement["because"]))
        self.assertEqual(" ".join(each["flag"] for each in found["options"]), expected)

    def test_helpers_of_both_generations_do_not_outweigh_the_main_file(self) -> None:
        helper = TF + "def f():\n    with tf.GradientTape() as tape: pass"
        self.assertEqual(flags(TF + "import helper\ntf.Session()", helper=helper), "--v1")
        self.assertEqual(flags(TF + "import helper\ntf.zeros([])", helper=helper + "\n    tf.Session()"), "")
