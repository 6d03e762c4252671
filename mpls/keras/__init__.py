"""Loss scaling for Keras optimizers: tf_keras' legacy and new ones, and those of Keras 3; and dtype policies for both.

Import from here what code imports from `tf.keras.mixed_precision` of TF 2.4 to 2.15, from `tf_keras.mixed_precision`,
or from `keras.optimizers`, where the class of Keras 3 is.
"""

from mpls.importing.hooks import are_names_back as _are_names_back
from mpls.keras import experimental_wrapper as experimental_wrapper
from mpls.keras.files.loading import load_model
from mpls.keras.files.saving import save_model
from mpls.keras.marked_configs import recognise_while_installed as _recognise_while_installed
from mpls.keras.optimizer import LossScaleOptimizer
from mpls.keras.policy import Policy, global_policy, set_global_policy

# The class name that files have for wrappers over new optimizers, as with tf_keras' own; not for users.
LossScaleOptimizerV3 = LossScaleOptimizer

__all__ = ["LossScaleOptimizer", "Policy", "global_policy", "load_model", "save_model", "set_global_policy"]

if _are_names_back():
    _recognise_while_installed(True)
