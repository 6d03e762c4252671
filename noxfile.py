"""The version matrix: `nox -s tests` runs every supported TensorFlow; `nox -s "tests(2.18)"` runs one."""

from __future__ import annotations

import pathlib
import re
import tempfile

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "tests"]

# Each release with a Python that it supports; together they are all supported Pythons.
MATRIX = {
    "2.16": "3.10",
    "2.17": "3.11",
    "2.18": "3.11",
    "2.19": "3.12",
    "2.20": "3.13",
    "2.21": "3.13",
    "2.22.0rc0": "3.12",
}
# The newest of packages that stand in for TensorFlow, the newest TensorFlow with Keras 2 in place of Keras 3, and the
# oldest TensorFlow with the oldest Keras 3.
STAND_INS = {"cpu": "3.12", "nightly": "3.12", "legacy-keras": "3.11", "oldest-keras": "3.10"}
ROWS = {**MATRIX, **STAND_INS}


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and the direction of imports."""
    session.install(".[test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "check", "--preview", "--select", "DOC102", "mpls")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(venv_backend="none")
@nox.parametrize("tensorflow", list(ROWS), ids=list(ROWS))
def tests(session: nox.Session, tensorflow: str) -> None:
    """Run all but the long tests, the matrix among them, on one TensorFlow; arguments after `--` go to pytest."""
    row = ("bash", "scripts/test-row", ROWS[tensorflow], tensorflow)
    session.run(*row, "-m", "not long", *session.posargs, external=True)


@nox.session
def long(session: nox.Session) -> None:
    """Run the tests that take minutes."""
    session.install(".[test]")
    session.run("pytest", "-m", "long", *session.posargs)


@nox.session
def full(session: nox.Session) -> None:
    """Run the cases that CI leaves out: the rest of cross products in which each pair meets, and of many programs."""
    session.install(".[test]")
    session.run("pytest", "-n", "2", "--dist", "loadfile", "-m", "full and not long", *session.posargs)


@nox.session
def kills(session: nox.Session) -> None:
    """Kill training fifty times in each format, and processes of clusters; see them go on from what was saved."""
    session.install(".[test]")
    session.run("pytest", "-m", "long", "tests/resume", "tests/cluster", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Read and load 20,000 changed files of all formats, in a process that is watched, within an hour or so.

    No file elsewhere may be opened, nothing may run, and no error but those of mpls may come.
    """
    session.install(".[test]")
    session.run("pytest", "-m", "long", "tests/saved/test_fuzz.py", *session.posargs)


@nox.session
def mutate(session: nox.Session) -> None:
    """Change the named modules in one place at a time, and say which changes no test finds; see scripts/mutate.py."""
    session.install(".[test]", "coverage>=7.6", "mutmut~=3.8")
    session.run("python", "scripts/mutate.py", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure which lines and branches the default tests cover, and programs, in all processes that they start."""
    session.install(".[test]", "coverage>=7.10")
    session.run("bash", "scripts/coverage", *session.posargs, external=True)


@nox.session
def benchmark(session: nox.Session) -> None:
    """Measure what loss scaling costs; arguments after `--` go to the benchmark."""
    session.install(".[benchmark]")
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def lock(session: nox.Session) -> None:
    """Write constraints/test.txt: the newest of all that the tests need, on each Python."""
    session.install("uv")
    target = pathlib.Path("constraints/test.txt")
    (first,) = re.findall(r"^# .*\n", target.read_text(), re.MULTILINE)
    options = ("--extra", "test", "--universal", "--python-version", "3.10", "--no-annotate", "--no-header")
    newest = max((each for each in MATRIX if "rc" not in each), key=lambda each: int(each.partition(".")[2]))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as framework:
        print(f"tensorflow=={newest}.*", file=framework, flush=True)
        command = ("uv", "pip", "compile", "pyproject.toml", *options, "--constraint", framework.name)
        written = session.run(*command, silent=True, stderr=None)
    target.write_text(first + str(written))


@nox.session
def audit(session: nox.Session) -> None:
    """Print the licences of all that the tests install, and ask the network for known vulnerabilities."""
    session.install(".[test]", "--constraint", "constraints/test.txt")
    session.install("pip-audit", "pip-licenses")
    session.run("pip-licenses", "--order=license")
    session.run("pip-audit", "--local", "--skip-editable")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site of the documentation into site/; where Chromium is installed, check the width of its pages."""
    session.install(".[docs]")
    session.run("mkdocs", "build")
    session.run("python", "scripts/site_check.py", "site")
