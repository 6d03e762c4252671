"""Options that `mpls run` chooses by itself: what wins over them, and what it says."""

from __future__ import annotations

import unittest
from typing import Any

from parameterized import parameterized

from mpls.program.files import MAX_BYTES_OF_RUN

from .programs import OBJECTS, choices, program

GRAPH = "import tensorflow as tf\nx = tf.placeholder(tf.float32)\n"
CONTRIB = GRAPH + "manager = tf.contrib.mixed_precision.FixedLossScaleManager(8)\n"
REPLACED = """import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
opt.get_scaled_loss(tf.constant(1.0))
"""
WRAPPER = "tf.keras.mixed_precision.LossScaleOptimizer"
FIXED = """import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), dynamic=False)
"""


def chosen(source: str, *words: str, **variables: str) -> tuple[dict[str, Any], str]:
    """Return the options with which `mpls run` runs a program, given or chosen, and what it says of its choice."""
    with program(train=source):
        return choices(*words, "train.py", **variables)


class ChoosingTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("objects", OBJECTS, {"as_of": "2.3", "keras": 2, "legacy_optimizers": True}, "calls .loss_scale()"),
            ("contrib", CONTRIB, {"v1": True, "contrib": True}, "uses tf.contrib.mixed_precision"),
        ]
    )
    def test_one_line_says_what_and_why(self, name: str, source: str, expected: dict[str, Any], why: str) -> None:
        options, said = chosen(source)
        self.assertEqual(options, expected)
        self.assertEqual(said.count("\n"), 1)
        self.assertRegex(said, r"^mpls run: chose --.* \(train\.py:\d .*\); --no-auto switches this off$")
        self.assertIn(why, said)
        for option in expected:
            self.assertIn(f"--{option.replace('_', '-')}", said)

    @parameterized.expand(
        [
            ("needs nothing", "import tensorflow as tf\nprint(tf.__version__)\n"),
            ("broken", "import tensorflow as\n"),
            ("empty", ""),
            ("is not read", OBJECTS, "--no-auto"),
        ]
    )
    def test_nothing_is_said_of_a_program(self, name: str, source: str, *words: str) -> None:
        self.assertEqual(chosen(source, *words), ({}, ""))

    @parameterized.expand([("missing.py",), ("-",), ("folder",)])
    def test_nothing_is_said_where_no_source_is(self, path: str) -> None:
        with program() as folder:
            (folder / "folder").mkdir()
            self.assertEqual(choices(path), ({}, ""))

    def test_nothing_is_chosen_for_more_source_than_is_read(self) -> None:
        source = GRAPH + "import part\n"
        with program(train=source, part="#" * (MAX_BYTES_OF_RUN - len(GRAPH))):
            options, said = choices("train.py")
        self.assertEqual(options, {})
        self.assertRegex(said, r"^mpls run: chose no option, as the program has more source than [^\n]*\n$")

    @parameterized.expand(
        [
            (["--as-of", "2.2"], {"as_of": "2.2", "keras": 2, "legacy_optimizers": True}),
            (["--keras", "3"], {"as_of": "2.3", "keras": 3}),
            (["--keras", "2"], {"as_of": "2.3", "keras": 2, "legacy_optimizers": True}),
            (["--keras", "3", "--as-of", "2.2"], {"as_of": "2.2", "keras": 3}),
            (["--legacy-optimizers"], {"as_of": "2.3", "keras": 2, "legacy_optimizers": True}),
            (["--contrib"], {"as_of": "2.3", "keras": 2, "legacy_optimizers": True, "contrib": True}),
        ]
    )
    def test_what_the_user_gives_wins(self, words: list[str], expected: dict[str, Any]) -> None:
        options, said = chosen(OBJECTS, *words)
        self.assertEqual(options, expected)
        flags = said.partition("(")[0]
        for word in words[::2]:
            self.assertNotIn(f"{word} ", f"{flags} ")

    def test_what_follows_from_it(self) -> None:
        for source, why in (
            (REPLACED, "3 calls .get_scaled_loss()"),
            (FIXED, "2 gives tf.keras.mixed_precision.LossScaleOptimizer dynamic="),
            (
                f"{FIXED}class A({WRAPPER}):\n"
                "    def apply_gradients(self, g, experimental_aggregate_gradients=True): pass\n",
                "2 gives tf.keras.mixed_precision.LossScaleOptimizer dynamic=",
            ),
            (f"{FIXED}opt.get_scaled_loss(1)\n{WRAPPER}(o, True)\n", "3 calls .get_scaled_loss()"),
        ):
            options, said = chosen(source, "--keras", "3")
            self.assertEqual(options, {"keras": 3, "replace_existing": True})
            self.assertIn(f"chose --replace-existing (train.py:{why})", said)

    @parameterized.expand([("1", {"as_of": "2.3", "legacy_optimizers": True}), ("0", {"as_of": "2.3"})])
    def test_the_environment_wins(self, variable: str, expected: dict[str, Any]) -> None:
        options, said = chosen(OBJECTS, TF_USE_LEGACY_KERAS=variable)
        self.assertEqual(options, expected)
        self.assertNotIn("--keras", said)

    def test_where_lines_disagree_nothing_is_chosen(self) -> None:
        disagreeing = GRAPH + "with tf.GradientTape() as tape:\n    pass\n"
        options, said = chosen(disagreeing)
        self.assertEqual(options, {})
        self.assertEqual(said.count("\n"), 1)
        self.assertRegex(said, r"^mpls run: left --v1 to you, .*train\.py:2 uses tf\.placeholder, but train\.py:3 ")
        self.assertEqual(chosen(disagreeing, "--v1"), ({"v1": True}, ""))

    def test_what_it_says_cannot_reach_the_terminal(self) -> None:
        with program() as folder:
            (folder / "a\x1b[31mb.py").write_text(GRAPH)
            options, said = choices("a\x1b[31mb.py")
        self.assertEqual(options, {"v1": True})
        self.assertNotIn("\x1b", said)
