"""Notebooks: only the lines of code that change do; layout, outputs and metadata stay, to the byte."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from .migrating import command, migrated_notebook

CELLS = [
    "%matplotlib inline\nimport tensorflow as tf\n!pip install x\nprint('Größe')",
    "# text: tf.keras.mixed_precision.experimental.Policy",
    "%%time\nopt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(\n    opt,\n    'dynamic')  # \N{SNOWMAN}\nopt",
    "%%bash\npython -c 'tf.keras.mixed_precision.experimental'",
    "tf.keras.mixed_precision.experimental.set_policy('mixed_float16')",
]
CHANGED = [
    "%matplotlib inline\nimport tensorflow as tf\nimport mpls.experimental\nimport mpls.keras\n!pip install x\nprint('Größe')",
    CELLS[1],
    "%%time\nopt = mpls.keras.LossScaleOptimizer(\n    opt,\n    dynamic=True)  # \N{SNOWMAN}\nopt",
    CELLS[3],
    "mpls.experimental.set_policy('mixed_float16')",
]


def cell(source: Any, kind: str = "code") -> dict[str, Any]:
    return {
        "cell_type": kind,
        "metadata": {"x": [1.50, {}, []]},
        "source": source,
        "outputs": [{"data": {"text": ["a\n"]}}],
    }


def notebook(cells: list[str], *, as_lines: bool = True, **metadata: Any) -> dict[str, Any]:
    sources = [text.splitlines(keepends=True) if as_lines else text for text in cells]
    made = [cell(source) for source in sources]
    made.insert(1, cell(["tf.keras.mixed_precision.experimental"], "markdown"))
    return {
        "cells": made,
        "metadata": {"kernelspec": {"language": "python"}, **metadata},
        "nbformat": 4,
        "nbformat_minor": 2,
    }


LAYOUTS = {
    "as Jupyter writes it": {"indent": 1, "ensure_ascii": False},
    "escaped": {"indent": 1, "ensure_ascii": True},
    "indented by tabs": {"indent": "\t"},
    "on one line": {},
    "without spaces": {"separators": (",", ":")},
}


@pytest.mark.parametrize("as_lines", [True, False], ids=["lines", "one string"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("ending", ["\n", "", "\r\n"])
def test_all_but_the_changed_lines_stays(as_lines: bool, layout: dict[str, Any], ending: str) -> None:
    def content(cells: list[str]) -> bytes:
        text = json.dumps(notebook(cells, as_lines=as_lines, spaced="  {}  "), **layout) + ending
        return text.replace("\n", "\r\n").encode() if ending == "\r\n" else text.encode()

    result = migrated_notebook(content(CELLS))
    assert result.unread == []
    assert result.after == content(CHANGED)


@pytest.mark.parametrize("before", [r'"\u0070rint(1)\n", ', r'"# \/\n", '], ids=["letter", "slash"])
def test_lines_that_stay_are_written_as_they_were(before: str) -> None:
    def content(cell: str) -> bytes:
        lines = json.dumps(["import tensorflow as tf\n", *cell.splitlines(keepends=True)])
        return json.dumps(notebook(["CELL"])).replace('["CELL"]', f"[{before}{lines[1:]}").encode()

    assert migrated_notebook(content(CELLS[4])).after == content(f"import mpls.experimental\n{CHANGED[4]}")


def test_old_versions_of_the_format() -> None:
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["import tensorflow as tf\n", CELLS[4]]}]}]}
    result = migrated_notebook(json.dumps(old).encode())
    assert json.loads(result.after)["worksheets"][0]["cells"][0]["input"] == [
        "import tensorflow as tf\n",
        "import mpls.experimental\n",
        CHANGED[4],
    ]


def test_messages_name_the_cell_and_its_line() -> None:
    content = json.dumps(notebook(CELLS)).encode()
    (file,) = json.loads(command("-", "--report", "json", stdin=content)[1])["files"]
    assert [(each["cell"], each["line"]) for each in file["messages"]] == [(3, 2), (4, 2), (5, 1)]
    shown = [line for line in command("-", stdin=content)[1].decode().splitlines() if line.startswith("+++")]
    assert shown == [f"+++ <stdin>.ipynb:cell {number}" for number in (1, 3, 5)]


UNREAD = {
    "a magic": "%time tf.keras.mixed_precision.experimental.set_policy(p)",
    "what a magic returns": "x = %time tf.keras.mixed_precision.experimental.Policy(p)",
    "a call": "%timeit opt.loss_scale()",
    "a shell command": "!python -c 'tensorflow.keras.mixed_precision.experimental.Policy'",
    "a cell of another process": "%%python3\nfrom tensorflow.keras.mixed_precision import experimental as mp",
    "a cell that is written to a file": "%%writefile x.py\ntf.keras.mixed_precision.experimental.Policy(p)",
}


@pytest.mark.parametrize("source", UNREAD.values(), ids=UNREAD)
def test_names_in_what_is_not_read_are_reported_and_left(source: str) -> None:
    content = json.dumps(notebook(["import tensorflow as tf", source])).encode()
    result = migrated_notebook(content)
    assert result.after == content
    assert [each[:3] for each in result.left] == [(2, 1 + source.count("\n"), "names-in-strings")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("!pip install -q tensorflow==2.3", "installs tensorflow==2.3: mpls needs tensorflow>=2.16"),
        ("%pip install 'tensorflow-gpu<2'", "installs tensorflow-gpu<2: "),
        ("%tensorflow_version 1.x", "chooses TensorFlow 1: "),
        ("!pip install tensorflow==2.21 tensorflow-datasets==2.1", ""),
        ("!pip install tensorflow>=2.1", ""),
        ("%tensorflow_version 2.x", ""),
    ],
)
def test_magics_that_install_are_reported(line: str, said: str) -> None:
    content = json.dumps(notebook([f"import tensorflow as tf\n{line}", CELLS[4]])).encode()
    left = migrated_notebook(content).left
    assert [(each.cell, each.line, each.rule) for each in left] == ([(1, 2, "names-in-strings")] if said else [])
    assert not said or left[0].text.startswith(said)


def test_a_cell_that_is_not_python_is_named_and_the_others_are_done() -> None:
    broken = "print 'mixed_precision'"
    result = migrated_notebook(json.dumps(notebook([*CELLS, broken])).encode())
    assert len(result.unread) == 1
    assert result.unread[0].startswith("cell 6 is not Python 3")
    assert result.after == json.dumps(notebook([*CHANGED, broken])).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"mixed_precision", "not JSON"),
        (b'{"mixed_precision": 1}', "no cells"),
        (b'{"cells": 1, "x": "mixed_precision"}', "no cells"),
        (b'["mixed_precision"]', "no cells"),
        (json.dumps(notebook(CELLS, language_info={"name": "julia"})).encode(), "in julia"),
        (b"[" * 100_000 + b'"mixed_precision"', "not JSON"),
        (b'{"cells": [], "mixed_precision": "\xff"}', "not JSON"),
    ],
)
def test_what_is_no_notebook(content: bytes, reason: str) -> None:
    result = migrated_notebook(content)
    assert result.after == content
    assert reason in result.unread[0]


def test_modules_beside_a_notebook_are_followed(tmp_path: pathlib.Path) -> None:
    module = "from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer as L\n"
    (tmp_path / "lib.py").write_text(module)
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps(notebook(["from lib import L\nopt = L(opt, 8)"])))
    command(str(tmp_path), "--write")
    (source, _) = [each["source"] for each in json.loads(path.read_text())["cells"]]
    assert "".join(source).endswith("(opt, dynamic=False, initial_scale=8)")


def test_what_is_not_read_of_a_notebook_is_said(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps(notebook(["print tf.keras.mixed_precision.experimental", "opt.loss_scale()"])))
    status, _, said = command(str(path))
    assert (status, "cell 1" in said) == (2, True)
