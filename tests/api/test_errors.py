"""Every recorded expression comes out in mpls as in the originals, or the table below says why not."""

from __future__ import annotations

import ast
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
ROOT = HERE.parents[1]
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


# tests/golden replays records of what trains, has attributes read and set, and saves. tests/options/test_misuse.py and
# tests/v1/test_graph_rewrite.py see what is warned of.
ELSEWHERE = re.compile(
    r"(dls_trace|mp_\w+|min_gs|slots_v1|k_step|ckpt_keys|k_attr_types|warn_unscaled|setget|enable_after_session)\("
)


def is_left_out(group: str, expression: str) -> bool:
    """Say whether a record is replayed elsewhere, or is of an unwrapped optimizer or of a layer, for comparison."""
    is_of_others = "unwrapped" in expression or expression.startswith("mixed_float16 layer")
    return is_of_others or group == "checkpoint keys" or ELSEWHERE.match(expression) is not None


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


# --- comparison -----------------------------------------------------------------------------------

NEWEST = "2.21.0"

# What may differ in the text of a value, each with what takes its place on both sides.
NOISE = [
    (r"tensorflow\.python\.training\.experimental\.loss_scale\.|mpls\.core\.\w+\.", ""),
    (r"(?:tensorflow\.python\.training\.experimental\.loss_scale_optimizer|mpls\.v1\.optimizer)\.", ""),
    # Classes are in other modules, under the same names.
    (
        r"\bkeras\.mixed_precision\.loss_scale_optimizer\.LossScaleOptimizerV1\b",
        "mpls.experimental.LossScaleOptimizerV1",
    ),
    (r"(?:tf_keras\.src|\bkeras)\.mixed_precision\.loss_scale_optimizer\b", "mpls.keras"),
    # The class that defines a method, not that of the instance.
    (r"<bound method \w+\.", "<bound method "),
    # What the graph calls an op or a test's own variable is no part of the API.
    (r"<tf\.(Tensor|Operation) '[^']*'", r"<tf.\1 ''"),
    (r"'(?:Variable|v)(?:_?\d+)?(:0|/)", r"'v\1"),
    (r"__main__\.(?:names_of\w*\.<locals>\.)?Sub", "Sub"),
    # NumPy 1 and 2 show their scalars differently.
    (r"np\.(True|False)_", r"\1"),
]
# In the records of earlier releases.
AGE = [
    (r"keras\.optimizer(?:_v2|s\.optimizer_v2)\.gradient_descent", "tf_keras.src.optimizers.legacy.gradient_descent"),
    (r"tf_(?=tf_keras)", ""),
    (r"'LossScaleOptimizerV1'", "'LossScaleOptimizer'"),
    # A config says more today.
    (r"'module': '[\w.]+', ", ""),
    (r", 'registered_name': (?:None|'[^']*')", ""),
]
# Of single expressions: weights are random, and so is whether the first step overflows; annotations are no signature,
# and nothing is new to it that only a keyword can pass.
OF_EXPRESSIONS = {
    "fit(": [(r"loss_scale=EagerTensor<float32 \(\) \d+\.0>", "loss_scale=")],
    "inspect.signature(": [
        (r", \*, .*\)", ")"),
        (r"\\'", "'"),
        (r": (['\"])(?:(?!\1).)*\1", ""),
        (r" -> '[^']*'", ""),
        (r" = ", "="),
        (r"^[\"']|[\"']$", ""),
    ],
}


def plain(case: Case, text: str) -> Any:
    """A value's text without what may differ, or what is compared in its place."""
    rules = NOISE + ([] if case.release == NEWEST else AGE)
    for function, extra in OF_EXPRESSIONS.items():
        rules = rules + (extra if function in case.expression else [])
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


def is_same(case: Case, found: Outcome) -> bool:
    recorded = case.recorded
    if recorded["outcome"] != found["outcome"]:
        return False
    if recorded["outcome"] == "raise":
        return recorded["exception"] in found["bases"]
    before, now = plain(case, recorded["value"]), plain(case, found["value"])
    if case.expression.startswith("pub_dir("):
        return set(ast.literal_eval(before)) <= set(ast.literal_eval(now))
    return bool(before == now)


def show(outcome: Outcome) -> str:
    if outcome["outcome"] == "raise":
        return f"{outcome['exception']}: {outcome['message']}"
    return f"{outcome['type']} {outcome['value']}"


# --- deliberate differences -----------------------------------------------------------------------


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
NOT_FLOATS = either("'foo'", "5)", "[5]", "[tf.constant(5)")
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
        r"for k in DLS\(\)\._weights|DLS\(\)\._add_weight",
        r"^list \[\]$|ResourceVariable<float32 \(\) 1\.0>$",
        ("v2",),
    ),
    Difference(
        "in eager mode update() has updated when it returns, and there is no op to run",
        rf"^DynamicLossScale.update :: upd\(DLS\(\), (?!{NOT_FLOATS}|.*float\(.(?:nan|inf))",
        r"^list \['None', 'EagerTensor<bool \(\) True>'\]$",
        ("v2",),
    ),
    Difference(
        "the loss scale of a Keras optimizer is an object of the same classes as everywhere",
        r":: KLSO\(k\w+\(\)(?:, False, 4)?\)\._loss_scale$",
        r"(?:DynamicLossScale|FixedLossScale)\(",
    ),
    # What the originals got wrong.
    Difference(
        "update() of a user's own LossScale is obeyed",
        r"MPLSO\(v1opt\(\), Sub\(\)\)\._doing_dynamic_loss_scaling\(\)",
        r"^bool True$",
    ),
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
        r":: KLSO\(kopt\(\)\)\.apply_gradients\((?:\[\(None, var\(\)\), |\[\(tf\.constant\(|iter|\[\(tf\.Ind)"
        r"|:: cross_replica_apply\(lambda: KLSO\(kopt\(\)\), 'default'\)"
        r"|:: apply_under\('(?:default|onedevice|mirrored\d|mwms)', lambda: KLSO\(kopt\(",
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
    # How it is made.
    *(
        Difference(
            f"classes of mpls stand before {name} of tf_keras and its bases, see test_surface.py",
            rf":: \[full\(c\) for c in type\(KLSO\({factory}\(\)\)\)\.__mro__\]",
            rf"^list \['mpls\.keras\.LossScaleOptimizer(V3)?', .*'mpls\.keras\.tf_keras_family\.{adapter}', "
            rf".*'tf_keras\.src\.mixed_precision\.loss_scale_optimizer\.{name}', ",
        )
        for factory, adapter, name in (
            ("kopt", "NewAdapter", "LossScaleOptimizerV3"),
            ("kleg", "LegacyAdapter", "LossScaleOptimizer"),
        )
    ),
    *(
        Difference(
            "what Keras writes of a wrapper has the mark of mpls, by which its own loaders make one again",
            rf":: (?:KO|tf\.keras\.optimizers)\.serialize\({wrapper}",
            r"'loss_scale_state': None",
            (mode,),
        )
        # In a v1 graph, what wraps a new optimizer fails here and there.
        for mode, wrapper in (("v2", "KLSO"), ("v1", r"KLSO(?!\(kopt)"))
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


# --- texts ----------------------------------------------------------------------------------------

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
