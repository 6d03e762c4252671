"""Runs client scripts by `mpls run`, and compares what they print with what the old release printed."""

from __future__ import annotations

import json
import math
import subprocess
import sys

from tests.processes import PACKAGE_ROOT, python_path

from .record import HERE, RELEASES, environment, lines_of

# What `mpls run` needs beside the script.
OPTIONS = {
    "compiled_graph_optimizer": ("--v1",),
    "bert_optimization": ("--v1", "--contrib"),
    "ncf_contrib": ("--v1", "--contrib"),
    "t2t_contrib": ("--contrib",),
    "unet_scaler": ("--v1",),
}
# Needs a name that Keras 3 has too, for another class.
REPLACING = {("both_generations", "keras 3")}
KERAS = {"keras 3": "0", "tf_keras": "1"}

# What is not as it was, on purpose: contrib goes on to look absent; a gate that compares versions as strings finds any
# release after 2.9 old.
TODAY = {"looks like TF 2": True, "has contrib": False, "old arm": True}


# In the script that loads a model, the scale has been halved once before it is saved; files lost that.
KEPT_IN_FILES = 0.5


def today(lines: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return what a script has to print today, where an old release printed these lines."""
    return [_today(line) for line in lines]


def _today(line: dict[str, object]) -> dict[str, object]:
    if line.get("seen") in TODAY:
        return {**line, "value": TODAY[str(line["seen"])]}
    if line.get("run") == "loaded":
        return {**line, "scale": float(str(line["scale"])) * KEPT_IN_FILES}
    return line


def recorded(name: str, release: str) -> list[dict[str, object]]:
    """Return what a script printed on an old release."""
    return json.loads((HERE / "data" / f"{name}.json").read_text())[release]


def run(name: str, keras: str, *options: str, replace_existing: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script in an interpreter of its own, by `mpls run`, with one of the two generations of Keras."""
    path = HERE / "scripts" / f"{name}.py"
    replacing = ("--replace-existing",) if replace_existing and (name, keras) in REPLACING else ()
    command = [sys.executable, "-m", "mpls", "run", *OPTIONS.get(name, ()), *replacing, *options, str(path)]
    settings = {**environment(), "TF_USE_LEGACY_KERAS": KERAS[keras], "PYTHONPATH": python_path(PACKAGE_ROOT)}
    settings = {key: value for key, value in settings.items() if key != "PYTHONWARNINGS"}
    return subprocess.run(command, env=settings, capture_output=True, text=True, cwd=path.parent)


def printed(name: str, keras: str, *options: str) -> list[dict[str, object]]:
    """Return what a script printed under `mpls run`; it has to succeed."""
    done = run(name, keras, *options)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    return lines_of(done.stdout)


def differences(seen: list[dict[str, object]], expected: list[dict[str, object]]) -> list[str]:
    """Return where two runs differ: weights by more than 1e-6 relative, anything else at all."""
    found = [f"{len(seen)} lines for {len(expected)}"] if len(seen) != len(expected) else []
    for number, (one, other) in enumerate(zip(seen, expected, strict=False)):
        for key in sorted({*one, *other}):
            if not _agree(key, one.get(key), other.get(key)):
                found.append(f"line {number} {key}: {one.get(key)} for {other.get(key)} in {other}")
    return found


def _agree(key: str, one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_agree(key, *pair) for pair in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(other):
            return math.isnan(one)
        # Scales are exact; weights and norms are what sums in another order leave.
        return one == other if key in ("scale", "loss_scale") else math.isclose(one, other, rel_tol=1e-6, abs_tol=2e-7)
    return type(one) is type(other) and one == other


__all__ = ["KERAS", "OPTIONS", "RELEASES", "differences", "printed", "recorded", "run", "today"]
