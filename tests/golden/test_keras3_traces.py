"""Recorded doings of Keras 3's own wrapper: traces, fits and facts, replayed with that of mpls.

Each replay also runs with Keras' own class, which must still do as recorded: it shows that the replay is a true one.
Where mpls does something else on purpose, a row of a table says what and why.
"""

from __future__ import annotations

import copy
import functools
import unittest
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.keras
import mpls.v1

from . import replay
from .keras_replay import (
    DIFFERENCES,
    MODES,
    Difference,
    Keras3Subject,
    Trace,
    at,
    error_of,
    plain_path,
    recorded_as,
    spread_of,
)
from .test_keras_facts import FACTS as FACTS_OF_OLDER_CODE
from .test_keras_facts import attempt, describe, make, mismatches, same_record
from .test_keras_fit import assert_as_recorded
from .test_keras_fit import fit as train

RECORDED = replay.load("C_keras3")
SPECS = {name: replay.load(name) for name in ("C_keras_lso", "C_fit", "C_keras_facts")}
RELEASE = "tf21:k3"
# The last release whose wrapper left iterations alone on a skipped step.
RIGHT = "tf22:exp"

NATIVE = Keras3Subject("native", "keras3", RELEASE)
OURS = (Keras3Subject("keras", "keras3", RELEASE), Keras3Subject("keras", "keras3", RELEASE, style="keras2"))
SUBJECTS = {subject.name: subject for subject in (NATIVE, *OURS)}

NAN, INF = float("nan"), float("inf")
Args = dict[str, Any]

pytestmark = [
    # Variables without gradients, configs with a decay of 0, and gradients of an unscaled loss are part of the record.
    pytest.mark.filterwarnings("ignore:Gradients do not exist for variables:UserWarning"),
    pytest.mark.filterwarnings("ignore:Argument `decay` is no longer supported:UserWarning"),
    pytest.mark.filterwarnings("ignore::mpls.errors.MplsWarning"),
]


def named(function: Any, index: str, entry: Any) -> str:
    return parameterized.to_safe_name("_".join([function.__name__, *map(str, entry.args)]))


# -------------------------------------------------------------------------------------------------------------- traces


def differs(case: str, path: str, recorded: Any, ours: Any, reason: str, follows: str | None = None) -> Difference:
    return Difference(case, tuple(subject.name for subject in OURS), path, recorded, ours, reason, follows)


FIXED = "Keras 3 has no fixed scale; that of mpls is the one that earlier releases had."
REFUSED = {"error": "ValueError"}

TRACE_DIFFERENCES = {
    difference.case: difference
    for difference in (
        differs("C.sgd.fixed", "0|scale", REFUSED, 128.0, FIXED, RIGHT),
        differs("C.sgd.fixed_nan_goes_through", "1|vars|b", REFUSED, "nan", FIXED, RIGHT),
        differs("C.strategy.sgd_fixed", "1|vars|b|1", REFUSED, -1.48, FIXED, RIGHT),
        differs("C.x.strategy.sgd_fixed_nan", "1|vars|bias|0", REFUSED, ["nan", "nan"], FIXED, RIGHT),
        differs("C.sgd.floor", "2|scale", 0.5, 1.0, "Without a floor, the scale of Keras 3 can fall to 0.", RIGHT),
        differs("C.x.sgd.init_half", "0|scale", 0.25, 1.0, "Without a floor, the scale can fall to 0.", RIGHT),
        differs(
            "C.x.sgd.growth0",
            "1|scale",
            2.0,
            4.0,
            "The scale of Keras 3 grows only if the counter is the period minus 1, which it never is here.",
            RIGHT,
        ),
        differs(
            "C.strategy.sgd",
            "1|vars|w|0",
            ["-inf", "inf"],
            [0.85, -1.55],
            "Keras 3 looks at the gradients of the first replica only: an infinity on the other went into the weights.",
            RIGHT,
        ),
    )
}


def runs_of(case_id: str) -> list[str]:
    """Return the modes in which a case was recorded."""
    runs = [run for outcome in RECORDED[case_id]["outcomes"] for run in outcome["runs"]]
    return [run.removeprefix(f"{RELEASE}:") for run in runs if run.startswith(RELEASE)]


TRACES = [(case_id, mode) for case_id in RECORDED if case_id in SPECS["C_keras_lso"] for mode in runs_of(case_id)]


@functools.cache
def trace_of(case_id: str, subject: str, mode: str) -> Any:
    """Return the trace, or the error that kept it from starting."""
    try:
        return MODES[mode](SUBJECTS[subject], SPECS["C_keras_lso"][case_id]["spec"])
    except Exception as error:  # A recorded outcome too, compared by its type.
        return error_of(error)


def check_trace(case_id: str, subject: str, mode: str, release: str = RELEASE) -> None:
    """Require a trace to be as recorded: scale and counters exactly, variables and slots to some last bits."""
    case, run, trace = RECORDED[case_id], f"{release}:{mode}", trace_of(case_id, subject, mode)
    expected = recorded_as(case, run)
    if replay.is_error(expected):
        assert replay.is_error(trace), f"no {expected['error']} but {trace}"
        assert expected["error"] in trace["error"], f"{trace} is no {expected['error']}"
        return
    assert isinstance(trace, Trace), trace
    for index, (state, want) in enumerate(zip(trace.states, expected, strict=True)):
        assert not replay.is_error(state), state
        for counter in ("scale", "good", "iter"):
            replay.assert_exact(state[counter], want[counter], f"step {index}: {counter}")
        replay.assert_close(state["vars"], want["vars"], f"step {index}: ", 1e-6 + spread_of(case, run), ulps=2)
    slots, meta = recorded_as(case, run, "outcomes_slots"), recorded_as(case, run, "metas")
    if slots is not None and release == RELEASE:
        # The same by their order: the wrapped optimizer of the record had another number in its name.
        for index, (state, want) in enumerate(zip(trace.slots or (), slots, strict=True)):
            same_names = {plain_path(key): value for key, value in want.items()}
            known = {key: value for key, value in state.items() if not is_untracked(key, subject)}
            spread = spread_of(case, run, "outcomes_slots")
            replay.assert_close(known, same_names, f"slots of step {index}: ", 1e-6 + spread, ulps=2)
    if meta is not None:
        names = [name for name in trace.meta["variables"] if not is_untracked(name, subject)]
        assert names == [plain_path(name) for name in meta["variables"]]
        if SUBJECTS[subject].style == "keras3":
            assert trace.meta["grads"] == meta["grads"]


def is_untracked(name: str, subject: str) -> bool:
    """Return whether Keras' wrapper keeps the wrapped optimizer from tracking the variable, and so from saving it.

    Nadam multiplies its momentums up in one of its own; mpls leaves it with the others, as it is without a wrapper.
    """
    return name.endswith("nadam/variable") and subject != NATIVE.name


class RecordedTracesTest(unittest.TestCase):
    @parameterized.expand([(*entry, subject.name) for entry in TRACES for subject in OURS], name_func=named)
    @pytest.mark.default_run("each value", by=lambda case_id, mode, subject: (mode, subject))
    def test_it_does_as_recorded(self, case_id: str, mode: str, subject: str) -> None:
        difference = TRACE_DIFFERENCES.get(case_id)
        check_trace(case_id, subject, mode, difference.follows if difference and difference.follows else RELEASE)

    @parameterized.expand(
        [entry for entry in TRACES if entry[1].endswith("eager") and entry[0] not in TRACE_DIFFERENCES],
        name_func=named,
    )
    @pytest.mark.default_run("each value", by=lambda case_id, mode: (case_id.split(".")[1], mode))
    def test_bits_are_those_of_keras_own_wrapper(self, case_id: str, mode: str) -> None:
        theirs = trace_of(case_id, NATIVE.name, mode)
        for subject in OURS:
            ours = trace_of(case_id, subject.name, mode)
            if replay.is_error(theirs):
                assert ours["error"] == theirs["error"]
                continue
            np.testing.assert_equal(ours.states, theirs.states)
            for mine, yours in zip(ours.slots or (), theirs.slots or (), strict=True):
                known = {key: value for key, value in mine.items() if not is_untracked(key, subject.name)}
                np.testing.assert_equal(known, yours)

    @parameterized.expand(
        [(*entry, subject.name) for entry in TRACES if entry[0] in TRACE_DIFFERENCES for subject in OURS],
        name_func=named,
    )
    @pytest.mark.default_run("one case", by=lambda case_id, mode, subject: (mode, subject))
    def test_a_difference_is_one(self, case_id: str, mode: str, subject: str) -> None:
        difference, case = TRACE_DIFFERENCES[case_id], RECORDED[case_id]
        recorded, right = recorded_as(case, f"{RELEASE}:{mode}"), recorded_as(case, f"{difference.follows}:{mode}")
        original = recorded if replay.is_error(recorded) else at(recorded, difference.path)
        assert same_record(original, difference.recorded)
        assert at(right, difference.path) == difference.ours != original
        replay.assert_close(at(trace_of(case_id, subject, mode).states, difference.path), difference.ours)
        with pytest.raises(AssertionError):
            check_trace(case_id, subject, mode)

    def test_the_variable_that_keras_does_not_track_is_tracked(self) -> None:
        names = {name: trace_of("C.nadam.dynamic", name, "eager").meta["variables"] for name in SUBJECTS}
        for subject in OURS:
            assert names[subject.name] == [*names[NATIVE.name], "nadam/variable"]


# ---------------------------------------------------------------------------------------------------------------- fits


def fit(case_id: str, subject: Keras3Subject | None) -> tuple[dict[str, Any], Any]:
    """Train as a case says; without a subject, with the optimizer as it is and no loss scale."""
    spec = SPECS["C_fit"][case_id]["spec"]

    def make_optimizer() -> Any:
        optimizer = getattr(keras.optimizers, spec["opt"][0])(**spec["opt"][1])
        if subject is not None and "auto" not in spec["loss_scale"]:
            return subject.wrap(optimizer, spec["loss_scale"])
        return mpls.keras.LossScaleOptimizer(optimizer) if subject in OURS else optimizer

    def read(optimizer: Any) -> list[Any] | None:
        if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            return None
        held = subject or NATIVE
        values = (held.scale_of(optimizer), held.counter_of(optimizer), optimizer.iterations)
        return [np.asarray(value) for value in values]

    return train(keras, spec, make_optimizer, read)


def check_fit(result: dict[str, Any], expected: dict[str, Any]) -> None:
    replay.assert_exact(result["batches"], expected["batches"], "batches")
    assert set(result["history"]) == set(expected["history"])
    assert_as_recorded(result, expected)


FITS = [(case_id,) for case_id in RECORDED if case_id in SPECS["C_fit"]]
# In the matrix, and one of the others.
FEW = ("C.fit.jit", "C.fit.strategy", "C.fit.bad_batch", "C.fit.auto_wrap")
REPLICA_1, TOO_BIG = "C.fit.strategy_bad_batch_replica1", "C.x.fit.sgd_float32_big"


class RecordedFitsTest(unittest.TestCase):
    @parameterized.expand([entry for entry in FITS if entry[0] not in (REPLICA_1, TOO_BIG)], name_func=named)
    @pytest.mark.default_run("one case", by=lambda case_id: (case_id if case_id in FEW else "",))
    def test_it_trains_as_recorded(self, case_id: str) -> None:
        expected = recorded_as(RECORDED[case_id], RELEASE)
        if replay.is_error(expected):
            # Keras adds a float16 activity loss to a float32 one, whatever the optimizer.
            for subject in (*OURS[:1], None):
                with pytest.raises(TypeError, match="float16"):
                    fit(case_id, subject)
            return
        result, model = fit(case_id, OURS[0])
        check_fit(result, expected)
        assert mpls.keras.LossScaleOptimizer in type(model.optimizer).__mro__
        assert not isinstance(model.optimizer.inner_optimizer, keras.optimizers.LossScaleOptimizer)


# --------------------------------------------------------------------------------------------------------------- facts


def scaled_loss(subject: Keras3Subject, args: Args) -> Any:
    _, optimizer = make(subject, args)

    def scaled(literal: Any) -> Any:
        return describe(optimizer.scale_loss(replay.tensor(literal)))

    return {name: attempt(functools.partial(scaled, literal)) for name, literal in args["losses"].items()}


def without_numbers(result: Any) -> Any:
    """Return a result without what tells optimizers of a process apart, and releases: some wrote names in capitals."""
    if isinstance(result, dict):
        return {
            key: entry.lower() if key == "name" and isinstance(entry, str) else entry
            for key, entry in ((key, without_numbers(value)) for key, value in result.items())
        }
    if isinstance(result, list):
        return [without_numbers(value) for value in result]
    return plain_path(result) if isinstance(result, str) else result


def from_config(subject: Keras3Subject, args: Args) -> Any:
    wrapper = subject.wrapper_class
    _, optimizer = make(subject, {})

    def read(function: Callable[[Any], Any]) -> Any:
        again = function(copy.deepcopy(args["config"]))
        return {
            "type": type(again).__name__,
            "inner": type(again.inner_optimizer).__name__,
            "scale": again.initial_scale,
            "config": again.get_config(),
        }

    def deserialize(name: str) -> Any:
        return lambda written: keras.optimizers.deserialize({"class_name": name, "config": written})

    return {
        "public": attempt(lambda: read(wrapper.from_config)),
        "concrete": attempt(lambda: read(type(optimizer).from_config)),
        **{
            f"deserialize {name}": attempt(lambda name=name: read(deserialize(name)))
            for name in ("LossScaleOptimizer", "LossScaleOptimizerV1")
        },
    }


def iterations(subject: Keras3Subject, args: Args) -> Any:
    inner, optimizer = make(subject, args)
    result = {"same": optimizer.iterations is inner.iterations}
    result["assign"] = attempt(lambda: [optimizer.iterations.assign(5) is not None, inner.iterations.numpy()])

    def replaced() -> None:
        optimizer.iterations = tf.Variable(7, dtype=tf.int64)

    return {**result, "set_before": attempt(replaced), "set_after": attempt(replaced)}


FACTS: dict[str, Callable[[Any, Args], Any]] = {
    **FACTS_OF_OLDER_CODE,
    "from_config": from_config,
    "iterations": iterations,
    "scaled_loss": scaled_loss,
}


def error(name: str) -> dict[str, str]:
    return {"error": name}


HALF_LOSSES = (
    "Until it is built, Keras' wrapper multiplies a loss by a Python number, in the dtype of the loss, in which it can "
    "overflow, and from then on by a float32 variable; mpls by a float32 number from the start."
)
MEMBERS = "The members that wrappers over optimizers of tf_keras have are there over those of Keras 3, too."
DEAD_ATTRIBUTES = "Setting what is not a hyperparameter of the wrapper made an attribute that nothing reads."
UNCHECKED = "The constructor checked nothing, and failed later or not at all."
CLIPPING = (
    "A clip attribute that was set on the wrapper was ignored without a word; it is the wrapped optimizer's, as over "
    "optimizers of tf_keras."
)
HANDED_ON = (
    "A hyperparameter that was set on the wrapper was lost without a word; it is the wrapped optimizer's, as over "
    "legacy optimizers, and is read where it is set."
)
OTHER_CONFIGS = "Configs of wrappers over tf_keras optimizers could not be read."
SPARSE = "Sparse gradients without a dense shape failed where they were made dense in order to test them."

FACT_DIFFERENCES = (
    *(
        differs(case, path, recorded, ours, HALF_LOSSES)
        for case, path, recorded, ours in (
            ("C.f.scaled_loss", "f16|d", "float16", "float32"),
            ("C.f.scaled_loss", "bf16|d", "bfloat16", "float32"),
            ("C.f.scaled_loss", "int|d", "int32", "float32"),
            ("C.f.scaled_loss", "f16_overflow|d", "float16", "float32"),
            ("C.f.scaled_loss", "f16_overflow|v", "inf", 160000.0),
            ("C.f.scaled_loss_default", "f16|d", "float16", "float32"),
            ("C.f.scaled_loss_default", "f16_over|d", "float16", "float32"),
            ("C.f.scaled_loss_default", "f16_over|v", "inf", 81920.0),
            ("C.x.f.scaled_loss_f16_scale_overflow", "f16|d", "float16", "float32"),
            ("C.x.f.scaled_loss_f16_scale_overflow", "f16|v", "inf", 131.125),
        )
    ),
    *(
        differs(case, path, recorded, ours, MEMBERS)
        for case, path, recorded, ours in (
            ("C.f.attrs", "dynamic", error("AttributeError"), {"py": "bool", "v": True}),
            ("C.f.attrs", "dynamic_counter", error("AttributeError"), {"d": "int64", "v": 0}),
            ("C.f.attrs", "initial_scale|py", "int", "float"),
            ("C.f.attrs", "loss_scale", error("AttributeError"), {"d": "float32", "v": 8.0}),
            ("C.f.attrs", "lr", error("AttributeError"), {"d": "float32", "v": 0.5}),
            ("C.f.attrs_adam", "lr", error("AttributeError"), {"d": "float32", "v": 0.1}),
            ("C.f.dir", "loss_scale", [False, False], [True, True]),
            ("C.f.dir", "lr", [False, False], [True, True]),
            ("C.f.setattrs", "lr=0.25|0", {"py": "float", "v": 0.25}, {"d": "float32", "v": 0.25}),
        )
    ),
    *(
        differs(case, path, recorded, ours, HANDED_ON)
        for case, path, recorded, ours in (
            ("C.f.attrs_adam", "beta_1", error("AttributeError"), {"py": "float", "v": 0.7}),
            ("C.f.attrs_adam", "beta_2", error("AttributeError"), {"py": "float", "v": 0.999}),
            ("C.f.dir", "momentum", [False, False], [True, True]),
            ("C.f.setattrs", "momentum=0.5|1|v", 0.9, 0.5),
            ("C.f.setattrs", "inner_config|momentum", 0.9, 0.5),
        )
    ),
    *(
        differs(
            case,
            f"{name}={value!r}",
            [{"py": type(value).__name__, "v": value}, error("AttributeError")],
            error("AttributeError"),
            DEAD_ATTRIBUTES,
        )
        for case, name, value in (
            ("C.f.setattrs_readonly", "dynamic", False),
            ("C.f.setattrs_readonly", "initial_scale", 2.0),
            ("C.f.setattrs_readonly", "inner_optimizer", 1),
            ("C.f.setattrs_readonly", "loss_scale", 4.0),
            ("C.x.f.setattrs_readonly", "dynamic_counter", 3),
            ("C.x.f.setattrs_readonly", "dynamic_growth_steps", 9),
        )
    ),
    *(
        differs("C.f.ctor_errors", path, recorded, ours, UNCHECKED)
        for path, recorded, ours in (
            ("dynamic_int", [128, None], error("TypeError")),
            ("dynamic_str", ["dynamic", None], error("TypeError")),
            ("fixed_no_scale", [False, None], error("ValueError")),
            ("loss_scale_kw", error("ValueError"), error("TypeError")),
            ("not_opt", error("AttributeError"), error("TypeError")),
            ("v1_opt", [32768.0, None], error("TypeError")),
            ("wrap_twice", [32768.0, None], error("ValueError")),
            ("wrap_wrapped", [32768.0, None], error("TypeError")),
        )
    ),
    differs("C.f.ctor_errors", "fixed_half", error("ValueError"), [0.5, None], FIXED),
    *(
        differs("C.f.clip_on_wrapper", path, recorded, ours, CLIPPING)
        for attribute, clipped_u, clipped_v in (
            ("clipnorm", 2.5, [0.7, 1.6]),
            ("global_clipnorm", 2.5384614, [0.88461536, 1.8461539]),
        )
        for path, recorded, ours in (
            (f"{attribute}/inner|wrapper", None, 1.0),
            (f"{attribute}/wrapper|inner", None, 1.0),
            (f"{attribute}/wrapper|u", -3.0, clipped_u),
            (f"{attribute}/wrapper|v", [-0.5, 0.0], clipped_v),
        )
    ),
    differs(
        "C.f.sparse_apply",
        "finite_nods",
        error("ValueError"),
        [[[1.0, 2.0], [2.5, 3.5], [5.0, 6.0]], 8.0, 1, 1],
        SPARSE,
    ),
    differs(
        "C.f.sparse_apply",
        "inf_nods",
        error("ValueError"),
        [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], 4.0, 0, 0],
        SPARSE,
    ),
    *(
        differs("C.f.iterations", path, error("AttributeError"), None, "As in Keras 2; the counter takes the value.")
        for path in ("set_before", "set_after")
    ),
    *(
        differs(
            "C.f.apply_return",
            f"{step}|1",
            0,
            1,
            "The iterations that apply_gradients returned were the wrapper's own, which stay at 0.",
        )
        for step in range(2)
    ),
    *(
        differs(
            case,
            "serialize|serialized|registered_name",
            None,
            "LossScaleOptimizer",
            "Where mpls is loaded, its wrapper is what a file loads as; where it is not, Keras' own is.",
        )
        for case in ("C.f.config_dynamic", "C.f.config_default")
    ),
    *(
        row
        for kind, scale in (("23_dynamic", 64.0), ("23_fixed", 32.0), ("24_dynamic", 64.0), ("24_fixed", 32.0))
        for recorded in (error("KeyError" if kind.startswith("23") else "TypeError"),)
        for row in (
            # They name a legacy optimizer, which the public class wraps again.
            differs(f"C.f.from_config_{kind}", "public", recorded, None, OTHER_CONFIGS, "tf21:lso2 at concrete"),
            differs(
                f"C.f.from_config_{kind}",
                "concrete",
                recorded,
                {"type": "LossScaleOptimizer", "inner": "SGD", "scale": scale},
                OTHER_CONFIGS,
            ),
        )
    ),
    *(
        differs(case, path, error("KeyError"), error("ValueError"), "Refused for what is wrong with it.")
        for case in ("C.f.from_config_23_multiplier", "C.x.f.from_config_custom_scale")
        for path in ("public", "concrete")
    ),
    differs(
        "C.f.weights_momentum",
        "before|variables",
        ["loss_scale_optimizer/iteration", "loss_scale_optimizer/learning_rate", "sgd/iteration", "sgd/learning_rate"],
        [
            "loss_scale_optimizer/iteration",
            "loss_scale_optimizer/learning_rate",
            "loss_scale_optimizer/step_counter",
            "loss_scale_optimizer/dynamic_scale",
            "sgd/iteration",
            "sgd/learning_rate",
        ],
        "The state of the scale is there from the start, so that it can be read and an unbuilt optimizer be used.",
    ),
    differs(
        "C.f.weights_momentum",
        "before|values",
        [0, 0.0, 0, 0.5],
        [0, 0.0, 0, 8.0, 0, 0.5],
        "The state of the scale is there from the start.",
    ),
)

# Errors of the recording script, which read a string as a number.
NOT_THE_WRAPPERS = {("C.x.f.setattrs_readonly", "_name='x'")}
FACT_CASES = [case_id for case_id in RECORDED if case_id in SPECS["C_keras_facts"]]


def result_of(case_id: str, subject: Keras3Subject) -> Any:
    spec = SPECS["C_keras_facts"][case_id]["spec"]
    return without_numbers(attempt(lambda: FACTS[spec["fact"]](subject, spec.get("args", {}))))


def expected_of(case_id: str) -> Any:
    return without_numbers(copy.deepcopy(recorded_as(RECORDED[case_id], RELEASE)))


def is_under(path: str, parent: str) -> bool:
    return f"{path}|".startswith(f"{parent}|")


def is_ours(actual: Any, difference: Difference) -> bool:
    """Return whether a result is what the table says; of a dict, the entries that the table names."""
    ours = difference.ours
    if difference.follows:
        run, _, path = difference.follows.partition(" at ")
        ours = without_numbers(at(recorded_as(SPECS["C_keras_facts"][difference.case], run), path))
    if isinstance(ours, dict) and isinstance(actual, dict) and not replay.is_error(ours):
        actual = {key: actual.get(key) for key in ours}
    return not mismatches(actual, ours)


class RecordedFactsTest(unittest.TestCase):
    @parameterized.expand([(case_id,) for case_id in FACT_CASES], name_func=named)
    def test_it_is_as_recorded_or_as_the_table_says(self, case_id: str) -> None:
        expected, actual = expected_of(case_id), result_of(case_id, OURS[0])
        rows = [difference for difference in FACT_DIFFERENCES if difference.case == case_id]
        found = mismatches(actual, expected)
        unexpected = {
            path: text
            for path, text in found.items()
            if (case_id, path) not in NOT_THE_WRAPPERS and not any(is_under(path, row.path) for row in rows)
        }
        assert not unexpected, unexpected
        for row in rows:
            assert same_record(at(expected, row.path), row.recorded), f"{row.path} was {at(expected, row.path)}"
            assert any(is_under(path, row.path) for path in found), f"{row.path} is as recorded"
            assert is_ours(at(actual, row.path), row), f"{row.path} is {at(actual, row.path)}"

    @parameterized.expand(
        [
            (case_id,)
            for case_id, case in SPECS["C_keras_facts"].items()
            if case["spec"]["fact"] in ("scaled_loss", "unscaled")
        ],
        name_func=named,
    )
    def test_methods_of_older_code_do_as_over_tf_keras_optimizers(self, case_id: str) -> None:
        case = SPECS["C_keras_facts"][case_id]
        actual = attempt(lambda: FACTS_OF_OLDER_CODE[case["spec"]["fact"]](OURS[1], case["spec"].get("args", {})))
        rows = {row.path: row for row in DIFFERENCES if row.case == case_id and "keras_new" in row.subjects}
        found = mismatches(actual, recorded_as(case, "tf21:lso3"))
        assert set(found) == set(rows), found
        for path, row in rows.items():
            assert not mismatches(at(actual, path), row.ours)

    def test_the_scale_of_a_callable_is_that_of_its_call(self) -> None:
        expected = recorded_as(SPECS["C_keras_facts"]["C.f.scaled_loss_late"], "tf21:lso3")
        _, optimizer = make(OURS[1], {})
        scaled = optimizer.get_scaled_loss(lambda: tf.constant(3.0))
        (grad,) = optimizer.get_unscaled_gradients([tf.constant(NAN)])
        optimizer.apply_gradients([(grad, tf.Variable(1.0))])
        assert not mismatches([optimizer.loss_scale.numpy(), describe(scaled())], expected)


class CompletenessTest(unittest.TestCase):
    def test_every_recorded_case_has_a_replay(self) -> None:
        replayed = {case_id for case_id, _ in TRACES} | {case_id for (case_id,) in FITS} | {*FACT_CASES}
        assert replayed == set(RECORDED)
        assert {SPECS["C_keras_facts"][case_id]["spec"]["fact"] for case_id in FACT_CASES} <= set(FACTS)
        assert {mode for _, mode in TRACES} == set(MODES) - {"graph"}
