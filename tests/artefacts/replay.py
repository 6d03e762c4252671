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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

import mpls
import mpls.errors
import mpls.experimental
import mpls.keras
import mpls.v1
from tests.golden import v1_replay
from tests.golden.keras_replay import Keras3Subject, Subject, slots_of
from tests.golden.replay import assert_close, numbers

v1 = tf.compat.v1

DATA = pathlib.Path(__file__).parent / "data" / "artefacts"
RELEASES = {"tf115": "1.15", "tf215": "2.15", "tf21": "2.21"}
SUBJECTS = {
    "exp": Subject("experimental", "legacy", ""),
    "lso2": Subject("keras", "legacy", ""),
    "lso3": Subject("keras", "new", ""),
    "k3": Keras3Subject("keras", "keras3", ""),
}


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
    def path(self) -> str:
        """What a user would name: a checkpoint's prefix, a file or a folder."""
        return str(self.folder / (self.expected.get("prefix") or self.expected["path"]))

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
        return "v1" if self.flavour == "" else SUBJECTS[self.flavour].family

    @property
    def subject(self) -> Subject:
        """The class of wrappers over the family of a Keras optimizer."""
        return SUBJECTS[self.flavour]

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
        optimizer: the wrapper.
        inner: the optimizer without loss scaling.
    """

    artefact: Artefact
    variables: list[Any]
    optimizer: Any
    inner: Any

    def step(self, factors: list[Any]) -> None:
        """Take a step, with a factor of the loss for each variable."""
        values = [tf.constant(numbers(factor), tf.float32) for factor in factors]
        self.artefact.subject.take_step(self.optimizer, self.artefact.spec, self.variables, values)

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
        found = slots_of(self.artefact.subject, self.optimizer, self.variables)
        slots = {key: variable.numpy() for key, variable in found.items()}
        return slots if self.artefact.family == "legacy" else list(slots.values())

    def values(self) -> dict[str, Any]:
        """Return the state in the form of the record."""
        counter = self.optimizer.dynamic_counter
        return {
            "vars": {name: variable.numpy() for name, variable in self.by_name.items()},
            "slots": self.slots(),
            "scale": float(scale_of(self.optimizer)),
            "good": None if counter is None else int(counter.numpy()),
            "iter": int(self.inner.iterations.numpy()),
        }


def scale_of(optimizer: Any) -> Any:
    """Return the current loss scale, of a wrapper of any release."""
    scale = optimizer.loss_scale
    return scale() if callable(scale) else scale


def recorded_state(artefact: Artefact, state: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded state, as `values` of a training returns one."""
    state = numbers(state)
    if artefact.family in ("new", "keras3"):
        slots = sorted(state["slots"].items(), key=lambda item: int(item[0].partition(":")[0]))
        state["slots"] = [value for _, value in slots]
    return dict(state)


def make_variable(artefact: Artefact, index: int) -> Any:
    """Create a variable of the spec."""
    return artefact.subject.make_variables({"vars": [artefact.spec["vars"][index]]})[0]


def make_inner(artefact: Artefact) -> Any:
    """Create the optimizer of the spec, without loss scaling."""
    name, arguments = artefact.spec["opt"]
    return getattr(v1.train, name)(**arguments) if artefact.family == "v1" else artefact.subject.inner(name, arguments)


def training_of(artefact: Artefact, *, variables: int | None = None) -> Training:
    """Return variables, the first few or all, and a wrapper, none of them trained."""
    made = [make_variable(artefact, index) for index in range(len(artefact.spec["vars"][:variables]))]
    inner = make_inner(artefact)
    is_old = artefact.flavour == "exp"
    with mpls.install(as_of=artefact.release) if is_old else contextlib.nullcontext():
        return Training(artefact, made, artefact.subject.wrap(inner, artefact.spec["loss_scale"]), inner)


class GraphTraining(v1_replay.Training):
    """A v1 graph with an optimizer, as a spec has it, built in the default graph.

    Args:
        artefact: what is replayed.
        scaled: whether to wrap the optimizer.
        make: what creates a variable, from its value and its name; by default a resource variable.
    """

    def __init__(self, artefact: Artefact, *, scaled: bool = True, make: Callable[..., Any] | None = None) -> None:
        self.artefact, spec = artefact, artefact.spec
        make = make or (lambda value, name: v1.Variable(value, name=name, use_resource=True))
        variables = [make(np.array(entry["v"], np.float32), name=entry["name"]) for entry in spec["vars"]]
        inner, opt = v1_replay.make_optimizers(spec, mpls.v1) if scaled else (make_inner(artefact),) * 2
        super().__init__(variables, inner, opt, v1.train.get_or_create_global_step())
        self.factors = [v1.placeholder(tf.float32, []) for _ in variables]
        _, self.train_op = v1_replay.build_train_op(spec, self, self.factors)

    @property
    def by_name(self) -> dict[str, Any]:
        return {v1_replay.base_name(variable): variable for variable in self.variables}

    def step(self, factors: list[Any]) -> None:
        """Take a step in the session of the block."""
        v1.get_default_session().run(self.train_op, dict(zip(self.factors, numbers(factors), strict=True)))

    def values(self) -> dict[str, Any]:
        """Return the state in the form of the record."""
        reads = {key: value for key, value in self.state().items() if value is not None}
        return {"good": None, **v1.get_default_session().run(reads)}


def assert_state(actual: Any, expected: Any, *, exact: bool, what: str = "") -> None:
    """Require a state to be the recorded one: counters and scales exactly, floats to the last bit or to 1e-6."""
    assert_close(actual, expected, what, rtol=0.0 if exact else 1e-6, ulps=0)


def assert_goes_on(training: Training | GraphTraining) -> None:
    """Require the state to be the recorded one, and the next five steps too."""
    artefact = training.artefact
    assert_state(training.values(), recorded_state(artefact, artefact.expected["state"]), exact=True, what="state")
    for index, factors in enumerate(artefact.spec["post"]):
        training.step(factors)
        expected = recorded_state(artefact, artefact.expected["next"][index])
        assert_state(training.values(), expected, exact=artefact.is_exact, what=f"step {index}")
