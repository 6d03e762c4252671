"""The options that say what is recorded."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_recording_options"]


def add_recording_options(parser: Any) -> None:
    """Add the options that say what is recorded to a parser of arguments."""
    parser.add_argument(
        "--every",
        type=_positive_number,
        metavar="N",
        help="record every N-th step; default: the first 100 steps, then every 100th",
    )
    parser.add_argument("--steps", type=_positive_number, metavar="N", help="record only the first N steps")
    parser.add_argument(
        "--variables", metavar="PATTERN", help="measure only variables whose names match this glob, e.g. '*/kernel'"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed Python, NumPy and TensorFlow at the beginning")
    parser.add_argument("--force", action="store_true", help="replace an existing trace")


def _positive_number(text: str) -> int:
    """Return a whole number of at least 1, for a parser of arguments."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1; got {text!r}")
    return number
