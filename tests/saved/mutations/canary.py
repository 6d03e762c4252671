"""A folder that no file may reach: what it holds is marked, and whoever writes there has been told to by a file."""

from __future__ import annotations

import pathlib
import shutil

import h5py
import numpy as np

# No honest weight has it.
MARK = 31337.0
WORD = "canaryword"
SPY = "fuzz_spy"
_MODULE = """
open(PATH, "w").close()

def run(*args, **kwargs):
    open(PATH, "w").close()

class Spy:
    def __init__(self, **kwargs):
        run()

    @classmethod
    def from_config(cls, config):
        return cls()
"""
SHAPES = ((4, 4), (2, 3), (3,), (1,), ())


class Canary:
    """The folder, and a module beside it that Python would find, and that touches the folder where it is imported.

    Attributes:
        folder: holds `secret.*` and nothing else.
        modules: to be in `sys.path` of the process that is watched.
    """

    def __init__(self, base: pathlib.Path) -> None:
        self.folder, self.modules = base / "outside", base / "modules"
        self.modules.mkdir(parents=True)
        text = _MODULE.replace("PATH", repr(str(self.touched)))
        (self.modules / f"{SPY}.py").write_text(text)
        self.fill()

    @property
    def touched(self) -> pathlib.Path:
        return self.folder / "touched"

    def secret(self, ending: str) -> str:
        return str(self.folder / f"secret{ending}")

    def fill(self) -> None:
        """Make it anew."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        values = np.full(4096, MARK, np.float32)
        values.tofile(self.secret(".bin"))
        np.save(self.secret(".npy"), values)
        (self.folder / "secret.txt").write_text(f"{WORD}\nother\n")
        with h5py.File(self.secret(".h5"), "w") as file:
            for number, shape in enumerate(SHAPES):
                file[f"secret{number}"] = np.full(shape, MARK, np.float32)
        model = self.folder / "saved_model"
        model.mkdir()
        (model / "saved_model.pb").write_bytes(b"")
