"""The table of members of optimizers and wrappers, beside the classes of tf_keras and Keras 3."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest
import tensorflow as tf

import mpls.keras
from mpls import optimizer_members
from mpls.program.tables import OPTIMIZERS
from tests.keras import families

ALGORITHMS = [name for name in OPTIMIZERS if name[0].isupper() and name != "Optimizer"]
OF_LEGACY = {"legacy", "wrapped legacy"}
OF_ALL = {"legacy", "new", "keras3"}
# Of which objects the names in a group are members, whatever the algorithm.
HOLDERS: dict[str, set[str]] = {
    "SCALING_METHODS": {"wrapped legacy", "wrapped new"},
    "WRAPPER_ATTRIBUTES": {"wrapped legacy", "wrapped new"},
    "HYPERPARAMETERS": {*OF_ALL, "wrapped legacy"},
    "HYPERPARAMETERS_OF_FTRL": {*OF_ALL, "wrapped legacy"},
    "CLIPPING": {*OF_ALL, "wrapped legacy", "wrapped keras3"},
    "HYPERPARAMETER_METHODS": OF_LEGACY,
    "HYPERPARAMETER_SERIALIZERS": {"legacy", "new", "wrapped legacy", "wrapped new"},
    "LEGACY_METHODS": OF_LEGACY,
    "LEGACY_USES": OF_LEGACY,
    "LEGACY_INTERNALS": OF_LEGACY,
    "WEIGHTS": OF_LEGACY,
    "OF_KERAS_2": {"legacy", "new", "wrapped legacy", "wrapped new"},
}
EXCEPTIONS: dict[str, set[str]] = {
    # This one came with the new optimizers.
    "compute_gradients": {"new", "wrapped new"},
    "set_weights": {*OF_ALL, *(f"wrapped {each}" for each in OF_ALL)},
}
CASES = [(group, name) for group in HOLDERS for name in getattr(optimizer_members, group)]


@functools.cache
def optimizers() -> dict[str, list[Any]]:
    """Return optimizers of each algorithm, unwrapped and wrapped by their own Keras, by generation."""
    found: dict[str, list[Any]] = {}
    for generation, module in families.OPTIMIZERS.items():
        found[generation] = [getattr(module, name)() for name in ALGORITHMS]
        found[f"wrapped {generation}"] = [families.NATIVE[generation](each) for each in found[generation]]
    return found


def holders_of(name: str) -> set[str]:
    return {kind for kind, objects in optimizers().items() if any(hasattr(each, name) for each in objects)}


@pytest.mark.parametrize(("group", "name"), CASES)
def test_who_has_a_member(group: str, name: str) -> None:
    assert holders_of(name) == EXCEPTIONS.get(name, HOLDERS[group])


def test_every_group_is_compared() -> None:
    others = {"AGGREGATION_OF_LEGACY", "AGGREGATION_OF_NEW", "ATTRIBUTES_OF_LOSS_SCALES"}
    assert {name for name in vars(optimizer_members) if name.isupper()} == {*HOLDERS, *others}


def test_what_is_said_of_every_algorithm() -> None:
    """Hyperparameters differ by algorithm; the other members do not."""
    for group, name in CASES:
        if group not in ("HYPERPARAMETERS", "HYPERPARAMETERS_OF_FTRL"):
            for kind in holders_of(name):
                assert all(hasattr(each, name) for each in optimizers()[kind]), (name, kind)


def test_all_hyperparameters_of_legacy_optimizers_are_known() -> None:
    found = {name for each in optimizers()["legacy"] for name in each._hyper}
    known = {*optimizer_members.HYPERPARAMETERS, *optimizer_members.HYPERPARAMETERS_OF_FTRL}
    assert found == known | {"learning_rate", "decay"}
    ftrl = optimizers()["legacy"][ALGORITHMS.index("Ftrl")]
    assert set(optimizer_members.HYPERPARAMETERS_OF_FTRL) <= set(ftrl._hyper)


@pytest.mark.parametrize("name", optimizer_members.HYPERPARAMETER_METHODS)
def test_methods_for_hyperparameters_fail_on_the_wrapper(name: str) -> None:
    arguments = {"_set_hyper": ("learning_rate", 1.0), "_get_hyper": ("learning_rate",), "_decayed_lr": (tf.float32,)}
    with pytest.raises(AttributeError):
        getattr(optimizers()["wrapped legacy"][0], name)(*arguments[name])


def test_arguments_for_aggregation() -> None:
    members = optimizer_members
    for name, generation in ((members.AGGREGATION_OF_LEGACY, "legacy"), (members.AGGREGATION_OF_NEW, "new")):
        for kind in optimizers():
            takes = name in inspect.signature(optimizers()[kind][0].apply_gradients).parameters
            assert takes == (kind.removeprefix("wrapped ") == generation), (name, kind)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", optimizer_members.ATTRIBUTES_OF_LOSS_SCALES)
def test_only_loss_scale_objects_have_the_attribute(name: str) -> None:
    assert hasattr(tf.compat.v1.mixed_precision.DynamicLossScale(), name)
    assert not hasattr(tf.constant(1.0), name)


@pytest.mark.parametrize("generation", families.OPTIMIZERS)
def test_wrappers_of_mpls_have_what_replace_existing_is_advised_for(generation: str) -> None:
    opt = mpls.keras.LossScaleOptimizer(families.OPTIMIZERS[generation].Adam())
    names = {*optimizer_members.SCALING_METHODS, *optimizer_members.WRAPPER_ATTRIBUTES, *optimizer_members.WEIGHTS}
    names |= {"lr", "minimize", "beta_1", *optimizer_members.CLIPPING, "_create_all_weights"}
    assert {name for name in names if not hasattr(opt, name)} == set()
