"""What is known of a file is free again when it is done, without the garbage collector."""

from __future__ import annotations

import gc

import pytest

from mpls.migrate.documents import migrate_content
from mpls.migrate.reader import Reader
from mpls.migrate.rules import RULES
from mpls.migrate.ruling import Settings

PROGRAM = """
import tensorflow as tf

class Trainer:
    def __init__(self):
        self.opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(make(), 'dynamic')

    def scales(self):
        return [self.opt.loss_scale() for _ in range(3)], lambda x: x
"""


@pytest.mark.default_run("each value")
@pytest.mark.parametrize("as_of", [None, "2.3"])
@pytest.mark.parametrize("end", ["", "print(Trainer().opt.get_config())\n"])
def test_no_circle_is_left(as_of: str | None, end: str) -> None:
    reader = Reader(Settings(frozenset(rule.name for rule in RULES), as_of))
    content = (PROGRAM + end).encode()
    migrate_content(content, "program.py", reader, has_folder=False)
    # What other tests have left is not looked at.
    gc.freeze()
    gc.disable()
    try:
        result = migrate_content(content, "program.py", reader, has_folder=False)
        assert result.is_changed
        assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()
