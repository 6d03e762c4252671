"""`mpls trace`: the program's own status, arguments and output, and what is refused in one sentence."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess
from collections.abc import Sequence

import pytest

from mpls.comparing import read_trace
from tests.clients.record import environment
from tests.processes import PACKAGE_ROOT, python_path, run_python

PROGRAM = """
import sys
import tensorflow as tf
scale = tf.compat.v1.mixed_precision.FixedLossScale(8)
variable = tf.Variable([3.0, 4.0], name="weights")
opt = tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer(
    tf.compat.v1.train.GradientDescentOptimizer(0.5), scale)
for _ in range(int(sys.argv[1])):
    opt.minimize(lambda: tf.reduce_sum(variable), var_list=[variable])
print("given", sys.argv[1:])
sys.exit(int(sys.argv[2]))
"""

ON_JAX = """
import keras
import mpls.keras
import numpy as np
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile(mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
model.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0)
"""

pytestmark = pytest.mark.programs


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def trace(
    folder: pathlib.Path, *arguments: str, needs: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    settings = {**environment(), "PYTHONPATH": python_path(PACKAGE_ROOT, needs=needs), **variables}
    return run_python("-m", "mpls", "trace", *arguments, folder=folder, environment=settings)


def test_the_program_is_as_with_run(folder: pathlib.Path) -> None:
    done = trace(folder, "out.json", "program.py", "3", "0", "--every")
    assert (done.returncode, done.stdout) == (0, "given ['3', '0', '--every']\n"), done.stderr
    assert "mpls trace: 3 steps of 1 optimizer: out.json" in done.stderr
    found = read_trace(str(folder / "out.json"))
    assert [each.name for each in found.wrappers[0].variables] == ["weights"]
    about = json.loads((folder / "out.json").read_text())["wrappers"][0]
    assert (about["optimizer"], about["variables"][0]["dtype"]) == ("GradientDescentOptimizer", "float32")
    steps = [(step.step, step.scale, step.counter, step.applied, step.loss) for step in found.steps]
    assert steps == [(1, 8, None, True, 7), (2, 8, None, True, 6), (3, 8, None, True, 5)]
    assert [step.gradient_norms[0] for step in found.steps] == [2**0.5] * 3
    assert found.steps[0].variable_norms == ((2.5**2 + 3.5**2) ** 0.5,)


def test_its_status_is_the_programs(folder: pathlib.Path) -> None:
    assert trace(folder, "out.json", "program.py", "1", "3").returncode == 3
    # A program may change its directory.
    (folder / "program.py").write_text(MOVES + PROGRAM.replace("sys.exit(", "1 / 0\nsys.exit("))
    assert trace(folder, "--force", "out.json", "program.py", "1", "3").returncode == 1
    assert json.loads((folder / "out.json").read_text())["ended_by"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        (["--every", "3", "out.json", "program.py"], [1, 4, 7]),
        (["out.json", "--every", "3", "-m", "program"], [1, 4, 7]),
        (["--steps", "2", "out.json", "-c", PROGRAM], [1, 2]),
    ],
    ids=["script", "module", "code"],
)
def test_some_steps_are_recorded(folder: pathlib.Path, arguments: list[str], steps: list[int]) -> None:
    assert trace(folder, *arguments, "8", "0").returncode == 0
    assert [step.step for step in read_trace(str(folder / "out.json")).steps] == steps


def test_a_seed_repeats_a_run(folder: pathlib.Path) -> None:
    text = PROGRAM.replace("[3.0, 4.0]", "tf.random.normal([2])").replace("given", "a") + "\n"
    (folder / "program.py").write_text(text)
    digests = []
    for out, seed in (("1.json", "5"), ("2.json", "5"), ("3.json", "6")):
        assert trace(folder, "--seed", seed, out, "program.py", "1", "0").returncode == 0
        digests.append(read_trace(str(folder / out)).steps[0].variables_digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.default_run("one case", rest="full")
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "give the file for the trace, and then a script"),
        (["out.json", "absent.py"], 2, "can't open file"),
        (["there.json", "program.py", "1", "0"], 2, "there.json exists already; choose another name, or replace it"),
        (["no/folder/out.json", "program.py", "1", "0"], 2, "no/folder/out.json cannot be written"),
        ([".", "program.py", "1", "0"], 2, ". is a directory"),
        (["", "program.py", "1", "0"], 2, "the name of the trace is empty"),
        (["out.json", "-m", "absent"], 1, "No module named absent"),
        (["--every", "none", "out.json", "program.py"], 2, "must be a whole number of at least 1; got 'none'"),
        (["out.json", "program.py", "0", "0"], 0, "took no step with a loss-scaling optimizer"),
        (["out.json", "program.py", "0", "7"], 7, "took no step with a loss-scaling optimizer"),
        (["--recorder", "out.json"], 2, "--recorder is printed, and takes no file"),
    ],
)
def test_bad_input_is_a_sentence(folder: pathlib.Path, arguments: list[str], status: int, said: str) -> None:
    (folder / "there.json").write_text("{}")
    done = trace(folder, *arguments)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "given" not in done.stdout or status != 2
    assert {each.name for each in folder.iterdir()} - {"__pycache__"} == {"program.py", "there.json"}
    assert (folder / "there.json").read_text() == "{}"


MOVES = "import os, shutil\nos.mkdir('runs')\nos.chdir('runs')\n"


def test_a_killed_program_leaves_a_part(folder: pathlib.Path) -> None:
    killed = PROGRAM.replace("sys.exit(", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\nsys.exit(")
    (folder / "program.py").write_text(killed)
    assert trace(folder, "out.json", "program.py", "1", "0").returncode < 0
    assert [each.name[:14] for each in folder.iterdir() if each.name != "program.py"] == ["out.json.part-"]


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax, which the extra `test` installs")
def test_the_jax_backend_is_named(folder: pathlib.Path) -> None:
    done = trace(folder, "out.json", "-c", ON_JAX, needs=["jax"], KERAS_BACKEND="jax")
    assert done.returncode == 0, done.stderr
    assert "Keras runs on the jax backend" in done.stderr
    assert "took no step" not in done.stderr
    assert not (folder / "out.json").exists()
