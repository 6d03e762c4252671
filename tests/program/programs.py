"""Programs in folders of their own, and what mpls says of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from mpls.cli.choosing import choose
from mpls.cli.options import parser, split
from tests.commands import run_command

# A program of TF 2.3, where the loss scale is an object.
OBJECTS = """import tensorflow as tf
opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), "dynamic")
print(opt.loss_scale())
"""
# How programs begin.
TF = "import tensorflow as tf\n"
EXPERIMENTAL = TF + "from tensorflow.keras.mixed_precision import experimental as prec\n"
WRAPPED = EXPERIMENTAL + "opt = prec.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 'dynamic')\n"
NEW = TF + "opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))\n"
OF_2_8 = "--keras 2 --legacy-optimizers"
OPTIONS = ("as_of", "contrib", "replace_existing", "v1", "keras", "legacy_optimizers")


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


def described(*paths: str) -> dict[str, Any]:
    """Return what `mpls doctor --json` says of paths in this folder."""
    return dict(json.loads(run_command("doctor", "--json", *paths)[1]))


def read(source: str, **others: str) -> dict[str, Any]:
    """Return what `mpls doctor` says of a program of one file, or with others beside it."""
    with program(main=source, **others):
        (found,) = described("main.py")["programs"]
    return dict(found)


def needs(path: str) -> str:
    """Return the options that a program in this folder needs, as `mpls doctor` says."""
    options = [option for each in described(path)["programs"] for option in each["options"]]
    # Each says why, as the end of a sentence that begins with the line.
    assert all(re.match("[a-z]+ (?!.*(None|True))", option["because"]["what"]) for option in options), options
    return " ".join(option["flag"] for option in options)


def choices(*words: str, **variables: str) -> tuple[dict[str, Any], str]:
    """Return the options with which `mpls run` runs a program, given or chosen, and what it says of its choice.

    Args:
        words: the options and the program.
        variables: what is set in the environment.
    """
    own, arguments = split(["run", *words])
    options = parser().parse_args(own)
    with contextlib.redirect_stderr(io.StringIO()) as err, mock.patch.dict(os.environ):
        os.environ.pop("TF_USE_LEGACY_KERAS", None)
        os.environ.update(variables)
        choose(options, arguments)
    return {name: value for name in OPTIONS if (value := getattr(options, name))}, err.getvalue()


def chosen(*words: str) -> str:
    """Return what `mpls run` says of its choice."""
    return choices(*words)[1]


def flags(source: str, **others: str) -> str:
    """Return the options that a program is found to need."""
    with program(main=source, **others):
        return needs("main.py")
