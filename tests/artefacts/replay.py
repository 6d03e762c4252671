"""What old releases saved, and how to go on with it: the variables and optimizers of a recorded spec, and its steps.

`data/artefacts/<id>/<run>/expected.json` holds the `spec` (what was trained, with what), the `state` at the save, what
is in the `checkpoint`, and `next`, the state after each of five further steps of the process that saved it. A run is
named `release` or `release.flavour`: `exp` and `lso2` wrap legacy optimizers, `lso3` new ones of tf_keras, `k3` those
of Keras 3. Floats are the shortest decimals of float32 values, non-finite ones the strings "nan", "inf", "-inf".
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import mpls
import mpls.errors
import mpls.experimental
import mpls.keras
import mpls.v1
from tests.golden.replay import loss_of, numbers

v1 = tf.compat.v1

DATA = pathlib.Path(__file__).parent / "data" / "artefacts"
RELEASES = {"tf115": "1.15", "tf215": "2.15", "tf21": "2.21"}
FAMILIES = {"exp": "legacy", "lso2": "legacy", "lso3": "new", "k3": "keras3"}


@dataclass(frozen=True)
class Artefact:
    """What one release saved of one spec."""

    id: str
    run: str

    @property
    def name(self) -> str:
        return f"{self.id}/{self.run}"

    @property
    def folder(self) -> pathlib.Path:
        return DATA / self.id / self.run

    @cached_property
    def expected(self) -> dict[str, Any]:
        expected: dict[str, Any] = json.loads((self.folder / "expected.json").read_text(encoding="utf-8"))
        return expected

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.expected["spec"]
        return spec

    @property
    def kind(self) -> str:
        return str(self.spec["kind"])

    @property
    def is_plain(self) -> bool:
        """Whether it was saved without loss scaling."""
        return bool(self.spec.get("plain"))

    @property
    def prefix(self) -> str:
        """The path of a checkpoint."""
        return str(self.folder / self.expected["prefix"])

    @property
    def release(self) -> str:
        """The release, as `mpls.install(as_of=...)` takes it."""
        oracle = self.run.partition(".")[0]
        return RELEASES.get(oracle, f"{oracle[2]}.{oracle[3:]}")

    @property
    def flavour(self) -> str:
        return self.run.partition(".")[2]

    @property
    def family(self) -> str:
        return FAMILIES.get(self.flavour, "v1")

    @property
    def is_exact(self) -> bool:
        """Whether today's kernels are those that computed it."""
        return self.release == "2.21"


def artefacts(*kinds: str) -> list[Artefact]:
    """Return the artefacts of these kinds: `v1_saver`, `v1_object`, `keras_object`, `keras_model`."""
    found = [Artefact(path.parent.parent.name, path.parent.name) for path in sorted(DATA.glob("*/*/expected.json"))]
    return [each for each in found if each.kind in kinds]


@dataclass
class Training:
    """Variables and an optimizer of a Keras family, as a spec has them.

    Attributes:
        artefact: what is replayed.
        variables: the model.
        optimizer: the wrapper, or the bare optimizer.
        inner: the optimizer without loss scaling.
    """

    artefact: Artefact
    variables: list[Any]
    optimizer: Any
    inner: Any

    def step(self, factors: list[Any]) -> None:
        """Take a step, with a factor of the loss for each variable."""
        spec, variables = self.artefact.spec, self.variables
        values = [tf.constant(numbers(factor), tf.float32) for factor in factors]
        if self.artefact.family != "keras3":
            self.optimizer.minimize(lambda: loss_of(spec, variables, values), variables)
            return
        tensors = [variable.value for variable in variables]
        with tf.GradientTape() as tape:
            loss = loss_of(spec, tensors, values)
            loss = self.optimizer.scale_loss(loss) if self.optimizer is not self.inner else loss
        self.optimizer.apply(tape.gradient(loss, tensors), variables)

    def build(self) -> None:
        """Create the optimizer's variables before the first step."""
        if self.artefact.family == "legacy":
            self.step([0.0] * len(self.variables))
        else:
            self.optimizer.build(self.variables)

    @property
    def by_name(self) -> dict[str, Any]:
        names = [entry["name"] for entry in self.artefact.spec["vars"]]
        return dict(zip(names, self.variables, strict=False))

    def checkpoint(self) -> tf.train.Checkpoint:
        """Return a checkpoint of the objects that the artefact's was of."""
        return tf.train.Checkpoint(optimizer=self.optimizer, **self.by_name)

    def slots(self) -> Any:
        """Return the values of the slots: by name for legacy optimizers, in the order of variables for others."""
        if self.artefact.family == "legacy":
            names = self.inner.get_slot_names()
            return {
                f"{key}/{slot}": self.inner.get_slot(variable, slot).numpy()
                for key, variable in self.by_name.items()
                for slot in names
            }
        variables = [*self.inner.variables]
        return [each.numpy() for each in variables[1 if self.artefact.family == "new" else 2 :]]

    def state(self) -> dict[str, Any]:
        """Return the state in the form of the record."""
        scaled = self.optimizer is not self.inner
        counter = self.optimizer.dynamic_counter if scaled else None
        return {
            "vars": {name: variable.numpy() for name, variable in self.by_name.items()},
            "slots": self.slots(),
            "scale": float(scale_of(self.optimizer)) if scaled else None,
            "good": None if counter is None else int(counter.numpy()),
            "iter": int(self.inner.iterations.numpy()),
        }


def scale_of(optimizer: Any) -> Any:
    """Return the current loss scale, of a wrapper of any release."""
    scale = optimizer.loss_scale
    return scale() if callable(scale) else scale


def recorded_state(artefact: Artefact, state: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded state of a Keras optimizer, as `Training.state` returns one."""
    state = numbers(state)
    if artefact.family != "legacy":
        slots = sorted(state["slots"].items(), key=lambda item: int(item[0].partition(":")[0]))
        state["slots"] = [value for _, value in slots]
    return dict(state)


def make_variable(artefact: Artefact, index: int) -> Any:
    """Create a variable of the spec."""
    entry = artefact.spec["vars"][index]
    value = np.array(entry["v"], np.float32)
    if artefact.family == "keras3":
        return keras.Variable(value, name=entry["name"])
    return tf.Variable(value, name=entry["name"])


def make_inner(artefact: Artefact) -> Any:
    """Create the optimizer of the spec, without loss scaling."""
    name, arguments = artefact.spec["opt"]
    optimizers = {
        "legacy": tf_keras.optimizers.legacy,
        "new": tf_keras.optimizers,
        "keras3": keras.optimizers,
        "v1": v1.train,
    }[artefact.family]
    return getattr(optimizers, name)(**arguments)


@contextlib.contextmanager
def as_released(artefact: Artefact) -> Iterator[None]:
    """Have wrappers made in this block behave as those of the artefact's release, where programs ask for it."""
    if artefact.flavour != "exp":
        yield
        return
    with mpls.install(as_of=artefact.release), warnings.catch_warnings():
        warnings.simplefilter("ignore", mpls.errors.MplsDeprecationWarning)
        yield


def wrap(artefact: Artefact, inner: Any) -> Any:
    """Wrap an optimizer in the class that the spec's program used, with its loss scale."""
    loss_scale = artefact.spec["loss_scale"]
    if artefact.flavour == "exp":
        scale = loss_scale.get("fixed")
        if scale is None:
            scale = mpls.experimental.DynamicLossScale(loss_scale["initial"], loss_scale["growth"])
        with as_released(artefact):
            return mpls.experimental.LossScaleOptimizer(inner, scale)
    if "fixed" in loss_scale:
        return mpls.keras.LossScaleOptimizer(inner, dynamic=False, initial_scale=loss_scale["fixed"])
    return mpls.keras.LossScaleOptimizer(
        inner, initial_scale=loss_scale["initial"], dynamic_growth_steps=loss_scale["growth"]
    )


def training_of(artefact: Artefact, *, variables: int | None = None) -> Training:
    """Return variables, the first few or all, and a wrapper, none of them trained."""
    names = artefact.spec["vars"][:variables]
    made = [make_variable(artefact, index) for index in range(len(names))]
    inner = make_inner(artefact)
    return Training(artefact, made, wrap(artefact, inner), inner)


@dataclass
class GraphTraining:
    """A v1 graph with a scaled optimizer, as a spec has it; for use as the default graph."""

    artefact: Artefact
    variables: list[Any]
    inner: Any
    optimizer: Any
    global_step: Any
    factors: list[Any]
    train_op: Any

    @property
    def by_name(self) -> dict[str, Any]:
        names = [entry["name"] for entry in self.artefact.spec["vars"]]
        return dict(zip(names, self.variables, strict=True))

    def step(self, session: Any, factors: list[Any]) -> None:
        """Take a step."""
        session.run(self.train_op, dict(zip(self.factors, numbers(factors), strict=True)))

    def reads(self) -> dict[str, Any]:
        """Return what a state holds, as things that a session runs."""
        slots = {
            f"{key}/{name}": self.inner.get_slot(variable, name)
            for key, variable in self.by_name.items()
            for name in self.inner.get_slot_names()
        }
        ids = {id(slot) for slot in slots.values()}
        extra = [each for each in self.inner.variables() if id(each) not in ids]
        reads = {
            "vars": self.by_name,
            "slots": slots,
            "extra": {each.op.name.rpartition("/")[2]: each for each in extra},
            "gs": self.global_step,
        }
        loss_scale = getattr(self.optimizer, "_loss_scale", None)
        if loss_scale is not None:
            reads["scale"] = loss_scale()
            reads["good"] = getattr(loss_scale, "_num_good_steps", None)
        return {key: value for key, value in reads.items() if value is not None}


def graph_training_of(
    artefact: Artefact, *, scaled: bool = True, make: Callable[..., Any] | None = None
) -> GraphTraining:
    """Build the graph of a v1 spec in the default graph.

    Args:
        artefact: what is replayed.
        scaled: whether to wrap the optimizer.
        make: what creates a variable, from its value and its name; by default a resource variable.
    """
    spec = artefact.spec
    make = make or (lambda value, name: v1.Variable(value, name=name, use_resource=True))
    variables = [make(np.array(entry["v"], np.float32), name=entry["name"]) for entry in spec["vars"]]
    inner = optimizer = make_inner(artefact)
    if scaled:
        scale = spec["loss_scale"]
        scale = mpls.v1.DynamicLossScale(**scale["dynamic"]) if isinstance(scale, dict) else scale
        optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scale)
    global_step = v1.train.get_or_create_global_step()
    factors = [v1.placeholder(tf.float32, []) for _ in variables]
    train_op = optimizer.minimize(loss_of(spec, variables, factors), global_step=global_step)
    return GraphTraining(artefact, variables, inner, optimizer, global_step, factors, train_op)


def assert_state(actual: dict[str, Any], expected: dict[str, Any], *, exact: bool, what: str = "") -> None:
    """Require a state to be the recorded one: counters and scales exactly, floats to the last bit or to 1e-6."""
    assert set(actual) == set(expected), f"{what}: {sorted(actual)} is not {sorted(expected)}"
    for key, want in expected.items():
        got = actual[key]
        if isinstance(want, dict):
            assert_state(got, want, exact=exact, what=f"{what}[{key}]")
        elif isinstance(want, list) and want and isinstance(got, list):
            entries = {str(index): value for index, value in enumerate(want)}
            assert_state(dict(zip(entries, got, strict=True)), entries, exact=exact, what=f"{what}[{key}]")
        elif want is None or isinstance(want, int):
            assert got == want, f"{what}[{key}]: {got!r} is not {want!r}"
        else:
            _assert_floats(np.asarray(got, np.float32), np.asarray(want, np.float32), exact, f"{what}[{key}]")


def _assert_floats(got: np.ndarray, want: np.ndarray, exact: bool, what: str) -> None:
    assert got.shape == want.shape, f"{what}: shape {got.shape} is not {want.shape}"
    if exact:
        assert np.array_equal(got, want), f"{what}: {got!r} is not {want!r}"
    else:
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=0, err_msg=what)
