"""Recorded doings of Keras 3's own wrapper: traces, fits and facts, replayed with that of mpls.

Where mpls does something else on purpose, a row of a table says what and why.
"""

from __future__ import annotations

import copy
import unittest
from typing import Any

import keras
import numpy as np
import pytest
from parameterized import parameterized

import mpls.keras
import mpls.v1

from . import replay
from .keras_replay import CLIPPING, Difference, Keras3Subject, error, plain_path, spread_of
from .test_keras_facts import FACTS, assert_as_recorded, attempt
from .test_keras_fit import assert_fit, fit
from .test_keras_traces import assert_states, states_of, trace_of

RECORDED = replay.load("C_keras3")
SPECS = {name: replay.load(name) for name in ("C_keras_lso", "C_fit", "C_keras_facts")}
RELEASE = "tf21:k3"
# The last release whose wrapper left iterations alone on a skipped step.
RIGHT = "tf22:exp"

NATIVE = Keras3Subject("native", "keras3", RELEASE)
OURS = Keras3Subject("keras", "keras3", RELEASE)

pytestmark = [
    # Variables without gradients, configs with a decay of 0, and gradients of an unscaled loss are part of the record.
    pytest.mark.filterwarnings("ignore:Gradients do not exist for variables:UserWarning"),
    pytest.mark.filterwarnings("ignore:Argument `decay` is no longer supported:UserWarning"),
    pytest.mark.filterwarnings("ignore::mpls.errors.MplsWarning"),
]


# Traces in which mpls does as that release. Keras 3 has no fixed scale. Its scale can fall to 0, and never grows if the
# period is 0. It looks at the gradients of the first replica only: an infinity on the other went into the weights.
AS_EARLIER = (
    "C.sgd.fixed",
    "C.sgd.fixed_nan_goes_through",
    "C.strategy.sgd_fixed",
    "C.x.strategy.sgd_fixed_nan",
    "C.sgd.floor",
    "C.x.sgd.init_half",
    "C.x.sgd.growth0",
    "C.strategy.sgd",
)


def runs_of(case_id: str) -> list[str]:
    """Return the modes in which a case was recorded."""
    runs = [run for outcome in RECORDED[case_id]["outcomes"] for run in outcome["runs"]]
    return [run.removeprefix(f"{RELEASE}:") for run in runs if run.startswith(RELEASE)]


TRACES = [(case_id, mode) for case_id in RECORDED if case_id in SPECS["C_keras_lso"] for mode in runs_of(case_id)]


def is_untracked(name: str) -> bool:
    """Return whether Keras' wrapper keeps the wrapped optimizer from tracking the variable, and so from saving it.

    Nadam multiplies its momentums up in one of its own; mpls leaves it with the others, as it is without a wrapper.
    """
    return name.endswith("nadam/variable")


class RecordedTracesTest(unittest.TestCase):
    @replay.expand(TRACES)
    @pytest.mark.default_run("each value", by=lambda case_id, mode: (case_id.split(".")[1], mode))
    def test_it_does_as_recorded(self, case_id: str, mode: str) -> None:
        release = RIGHT if case_id in AS_EARLIER else RELEASE
        case, run, trace = RECORDED[case_id], f"{release}:{mode}", trace_of(case_id, OURS, mode)
        expected = replay.recorded_as(case, run)
        # Scale and counters exactly, variables and slots to some last bits.
        rtol = 0.0 if replay.is_error(expected) else 1e-6 + spread_of(case, run)
        assert_states(states_of(trace), expected, rtol, ulps=2)
        if replay.is_error(expected):
            return
        slots, meta = replay.recorded_as(case, run, "outcomes_slots"), replay.recorded_as(case, run, "metas")
        if slots is not None and release == RELEASE:
            # The same by their order: the wrapped optimizer of the record had another number in its name.
            for index, (state, want) in enumerate(zip(trace.slots or (), slots, strict=True)):
                same_names = {plain_path(key): value for key, value in want.items()}
                known = {key: value for key, value in state.items() if not is_untracked(key)}
                spread = spread_of(case, run, "outcomes_slots")
                replay.assert_close(known, same_names, f"slots of step {index}: ", 1e-6 + spread, ulps=2)
        if meta is not None:
            names = [name for name in trace.meta["variables"] if not is_untracked(name)]
            assert names == [plain_path(name) for name in meta["variables"]]
            assert trace.meta["grads"] == meta["grads"]

    @parameterized.expand(
        [entry for entry in TRACES if entry[1].endswith("eager") and entry[0] not in AS_EARLIER], name_func=replay.named
    )
    @pytest.mark.default_run("each value", by=lambda case_id, mode: (case_id.split(".")[1], mode))
    def test_bits_are_those_of_keras_own_wrapper(self, case_id: str, mode: str) -> None:
        ours, theirs = trace_of(case_id, OURS, mode), trace_of(case_id, NATIVE, mode)
        if replay.is_error(theirs):
            assert ours["error"] == theirs["error"]
            return
        np.testing.assert_equal(ours.states, theirs.states)
        for mine, yours in zip(ours.slots or (), theirs.slots or (), strict=True):
            np.testing.assert_equal({key: value for key, value in mine.items() if not is_untracked(key)}, yours)


FITS = [(case_id,) for case_id in RECORDED if case_id in SPECS["C_fit"]]
# In the matrix, and one of the others.
FEW = ("C.fit.jit", "C.fit.strategy", "C.fit.bad_batch", "C.fit.auto_wrap")
REPLICA_1, TOO_BIG = "C.fit.strategy_bad_batch_replica1", "C.x.fit.sgd_float32_big"


class RecordedFitsTest(unittest.TestCase):
    @parameterized.expand([entry for entry in FITS if entry[0] not in (REPLICA_1, TOO_BIG)], name_func=replay.named)
    @pytest.mark.default_run("one case", by=lambda case_id: (case_id if case_id in FEW else "",))
    def test_it_trains_as_recorded(self, case_id: str) -> None:
        expected = replay.recorded_as(RECORDED[case_id], RELEASE)
        if replay.is_error(expected):
            # Keras adds a float16 activity loss to a float32 one, whatever the optimizer.
            for is_scaled in (True, False):
                with pytest.raises(TypeError, match="float16"):
                    fit(case_id, OURS, is_scaled)
            return
        result, model = fit(case_id, OURS)
        assert_fit(result, expected)
        assert mpls.keras.LossScaleOptimizer in type(model.optimizer).__mro__
        assert not isinstance(model.optimizer.inner_optimizer, keras.optimizers.LossScaleOptimizer)


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


FACT_DIFFERENCES: tuple[Difference, ...] = (
    # Until it is built, Keras' wrapper multiplies a loss by a Python number, in the dtype of the loss, in which it can
    # overflow, and from then on by a float32 variable; mpls by a float32 number from the start.
    Difference("C.f.scaled_loss", "f16|d", "float32"),
    Difference("C.f.scaled_loss", "bf16|d", "float32"),
    Difference("C.f.scaled_loss", "int|d", "float32"),
    Difference("C.f.scaled_loss", "f16_overflow", {"d": "float32", "v": 160000.0}),
    Difference("C.f.scaled_loss_default", "f16|d", "float32"),
    Difference("C.f.scaled_loss_default", "f16_over", {"d": "float32", "v": 81920.0}),
    Difference("C.x.f.scaled_loss_f16_scale_overflow", "f16", {"d": "float32", "v": 131.125}),
    # The members that wrappers over optimizers of tf_keras have are there over those of Keras 3, too.
    Difference("C.f.attrs", "dynamic", {"py": "bool", "v": True}),
    Difference("C.f.attrs", "dynamic_counter", {"d": "int64", "v": 0}),
    Difference("C.f.attrs", "initial_scale|py", "float"),
    Difference("C.f.attrs", "loss_scale", {"d": "float32", "v": 8.0}),
    Difference("C.f.attrs", "lr", {"d": "float32", "v": 0.5}),
    Difference("C.f.attrs_adam", "lr", {"d": "float32", "v": 0.1}),
    Difference("C.f.dir", "loss_scale", [True, True]),
    Difference("C.f.dir", "lr", [True, True]),
    Difference("C.f.setattrs", "lr=0.25|0", {"d": "float32", "v": 0.25}),
    # A hyperparameter that was set on the wrapper was lost without a word; it is the wrapped one's, as over legacy
    # optimizers, and is read where it is set.
    Difference("C.f.attrs_adam", "beta_1", {"py": "float", "v": 0.7}),
    Difference("C.f.attrs_adam", "beta_2", {"py": "float", "v": 0.999}),
    Difference("C.f.dir", "momentum", [True, True]),
    Difference("C.f.setattrs", "momentum=0.5|1|v", 0.5),
    Difference("C.f.setattrs", "inner_config|momentum", 0.5),
    # So was a clip attribute.
    *(Difference("C.f.clip_on_wrapper", path, ours) for path, ours in CLIPPING.items()),
    # Setting what is not a hyperparameter of the wrapper made an attribute that nothing reads.
    *(
        Difference(case, path, error("AttributeError"))
        for case, path in (
            ("C.f.setattrs_readonly", "dynamic=False"),
            ("C.f.setattrs_readonly", "initial_scale=2.0"),
            ("C.f.setattrs_readonly", "inner_optimizer=1"),
            ("C.f.setattrs_readonly", "loss_scale=4.0"),
            ("C.x.f.setattrs_readonly", "dynamic_counter=3"),
            ("C.x.f.setattrs_readonly", "dynamic_growth_steps=9"),
        )
    ),
    # An error of the recording script, which read the string as a number.
    Difference("C.x.f.setattrs_readonly", "_name='x'", [{"py": "str", "v": "x"}, error("AttributeError")]),
    # Sparse gradients without a dense shape failed where they were made dense in order to test them.
    Difference("C.f.sparse_apply", "finite_nods", [[[1.0, 2.0], [2.5, 3.5], [5.0, 6.0]], 8.0, 1, 1]),
    Difference("C.f.sparse_apply", "inf_nods", [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], 4.0, 0, 0]),
    # As in Keras 2, the counter takes the value.
    Difference("C.f.iterations", "set_before", 7),
    Difference("C.f.iterations", "set_after", 7),
    # The iterations that apply_gradients returned were the wrapper's own, which stay at 0.
    Difference("C.f.apply_return", "0|1", 1),
    Difference("C.f.apply_return", "1|1", 1),
    # Where mpls is loaded, its wrapper is what a file loads as; where it is not, Keras' own is.
    Difference("C.f.config_dynamic", "serialize|serialized|registered_name", "LossScaleOptimizer"),
    Difference("C.f.config_default", "serialize|serialized|registered_name", "LossScaleOptimizer"),
    # The state of the scale is there from the start, so that it can be read and an unbuilt optimizer be used.
    Difference(
        "C.f.weights_momentum",
        "before|variables",
        [
            *(
                f"loss_scale_optimizer/{name}"
                for name in ("iteration", "learning_rate", "step_counter", "dynamic_scale")
            ),
            "sgd/iteration",
            "sgd/learning_rate",
        ],
    ),
    Difference("C.f.weights_momentum", "before|values", [0, 0.0, 0, 8.0, 0, 0.5]),
)

FACT_CASES = [
    case_id for case_id, case in SPECS["C_keras_facts"].items() if case_id in RECORDED and case["spec"]["fact"] in FACTS
]


def result_of(case_id: str, subject: Keras3Subject) -> Any:
    spec = SPECS["C_keras_facts"][case_id]["spec"]
    return without_numbers(attempt(lambda: FACTS[spec["fact"]](subject, spec.get("args", {}))))


def expected_of(case_id: str) -> Any:
    return without_numbers(copy.deepcopy(replay.recorded_as(RECORDED[case_id], RELEASE)))


class RecordedFactsTest(unittest.TestCase):
    @parameterized.expand([(case_id,) for case_id in FACT_CASES], name_func=replay.named)
    def test_it_is_as_recorded_or_as_the_table_says(self, case_id: str) -> None:
        declared = {row.path: row.ours for row in FACT_DIFFERENCES if row.case == case_id}
        assert_as_recorded(result_of(case_id, OURS), expected_of(case_id), declared)
