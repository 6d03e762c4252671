"""`mpls.install`: puts every removed name back at its old place."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

from mpls.errors import ArgumentTypeError, error_text
from mpls.hints import Announcer, note, say
from mpls.importing.modes import Modes
from mpls.names import NAMES, Name

__all__ = ["Installation", "install", "installed", "uninstall"]


_OnTouch = Callable[[Name, tuple[str, int]], None]


class _StateBefore:
    """The release that wrappers behaved as, and the graph rewrite, before an installation.

    Attributes:
        replaced: the installation that this one replaced, which the end of a block restores; None if it replaced none.
    """

    def __init__(self) -> None:
        from mpls.core import releases

        self.replaced: Any = None
        self._rewrite = _rewrite_state()
        self._behavior = releases.current()

    def enter_block(self, as_of: str | None) -> None:
        """Make wrappers that this thread or asynchronous task creates in a block behave as a release."""
        from mpls.core import releases

        # `install` has changed the block around this one, as it does where it is to last.
        releases.use_in_block(self._behavior)
        releases.enter_block(self, releases.behavior_of(as_of))

    def leave_block(self) -> None:
        """End that block."""
        from mpls.core import releases

        releases.leave_block(self)

    def restore_rewrite(self) -> None:
        """Restore the graph rewrite, unless the program has set it by TensorFlow's own API."""
        if _rewrite_state() == self._rewrite:
            return
        from mpls.upstream.rewrite import is_graph_rewrite_set_by_mpls, restore_graph_rewrite

        if is_graph_rewrite_set_by_mpls():
            restore_graph_rewrite(self._rewrite)


def _rewrite_state() -> tuple[bool, bool | None]:
    if "tensorflow" not in sys.modules:
        return False, None
    from mpls.upstream.rewrite import graph_rewrite_state

    return graph_rewrite_state()


@dataclass(frozen=True, repr=False)
class Installation:
    """The result of `mpls.install`; as a context manager, it undoes the installation at the end of the block.

    Attributes:
        as_of: the release whose behaviour wrappers have, such as `"2.2"`; None for the default.
        contrib: whether `tf.contrib.mixed_precision` is back.
        replace_existing: whether objects of mpls also replace names that still work.
        v1: whether `import tensorflow` in your own code imports `tensorflow.compat.v1`.
        keras: the generation of Keras that `tf.keras` means, 2 or 3; None if mpls does not choose it.
        legacy_optimizers: whether `tf.keras.optimizers` in your own code has the classes of TF 2.10.
        names: the names that are back, such as `"tf.keras.mixed_precision.experimental.Policy"`.
    """

    as_of: str | None
    contrib: bool
    replace_existing: bool
    v1: bool
    keras: Literal[2, 3] | None
    legacy_optimizers: bool
    names: tuple[str, ...]
    _on_touch: _OnTouch | None = field(default=None, compare=False)
    _state_before: _StateBefore = field(default_factory=_StateBefore, compare=False)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `install` that create an equal installation."""
        arguments = ("as_of", "contrib", "replace_existing", "v1", "keras", "legacy_optimizers")
        return {name: getattr(self, name) for name in arguments}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if value not in (None, False))
        return f"<mpls.install({given}): {len(self.names)} names>"

    def __enter__(self) -> Installation:
        with _state.lock:
            place = _state.place(self)
            if self._state_before.replaced is not None and place is not None:
                _state.stack.insert(place, self._state_before.replaced)
            _state.in_blocks.add(id(self))
            self._state_before.enter_block(self.as_of)
            _settle()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _state.lock:
            leaving = exc if isinstance(exc, Exception) else None
            if leaving is not None and _state.stack:
                note(leaving, _state.stack[-1].settings)
            place = _state.place(self)
            if place is not None:
                del _state.stack[place]
                # Also undo what was installed without a block inside this block.
                while place < len(_state.stack) and _state.lasts(_state.stack[place]):
                    _state.stack.pop(place)._state_before.restore_rewrite()
                self._state_before.restore_rewrite()
            _state.in_blocks.discard(id(self))
            self._state_before.leave_block()
            _settle(is_error_leaving=leaving is not None)


@dataclass
class _State:
    lock: threading.RLock = field(default_factory=threading.RLock)
    # The current installations; the last one decides the names. Blocks of different threads end in any order.
    stack: list[Installation] = field(default_factory=list)
    # The ids of installations that belong to a `with` block, which keeps them alive.
    in_blocks: set[int] = field(default_factory=set)
    hooks: Any = None
    hooked_for: tuple[Any, ...] | None = None
    announcer: Announcer = field(default_factory=lambda: Announcer(lambda error: _say(error)))
    # Whether `mpls run` runs this process, so that hints name its options.
    is_run: bool = False
    modes: Modes = field(default_factory=Modes)

    def place(self, installation: Installation) -> int | None:
        return next((place for place, each in enumerate(self.stack) if each is installation), None)

    def lasts(self, installation: Installation) -> bool:
        return id(installation) not in self.in_blocks


_state = _State()


def install(
    as_of: str | None = None,
    *,
    contrib: bool = False,
    replace_existing: bool = False,
    v1: bool = False,
    keras: Literal[2, 3] | None = None,
    legacy_optimizers: bool = False,
    _on_touch: _OnTouch | None = None,
) -> Installation:
    """Put the removed names of TensorFlow's loss-scaling API back, as attributes and as modules to import.

    Examples:
        >>> import mpls
        >>> with mpls.install(as_of="2.2") as installation:
        ...     from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer
        ...     from tensorflow.keras.mixed_precision import experimental
        >>> LossScaleOptimizer.__module__, len(installation.names) > 50, mpls.installed()
        ('mpls.experimental', True, None)

    Names that still work do not change, unless `replace_existing` is set. You can call `install` before or after
    `import tensorflow`. A second call changes the settings. If the program runs with `mpls run`, settings that the call
    leaves out keep the values of `mpls run`.

    An installation is valid for the process. In a `with` block, it is valid until the block ends. There, `as_of` is
    valid only for the thread or asynchronous task of the block.

    Args:
        as_of: a TensorFlow release as a string, such as `"2.2"`. Keras wrappers that are created afterwards behave as
            in that release. By default, they behave as in the last release that had them.
        contrib: whether to put `tf.contrib.mixed_precision` back too. The rest of `tf.contrib` is still missing, and
            `hasattr(tf, "contrib")` is False.
        replace_existing: whether to replace names that still work by the objects of mpls too.
        v1: whether `import tensorflow` in your own code imports `tensorflow.compat.v1`, with TF 2 behaviour disabled.
            It is disabled when your code first imports TensorFlow. If the program enables eager mode or other TF 2
            behaviour later, this stays enabled.
        keras: the generation of Keras that `tf.keras` means. With 2, it means tf_keras, also in child processes, and
            `import keras` in your own code imports tf_keras, as up to TF 2.15. With None, the environment variable
            `TF_USE_LEGACY_KERAS` decides. After TensorFlow is loaded, its Keras cannot be changed.
        legacy_optimizers: whether `tf.keras.optimizers` in your own code has the classes of
            `tf.keras.optimizers.legacy`, as up to TF 2.10. `compile` then uses them for strings such as `"adam"`. This
            needs Keras 2.

    Returns:
        The installation. As a context manager, it restores the previous state at the end of the block.

    Raises:
        ValueError: the release or the Keras does not exist, or `legacy_optimizers` is set without Keras 2.
        TypeError: a setting is not a bool, or the release is not a string.
        RuntimeError: TensorFlow is loaded already: with TF 2 behaviour for `v1`, or with another Keras for `keras`.
        ImportError: the Keras is not installed.

    Reproduces:
        Nothing; `mpls.names.NAMES` lists the names that it puts back.
    """
    from mpls.core import releases

    flags = {
        "contrib": contrib,
        "replace_existing": replace_existing,
        "v1": v1,
        "legacy_optimizers": legacy_optimizers,
    }
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ArgumentTypeError(
                error_text(f"install: {name}", "be a bool", value, f"install({name}=True)", "install")
            )
    with _state.lock:
        run = _state.stack[0] if _state.is_run and _state.stack else None
    if run is not None:
        as_of, keras = run.as_of if as_of is None else as_of, run.keras if keras is None else keras
        contrib, replace_existing, v1 = contrib or run.contrib, replace_existing or run.replace_existing, v1 or run.v1
        legacy_optimizers = legacy_optimizers or (run.legacy_optimizers and keras == 2)
    chosen = releases.behavior_of(as_of)
    _state.modes.check(v1, keras, legacy_optimizers)

    def is_put_back(name: Name) -> bool:
        is_replaced = replace_existing and name.replacement != "" and not name.needs_keras_3
        return (contrib or not name.is_contrib) and (name.last is not None or is_replaced)

    names = tuple(name.path for name in NAMES if is_put_back(name))
    with _state.lock:
        last = _state.stack[-1] if _state.stack else None
        _on_touch = _on_touch or (None if last is None else last._on_touch)
        installation = Installation(
            chosen.release, contrib, replace_existing, v1, keras, legacy_optimizers, names, _on_touch
        )
        if last is not None and _state.lasts(last):
            # The end of a block may restore this one; the one that it replaced is not needed any more.
            last._state_before.replaced = None
            installation._state_before.replaced = _state.stack.pop()
        _state.stack.append(installation)
        _settle()
        releases.use_in_block(chosen)
    return installation


def uninstall() -> None:
    """Undo `install`: the names, modules, the release that wrappers behave as, and the state of the graph rewrite.

    Objects that code has already obtained keep working. Without an installation, it does nothing.

    Examples:
        >>> import mpls
        >>> installation = mpls.install()
        >>> mpls.uninstall()
        >>> mpls.installed() is None
        True
    """
    from mpls.core import releases

    with _state.lock:
        if not _state.stack:
            _state.announcer.listen(False)
            return
        while _state.stack:
            _state.stack.pop()._state_before.restore_rewrite()
        releases.use_in_block(releases.ReleaseBehavior())
        _settle()


def installed() -> Installation | None:
    """Return the current installation; None if nothing is installed.

    Examples:
        >>> import mpls
        >>> with mpls.install(as_of="2.3") as installation:
        ...     mpls.installed() is installation
        True
    """
    with _state.lock:
        return _state.stack[-1] if _state.stack else None


def _settle(*, is_error_leaving: bool = False) -> None:
    """Put the names of the last installation into modules, and the settings of the last one outside blocks in force.

    Args:
        is_error_leaving: whether a block is ending with an error, which is shown later.
    """
    from mpls.core import releases

    last = _state.stack[-1] if _state.stack else None
    lasting = [each for each in _state.stack if _state.lasts(each)]
    releases.use(releases.behavior_of(lasting[-1].as_of if lasting else None))
    _state.modes.choose(v1=last is not None and last.v1, keras=None if last is None else last.keras)
    wanted = None
    if last is not None:
        wanted = (last.contrib, last.replace_existing, last.v1, last.legacy_optimizers, last._on_touch)
    _state.announcer.listen(last is not None or is_error_leaving)
    if wanted == _state.hooked_for:
        return
    if _state.hooks is not None:
        _state.hooks.take_away()
        _state.hooks = None
    _state.hooked_for = wanted
    _tell_loaded_parts(is_installed=wanted is not None)
    if wanted is None:
        return
    from mpls.importing.hooks import Hooks, Settings

    _state.hooks = Hooks(Settings(*wanted))
    _state.hooks.put_back()


def _say(error: BaseException) -> None:
    now = installed()
    say(error, None if now is None else now.settings, None if _state.is_run else install)


def is_run() -> None:
    """Have hints name the options of `mpls run`, since the program did not call `install` itself."""
    _state.is_run = True


def _tell_loaded_parts(*, is_installed: bool) -> None:
    """Tell parts of mpls that change frameworks, where a program has loaded them: they load TensorFlow."""
    if "mpls.keras.marked_configs" in sys.modules:
        from mpls.keras.marked_configs import recognise_while_installed

        recognise_while_installed(is_installed)
    if "mpls.experimental.policy" in sys.modules and not is_installed:
        from mpls.experimental.policy import restore_compile

        restore_compile()
