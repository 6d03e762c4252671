"""A program that trains in a v1 graph, on two workers that share the variables of a parameter server; run by a test.

Usage: between_graph_training.py CASE... --task (ps | worker):INDEX

The workers train the named cases one after the other, and say for each what they saw after each step.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import _cluster
import tensorflow as tf

import mpls.v1

v1: Any = tf.compat.v1
parameter_server = v1.train.replica_device_setter

WORKERS = 2
INF, NAN = math.inf, math.nan

# For each step, the factors of the loss on the two workers.
STEPS = (
    (1, 1),
    (2, 1),
    (1, INF),
    (NAN, 1),
    (INF, INF),
    (1, -INF),
    (1, NAN),
    (1, 0.5),
    (0.5, 1),
    (1, 1),
    (1, INF),
)
FINITE_STEPS = tuple(factors for factors in STEPS if all(map(math.isfinite, factors)))
OVERFLOWS_FIRST = (*[(1, INF)] * 6, *[(1, 1)] * 1000)


@dataclasses.dataclass(frozen=True)
class Case:
    """What is trained.

    Attributes:
        order: `bare`, `outside` (SyncReplicasOptimizer around the loss scaling), `inside` (in it), `asynchronous`
            (without it), or `overtaken` (without it, the second worker's step in the middle of the first one's).
        factors: those of the loss on the workers at each step, until `last_step` is reached.
        last_step: the global step at which to stop; a worker may then find that the other has stopped before.
        replicas_to_aggregate: how many gradients make a step.
        tokens: how many steps workers may be ahead. With none, a step is over when it is for all workers.
        has_resources: whether all variables are resource variables.
        has_control_flow_v2: whether TensorFlow's second control flow is on.
    """

    order: str
    factors: tuple[tuple[float, float], ...] = STEPS
    last_step: float = INF
    replicas_to_aggregate: int = WORKERS
    tokens: int = 0
    has_resources: bool = True
    has_control_flow_v2: bool = False


CASES = {
    "bare": Case("bare", FINITE_STEPS),
    "bare-references": Case("bare", FINITE_STEPS, has_resources=False),
    "outside": Case("outside"),
    "outside-references": Case("outside", has_resources=False),
    "outside-control-flow-v2": Case("outside", has_control_flow_v2=True),
    "inside": Case("inside"),
    "inside-references": Case("inside", has_resources=False),
    "inside-control-flow-v2": Case("inside", has_control_flow_v2=True),
    "outside-tokens": Case("outside", OVERFLOWS_FIRST, last_step=12, tokens=2),
    "inside-tokens": Case("inside", OVERFLOWS_FIRST, last_step=12, tokens=2),
    "outside-backup-worker": Case("outside", OVERFLOWS_FIRST, last_step=12, replicas_to_aggregate=1),
    "inside-two-batches": Case("inside", OVERFLOWS_FIRST, last_step=12, replicas_to_aggregate=4, tokens=4),
    "overtaken": Case("overtaken", ((1, INF),)),
    "asynchronous": Case("asynchronous", (*STEPS, *STEPS, *[(1, 1)] * 20)),
}


class Training:
    """A case, as one of the workers sees it."""

    def __init__(self, name: str, case: Case, worker: int, server: Any, cluster: Any) -> None:
        self._case, self._worker, self._server = case, worker, server
        (v1.enable_resource_variables if case.has_resources else v1.disable_resource_variables)()
        (v1.enable_control_flow_v2 if case.has_control_flow_v2 else v1.disable_control_flow_v2)()
        self._graph = tf.Graph()
        # What is on the parameter server outlives sessions: each case has its own, under a name without underscores.
        with self._graph.as_default(), self._graph.container(name), v1.device(parameter_server(cluster=cluster)):
            self._build()

    def _build(self) -> None:
        self._factor = v1.placeholder(tf.float32, [])
        dense = v1.get_variable("dense", initializer=[1.0, -0.3])
        rows = v1.get_variable("rows", initializer=[[0.9], [0.5], [-0.4]])
        global_step = v1.train.get_or_create_global_step()
        looked_up = tf.nn.embedding_lookup(rows, [0, 2, 2])
        loss = self._factor * (tf.reduce_sum((dense - 0.7) ** 2) + tf.reduce_sum((looked_up - 0.1) ** 2))
        with tf.device(global_step.device):
            arrivals = tf.queue.FIFOQueue(-1, tf.int32, (), shared_name="arrivals")
            signal = tf.queue.FIFOQueue(-1, tf.float32, (), shared_name="signal")
        self._arrive, self._arrived, self._send_signal = arrivals.enqueue(0), arrivals.size(), signal.enqueue(1.0)
        if self._case.order == "overtaken" and self._worker == 0:
            # There are no gradients before the signal.
            loss *= tf.stop_gradient(signal.dequeue())

        opt = v1.train.MomentumOptimizer(0.125, 0.5)
        scale = mpls.v1.DynamicLossScale(8, 2)
        wrapped = self._wrapped(opt, scale)
        self._train_op = wrapped.minimize(loss, global_step=global_step)
        self.slots = wrapped.get_slot_names()
        variables = {
            "scale": scale._current_loss_scale,
            "good_steps": scale._num_good_steps,
            "global_step": global_step,
            "dense": dense,
            "rows": rows,
            "slot of dense": opt.get_slot(dense, "momentum"),
            "slot of rows": opt.get_slot(rows, "momentum"),
        }
        self.devices = {name: variable.device for name, variable in variables.items()}
        self._state = {name: tf.identity(variable) for name, variable in variables.items()}
        self._uninitialized = v1.report_uninitialized_variables(v1.global_variables())

    def _wrapped(self, opt: Any, scale: Any) -> Any:
        scaled = mpls.v1.MixedPrecisionLossScaleOptimizer
        if self._is_asynchronous:
            return scaled(opt, scale)
        self._sync = v1.train.SyncReplicasOptimizer(
            scaled(opt, scale) if self._case.order == "outside" else opt,
            replicas_to_aggregate=self._case.replicas_to_aggregate,
            total_num_replicas=WORKERS,
        )
        return scaled(self._sync, scale) if self._case.order == "inside" else self._sync

    @property
    def _is_asynchronous(self) -> bool:
        return self._case.order in ("asynchronous", "overtaken")

    def run(self) -> dict[str, Any]:
        """Return the state after each step that this worker has taken part in, and whether it had to wait for ever."""
        steps: list[dict[str, Any]] = []
        with self._graph.as_default():
            session = self._session()
            self._meet(session, 1)
            try:
                if self._case.order == "overtaken":
                    self._overtake(session)
                else:
                    for factor in self._factors(session):
                        session.run(self._train_op, {self._factor: factor})
                        steps.append(self._read(session))
            except tf.errors.DeadlineExceededError:
                return {"steps": steps, "is_stuck": True}
            except tf.errors.OutOfRangeError:
                # The chief has ended, because it was done or because it had to wait.
                return {"steps": steps, "is_stuck": self._case.last_step == INF}
            if self._is_asynchronous:
                self._meet(session, 2)
                steps.append(self._read(session))
            session.close()
        return {"steps": steps, "is_stuck": False}

    def _overtake(self, session: Any) -> None:
        """Take the second worker's step while the first worker is in the middle of its own."""
        feed = {self._factor: self._case.factors[0][self._worker]}
        if self._worker == 0:
            session.run(self._train_op, feed)
        else:
            time.sleep(0.5)
            session.run(self._train_op, feed)
            session.run(self._send_signal)

    def _meet(self, session: Any, number: int) -> None:
        """Wait until all workers have called it this often."""
        session.run(self._arrive)
        while session.run(self._arrived) < number * WORKERS:
            time.sleep(0.02)

    def _session(self) -> Any:
        is_chief = self._worker == 0
        config = v1.ConfigProto(
            device_filters=["/job:ps", f"/job:worker/task:{self._worker}"],
            operation_timeout_in_ms=60_000,
        )
        hooks = []
        if not self._is_asynchronous:
            hooks.append(self._sync.make_session_run_hook(is_chief, num_tokens=self._case.tokens))
        if not is_chief:
            # A MonitoredTrainingSession that finds the chief not ready looks again after 30 seconds.
            with v1.Session(self._server.target, config=config) as session:
                while session.run(self._uninitialized).size:
                    time.sleep(0.05)
        return v1.train.MonitoredTrainingSession(
            self._server.target, is_chief, hooks=hooks, config=config, stop_grace_period_secs=0
        )

    def _factors(self, session: Any) -> Iterator[float]:
        for factors in self._case.factors:
            if self._read(session)["global_step"] >= self._case.last_step:
                return
            yield factors[self._worker]

    def _read(self, session: Any) -> dict[str, Any]:
        return {name: value.tolist() for name, value in session.run(self._state).items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--task", type=_cluster.Task.parse, required=True)
    arguments = parser.parse_args()
    v1.disable_v2_behavior()
    warnings.simplefilter("error", mpls.errors.MplsWarning)
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    server = v1.train.Server(cluster, job_name=arguments.task.job, task_index=arguments.task.index)
    if arguments.task.job == "ps":
        server.join()
    for name in arguments.cases:
        training = Training(name, CASES[name], arguments.task.index, server, cluster)
        outcome = training.run()
        _cluster.say(case=name, devices=training.devices, slots=training.slots, **outcome)


if __name__ == "__main__":
    with _cluster.member():
        main()
