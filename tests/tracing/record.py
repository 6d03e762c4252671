"""Records what programs do on the releases that they were written for, by the recorder that is one file.

`python -m tests.tracing.record --python 1.15=PYTHON --python 2.2=PYTHON … [NAME…]`, with the interpreters of
environments that have these releases, writes `data/NAME-RELEASE.json`. Without names, all of them. The
environments need `protobuf<3.20`; the recorded ones had TF 1.15.5, 2.2.3, 2.4.4 and 2.8.4, on Python 3.7 to 3.9.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.clients.record import asked_for, environment

HERE = Path(__file__).resolve().parent
CLIENTS = HERE.parent / "clients" / "programs"
# Where layers compute in float16.
HALF = 5e-3


@dataclass(frozen=True)
class Recorded:
    """A program that was recorded.

    Attributes:
        release: on which it was.
        options: what `mpls trace` needs beside what it chooses.
        tolerance: for what another order of sums leaves.
        folder: where the program is.
    """

    release: str
    options: tuple[str, ...] = ()
    tolerance: float = 1e-5
    folder: Path = CLIENTS


RECORDED = {
    "accumulate_train_step": Recorded("2.8"),
    "contrib_trainer": Recorded("1.15"),
    "fit_train_step": Recorded("2.4"),
    "fit_two_outputs": Recorded("2.8", ("--keras", "2", "--legacy-optimizers"), HALF),
    "gan_two_wrappers": Recorded("2.2", ("--as-of", "2.2")),
    "graph_classifier": Recorded("1.15"),
    "graph_compat": Recorded("2.4"),
    "loop_physics": Recorded("2.2", ("--as-of", "2.2"), HALF),
    "loop_sentiment": Recorded("2.4"),
    "mirrored_fit": Recorded("2.8"),
    "rewrite_graph": Recorded("1.15"),
    "rmsprop": Recorded("2.4", folder=HERE / "programs"),
    "session_monitored": Recorded("1.15"),
    "train": Recorded("2.2", ("--as-of", "2.2"), folder=HERE / "programs"),
}


def data_of(name: str) -> Path:
    """Return where the recording of a program is."""
    return HERE / "data" / f"{name}-{RECORDED[name].release}.json"


def main() -> None:
    """Record what the command line asks for."""
    pythons, names = asked_for()
    recorder = HERE / "data" / "mpls_recorder.py"
    printed = subprocess.run([sys.executable, "-m", "mpls", "trace", "--recorder"], stdout=subprocess.PIPE, check=True)
    recorder.write_bytes(printed.stdout)
    for name in names or RECORDED:
        about = RECORDED[name]
        if about.release in pythons:
            command = [
                pythons[about.release],
                str(recorder),
                "--force",
                "--every",
                "1",
                str(data_of(name)),
                f"{name}.py",
            ]
            done = subprocess.run(command, env=environment(), cwd=about.folder, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name} failed:\n{done.stdout}\n{done.stderr[-3000:]}")
            print(name, about.release, done.stderr.splitlines()[-1])
    recorder.unlink()


if __name__ == "__main__":
    main()
