"""`mpls compare`, and `mpls plot` of a trace: exit status, table, image, and broken files in one sentence."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from tests.commands import run_command
from tests.processes import run_python

from .traces import changed, content, of_today, written


@pytest.fixture
def pair(tmp_path: pathlib.Path) -> tuple[str, str]:
    differs = changed(of_today(), 4, variable_norms=[3.9, 1.0], variables_digest="x")
    return written(tmp_path, "old.json", content()), written(tmp_path, "new.json", differs)


@pytest.mark.parametrize(
    ("size", "tolerance", "status", "verdict", "said"),
    [
        (0.0, None, 0, "the same bits", "The two agree to the last bit"),
        (1e-6, None, 3, "the same up to rounding", "The two agree up to rounding"),
        (1e-3, None, 1, "different", "The two differ from step 4 on"),
        (1e-3, "2e-3", 3, "the same up to rounding", "The two agree up to rounding"),
        (1e-6, "0", 1, "different", "The two differ from step 4 on"),
    ],
)
def test_each_verdict_has_its_sentence_and_status(
    tmp_path: pathlib.Path, size: float, tolerance: str | None, status: int, verdict: str, said: str
) -> None:
    new = changed(of_today(), 4, variable_norms=[3.5 * (1 + size), 1.0], variables_digest="x" if size else "00000068")
    paths = written(tmp_path, "old.json", content()), written(tmp_path, "new.json", new)
    options = ["--tolerance", tolerance] if tolerance else []
    found, out, err = run_command("compare", *paths, *options)
    assert (found, err) == (status, "")
    assert len([line for line in out.splitlines() if line.startswith("The two ")]) == 1
    assert said in out
    found, out, err = run_command("compare", *paths, *options, "--json")
    assert (found, err, json.loads(out)["verdict"]) == (status, "", verdict)


def test_json_has_the_first_difference_and_why(pair: tuple[str, str]) -> None:
    status, out, _ = run_command("compare", *pair, "--json")
    found = json.loads(out)
    assert status == 1
    assert (found["steps"], found["steps_with_the_same_bits"], found["tolerance"]) == (6, 3, 1e-5)
    first = found["first_difference"]
    assert 0.09 < first.pop("size") < 0.11
    place = {"quantity": "variables", "step": 4, "optimizer": 0, "variable": "dense/kernel"}
    assert first == {**place, "old": 3.5, "new": 3.9}
    assert [each["anchor"] for each in found["explanations"]] == ["as-of", "keras-2"]


def test_json_has_words_for_numbers_that_json_lacks(tmp_path: pathlib.Path) -> None:
    def first(new: Any) -> Any:
        paths = written(tmp_path, "old.json", content()), written(tmp_path, "new.json", new)
        return json.loads(run_command("compare", *paths, "--json")[1])["first_difference"]

    found = first(changed(of_today(), 4, loss="nan"))
    assert (found["old"], found["new"], found["size"], found["variable"]) == (1.0, "nan", "inf", None)
    found = first(of_today(5))
    assert (found["quantity"], found["step"], found["old"], found["new"]) == ("steps", None, 6, 5)


def test_the_steps_around_are_side_by_side(pair: tuple[str, str]) -> None:
    lines = run_command("compare", *pair)[1].splitlines()
    (head,) = [at for at, line in enumerate(lines) if line.split()[:2] == ["step", "scale"]]
    assert max(map(len, lines[head : head + 9])) <= 100
    rows = [line.split() for line in lines[head + 1 : head + 7]]
    assert [row[0] for row in rows[:5]] == ["2", "3", ">", "new", "5"]
    assert (rows[2][-1], rows[3][-1]) == ("3.5", "3.9")
    assert rows[1][-1] == "3.375"
    assert "no" in rows[1]


def test_no_tensorflow_is_loaded(pair: tuple[str, str]) -> None:
    code = (
        "import sys\nfrom mpls.cli import main\n"
        f"assert main(['compare', {pair[0]!r}, {pair[1]!r}]) == 1\n"
        "assert not {'tensorflow', 'keras', 'tf_keras'} & set(sys.modules)\n"
    )
    run_python("-c", code).check_returncode()


def test_a_trace_is_drawn_by_plot(pair: tuple[str, str], tmp_path: pathlib.Path) -> None:
    image = tmp_path / "one.png"
    status, out, err = run_command("plot", pair[0], "-o", os.fspath(image))
    assert (status, err) == (0, "")
    assert out == f"step 1 to 6: loss scale 8 to 16, skipped steps: 1: {image}\n"


BROKEN: dict[str, Any] = {
    "an empty file": "",
    "half of a trace": json.dumps(content())[:900],
    "no JSON": "a,b\n1,2\n",
    "another object": '{"steps": []}',
    "a later version": json.dumps(content(version=2)),
    "no steps": json.dumps({**content(), "steps": None}),
    "a step of no optimizer": json.dumps(changed(content(), 2, wrapper=7)),
    "too few norms": json.dumps(changed(content(), 2, gradient_norms=[1.0])),
    "a text for a number": json.dumps(changed(content(), 2, scale="many")),
    "a number for a flag": json.dumps(changed(content(), 2, applied=1)),
    "a negative count": json.dumps(changed(content(), 2, nonfinite=-1)),
    "a number beyond float64": json.dumps(changed(content(), 2, scale=10**400)),
    "a count beyond int64": json.dumps(changed(content(), 2, counter=2**63)),
    "NaN as no JSON has it": json.dumps(changed(content(), 2, loss=float("nan"))),
    "a missing member": json.dumps({name: value for name, value in content().items() if name != "ended_by"}),
    "nested too deeply": "[" * 100_000,
    "bytes": b"\xff\xfe\x00",
    "a wrong shape": json.dumps({**content(), "wrappers": [{**content()["wrappers"][0], "variables": 5}]}),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_a_sentence(tmp_path: pathlib.Path, kind: str) -> None:
    broken = tmp_path / "broken.json"
    broken.write_bytes(BROKEN[kind] if isinstance(BROKEN[kind], bytes) else BROKEN[kind].encode())
    good = written(tmp_path, "good.json", content())
    status, out, err = run_command("compare", good, str(broken))
    assert (status, out) == (2, "")
    assert err.startswith(f"mpls compare: {broken} ")
    assert err.endswith("See mpls docs proof\n")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.json"], "there is nothing at absent.json"),
        (["folder"], "folder is not a regular file"),
        (["other.json"], "these are different programs"),
        (["--tolerance", "-1"], "must be a number of at least 0; got '-1'"),
        (["--tolerance", "nan"], "must be a number of at least 0; got 'nan'"),
    ],
)
def test_bad_input_is_a_sentence(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "old.json", content())
    other = of_today()
    other["wrappers"][0]["variables"][0]["shape"] = [5]
    written(tmp_path, "other.json", other)
    (tmp_path / "folder").mkdir()
    positional = ["old.json"] if not arguments[0].startswith("-") else ["old.json", "old.json"]
    status, _, err = run_command("compare", *positional, *arguments)
    assert status == 2
    assert said in err


def test_names_of_files_cannot_control_a_terminal(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path, "a\x1b[2J.json", content(program="\x1b[31m"))
    _, out, _ = run_command("compare", path, path)
    assert "\x1b" not in out
