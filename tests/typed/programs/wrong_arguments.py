"""Arguments that are of the wrong type, missing, too many, or unknown."""

import keras
import tensorflow as tf
import tf_keras

import mpls
import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1

adam = keras.optimizers.Adam()
mpls.keras.LossScaleOptimizer()  # error: call-arg | reportCallIssue
mpls.keras.LossScaleOptimizer(adam, dynamic="yes")  # error: arg-type | reportArgumentType
mpls.keras.LossScaleOptimizer(adam, True, 8, 2000, "name")  # error: call-arg | reportCallIssue
mpls.keras.LossScaleOptimizer(adam, loss_scale=8)  # error: call-arg | reportCallIssue

opt = mpls.keras.LossScaleOptimizer(adam, True, 8, 2000, name="name")
variables = [keras.Variable(1.0)]
opt.get_scaled_loss()  # error: call-arg | reportCallIssue
opt.get_unscaled_gradients(3)  # error: arg-type | reportArgumentType
opt.apply_gradients()  # error: call-arg | reportCallIssue
opt.minimize(lambda: 1.0)  # error: call-overload | reportCallIssue
opt.minimize(lambda: 1.0, variables, taep=None)  # error: call-overload | reportCallIssue
opt.compute_gradients(lambda: 1.0, variables, grad_loss=None)  # error: call-arg | reportCallIssue
opt.name = 3  # error: assignment | reportAttributeAccessIssue

sgd = tf.compat.v1.train.GradientDescentOptimizer(0.1)
mpls.v1.MixedPrecisionLossScaleOptimizer(sgd)  # error: call-arg | reportCallIssue
mpls.v1.MixedPrecisionLossScaleOptimizer(sgd, "dynamik")  # error: arg-type | reportArgumentType
graph = mpls.v1.MixedPrecisionLossScaleOptimizer(sgd, 8)
graph.minimize(1.0, tape=None)  # error: call-arg | reportCallIssue
graph.minimize(1.0, gate_gradients="op")  # error: arg-type | reportArgumentType
graph.apply_gradients([], experimental_aggregate_gradients=False)  # error: call-arg | reportCallIssue
mpls.v1.enable_mixed_precision_graph_rewrite(sgd, "static")  # error: arg-type | reportArgumentType

mpls.v1.LossScale()  # error: abstract | reportAbstractUsage
mpls.v1.FixedLossScale("8")  # error: arg-type | reportArgumentType
mpls.v1.DynamicLossScale(8, 2000, 2.0, True)  # error: call-arg | reportCallIssue

mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.SGD())  # error: call-arg | reportCallIssue
mpls.experimental.LossScaleOptimizer(adam, "static")  # error: arg-type | reportArgumentType
mpls.experimental.Policy("float32", "static")  # error: arg-type | reportArgumentType
mpls.keras.Policy(16)  # error: arg-type | reportArgumentType
mpls.keras.set_global_policy(16)  # error: arg-type | reportArgumentType
mpls.keras.load_model("model.keras", keras="keras3")  # error: arg-type | reportArgumentType

mpls.contrib.LossScaleManager()  # error: abstract | reportAbstractUsage
mpls.contrib.LossScaleOptimizer(sgd, 128)  # error: arg-type | reportArgumentType
mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2, ratio=2)  # error: call-arg | reportCallIssue

mpls.install("2.3", True)  # error: call-arg | reportCallIssue
mpls.install(keras=4)  # error: arg-type | reportArgumentType
mpls.convert_state(opt)  # error: call-arg | reportCallIssue
