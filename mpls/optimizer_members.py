"""Members of optimizers, wrappers and loss scales that only some generations of Keras have.

mpls.hints and mpls.program recognise by these names for which generation a program was written. Legacy optimizers are
those of TF 2.0 to 2.10, which tf_keras still has as `optimizers.legacy`; new ones are those of TF 2.11 to 2.15, which
are `tf_keras.optimizers`. Both belong to Keras 2. Wrappers are the classes of `LossScaleOptimizer` in tf_keras and in
Keras 3.

The names come from the classes of tf_keras, which continues the Keras of TF 2.15, and of Keras 3. Tests compare them
with the installed ones.
"""

from __future__ import annotations

# Members of both wrappers of Keras 2, over legacy and over new optimizers. The wrapper of Keras 3 and unwrapped
# optimizers have none of them.
SCALING_METHODS = ("get_scaled_loss", "get_unscaled_gradients")
WRAPPER_ATTRIBUTES = ("loss_scale", "_loss_scale", "dynamic", "dynamic_counter", "_optimizer")

# Attributes of DynamicLossScale that tensors lack: `loss_scale` of a wrapper was such an object up to TF 2.3, and has
# been a tensor since.
ATTRIBUTES_OF_LOSS_SCALES = (
    "_current_loss_scale",
    "_num_good_steps",
    "_increment_period",
    "_initial_loss_scale",
    "_multiplier",
    "increment_period",
    "initial_loss_scale",
    "multiplier",
)

# Members of Keras 2's optimizers, legacy or new, that those of Keras 3 lack.
OF_KERAS_2 = ("lr", "minimize", "compute_gradients")

# Arguments of `apply_gradients` of legacy optimizers and of new ones; that of Keras 3 has neither.
AGGREGATION_OF_LEGACY = "experimental_aggregate_gradients"
AGGREGATION_OF_NEW = "skip_gradients_aggregation"

# Members of legacy optimizers and wrappers over them; later generations have `set_weights` only.
WEIGHTS = ("weights", "get_weights", "set_weights")

# Hyperparameters of the wrapped optimizer, beside `learning_rate` and `decay`. Keras' wrappers over legacy optimizers
# pass them on, and its later ones do not; those of mpls do in all families.
HYPERPARAMETERS = ("beta_1", "beta_2", "momentum", "rho")
HYPERPARAMETERS_OF_FTRL = (
    "beta",
    "learning_rate_power",
    "l1_regularization_strength",
    "l2_regularization_strength",
)
# Settings that wrappers over legacy optimizers pass on; the one of Keras 3 has attributes of these names too.
CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")

# Methods of legacy optimizers for hyperparameters. The wrapper over them inherits these, but they fail on it.
HYPERPARAMETER_METHODS = ("_decayed_lr", "_get_hyper", "_set_hyper")
# The one that subclasses of both generations of Keras 2 call in `get_config`; that of Keras 3 has none.
HYPERPARAMETER_SERIALIZERS = ("_serialize_hyperparameter",)
# Methods of legacy optimizers that subclasses override; new ones have none of them.
LEGACY_METHODS = (
    "_resource_apply_dense",
    "_resource_apply_sparse",
    "_create_slots",
    "_prepare_local",
    "_create_all_weights",
    "_aggregate_gradients",
    "get_updates",
)
# Members of legacy optimizers that other code reads, with names that are rare elsewhere; new ones have none of them.
LEGACY_USES = (
    *HYPERPARAMETER_METHODS,
    "_create_hypers",
    "_create_all_weights",
    "add_slot",
    "get_slot",
    "get_slot_names",
    "get_gradients",
    "get_updates",
    "get_weights",
)
# Members of legacy optimizers that mostly their subclasses read; new ones have none of them.
LEGACY_INTERNALS = (
    "_compute_gradients",
    "_create_slots",
    "_fallback_apply_state",
    "_prepare_local",
    "_resource_apply_dense",
    "_resource_scatter_add",
    "add_weight",
    "decay",
)
