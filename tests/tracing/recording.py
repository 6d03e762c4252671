"""Records what a block of a test does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from mpls.tracing import Recording, StepRecorder, TraceWriter


@contextlib.contextmanager
def recorded(path: str, say: Callable[[str], object] = print, **options: Any) -> Iterator[None]:
    """Record in a block."""
    head = {"format": "mpls trace", "version": 1, "program": "", "settings": {}}
    writer = TraceWriter(path, head, False)
    recorder = StepRecorder(writer, **options)
    recording = Recording(recorder, say)
    recording.begin()
    try:
        yield
    finally:
        recording.end()
        about = [series.about for series in recorder.series]
        writer.finish({"environment": {}, "options": {}, "wrappers": about, "ended_by": None})
