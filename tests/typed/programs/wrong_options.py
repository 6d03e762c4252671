"""Wrong use of what mpls has beyond the originals."""

import tensorflow as tf
import tf_keras

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.monitor
import mpls.v1

sgd = tf_keras.optimizers.SGD()
mpls.keras.LossScaleOptimizer(sgd, min_scale="1")  # error: arg-type | reportArgumentType
mpls.keras.LossScaleOptimizer(sgd, initial_scale="high")  # error: arg-type | reportArgumentType
mpls.keras.LossScaleOptimizer(sgd, skip_counts_step="no")  # error: arg-type | reportArgumentType
mpls.keras.LossScaleOptimizer(sgd, on_give_up="stop")  # error: arg-type | reportArgumentType
mpls.keras.LossScaleOptimizer(sgd, on_give_up=lambda: None)  # error: arg-type, misc | reportArgumentType
mpls.keras.LossScaleOptimizer(sgd, on_give_up=lambda it: it.name)  # error: attr-defined | reportAttributeAccessIssue
mpls.keras.LossScaleOptimizer(sgd, enabled="no")  # error: arg-type | reportArgumentType
mpls.keras.LossScaleOptimizer(sgd, count_step=True)  # error: call-arg | reportCallIssue

opt = mpls.keras.LossScaleOptimizer(sgd, adjustable=True, track_overflows=True)
opt.enabled = False  # error: assignment | reportAttributeAccessIssue
opt.configure(initial_scale=8)  # error: call-arg | reportCallIssue
count: str = opt.overflow_report()[0].count  # error: assignment | reportAssignmentType
print(opt.overflow_report()[0].nonsense)  # error: attr-defined | reportAttributeAccessIssue

v1_sgd = tf.compat.v1.train.GradientDescentOptimizer(0.1)
mpls.v1.DynamicLossScale(min_scale="1")  # error: arg-type | reportArgumentType
mpls.v1.FixedLossScale(8).set_scale(4)  # error: attr-defined | reportAttributeAccessIssue
mpls.v1.MixedPrecisionLossScaleOptimizer(v1_sgd, 8, enabled="auto")  # error: arg-type | reportArgumentType
manager = mpls.contrib.FixedLossScaleManager(8)
mpls.contrib.LossScaleOptimizer(v1_sgd, manager, on_give_up="stop")  # error: arg-type | reportArgumentType
mpls.experimental.LossScaleOptimizer(sgd, 8, check_unscaled="yes")  # error: arg-type | reportArgumentType

callback = mpls.monitor.LossScaleCallback(every="2")  # error: arg-type | reportArgumentType
callback.save(3)  # error: arg-type | reportArgumentType
callback.history = []  # error: misc | reportAttributeAccessIssue
hook = mpls.monitor.LossScaleHook(opt, 10, True, 1.0)  # error: call-arg | reportCallIssue
written: str = mpls.monitor.write_scalars(opt, 1)  # error: assignment, func-returns-value | reportAssignmentType
