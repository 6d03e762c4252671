"""Makes the loaders of tf_keras and Keras 3 return wrappers of mpls for what mpls has written.

A file names the class of the native wrapper, so that it loads without mpls. A mark in the wrapper's config, which every
Keras ignores, tells that mpls has written it. Other configs are loaded as without mpls; but those of tf_keras become
wrappers of mpls while `mpls.install` is in force.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from mpls.core import releases
from mpls.flags import Flag
from mpls.importing.hooks import are_names_back
from mpls.importing.post_import import call_off, when_loaded
from mpls.keras.caller import who_calls
from mpls.keras.state_in_files import is_marked
from mpls.patches import ABSENT, Layer
from mpls.upstream import table
from mpls.upstream.table import Private

__all__ = ["reading_all_as_ours", "recognise_own_files", "recognise_while_installed"]

_reads_all = Flag("_reads_all")


# The reasons for which the loaders are patched now; each block of `reading_all_as_ours` is one of its own.
_USE, _INSTALL = "a wrapper was made", "mpls.install is in force"
_reasons: set[object] = set()
_layers: list[Layer] = []
_lock = threading.RLock()
_ROWS = (((table.WRAPPERS, table.WRAPPERS_OVER_NEW), True), ((table.NATIVE_3,), False))


def recognise_own_files() -> None:
    """Make `from_config` of the native wrappers return wrappers of mpls for marked configs, until the process ends.

    Called when a wrapper is made, since an import of mpls changes nothing. A Keras that is loaded later is patched,
    too.
    """
    if _USE not in _reasons:
        _patch_for(_USE)


def recognise_while_installed(is_installed: bool) -> None:
    """Patch the loaders for `install`; with False, for `uninstall`, restore them unless another reason is left."""
    if is_installed:
        _patch_for(_INSTALL)
    else:
        _let_go(_INSTALL)


def _patch_for(reason: object) -> None:
    with _lock:
        if not _reasons:
            for rows, takes_all in _ROWS:
                when_loaded(rows[0].owner, functools.partial(_patch, rows, takes_all))
        _reasons.add(reason)


def _let_go(reason: object) -> None:
    with _lock:
        _reasons.discard(reason)
        if _reasons:
            return
        for rows, _ in _ROWS:
            call_off(rows[0].owner)
        while _layers:
            _layers.pop().take_away()


@contextmanager
def reading_all_as_ours() -> Iterator[None]:
    """Make `from_config` return wrappers of mpls in a block, in this thread, also for unmarked configs of tf_keras.

    A process that resumes has made no wrapper yet. A native wrapper would lack the state that only mpls has.
    """
    reason = object()
    _patch_for(reason)
    try:
        with _reads_all.raised():
            yield
    finally:
        _let_go(reason)


def _patch(rows: tuple[Private, ...], takes_all: bool, module: ModuleType) -> None:
    # A library may have put a function in the place of a class; what that makes, mpls cannot know.
    for owner in [each for each in (row.of(module) for row in rows) if isinstance(each, type)]:
        _layers.append(Layer(owner, "from_config", functools.partial(_reader, owner, takes_all)))


def _reader(owner: Any, takes_all: bool, layer: Layer) -> Any:
    original = layer.original

    def original_of(cls: Any) -> Any:
        if original is ABSENT:
            # A library has put a subclass in the place of the class.
            return super(owner, cls).from_config
        return original.__get__(None, cls) if hasattr(type(original), "__get__") else original

    found = original_of(owner)

    # Keras inspects the signature for `custom_objects`.
    @functools.wraps(getattr(found, "__func__", found))
    def from_config(cls: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
        # While mpls.install is in force, programs expect the methods of mpls on what they load.
        means_ours = takes_all and (_reads_all.is_raised or (are_names_back() and who_calls().is_keras))
        if layer.is_on and cls is owner and (means_ours or is_marked(config)):
            return _wrapper_class().from_config(config, *args, **kwargs)
        return original_of(cls)(config, *args, **kwargs)

    return classmethod(from_config)


def _wrapper_class() -> Any:
    """Return the public class: the experimental one where a release is asked for that had no other."""
    if releases.current().has_loss_scale_objects:
        from mpls.experimental.optimizer import LossScaleOptimizer as Experimental

        return Experimental
    from mpls.keras.base import LossScaleOptimizer

    return LossScaleOptimizer
