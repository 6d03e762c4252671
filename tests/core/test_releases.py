"""Which release behaved how."""

from __future__ import annotations

import itertools
import unittest

from parameterized import parameterized

from mpls.core import releases
from mpls.core.releases import ReleaseBehavior, behavior_of
from mpls.names import RELEASES

# What is true from the first release on, up to the last one, and by default.
FACTS: list[tuple[str, str, str, bool]] = [
    ("skipped_steps_count", "2.3", "2.21", True),
    ("skipped_steps_count_in_keras_3", "2.3", "2.15", False),
    ("has_loss_scale_objects", "1.13", "2.3", False),
    ("wrong_optimizers_are_value_errors", "1.13", "2.3", False),
    ("passes_second_argument_on", "1.13", "2.9", False),
    ("second_argument_is_name", "2.10", "2.21", False),
]


class FactsTest(unittest.TestCase):
    @parameterized.expand(FACTS)
    def test_in_every_release(self, name: str, first: str, last: str, default: bool) -> None:
        true = RELEASES[RELEASES.index(first) : RELEASES.index(last) + 1]
        for release in RELEASES:
            self.assertEqual(getattr(behavior_of(release), name), release in true, release)
        self.assertEqual(getattr(ReleaseBehavior(), name), default)

    def test_all_of_them_are_listed(self) -> None:
        properties = {name for name, value in vars(ReleaseBehavior).items() if isinstance(value, property)}
        self.assertEqual(properties, {name for name, *_ in FACTS})

    def test_class_names(self) -> None:
        for release in RELEASES:
            minor = int(release.split(".")[1]) if release.startswith("2") else -1
            expected = None if minor > 8 else "LossScaleOptimizerV1" if minor > 3 else "LossScaleOptimizer"
            self.assertEqual(behavior_of(release).wrapper_name(is_experimental=True), expected, release)
            expected = None if minor > 8 else "LossScaleOptimizer"
            self.assertEqual(behavior_of(release).wrapper_name(is_experimental=False), expected, release)
        self.assertIsNone(ReleaseBehavior().wrapper_name(is_experimental=True))

    def test_releases_are_compared_as_numbers(self) -> None:
        self.assertTrue(behavior_of("2.10").is_from("2.9"))
        self.assertFalse(behavior_of("2.10").is_up_to("2.9"))
        self.assertTrue(behavior_of("1.15").is_up_to("2.0"))
        self.assertTrue(behavior_of("2.3").is_up_to("2.3") and behavior_of("2.3").is_from("2.3"))
        self.assertFalse(ReleaseBehavior().is_up_to("2.21") or ReleaseBehavior().is_from("1.13"))


class CurrentTest(unittest.TestCase):
    def test_one_is_used_until_another_is(self) -> None:
        self.addCleanup(releases.use, ReleaseBehavior())
        self.assertEqual(releases.current(), ReleaseBehavior())
        releases.use(behavior_of("2.2.3"))
        self.assertEqual(releases.current(), ReleaseBehavior("2.2"))

    @parameterized.expand([(order,) for order in itertools.permutations(("2.2", "2.4", "2.8"))])
    def test_blocks_end_in_any_order(self, order: tuple[str, ...]) -> None:
        blocks = {release: object() for release in ("2.2", "2.4", "2.8")}
        for release, block in blocks.items():
            releases.enter_block(block, behavior_of(release))
        for release in order:
            self.assertEqual(releases.current().release, list(blocks)[-1])
            releases.leave_block(blocks.pop(release))
        self.assertIsNone(releases.current().release)

    @parameterized.expand([("1.12",), ("2.22",), ("3",), ("",), ("two",), ("2",)])
    def test_there_is_no_such_release(self, release: str) -> None:
        with self.assertRaisesRegex(ValueError, r"as_of must be a TensorFlow release from 1\.13 to 2\.21; got"):
            behavior_of(release)

    @parameterized.expand([(2.1,), (2.10,), (2,), (("2", "3"),), (b"2.3",)])
    def test_a_release_is_a_string(self, release: object) -> None:
        """2.10 is the number 2.1, and the program of a release of its own."""
        with self.assertRaisesRegex(TypeError, r"as_of must be a string; got .*Write it in quotes"):
            behavior_of(release)  # type: ignore[arg-type]
