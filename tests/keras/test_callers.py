"""Answers of a wrapper depend on who calls; through a subclass of a user that calls `super()`, they are the same."""

from __future__ import annotations

import copy
import functools
import json
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import h5py
import pytest
import tf_keras

import mpls.experimental
import mpls.keras
from mpls.formats.wrapper_state import STATE_KEY
from tests.core.behavior import behaving_as
from tests.keras.families import FRAMEWORKS, OPTIMIZERS

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
@pytest.mark.parametrize("family", OPTIMIZERS)
def test_keras_and_users_are_told_apart(family: str, cls: Any, tmp_path: pathlib.Path) -> None:
    framework, optimizer = FRAMEWORKS[family], cls(OPTIMIZERS[family].SGD(0.5))
    assert not has_mark(optimizer.get_config())
    assert has_mark(framework.optimizers.serialize(optimizer)["config"])
    model = framework.Sequential([framework.Input([1]), framework.layers.Dense(1)])
    model.compile(optimizer, "mse")
    assert not has_mark(model.optimizer.get_config())
    assert has_mark(model.get_compile_config()["optimizer"]["config"])


@pytest.mark.parametrize("family", OPTIMIZERS)
def test_what_keras_gets_is_read_as_ours_and_copied_as_a_dict(family: str) -> None:
    optimizer, serialize = Base(OPTIMIZERS[family].SGD(0.5)), FRAMEWORKS[family].optimizers.serialize
    serialized = serialize(optimizer)
    # As Keras asks.
    config = eval("optimizer.get_config()", {"__name__": "tf_keras.asking", "optimizer": optimizer})
    assert has_mark(config)
    for copied in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert (type(copied), copied) == (dict, config)
    if family != "keras3":
        # Keras may have put another optimizer into it.
        config["inner_optimizer"] = serialize(OPTIMIZERS[family].SGD(0.25))
        read = tf_keras.optimizers.deserialize({**serialized, "config": config})
        assert isinstance(read, Base)
        assert float(read.learning_rate) == 0.25


@pytest.mark.parametrize("multiplier", [2.0, 4.0])
def test_growth_steps_that_were_changed_are_in_files(multiplier: float, tmp_path: pathlib.Path) -> None:
    with behaving_as("2.3"):
        scale = mpls.experimental.DynamicLossScale(8, 3, multiplier, adjustable=True)
        optimizer: Any = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(0.5), scale)
        optimizer.configure(growth_steps=5)
        model = tf_keras.Sequential([tf_keras.Input([1]), tf_keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        model.save(tmp_path / "model.h5")
        with h5py.File(tmp_path / "model.h5") as file:
            config = json.loads(file.attrs["training_config"])["optimizer_config"]["config"]
        written = (
            config["loss_scale"]["config"]["increment_period"] if multiplier == 4 else config["dynamic_growth_steps"]
        )
        assert written == 5
        read = mpls.keras.load_model(tmp_path / "model.h5").optimizer
        assert (int(read.loss_scale.increment_period), float(read.loss_scale.multiplier)) == (5, multiplier)
