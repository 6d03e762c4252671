"""Each known difference is named where it is the reason, with its remedy, and not elsewhere."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from mpls.comparing import compare, explanations, text_of
from mpls.documentation import sections

from .traces import changed, content, of_today, written

DIFFERENT = {"variable_norms": [3.9, 1.1], "variables_digest": "x"}
# By a word of the text: what is changed in the old trace, and in the new one; each a step and its values.
CASES: dict[str, tuple[dict[str, Any], list[tuple[int, Any]], dict[str, Any], list[tuple[int, Any]]]] = {
    "not recorded with one seed": (
        {"environment": {"tensorflow": "2.21.0", "mpls": "1.0.0"}},
        [],
        {},
        [(1, {"loss": 4.1})],
    ),
    "begin with other weights": ({}, [], {}, [(1, {"gradient_norms": [9.0, 9.0], "gradients_digest": "x"})]),
    "advances `iterations`": ({}, [], {}, [(4, DIFFERENT)]),
    "releases differ from each other": ({}, [(3, {"applied": True})], {}, []),
    "Optimizers since TF 2.11": ({}, [], {}, [(2, DIFFERENT)]),
    "of the size of rounding": ({}, [], {}, [(2, {"loss": 2.0001})]),
}


def traces(case: str) -> tuple[Any, Any]:
    old_changes, old_steps, new_changes, new_steps = CASES[case]
    old, new = content(**old_changes), of_today(**new_changes)
    for number, values in old_steps:
        old = changed(old, number, **values)
    for number, values in new_steps:
        new = changed(new, number, **values)
    return old, new


def explained(tmp_path: pathlib.Path, old: Any, new: Any) -> str:
    return text_of(compare(written(tmp_path, "old.json", old), written(tmp_path, "new.json", new)))


@pytest.mark.parametrize("case", CASES)
def test_a_known_difference_is_named_and_documented(tmp_path: pathlib.Path, case: str) -> None:
    old, new = traces(case)
    assert case in explained(tmp_path, old, new)
    found = explanations(compare(str(tmp_path / "old.json"), str(tmp_path / "new.json")))
    assert 1 <= len(found) <= 2
    assert {each.anchor for each in found} <= {section.anchor for section in sections()}


@pytest.mark.parametrize(
    ("old", "new", "options", "is_named"),
    [
        ("2.2.3", "2.21.0", {}, True),
        ("2.4.4", "2.21.0", {}, False),
        ("2.2.3", "2.21.0", {"as_of": "2.2"}, False),
        ("2.4.4", "2.21.0", {"as_of": "2.2"}, True),
        ("2.4.4", "2.21.0", {"as_of": "2.4"}, False),
    ],
)
def test_counted_skips_are_named_where_releases_differ(
    tmp_path: pathlib.Path, old: str, new: str, options: dict[str, Any], is_named: bool
) -> None:
    before = content(environment={"tensorflow": old})
    after = changed(of_today(environment={"tensorflow": new, "mpls": "1.0.0"}, options=options), 4, **DIFFERENT)
    text = explained(tmp_path, before, after)
    assert ("advances `iterations`" in text) is is_named
    assert (f"try --as-of {old[:3]}" in text) is is_named


def test_they_are_not_without_a_skipped_step(tmp_path: pathlib.Path) -> None:
    assert "advances `iterations`" not in explained(tmp_path, content(), changed(of_today(), 2, **DIFFERENT))


def test_keras_3_does_not_count_skips(tmp_path: pathlib.Path) -> None:
    new = changed(of_today(), 4, **DIFFERENT)
    new["wrappers"][0]["framework"] = "keras"
    assert "advances `iterations`" not in explained(tmp_path, content(), new)
    old = content(environment={"tensorflow": "2.4.4"})
    assert "try --as-of 2.4" in explained(tmp_path, old, new)
