"""Every recorded expression comes out in mpls as in the originals, or the table below says why not."""

from __future__ import annotations

import functools
import importlib
import json
import pathlib
import re
import subprocess
import sys
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from parameterized import parameterized

from mpls.documentation import sections
from tests.processes import process_environment

HERE = pathlib.Path(__file__).parent
MODES = ("v2", "v1")

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Case:
    mode: str
    release: str
    group: str
    expression: str
    recorded: Outcome

    @property
    def key(self) -> str:
        return f"{self.group} :: {self.expression}"


def read_cases() -> Iterator[Case]:
    data = json.loads((HERE / "data" / "errors.json").read_text())
    for group in data["groups"]:
        for expression, *indices in group["cases"]:
            for mode, index in zip(MODES, indices, strict=True):
                if index is not None and not is_left_out(group["group"], expression):
                    yield Case(mode, group["release"], group["group"], expression, data["outcomes"][index])


# tests/golden replays records of what trains, has attributes read and set, and saves. Strategies are in
# tests/faults/test_strategies.py, warnings in tests/options/test_misuse.py and tests/v1/test_graph_rewrite.py.
GROUPS_ELSEWHERE = ("strategy", "checkpoint keys")
ELSEWHERE = re.compile(
    r"(dls_trace|mp_\w+|min_gs|slots_v1|k_step|ckpt_keys|k_attr_types|warn_unscaled|setget|enable_after_session"
    r"|cross_replica_apply)\("
)


def is_left_out(group: str, expression: str) -> bool:
    """Say whether a record is replayed elsewhere."""
    return group.startswith(GROUPS_ELSEWHERE) or ELSEWHERE.match(expression) is not None


CASES = list(read_cases())


@functools.cache
def processes() -> dict[str, subprocess.Popen[str]]:
    """Start the evaluation, in both modes side by side."""
    return {
        mode: subprocess.Popen(
            [sys.executable, str(HERE / "evaluate.py"), mode],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=process_environment(),
        )
        for mode in MODES
    }


@functools.cache
def evaluated(mode: str) -> dict[str, Outcome]:
    process = processes()[mode]
    stdout, stderr = process.communicate(timeout=300)
    if process.returncode:
        raise RuntimeError(stderr[-3000:])
    results: dict[str, Outcome] = json.loads(stdout)
    return results


# By other names in earlier releases, and where pairs were recorded.
SAME_TYPES = {"SymbolicTensor": "Tensor", "tuple": "list"}


def is_same(case: Case, found: Outcome) -> bool:
    """Say whether both raise the same, or both return something of the same type; tests/golden compares values."""
    recorded = case.recorded
    if recorded["outcome"] != found["outcome"]:
        return False
    if recorded["outcome"] == "raise":
        return recorded["exception"] in found["bases"]
    before, now = (each["type"].rpartition(".")[2].removesuffix("V1") for each in (recorded, found))
    return SAME_TYPES.get(before, before) == SAME_TYPES.get(now, now)


def show(outcome: Outcome) -> str:
    if outcome["outcome"] == "raise":
        return f"{outcome['exception']}: {outcome['message']}"
    return f"{outcome['type']} {outcome['value']}"


@dataclass(frozen=True)
class Difference:
    """What mpls does otherwise than the originals, on purpose.

    Attributes:
        reason: why.
        pattern: searched for in "group :: expression".
        now: searched for in what comes out of mpls, as `show` shows it.
        modes: the modes in which it differs.
    """

    reason: str
    pattern: str
    now: str
    modes: tuple[str, ...] = MODES


def either(*texts: str) -> str:
    return f"(?:{'|'.join(map(re.escape, texts))})"


REFUSED = r"^mpls\.errors\.ArgumentValueError: [\w.]+: \w+ must be positive and finite"
# A fixed scale below 1 was refused already.
NOT_A_SCALE = either("float('nan')", "float('inf')", "1e39", "2**128")
NEVER_A_SCALE = either("0", "-1", "float('nan')", "float('inf')", "float('-inf')", "False", "1e39", "2**128")
NUMPY_NUMBER = either("np.float32(128)", "np.int64(128)", "np.int32(128)", "np.array(128.)")
V1_SCALE = r"^(?:MixedPrecision\S+|enable\S+ \(v1\)) loss_scale :: \w+\(v1opt\(\), "
KERAS_SCALE = r"^keras experimental \S+ loss_scale :: KLSOX\(kopt\(\), |:: ENABLE\(kopt\(\), "

DIFFERENCES: list[Difference] = [
    # What can only destroy a run is refused.
    Difference(
        "a fixed scale that is NaN, or infinite in float32, can only destroy a run",
        rf":: FLS\({NOT_A_SCALE}\)$|{V1_SCALE}{NOT_A_SCALE}\)$",
        REFUSED,
    ),
    Difference(
        "an initial scale or multiplier that is NaN, infinite, zero or negative can only destroy a run",
        rf":: DLS\((?:initial_loss_scale|multiplier)={NEVER_A_SCALE}\)$",
        REFUSED,
    ),
    Difference(
        "a scale of a Keras optimizer that is NaN, infinite, zero or negative can only destroy a run",
        rf":: KLSO\(kopt\(\),(?: dynamic=False,)? initial_scale={NEVER_A_SCALE}\)$"
        rf"|(?:{KERAS_SCALE}){NEVER_A_SCALE}\)$",
        REFUSED,
    ),
    # What is a number is accepted.
    Difference(
        "NumPy numbers and 0-d arrays are numbers",
        rf":: FLS\({NUMPY_NUMBER}\)$",
        r"FixedLossScale\(128\.0\)$",
    ),
    Difference(
        "NumPy numbers and 0-d arrays are numbers, for optimizers as well",
        rf"(?:{V1_SCALE}|{KERAS_SCALE}){NUMPY_NUMBER}\)$",
        r"LossScaleOptimizer(V1)? object",
    ),
    # Losses.
    Difference(
        "a Python float is a loss",
        r":: KLSO\(\w+\(\)\)\.get_scaled_loss\((?:lambda: )?2\.\)",
        r"Tensor (?:EagerTensor<float32|.*dtype=float32)",
    ),
    Difference(
        "a Python float is a loss for a wrapper of TF 1 too, and what that cannot do with it, it says",
        r"\.compute_gradients\((?:lambda: )?5\.\)$",
        r"^list \[\]$|^ValueError: No variables|^RuntimeError: `loss` passed",
    ),
    Difference(
        "an integer loss has no gradient, and is refused",
        r"\.get_scaled_loss\(tf\.constant\(2\)\)",
        r"^mpls\.errors\.TensorArgumentError: LossScaleOptimizer: loss must have a float dtype",
    ),
    # State.
    Difference(
        "in eager mode the state is made when it is first used, under the strategy of that moment",
        r"DLS\(\)\._add_weight",
        r"ResourceVariable<float32 \(\) 1\.0>$",
        ("v2",),
    ),
    Difference(
        "the loss scale of a Keras optimizer is an object of the same classes as everywhere",
        r":: KLSO\(k\w+\(\)(?:, False, 4)?\)\._loss_scale$",
        r"(?:DynamicLossScale|FixedLossScale)\(",
    ),
    # What the originals got wrong.
    Difference(
        "a wrapper function that is registered without a class does not break later calls",
        r":: \(REGW\(Foo, lambda o, s: \([^()]*\)\), ENABLE\(",
        r"MixedPrecisionLossScaleOptimizer object|'wrapped', 'Foo', 7",
    ),
    Difference(
        "new tf_keras optimizers are wrapped as well",
        r":: ENABLE\(kexp\(\)\)",
        r"^mpls\.keras\.LossScaleOptimizerV3 ",
    ),
    Difference(
        "from_config can be called on the public class",
        r":: KLSO\.from_config\(",
        # What a new optimizer's own get_config() cannot do in a graph.
        r"^dict \{'inner_optimizer': |^mpls\.errors\.Argument(?:Key|Value)Error: |: numpy\(\) is only available",
    ),
    Difference(
        "new optimizers return no op to run, and are refused in a graph",
        r":: KLSO\(kopt\(\)\)\.apply_gradients\((?:\[\(None, var\(\)\), |\[\(tf\.constant\(|iter|\[\(tf\.Ind)",
        r"^mpls\.errors\.UnsupportedGraphError: ",
        ("v1",),
    ),
    Difference(
        "hyperparameters and clipping are those of the inner optimizer, over new optimizers too",
        r":: KLSO\(kopt\(\)\)\.(?:clipnorm|clipvalue|global_clipnorm|momentum)$",
        r"^NoneType None$|^float [\d.e-]+$",
    ),
    Difference(
        "programs that knew legacy optimizers read the weights through the wrapper",
        r":: KLSO\(kopt\(\)\)\.(?:weights|get_weights\(\))$",
        # What a new optimizer cannot do in a graph.
        r"^list \[|: numpy\(\) is only available",
    ),
    Difference(
        "an integer loss is refused as such, before the mode is looked at",
        r":: MPLSO\(v1opt\(\), 4\.\)\.compute_gradients\(tf\.constant\(1\), ",
        r"^mpls\.errors\.TensorArgumentError: ",
        ("v2",),
    ),
    Difference(
        "aggregate_gradients() works",
        r":: KLSO\(kopt\(\)\)\.aggregate_gradients\(\[\]\)",
        r"^list \[\]$",
    ),
    Difference(
        "wrappers over legacy optimizers can be copied",
        r":: copy\.deepcopy\(KLSO\(kleg\(\)\)\)",
        r"^mpls\.keras\.LossScaleOptimizer ",
        ("v2",),
    ),
    Difference(
        "optimizers of tf_keras cannot be pickled, and the error says what can",
        r":: pickle\.dumps\(KLSO\(",
        r"^mpls\.errors\.NotPicklableError: ",
    ),
]


def difference_of(case: Case) -> Difference | None:
    matches = [d for d in DIFFERENCES if case.mode in d.modes and re.search(d.pattern, case.key)]
    assert len(matches) < 2, f"{case.key} is in the table {len(matches)} times"
    return matches[0] if matches else None


def named(cases: list[Case]) -> list[tuple[str, Case]]:
    return [(f"{case.mode} {case.expression}"[:70], case) for case in cases]


SAME = [case for case in CASES if difference_of(case) is None]
DIFFERENT = [case for case in CASES if difference_of(case) is not None]


class RecordedTest(unittest.TestCase):
    """The table-driven comparison."""

    @parameterized.expand(sorted({case.mode for case in SAME}))
    @pytest.mark.matrix
    def test_all_come_out_as_recorded(self, mode: str) -> None:
        found = evaluated(mode)
        wrong = [case for case in SAME if case.mode == mode and not is_same(case, found[case.key])]
        shown = [
            f"{each.key}\n  recorded: {show(each.recorded)}\n  found:    {show(found[each.key])}" for each in wrong
        ]
        self.assertEqual(shown, [])

    @parameterized.expand(named(DIFFERENT))
    @pytest.mark.matrix
    def test_differs_on_purpose(self, label: str, case: Case) -> None:
        found, difference = evaluated(case.mode)[case.key], difference_of(case)
        assert difference is not None
        self.assertFalse(
            is_same(case, found),
            f"\n{case.mode} {case.key} does not differ any more; the table says: {difference.reason}",
        )
        self.assertRegex(show(found), difference.now, f"{case.mode} {case.key}: {difference.reason}")

    @parameterized.expand([(d.reason[:60], d) for d in DIFFERENCES])
    def test_every_row_of_the_table_is_used(self, label: str, difference: Difference) -> None:
        for mode in difference.modes:
            used = [c for c in CASES if c.mode == mode and re.search(difference.pattern, c.key)]
            self.assertTrue(used, f"no recorded expression matches {difference.pattern!r} in {mode}")


MESSAGE = re.compile(
    r"(?P<name>[A-Za-z_][\w.]*): (?P<argument>[^;]+?) must (?P<constraint>[^;]+); "
    r"got (?P<value>.+?)(?P<type> \([\w.]+\))?\. (?P<advice>[^.(].*)[.?] See mpls docs (?P<anchor>[a-z0-9-]+)",
    re.DOTALL,
)


# What tf.function makes of an error: a traceback, and in it the text, after the name of the error's class.
IN_USER_CODE = re.compile(r"in user code:\n.*?\n    (?P<error>[A-Z]\w+): (?P<text>\S.*?)\n*", re.DOTALL)


def written_by_mpls(text: str) -> str:
    """The part of an error's text that is not a traceback of tf.function."""
    match = IN_USER_CODE.fullmatch(text)
    return match["text"] if match else text


def has_the_form(text: str) -> bool:
    """Whether a text has all parts; what is wrong may be no argument, and then it has no type."""
    match = MESSAGE.fullmatch(text)
    return match is not None and (match["type"] is not None or not match["argument"].isidentifier())


def is_public(subject: str) -> bool:
    """Whether a name, of a member or not, in full or not, is one of those that packages list."""
    for package in ("mpls.v1", "mpls.keras", "mpls.experimental", "mpls.experimental.loss_scales"):
        module = importlib.import_module(package)
        name, _, member = subject.removeprefix(f"{package}.").partition(".")
        if name in module.__all__ and (not member or hasattr(getattr(module, name), member)):
            return True
    return False


def own_errors() -> dict[str, tuple[str, str]]:
    """Each error text that mpls itself made, with the first expression that led to it."""
    found: dict[str, tuple[str, str]] = {}
    for mode in MODES:
        for key, outcome in evaluated(mode).items():
            if "mpls.errors.MplsError" in outcome.get("bases", ()):
                found.setdefault(written_by_mpls(outcome["message"]), (mode, key))
    return found


class MessageTest(unittest.TestCase):
    """Errors that mpls raises itself say what is wrong, with what, and what to do."""

    @pytest.mark.matrix
    def test_texts_have_the_form(self) -> None:
        texts = own_errors()
        self.assertGreater(len(texts), 50)
        wrong = [(where, text) for text, where in texts.items() if not has_the_form(text)]
        self.assertEqual(wrong, [], "\n".join(text for _, text in wrong))

    @pytest.mark.matrix
    def test_the_subject_is_a_name_that_users_can_import(self) -> None:
        subjects = {match["name"] for text in own_errors() if (match := MESSAGE.fullmatch(text))}
        self.assertIn("LossScaleOptimizer.from_config", subjects)
        self.assertEqual({subject for subject in subjects if not is_public(subject)}, set())

    @pytest.mark.matrix
    def test_anchors_are_sections_of_the_documentation(self) -> None:
        offered = {section.anchor for section in sections()}
        used = {match["anchor"] for text in own_errors() if (match := MESSAGE.fullmatch(text))}
        self.assertTrue(used)
        self.assertEqual(used - offered, set())

    @pytest.mark.matrix
    def test_a_refusal_is_an_error_of_mpls_wherever_it_comes_out(self) -> None:
        # Also where AutoGraph raised it again.
        lost = [
            (mode, key, outcome["bases"][0])
            for mode in MODES
            for key, outcome in evaluated(mode).items()
            if "See mpls docs " in outcome.get("message", "") and "mpls.errors.MplsError" not in outcome["bases"]
        ]
        self.assertEqual(lost, [])
