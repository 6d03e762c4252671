"""Runs a program with what it needs beside loss scaling: `launcher.py [v1] [legacy] -- PROGRAM`.

With `v1`, `import tensorflow` in the program's own files is `tensorflow.compat.v1`, without the behaviour of TF 2; with
`legacy`, the optimizers of tf_keras are those of TF 2.10. It knows nothing of mpls, and puts back no name of loss scaling.
"""

from __future__ import annotations

import builtins
import importlib
import os
import runpy
import sys
from typing import Any


def main() -> None:
    """Run the program."""
    place = sys.argv.index("--")
    switches, program = sys.argv[1:place], os.path.abspath(sys.argv[place + 1])
    if "v1" in switches:
        redirect(os.path.dirname(program))
    if "legacy" in switches:
        use_legacy_optimizers()
    sys.argv = [program]
    sys.path[0] = os.path.dirname(program)
    runpy.run_path(program, run_name="__main__")


def redirect(folder: str) -> None:
    """Have the files of a folder get `tensorflow.compat.v1` for `tensorflow`."""
    import tensorflow as tf

    tf.compat.v1.disable_v2_behavior()
    v1 = importlib.import_module("tensorflow.compat.v1")
    original = builtins.__import__

    def importing(name: str, *others: Any, **more: Any) -> Any:
        file = str(((others or (None,))[0] or {}).get("__file__"))
        if name == "tensorflow" and os.path.abspath(file).startswith(folder):
            return v1
        return original(name, *others, **more)

    builtins.__import__ = importing


def use_legacy_optimizers() -> None:
    """Have `tf.keras.optimizers` be those of TF 2.10."""
    import tensorflow as tf

    # What the program sees; tf_keras itself goes on with its own.
    optimizers = tf.keras.optimizers
    for name in vars(optimizers.legacy):
        if name[0].isupper() and name in vars(optimizers):
            setattr(optimizers, name, getattr(optimizers.legacy, name))


if __name__ == "__main__":
    main()
