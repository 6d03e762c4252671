"""tf_keras' own wrapper, which `compile` makes under `mixed_float16`: saved with its state, and loaded.

tf_keras (2.16 to 2.21) writes the loss scale and its counter into SavedModels only. Where it reads a `.keras` file, it
raises an AttributeError if the wrapper has another number of variables, as in the file of a model that was not trained.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from mpls.formats.wrapper_state import STATE_IN_CONFIGS, STATE_KEY, inner_key
from mpls.patches import ABSENT, Layer
from mpls.upstream.keras_packages import native_wrappers_of_tf_keras, replace_optimizer, wrapper_classes_of_tf_keras


@contextmanager
def native_state_written(model: Any) -> Iterator[None]:
    """Add the state of tf_keras' own wrapper, which tf_keras does not save, to the optimizer's config in a block.

    The config gets the mark of mpls, with the current loss scale and its counter. Keras 3 saves them as variables. From
    here on, the settings of `compile` have the optimizer in place of the argument that `compile` was given.
    """
    wrapper: Any = getattr(model, "optimizer", None)
    if not _is_of_tf_keras(wrapper) or not tf.executing_eagerly():
        yield
        return
    config, state = wrapper.get_config(), None
    if wrapper.dynamic:
        values = float(wrapper.loss_scale), int(wrapper.dynamic_counter)
        state = dict(zip(STATE_IN_CONFIGS, values, strict=True))
    key = inner_key(config)
    config[key] = {**config[key], STATE_KEY: state}
    replace_optimizer(model, wrapper)
    # Past the `__setattr__` of optimizers, which takes other attributes for settings.
    object.__setattr__(wrapper, "get_config", lambda: config)
    try:
        yield
    finally:
        object.__delattr__(wrapper, "get_config")


def _is_of_tf_keras(optimizer: Any) -> bool:
    # A user's subclass has a config of its own.
    return (
        isinstance(optimizer, native_wrappers_of_tf_keras())
        and type(optimizer).__module__.partition(".")[0] == "tf_keras"
    )


@contextmanager
def native_wrappers_loadable() -> Iterator[None]:
    """Have tf_keras' own wrapper read variables of a `.keras` file in a block as the optimizer that it wraps does."""
    owners = wrapper_classes_of_tf_keras()
    layers = [Layer(each, "load_own_variables", functools.partial(_reading_by_inner, each)) for each in owners]
    try:
        yield
    finally:
        for layer in layers:
            layer.take_away()


def _reading_by_inner(owner: Any, layer: Layer) -> Any:
    def load_own_variables(self: Any, store: Any) -> None:
        if layer.is_on:
            self.inner_optimizer.load_own_variables(store)
        elif layer.original is ABSENT:
            super(owner, self).load_own_variables(store)
        else:
            layer.original(self, store)

    return load_own_variables
