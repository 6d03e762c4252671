"""Every recorded trajectory of FixedLossScale and DynamicLossScale, replayed."""

from __future__ import annotations

import builtins
import contextlib
import functools
import json
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import mpls.v1

from . import replay

CASES = replay.load("A_loss_scale")

STEP_MODES = ("eager", "function", "graph", "graph_v2")

# Where mpls differs on purpose: it refuses with a ValueError, or does what the originals did in another mode.
EXCEPTIONS = (
    replay.Differs("A.x.init_inf", STEP_MODES, "ValueError", "an infinite scale never comes down again"),
    replay.Differs("A.x.init_0", STEP_MODES, "ValueError", "a scale of zero makes every gradient 0 / 0"),
    replay.Differs("A.x.multiplier_negative", STEP_MODES, "ValueError", "it turns the sign of the gradients"),
    replay.Differs(
        "A.strategy.update",
        ("strategy:inside.replica",),
        "strategy:inside",
        "update() in a replica context was an AttributeError",
    ),
    replay.Differs(
        "A.strategy.update",
        ("strategy:outside",),
        "strategy:inside",
        "the state belonged to the scope where the object was built, not to that where it is used",
    ),
)


def make(spec: dict[str, Any]) -> Any:
    cls = {"dynamic": mpls.v1.DynamicLossScale, "fixed": mpls.v1.FixedLossScale}[spec["kind"]]
    return cls(**replay.numbers(spec.get("args", {})))


def repetitions(steps: list[Any]) -> Iterator[tuple[int, Any]]:
    """Yield how often, and with which gradients, each recorded row was updated."""
    for step in steps:
        if isinstance(step, dict) and "repeat" in step:
            yield step["repeat"], step["g"]
        else:
            yield 1, step


def state(loss_scale: Any, read: Callable[[Any], Any]) -> list[Any]:
    good_steps = getattr(loss_scale, "_num_good_steps", None)
    return [read(loss_scale()), None if good_steps is None else read(good_steps)]


def run_eager(spec: dict[str, Any], compiled: bool = False) -> list[list[Any]]:
    loss_scale = make(spec)

    def update(grads: Any) -> Any:
        op, should_apply = loss_scale.update(grads)
        with tf.control_dependencies([op] if op is not None else []):
            return tf.convert_to_tensor(should_apply)

    step = tf.function(update) if compiled else update
    rows = []
    for times, literal in repetitions(spec["steps"]):
        grads = replay.tensor(literal)
        for _ in range(times):
            should_apply = step(grads)
        rows.append([*state(loss_scale, lambda tensor: tensor.numpy()), should_apply.numpy()])
    return rows


def run_graph(spec: dict[str, Any], v2: bool = False) -> list[list[Any]]:
    with tf.Graph().as_default(), replay.control_flow(v2), tf.compat.v1.Session() as session:
        loss_scale = make(spec)
        ops: dict[str, Any] = {}
        rows = []
        for times, literal in repetitions(spec["steps"]):
            key = json.dumps(literal)
            if key not in ops:
                op, should_apply = loss_scale.update(replay.tensor(literal))
                with tf.control_dependencies([op]):
                    ops[key] = tf.identity(should_apply)
            rows.append((times, ops[key]))
        session.run(tf.compat.v1.global_variables_initializer())
        tensors = state(loss_scale, tf.convert_to_tensor)
        results = []
        for times, op in rows:
            for _ in range(times):
                should_apply = session.run(op)
            results.append([*(None if t is None else session.run(t) for t in tensors), should_apply])
        return results


DRIVERS: dict[str, Callable[..., Any]] = {
    "eager": run_eager,
    "function": functools.partial(run_eager, compiled=True),
    "graph": run_graph,
    "graph_v2": functools.partial(run_graph, v2=True),
}


RUNS = replay.runs(CASES)
DIFFERENT = {(row.case, mode): row for row in EXCEPTIONS for mode in row.modes}
REFUSED = [run for run, row in DIFFERENT.items() if row.right == "ValueError"]
STRATEGY = [run for run in RUNS if run[1].startswith("strategy:")]
FACTS = [(name, mode, index) for name, mode in RUNS for index in range(len(CASES[name]["spec"].get("facts", ())))]
TRACES = sorted(
    {(name, mode) for name, mode in RUNS if mode in DRIVERS and "steps" in CASES[name]["spec"]} - {*REFUSED}
)


def spread_of(case: dict[str, Any]) -> float:
    """Return by how much runs recorded as one differ: a graph divides by multiplying by the reciprocal."""
    return 1.01 * max(outcome.get("max_rel", 0.0) for outcome in case["outcomes"])


class TraceTest(unittest.TestCase):
    @replay.expand(TRACES)
    @pytest.mark.default_run("each value", by=lambda name, mode: (name.split(".")[1], mode))
    def test_mpls_does_what_was_recorded(self, name: str, mode: str) -> None:
        case = CASES[name]
        expected, rows = replay.recorded(case, mode), DRIVERS[mode](case["spec"])
        self.assertEqual(len(rows), len(expected))
        for index, (row, want) in enumerate(zip(rows, expected, strict=True)):
            what = f"{case['id']} {mode} step {index}"
            replay.assert_close(row[0], want[0], f"{what} scale", rtol=spread_of(case), ulps=0)
            replay.assert_exact(row[1], want[1], f"{what} good steps")
            replay.assert_exact(row[2], want[2], f"{what} should_apply")

    @replay.expand(REFUSED)
    def test_what_destroys_a_run_is_refused(self, name: str, mode: str) -> None:
        scales = [replay.numbers(row[0]) for row in replay.recorded(CASES[name], mode)]
        self.assertFalse(all(0 < scale < float("inf") for scale in scales), DIFFERENT[name, mode].reason)
        with contextlib.ExitStack() as stack:
            if mode in ("graph", "graph_v2"):
                stack.enter_context(tf.Graph().as_default())
            with self.assertRaises(ValueError):
                make(CASES[name]["spec"])

    @replay.expand([("eager",), ("graph",), ("graph_v2",)])
    def test_a_fixed_scale_decides_without_a_tensor(self, mode: str) -> None:
        types = replay.recorded(CASES["A.fixed"], mode, of="metas")["types"]
        with contextlib.nullcontext() if mode == "eager" else tf.Graph().as_default():
            answer = make(CASES["A.fixed"]["spec"]).update([tf.constant(float("nan"))])
        self.assertEqual([type(part).__name__ for part in answer], types)


class StrategyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.strategy = replay.two_replicas()

    def local(self, value: Any) -> list[Any]:
        return [one.numpy() for one in self.strategy.experimental_local_results(value)]

    def update(self, loss_scale: Any, where: str, step: list[Any]) -> list[Any]:
        """Return what each replica, or the cross-replica context, was told."""

        def grads() -> list[Any]:
            return replay.tensor(step[replay.replica_id()])

        def update_in_replica() -> Any:
            return loss_scale.update(grads())[1]

        def update_in_merge() -> Any:
            merge = tf.distribute.get_replica_context().merge_call
            return merge(lambda _, per_replica: loss_scale.update(per_replica)[1], args=(grads(),))

        if where.endswith(".replica"):
            return self.local(self.strategy.run(update_in_replica))
        if where.endswith(".merge"):
            return self.local(self.strategy.run(update_in_merge))
        per_replica = self.strategy.run(grads)
        with self.strategy.scope():
            return self.local(loss_scale.update(per_replica)[1])

    @replay.expand(STRATEGY)
    def test_replicas_agree_as_recorded(self, name: str, mode: str) -> None:
        case = CASES[name]
        exception = DIFFERENT.get((name, mode))
        expected = replay.recorded(case, exception.right if exception else mode)
        with self.strategy.scope() if mode.startswith("strategy:inside") else contextlib.nullcontext():
            loss_scale = make(case["spec"])
        for index, (step, (scales, good_steps, (decision,))) in enumerate(
            zip(case["spec"]["steps"], expected, strict=True)
        ):
            told = self.update(loss_scale, mode, step)
            what = f"{name} {mode} step {index}"
            replay.assert_exact(self.local(loss_scale._current_loss_scale), scales, f"{what} scale")
            replay.assert_exact(self.local(loss_scale._num_good_steps), good_steps, f"{what} good steps")
            self.assertEqual(set(told), {decision}, f"{what} should_apply")


class FactTest(unittest.TestCase):
    @replay.expand(FACTS)
    def test_construction(self, name: str, mode: str, index: int) -> None:
        fact = CASES[name]["spec"]["facts"][index]
        expected = replay.recorded(CASES[name], mode)[index]
        is_raw = fact.get("raw", False)
        args = [value if is_raw else self.decode(value) for value in fact.get("args", [])]
        kwargs = {key: value if is_raw else self.decode(value) for key, value in fact.get("kwargs", {}).items()}
        cls = getattr(mpls.v1, fact["cls"])
        with contextlib.nullcontext() if mode == "eager" else tf.Graph().as_default():
            if replay.is_error(expected):
                with self.assertRaises(getattr(builtins, expected["error"])):
                    cls(*args, **kwargs)
                return
            self.assertEqual(self.describe(cls(*args, **kwargs), with_value=mode == "eager"), expected)

    @staticmethod
    def decode(value: Any) -> Any:
        return replay.tensor(value) if isinstance(value, dict) else replay.numbers(value)

    @staticmethod
    def describe(loss_scale: Any, with_value: bool) -> dict[str, Any]:
        names = ("initial_loss_scale", "increment_period", "multiplier")
        attributes = {name: getattr(loss_scale, name) for name in names if hasattr(loss_scale, name)}
        config = loss_scale.get_config()
        description = {
            "attrs": attributes,
            "attr_types": {name: type(value).__name__ for name, value in attributes.items()},
            "config": config,
            "repr": repr(loss_scale),
            "roundtrip": type(loss_scale).from_config(config).get_config(),
        }
        return {**description, "value": float(loss_scale())} if with_value else description
