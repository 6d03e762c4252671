"""Wrappers in files and configs that Keras writes and reads.

A file names the class of the native wrapper, so that it loads without mpls. Keras gets a mark in the wrapper's config,
which every Keras ignores, and in it what the native wrapper does not write: the scale, the counter, the options of
mpls. The loaders of tf_keras and Keras 3 return wrappers of mpls for marked configs. Other configs are loaded as
without mpls; but those of tf_keras become wrappers of mpls while `mpls.install` is in force.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import tensorflow as tf

from mpls.core import releases
from mpls.core.dynamic import DynamicLossScale
from mpls.core.state_checks import checked_extras
from mpls.core.weights import plain
from mpls.errors import SavedStateError, error_text
from mpls.flags import Flag
from mpls.formats.validity import (
    ANCHOR,
    OF_SETTINGS,
    OF_STATE,
    OPTION_VARIABLES,
    SETTINGS_OF_ENTRY,
    check_good_steps,
    check_scale,
    constraint_on_number,
    constraint_on_setting,
    is_options_entry,
    options_entry,
)
from mpls.formats.wrapper_state import (
    ADJUSTABLE,
    COUNTS,
    FIXED_STATE,
    INCREMENT_PERIOD,
    INNER_KEYS,
    LOSS_SCALE,
    NEVER,
    OPTIONS_KEY,
    STATE,
    STATE_IN_CONFIGS,
    STATE_KEY,
    as_fixed,
    inner_key,
    is_fixed_over_keras_3,
)
from mpls.importing.hooks import are_names_back
from mpls.importing.post_import import call_off, when_loaded
from mpls.keras.classes import is_of_mpls, public_class
from mpls.keras.family_members import FamilyMembers
from mpls.patches import ABSENT, Layer
from mpls.upstream import table
from mpls.upstream.keras_packages import config_writers, h5_config_writers, h5_variable_writers, loaded_tf_keras
from mpls.upstream.table import Private

# Who asks: Keras, which writes files by the calls that users make too, or a user.

_KERASES = ("keras", "tf_keras")


@dataclass(frozen=True)
class Caller:
    """The code that has called a method.

    Attributes:
        package: the package that it is in, `"keras"`, `"tf_keras"` or the user's.
        running: the names of the functions of both Kerases that run further up.
    """

    package: str
    running: frozenset[str]

    @property
    def is_keras(self) -> bool:
        """Whether tf_keras or Keras 3 has called."""
        return self.package in _KERASES

    @property
    def writes_file(self) -> bool:
        """Whether tf_keras or Keras 3 is writing a file, or a pickle."""
        return self._runs_any_of(config_writers)

    @property
    def writes_h5(self) -> bool:
        """Whether tf_keras or Keras 3 is writing the config of an optimizer into an H5 file."""
        return self._runs_any_of(h5_config_writers)

    @property
    def writes_h5_variables(self) -> bool:
        """Whether Keras 3 is writing the variables of an optimizer into an H5 file."""
        return self._runs_any_of(h5_variable_writers)

    def _runs_any_of(self, writers: Callable[[], set[str]]) -> bool:
        return bool(self.running) and not self.running.isdisjoint(writers())


def who_calls(owner: Any = None) -> Caller:
    """Return who has called the method that calls this function.

    Keras writes files by the calls that users make too: `get_config()` and `variables`. Keras must get the scale and
    the counter. Users must get what the originals returned. No argument and no hook tells the two apart; only the stack
    does. Nothing else in `mpls.keras` looks at the stack.

    Args:
        owner: the object whose method was called. Frames that have it as an argument or closure variable are skipped:
            overriding methods that call `super()`, their decorators, and helper functions. Without the object, the
            direct caller counts.
    """
    frame: FrameType | None = sys._getframe(2)
    while owner is not None and frame is not None and (_package(frame) == "mpls" or _holds(frame, owner)):
        if _package(frame) in _KERASES:
            break
        frame = frame.f_back
    package = "" if frame is None else _package(frame)
    running = set()
    while frame is not None:
        if _package(frame) in _KERASES:
            running.add(frame.f_code.co_name)
        frame = frame.f_back
    return Caller(package, frozenset(running))


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _holds(frame: FrameType, value: Any) -> bool:
    """Return whether a frame's function has an object among its arguments or closure variables."""
    code, found = frame.f_code, frame.f_locals
    arguments = [found.get(name) for name in (*code.co_varnames[: code.co_argcount], *code.co_freevars)]
    if code.co_flags & inspect.CO_VARARGS:
        arguments += found.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    return any(each is value for each in arguments)


# What stands in configs.

# Raised while a file is loaded that holds the wrapped optimizer's variables also apart from the wrapper's, as the
# frameworks write them. They are read from this second place.
wrapped_optimizer_follows: Flag = Flag("wrapped_optimizer_follows")

_SUBJECT = f"LossScaleOptimizer.from_config: {STATE_KEY}"
_OPTIONS_SUBJECT = f"LossScaleOptimizer.from_config: {OPTIONS_KEY}"


class MarkedConfig(dict[str, Any]):
    """A config with the mark of mpls; Keras may replace the optimizer in it by another."""

    def __reduce__(self) -> Any:
        # Copies and pickles become plain dicts, which load without mpls.
        return dict, (dict(self),)


def config_for_caller(wrapper: FamilyMembers, config: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return a wrapper's config: to Keras with the mark, and for a file with the state too; to users unchanged.

    Args:
        wrapper: the wrapper.
        config: the entries that native wrappers know too.
        settings: the entries that they do not know, and would refuse.
    """
    caller = who_calls(wrapper)
    if not caller.writes_file and not caller.is_keras:
        return {**config, **settings}
    options = _options(wrapper, settings, caller.writes_file)
    config = _with_growth_steps(config, options)
    if config.get("dynamic", True) or not reads_as_dynamic(wrapper):
        return _marked(config, _state(wrapper, caller) if caller.writes_file else None, options)
    config = {key: value for key, value in config.items() if key != "dynamic"}
    return _marked({**config, "dynamic_growth_steps": NEVER}, dict(FIXED_STATE), options)


def _options(wrapper: FamilyMembers, settings: dict[str, Any], writes_file: bool) -> dict[str, Any]:
    """Return the entry with settings and variables that only mpls has; an empty dict if there are none."""
    variables = _option_variables(wrapper) if writes_file else {}
    if not settings and not variables:
        return {}
    values = dict(zip(variables, map(plain, _values(list(variables.values()))), strict=True)) if variables else {}
    return {OPTIONS_KEY: options_entry(settings, values)}


def _with_growth_steps(config: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the config with the current growth steps, to which the count of finite steps belongs.

    They differ from the constructor's if `configure` or a checkpoint has changed them.
    """
    growth_steps = options[OPTIONS_KEY][OF_STATE].get(ADJUSTABLE[0]) if options else None
    if growth_steps is None:
        return config
    if LOSS_SCALE not in config:
        return {**config, "dynamic_growth_steps": growth_steps}
    old = config[LOSS_SCALE]
    return {**config, LOSS_SCALE: {**old, "config": {**old["config"], INCREMENT_PERIOD: growth_steps}}}


def _option_variables(wrapper: FamilyMembers) -> dict[str, Any]:
    """Return the variables that only mpls has, by name: of the loss scale and of the record of steps."""
    loss_scale, record = wrapper._loss_scale, wrapper._record
    extras = loss_scale._initial_extras() if isinstance(loss_scale, DynamicLossScale) else ()
    counts = {} if record is None else {name: record._created_weight(name) for name in COUNTS}
    return {**{name: loss_scale._created_weight(name) for name in extras}, **counts}


def reads_as_dynamic(wrapper: FamilyMembers) -> bool:
    """Return whether a fixed scale is written as a dynamic one, for a native class that knows no other."""
    cls = type(wrapper)
    # A user's subclass is loaded by its own code, which takes `dynamic`.
    return not cls._native_knows_fixed and is_of_mpls(cls)


def with_fixed_scale(state: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the state and the settings of a config, in which a fixed scale may stand as a dynamic one."""
    if state != FIXED_STATE or not is_fixed_over_keras_3(settings):
        return state, settings
    return None, as_fixed(settings)


def is_marked(config: Any) -> bool:
    """Return whether mpls has written a wrapper's config."""
    if isinstance(config, MarkedConfig):
        return True
    inner = [config.get(key) for key in INNER_KEYS] if isinstance(config, dict) else []
    return any(isinstance(each, dict) and STATE_KEY in each for each in inner)


def _marked(config: dict[str, Any], state: Any, options: dict[str, Any]) -> dict[str, Any]:
    key = inner_key(config)
    return MarkedConfig({**config, key: {**config[key], STATE_KEY: state, **options}})


def _state(wrapper: FamilyMembers, caller: Caller) -> dict[str, Any] | None:
    loss_scale = wrapper._loss_scale
    if not isinstance(loss_scale, DynamicLossScale):
        return None
    if _is_saved_by_keras(loss_scale):
        if not caller.writes_h5:
            return None
        # Only mpls finds the variables in H5 files again, so the config holds the state too.
        state = wrapper.state_dict()
        return {key: state[key] for key in STATE_IN_CONFIGS}
    weights = loss_scale._weights_here()
    scale, good_steps = loss_scale.initial_loss_scale, 0
    if weights.keys() >= set(STATE):
        scale, good_steps = _values([weights[name] for name in STATE])
    return dict(zip(STATE_IN_CONFIGS, (float(scale), int(good_steps)), strict=True))


def _is_saved_by_keras(loss_scale: Any) -> bool:
    # Keras 3 saves the state among the optimizer's variables.
    return bool(getattr(loss_scale, "is_saved_by_keras", False))


def _values(variables: list[Any]) -> Any:
    if tf.executing_eagerly():
        return [variable.numpy() for variable in variables]
    tf_keras: Any = loaded_tf_keras()
    # Read with the session that also writes the model's weights into the file.
    return tf_keras.backend.batch_get_value(variables)


def without_state(inner: Any) -> tuple[Any, Any, Any]:
    """Return the wrapped optimizer's config, and the state and the options that stand in it, or None."""
    if not isinstance(inner, dict):
        return inner, None, None
    rest = {key: value for key, value in inner.items() if key not in (STATE_KEY, OPTIONS_KEY)}
    return rest, inner.get(STATE_KEY), inner.get(OPTIONS_KEY)


def checked_options_of(options: Any) -> dict[str, Any]:
    """Return the settings in the options that mpls has put into a config.

    Args:
        options: what `without_state` returned.

    Raises:
        SavedStateError: it is of another form, or a value is none that an option or its variable can have.
    """
    if options is None:
        return {}
    if not is_options_entry(options):
        raise _bad_options("", f"be {{'{OF_SETTINGS}': dict, '{OF_STATE}': dict}}", options)
    settings, state = options[OF_SETTINGS], options[OF_STATE]
    for part, found, known in ((OF_SETTINGS, settings, SETTINGS_OF_ENTRY), (OF_STATE, state, OPTION_VARIABLES)):
        if unknown := found.keys() - set(known):
            raise _bad_options("", f"have {part} of {sorted(known)}", sorted(map(str, unknown)))
    for name, value in settings.items():
        if constraint := constraint_on_setting(name, value):
            raise _bad_options(f": {name}", constraint, value)
    for name, value in state.items():
        if constraint := constraint_on_number(name, value):
            raise _bad_options(f": {name}", constraint, value)
    return dict(settings)


def _bad_options(place: str, constraint: str, got: Any) -> SavedStateError:
    error: SavedStateError = SavedStateError(
        error_text(f"{_OPTIONS_SUBJECT}{place}", constraint, got, "Leave it out", ANCHOR)
    )
    return error


def checked_state(state: Any, settings: dict[str, Any]) -> tuple[float, int] | None:
    """Return the scale and the counter that a config holds.

    Args:
        state: what `without_state` returned.
        settings: the settings in the same config, as `translated` returns them.

    Raises:
        SavedStateError: it is no state that the loss scale of the config can have.
    """
    if state is None:
        return None
    if not isinstance(state, dict) or state.keys() != set(STATE_IN_CONFIGS) or not settings.get("dynamic", True):
        raise SavedStateError(
            error_text(
                _SUBJECT,
                "be {'scale': float, 'good_steps': int}, and only there for a dynamic scale",
                state,
                "Leave it out, and the scale starts from initial_scale",
                ANCHOR,
            )
        )
    scale = check_scale(state["scale"], f"{_SUBJECT}: scale")
    growth_steps = settings.get("dynamic_growth_steps")
    return scale, check_good_steps(state["good_steps"], f"{_SUBJECT}: good_steps", growth_steps)


def set_state(wrapper: FamilyMembers, state: tuple[float, int] | None, options: Any) -> None:
    """Set a new wrapper's scale and counter, and the variables that only mpls has.

    Args:
        wrapper: the wrapper.
        state: what `checked_state` returned; None to leave the scale and the counter.
        options: what `without_state` returned; None to leave the variables.

    Raises:
        SavedStateError: the options hold an invalid value.
    """
    loss_scale = wrapper._loss_scale
    own = {} if options is None else _option_variables(wrapper)
    extras = checked_extras(options and options[OF_STATE], own)
    if isinstance(loss_scale, DynamicLossScale):
        loss_scale._require_usable_numbers(extras, _OPTIONS_SUBJECT)
    pairs = [(own[name], value) for name, value in extras.items()]
    if state is not None and isinstance(loss_scale, DynamicLossScale):
        if _is_saved_by_keras(loss_scale):
            variables = [wrapper.dynamic_scale, wrapper.step_counter]
        else:
            variables = [loss_scale._current_loss_scale, loss_scale._num_good_steps]
        pairs += zip(variables, state, strict=True)
    if tf.executing_eagerly():
        for variable, value in pairs:
            variable.assign(value)
    elif pairs:
        tf_keras: Any = loaded_tf_keras()
        tf_keras.backend.batch_set_value(pairs)


# How the loaders recognise them.

_reads_all = Flag("_reads_all")


# The reasons for which the loaders are patched now; each block of `reading_all_as_ours` is one of its own.
_USE, _INSTALL = "a wrapper was made", "mpls.install is in force"
_reasons: set[object] = set()
_layers: list[Layer] = []
_lock = threading.RLock()
_ROWS = (((table.WRAPPERS, table.WRAPPERS_OVER_NEW), True), ((table.NATIVE_3,), False))


def recognise_marked_configs() -> None:
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
            # As of a release that had no other wrapper, the experimental one.
            is_experimental = releases.current().has_loss_scale_objects
            return public_class(is_experimental=is_experimental).from_config(config, *args, **kwargs)
        return original_of(cls)(config, *args, **kwargs)

    return classmethod(from_config)
