"""Objects that are used in eager mode and in several graphs: their variables in each, and values of these."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mpls.core.replicas import call_in_cross_replica_context, in_replica_context
from mpls.errors import (
    CallOrderError,
    GraphStateError,
    NameTakenError,
    ReplicaContextError,
)
from mpls.formats.state_dicts import WEIGHTS
from mpls.formats.validity import ANCHOR
from mpls.upstream.keras_packages import track_in_keras_graph
from mpls.upstream.tensorflow import graph_key, key_of_graph
from mpls.upstream.trackables import Trackable, restore_awaited

if TYPE_CHECKING:

    class TrackableBase:
        """What the classes of mpls use of TensorFlow's class, which has no types."""

        @property
        def _deferred_dependencies(self) -> Any: ...
        def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]: ...
        def _lookup_dependency(self, name: str, cached_dependencies: Any = None) -> Any: ...

else:
    TrackableBase = Trackable


_ATTRIBUTE = "_mpls_weights"


class Lock:
    """A reentrant lock for objects that can be copied and pickled: each copy gets a new lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> Any:
        return Lock, ()


class Weights:
    """Variables by name. Eager ones are stored here, those of a graph on the graph object.

    A variable keeps its graph alive, so no object that outlives the graph may hold it.
    """

    def __init__(self) -> None:
        self._eager: dict[str, Any] = {}
        self._graphs: weakref.WeakSet[Any] = weakref.WeakSet()

    def here(self) -> dict[str, Any]:
        """Return the dict of the current outermost graph, or of eager mode; callers add variables to it."""
        if tf.executing_eagerly():
            return self._eager
        with tf.init_scope():
            return self._eager if tf.executing_eagerly() else self.of(tf.compat.v1.get_default_graph())

    def of(self, graph: Any) -> dict[str, Any]:
        """Return the dict of a graph; callers add variables to it."""
        stores = getattr(graph, _ATTRIBUTE, None)
        if stores is None:
            stores = weakref.WeakKeyDictionary()
            setattr(graph, _ATTRIBUTE, stores)
        self._graphs.add(graph)
        found: dict[str, Any] = stores.setdefault(self, {})
        return found

    def everywhere(self) -> dict[tuple[str, str | None], Any]:
        """Return all variables of graphs that are alive, by name and graph key; None is the key of eager mode."""
        found: dict[tuple[str, str | None], Any] = {(name, None): each for name, each in self._eager.items()}
        for graph in list(self._graphs):
            found.update({(name, key_of_graph(graph)): each for name, each in self.of(graph).items()})
        return found

    def __getstate__(self) -> dict[str, Any]:
        if graph_key() is not None and self.here():
            raise GraphStateError(
                "LossScale: what is copied or pickled must have no variables of a v1 graph, whose values are in "
                f"sessions; got {sorted(self.here())} (list). Take loss_scale.state_dict(session). "
                "See mpls docs state-in-a-dict"
            )
        return {"_eager": self._eager}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self._eager = state["_eager"]


class Stateful(TrackableBase):
    """Mixin for trackable objects: variables for each graph, which object-based checkpoints hold by their names."""

    _variables: Weights
    _lock: Lock

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        """Return the initial value and the dtype of each variable that is created at first use, by name."""
        return {}

    def _created_weight(self, name: str) -> Any:
        """Return a variable, which is created with the others if it does not exist in the current graph."""
        weights = self._weights_here()
        if name not in weights:
            call_in_cross_replica_context(self._create_weights_at_first_use)
        return weights[name]

    def _create_weights_at_first_use(self) -> None:
        # The name is a v1 Saver's checkpoint key: it must not depend on the name scope of the first use.
        with tf.name_scope(""):
            self._create_weights()

    def _create_weights(self) -> None:
        weights = self._weights_here()
        is_traced = tf.inside_function() and not tf.distribute.has_strategy()

        def create() -> None:
            for name, (initial_value, dtype) in self._initial_weights().items():
                if name not in weights:
                    self._add_weight(name, initial_value, dtype)

        # One thread creates them. No replica does: creating a variable there may wait for the other replicas.
        with tf.init_scope(), self._lock:
            if is_traced and tf.executing_eagerly():
                _call_unseen_by_traces(create)
            else:
                create()

    def _add_weight(self, name: str, initial_value: Any, dtype: Any = None) -> Any:
        """Create a variable of this object in the current graph, or in eager mode.

        Args:
            name: name of the variable, and its key in object-based checkpoints.
            initial_value: the value it starts from.
            dtype: its dtype; by default that of `initial_value`.

        Returns:
            The variable: a resource variable, not trainable, never aggregated over replicas.

        Raises:
            RuntimeError: there is a variable of that name already, in the same graph.
        """
        weights = self._weights_here()
        if name in weights:
            raise NameTakenError(
                f"{type(self).__name__}._add_weight: the name must be new in this graph; got {name!r}, which is taken. "
                "Use another name, or keep the variable that the first call returned. "
                "See mpls docs loss-scale-arguments"
            )
        variable = tf.compat.v1.Variable(
            initial_value=initial_value,
            name=name,
            dtype=dtype,
            trainable=False,
            use_resource=True,
        )
        weights[name] = variable
        track_in_keras_graph(variable)
        restore_awaited(self, name, variable)
        return variable

    def _weights_here(self) -> dict[str, Any]:
        """Return the variables of the current graph, or of eager mode, by name."""
        return self._variables.here()

    def _read_weights(self, session: Any, without: Iterable[str]) -> dict[str, Any]:
        """Return `{'weights': values}` of a subclass's own variables, by name; those in `without` are left out."""
        weights = {name: weight for name, weight in self._weights_here().items() if name not in without}
        return {WEIGHTS: {name: plain(value) for name, value in read_values(weights, session).items()}}

    def _has_weights_elsewhere_only(self) -> bool:
        """Return whether there are variables, and none of the current graph, or of eager mode."""
        return not self._weights_here() and bool(self._variables.everywhere())

    @property
    def _weights(self) -> dict[tuple[str, str | None], Any]:
        # Users' code reads this attribute of TensorFlow's class: the variables by name and graph key.
        return self._variables.everywhere()

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        # A checkpoint written before the first step must contain the state, and one restored then must find it.
        self._create_weights()
        children = dict(self._weights_here())
        children.update(Trackable._trackable_children(self, save_type, **kwargs))
        return children

    def _lookup_dependency(self, name: str, cached_dependencies: Any = None) -> Any:
        # TensorFlow asks for the children first, which creates the variables.
        known = Trackable._lookup_dependency(self, name, cached_dependencies)
        return self._weights_here().get(name) if known is None else known


def _call_unseen_by_traces(create: Callable[[], None]) -> None:
    """Call a function that creates eager variables, while the caller's thread traces a `tf.function`.

    A `tf.function` that sees a new variable in its first trace is traced once more, and all that Python code counts in
    a step is counted twice: weights that Nadam of tf_keras trains are infinite then. Variables of other threads it does
    not see.
    """
    with ThreadPoolExecutor(1) as other:
        other.submit(create).result()


def require_used_here(owner: Stateful, session: Any, call: str) -> None:
    """Refuse to read or change state in the current graph, or in eager mode, if it exists only in others.

    Args:
        owner: the object that has the variables.
        session: in a v1 graph, the session; None for the default one. Without any, nothing is refused here.
        call: the method that the user called, for errors.

    Raises:
        CallOrderError: there are variables in another place, and none here.
    """
    if not owner._has_weights_elsewhere_only():
        return
    is_graph = graph_key() is not None
    if is_graph and session is None and tf.compat.v1.get_default_session() is None:
        return
    place = "this graph, in which it was not used" if is_graph else "eager mode"
    raise CallOrderError(
        f"{call}() must be called for the graph in which the optimizer or the loss scale is used; got {place}. Call "
        f"{call}(..., session=sess), with a session of that graph. See mpls docs my-checkpoints"
    )


class GraphLocal:
    """A dict of each graph, and of each thread in eager mode; copies begin with empty ones.

    A graph's dict lives as long as the graph.
    """

    def __init__(self) -> None:
        self._threads = threading.local()
        self._graphs = Weights()

    def __reduce__(self) -> Any:
        return type(self), ()

    def _store(self) -> dict[Any, Any]:
        """Return the dict of the graph that is being built, or of the running thread."""
        if tf.executing_eagerly():
            return vars(self._threads)
        return self._graphs.of(tf.compat.v1.get_default_graph())


_SUBJECT = "load_state_dict"


def in_graph_of(session: Any) -> AbstractContextManager[Any]:
    """Return the context in which an object's variables are those that a session has.

    Each thread has a default graph of its own, so a caller that passes a session need not be in the session's graph.

    Args:
        session: what the user passed; for None, the caller's graph, or eager mode.
    """
    context: AbstractContextManager[Any] = nullcontext() if session is None else session.graph.as_default()
    return context


class KeepsState:
    """Mixin for loss scales and managers: their state as a small dict."""

    # What a class has in the dict, and how it takes it back.
    _read_state_dict: Callable[[Any], dict[str, Any]]
    _write_state_dict: Callable[[Mapping[str, Any], Any], None]

    def state_dict(self, session: Any = None) -> dict[str, Any]:
        """Return the state as a small dict that `json` can write.

        Args:
            session: in a v1 graph, the session that has the variables; by default the default one.

        Returns:
            For a dynamic loss scale `{'dynamic': True, 'scale': float, 'good_steps': int}` and the settings
            `'initial_scale'`, `'growth_steps'` and `'multiplier'`; for a manager of contrib also `'bad_steps'`,
            `'shrink_steps'` and `'shrink_ratio'`. For a fixed one `{'dynamic': False, 'scale': float}`. For a
            `LossScale` of your own `{'class_name': str, 'weights': dict}`, with the values of its variables. Floats are
            exact.

        Raises:
            NotImplementedError: it is a manager of your own class, which does not override the method.
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Examples:
            >>> import mpls.v1
            >>> scale = mpls.v1.DynamicLossScale(8)
            >>> scale.state_dict()["scale"], scale.state_dict()["good_steps"]
            (8.0, 0)
        """
        with in_graph_of(session):
            return self._read_state_dict(session)

    def load_state_dict(self, state: Mapping[str, Any], session: Any = None) -> None:
        """Set the state to a dict from `state_dict`; if any part of the dict is wrong, nothing changes.

        If the dict has the settings of a dynamic scale, they must be equal to the settings of this loss scale, except
        for `'initial_scale'`. A fixed scale must be equal too.

        Args:
            state: a dict from `state_dict` of the same kind of loss scale.
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            ValueError: the dict has wrong keys or invalid numbers, or belongs to another kind of loss scale; or the
                call is made in a replica context.
            TypeError: `state` is not a dict.
            NotImplementedError: it is a manager of your own class, which does not override the method.
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Examples:
            >>> import mpls.v1
            >>> scale = mpls.v1.DynamicLossScale()
            >>> scale.load_state_dict({"dynamic": True, "scale": 1024.0, "good_steps": 7})
            >>> float(scale())
            1024.0
        """
        with in_graph_of(session):
            self._write_state_dict(state, session)


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
    """Set variables on all replicas, in a finalized graph too; arguments and errors as with `read_values`.

    Raises:
        ReplicaContextError: the caller is a replica.
    """
    if in_replica_context():
        raise ReplicaContextError(
            f"{call}() must be called outside of the function that strategy.run(step_fn) runs; got a replica "
            f"context. Call it before. See mpls docs {ANCHOR}"
        )
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
            f"See mpls docs {ANCHOR}"
        )
    if not hasattr(session, "run_step_fn"):
        return session.run(fetches, feeds)
    # A run of a monitored session would run its hooks too, which count steps.
    return session.run_step_fn(lambda step_context: step_context.session.run(fetches, feeds))


def value_of_variable(variable: Any) -> Any:
    """Return the value of a scalar variable that is not trained, as a tensor."""
    if _has_quick_ops(variable):
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
    return tf.convert_to_tensor(variable)


def increment(variable: Any) -> Any:
    """Add 1 to a scalar variable; in a graph, return the op that does it."""
    if not _has_quick_ops(variable):
        return variable.assign_add(1, read_value=False)
    one = np.ones([], variable.dtype.as_numpy_dtype)
    return tf.raw_ops.AssignAddVariableOp(resource=variable.handle, value=one)


def _has_quick_ops(variable: Any) -> bool:
    """Return whether the ops of a variable do what its methods do, which take several times as long in eager mode."""
    is_local = isinstance(variable, tf.Variable) and not isinstance(variable, tf.distribute.DistributedValues)
    return is_local and tf.executing_eagerly()


def plain(value: Any) -> Any:
    """Return a NumPy value as Python numbers, which `json` can write; a Python float holds every float32 exactly."""
    return np.asarray(value).tolist()
