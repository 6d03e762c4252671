"""Checks of saved state before any of it is loaded: object-based checkpoints, and dicts of `state_dict`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.errors import (
    ArgumentTypeError,
    Described,
    MplsWarning,
    SavedStateError,
    error_text,
    warn_user,
)
from mpls.formats.families import FAMILY_NAMES, Family
from mpls.formats.object_graph import VALUE, Node, ObjectGraph, SlotVariable
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
from mpls.formats.wrapper_state import STATE
from mpls.upstream.trackables import (
    RestorePlace,
    abandon_restore,
    place_being_restored,
    place_of_slot,
)


class _Nodes(Sequence[Node]):
    """The nodes of a proto that TensorFlow has parsed, each converted when it is read."""

    def __init__(self, proto: Any) -> None:
        self._nodes = proto.nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, number: Any) -> Any:
        node = self._nodes[number]
        values = [each for each in node.attributes if each.name == VALUE]
        return Node(
            {child.local_name: child.node_id for child in node.children},
            values[0].full_name if values else None,
            values[0].checkpoint_key if values else None,
            [
                SlotVariable(each.original_variable_node_id, each.slot_name, each.slot_variable_node_id)
                for each in node.slot_variables
            ],
        )


@dataclass(frozen=True)
class SavedObject:
    """An object in a checkpoint that is being restored.

    Attributes:
        path: the checkpoint.
        graph: the objects in it.
        number: the number of the object in the graph.
        paired: the Python objects that TensorFlow restores, as far as it has paired them, by number in the graph.
    """

    path: str
    graph: ObjectGraph
    number: int
    paired: Mapping[int, Any]

    def child(self, *names: str) -> SavedObject | None:
        """Return the object at a path of local names below this one; None if there is none."""
        found = self.graph.child(self.number, *names)
        return None if found is None else replace(self, number=found)

    @property
    def family(self) -> Family | None:
        """The family of the optimizer that was saved there, wrapped or not; None if the checkpoint does not tell."""
        return self.graph.family_at(self.number)

    @property
    def key(self) -> str:
        """The key of its value in the file; for an object without a value its path, as `"model/optimizer"`."""
        key = self.graph.nodes[self.number].checkpoint_key
        return key or self.graph.shortest_paths().get(self.number) or "the root object"

    @property
    def subject(self) -> str:
        """File and key, for errors."""
        return f"{self.path}: {self.key}"

    def is_restored_into_another(self, part: Any) -> bool:
        """Return whether TensorFlow restores it into another Python object than this one."""
        return self.paired.get(self.number, part) is not part

    def is_replaced_by_another(self, part: Any) -> bool:
        """Return whether TensorFlow restores this Python object from another object in the checkpoint."""
        return any(each is part and number != self.number for number, each in list(self.paired.items()))

    def value(self) -> Any:
        """Return its value, a NumPy array.

        Raises:
            SavedStateError: the value is damaged or missing.
        """
        return read_value(self.path, self.key)


def read_value(path: str, key: str) -> Any:
    """Return a value in a checkpoint, a NumPy array.

    Raises:
        SavedStateError: the value is damaged or missing.
    """
    try:
        return tf.train.load_checkpoint(path).get_tensor(key)
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise SavedStateError(
            f"{path}: {key} must be readable; got {type(error).__name__} ({error}). The file is damaged: restore an "
            f"older one. See mpls docs {ANCHOR}"
        ) from error


def _object_at(place: RestorePlace) -> SavedObject:
    return SavedObject(place.path, ObjectGraph(_Nodes(place.graph)), place.node, place.paired)


def examine(owner: Any, look: Callable[[SavedObject], None]) -> SavedObject | None:
    """Call `look` if TensorFlow is restoring an object from a checkpoint; called by the object's `_trackable_children`.

    Args:
        owner: the object.
        look: gets the object's place in the checkpoint, and raises what must stop the restore.

    Returns:
        The place; None if TensorFlow is not restoring the object.
    """
    place = place_being_restored(owner)
    return None if place is None else examine_place(place, look)


def examine_place(place: RestorePlace, look: Callable[[SavedObject], None]) -> SavedObject:
    """Call `look` with a place in a checkpoint that is being restored; if it raises, drop the deferred values too."""
    node = _object_at(place)
    try:
        look(node)
    except SavedStateError:
        abandon_restore(place)
        raise
    return node


def examine_slot(owner: Any, slot_position: Any, look: Callable[[SavedObject], None]) -> None:
    """Call `look` before a slot of an optimizer is restored, which may be before the optimizer itself is."""
    place = place_of_slot(owner, slot_position)
    if place is not None:
        examine_place(place, look)


def is_bare(owner: Any, wrapped: str) -> bool:
    """Return whether an optimizer is being restored from one that was saved without loss scaling around it.

    Args:
        owner: the wrapper.
        wrapped: the name of the wrapped optimizer in checkpoints.
    """
    place = place_being_restored(owner)
    return place is not None and _object_at(place).child(wrapped) is None


def require_valid_state(node: SavedObject | None, growth_steps: int | None, names: tuple[str, str] = STATE) -> None:
    """Refuse an invalid scale or counter.

    Args:
        node: the object that holds them; None if there is none.
        growth_steps: the growth steps of the loss scale that is restored.
        names: the names of the scale and the counter below the object.

    Raises:
        SavedStateError: the file holds an invalid number.
    """
    scale, good_steps = names
    held = None if node is None else node.child(scale)
    if held is not None:
        check_scale(held.value(), held.subject)
    held = None if node is None else node.child(good_steps)
    if held is not None:
        check_good_steps(held.value(), held.subject, growth_steps)


def require_dtype(node: SavedObject, counter: Any) -> None:
    """Refuse a counter that another kind of loss scale saved: that of `mpls.v1` is int64, of `mpls.contrib` int32.

    Args:
        node: the object that holds the loss scale.
        counter: the variable that counts good steps.

    Raises:
        SavedStateError: it has another dtype.
    """
    held, wanted = node.child(GOOD_STEPS), counter.dtype.base_dtype
    found = wanted if held is None else tf.as_dtype(held.value().dtype)
    if held is not None and found != wanted:
        advice = (
            "Restore into tf.train.Checkpoint(base_optimizer=opt) in place of the wrapper, where opt is the optimizer "
            "inside, and set the scale by load_state_dict()"
        )
        constraint = f"be {wanted.name}, as in this loss scale"
        raise SavedStateError(error_text(held.subject, constraint, Described(found.name), advice, ANCHOR))


def refuse_other_family(node: SavedObject, family: Family) -> None:
    """Refuse the state of another family's optimizer, which would be lost, or read as something else.

    Args:
        node: the place of an optimizer.
        family: the family of the optimizer that is being restored.

    Raises:
        SavedStateError: another family wrote it.
    """
    found = node.family
    if found is None or found == family:
        return
    raise SavedStateError(
        f"{node.subject} must be the state of {FAMILY_NAMES[family]}; got that of {FAMILY_NAMES[found]}. Call "
        f"mpls.convert_state({node.path!r}, opt, variables), and restore the rest without the optimizer. "
        f"See mpls docs {ANCHOR}"
    )


WITHOUT_SCALE = (
    "holds no loss scale, as it was saved without one or with a fixed one: the rest is restored, and the loss scale"
)


def warn_of_unrestored_scale(subject: str, problem: str) -> None:
    """Warn that the loss scale is not restored from a checkpoint, or from a place in one."""
    warn_user(f"{subject} {problem}. See mpls docs {ANCHOR}", MplsWarning)


_SUBJECT = "load_state_dict"


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
            f"these options to the constructor, or leave the keys out of the dict. See mpls docs {ANCHOR}",
            MplsWarning,
        )


def require_keys(state: Any, required: set[str], optional: set[str]) -> None:
    """Refuse a state that is not a dict with these keys."""
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
            # The state of a fixed loss scale has to have its scale.
            instead = f"put {value!r} in its place" if name == SCALE else f"leave {name!r} out of the dict"
            advice = f"Construct the loss scale with it, or {instead}"
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
        TypeError: it is not a dict.
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
        with np.errstate(invalid="ignore"):
            converted = given.astype(dtype.as_numpy_dtype)
        if dtype.is_floating or np.array_equal(converted, given):
            return converted
    constraint = f"be {dtype.name} of shape {tuple(weight.shape)}"
    raise SavedStateError(error_text(subject, constraint, value, "Pass what state_dict() returned", ANCHOR))
