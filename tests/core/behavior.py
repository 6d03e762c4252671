"""Wrappers that behave as those of a release, for a test or a block of one."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mpls.core import releases
from mpls.errors import without_deprecations


@contextmanager
def behaving_as(release: str | None) -> Iterator[None]:
    """Have wrappers that a block makes behave as those of a release, as of today if there is none; without advice."""
    releases.use(releases.behavior_of(release))
    try:
        with without_deprecations():
            yield
    finally:
        releases.use(releases.ReleaseBehavior())


class ReleaseTest(unittest.TestCase):
    """A test that chooses the release whose behaviour wrappers have."""

    def use(self, release: str | None) -> None:
        """Have wrappers behave as those of a release until the test ends."""
        stack = ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(behaving_as(release))
