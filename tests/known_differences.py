"""Tests that must fail in one of the rows of the version matrix, and why."""

from __future__ import annotations

import re

import pytest

# With TF_USE_LEGACY_KERAS=1, by a pattern of the tests' names.
WITH_KERAS_2 = {
    r"program/test_tables\.py::TablesTest::test_where_a_name_is_\d+_keras_(losses|metrics)_"
    r"(kl_divergence|log_cosh|mean_(absolute|squared)_\w+)$": "tf.keras has this name if it is Keras 2",
    r"install/test_hints\.py::test_each_cause_and_what_looks_alike\[(scaled|lr|legacy|layers|phase|experimental_layers|"
    r"compiled_model|reset_states|generator|workers|save_format|epochs_between|run_function|weights_h5|"
    r"saved|loaded_checkpoint|fixed|dynamic_layer|two_clippings|reduction|metric_of_layer|op_on_input|"
    r"other_argument_of_apply|layers_in_graphs)\]$": "the program fails if tf.keras is Keras 3, and only then",
    r"install/test_install\.py::PutBackTest::test_names_that_work_are_replaced_if_asked$": "it looks for a name "
    "of Keras 3 in tf.keras",
    r"install/test_notebooks\.py::IPythonTest::test_cells$": "a cell fails if tf.keras is Keras 3, and only then",
    r"install/test_install\.py::UndoTest::test_compile_is_as_it_was$": "mpls replaces another method in tf_keras",
}

_STAYS_AT_0 = "`iterations` of its own wrapper stays 0"
_SLOT_NAMES = "its optimizers have other names for these slots"
# With Keras 3.6.
WITH_OLDEST_KERAS = {
    r"artefacts/test_model_files\.py::Keras3Test::test_(a_model_that_compile_had_wrapped_by_itself|h5)_\d": _STAYS_AT_0,
    r"golden/test_keras3_traces\.py::RecordedTracesTest::test_bits_are_those_of_keras_own_wrapper_"
    r"(?!C_x_sgd_clip_both_eager$)": _STAYS_AT_0,
    r"golden/test_keras3_traces\.py::RecordedTracesTest::test_it_does_as_recorded_C_(adagrad|ftrl|nadam)_": _SLOT_NAMES,
    r"golden/test_keras3_traces\.py::RecordedFitsTest::test_it_trains_as_recorded_C_fit_strategy": "its `fit` reports "
    "another loss under a strategy",
    r"golden/test_keras3_traces\.py::RecordedFitsTest::test_it_trains_as_recorded_C_x_fit_activity$": "it raises no "
    "error here",
    r"program/test_tables\.py::TablesTest::test_(no_legacy_optimizer_is_called_so_\d|where_a_name_is_\d+_keras_optimizers)"
    "_Muon$": "it has no such optimizer",
    r"untrusted/test_names\.py::DecidedTest::test_operations$": "it has operations that later releases do not have",
}


def mark(items: list[pytest.Item], differences: dict[str, str]) -> None:
    """Mark tests as those that must fail."""
    for item in items:
        for pattern, reason in differences.items():
            if re.search(pattern, item.nodeid):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
