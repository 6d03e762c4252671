"""Measures `mpls migrate` on a tree of 2,000 files of 500 lines: `python -m benchmarks.migrating`."""

from __future__ import annotations

import itertools
import pathlib
import resource
import subprocess
import sys
import tempfile

CLIENTS = pathlib.Path(__file__).parents[1] / "tests" / "clients"
LINES, FILES = 500, 2000


def texts() -> list[tuple[str, str]]:
    """Return texts of 500 lines made of client programs, each with one in which the API has other names."""
    found = []
    program: list[str] = []
    for path in sorted(CLIENTS.glob("programs/*.py")):
        program += path.read_text().splitlines()
        if len(program) >= LINES:
            text = "\n".join(program) + "\n"
            found.append((text, other_names(text)))
            program = []
    return found


def other_names(text: str) -> str:
    """Return a text without a word that `mpls migrate` looks at."""
    for word in ("mixed_precision", "LossScale", "loss_scale", "Policy", "_policy", "__version__", "VERSION"):
        text = text.replace(word, "other" + word[::-1].replace("_", ""))
    return text


def seconds(folder: pathlib.Path) -> float:
    """Return how much time of one processor a run takes: others may use it too."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "mpls", "migrate", str(folder), "--report", "json", "--jobs", "1"]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print how many files a second and core are migrated, by the share of those that use the API."""
    pairs = texts()
    for share in (0, 10, 100):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            for number, (with_names, without) in zip(range(FILES), itertools.cycle(pairs), strict=False):
                text = with_names if number % 100 < share else without
                (folder / f"file_{number}.py").write_text(text)
            print(
                f"{share:3} % of the files use the API: {FILES / seconds(folder):.0f} files a second and core",
                flush=True,
            )


if __name__ == "__main__":
    main()
