"""Steps: how many there have been, as the source counts and as the target does; and what else follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mpls.errors import SavedStateError
from mpls.formats import algorithms
from mpls.formats.algorithms import ACCUMULATOR
from mpls.formats.record import OptimizerRecord
from mpls.transfer import formulas

_POWERS = {"beta1_power": "beta_1", "beta2_power": "beta_2"}
_PRODUCTS = ("momentum_cache", "m_cache", "u_product")


def steps_of(record: OptimizerRecord, state: str | None, config: Mapping[str, Any], subject: str) -> int | None:
    """Return the number of steps that a record has; None where it does not say and no step depends on it.

    In v1, a step of Adam depends on its beta powers, whatever `global_step` is.

    Args:
        record: the source.
        state: the algorithm.
        config: the target's settings, for those that the record does not say.
        subject: where the record is from, for errors.

    Raises:
        SavedStateError: it does not say, and has to; or it is none that can be.
    """
    found = _steps_of_powers(record, config)
    steps = record.iterations
    if found is not None and (found.is_exact or steps is None):
        steps = found.steps
    if steps is None and state in formulas.COUNTING:
        raise SavedStateError(
            f"{subject}: the source must say how many steps there have been, on which {state} depends; got none. "
            "Save the optimizer's iterations, or tf.compat.v1.train.get_or_create_global_step(), with it; or give the "
            "target the betas of the source. See MIGRATION.md#my-checkpoints"
        )
    if steps is not None and not 0 <= steps < 2**63:
        raise SavedStateError(
            f"{subject}: the number of steps must be from 0 to 2**63; got {steps}. The file is broken: restore an "
            "older one. See MIGRATION.md#my-checkpoints"
        )
    return steps


def _steps_of_powers(record: OptimizerRecord, config: Mapping[str, Any]) -> formulas.Steps | None:
    """Return the steps that the beta powers tell of; None if there are none, or they tell of different numbers."""
    found = []
    for name, value in record.others.items():
        beta = _POWERS.get(name.rpartition("/")[2])
        if beta is not None:
            steps = formulas.steps_of_power(value, float(record.hyperparameters.get(beta, config.get(beta, 0.0))))
            found += [steps] if steps is not None else []
    found.sort(key=lambda steps: not steps.is_exact)
    differ = any(abs(each.steps - found[0].steps) > 2 + found[0].steps // 50 for each in found)
    return found[0] if found and not differ else None


def gradient_steps(record: OptimizerRecord, config: Mapping[str, Any]) -> tuple[int, int]:
    """Return over how many steps source and target accumulate gradients; 1 if they do not.

    A file that does not say, and has accumulated gradients, is taken to do as the target does.
    """
    target = int(config.get("gradient_accumulation_steps") or 1)
    has_gradients = any(
        algorithms.slot_called(None, record.family, name) == ACCUMULATOR
        for variable in record.variables
        for name in variable.slots
    )
    source = record.hyperparameters.get("gradient_accumulation_steps")
    if source is None and has_gradients:
        return target, target
    return int(source or 1), target


def product_of(record: OptimizerRecord, steps: int, config: Mapping[str, Any]) -> tuple[float, bool]:
    """Return Nadam's product of momentums, and whether it had to be computed, as files of new optimizers lack it."""
    for name, value in record.others.items():
        if name.lstrip("_") in _PRODUCTS:
            return float(np.asarray(value)), False
    beta_1 = float(record.hyperparameters.get("beta_1", config.get("beta_1", 0.9)))
    exponent = record.hyperparameters.get("decay", 0.004) if record.family == "legacy" else 1.0
    return formulas.momentum_product(steps, beta_1, float(exponent)), True


def is_product(name: str) -> bool:
    """Return whether other state of this name is Nadam's product."""
    return name.lstrip("_") in _PRODUCTS


def is_power(name: str) -> bool:
    """Return whether other state of this name is one of Adam's powers in v1, which the number of steps stands for."""
    return name.rpartition("/")[2] in _POWERS
