"""What counts as a difference, which one is the first, and which steps are compared."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from mpls.comparing import (
    DIFFERENT,
    SAME_BITS,
    SAME_UP_TO_ROUNDING,
    Comparison,
    IncomparableTracesError,
    compare,
    text_of,
)
from tests.tracing.record import data_of

from .traces import changed, content, of_today, row, written


def compared(tmp_path: pathlib.Path, old: Any, new: Any, *rest: Any) -> Comparison:
    return compare(written(tmp_path, "old.json", old), written(tmp_path, "new.json", new), *rest)


def test_a_trace_agrees_with_itself_to_the_last_bit(tmp_path: pathlib.Path) -> None:
    found = compared(tmp_path, content(), of_today())
    assert (found.verdict, found.first, found.same_bits, found.largest) == (SAME_BITS, None, 6, 0.0)
    assert "The two agree to the last bit, in 6 steps of 1 optimizer" in text_of(found)


@pytest.mark.parametrize("quantity", ["gradient", "variable"])
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(("times", "differs"), [(0.98, False), (1.02, True)])
@pytest.mark.parametrize("tolerance", [1e-5, 1e-3])
def test_a_part_is_measured_by_the_whole(
    tmp_path: pathlib.Path, quantity: str, part: int, times: float, differs: bool, tolerance: float
) -> None:
    norms = [3.0, 0.01]
    old = changed(content(), 4, **{f"{quantity}_norms": [*norms]})
    norms[part] += times * tolerance * 3
    new = changed(of_today(), 4, **{f"{quantity}_norms": norms, f"{quantity}s_digest": "x"})
    found = compared(tmp_path, old, new, tolerance)
    if differs:
        assert found.verdict == DIFFERENT
        assert (found.first.quantity, found.first.variable) == (f"{quantity}s", part)
        assert found.first.size == pytest.approx(times * tolerance, rel=2e-3)
        assert f" of the norm of all {quantity}s; tolerance {tolerance:g})" in text_of(found)
    else:
        assert found.verdict == SAME_UP_TO_ROUNDING
        assert found.largest == pytest.approx(times * tolerance, rel=2e-3)
        assert found.same_bits == 3


OVERFLOW = {"loss": "nan", "gradient_norms": ["inf", 1.0], "gradients_digest": "x"}
NAN_SCALE = {"scale": "nan", "scale_after": "nan"}
# The step that is changed, what the old and the new trace have in it, the tolerance, and the quantity that differs.
CASES: dict[str, tuple[int, dict[str, Any], dict[str, Any], float, str | None]] = {
    # No tolerance excuses these.
    "scale": (4, {}, {"scale": 4.0}, 1e9, "scale"),
    "counter": (4, {}, {"counter": 1}, 1e9, "counter"),
    "decision": (4, {}, {"applied": False}, 1e9, "applied"),
    "scale after": (4, {}, {"scale_after": 9.0}, 1e9, "scale_after"),
    "counter after": (4, {}, {"counter_after": 3}, 1e9, "counter_after"),
    "overflow": (4, {}, {"nonfinite": 1}, 1e9, "nonfinite"),
    "loss that is NaN": (4, {}, {"loss": "nan"}, 1e9, "loss"),
    "gradient that is NaN": (4, {}, {"gradient_norms": ["nan", 0.25], "gradients_digest": "x"}, 1e9, "gradients"),
    "weight that is infinite": (4, {}, {"variable_norms": [3.5, "inf"], "variables_digest": "x"}, 1e9, "variables"),
    # The first of a step is what the others come of.
    "first": (
        4,
        {},
        {"applied": False, "variable_norms": [9, 9], "variables_digest": "x", "nonfinite": 1},
        1e-5,
        "nonfinite",
    ),
    # Large weights excuse no difference of small gradients.
    "whole": (
        4,
        {"gradient_norms": [1e-4, 0]},
        {"gradient_norms": [1.001e-4, 0], "gradients_digest": "x"},
        1e-5,
        "gradients",
    ),
    "cancelled": (4, {"gradient_norms": [1, 1e-9]}, {"gradient_norms": [1, 3e-9], "gradients_digest": "x"}, 1e-5, None),
    "as large": (4, {"gradient_norms": [4, 0]}, {"gradient_norms": [3, 0], "gradients_digest": "x"}, 0.25, None),
    "larger": (4, {"gradient_norms": [4, 0]}, {"gradient_norms": [3, 0], "gradients_digest": "x"}, 0.2499, "gradients"),
    "largest numbers": (
        4,
        {"gradient_norms": [1.5e308, 1.5e308]},
        {"gradient_norms": [1.5e308, 1.0e308], "gradients_digest": "x"},
        1e-5,
        "gradients",
    ),
    "loss as large": (4, {"loss": 4}, {"loss": 3}, 0.25, None),
    "larger loss": (4, {"loss": 4}, {"loss": 3}, 0.2499, "loss"),
    "same bits": (4, {}, {"variable_norms": [9, 9], "gradient_norms": [9, 9]}, 1e-5, None),
    # Two numbers that are not finite are the same; beside them, finite parts are compared.
    "both overflow": (3, {}, {**OVERFLOW, "nonfinite": 1}, 1e-5, None),
    "finite loss": (3, {}, {"loss": 1.0}, 1e-5, "loss"),
    "finite part": (3, {}, {**OVERFLOW, "gradient_norms": ["inf", 1.1]}, 1e-5, "gradients"),
    "close part": (3, {}, {**OVERFLOW, "gradient_norms": ["inf", 1 + 0.9e-5]}, 1e-5, None),
    "scales that are NaN": (4, NAN_SCALE, NAN_SCALE, 1e-5, None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_counts_as_a_difference(tmp_path: pathlib.Path, case: str) -> None:
    step, old, new, tolerance, quantity = CASES[case]
    one, other = changed(content(), step, **old), changed(of_today(), step, **new)
    for found in (compared(tmp_path, one, other, tolerance), compared(tmp_path, other, one, tolerance)):
        assert (found.verdict == DIFFERENT) is (quantity is not None)
        assert found.first is None or (found.first.quantity, found.first.step.old.step) == (quantity, step)


def test_the_same_bits_with_another_loss_are_the_same_up_to_rounding(tmp_path: pathlib.Path) -> None:
    found = compared(tmp_path, content(), changed(of_today(), 4, loss=1.0 + 1e-7))
    assert found.verdict == SAME_UP_TO_ROUNDING
    assert "The bits of gradients and variables are the same in each step." in text_of(found)


def test_a_real_training_is_the_same_up_to_rounding() -> None:
    """RMSprop on TF 2.4 and today: from step 9 on, small gradients differ by more than 1e-5 of themselves."""
    found = compare(str(data_of("rmsprop")), str(pathlib.Path(__file__).parent / "data" / "rmsprop-2.21.json"))
    assert found.verdict == SAME_UP_TO_ROUNDING, text_of(found)
    assert len(found.steps) == 40
    assert 1e-6 < found.largest < 1e-5
    step = found.steps[8]
    sizes = [abs(a / b - 1) for a, b in zip(step.old.gradient_norms, step.new.gradient_norms, strict=True)]
    assert max(sizes) > 1e-5


def test_a_loss_that_one_does_not_know_is_not_compared(tmp_path: pathlib.Path) -> None:
    found = compared(tmp_path, content(), changed(of_today(), 2, loss=None, gradients_digest="x"))
    assert found.first is None
    assert "has no loss in some steps" in text_of(found)


def test_variables_belong_together_by_name(tmp_path: pathlib.Path) -> None:
    new = of_today()
    new["wrappers"][0]["variables"].reverse()
    for each in new["steps"]:
        each.update(gradient_norms=each["gradient_norms"][::-1], variable_norms=each["variable_norms"][::-1])
        each.update(gradients_digest="x", variables_digest="x")
    assert compared(tmp_path, content(), new).first is None


def test_other_names_in_the_same_order_do(tmp_path: pathlib.Path) -> None:
    new = of_today()
    for each in new["wrappers"][0]["variables"]:
        each["name"] = f"sequential/{each['name']}"
    assert compared(tmp_path, content(), new).first is None


@pytest.mark.parametrize(("old", "new"), [(6, 5), (5, 6)])
def test_a_run_that_stops_earlier_differs(tmp_path: pathlib.Path, old: int, new: int) -> None:
    found = compared(tmp_path, content(old), of_today(new))
    assert found.first.quantity == "steps"
    assert f"the number of steps: {old} in the old run, {new} in the new one" in text_of(found)


def test_a_trace_that_was_to_stop_earlier_does_not(tmp_path: pathlib.Path) -> None:
    new = of_today(4)
    new["settings"]["steps"] = 4
    assert compared(tmp_path, content(6), new).first is None


def test_steps_that_both_have_are_compared(tmp_path: pathlib.Path) -> None:
    new = of_today()
    new["settings"]["every"] = 2
    new["steps"] = [each for each in new["steps"] if each["step"] % 2]
    found = compared(tmp_path, content(), new)
    assert found.first is None
    assert [step.old.step for step in found.steps] == [1, 3, 5]
    found = compared(tmp_path, content(), changed(new, 5, scale=1.0))
    assert "Steps in between were not recorded: --every 1 shows the first." in text_of(found)


def test_several_optimizers_are_told_apart(tmp_path: pathlib.Path) -> None:
    both = []
    for about in (content(), of_today()):
        second = [{**row(number), "wrapper": 1} for number in range(1, 7)]
        steps = [each for pair in zip(about["steps"], second, strict=True) for each in pair]
        both.append({**about, "wrappers": about["wrappers"] * 2, "steps": steps})
    old, new = both
    assert compared(tmp_path, old, new).first is None
    new["steps"][7] = {**new["steps"][7], "scale": 1.0}
    found = compared(tmp_path, old, new)
    assert "differ from step 4 of optimizer 1 on: the loss scale: 8 in the old run, 1 in the new one" in text_of(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda new: new["wrappers"].append(new["wrappers"][0]), "has 1 optimizers that scale a loss"),
        (lambda new: new["wrappers"][0]["variables"][0].update(shape=[3, 2]), "of shape [2, 3] in the old trace"),
        (lambda new: new.update(steps=[row(9)]), "have no step in common"),
    ],
)
def test_other_programs_are_not_compared(tmp_path: pathlib.Path, change: Any, said: str) -> None:
    new = of_today()
    change(new)
    with pytest.raises(IncomparableTracesError) as caught:
        compared(tmp_path, content(), new)
    assert said in str(caught.value)
