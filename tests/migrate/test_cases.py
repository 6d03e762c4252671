"""Programs before and after: what changes, what stays, and that all else is as it was, to the byte."""

from __future__ import annotations

import ast
import json
import pathlib
import re

import pytest

from .cases import CASES, Case
from .messages import FILE, lines_about
from .migrating import after, command, messages, migrated


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_case(case: Case) -> None:
    found = migrated(case.before, *case.options)
    assert (found.status, found.unread) == (0, [])
    assert found.after.decode() == case.after
    ast.parse(case.after)
    assert found.rules == case.left
    # A second run changes nothing.
    assert after(case.after, *case.options) == case.after


SAID = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name: str) -> None:
    """As it was read and committed: `python -m tests.migrate.messages` writes it anew."""
    assert lines_about(CASES[name]) == SAID[name]


def test_nothing_is_said_of_a_case_that_is_gone() -> None:
    assert SAID.keys() == CASES.keys()


def diffs_of_the_document() -> list[list[str]]:
    text = (pathlib.Path(__file__).parents[2] / "MIGRATION.md").read_text(encoding="utf-8")
    return [block.splitlines() for block in re.findall(r"^```diff\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]


@pytest.mark.parametrize("diff", diffs_of_the_document())
def test_the_diffs_that_the_document_shows(diff: list[str]) -> None:
    old, new = ("\n".join(line[1:] for line in diff if line[0] == sign) for sign in "-+")
    start = "import tensorflow as tf\n"
    assert after(f"{start}{old}\n") == f"{start}{new}\n"


def test_the_document_shows_some() -> None:
    assert len(diffs_of_the_document()) == 5


@pytest.mark.parametrize("head", ['"""Doc."""\n', '"""Doc."""\nfrom __future__ import print_function\n'])
def test_an_import_at_the_top_is_below_what_has_to_be_first(head: str) -> None:
    load = "def load():\n    global tf\n    import tensorflow as tf\nload()\n"
    new = after(f"{head}{load}tf.keras.mixed_precision.experimental.set_policy(p)\n")
    assert new == f"{head}import mpls.experimental\n{load}mpls.experimental.set_policy(p)\n"


FORMS = ("crlf", "cr", "bom", "latin-1", "no final newline", "tabs", "semicolons")


@pytest.mark.parametrize("step", [len(FORMS), pytest.param(1, marks=pytest.mark.matrix)], ids=["a part", "all"])
@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_a_text(form: str, step: int) -> None:
    """Each case in one form; in the matrix, in every form."""
    wrong = []
    for name, case in list(CASES.items())[FORMS.index(form) % step :: step]:
        # What is indented as nothing in the program was has spaces.
        if case.is_unchanged or (form == "tabs" and "    " not in case.before):
            continue
        before, expected = (in_form(text, form) for text in (case.before, case.after))
        if migrated(before, *case.options).after != expected:
            wrong.append(name)
    assert wrong == []


def in_form(text: str, form: str) -> bytes:
    if form == "crlf":
        return text.replace("\n", "\r\n").encode()
    if form == "cr":
        return text.replace("\n", "\r").encode()
    if form == "bom":
        return b"\xef\xbb\xbf" + text.encode()
    if form == "latin-1":
        return f"# coding: latin-1\n# Größe\n{text}".encode("latin-1")
    if form == "tabs":
        return "\n".join(line.replace("    ", "\t") for line in text.split("\n")).encode()
    if form == "semicolons":
        return f"'Größe'; x = '\N{SNOWMAN}'\n{text}y = '\N{SNOWMAN}'\x0c\n".encode()
    return text.rstrip("\n").encode()


MAKERS = {
    "a subclass": ("class A(tf.keras.mixed_precision.experimental.LossScaleOptimizer):\n    pass\n", "2.4"),
    "a subclass of the public one": ("class A(tf.keras.mixed_precision.LossScaleOptimizer):\n    pass\n", "2.2"),
    "arguments in a dictionary": ("opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(o, **more)\n", "2.2"),
    "the class itself": ("make(tf.keras.mixed_precision.LossScaleOptimizer)\n", "2.15"),
    "the graph rewrite": ("opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(o)\n", "2.2"),
    "a policy": ("tf.keras.mixed_precision.experimental.set_policy('mixed_float16')\nmodel.compile('sgd')\n", "2.2"),
}


def told(program: str, *options: str) -> list[str]:
    found = migrated(f"import tensorflow as tf\n{program}", *options)
    return [each.text for each in found.left if "skipped step" in each.text]


@pytest.mark.parametrize("maker", MAKERS)
def test_wrappers_that_are_not_told_the_release(maker: str) -> None:
    program, as_of = MAKERS[maker]
    (text,) = told(program, "--as-of", as_of)
    setting = "skip_counts_step=False" if as_of == "2.2" else "skip_counts_step=True"
    assert setting in text
    assert f"mpls.install(as_of='{as_of}')" in text
    assert told(program, "--as-of", "2.16") == told(program) == []
    assert told(f"import mpls\nmpls.install(as_of='{as_of}')\n{program}", "--as-of", as_of) == []


POLICIES = ["tf.keras.mixed_precision.set_global_policy(p)\n", "tf.keras.mixed_precision.experimental.set_policy(p)\n"]


@pytest.mark.parametrize("policy", POLICIES)
def test_compile_is_mentioned_only_where_a_program_may_call_it(tmp_path: pathlib.Path, policy: str) -> None:
    def said(*files: str) -> bool:
        paths = [str(tmp_path / each) for each in files]
        return "the wrapper that compile makes" in command(*paths, "--as-of", "2.2")[2]

    (tmp_path / "train.py").write_text(f"import tensorflow as tf\nimport re\nre.compile('x')\n{policy}")
    assert not said("train.py")
    (tmp_path / "models.py").write_text("def make():\n    return 1\n")
    assert not said("")
    (tmp_path / "train.py").write_text(f"import tensorflow as tf\nimport models\n{policy}")
    assert not said("")
    # What is in a module that is not migrated is not known.
    assert said("train.py")
    (tmp_path / "models.py").write_text("def make():\n    model.compile('sgd')\n")
    assert said("")
    assert told(f"{policy}model.compile('sgd')\n", "--as-of", "2.2")


MAKE = (
    "import tensorflow as tf\nold = tf.keras.mixed_precision.experimental\nscale = tf.mixed_precision.experimental.FixedLossScale(2)\n"
    "opt = old.LossScaleOptimizer(o, 'dynamic')\n"
)


@pytest.mark.parametrize(
    ("use", "what"),
    [
        ("opt.get_config()['loss_scale']", "has no 'loss_scale' today"),
        ("config = opt.get_config()\nconfig['loss_scale']", "has no 'loss_scale' today"),
        ("opt.get_config()['optimizer']", "has no 'optimizer' today"),
        ("isinstance(opt.loss_scale, tf.mixed_precision.experimental.DynamicLossScale)", "today it is a tensor"),
        ("assert opt.loss_scale is scale", "today it is a tensor"),
        ("kept = opt.loss_scale == scale or scale is not opt.loss_scale", "today it is a tensor"),
        ("opt._loss_scale = scale", "today it does not"),
        ("from x import get_loss_scale_weights\nget_loss_scale_weights(opt.loss_scale)", "today it is a tensor"),
        ("opt = old.LossScaleOptimizer(o, scale)\nscale(), opt.loss_scale()", "today the wrapper copies it"),
    ],
)
def test_what_only_a_wrapper_up_to_2_3_had_is_reported_without_a_release(use: str, what: str) -> None:
    program = f"{MAKE}{use}\n"
    (text,) = [each.text for each in migrated(program).left if each.rule == "loss-scale-objects"]
    assert what in text
    assert text.endswith(": give --as-of 2.3")
    # What it advises helps.
    assert 'mpls.install(as_of="2.3")' in after(program, "--as-of", "2.3")
    gate = f"if hasattr(tf.keras.mixed_precision, 'experimental'):\n    {use.splitlines()[-1].strip()}\n"
    for other in (f"import mpls\nmpls.install(as_of='2.3')\n{program}", f"{MAKE}{gate}"):
        assert "loss-scale-objects" not in migrated(other).rules
    assert "loss-scale-objects" not in migrated(program, "--as-of", "2.4").rules


def test_each_question_for_a_name_is_reported() -> None:
    asked = "(tf.keras.mixed_precision, 'experimental')\n"
    left = migrated(f"import tensorflow as tf\nold = getattr{asked}has = hasattr{asked}").left
    assert [(each.line, each.rule) for each in left] == [(2, "names-in-strings"), (3, "names-in-strings")]


def test_every_rule_is_needed_and_says_nothing_where_it_does_not_apply() -> None:
    rules = re.findall(r"^[\w-]+$", command("--list-rules")[1].decode(), re.MULTILINE)
    said = {name: {each["rule"] for each in messages(case.before, *case.options)} for name, case in CASES.items()}
    assert set().union(*said.values()) == set(rules)
    for name, case in CASES.items():
        for rule in said[name]:
            without = messages(case.before, *case.options, "--skip", rule)
            assert rule not in {each["rule"] for each in without}
