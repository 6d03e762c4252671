"""What a recorded spec of MixedPrecisionLossScaleOptimizer describes, and how to run it in each mode."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import tensorflow as tf

import mpls.v1

from . import replay

v1 = tf.compat.v1


def make_custom(api: Any) -> Any:
    class Doubling(api.LossScale):
        def __init__(self) -> None:
            super().__init__()
            self.value = self._add_weight("current_loss_scale", 4.0, tf.float32)

        def __call__(self) -> Any:
            return tf.convert_to_tensor(self.value)

        def update(self, grads: Any) -> tuple[Any, bool]:
            return self.value.assign(self.value * 2.0), True

        def get_config(self) -> dict[str, Any]:
            return {}

    return Doubling()


def make_loss_scale(spec: Any, api: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    ((kind, arguments),) = spec.items()
    if kind == "custom":
        return make_custom(api)
    return {"dynamic": api.DynamicLossScale, "fixed": api.FixedLossScale}[kind](**replay.numbers(arguments))


def make_optimizers(spec: dict[str, Any], api: Any) -> tuple[Any, Any]:
    name, arguments = spec["opt"]
    inner = getattr(v1.train, name)(**arguments)
    loss_scale = make_loss_scale(spec["loss_scale"], api)
    return inner, api.MixedPrecisionLossScaleOptimizer(inner, loss_scale)


def make_variables(spec: dict[str, Any]) -> list[Any]:
    return [
        v1.Variable(
            replay.array({"d": "float32", **variable}),
            name=variable["name"],
            use_resource=variable.get("resource", True),
        )
        for variable in spec["vars"]
    ]


def compute_arguments(spec: dict[str, Any], variables: list[Any]) -> dict[str, Any]:
    arguments = dict(spec.get("compute_kwargs", {}))
    if "grad_loss" in arguments:
        arguments["grad_loss"] = tf.constant(*arguments["grad_loss"])
    if "aggregation_method" in arguments:
        arguments["aggregation_method"] = getattr(tf.AggregationMethod, arguments["aggregation_method"])
    if "var_list" in arguments:
        arguments["var_list"] = [variables[index] for index in arguments["var_list"]]
    return arguments


def uses_minimize(spec: dict[str, Any]) -> bool:
    return spec.get("api", "minimize") == "minimize"


def base_name(variable: Any) -> str:
    return variable.name.partition(":")[0]


@dataclass
class Training:
    """A model, its optimizer and what can be read from them."""

    variables: list[Any]
    inner: Any
    opt: Any
    global_step: Any
    names: dict[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """Return the variables and tensors that a recorded row holds the values of."""
        loss_scale = self.opt._loss_scale
        slots = {
            f"{base_name(variable)}/{name}": slot
            for variable in self.variables
            for name in self.inner.get_slot_names()
            if (slot := self.inner.get_slot(variable, name)) is not None
        }
        # Slots are looked up by identity: reference variables compare element by element.
        slot_ids = {id(slot) for slot in slots.values()}
        extra = [variable for variable in self.inner.variables() if id(variable) not in slot_ids]
        return {
            "vars": {base_name(variable): variable for variable in self.variables},
            "slots": slots,
            "extra": {base_name(variable).rpartition("/")[-1]: variable for variable in extra},
            "scale": loss_scale(),
            "good": getattr(loss_scale, "_num_good_steps", None),
            "gs": self.global_step,
        }

    def describe(self) -> None:
        self.names.update(
            name=self.opt.get_name(),
            slot_names=self.opt.get_slot_names(),
            inner_slot_names=self.inner.get_slot_names(),
            variables=[variable.name for variable in self.opt.variables()],
            slots_found=[
                self.opt.get_slot(variable, name) is self.inner.get_slot(variable, name)
                for variable in self.variables
                for name in self.inner.get_slot_names()
            ],
        )


@dataclass
class Trace:
    rows: list[dict[str, Any]]
    names: dict[str, Any]


def run_graph(spec: dict[str, Any], api: Any = mpls.v1, v2: bool = False) -> Trace:
    with tf.Graph().as_default(), replay.control_flow(v2), v1.Session() as session:
        variables = make_variables(spec)
        inner, opt = make_optimizers(spec, api)
        global_step = v1.train.get_or_create_global_step() if spec.get("global_step", True) else None
        training = Training(variables, inner, opt, global_step)
        factors = [v1.placeholder(tf.float32, []) for _ in variables]
        grads, train_op = build_train_op(spec, training, factors)
        training.describe()
        training.names.update(
            train_op=[type(train_op).__name__, train_op.name],
            train_op_collection=[op.name for op in v1.get_collection(v1.GraphKeys.TRAIN_OP)],
            global_variables=[variable.name for variable in v1.global_variables()],
            inner_variables=[variable.name for variable in inner.variables()],
        )
        state = {key: value for key, value in training.state().items() if value is not None}
        session.run(v1.global_variables_initializer())
        rows = []
        for step in spec["steps"]:
            feed = dict(zip(factors, replay.numbers(step), strict=True))
            row = {} if grads is None else {"grads": session.run(grads, feed)}
            session.run(train_op, feed)
            rows.append({"good": None, "gs": None, **session.run(state), **row})
        return Trace(rows, training.names)


def build_train_op(spec: dict[str, Any], training: Training, factors: list[Any]) -> tuple[list[Any] | None, Any]:
    variables, opt = training.variables, training.opt
    loss = replay.loss_of(spec, variables, factors)
    compute, apply = compute_arguments(spec, variables), spec.get("apply_kwargs", {})
    if uses_minimize(spec):
        return None, opt.minimize(loss, global_step=training.global_step, **compute, **apply)
    grads_and_vars = opt.compute_gradients(loss, **compute)
    training.names["grads"] = replay.describe_gradients([grad for grad, _ in grads_and_vars])
    training.names["grad_vars"] = [base_name(variable) for _, variable in grads_and_vars]
    grads = [tf.convert_to_tensor(grad) for grad, _ in grads_and_vars if grad is not None]
    return grads, opt.apply_gradients(grads_and_vars, global_step=training.global_step, **apply)


def make_eager_global_step(**arguments: Any) -> Any:
    return v1.Variable(0, dtype=tf.int64, name="global_step", use_resource=True, trainable=False, **arguments)


def run_eager(spec: dict[str, Any], api: Any = mpls.v1, compiled: bool = False) -> Trace:
    variables = make_variables(spec)
    inner, opt = make_optimizers(spec, api)
    global_step = make_eager_global_step() if spec.get("global_step", True) else None
    training = Training(variables, inner, opt, global_step)
    arguments = {"var_list": variables, **compute_arguments(spec, variables)}
    apply = spec.get("apply_kwargs", {})

    def train(factors: list[Any]) -> list[Any]:
        def loss() -> Any:
            return replay.loss_of(spec, variables, factors)

        if uses_minimize(spec):
            opt.minimize(loss, global_step=global_step, **arguments, **apply)
            return []
        grads_and_vars = opt.compute_gradients(loss, **arguments)
        training.names["grads"] = replay.describe_gradients([grad for grad, _ in grads_and_vars])
        opt.apply_gradients(grads_and_vars, global_step=global_step, **apply)
        return [tf.convert_to_tensor(grad) for grad, _ in grads_and_vars if grad is not None]

    step_fn = tf.function(train) if compiled else train
    rows = []
    for step in spec["steps"]:
        grads = step_fn([tf.constant(factor, tf.float32) for factor in replay.numbers(step)])
        row = {} if uses_minimize(spec) else {"grads": [grad.numpy() for grad in grads]}
        read = tf.nest.map_structure(lambda value: None if value is None else value.numpy(), training.state())
        rows.append({**read, **row})
    training.describe()
    return Trace(rows, training.names)


DRIVERS: dict[str, Callable[..., Any]] = {
    "eager": run_eager,
    "function": functools.partial(run_eager, compiled=True),
    "graph": run_graph,
    "graph_v2": functools.partial(run_graph, v2=True),
}


def read_replicas(strategy: Any, variables: list[Any], global_step: Any, loss_scale: Any) -> dict[str, Any]:
    """Return what a recorded row holds, with a list over replicas for each variable."""

    def local(variable: Any) -> list[Any]:
        return list(strategy.experimental_local_results(variable))

    is_dynamic = isinstance(loss_scale, mpls.v1.DynamicLossScale)
    return {
        "vars": [local(variable) for variable in variables],
        "gs": local(global_step),
        "scale": local(loss_scale._current_loss_scale) if is_dynamic else loss_scale(),
        "good": local(loss_scale._num_good_steps) if is_dynamic else None,
    }


def run_strategy_eager(spec: dict[str, Any]) -> list[dict[str, Any]]:
    strategy = replay.two_replicas()
    with strategy.scope():
        variables = make_variables(spec)
        _, opt = make_optimizers(spec, mpls.v1)
        global_step = make_eager_global_step(aggregation=v1.VariableAggregation.ONLY_FIRST_REPLICA)
    rows = []
    for step in spec["steps"]:

        def train(step: Any = step) -> None:
            factors = replay.numbers(step[replay.replica_id()])
            opt.minimize(lambda: replay.loss_of(spec, variables, factors), var_list=variables, global_step=global_step)

        strategy.run(train)
        state = read_replicas(strategy, variables, global_step, opt._loss_scale)
        rows.append(tf.nest.map_structure(lambda value: None if value is None else value.numpy(), state))
    return rows


def run_strategy_graph(spec: dict[str, Any], v2: bool = False) -> list[dict[str, Any]]:
    strategy = replay.two_replicas()
    with tf.Graph().as_default(), replay.control_flow(v2):
        with strategy.scope():
            variables = make_variables(spec)
            _, opt = make_optimizers(spec, mpls.v1)
            global_step = v1.train.get_or_create_global_step()
        factors = [[v1.placeholder(tf.float32, []) for _ in variables] for _ in range(2)]

        def train() -> Any:
            loss = replay.loss_of(spec, variables, factors[replay.replica_id()])
            return opt.minimize(loss, var_list=variables, global_step=global_step)

        train_op = tf.group(*strategy.experimental_local_results(strategy.run(train)))
        state = read_replicas(strategy, variables, global_step, opt._loss_scale)
        missing = {key: state.pop(key) for key in list(state) if state[key] is None}
        config = v1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
        with v1.Session(config=config) as session:
            session.run(v1.global_variables_initializer())
            rows = []
            for step in replay.numbers(spec["steps"]):
                session.run(train_op, dict(zip(chain(*factors), chain(*step), strict=True)))
                rows.append({**session.run(state), **missing})
    return rows


STRATEGY_DRIVERS = {
    "strategy:eager": run_strategy_eager,
    "strategy:graph": run_strategy_graph,
    "strategy:graph_v2": functools.partial(run_strategy_graph, v2=True),
}
