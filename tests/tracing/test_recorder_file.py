"""The recorder that is one file: what it holds, where it runs, and that it records what `mpls trace` does."""

from __future__ import annotations

import ast
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from mpls.comparing import compare, text_of
from tests.clients.record import environment
from tests.commands import run_command
from tests.processes import python_path, run_python

PROGRAM = """
import tensorflow as tf, tf_keras
variable = tf.Variable([1.0, 2.0], name="weights")
opt = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD(0.25), initial_scale=8)
@tf.function
def step(factor):
    with tf.GradientTape() as tape:
        loss = opt.get_scaled_loss(tf.reduce_sum(variable**2) * factor)
    grads = opt.get_unscaled_gradients(tape.gradient(loss, [variable]))
    opt.apply_gradients(zip(grads, [variable]))
for factor in (1.0, float("inf"), 0.5):
    step(factor)
"""


def printed() -> str:
    status, out, _ = run_command("trace", "--recorder")
    assert status == 0
    return out


def test_python_3_6_can_read_it() -> None:
    tree = ast.parse(printed(), feature_version=(3, 6))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.NamedExpr | ast.Match)
        # Python 3.6 evaluates annotations, and has no `list[int]`.
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            assert annotation is None or isinstance(annotation, ast.Name | ast.Constant)


def test_it_imports_nothing_of_mpls() -> None:
    tree = ast.parse(printed())
    names = [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    known = {*sys.stdlib_module_names, "numpy", "tensorflow", "keras"}
    assert {name.partition(".")[0] for name in names} <= known
    at_once = [each.name for node in tree.body if isinstance(node, ast.Import) for each in node.names]
    assert set(at_once) <= set(sys.stdlib_module_names)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder with the recorder and a program."""
    (tmp_path / "mpls_recorder.py").write_text(printed())
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # -I: it does not see mpls by the current directory.
    settings = {**environment(), "PYTHONPATH": python_path()}
    return run_python(*arguments, folder=folder, environment=settings)


@pytest.mark.programs
def test_it_records_what_mpls_trace_does(folder: pathlib.Path) -> None:
    done = run(folder, "mpls_recorder.py", "old.json", "program.py")
    assert done.returncode == 0, done.stderr
    assert "3 steps of 1 optimizer" in done.stderr
    assert run(folder, "-m", "mpls", "trace", "new.json", "program.py").returncode == 0
    compared = compare(str(folder / "old.json"), str(folder / "new.json"))
    assert compared.first is None, text_of(compared)
    assert compared.same_bits == 3
    assert [step.old.applied for step in compared.steps] == [True, False, True]
    assert [step.old.scale for step in compared.steps] == [8, 8, 4]


@pytest.mark.programs
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["out.json"], 2, "give a program"),
        (["out.json", "absent.py"], 2, "no such script: absent.py"),
        (["there.json", "program.py"], 2, "there.json exists already"),
        (["gone/out.json", "deletes.py"], 1, "gone/out.json cannot be written: No such file or directory"),
        (["out.json", "stepless.py"], 1, "took no step"),
        (["out.json", "exits.py"], 5, "took no step"),
        (["out.json", "-m", "absent"], 1, "No module named absent"),
    ],
)
def test_bad_input_is_a_sentence(folder: pathlib.Path, arguments: list[str], status: int, said: str) -> None:
    (folder / "there.json").write_text("{}")
    (folder / "stepless.py").write_text("import sys\nprint(sys.argv)\n")
    (folder / "exits.py").write_text("import sys\nsys.exit(5)\n")
    (folder / "deletes.py").write_text(PROGRAM + "import shutil\nshutil.rmtree('gone')\n")
    before = {each.name for each in folder.iterdir()}
    (folder / "gone").mkdir()
    done = run(folder, "mpls_recorder.py", *arguments)
    shutil.rmtree(folder / "gone", ignore_errors=True)
    assert done.returncode == status, done.stderr
    assert ("Traceback" in done.stderr) == ("absent" in arguments)
    assert said in done.stderr
    assert {each.name for each in folder.iterdir()} == before
    assert (folder / "there.json").read_text() == "{}"


@pytest.mark.programs
def test_a_program_that_fails_keeps_its_trace_and_its_status(folder: pathlib.Path) -> None:
    with (folder / "program.py").open("a") as file:
        file.write("raise RuntimeError('so it ends')\n")
    done = run(folder, "mpls_recorder.py", "old.json", "program.py")
    assert done.returncode == 1
    assert "RuntimeError: so it ends" in done.stderr
    content = json.loads((folder / "old.json").read_text())
    assert content["ended_by"] == "RuntimeError"
    assert len(content["steps"]) == 3
