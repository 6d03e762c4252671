"""The modes in which a training runs, each behind the same few methods.

A new mode is one more entry in `MODES`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.golden.replay import control_flow, replica_id

from .devices import Devices, tf_variable

v1 = tf.compat.v1

# The factors of a step: for each replica, one number for each term of the loss.
Factors = Sequence[Sequence[float]]


class Stage:
    """Where one training runs; its variables are made, read and set inside `scope`. This one is in eager mode.

    Attributes:
        creates_at_first_step: whether optimizers create variables when they take a step, not when it is built.
        ulps: by how many last bits a scaled training may differ from its control.
        session: the session of a graph; None elsewhere.

    Args:
        devices: the strategy.
        compiled: what makes a function of a step; None for none.
    """

    creates_at_first_step = True
    ulps: int
    session: Any = None

    def __init__(self, devices: Devices, compiled: Callable[[Any], Any] | None = None) -> None:
        self.devices = devices
        self.ulps = devices.ulps if compiled else 0
        self.replicas = devices.replicas
        self.strategy = devices.make() if devices.make else None
        self._compiled = compiled or (lambda fn: fn)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        with self.strategy.scope() if self.strategy else contextlib.nullcontext():
            yield

    def step(self, replica_fn: Callable[[Any], Any], terms: int) -> Callable[[Factors], None]:
        """Return what takes a step, given what one replica does with its factors."""

        def step(*factors: Any) -> None:
            self._run(replica_fn, factors)

        compiled = self._compiled(step)

        def run(factors: Factors) -> None:
            compiled(*(tf.constant(numbers, tf.float32) for numbers in factors))

        return run

    def read(self, variables: dict[str, Any]) -> dict[str, list[np.ndarray]]:
        """Return for each variable its values on all replicas."""
        return {key: [part.numpy() for part in self.components(variable)] for key, variable in variables.items()}

    def write(self, variable: Any, value: Any) -> None:
        """Set a variable on all replicas."""
        for part in self.components(variable):
            part.assign(value)

    def save(self, path: str, **trackables: Any) -> str:
        """Save as users of this mode do; return the path to restore from."""
        return tf.train.Checkpoint(**trackables).save(path)

    def restore(self, path: str, **trackables: Any) -> None:
        """Restore what `save` saved; what the optimizer creates at the first step is restored then."""
        self._status = tf.train.Checkpoint(**trackables).restore(path)

    def assert_restored(self) -> None:
        """Require all of the checkpoint to have been restored."""
        self._status.assert_consumed()

    def close(self) -> None:
        """Free what the training holds."""

    def components(self, variable: Any) -> list[Any]:
        """Return the variables of which a variable consists: one for each replica, or one for all."""
        variable = tf_variable(variable)
        return [variable] if self.strategy is None else list(self.strategy.experimental_local_results(variable))

    def _run(self, replica_fn: Callable[[Any], Any], factors: Sequence[Any]) -> Any:
        if self.strategy is None:
            return replica_fn(factors[0])
        if self.devices.forbids_merge_calls:
            return self.strategy.run(lambda: _as_function(replica_fn)(factors[replica_id()]))
        return self.strategy.run(lambda: replica_fn(factors[replica_id()]))


def _as_function(replica_fn: Callable[[Any], Any]) -> Any:
    @tf.function
    def run(factors: Any) -> None:
        # In a function, ops run without being returned.
        replica_fn(factors)

    return run


class XlaStage(Stage):
    def __init__(self, devices: Devices) -> None:
        super().__init__(devices, functools.partial(tf.function, jit_compile=True))
        # It fuses the operations of two programs in two ways, which round differently.
        self.ulps = max(self.ulps, 2)


class GraphStage(Stage):
    creates_at_first_step = False

    def __init__(self, devices: Devices, control_flow_v2: bool) -> None:
        super().__init__(devices)
        self.ulps = devices.ulps
        self._control_flow_v2 = control_flow_v2
        self._graph = tf.Graph()
        self._session: Any = None

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        with self._graph.as_default(), control_flow(self._control_flow_v2), super().scope():
            yield

    @property
    def session(self) -> Any:
        if self._session is None:
            config = v1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
            self._session = v1.Session(graph=self._graph, config=config)
        return self._session

    def step(self, replica_fn: Callable[[Any], Any], terms: int) -> Callable[[Factors], None]:
        placeholders = [v1.placeholder(tf.float32, [terms]) for _ in range(self.replicas)]
        result = self._run(replica_fn, placeholders)
        train_op = tf.group(*self.components(result))
        self.session.run(v1.global_variables_initializer())
        return lambda factors: self.session.run(train_op, dict(zip(placeholders, factors, strict=True)))

    def read(self, variables: dict[str, Any]) -> dict[str, list[np.ndarray]]:
        return self.session.run({key: self.components(variable) for key, variable in variables.items()})

    def write(self, variable: Any, value: Any) -> None:
        for part in self.components(variable):
            initial = part.initializer.inputs[1]
            self.session.run(part.initializer, {initial: np.asarray(value, initial.dtype.as_numpy_dtype)})

    def save(self, path: str, **trackables: Any) -> str:
        return v1.train.Saver(v1.global_variables()).save(self.session, path, write_meta_graph=False)

    def restore(self, path: str, **trackables: Any) -> None:
        v1.train.Saver(v1.global_variables()).restore(self.session, path)

    def assert_restored(self) -> None:
        """Nothing to check: a Saver fails where a variable is missing."""

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


MODES: dict[str, Callable[[Devices], Stage]] = {
    "graph_cf1": functools.partial(GraphStage, control_flow_v2=False),
    "graph_cf2": functools.partial(GraphStage, control_flow_v2=True),
    "eager": Stage,
    "function": functools.partial(Stage, compiled=tf.function),
    "xla": XlaStage,
}
