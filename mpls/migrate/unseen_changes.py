"""Finds what may change the variables of a file where no assignment to their names says so."""

from __future__ import annotations

from mpls.program.meaning import Meanings
from mpls.program.scopes import Survey

__all__ = ["has_unseen_changes"]

# Without an argument, they are the variables themselves.
_VARIABLES = ("globals", "vars", "locals")
_RUN = ("exec", "execfile", "run_path")


def has_unseen_changes(survey: Survey, meanings: Meanings) -> bool:
    """Return whether a file may change its variables by `globals()`, `exec`, `setattr`, `mock.patch` and the like.

    Args:
        survey: what was collected in the file.
        meanings: what its names stand for.
    """
    if any(not call.args for name in _VARIABLES for call, _ in survey.calls.get(name, ())):
        return True
    for chain in survey.chains:
        called = chain.names[-1] if chain.call is not None else ""
        if called in _RUN or "patch" in chain.names or chain.names[:2] == ("sys", "modules"):
            return True
        if called == "setattr" and chain.call is not None and chain.call.args:
            method = chain.region.method()
            if getattr(chain.call.args[0], "id", "") != (method.self_name if method is not None else None):
                return True
    # All names of a module of the program's own, or of an unknown one, may have others among them.
    return any(
        not paths or any(path.startswith("@") for path in paths) for paths in map(meanings.module_of, survey.stars)
    )
