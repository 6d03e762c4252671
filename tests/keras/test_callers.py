"""Answers of a wrapper depend on who calls; through a subclass of a user that calls `super()`, they are the same."""

from __future__ import annotations

import copy
import functools
import inspect
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import keras
import pytest
import tf_keras

import mpls.keras
from mpls.errors import MplsWarning
from mpls.formats.wrapper_state import STATE_KEY

FAMILIES = {
    "legacy": (tf_keras.optimizers.legacy, tf_keras.optimizers.serialize),
    "new": (tf_keras.optimizers, tf_keras.optimizers.serialize),
    "keras3": (keras.optimizers, keras.saving.serialize_keras_object),
}
Base: Any = mpls.keras.LossScaleOptimizer


class Plain(Base):
    """Overrides nothing."""


class Calling(Base):
    def get_config(self) -> dict[str, Any]:
        return super().get_config()


class Copying(Calling):
    def get_config(self) -> dict[str, Any]:
        return {**copy.copy(super().get_config())}


def decorated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def calling(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return calling


class Decorated(Base):
    @decorated
    def get_config(self) -> dict[str, Any]:
        return super().get_config()


def config_of(optimizer: Any) -> Any:
    return Base.get_config(optimizer)


class HandingOn(Base):
    def get_config(self) -> dict[str, Any]:
        return config_of(self)


class ByHelper(Base):
    def get_config(self) -> dict[str, Any]:
        return self._settings_of_mine()

    def _settings_of_mine(self) -> dict[str, Any]:
        return next(dict(super(ByHelper, self).get_config()) for _ in range(1))


class Mixin:
    def get_config(self) -> dict[str, Any]:
        return super().get_config()  # type: ignore[misc, no-any-return]


class Mixed(Mixin, Base):
    """The mixin goes first."""


CLASSES = (Base, Plain, Calling, Copying, Decorated, HandingOn, ByHelper, Mixed)


def has_mark(config: Any) -> bool:
    return STATE_KEY in config["inner_optimizer"]


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_keras_and_users_are_told_apart(family: str, cls: Any, tmp_path: pathlib.Path) -> None:
    optimizers, serialize = FAMILIES[family]
    optimizer = cls(optimizers.SGD(0.5))
    assert not has_mark(optimizer.get_config())
    assert has_mark(serialize(optimizer)["config"])
    framework = keras if family == "keras3" else tf_keras
    model = framework.Sequential([framework.Input([1]), framework.layers.Dense(1)])
    model.compile(optimizer, "mse")
    assert not has_mark(model.optimizer.get_config())
    assert has_mark(model.get_compile_config()["optimizer"]["config"])


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_constructor_that_runs_sets_attributes_of_its_own(family: str, cls: Any) -> None:
    class Setting(cls):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.nesterov = "its own"
            self.set_elsewhere()

        def set_elsewhere(self) -> None:
            self.weight_decay_of_mine = 1

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer = Setting(FAMILIES[family][0].SGD(0.5, nesterov=False, momentum=0.5))
    assert not [each for each in caught if issubclass(each.category, MplsWarning)]
    assert (optimizer.nesterov, optimizer.inner_optimizer.nesterov) == ("its own", False)
    assert not any("constructed" in name for name in vars(optimizer))
    optimizer.momentum = 0.25
    assert optimizer.inner_optimizer.get_config()["momentum"] == 0.25


def test_tools_see_the_constructor() -> None:
    assert list(inspect.signature(Base).parameters)[:2] == ["inner_optimizer", "dynamic"]
    assert (Base.__module__, Base.__name__) == ("mpls.keras", "LossScaleOptimizer")
