"""Traces: what `mpls trace` and its recorder for old machines have written, read without TensorFlow."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpls.errors import MissingFileError, MplsError, printable
from mpls.formats.validity import LARGEST_COUNT
from mpls.tracing.trace_writer import FORMAT, VERSION

__all__ = ["Trace", "TracedStep", "TracedVariable", "TracedWrapper", "UnreadableTraceError", "is_trace", "read_trace"]

_NOT_FINITE = ("inf", "-inf", "nan")


class UnreadableTraceError(MplsError, ValueError):
    """A file is no trace, or is broken."""


@dataclass(frozen=True)
class TracedVariable:
    """A variable that was measured.

    Attributes:
        name: its name.
        shape: its shape.
        dtype: the name of its dtype.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True)
class TracedWrapper:
    """An optimizer that scales the loss.

    Attributes:
        class_name: the name of its class.
        optimizer: the name of the class that it wraps.
        framework: `tensorflow`, `keras` or `tf_keras`, which that class is of or derives from; empty for another.
        variables: those that were measured, in order.
    """

    class_name: str
    optimizer: str
    framework: str
    variables: tuple[TracedVariable, ...]


@dataclass(frozen=True)
class TracedStep:
    """A step of an optimizer.

    Attributes:
        wrapper: the number of the optimizer.
        step: from 1.
        scale: the loss scale of the step.
        counter: the number of good steps before it; None if there is none.
        applied: whether it was applied.
        nonfinite: the number of elements of its gradients that are not finite.
        loss: None if it is not known.
        gradient_norms: of each measured variable.
        gradients_digest: of the bits of all gradients.
        variable_norms: after the step.
        variables_digest: of the bits of the measured variables, after the step.
        scale_after: the scale after the step.
        counter_after: the count after it.
    """

    wrapper: int
    step: int
    scale: float
    counter: int | None
    applied: bool
    nonfinite: int
    loss: float | None
    gradient_norms: tuple[float, ...]
    gradients_digest: str
    variable_norms: tuple[float, ...]
    variables_digest: str
    scale_after: float
    counter_after: int | None


@dataclass(frozen=True)
class Trace:
    """A training that was recorded.

    Attributes:
        path: the file, as the user named it.
        program: what was run.
        settings: the options of the recorder.
        environment: versions, by name.
        options: those of `mpls trace` with which the program ran, by name.
        ended_by: the error that the program ended in; None if it ended well.
        wrappers: the optimizers.
        steps: in the order in which they were taken.
    """

    path: str
    program: str
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    options: Mapping[str, Any]
    ended_by: str | None
    wrappers: tuple[TracedWrapper, ...]
    steps: tuple[TracedStep, ...] = field(repr=False)

    @property
    def release(self) -> tuple[int, int]:
        """The release of TensorFlow that the program behaved as: that of `as_of`, or the one that it ran on."""
        text = self.options.get("as_of") or self.environment.get("tensorflow") or "0.0"
        parts = [int(each) if each.isdigit() else 0 for each in str(text).split(".")[:2]]
        return parts[0], parts[-1]

    @property
    def is_of_mpls(self) -> bool:
        """Whether `mpls trace` recorded it."""
        return "mpls" in self.environment


def is_trace(content: Any) -> bool:
    """Return whether the value of a JSON text is that of a trace."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def read_trace(path: str) -> Trace:
    """Read a trace.

    Raises:
        MissingFileError: there is no such file.
        UnreadableTraceError: it is no regular file or no trace, is not whole, or is one of a later version.
        OSError: it cannot be read.
    """
    name = printable(path)
    place = pathlib.Path(path)
    if not place.exists():
        raise MissingFileError(f"there is nothing at {name}")
    if not place.is_file():
        # A pipe may never end, or never begin.
        raise UnreadableTraceError(f"{name} is no regular file")
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnreadableTraceError(f"{name} is no whole JSON ({printable(str(error))}); record it again") from None
    if not is_trace(content):
        raise UnreadableTraceError(f"{name} is no trace; mpls trace, or its recorder, writes them")
    if content.get("version") != VERSION:
        raise UnreadableTraceError(
            f"{name} has version {printable(repr(content.get('version')))} of the format, and this mpls reads {VERSION}"
        )
    try:
        return trace_of(path, content)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise UnreadableTraceError(
            f"{name} is a broken trace ({type(error).__name__}: {printable(str(error))}); record it again"
        ) from None


def trace_of(path: str, content: Mapping[str, Any]) -> Trace:
    """Return what the value of a JSON text says; one that is broken raises a built-in error."""
    wrappers = tuple(_wrapper(each) for each in content["wrappers"])
    steps = tuple(_step(each, wrappers) for each in content["steps"])
    ended_by = content["ended_by"]
    return Trace(
        path,
        str(content["program"]),
        dict(content["settings"]),
        dict(content["environment"]),
        dict(content["options"]),
        None if ended_by is None else str(ended_by),
        wrappers,
        steps,
    )


def _wrapper(about: Mapping[str, Any]) -> TracedWrapper:
    variables = tuple(
        TracedVariable(
            str(each["name"]), tuple(None if size is None else int(size) for size in each["shape"]), str(each["dtype"])
        )
        for each in about["variables"]
    )
    return TracedWrapper(str(about["class"]), str(about["optimizer"]), str(about["framework"]), variables)


def _step(row: Mapping[str, Any], wrappers: tuple[TracedWrapper, ...]) -> TracedStep:
    number = _count(row["wrapper"])
    size = len(wrappers[number].variables)
    return TracedStep(
        number,
        _count(row["step"]),
        _number(row["scale"]),
        None if row["counter"] is None else _count(row["counter"]),
        _flag(row["applied"]),
        _count(row["nonfinite"]),
        None if row["loss"] is None else _number(row["loss"]),
        _norms(row["gradient_norms"], size),
        str(row["gradients_digest"]),
        _norms(row["variable_norms"], size),
        str(row["variables_digest"]),
        _number(row["scale_after"]),
        None if row["counter_after"] is None else _count(row["counter_after"]),
    )


def _norms(values: Any, size: int) -> tuple[float, ...]:
    if len(values) != size:
        raise ValueError(f"{len(values)} norms of {size} variables")
    return tuple(_number(each) for each in values)


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number or value in _NOT_FINITE:
        return float(value)
    raise ValueError(f"{value!r} is no number")


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
        return value
    raise ValueError(f"{value!r} is no count")


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{value!r} is neither true nor false")
