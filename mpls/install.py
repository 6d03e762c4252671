"""`mpls.install`: puts every removed name back at its old place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from mpls.errors import ArgumentTypeError, error_text
from mpls.names import NAMES, Name

__all__ = ["Installation", "install", "installed", "uninstall"]


@dataclass(frozen=True)
class Installation:
    """What `mpls.install` did; as a context manager, it is undone at the end of the block.

    Attributes:
        as_of: the release that wrappers behave as, `"2.2"`; None for the default.
        contrib: whether `tf.contrib.mixed_precision` is back.
        replace_existing: whether names that still work stand for the objects of mpls too.
        names: the historical paths that have been put back, `"tf.keras.mixed_precision.experimental.Policy"` and so on.
    """

    as_of: str | None
    contrib: bool
    replace_existing: bool
    names: tuple[str, ...]
    _before: Installation | None = field(default=None, repr=False, compare=False)

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        before, on_touch = self._before, _state.on_touch
        uninstall()
        if before is not None:
            settings = {"contrib": before.contrib, "replace_existing": before.replace_existing}
            install(before.as_of, **settings, _on_touch=on_touch)


@dataclass
class _State:
    installation: Installation | None = None
    hooks: Any = None
    on_touch: Callable[[Name, tuple[str, int]], None] | None = None
    restore_rewrite: Callable[[], None] | None = None


_state = _State()


def install(
    as_of: str | None = None,
    *,
    contrib: bool = False,
    replace_existing: bool = False,
    _on_touch: Callable[[Name, tuple[str, int]], None] | None = None,
) -> Installation:
    """Put the removed names of TensorFlow's loss-scaling API back: as attributes, and as modules to import.

    Names that still work are left alone, unless asked otherwise. TensorFlow need not be imported yet; if it is not, it
    gets the names when it is. To call it again changes the settings; with the same ones, nothing.

    Args:
        as_of: a TensorFlow release, `"2.2"`: experimental Keras wrappers that are made from now on behave as they did
            there, where releases differ. By default as in the last release that had them.
        contrib: whether to put `tf.contrib.mixed_precision` back too. `tf.contrib` goes on to look absent:
            `hasattr(tf, "contrib")` is False, and nothing else can be imported from it.
        replace_existing: whether names that still work stand for the objects of mpls too.

    Returns:
        What was done. It can be used as a context manager, which puts back what was there before.

    Raises:
        ValueError: there is no such release.
        TypeError: `contrib` or `replace_existing` is no bool.

    Reproduces:
        Nothing; each name reproduces itself. `mpls.names.NAMES` lists them.

    Example:
        >>> import mpls
        >>> with mpls.install(as_of="2.2") as installation:
        ...     from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer
        ...     from tensorflow.keras.mixed_precision import experimental
        >>> LossScaleOptimizer.__module__, len(installation.names) > 50, mpls.installed()
        ('mpls.experimental', True, None)
    """
    from mpls.core import dialect
    from mpls.importing.hooks import Hooks

    for name, value in (("contrib", contrib), ("replace_existing", replace_existing)):
        if not isinstance(value, bool):
            raise ArgumentTypeError(
                error_text(f"install: {name}", "be a bool", value, f"install({name}=True)", "install")
            )
    chosen = dialect.dialect_of(as_of)
    # Which installation was there before that one, it knows itself, if a block waits for its end.
    before = _state.installation and replace(_state.installation, _before=None)
    _on_touch = _on_touch or _state.on_touch
    names = tuple(name.path for name in NAMES if _is_put_back(name, contrib, replace_existing))
    installation = Installation(chosen.release, contrib, replace_existing, names, before)
    if installation == before and _on_touch is _state.on_touch:
        return installation
    uninstall()
    hooks = Hooks(contrib, replace_existing, _on_touch)
    hooks.put_back()
    dialect.speak(chosen)
    _state.installation, _state.hooks, _state.on_touch = installation, hooks, _on_touch
    _state.restore_rewrite = _rewrite_restorer()
    return installation


def uninstall() -> None:
    """Undo `install`: names, modules, the release that wrappers behave as, the graph rewrite's state.

    Objects that code has got meanwhile go on to work. Without an installation, it does nothing.

    Example:
        >>> import mpls
        >>> installation = mpls.install()
        >>> mpls.uninstall()
        >>> mpls.installed() is None
        True
    """
    from mpls.core import dialect

    if _state.hooks is None:
        return
    _state.hooks.take_away()
    dialect.speak(dialect.Dialect())
    if _state.restore_rewrite is not None:
        _state.restore_rewrite()
    _restore_compile()
    _state.installation = _state.hooks = _state.on_touch = _state.restore_rewrite = None


def installed() -> Installation | None:
    """Return what `install` did last; None if nothing is installed."""
    return _state.installation


def _is_put_back(name: Name, contrib: bool, replace_existing: bool) -> bool:
    if name.is_contrib and not contrib:
        return False
    is_replaced = replace_existing and name.replacement != "" and not name.needs_keras_3
    return name.last is not None or is_replaced


def _rewrite_restorer() -> Callable[[], None]:
    before = _rewrite_state()

    def restore() -> None:
        if _rewrite_state() != before:
            from mpls.upstream import is_graph_rewrite_set_by_mpls, restore_graph_rewrite

            # The program may have set it by TensorFlow's own means.
            if is_graph_rewrite_set_by_mpls():
                restore_graph_rewrite(before)

    return restore


def _rewrite_state() -> tuple[bool, bool | None]:
    if "tensorflow" not in sys.modules:
        return False, None
    from mpls.upstream import graph_rewrite_state

    return graph_rewrite_state()


def _restore_compile() -> None:
    compiling = sys.modules.get("mpls.experimental.compiling")
    if compiling is not None:
        compiling.restore_compile()
