"""Constructors refer for an option of mpls to `mpls.keras.LossScaleOptimizer`, or say what it says."""

from __future__ import annotations

import inspect
import re
import unittest
from typing import Any

from parameterized import parameterized

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.formats.wrapper_state import SCALE_OPTIONS, STEP_OPTIONS

HOME = mpls.keras.LossScaleOptimizer
OTHERS = (
    mpls.v1.MixedPrecisionLossScaleOptimizer,
    mpls.v1.DynamicLossScale,
    mpls.v1.FixedLossScale,
    mpls.experimental.LossScaleOptimizer,
    mpls.contrib.LossScaleOptimizer,
    mpls.contrib.ExponentialUpdateLossScaleManager,
)
# What has another name, or is there for one of them alone: words of the home, and those in their place.
WORDS: dict[tuple[Any, str], tuple[str, str]] = {
    (mpls.v1.MixedPrecisionLossScaleOptimizer, "skip_counts_step"): ("`iterations`", "`global_step`"),
    (mpls.contrib.LossScaleOptimizer, "skip_counts_step"): ("`iterations`", "`global_step`"),
    (mpls.v1.MixedPrecisionLossScaleOptimizer, "enabled"): (
        "the inner optimizer, `loss_scale` is 1, and the state of the scale is kept",
        "`opt`, and `loss_scale` keeps its state",
    ),
    (mpls.contrib.LossScaleOptimizer, "enabled"): (
        "the inner optimizer, `loss_scale` is 1, and the state of the scale is kept",
        "`opt`, and not the manager",
    ),
}
# What the family does where nothing is said, what else comes with it, and what only the Keras wrappers take.
REST = re.compile(
    r"; by default .*?(?=\.( |$))|\. With more, there is also .*?(?=\.( |$))"
    r"|\. `'auto'` enables scaling .*?(?=; see)"
)
ROWS = [
    (f"{cls.__module__}_{cls.__name__}_{name}", cls, name)
    for cls in OTHERS
    for name in (*SCALE_OPTIONS, *STEP_OPTIONS)
    if name in inspect.signature(cls).parameters
]


def text_of(cls: Any, name: str) -> str:
    """Return what a docstring says of an argument, in one line."""
    _, _, arguments = inspect.cleandoc(cls.__doc__).partition("\nArgs:\n")
    found = re.search(rf"^    {name}: (.*?)(?=^    \S|^\S|\Z)", arguments, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{cls} does not describe {name}"
    return " ".join(found[1].split())


def core_of(text: str) -> str:
    return REST.sub("", text).replace(" ;", ";").rstrip(".")


class WordsTest(unittest.TestCase):
    @parameterized.expand(ROWS)
    def test_are_those_of_the_home(self, case: str, cls: Any, name: str) -> None:
        text = text_of(cls, name)
        if text.startswith("as in `mpls.keras`"):
            return
        home, own = WORDS.get((cls, name), ("", ""))
        wanted = core_of(text_of(HOME, name)).replace(home, own) if home else core_of(text_of(HOME, name))
        self.assertEqual(core_of(text), core_of(wanted))

    def test_every_option_is_at_home(self) -> None:
        for name in (*SCALE_OPTIONS, *STEP_OPTIONS):
            self.assertTrue(text_of(HOME, name), name)
            self.assertTrue(any(row[2] == name for row in ROWS), name)

    def test_no_words_are_left_over(self) -> None:
        self.assertLessEqual(WORDS.keys(), {row[1:] for row in ROWS})


if __name__ == "__main__":
    unittest.main()
