"""`mpls compare`: whether two recorded trainings agree, and where they first differ. Loads no TensorFlow."""

from __future__ import annotations

from mpls.comparing.comparison_text import text_of
from mpls.comparing.differences import DEFAULT_TOLERANCE, Comparison, compared
from mpls.comparing.pairing import IncomparableTracesError
from mpls.saved.traces import UnreadableTraceError, read_trace

__all__ = ["DEFAULT_TOLERANCE", "Comparison", "IncomparableTracesError", "UnreadableTraceError", "compare", "text_of"]


def compare(old: str, new: str, tolerance: float | None = None) -> Comparison:
    """Compare two files that `mpls trace` or its recorder has written.

    Args:
        old: the one trace.
        new: the other.
        tolerance: the largest relative difference of losses and norms that counts as none; by default 1e-5.

    Returns:
        What they have in common, and where they first differ; `text_of` puts it into words.

    Raises:
        MissingFileError: there is no such file.
        UnreadableTraceError: one is no trace, or is broken.
        IncomparableTracesError: they are of different programs.
        OSError: a file cannot be read.
    """
    return compared(read_trace(old), read_trace(new), DEFAULT_TOLERANCE if tolerance is None else tolerance)
