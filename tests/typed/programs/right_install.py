"""`import mpls` and its functions; the subpackages come with it."""

import keras
import tensorflow as tf
import tf_keras

import mpls

with mpls.install(as_of="2.3") as installation:
    # The stubs of TensorFlow that pyright brings do not have it.
    from tensorflow.keras.mixed_precision import experimental  # pyright: ignore[reportMissingImports]

assert "tf.keras.mixed_precision.experimental.LossScaleOptimizer" in installation.names
assert mpls.installed() is None
done = mpls.install(contrib=True, replace_existing=False)
release: str | None = done.as_of
done = mpls.install(v1=False, keras=None, legacy_optimizers=False)
which: tuple[bool, int | None, bool] = done.v1, done.keras, done.legacy_optimizers
mpls.uninstall()
print(mpls.__version__, len(mpls.names.NAMES))

slope = tf.Variable(tf.constant(1.0))
adam = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.legacy.Adam(0.1), initial_scale=64)
adam.minimize(lambda: slope**2, [slope])
kernel = keras.Variable(1.0)
keras3_adam = mpls.keras.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=64)
report = mpls.convert_state(adam, keras3_adam, [kernel], source_variables=[slope])
print(report, experimental)
mpls.convert_state("path", keras3_adam, {"slope": kernel}, key="optimizer")
lines: tuple[str, ...] = report.left_out + report.differences
steps: int | None = report.iterations
assert isinstance(mpls.v1.FixedLossScale(1), mpls.experimental.LossScale)
assert mpls.contrib.FixedLossScaleManager(8)

try:
    mpls.v1.DynamicLossScale(float("inf"))
except mpls.errors.MplsError as error:
    print(error)
