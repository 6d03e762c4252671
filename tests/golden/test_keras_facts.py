"""Recorded facts about the Keras wrappers: attributes, delegation, gradients of every kind, configs, errors, state."""

from __future__ import annotations

import copy
import pathlib
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from parameterized import parameterized

from mpls.errors import without_deprecations

from . import replay
from .keras_replay import (
    DIFFERENCES,
    OURS,
    Difference,
    Subject,
    at,
    error_of,
)

CASES = replay.load("C_keras_facts")

# Gradients that were never scaled are part of the record.
pytestmark = pytest.mark.filterwarnings("ignore::mpls.errors.MplsWarning")

SGD = ["SGD", {"learning_rate": 0.5}]
NAN = float("nan")

Args = dict[str, Any]


def attempt(function: Callable[[], Any]) -> Any:
    """Return what a call returns, or what it raises in the form of the record."""
    try:
        return function()
    except Exception as error:  # A recorded outcome too, compared by its type.
        return error_of(error)


def describe(value: Any) -> Any:
    """Return a value in the form of the record: type, dtype and content."""
    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):
        shape = value.dense_shape
        return {
            "is": {
                "v": value.values.numpy(),
                "i": value.indices.numpy().tolist(),
                "ds": None if shape is None else shape.numpy().tolist(),
                "d": value.dtype.name,
            }
        }
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [describe(entry) for entry in value]}
    if hasattr(value, "numpy"):
        return {"d": tf.as_dtype(value.dtype).name, "v": value.numpy()}
    return {"py": type(value).__name__, "v": value}


def mismatches(actual: Any, expected: Any, path: str = "") -> dict[str, str]:
    """Return where and how a result is not the recorded one."""
    if replay.is_error(expected):
        raised = actual["error"] if replay.is_error(actual) else []
        return {} if expected["error"] in raised else {path: f"{actual} is no {expected['error']}"}
    if isinstance(expected, (dict, list)) and type(actual) is type(expected):
        keys = expected if isinstance(expected, dict) else range(len(expected))
        if len(actual) != len(expected) or (isinstance(expected, dict) and set(actual) != set(expected)):
            return {path: f"{actual} is not {expected}"}
        found: dict[str, str] = {}
        for key in keys:
            found |= mismatches(actual[key], expected[key], f"{path}|{key}" if path else str(key))
        return found
    if replay.is_error(actual):
        return {path: f"{actual} is not {expected}"}
    if isinstance(expected, str) and expected not in ("nan", "inf", "-inf"):
        return {} if actual == expected else {path: f"{actual} is not {expected}"}
    try:
        replay.assert_close(actual, expected, rtol=1e-6)
    except (AssertionError, TypeError, ValueError) as error:
        return {path: str(error)}
    return {}


def make(subject: Subject, args: Args, loss_scale: Any = None) -> tuple[Any, Any]:
    """Return an inner optimizer and its wrapper, as the arguments of a fact name them."""
    inner = subject.inner(*args.get("opt", SGD))
    default = args.get("loss_scale", {"initial": 8, "growth": 2})
    return inner, subject.wrap(inner, loss_scale or default)


def scaled_loss(subject: Subject, args: Args) -> Any:
    _, optimizer = make(subject, args)
    is_keras_3 = subject.family == "keras3"
    scale = optimizer.scale_loss if is_keras_3 else optimizer.get_scaled_loss
    result = {}
    for name, literal in args["losses"].items():

        def of_callable(literal: Any = literal) -> list[Any]:
            scaled = scale(lambda: replay.tensor(literal))
            return [callable(scaled), describe(scaled())]

        result[name] = attempt(lambda literal=literal: describe(scale(replay.tensor(literal))))
        if not is_keras_3:
            result[f"{name}/callable"] = attempt(of_callable)
    return result


def scaled_loss_late_binding(subject: Subject, args: Args) -> Any:
    """Is the scale that a callable uses that of its creation, or that of its call?"""
    _, optimizer = make(subject, args)
    scaled = optimizer.get_scaled_loss(lambda: tf.constant(3.0))
    optimizer.apply_gradients([(tf.constant(NAN), tf.Variable(1.0))])
    return [optimizer.loss_scale.numpy(), describe(scaled())]


def unscaled(subject: Subject, args: Args) -> Any:
    _, optimizer = make(subject, args)
    return {
        name: attempt(lambda grads=grads: describe(optimizer.get_unscaled_gradients(replay.tensor(grads))))
        for name, grads in args["grads"].items()
    }


def attrs(subject: Subject, args: Args) -> Any:
    inner, optimizer = make(subject, args)

    def read(name: str) -> Any:
        value = getattr(optimizer, name)
        if value is inner:
            return "is inner"
        value = value() if callable(value) else value
        return {"py": "NoneType", "v": None} if value is None else describe(value)

    return {name: attempt(lambda name=name: read(name)) for name in args["names"]}


def setattrs(subject: Subject, args: Args) -> Any:
    inner, optimizer = make(subject, args)

    def write(name: str, value: Any) -> list[Any]:
        setattr(optimizer, name, value)
        return [attempt(lambda holder=holder: describe(getattr(holder, name))) for holder in (optimizer, inner)]

    result = {
        f"{name}={value!r}": attempt(lambda name=name, value=value: write(name, value)) for name, value in args["set"]
    }
    shown = {name for name, _ in args["set"]} | {"learning_rate"}
    result["inner_config"] = {name: value for name, value in inner.get_config().items() if name in shown}
    return result


def listed(subject: Subject, args: Args) -> Any:
    _, optimizer = make(subject, args)
    return {name: [name in dir(optimizer), hasattr(optimizer, name)] for name in args["names"]}


def getattr_missing(subject: Subject, args: Args) -> Any:
    _, optimizer = make(subject, args)
    return {name: attempt(lambda name=name: repr(getattr(optimizer, name))) for name in args["names"]}


def schedule(subject: Subject, args: Args) -> Any:
    decay = subject.framework.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    inner, optimizer = make(subject, {"opt": ["SGD", {"learning_rate": decay}]})
    variable, steps = subject.variable(1.0), []
    for grad in replay.numbers(args["grads"]):
        subject.apply(optimizer, [(tf.constant(grad), variable)])
        steps.append([variable.numpy(), inner.iterations.numpy(), subject.state(optimizer)[0]])
    return [steps, type(optimizer.learning_rate).__name__]


def apply_none(subject: Subject, args: Args) -> Any:
    first, second = subject.variable(1.0, "v"), subject.variable(2.0, "u")

    def some_none() -> list[Any]:
        inner, optimizer = make(subject, args)
        subject.apply(optimizer, [(tf.constant(0.5), first), (None, second)])
        return ["True", first.numpy(), second.numpy(), *subject.state(optimizer), inner.iterations.numpy()]

    result = {"some_none": attempt(some_none)}
    for name, pairs in (("all_none", [(None, first), (None, second)]), ("empty", [])):
        inner, optimizer = make(subject, args)
        # Without variables to build it for, it stays as it is.
        subject.build(optimizer, [first, second])
        result[name] = attempt(lambda: subject.apply(optimizer, pairs) is None)  # noqa: B023 - called at once
        result[f"after_{name}"] = [*subject.state(optimizer), inner.iterations.numpy()]
    return result if subject.family == "keras3" else {**result, **more_of_tf_keras(subject, args)}


def more_of_tf_keras(subject: Subject, args: Args) -> dict[str, Any]:
    """Return what else was tried with gradients that are None, and with other forms of pairs."""
    first, second, third, fourth = (tf.Variable(1.0) for _ in range(4))
    half = tf.constant(0.5)

    def fresh(loss_scale: Any = None) -> Any:
        return make(subject, args, loss_scale)[1]

    def applied(pairs: Any, variable: Any) -> list[Any]:
        fresh().apply_gradients(pairs)
        return ["True", variable.numpy()]

    def minimize_some_unused() -> list[Any]:
        is_none = fresh().minimize(lambda: third * 1.0, [fourth, third]) is None
        return [is_none, third.numpy(), fourth.numpy()]

    none = [(None, first), (None, second)]
    return {
        "all_none_fixed": attempt(lambda: fresh({"fixed": 4}).apply_gradients(none) is None),
        "generator": attempt(lambda: applied((pair for pair in [(half, third)]), third)),
        "zip": attempt(lambda: applied(zip([half], [third], strict=True), third)),
        "minimize_unused": attempt(lambda: fresh().minimize(lambda: third * 1.0, [fourth]) is None),
        "minimize_some_unused": attempt(minimize_some_unused),
    }


def apply_return(subject: Subject, args: Args) -> Any:
    _, optimizer = make(subject, args)
    variable = subject.variable(1.0)
    returned = [subject.apply(optimizer, [(tf.constant(grad), variable)]) for grad in (0.5, NAN)]
    return [[type(value).__name__, value.numpy() if hasattr(value, "numpy") else value] for value in returned]


def sparse_apply(subject: Subject, args: Args) -> Any:
    def step(literal: Any) -> list[Any]:
        inner, optimizer = make(subject, args)
        table = subject.variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        subject.apply(optimizer, [(replay.tensor(literal), table)])
        return [table.numpy(), *subject.state(optimizer), inner.iterations.numpy()]

    return {name: attempt(lambda literal=literal: step(literal)) for name, literal in args["grads"].items()}


def config(subject: Subject, args: Args) -> Any:
    _, optimizer = make(subject, args)
    written = optimizer.get_config()

    def roundtrip() -> Any:
        with without_deprecations():
            again = type(optimizer).from_config(copy.deepcopy(written))
        return {
            "same": again.get_config() == written,
            "type": subject.class_name(again),
            "inner": type(again.inner_optimizer).__name__,
            "scale": subject.state(again)[0],
        }

    def after_steps() -> Any:
        variable = subject.variable(1.0)
        for grad in (1.0, 1.0, NAN, NAN):
            subject.apply(optimizer, [(tf.constant(grad), variable)])
        return {"config": optimizer.get_config(), "scale": subject.state(optimizer)[0]}

    return {
        "config": written,
        "roundtrip": attempt(roundtrip),
        "after_steps": attempt(after_steps),
        "serialize": attempt(lambda: serialized_and_back(subject, optimizer)),
    }


def serialized_and_back(subject: Subject, optimizer: Any) -> Any:
    serialized = subject.framework.optimizers.serialize(optimizer)
    with without_deprecations():
        again = subject.framework.optimizers.deserialize(copy.deepcopy(serialized))
    # By which what mpls has written comes back as its own.
    assert serialized["config"]["inner_optimizer"].pop("loss_scale_state", None) is None
    return {"serialized": serialized, "type": subject.class_name(again), "scale": subject.state(again)[0]}


def weights(subject: Subject, args: Args) -> Any:
    inner, optimizer = make(subject, args)
    variable = subject.variable([1.0, 2.0], "v")

    def snapshot() -> Any:
        if not subject.is_legacy:
            return {
                "variables": [getattr(held, "path", held.name) for held in optimizer.variables],
                "values": [held.numpy() for held in optimizer.variables],
            }
        return {
            "variables": [held.name for held in optimizer.variables()],
            "weights": [held.name for held in optimizer.weights],
            "get_weights": optimizer.get_weights(),
        }

    result = {"before": snapshot()}
    subject.apply(optimizer, [(tf.constant([0.5, 0.25]), variable)])
    result["after"] = snapshot()
    if not subject.is_legacy:
        return result

    def set_weights() -> Any:
        optimizer.set_weights([weight * 0 + 3 for weight in optimizer.get_weights()])
        return [optimizer.get_weights(), inner.iterations.numpy(), *subject.state(optimizer)]

    def add_slot() -> Any:
        slot = optimizer.add_slot(variable, "extra", "ones")
        names = (optimizer.get_slot_names(), inner.get_slot_names())
        return [slot.name, slot.numpy(), *("extra" in held for held in names)]

    momentum = optimizer.get_slot_names()[0]
    result["set_weights"] = attempt(set_weights)
    result["set_weights_bad"] = attempt(lambda: optimizer.set_weights([1]))
    result["get_slot"] = attempt(lambda: optimizer.get_slot(variable, momentum).numpy())
    result["get_slot_same"] = optimizer.get_slot(variable, momentum) is inner.get_slot(variable, momentum)
    result["add_slot"] = attempt(add_slot)
    result["slot_names"] = optimizer.get_slot_names()
    return result


def iterations(subject: Subject, args: Args) -> Any:
    def assigned() -> Any:
        inner, optimizer = make(subject, args)
        return [optimizer.iterations.assign(5) is not None, inner.iterations.numpy()]

    def replaced(after_creation: bool) -> Any:
        inner, optimizer = make(subject, args)
        if after_creation:
            optimizer.iterations  # noqa: B018 - reading it creates it
        optimizer.iterations = tf.Variable(7, dtype=tf.int64, name="it")
        return inner.iterations.numpy()

    inner, optimizer = make(subject, args)
    return {
        "same": optimizer.iterations is inner.iterations,
        "assign": attempt(assigned),
        "set_before": attempt(lambda: replaced(after_creation=False)),
        "set_after": attempt(lambda: replaced(after_creation=True)),
    }


def clip_on_wrapper(subject: Subject, args: Args) -> Any:
    """Set a clip attribute on the wrapper, or on the inner optimizer, and take a large step."""

    def step(attribute: str, value: float, on_wrapper: bool) -> Any:
        inner, optimizer = make(subject, args)
        vector, scalar = subject.variable([1.0, 2.0], "v"), subject.variable(3.0, "u")
        setattr(optimizer if on_wrapper else inner, attribute, value)
        subject.apply(optimizer, [(tf.constant([3.0, 4.0]), vector), (tf.constant(12.0), scalar)])
        return {
            "v": vector.numpy(),
            "u": scalar.numpy(),
            "wrapper": attempt(lambda: getattr(optimizer, attribute)),
            "inner": attempt(lambda: getattr(inner, attribute)),
        }

    return {
        f"{attribute}/{where}": attempt(
            lambda attribute=attribute, value=value, where=where: step(attribute, value, where == "wrapper")
        )
        for attribute, value in args["set"]
        for where in ("wrapper", "inner")
    }


def checkpoint_names(subject: Subject, args: Args) -> Any:
    _, optimizer = make(subject, args)
    variable = subject.variable([1.0, 2.0], "v")
    subject.apply(optimizer, [(tf.constant([0.5, 0.25]), variable)])
    with tempfile.TemporaryDirectory() as directory:
        path = tf.train.Checkpoint(v=variable, opt=optimizer).save(str(pathlib.Path(directory) / "c"))
        return sorted(key for key, _ in tf.train.list_variables(path) if key != "_CHECKPOINTABLE_OBJECT_GRAPH")


def in_new_graph(function: Callable[[], list[Any]]) -> list[Any]:
    """Return the values of what a function builds in a graph; each list in it runs before the next."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        *steps, fetches = function()
        session.run(tf.compat.v1.global_variables_initializer())
        for step in steps:
            session.run(step)
        return session.run(fetches)


def get_gradients(subject: Subject, args: Args) -> Any:
    def build() -> list[Any]:
        _, optimizer = make(subject, args)
        variable = tf.compat.v1.Variable(2.0, use_resource=True)
        return [optimizer.get_gradients(variable * variable * 3.0, [variable])]

    return in_new_graph(build) if subject.is_legacy else "n/a"


def get_updates(subject: Subject, args: Args) -> Any:
    def build() -> list[Any]:
        _, optimizer = make(subject, args)
        variable = tf.compat.v1.Variable(2.0, use_resource=True)
        updates = optimizer.get_updates(variable * variable * 3.0, [variable])
        state = (variable, optimizer.dynamic_counter, optimizer.iterations)
        return [updates, [tf.identity(held) for held in state]]

    return in_new_graph(build) if subject.is_legacy else "n/a"


def cross_replica(subject: Subject, args: Args) -> Any:
    with replay.two_replicas().scope():
        _, optimizer = make(subject, args)
        variable = subject.variable(1.0)
        subject.build(optimizer, [variable])
        return attempt(lambda: optimizer.apply_gradients([(tf.constant(1.0), variable)]))


# tests/artefacts/test_configs.py replays recorded configs, tests/api constructors and base classes, tests/keras copies.
FACTS: dict[str, Callable[[Subject, Args], Any]] = {
    "dir": listed,
    **{
        fact.__name__: fact
        for fact in (
            apply_none,
            apply_return,
            attrs,
            checkpoint_names,
            clip_on_wrapper,
            config,
            cross_replica,
            get_gradients,
            get_updates,
            getattr_missing,
            iterations,
            scaled_loss,
            scaled_loss_late_binding,
            schedule,
            setattrs,
            sparse_apply,
            unscaled,
            weights,
        )
    },
}


def expected_of(case_id: str, subject: Subject) -> Any:
    """Return the recorded result, without what was not the wrapper's doing."""
    case = CASES[case_id]
    expected = copy.deepcopy(replay.recorded_as(case, subject.release))
    for path in NOT_THE_WRAPPERS.get(case["spec"]["fact"], ()):
        remove(expected, path)
    return as_of_today(expected) if subject.is_experimental else expected


# What the record holds beside the wrapper's own doing, by fact: where, with the reason beside it.
NOT_THE_WRAPPERS: dict[str, tuple[str, ...]] = {
    # The module is mpls's own.
    "config": ("serialize|serialized|module",),
    # An error of the recording script, which read the string as a number.
    "setattrs": ("_name='x'",),
}


def remove(result: Any, path: str) -> None:
    *parents, last = path.split("|")
    for key in parents:
        result = result.get(key, {})
    result.pop(last, None)


def as_of_today(expected: Any) -> Any:
    """Return a record of TensorFlow 2.8 in terms of tf_keras: configs without modules, classes by their new names."""
    if isinstance(expected, dict):
        return {key: as_of_today(entry) for key, entry in expected.items() if key not in ("module", "registered_name")}
    if isinstance(expected, list):
        return [as_of_today(entry) for entry in expected]
    is_old_name = isinstance(expected, str) and expected == "LossScaleOptimizerV1"
    return "LossScaleOptimizer" if is_old_name else expected


def result_of(case_id: str, subject: Subject) -> Any:
    spec = CASES[case_id]["spec"]
    result = attempt(lambda: FACTS[spec["fact"]](subject, spec.get("args", {})))
    for path in NOT_THE_WRAPPERS.get(spec["fact"], ()):
        remove(result, path)
    return as_of_today(result) if subject.is_experimental else result


def ours_of(difference: Difference, subject: Subject) -> Any:
    """Return what mpls must give at a deliberate difference."""
    if difference.follows is None:
        return difference.ours
    ours = at(replay.recorded_as(CASES[difference.case], difference.follows), difference.path)
    return as_of_today(ours) if subject.is_experimental else ours


def is_under(path: str, parent: str) -> bool:
    """Return whether a path is another, or inside it."""
    return f"{path}|".startswith(f"{parent}|")


def assert_as_recorded(actual: Any, expected: Any, declared: dict[str, Any]) -> None:
    """Require a result to be the recorded one but for the declared paths, which must differ and have these values."""
    found = mismatches(actual, expected)
    unexpected = {path: text for path, text in found.items() if not any(is_under(path, each) for each in declared)}
    assert not unexpected, unexpected
    for path, ours in declared.items():
        assert any(is_under(each, path) for each in found), f"{path} is as recorded: {at(expected, path)}"
        assert not mismatches(at(actual, path), ours), f"{path} is {at(actual, path)}"


class RecordedFactsTest(unittest.TestCase):
    @parameterized.expand(
        [(case_id, subject) for case_id, case in CASES.items() if case["spec"]["fact"] in FACTS for subject in OURS],
        name_func=replay.named,
    )
    def test_it_is_as_recorded(self, case_id: str, subject: Subject) -> None:
        declared = {
            difference.path: ours_of(difference, subject)
            for difference in DIFFERENCES
            if difference.case == case_id and subject.name in difference.subjects
        }
        assert_as_recorded(result_of(case_id, subject), expected_of(case_id, subject), declared)
