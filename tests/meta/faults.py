"""Faults to plant in mpls, one at a time, and the conformance tests that must find each.

They are those that no single change of a line makes: `nox -s mutate` makes the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import mpls.core.dynamic
import mpls.core.gradients
import mpls.core.loss_scale
import mpls.core.replicas
import mpls.core.step
import mpls.keras.keras3
import mpls.keras.tf_keras_family
import mpls.v1.optimizer
from mpls.core.weights import Lock, Weights

# What is replaced: the object, the name of its attribute, and the replacement.
Patch = tuple[Any, str, Any]

# Where building is quick.
V1, V1_GRAPH = "v1_eager_one", "v1_graph_cf1_one"
KERAS = ("keras_legacy_eager_one", "keras_new_eager_one")
KERAS_3, KERAS_3_APPLY = "keras3_eager_one", "keras3_apply_eager_one"
ALL = (V1, V1_GRAPH, *KERAS, KERAS_3)


@dataclasses.dataclass(frozen=True)
class Fault:
    """A defect that somebody could make.

    Attributes:
        name: what is wrong then.
        patches: returns what has to be replaced for it.
        found_by: the conformance tests that fail, each in every one of the cells.
        cells: the cells in which they are run.
    """

    name: str
    patches: Callable[[], list[Patch]]
    found_by: tuple[str, ...]
    cells: tuple[str, ...] = ALL

    @property
    def tests(self) -> list[tuple[str, str]]:
        """The class and the name of each of the tests."""
        return [(f"Test_{cell}", f"test_{test}") for cell in self.cells for test in self.found_by]


_all_finite = mpls.core.gradients.all_finite
_unscale = mpls.core.gradients._unscale


def _finite(check: Callable[[list[Any]], Any]) -> Callable[[], list[Patch]]:
    """Return the fault of another finite check, given a flat list of gradients."""

    def patches() -> list[Patch]:
        def all_finite(grads: Any) -> Any:
            return check([grad for grad in tf.nest.flatten(grads) if grad is not None])

        return [
            (mpls.core.dynamic, "finite_at_once", all_finite),
            (mpls.core.dynamic, "finite_when_summed", all_finite),
        ]

    return patches


def _sums_are_forgotten() -> list[Patch]:
    return [(mpls.core.dynamic, "finite_when_summed", _all_finite)]


def _is_first(grads: list[Any]) -> Any:
    return _all_finite(grads[:1])


def _are_dense(grads: list[Any]) -> Any:
    return _all_finite([grad for grad in grads if not isinstance(grad, tf.IndexedSlices)])


def _on_the_first_replica() -> list[Patch]:
    def agree(vote: Any, grads: Any) -> Any:
        strategy = tf.distribute.get_strategy()
        grads = [grad for grad in tf.nest.flatten(grads) if grad is not None]
        return tf.equal(vote([strategy.experimental_local_results(grad)[0] for grad in grads]), 1.0)

    return [(mpls.core.replicas, "_agree", agree)]


def _unscaled(unscale: Callable[[Any, Any], Any]) -> Callable[[], list[Patch]]:
    """Return the fault of another way to unscale a gradient."""

    def patches() -> list[Patch]:
        def faulty(grads: list[Any], scale: Any) -> list[Any]:
            return [unscale(grad, scale) for grad in grads]

        return [(mpls.core.gradients, "_unscale", unscale), (mpls.core.gradients, "_multiply", faulty)]

    return patches


def _forget_float16(grad: Any, scale: Any) -> Any:
    return grad if grad.dtype == tf.float16 else _unscale(grad, scale)


def _forget_bfloat16(grad: Any, scale: Any) -> Any:
    return grad if grad.dtype == tf.bfloat16 else _unscale(grad, scale)


def _forget_sparse() -> list[Patch]:
    def with_values(grad: Any, values: Any) -> Any:
        return grad if isinstance(grad, tf.IndexedSlices) else values

    return [(mpls.core.gradients, "with_values", with_values)]


def _round_float64(grad: Any, scale: Any) -> Any:
    return tf.cast(_unscale(tf.cast(grad, tf.float32), scale), grad.dtype)


def _multiply_by_the_reciprocal(grad: Any, scale: Any) -> Any:
    return grad * tf.cast(1.0 / scale, grad.dtype)


def _loss_is_not_scaled() -> list[Patch]:
    def scale_loss(loss: Any, scale: Any) -> Any:
        return loss

    return [
        (mpls.core.loss_scale, "scale_loss", scale_loss),
        (mpls.keras.tf_keras_family, "scale_loss", scale_loss),
        (mpls.core.gradients, "scale_loss", scale_loss),
    ]


def _skipped_steps_are_applied() -> list[Patch]:
    def one_of(condition: Any, if_true: Any, if_false: Any) -> Any:
        return mpls.core.step.group(if_true())

    return [(mpls.core.step, "one_of", one_of)]


def _keras_counts_no_skip() -> list[Patch]:
    return [(mpls.keras.tf_keras_family.TfKerasStep, "skip", lambda step: None)]


def _keras_3_counts_skips() -> list[Patch]:
    return [(mpls.keras.keras3.Keras3Step, "skip", lambda step: step.optimizer._iterations.assign_add(1))]


def _keras_3_unscales(always: bool) -> Callable[[], list[Patch]]:
    def patches() -> list[Patch]:
        return [(mpls.keras.keras3.Keras3Adapter, "_begin_step", lambda optimizer, method, variables=(): always)]

    return patches


def _v1_counts_skips() -> list[Patch]:
    return [(mpls.v1.optimizer._InnerStep, "skip", lambda step: step._global_step.assign_add(1))]


def _fixed_scales_skip() -> list[Patch]:
    def update(loss_scale: Any, grads: Any) -> Any:
        return None, _all_finite(grads)

    return [
        (mpls.core.loss_scale.FixedLossScale, "update", update),
        (mpls.v1.optimizer, "never_skips", lambda loss_scale: False),
        (mpls.core.step, "never_skips", lambda loss_scale: False),
    ]


def _scale_is_not_saved() -> list[Patch]:
    def children(loss_scale: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}

    def find(loss_scale: Any, *args: Any, **kwargs: Any) -> None:
        return None

    dynamic = mpls.core.dynamic.DynamicLossScale
    return [(dynamic, "_trackable_children", children), (dynamic, "_lookup_dependency", find)]


def _state_is_touched_before_the_refusal() -> list[Patch]:
    return [(mpls.v1.optimizer, "require_gradient", lambda *_: None)]


def _no_refusal_in_keras() -> list[Patch]:
    def present(pairs: Any) -> list[Any]:
        return [(grad, variable) for grad, variable in pairs if grad is not None]

    return [(mpls.keras.tf_keras_family, "drop_missing_gradients", present)]


def _slots_are_made_when_applied() -> list[Patch]:
    wrapper = mpls.v1.optimizer.MixedPrecisionLossScaleOptimizer
    return [(wrapper, "_create_inner_slots", lambda optimizer, variables: None)]


def _scales_share_their_state() -> list[Patch]:
    shared = Weights()

    def share(loss_scale: Any) -> None:
        loss_scale._variables, loss_scale._lock = shared, Lock()

    return [(mpls.core.loss_scale.LossScale, "__init__", share)]


FAULTS: tuple[Fault, ...] = (
    Fault("only one variable is looked at", _finite(_is_first), ("minimize_inf_at_another_variable",)),
    Fault("sparse gradients are finite", _finite(_are_dense), ("sparse_inf_middle",)),
    Fault(
        "only one replica is looked at",
        _on_the_first_replica,
        ("minimize_nan_on_each_replica_in_turn",),
        ("v1_eager_two", "v1_graph_cf2_two"),
    ),
    Fault(
        "only one replica is looked at, without aggregation",
        _on_the_first_replica,
        ("unaggregated_inf_middle",),
        ("keras_legacy_eager_two", "keras_new_eager_two"),
    ),
    Fault(
        "sums over replicas are not looked at",
        _sums_are_forgotten,
        ("minimize_sum_over_replicas_overflows",),
        ("v1_eager_two",),
    ),
    Fault("float16 is not unscaled", _unscaled(_forget_float16), ("float16_inf_middle",)),
    Fault("bfloat16 is not unscaled", _unscaled(_forget_bfloat16), ("bfloat16_inf_middle",)),
    Fault("float64 is unscaled in float32", _unscaled(_round_float64), ("float64_inf_middle",)),
    Fault("sparse gradients are not unscaled", _forget_sparse, ("sparse_inf_middle",)),
    Fault(
        "unscaling by the reciprocal, which the largest scale flushes to zero",
        _unscaled(_multiply_by_the_reciprocal),
        ("minimize_growth_stops_at_the_largest_float",),
    ),
    Fault("the loss is not scaled", _loss_is_not_scaled, ("minimize_all_finite", "adam_clipped_inf_middle")),
    Fault("skipped steps are applied", _skipped_steps_are_applied, ("minimize_inf_first", "minimize_nan")),
    Fault("iterations stay on a skipped step", _keras_counts_no_skip, ("minimize_inf_first",), KERAS),
    Fault(
        "iterations of Keras 3 advance on a skipped step",
        _keras_3_counts_skips,
        ("minimize_inf_first",),
        (KERAS_3, KERAS_3_APPLY),
    ),
    Fault("Keras 3 unscales twice", _keras_3_unscales(True), ("minimize_all_finite", "minimize_nan"), (KERAS_3,)),
    Fault("Keras 3 never unscales", _keras_3_unscales(False), ("minimize_all_finite",), (KERAS_3_APPLY,)),
    Fault("global_step advances on a skipped step", _v1_counts_skips, ("minimize_inf_first",), (V1, V1_GRAPH)),
    Fault("fixed scales skip", _fixed_scales_skip, ("fixed_nan_goes_through",)),
    Fault(
        "checkpoints lack the scale", _scale_is_not_saved, ("restored_in_the_middle_goes_on_the_same",), (V1, *KERAS)
    ),
    Fault(
        "a refused call has counted the step",
        _state_is_touched_before_the_refusal,
        ("no_gradients_are_refused",),
        (V1,),
    ),
    Fault("no gradients are no error", _no_refusal_in_keras, ("no_gradients_are_refused",), KERAS),
    Fault(
        "slots are missing after a skipped step",
        _slots_are_made_when_applied,
        ("first_step_ever_overflows_adam",),
        (V1,),
    ),
    Fault(
        "two scales share their state",
        _scales_share_their_state,
        ("two_optimizers_do_not_disturb_each_other",),
        # In Keras 3 each wrapper has variables of its own.
        (V1, V1_GRAPH, *KERAS),
    ),
)
