"""Migrates the programs of `tests/clients` and runs them on the TensorFlow of today, beside what they printed.

`python -m tests.migrate.corpus_run TOOL [NAME ...]` writes what becomes of each into `data/outcomes.json`. A tool is `mpls`,
`native` (`mpls migrate --to native`), `tf_upgrade_v2` or `none`. `python -m tests.migrate.corpus_run table` prints the
table that docs/comparison.md has. What programs need beside loss scaling, `launcher.py` does for all tools alike.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tests.clients.comparing import differences_from_record
from tests.clients.corpus import PROGRAMS
from tests.clients.record import HERE, environment, path_of
from tests.processes import PACKAGE_ROOT, Forks, python_path

ROOT = HERE.parents[1]
LAUNCHER = pathlib.Path(__file__).parent / "launcher.py"
OUTCOMES = pathlib.Path(__file__).parent / "data" / "outcomes.json"
# Options of `mpls run` for what has nothing to do with loss scaling, and what the launcher has for it.
SWITCHES = {"--v1": "v1", "--legacy-optimizers": "legacy"}
SAME = "same"
# By the variable that chooses the Keras.
FORKS = {each: Forks(TF_USE_LEGACY_KERAS=each) for each in ("0", "1")}
TOOLS = {
    "none": "as they are",
    "tf_upgrade_v2": "`tf_upgrade_v2` of TensorFlow 2.21",
    "mpls": "`mpls migrate`",
    "native": "`mpls migrate --to native`",
}


def migrate(folder: pathlib.Path, name: str, tool: str) -> bool:
    """Migrate a copy of the programs, and return whether something in the program is said to be left."""
    release = PROGRAMS[name].releases[0]
    if tool in ("mpls", "native"):
        command = [sys.executable, "-m", "mpls", "migrate", str(folder), "--write", "--as-of", release]
        command += ["--keras", "2"] if "--keras 2" in PROGRAMS[name].options else []
        command += ["--to", "native"] if tool == "native" else []
    elif tool == "tf_upgrade_v2":
        command = [sys.executable, "-m", "tensorflow.tools.compatibility.tf_upgrade_v2_main"]
        command += ["--intree", str(folder), "--inplace", "--reportfile", str(folder / "report.txt")]
    else:
        return False
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return any(re.match(rf"\S*\b{name}\.py:\d+: ", line) for line in done.stderr.splitlines())


def outcome(name: str, tool: str) -> str:
    """Return what a program does today: "same" as recorded, "reported" as left, "differs" or "fails"."""
    program = PROGRAMS[name]
    release = program.releases[0]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / program.folder
        shutil.copytree(path_of(name).parent, folder)
        # Programs that have nothing to do with each other are no tree.
        for other in PROGRAMS.keys() - {name}:
            (folder / f"{other}.py").unlink(missing_ok=True)
        is_left = migrate(folder, name, tool)
        words = " ".join(program.options).split()
        switches = [SWITCHES[word] for word in words if word in SWITCHES]
        keras = "1" if "--keras" in words else "0"
        settings = {**environment(), "PYTHONPATH": python_path(PACKAGE_ROOT), "TF_USE_LEGACY_KERAS": keras}
        command = (str(LAUNCHER), *switches, "--", str(folder / f"{name}.py"))
        done = FORKS[keras].run(*command, folder=folder, environment=settings)
    found = ["fails"] if done.returncode else ["differs"] * bool(differences_from_record(name, done.stdout, release))
    return SAME if not found else "reported" if is_left else found[0]


def recorded() -> dict[str, dict[str, str]]:
    """Return what is written of each tool: the outcome of each program."""
    written = json.loads(OUTCOMES.read_text())
    return {tool: {name: row[tool] for name, row in written.items() if tool in row} for tool in TOOLS}


def table(outcomes: dict[str, dict[str, str]]) -> str:
    """Return the comparison as docs/comparison.md has it."""
    before = {name for name, what in outcomes["none"].items() if what == SAME}
    lines = [
        "| | runs as recorded | left, and reported | left broken, not reported | broken by the tool |",
        "|---|---|---|---|---|",
    ]
    for tool, shown in TOOLS.items():
        results = outcomes[tool]
        if results.keys() != PROGRAMS.keys():
            continue
        same = sum(what == SAME for what in results.values())
        broken = sum(what != SAME and name in before for name, what in results.items()) if tool != "none" else 0
        reported = sum(what == "reported" and name not in before for name, what in results.items())
        lines.append(f"| {shown} | {same} | {reported} | {len(results) - same - reported - broken} | {broken} |")
    return "\n".join(lines)


def main() -> None:
    """Write what becomes of programs, or print the table."""
    tool, *names = sys.argv[1:]
    if tool == "table":
        print(table(recorded()))
        return
    for name in names or PROGRAMS:
        what = outcome(name, tool)
        print(name, what, flush=True)
        # Another run may have written meanwhile.
        written = json.loads(OUTCOMES.read_text())
        written.setdefault(name, {})[tool] = what
        rows = [f" {json.dumps(each)}: {json.dumps(row, sort_keys=True)}" for each, row in sorted(written.items())]
        OUTCOMES.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
