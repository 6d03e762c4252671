"""Finds the hint for an error. Imported only after an error, since its own imports take time."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from mpls.hints.failures import Failure
from mpls.hints.sites import original, site_of
from mpls.hints.table import ROWS, Row

__all__ = ["hint_of"]


def hint_of(error: BaseException, settings: Mapping[str, Any], function: Any = None) -> str | None:
    """Return a line about the cause of an error; None if the cause is not certain.

    Args:
        error: the error that ended a program.
        settings: the arguments of `install` that apply.
        function: `install`, for programs that call it; None for `mpls run`.
    """
    # A failure while looking for the hint must not hide the program's own error.
    try:
        first = original(error)
        site = site_of(first)
        if site is None:
            return None
        failure = Failure(first, error, site, settings)
        if failure.is_of_the_program:
            return None
        return next((_line(row, says, function) for row in ROWS if (says := row.applies(failure))), None)
    except Exception:
        return None


def _line(row: Row, says: bool | str, function: Any) -> str:
    text = says if isinstance(says, str) else row.says
    if row.option:
        text = f"{text}. {_advice(row.option, function)}"
    return f"{'mpls' if function is not None else 'mpls run'}: {text}. See mpls docs {row.anchor}"


def _advice(option: str, function: Any) -> str:
    options = [each.partition(" ") for each in option.removeprefix("--").split(" --")]
    arguments = {name.replace("-", "_"): value for name, _, value in options}
    if function is not None and arguments.keys() <= inspect.signature(function).parameters.keys():
        shown = (f"{name}={_argument(value)}" for name, value in arguments.items())
        return f"Call mpls.install({', '.join(shown)})"
    return f"Run it with {'' if function is None else 'mpls run '}{option}"


def _argument(value: str) -> str:
    return (value if value.isdigit() else repr(value)) if value else "True"
