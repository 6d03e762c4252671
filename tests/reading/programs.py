"""Programs for the reader, in folders of their own."""

from __future__ import annotations

import os
import pathlib
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

from mpls.reading import Decision, Reading, script

# How programs begin.
TF = "import tensorflow as tf\n"
EXPERIMENTAL = TF + "from tensorflow.keras.mixed_precision import experimental as prec\n"
WRAPPED = EXPERIMENTAL + "opt = prec.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 'dynamic')\n"
NEW = TF + "opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))\n"
OF_2_8 = "--keras 2 --legacy-optimizers"


@contextmanager
def program(**sources: str) -> Iterator[pathlib.Path]:
    """Be in a folder with files: `main="…"` is `main.py`, `package__INIT` is `package/__init__.py`."""
    before = pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder).resolve()
        for name, source in sources.items():
            name = name.replace("__", "/").replace("INIT", "__init__").replace("MAIN", "__main__")
            file = path / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(source))
        os.chdir(path)
        try:
            yield path
        finally:
            os.chdir(before)


def read(source: str, **others: str) -> Reading:
    """Read a program of one file, or with others beside it."""
    with program(main=source, **others):
        return Reading(script("main.py"))


def decided(source: str, keras: int | None = None, **others: str) -> Decision:
    """Read a program and decide."""
    return read(source, **others).decide(keras)


def flags(source: str, keras: int | None = None, **others: str) -> str:
    """Return the options that a program is found to need."""
    return " ".join(choice.flag for choice in decided(source, keras, **others).choices)
