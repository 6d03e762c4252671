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


def mark(items: list[pytest.Item], differences: dict[str, str]) -> None:
    """Mark tests as those that must fail."""
    for item in items:
        for pattern, reason in differences.items():
            if re.search(pattern, item.nodeid):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
