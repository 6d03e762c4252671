"""A model trained with loss scaling, beside the same model trained without."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.formats.wrapper_state import STATE

from .hosts import Host
from .setups import Setup
from .stages import Factors, Stage

Values = dict[str, list[np.ndarray]]


@dataclasses.dataclass
class State:
    """What a training holds after a step, on all replicas."""

    weights: Values
    slots: Values
    counter: Values
    scale: Values
    good_steps: Values
    # What options add to it.
    extras: Values


class Training:
    """One model and its optimizer, scaled by mpls or bare, in one family and stage.

    Attributes:
        after_first_step: what the first step ever has left, if it was taken on its own.
    """

    after_first_step: State

    def __init__(self, host: Host, stage: Stage, setup: Setup, is_scaled: bool, prefix: str = "") -> None:
        self.host, self.stage, self.setup, self.is_scaled = host, stage, setup, is_scaled
        with stage.scope():
            self.variables = {name: host.make_variable(term, prefix + name) for name, term in setup.model.items()}
            self.inner = host.make_inner(setup.optimizer, setup.clip_norm)
            self.opt = host.wrap(self.inner, setup.scaling) if is_scaled else self.inner
            if stage.devices.forbids_merge_calls or (host.is_built_first and not is_scaled):
                host.build(self.opt, list(self.variables.values()))
            self.counter = host.make_counter(self.inner)
        self._extra_owners = _owners_of_extras(self.opt) if is_scaled else []
        self._initial_extras = {
            name: value for owner in self._extra_owners for name, (value, _) in owner._initial_weights().items()
        }

    @property
    def is_dynamic(self) -> bool:
        return self.setup.scaling.growth_steps is not None

    @property
    def advances_on_skip(self) -> bool:
        """Whether a skipped step advances the counter, as the user has chosen, or as the family does."""
        return bool(self.setup.scaling.options.get("skip_counts_step", self.host.advances_on_skip))

    def _extras(self) -> dict[str, Any]:
        """Return the variables that options add, by name."""
        return {
            name: variable
            for owner in self._extra_owners
            for name, variable in owner._weights_here().items()
            if name not in STATE
        }

    def compile(self) -> None:
        """Make what takes a step; apart from the constructor, so that others can share the stage."""
        with self.stage.scope():
            self._step = self.stage.step(self.replica_step, len(self.setup.terms))

    def replica_step(self, factors: Any) -> Any:
        """Take a step on one replica, or add it to the graph; return its op."""
        host, setup = self.host, self.setup
        loss = setup.loss(self.variables, factors)
        variables = list(self.variables.values())
        if not setup.is_custom_loop:
            return host.minimize(self.opt, loss, variables, self.counter)
        grads = host.gradients(self.opt, loss, variables, self.is_scaled)
        if setup.hides_overflows:
            grads = self._without_overflows(grads)
        elif setup.clip_norm is not None and not host.clips_in_optimizer:
            grads, _ = tf.clip_by_global_norm(grads, setup.clip_norm)
        return host.apply(self.opt, list(zip(grads, variables, strict=True)), self.counter, setup.aggregate)

    def _without_overflows(self, grads: list[Any]) -> list[Any]:
        """Return gradients that are finite, whatever they were, and clipped to the norm."""
        squares = [tf.reduce_sum(tf.square(grad)) for grad in grads if grad is not None]
        norm = self.opt.unscaled_global_norm if self.is_scaled else tf.sqrt(tf.add_n(squares))
        factor = tf.where(tf.math.is_finite(norm), tf.minimum(1.0, self.setup.clip_norm / norm), 1.0)
        return [
            None if grad is None else tf.where(tf.math.is_finite(grad), grad, tf.zeros_like(grad)) * factor
            for grad in grads
        ]

    def change(self, change: Any) -> None:
        """Set the scale to a number, or configure it with settings by name."""
        with self.stage.scope():
            if isinstance(change, dict):
                self.opt.configure(**change, session=self.stage.session)
            else:
                self.opt.set_scale(change, session=self.stage.session)

    def overflows(self) -> dict[str, tuple[int, int]]:
        """Return the overflows of each term of the loss that had any, and the last step with one."""
        with self.stage.scope():
            report = self.opt.overflow_report(self.stage.session)
        return {each.variable.rpartition("/")[2]: (each.count, each.last_step) for each in report}

    def check_skips(self) -> None:
        """Give up, if that is due."""
        with self.stage.scope():
            self.opt.check_skips(self.stage.session)

    def save(self, path: str) -> str:
        """Save in the middle of the training; return the path to restore from."""
        with self.stage.scope():
            return self.stage.save(path, **self._trackables())

    def restore(self, path: str) -> None:
        """Restore before the first step, when an optimizer has hardly created anything yet."""
        with self.stage.scope():
            if not self.stage.creates_at_first_step:
                self.compile()
            self.stage.restore(path, **self._trackables())
            if self.stage.creates_at_first_step:
                self.compile()

    def assert_restored(self) -> None:
        """Require all that was in the checkpoint to have found its place."""
        self.stage.assert_restored()

    def _trackables(self) -> dict[str, Any]:
        return {**self.variables, "optimizer": self.opt, "counter": self.counter}

    def step(self, factors: Factors) -> None:
        self._step(factors)

    def follow(self, factors: Factors, is_applied: bool, advances_on_skip: bool) -> bool:
        """Do with a control what the scaled training must have done; return whether a step was taken."""
        if is_applied:
            self.step(factors)
        elif advances_on_skip:
            (count, *_) = self.stage.read({"counter": self.counter})["counter"]
            self.stage.write(self.counter, count + 1)
        return is_applied

    def slots(self) -> dict[str, Any]:
        return self.host.slots(self.inner, self.variables)

    def reset(self, scale: float | None = None, good_steps: int | None = None) -> None:
        """Put everything back to the start, but for the scale and the count, which are set."""
        with self.stage.scope():
            for name, variable in self.variables.items():
                self.stage.write(variable, self.setup.model[name].values)
            for name, slot in self.slots().items():
                self.stage.write(slot, np.full(slot.shape, self.host.initial_slot(name)))
            self.stage.write(self.counter, 0)
            if scale is not None and self.is_scaled:
                self.stage.write(self.host.scale(self.opt), scale)
                self.stage.write(self.host.good_steps(self.opt), good_steps)
            for name, variable in self._extras().items():
                self.stage.write(variable, self._initial_extras.get(name, np.zeros(variable.shape)))

    def state(self) -> State:
        with self.stage.scope():
            read = {
                "weights": self.variables,
                "slots": self.slots(),
                "counter": {"": self.counter},
                "scale": {"": self.host.scale(self.opt)} if self.is_scaled else {},
                "good_steps": {"": good}
                if self.is_scaled and (good := self.host.good_steps(self.opt)) is not None
                else {},
                "extras": self._extras(),
            }
            flat = {(kind, name): variable for kind, named in read.items() for name, variable in named.items()}
            values = self.stage.read(flat)
        return State(**{kind: {name: values[kind, name] for name in named} for kind, named in read.items()})


def _owners_of_extras(opt: Any) -> list[Any]:
    """Return what has the variables that options add: the loss scale, and the records of steps and overflows."""
    record = opt._record
    return [
        opt._loss_scale,
        *([record] if record else []),
        *([record.overflows] if record and record.overflows else []),
    ]
