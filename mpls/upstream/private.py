"""Reads private attributes of the frameworks, and warns once if a release lacks one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mpls.errors import MplsWarning, UnsupportedReleaseError, advise_user
from mpls.patches import ABSENT

__all__ = ["ABSENT", "Private", "look_up", "rows_in"]

_SEEN = {"tensorflow": "TensorFlow 2.16 to 2.21", "tf_keras": "tf_keras 2.16 to 2.21", "keras": "Keras 3.6 to 3.15"}
# The rows of which a warning has been given in this process.
_told: set[Private] = set()
_lock = threading.Lock()


def look_up(holder: Any, name: str) -> Any:
    """Return an attribute of a framework's object or module; ABSENT if this release has none."""
    try:
        return getattr(holder, name)
    except AttributeError:
        if hasattr(type(holder), name):
            # A property that fails is there, and says why it fails.
            raise
        return ABSENT


@dataclass(frozen=True)
class Private:
    """A private name of a framework: a row of `mpls.upstream.table`, or of one of the tables that it joins.

    Attributes:
        owner: where it is: a module, and after a colon a class in it, `"tensorflow:Graph"`, or a function.
        name: the name.
        without: the consequence in a release that lacks it, as the end of a sentence; for a name that is required, what
            fails.
        seen: the releases in which it was found.
    """

    owner: str
    name: str
    without: str
    seen: str = ""

    @property
    def framework(self) -> str:
        """The top-level package that has it."""
        return self.owner.partition(":")[0].partition(".")[0]

    def of(self, holder: Any, default: Any = None) -> Any:
        """Return the attribute of an object; without it, warn once and return the default.

        Args:
            holder: an object of the class that has it, or the class.
            default: what to return without it.
        """
        found = look_up(holder, self.name)
        if found is ABSENT:
            self.warn_that_it_is_gone()
            return default
        return found

    def needed_of(self, holder: Any) -> Any:
        """Return the attribute of an object.

        Raises:
            UnsupportedReleaseError: it is gone.
        """
        found = look_up(holder, self.name)
        if found is ABSENT:
            raise UnsupportedReleaseError(self._text())
        return found

    def kept_in(self, holder: Any) -> Any:
        """Return what an object itself keeps under the name, ABSENT if nothing; no code of its class runs."""
        return getattr(holder, "__dict__", {}).get(self.name, ABSENT)

    def load(self, default: Any = None) -> Any:
        """Import the module and return the name; without it, warn once and return the default."""
        return self.of(self._module(), default)

    def needed(self) -> Any:
        """Import the module and return the name.

        Raises:
            UnsupportedReleaseError: it is gone.
        """
        return self.needed_of(self._module())

    def _module(self) -> Any:
        name = self.owner.partition(":")[0]
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            return ABSENT

    def warn_that_it_is_gone(self) -> None:
        """Warn, once per process, that this release lacks the name."""
        with _lock:
            is_first = self not in _told
            _told.add(self)
        if is_first:
            advise_user(self._text(), MplsWarning)

    def _text(self) -> str:
        version = getattr(sys.modules.get(self.framework), "__version__", "")
        seen = self.seen or _SEEN[self.framework]
        return (
            f"mpls does not find {self.owner.replace(':', '.')}.{self.name} in {self.framework} {version}: "
            f"{self.without}. It was there in {seen}: use one of these, or a newer mpls, and report it, please. "
            "See MIGRATION.md#newer-frameworks"
        )


def rows_in(members: Mapping[str, Any]) -> dict[str, Private]:
    """Return the rows among the members of a module, by their names there."""
    return {name: each for name, each in members.items() if isinstance(each, Private)}
