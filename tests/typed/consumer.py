"""A consumer of mpls: an environment with the built wheel, and type checkers that look at programs in it."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections import defaultdict

from tests.processes import build, share_packages

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = HERE / "programs"

# File and line -> codes of errors.
Errors = dict[tuple[str, int], set[str]]

# What users are told to set.
SETTINGS = re.compile(
    r"^## Types$.*?^```ini\n(?P<mypy>.*?)^```$.*?^```json\n(?P<pyright>.*?)^```$", re.DOTALL | re.MULTILINE
)


@functools.cache
def environment() -> pathlib.Path:
    """Return a folder with a virtual environment that has the wheel, and the packages that this one has."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpls-consumer-"))
    venv.create(folder / "venv", with_pip=False)
    build(ROOT, folder, "wheel")
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(share_packages(folder / "venv"))
    shutil.copytree(PROGRAMS, folder / "programs")
    settings = SETTINGS.search((ROOT / "docs" / "libraries.md").read_text())
    assert settings is not None
    (folder / "programs" / "mypy.ini").write_text(settings["mypy"])
    (folder / "programs" / "pyrightconfig.json").write_text(settings["pyright"])
    return folder


def python() -> str:
    """Return the path of the consumer's interpreter."""
    return str(environment() / "venv" / "bin" / "python")


def run(command: list[str], folder: pathlib.Path, expected: tuple[int, ...]) -> str:
    """Return what a command prints, which sees none of the paths that this process was started with."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True)
    if done.returncode not in expected:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


@functools.cache
def errors_of(checker: str) -> Errors:
    """Return what a type checker says of all programs."""
    return {"mypy": mypy_errors, "pyright": pyright_errors}[checker]()


def mypy_errors() -> Errors:
    options = [
        "--no-error-summary",
        "--hide-error-context",
        "--no-pretty",
        "--cache-dir",
        str(environment() / "cache"),
    ]
    command = [sys.executable, "-m", "mypy", "--python-executable", python(), *options, "."]
    found: Errors = defaultdict(set)
    for line in run(command, environment() / "programs", expected=(0, 1)).splitlines():
        match = re.fullmatch(r"(?P<file>.+?):(?P<line>\d+): (?P<kind>error|note): .*?(\[(?P<code>[a-z-]+)\])?", line)
        if match is None:
            raise AssertionError(f"mypy says: {line}")
        if match["kind"] == "error":
            found[match["file"], int(match["line"])].add(match["code"])
    return dict(found)


def pyright_errors() -> Errors:
    # As JSON, it also does not ask for a newer version.
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", python()]
    report = json.loads(run(command, environment() / "programs", expected=(0, 1)))
    found: Errors = defaultdict(set)
    for each in report["generalDiagnostics"]:
        name = pathlib.Path(each["file"]).name
        found[name, each["range"]["start"]["line"] + 1].add(each.get("rule", each["message"]))
    return dict(found)


def unknown_types() -> set[str]:
    """Return the names of mpls whose types pyright does not know, or could know in another way than mypy."""
    # It asks the first interpreter of the path.
    path = f"{environment() / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = ["env", f"PATH={path}", sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal"]
    report = json.loads(run([*command, "--verifytypes", "mpls"], environment(), expected=(0, 1)))
    symbols = report["typeCompleteness"]["symbols"]
    return {each["name"] for each in symbols if not each["isTypeKnown"] or each["isTypeAmbiguous"]}


def expected_errors(checker: str) -> Errors:
    """Return what the programs say that it finds, by comments `# error: codes of mypy | codes of pyright`."""
    found: Errors = {}
    for path in sorted(PROGRAMS.glob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.search(r"# error: (?P<mypy>[^|]+) \| (?P<pyright>[^|]+)$", line)
            if match and match[checker] != "-":
                found[path.name, number] = set(match[checker].split(", "))
    return found
