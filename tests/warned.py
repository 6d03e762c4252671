"""What mpls warns of in a block."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from mpls.errors import MplsWarning


@contextlib.contextmanager
def warned() -> Iterator[list[str]]:
    """Collect the texts of the warnings of mpls."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MplsWarning)
        yield texts
    texts += [str(each.message) for each in caught if issubclass(each.category, MplsWarning)]
