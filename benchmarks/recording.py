"""What recording a step by `mpls trace` costs, in the small models, by how often a step is recorded."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence

from benchmarks.models import ModelStep
from benchmarks.timing import Samples, measure
from mpls.tracing import Recording, StepRecorder, TraceWriter

__all__ = ["measure_recording", "run"]

# The small models, each in the mode in which such models run.
MODELS = (
    ("controller", "eager"),
    ("deep perceptron", "function"),
    ("deep perceptron", "session"),
    ("perceptron", "function"),
)
FAMILIES = ("v1", "legacy", "new", "keras3")
# Without the option, 100 after the first 100 steps.
EVERIES = (1, 10, 100)
_PLAIN = "plain"


def measure_recording(model: str, mode: str, family: str, everies: Sequence[int], seconds: float) -> Samples:
    """Measure a training step without recording, `plain`, and with every so many steps recorded, by their number."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        steps = {_PLAIN: ModelStep(model, family, "mpls", mode)}
        contexts = {_PLAIN: contextlib.nullcontext}
        for every in everies:
            writer = TraceWriter(os.path.join(folder, f"{every}.json"), {}, False)
            stack.callback(writer.discard)
            recording = Recording(StepRecorder(writer, every), print)
            contexts[str(every)] = lambda recording=recording: _recorded(recording)
            with _recorded(recording):
                steps[str(every)] = ModelStep(model, family, "mpls", mode)
                steps[str(every)].step()
        try:
            return measure({name: each.step for name, each in steps.items()}, seconds, contexts=contexts)
        finally:
            for each in steps.values():
                each.close()


@contextlib.contextmanager
def _recorded(recording: Recording) -> Iterator[None]:
    recording.begin()
    try:
        yield
    finally:
        recording.end()


def run(arguments: Sequence[str]) -> int:
    """Measure what the command line asks for, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks --recording", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to measure each kind of step")
    parser.add_argument("--every", type=int, nargs="+", default=EVERIES, metavar="N", help="how often to record")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    options = parser.parse_args(arguments)
    header = "".join(f"{f'every {each}':>12}" for each in options.every)
    print(f"What recording adds, in % of the processors' time of a step\n{'':36}{'ms':>8}{header}")
    for model, mode in MODELS:
        for family in options.families:
            if mode == "session" and family not in ("v1", "legacy"):
                continue
            samples = measure_recording(model, mode, family, options.every, options.seconds)
            plain = samples.median(_PLAIN)
            shares = [100 * samples.cpu_overhead(str(each), _PLAIN) for each in options.every]
            row = "".join(f"{share:12.1f}" for share in shares)
            print(f"{f'{family}/{mode}/{model}':36}{1e3 * plain:8.3f}{row}", flush=True)
    return 0
