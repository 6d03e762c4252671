"""Each rule with programs that it holds for, and with ones that nearly look the same."""

from __future__ import annotations

import unittest

from parameterized import parameterized

from .programs import EXPERIMENTAL, TF, WRAPPED, decided, flags
from .rules_keras import KERAS, LEGACY, SAVING
from .rules_releases import AS_OF, REPLACING
from .rules_tf1 import CONTRIB, V1
from .rules_wrappers import FLOWS, TWO_BRANCHES


class RulesTest(unittest.TestCase):
    @parameterized.expand(V1)
    def test_tf_1(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    @parameterized.expand(KERAS)
    def test_keras(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    @parameterized.expand(SAVING)
    def test_paths_without_an_extension(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    @parameterized.expand(LEGACY)
    def test_legacy_optimizers(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    @parameterized.expand(AS_OF)
    def test_releases(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    @parameterized.expand(CONTRIB)
    def test_contrib(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    @parameterized.expand(REPLACING)
    def test_names_that_mean_another_class(self, label: str, source: str, keras: int | None, expected: str) -> None:
        self.assertEqual(flags(source, keras), expected)

    @parameterized.expand(TWO_BRANCHES)
    def test_wrappers_on_two_branches(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    @parameterized.expand(FLOWS)
    def test_wrappers_that_are_passed_on(self, label: str, source: str, expected: str) -> None:
        self.assertEqual(flags(source), expected)

    def test_keras_that_the_user_asks_for(self) -> None:
        self.assertEqual(flags(WRAPPED, keras=3), "")
        self.assertEqual(flags(WRAPPED, keras=2), "--legacy-optimizers")


class DisagreementTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("v1", TF + "tf.placeholder(tf.float32)\nwith tf.GradientTape() as tape: pass", "v1", (2, 3), ""),
            ("v1 by a name of TF 2", TF + "tf.Session()\ntf.summary.create_file_writer('')", "v1", (2, 3), ""),
            ("v1 by a seed", TF + "tf.Session()\ntf.random.set_seed(1)", "v1", (2, 3), ""),
            ("v1 by an assertion", TF + "assert tf.__version__ >= '2'\ntf.Session()", "v1", (3, 2), ""),
            (
                "tf_keras",
                TF + "import tf_keras\ntf_keras.Model\ntf.keras.layers.experimental.preprocessing.Rescaling(2)",
                "keras",
                (4, 2),
                "",
            ),
            ("keras", EXPERIMENTAL + "prec.set_policy('float16')\nx = tf.keras.ops.sum(1)", "keras", (2, 4), ""),
            ("legacy optimizers", WRAPPED + "tf.keras.optimizers.AdamW()", "legacy_optimizers", (2, 4), "--keras 2"),
            (
                "new arguments",
                WRAPPED + "tf.keras.optimizers.SGD(1, use_ema=True)",
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
        decision = decided(source)
        (disagreement,) = decision.disagreements
        self.assertEqual(disagreement.option, option)
        self.assertEqual(tuple(sign.where.line for sign in disagreement.signs), lines)
        self.assertEqual(" ".join(choice.flag for choice in decision.choices), expected)

    def test_helpers_of_both_generations_do_not_outweigh_the_main_file(self) -> None:
        helper = TF + "def f():\n    with tf.GradientTape() as tape: pass"
        self.assertEqual(flags(TF + "import helper\ntf.Session()", helper=helper), "--v1")
        self.assertEqual(flags(TF + "import helper\ntf.zeros([])", helper=helper + "\n    tf.Session()"), "")

    def test_a_choice_says_by_which_line(self) -> None:
        (v1, *_) = decided(TF + "\n\nx = tf.placeholder(tf.float32)").choices
        self.assertEqual((str(v1.sign.where), v1.sign.what), ("main.py:4", "uses tf.placeholder"))
        last = decided(WRAPPED + "opt.loss_scale()").choices[-1]
        self.assertEqual((str(last.sign.where), last.sign.what), ("main.py:4", "calls .loss_scale()"))
