"""What mpls has written comes back as its wrappers, by the loaders of tf_keras and Keras 3 too.

A file names the class of the native wrapper, so that it loads where mpls is not. What tells one that mpls has written
is the mark in the wrapper's config, which every Keras ignores. Without it, all is as where mpls is not.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from importlib import import_module
from types import ModuleType
from typing import Any

from mpls.core import releases
from mpls.flags import Flag
from mpls.importing.finding import when_loaded
from mpls.importing.hooks import are_names_back
from mpls.keras.callers import is_called_by_keras
from mpls.keras.state_in_files import is_marked
from mpls.patches import Layer
from mpls.upstream import NATIVE_WRAPPERS_OF_KERAS, NATIVE_WRAPPERS_OF_TF_KERAS

__all__ = ["reading_all_as_ours", "recognise_own_files"]

_reads_all = Flag("_reads_all")


def recognise_own_files() -> None:
    """Have the native wrappers' `from_config` give wrappers of mpls for what mpls has written, once they are loaded."""
    for (module, names), takes_all in ((NATIVE_WRAPPERS_OF_TF_KERAS, True), (NATIVE_WRAPPERS_OF_KERAS, False)):
        when_loaded(module, functools.partial(_patch, names, takes_all))


def reading_all_as_ours() -> AbstractContextManager[None]:
    """Have the wrappers that tf_keras itself has written come back as wrappers of mpls in a block, of this thread."""
    return _reads_all.raised()


def _patch(names: tuple[str, ...], takes_all: bool, module: ModuleType) -> None:
    for name in names:
        owner = getattr(module, name)
        Layer(owner, "from_config", functools.partial(_reader, owner, takes_all))


def _reader(owner: Any, takes_all: bool, layer: Layer) -> Any:
    # Keras looks for the name of the second argument.
    @functools.wraps(layer.original.__func__)
    def from_config(cls: Any, config: Any, custom_objects: Any = None) -> Any:
        # Where old names mean mpls, programs go on to call what mpls has, on what they load.
        means_ours = takes_all and (_reads_all.is_raised or (are_names_back() and is_called_by_keras()))
        if cls is owner and (means_ours or is_marked(config)):
            return _wrapper_class().from_config(config, custom_objects)
        return layer.original.__get__(None, cls)(config, custom_objects)

    return classmethod(from_config)


def _wrapper_class() -> Any:
    """Return the public class: the experimental one where a release is asked for that had no other."""
    package = "mpls.experimental" if releases.current().has_loss_scale_objects else "mpls.keras"
    return import_module(package).LossScaleOptimizer
