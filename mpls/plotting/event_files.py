"""Scalars in the event files that TensorBoard shows, read without TensorFlow."""

from __future__ import annotations

import os
import pathlib
import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, BinaryIO

from mpls.errors import printable
from mpls.formats.training_history import SCALE, SKIPPED
from mpls.plotting.course import SHOWN, Course, UnreadableCourseError, course_of_columns
from mpls.saved.bundles import masked_crc32c
from mpls.saved.messages import parse

__all__ = ["course_of_events", "scalars"]

# TensorFlow's number of the dtype.
_FLOAT32 = 1
# Records above this are graphs and images.
_LARGE = 1 << 16
# What Keras puts before the names of its logs: each epoch, or each batch.
_EPOCH, _BATCH = "epoch_", "batch_"

Scalars = dict[str, list[tuple[int, float]]]


def course_of_events(folder: pathlib.Path) -> Course:
    """Read the loss scale from the event files in a directory and those below.

    Raises:
        UnreadableCourseError: there are none, they have no loss scale, several runs have one, or a file is broken.
        OSError: a file cannot be read.
    """
    shown = printable(str(folder))
    runs = {run: _merged(files) for run, files in _runs(folder).items()}
    if not runs:
        raise UnreadableCourseError(f"{shown} has no event files, whose names have 'tfevents' in them")
    scaled = {run: found for run, found in runs.items() if _tags_of_scales(found)}
    if not scaled:
        advice = "LossScaleCallback() goes before TensorBoard in the list of callbacks, or use write_scalars"
        raise UnreadableCourseError(f"{shown} has event files, but none has a scalar {SCALE!r}; {advice}")
    if len(scaled) > 1:
        names = ", ".join(printable(str(run)) for run in sorted(scaled))
        raise UnreadableCourseError(f"{shown} has several runs with a {SCALE!r}; give one of {names}")
    ((run, found),) = scaled.items()
    # Where Keras has written each batch too, that is the finer one.
    tag = max(_tags_of_scales(found), key=lambda each: len(found[each]))
    unit = "epoch" if tag.rpartition("/")[2].startswith(_EPOCH) else "step"
    pairs = {name: found.get(_tag_beside(tag, name, found), []) for name in SHOWN}
    if tag.rpartition("/")[2].startswith((_EPOCH, _BATCH)):
        # Keras' own steps always advance, but two callbacks write each twice.
        pairs = {name: list(dict(values).items()) for name, values in pairs.items()}
    rows = ((step, {name: value}) for name, values in pairs.items() for step, value in values)
    title = os.path.relpath(run, folder.parent) if run != folder else folder.resolve().name
    return course_of_columns(title, unit, rows, f"{shown} has no loss scale above 0")


def _tags_of_scales(found: Scalars) -> list[str]:
    """Return the tags that end in the usual name, or have counters below them, as those that users choose have."""
    return [tag for tag in found if _plain(tag) == SCALE or f"{tag}/{SKIPPED}" in found]


def _plain(tag: str) -> str:
    return tag.rpartition("/")[2].removeprefix(_EPOCH).removeprefix(_BATCH)


def _tag_beside(tag: str, name: str, found: Scalars) -> str:
    """Return the tag of what has a name in logs, beside the tag of a scale."""
    if name == SCALE:
        return tag
    # `write_scalars` and the hook put counters below the scale; Keras puts all in one place.
    below = f"{tag}/{name}"
    return below if below in found else tag.removesuffix(_plain(tag)) + name


def _runs(folder: pathlib.Path) -> dict[pathlib.Path, list[pathlib.Path]]:
    found = {}
    for place, _, names in os.walk(folder):
        # The names begin with the time at which they were made.
        files = [pathlib.Path(place, name) for name in sorted(names) if "tfevents" in name]
        if files:
            found[pathlib.Path(place)] = files
    return found


def _merged(files: list[pathlib.Path]) -> Scalars:
    found: Scalars = defaultdict(list)
    for path in files:
        for tag, step, value in scalars(path):
            found[tag].append((step, value))
    return found


def scalars(path: pathlib.Path) -> Iterator[tuple[str, int, float]]:
    """Yield the scalars in an event file, up to where it ends: tag, step and value.

    Raises:
        UnreadableCourseError: the file is no regular one, or is broken; one that is still written to, and ends within a
            record, is not.
        OSError: it cannot be read.
    """
    if path.exists() and not path.is_file():
        raise UnreadableCourseError(f"{printable(str(path))} is not a regular file")
    with path.open("rb") as file:
        try:
            for record in _records(file):
                yield from _scalars_of_event(record)
        except (ValueError, struct.error) as error:
            raise UnreadableCourseError(f"{printable(str(path))} is broken ({printable(str(error))})") from None


def _records(file: BinaryIO) -> Iterator[bytes]:
    while len(head := file.read(12)) == 12:
        size, checksum = struct.unpack("<QI", head)
        if masked_crc32c(head[:8]) != checksum:
            raise ValueError("the checksum of a record's length is wrong")
        if size > _LARGE:
            file.seek(size + 4, os.SEEK_CUR)
            continue
        data, tail = file.read(size), file.read(4)
        if len(tail) < 4:
            return
        if masked_crc32c(data) != int.from_bytes(tail, "little"):
            raise ValueError("the checksum of a record is wrong")
        yield data


def _scalars_of_event(content: bytes) -> Iterator[tuple[str, int, float]]:
    event = parse("Event", content)
    for value in event.summary.value:
        kind = value.WhichOneof("value")
        number = value.simple_value if kind == "simple_value" else _scalar_of_tensor(value.tensor)
        if kind is not None and number is not None and value.tag:
            yield value.tag, event.step, number


def _scalar_of_tensor(tensor: Any) -> float | None:
    """Return the number in a float32 tensor; None if it is another, or has several."""
    if tensor.dtype != _FLOAT32:
        return None
    if tensor.tensor_content:
        numbers = struct.unpack(f"<{len(tensor.tensor_content) // 4}f", tensor.tensor_content)
    else:
        numbers = tuple(tensor.float_val)
    return float(numbers[0]) if len(numbers) == 1 else None
