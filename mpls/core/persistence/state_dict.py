"""The state of a loss scale as a small dict, for people who keep their own checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.replicas import in_replica_context
from mpls.errors import (
    ArgumentTypeError,
    CallOrderError,
    MplsWarning,
    ReplicaContextError,
    SavedStateError,
    error_text,
    warn_user,
)
from mpls.formats.state_dicts import (
    DYNAMIC,
    GOOD_STEPS,
    GROWTH_STEPS,
    INITIAL_SCALE,
    OPTIONS_OF_KEYS,
    SCALE,
    WEIGHTS,
)
from mpls.formats.validity import ANCHOR, check_count, check_good_steps, check_scale
from mpls.upstream.tensorflow import graph_key

_SUBJECT = "load_state_dict"


def in_graph_of(session: Any) -> AbstractContextManager[Any]:
    """Return the context in which an object's variables are those that a session has.

    Each thread has a default graph of its own, so a caller that passes a session need not be in the session's graph.

    Args:
        session: what the user passed; for None, the caller's graph, or eager mode.
    """
    context: AbstractContextManager[Any] = nullcontext() if session is None else session.graph.as_default()
    return context


def require_no_replica(call: str) -> None:
    """Refuse a change that a replica would make.

    Raises:
        ReplicaContextError: the caller is a replica.
    """
    if in_replica_context():
        raise ReplicaContextError(
            f"{call}() must be called outside of the function that strategy.run(step_fn) runs; got a replica "
            f"context. Call it before. See MIGRATION.md#{ANCHOR}"
        )


def read_values(variables: Mapping[str, Any], session: Any, call: str = "state_dict") -> dict[str, Any]:
    """Return the values of variables, NumPy arrays, by name.

    Args:
        variables: by name; under a strategy, mirrored ones.
        session: in a v1 graph, the session; None for the default one.
        call: the method that the user called, for errors.

    Raises:
        CallOrderError: there is no session, or the call is made inside of a `tf.function`.
    """
    first = {name: _components(variable)[0] for name, variable in variables.items()}
    if not first:
        return {}
    if graph_key() is None:
        _require_eager(call)
        return {name: variable.numpy() for name, variable in first.items()}
    values: dict[str, Any] = _run(session, call, first, {})
    return values


def write_values(variables: Mapping[str, Any], values: Mapping[str, Any], session: Any, call: str = _SUBJECT) -> None:
    """Set variables on all replicas, in a finalized graph too; arguments and errors as with `read_values`."""
    require_no_replica(call)
    pairs = [(each, values[name]) for name, variable in variables.items() for each in _components(variable)]
    if not pairs:
        return
    if graph_key() is None:
        _require_eager(call)
        for variable, value in pairs:
            variable.assign(value)
        return
    initializers = [variable.initializer for variable, _ in pairs]
    # As Variable.load does, but for all variables at once. No op is added.
    feeds = {op.inputs[1]: value for op, (_, value) in zip(initializers, pairs, strict=True)}
    _run(session, call, initializers, feeds)


def _components(variable: Any) -> tuple[Any, ...]:
    return tuple(getattr(variable, "values", (variable,)))


def _require_eager(call: str) -> None:
    if not tf.executing_eagerly():
        raise CallOrderError(f"{call}() must be called outside of tf.function, where values are known.")


def _run(session: Any, call: str, fetches: Any, feeds: dict[Any, Any]) -> Any:
    session = tf.compat.v1.get_default_session() if session is None else session
    if session is None:
        raise CallOrderError(
            f"{call}() needs a session in a v1 graph, where variables are. Call {call}(..., session=sess). "
            f"See MIGRATION.md#{ANCHOR}"
        )
    if not hasattr(session, "run_step_fn"):
        return session.run(fetches, feeds)
    # A run of a monitored session would run its hooks too, which count steps.
    return session.run_step_fn(lambda step_context: step_context.session.run(fetches, feeds))


def plain(value: Any) -> Any:
    """Return a NumPy value as Python numbers, which `json` can write; a Python float holds every float32 exactly."""
    return np.asarray(value).tolist()


def without_surplus(state: Any, known: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """Return a state without the keys that only options of mpls bring which are not used here; and these keys.

    Args:
        state: what the user passed.
        known: the keys that are used here.
    """
    if not isinstance(state, Mapping):
        return state, {}
    surplus = {name: state[name] for name in OPTIONS_OF_KEYS if name in state and name not in known}
    return {name: value for name, value in state.items() if name not in surplus}, surplus


def warn_of_surplus(surplus: Mapping[str, Any]) -> None:
    """Warn of keys that `without_surplus` has found, before the rest is loaded."""
    if surplus:
        found = ", ".join(f"{name}={value!r} (of {OPTIONS_OF_KEYS[name]})" for name, value in surplus.items())
        warn_user(
            f"{_SUBJECT}: the state was saved with other options; not used here is {found}. The rest is loaded. Pass "
            f"these options to the constructor, or leave the keys out of the dict. See MIGRATION.md#{ANCHOR}",
            MplsWarning,
        )


def require_keys(state: Any, required: set[str], optional: set[str]) -> None:
    """Refuse a state that is no dict with these keys."""
    if not isinstance(state, Mapping):
        raise ArgumentTypeError(
            error_text(f"{_SUBJECT}: state", "be a dict", state, "Pass what state_dict() returned", ANCHOR)
        )
    keys = set(state)
    if required <= keys <= required | optional:
        return
    wanted = f"have the keys {sorted(required)}" + (f", and may have {sorted(optional)}" if optional else "")
    advice = "Pass what state_dict() of the same kind of loss scale returned"
    raise SavedStateError(error_text(f"{_SUBJECT}: state", wanted, sorted(map(str, keys)), advice, ANCHOR))


def require_dynamic(state: Mapping[str, Any], dynamic: bool) -> None:
    """Refuse the state of a fixed loss scale for a dynamic one, and the reverse."""
    if isinstance(state, Mapping) and state.get(DYNAMIC, dynamic) is not dynamic:
        advice = f"Load it into a {'fixed' if dynamic else 'dynamic'} loss scale, or leave the loss scale as it is"
        constraint = f"be {dynamic}, as the loss scale is {'dynamic' if dynamic else 'fixed'}"
        raise SavedStateError(error_text(f"{_SUBJECT}: {DYNAMIC}", constraint, state[DYNAMIC], advice, ANCHOR))


def require_same(state: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse settings that differ from those of the loss scale: training would go on differently."""
    for name, value in settings.items():
        if name not in state:
            continue
        # True equals 1.
        if isinstance(state[name], bool) is not isinstance(value, bool) or state[name] != value:
            advice = f"Construct the loss scale with it, or leave {name!r} out of the dict"
            constraint = f"be {value!r}, as the loss scale has it"
            raise SavedStateError(error_text(f"{_SUBJECT}: {name}", constraint, state[name], advice, ANCHOR))


def checked_dynamic(state: Any, settings: Mapping[str, float], optional: Iterable[str] = ()) -> tuple[float, int]:
    """Return scale and good steps of a dynamic loss scale's state.

    Args:
        state: what the user passed.
        settings: settings that must agree; the growth steps among them, unless the state brings them.
        optional: further keys that it may have.

    Raises:
        SavedStateError: it is not the state of such a loss scale.
        TypeError: it is no dict.
    """
    require_dynamic(state, True)
    require_keys(state, {DYNAMIC, SCALE, GOOD_STEPS}, {INITIAL_SCALE, *settings, *optional})
    scale = check_scale(state[SCALE], f"{_SUBJECT}: {SCALE}")
    if INITIAL_SCALE in state:
        check_scale(state[INITIAL_SCALE], f"{_SUBJECT}: {INITIAL_SCALE}")
    require_same(state, settings)
    growth_steps = int(settings[GROWTH_STEPS]) if GROWTH_STEPS in settings else None
    return scale, check_good_steps(state[GOOD_STEPS], f"{_SUBJECT}: {GOOD_STEPS}", growth_steps)


def check_fixed(state: Any, scale: float, optional: Iterable[str] = ()) -> None:
    """Refuse a state that is not of a fixed loss scale with this scale, which never changes.

    Args:
        state: what the user passed.
        scale: the loss scale's.
        optional: further keys that it may have.
    """
    require_dynamic(state, False)
    state, surplus = without_surplus(state, optional)
    require_keys(state, {DYNAMIC, SCALE}, set(optional))
    check_scale(state[SCALE], f"{_SUBJECT}: {SCALE}", is_fixed=True)
    require_same(state, {SCALE: scale})
    warn_of_surplus(surplus)


def checked_weights(state: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for the variables of a user's own loss scale.

    Args:
        state: a state with values by name, as `'weights'`; without variables, it needs none.
        weights: the variables by name.

    Raises:
        SavedStateError: names, shapes or dtypes differ.
    """
    subject = f"{_SUBJECT}: {WEIGHTS}"
    found = state.get(WEIGHTS, {})
    names = sorted(found) if isinstance(found, Mapping) else found
    if names != sorted(weights):
        advice = "Pass what state_dict() of the same class returned"
        raise SavedStateError(error_text(subject, f"have the keys {sorted(weights)}", names, advice, ANCHOR))
    return {name: _as_value_of(weight, found[name], f"{subject}: {name}") for name, weight in weights.items()}


def checked_extras(state: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a state has for variables of settings that the originals had not; it may lack any.

    Args:
        state: what the user passed.
        variables: by name.

    Raises:
        SavedStateError: a value is of another kind, not finite or negative; only a count may be 0.
    """
    found = {}
    for name, variable in variables.items():
        if name not in state:
            continue
        subject = f"{_SUBJECT}: {name}"
        found[name] = _as_value_of(variable, state[name], subject)
        if variable.dtype.base_dtype.is_floating:
            check_scale(state[name], subject)
        else:
            check_count(state[name], subject)
    return found


def _as_value_of(weight: Any, value: Any, subject: str) -> Any:
    dtype = weight.dtype.base_dtype
    given = np.asarray(value)
    if given.dtype.kind in "biuf" and given.shape == tuple(weight.shape):
        with np.errstate(over="ignore", invalid="ignore"):
            converted = given.astype(dtype.as_numpy_dtype)
        if dtype.is_floating or np.array_equal(converted, given):
            return converted
    constraint = f"be {dtype.name} of shape {tuple(weight.shape)}"
    raise SavedStateError(error_text(subject, constraint, value, "Pass what state_dict() returned", ANCHOR))
