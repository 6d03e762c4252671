"""A recording from its beginning to its end: the file, the seeds, and what is said of it."""

from __future__ import annotations

import os
import platform
import random
import sys
from typing import Any

from mpls.tracing.recorded_classes import Recording
from mpls.tracing.step_recorder import StepRecorder
from mpls.tracing.trace_writer import FORMAT, VERSION, TraceWriter

__all__ = ["NO_STEP", "SETTINGS", "TracingSession", "begun_trace"]

NO_STEP = 1
# The options that say what is recorded.
SETTINGS = ("every", "steps", "variables", "seed")
_SEED_BITS = 32


def begun_trace(out: str, program: str, options: Any) -> TraceWriter:
    """Return the writer of a trace that has its head.

    Args:
        out: the trace.
        program: what is run, for the trace.
        options: those of `SETTINGS`, and `force`, by name.

    Raises:
        CannotTraceError: the trace cannot be written.
    """
    kept = {name: options[name] for name in SETTINGS}
    head = {"format": FORMAT, "version": VERSION, "program": program, "settings": kept}
    return TraceWriter(out, head, options["force"])


class TracingSession:
    """Records the program that runs until `end`.

    Args:
        writer: writes the trace.
        options: those of `SETTINGS`, by name.
        prefix: what lines on standard error begin with.
        more: further modules that have wrappers, as `Recording` takes them.
    """

    def __init__(self, writer: TraceWriter, options: Any, prefix: str, more: Any = None) -> None:
        self._writer = writer
        self._recorder = StepRecorder(self._writer, options["every"], options["steps"], options["variables"])
        self.recording: Recording = Recording(self._recorder, self.say, more)
        self._prefix = prefix
        self._seed = options["seed"]

    def begin(self) -> None:
        """Record from now on, and set the seeds."""
        self.recording.begin()
        if self._seed is not None:
            seed_all(self._seed)

    def end(self, failure: Any, options: Any = None) -> int:
        """Write the trace, and return the exit status of a program that had none of its own.

        Args:
            failure: the name of the error that the program ended in, or None.
            options: with which options it ran, by name.

        Raises:
            CannotTraceError: meanwhile there is another file.
        """
        if not self._recorder.is_on:
            return 0
        self.recording.end()
        if not self._writer.rows:
            self._writer.discard()
            self.say(_why_no_step())
            return NO_STEP
        wrappers = [series.about for series in self._recorder.series]
        tail = {"environment": _environment(), "options": options or {}, "wrappers": wrappers, "ended_by": failure}
        self._writer.finish(tail)
        steps, optimizers = _counted_words(self._writer.rows, "step"), _counted_words(len(wrappers), "optimizer")
        self.say(f"{steps} of {optimizers}: {self._writer.path}")
        return 0

    def say(self, text: str) -> None:
        """Print a line on standard error, unless the program has closed it."""
        stream = getattr(sys, "stderr", None)
        if stream is not None and not stream.closed:
            stream.write(f"{self._prefix}: {text}\n")


def _why_no_step() -> str:
    backend = getattr(getattr(sys.modules.get("keras"), "backend", None), "backend", None)
    # Older Kerases have no such function, or only TensorFlow's.
    name = backend() if callable(backend) else "tensorflow"
    if name != "tensorflow":
        return (
            f"Keras runs on the {name} backend, of which no step is recorded; nothing was written. Run the program "
            "with KERAS_BACKEND=tensorflow"
        )
    return (
        "the program took no step with a loss-scaling optimizer, in this process; nothing was written. Such a step "
        "calls apply_gradients() of the wrapper, as minimize() and fit() do"
    )


def _counted_words(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def seed_all(seed: int) -> None:
    """Seed Python's and NumPy's generators now, and TensorFlow's when it is loaded."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % (1 << _SEED_BITS))
    import tensorflow.compat.v1 as tf

    tf.set_random_seed(seed)


def _environment() -> Any:
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
    }
    for name in ("tensorflow", "keras", "tf_keras", "numpy", "mpls"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    found["visible_devices"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    return found
