"""The names under which the course of a training is kept: in logs, summaries, CSV files and histories in JSON."""

from __future__ import annotations

from mpls.formats.wrapper_state import COUNTS

SCALE = "loss_scale"
STEP = "step"
LOSS = "loss"
_APPLIED, SKIPPED, _IN_A_ROW = COUNTS
