"""Records what a block of a test does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from mpls.tracing.own_classes import OWN_CLASSES
from mpls.tracing.recorded_classes import Recording
from mpls.tracing.step_recorder import StepRecorder
from mpls.tracing.trace_writer import TraceWriter


@contextlib.contextmanager
def recorded(path: str, say: Callable[[str], object] = print, **options: Any) -> Iterator[None]:
    """Record in a block."""
    head = {"format": "mpls trace", "version": 1, "program": "", "settings": {}}
    writer = TraceWriter(path, head, False)
    recorder = StepRecorder(writer, **options)
    recording = Recording(recorder, say, OWN_CLASSES)
    recording.begin()
    try:
        yield
    finally:
        recording.end()
        about = [series.about for series in recorder.series]
        writer.finish({"environment": {}, "options": {}, "wrappers": about, "ended_by": None})
