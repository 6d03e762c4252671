"""What mpls has beyond the originals, in typed programs: bounds, counters, overflows, clipping and giving up."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import tensorflow as tf
import tf_keras

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.monitor
import mpls.v1

weight = tf.Variable(tf.constant(1.0), name="weight")
bounded = mpls.keras.LossScaleOptimizer(
    tf_keras.optimizers.legacy.SGD(0.1),
    initial_scale=2.0**10,
    min_scale=0.5,
    max_scale=np.float32(2.0**20),
    growth_factor=4,
    backoff_factor=0.25,
    hysteresis=2,
    consecutive_hysteresis=True,
    adjustable=True,
)
bounded.minimize(lambda: weight**2, [weight])
bounded.set_scale(8)
bounded.configure(growth_steps=500, growth_factor=2, backoff_factor=0.5, min_scale=1, max_scale=2**16, hysteresis=1)
bounded.max_scale = 2.0**15

how: Literal["raise", "warn"] = "raise"
skips: bool | None = None
watched = mpls.keras.LossScaleOptimizer(
    tf_keras.optimizers.SGD(0.1),
    count_steps=True,
    skip_counts_step=skips,
    track_overflows=True,
    max_consecutive_skips=10,
    on_give_up=how,
    check_unscaled=True,
)
watched.build([weight])
with tf.GradientTape() as tape:
    scaled_loss = watched.get_scaled_loss(weight * float("inf"))
grads = watched.get_unscaled_gradients(tape.gradient(scaled_loss, [weight]))
grads, norm = tf.clip_by_global_norm(grads, 1.0, use_norm=watched.unscaled_global_norm)
watched.apply_gradients(zip(grads, [weight]))
watched.check_skips()
counts: tuple[int, int, int] = (
    int(watched.applied_steps),
    int(watched.skipped_steps),
    int(watched.consecutive_skips),
)
assert not bool(watched.last_step_applied)
report = watched.overflow_report()
worst = report[0]
times: tuple[int, int] = (worst.count, worst.last_step)

# What is called instead of raising is told what is known.
scales: list[float] = []
stopping = mpls.keras.LossScaleOptimizer(
    tf_keras.optimizers.legacy.SGD(0.1),
    max_consecutive_skips=np.int64(1),
    on_give_up=lambda stuck: scales.extend(stuck.recent_scales[: stuck.nonfinite_losses]),
)


def lower(stuck: mpls.monitor.Stuck) -> None:
    print(min(stuck.recent_scales))


lowering: Callable[[mpls.monitor.Stuck], None] = lower
lowered = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), max_consecutive_skips=3, on_give_up=lowering)

fixed = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), False, 128, skip_nonfinite=True, count_steps=True)

dynamic = mpls.v1.DynamicLossScale(2.0**10, min_scale=2.0**-4, max_scale=2**16, hysteresis=3, adjustable=True)
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    variable = tf.compat.v1.get_variable("variable", initializer=1.0)
    scale = mpls.v1.DynamicLossScale(adjustable=True)
    inner = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    counting = mpls.v1.MixedPrecisionLossScaleOptimizer(
        inner, scale, track_overflows=True, max_consecutive_skips=5, on_give_up="warn"
    )
    counting.minimize(variable**2)
    scale.set_scale(64, session=session)
    scale.configure(max_scale=128, session=session)
    assert counting.overflow_report(session) == ()
    counting.check_skips(session)
    state: dict[str, Any] = counting.state_dict(session)

needed: Literal["auto"] | bool = "auto"
switched = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), enabled=needed)
is_on: bool = switched.enabled
off = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, dynamic, enabled=is_on)

start: Literal["auto"] | float = "auto"
searching = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), initial_scale=start, max_scale=2**20)
number: float = searching.initial_scale

silent = mpls.v1.FixedLossScale(8, skip_nonfinite=True)
manager = mpls.contrib.ExponentialUpdateLossScaleManager(16, 3)
old = mpls.contrib.LossScaleOptimizer(
    inner, manager, count_steps=True, max_consecutive_skips=5, on_give_up=lower, check_unscaled=True, enabled=False
)
older = mpls.experimental.LossScaleOptimizer(
    tf_keras.optimizers.legacy.SGD(),
    mpls.experimental.DynamicLossScale(8, 2000, 2.0, min_scale=1),
    count_steps=True,
    skip_counts_step=False,
    track_overflows=False,
    check_unscaled=False,
    enabled="auto",
)
