"""Answers of a wrapper depend on who calls; through a subclass of a user that calls `super()`, they are the same."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import keras
import pytest
import tf_keras

import mpls.keras
from mpls.formats.wrapper_state import STATE_KEY

FAMILIES = {
    "legacy": (tf_keras.optimizers.legacy, tf_keras.optimizers.serialize),
    "new": (tf_keras.optimizers, tf_keras.optimizers.serialize),
    "keras3": (keras.optimizers, keras.saving.serialize_keras_object),
}
Base: Any = mpls.keras.LossScaleOptimizer


class Calling(Base):
    def get_config(self) -> dict[str, Any]:
        return super().get_config()


def decorated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def calling(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return calling


class Decorated(Base):
    @decorated
    def get_config(self) -> dict[str, Any]:
        return super().get_config()


class Mixin:
    def get_config(self) -> dict[str, Any]:
        return super().get_config()  # type: ignore[misc, no-any-return]


class Mixed(Mixin, Base):
    """The mixin goes first."""


CLASSES = (Base, Calling, Decorated, Mixed)


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
