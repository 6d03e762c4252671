"""What is known of a file is free again when it is done, without the garbage collector."""

from __future__ import annotations

import gc
import pathlib

import pytest

from .migrating import command

PROGRAM = """
import tensorflow as tf

class Trainer:
    def __init__(self):
        self.opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(make(), 'dynamic')

    def scales(self):
        return [self.opt.loss_scale() for _ in range(3)], lambda x: x
"""


@pytest.mark.default_run("each value")
@pytest.mark.parametrize("options", [(), ("--as-of", "2.3")])
@pytest.mark.parametrize("end", ["", "print(Trainer().opt.get_config())\n"])
def test_no_circle_is_left(tmp_path: pathlib.Path, options: tuple[str, ...], end: str) -> None:
    for name, number in (("few", 6), ("many", 30)):
        (tmp_path / name).mkdir()
        for place in range(number):
            (tmp_path / name / f"{place}.py").write_text(f"{PROGRAM}{end}#{'x' * 100_000}\n")
    found = []
    # What other tests have left is not looked at.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for name in ("few", "few", "many"):
            status, out, _ = command(str(tmp_path / name), "--jobs", "1", *options)
            assert (status, "mpls" in out.decode()) == (0, True)
            found.append(gc.collect())
    finally:
        gc.enable()
        gc.unfreeze()
    # Those of the command line itself, and of what the first 500 kB still need.
    assert abs(found[1] - found[2]) < 24
