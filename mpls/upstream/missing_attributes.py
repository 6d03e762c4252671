"""Private names of frameworks that have no row in `table`, and why.

mpls sets or defines them, for a framework to read, or an object has them at times only: that one is missing does not
tell that a release has another name. A test finds each in the module that reads it.
"""

from __future__ import annotations

_CALLBACKS = "tf_keras.src.callbacks"
_FIT_FAILS = "fit of a tf_keras that calls another fails with an AttributeError that has its name"

# By name: the module that reads it, and what a release does that reads another.
MISSING_ATTRIBUTES = {
    "_current_learning_rate": (
        "tf_keras.src.optimizers.optimizer",
        "it is there after a step by a schedule; convert_state copies another as state of the algorithm, or reports it",
    ),
    "_is_wrapped_by_loss_scale_optimizer": (
        "tf_keras.src.mixed_precision.loss_scale_optimizer",
        "each of mpls and tf_keras refuses what it has wrapped itself, and wraps what the other has",
    ),
    "_trackable": (
        "tensorflow.python.trackable.base_delegate",
        "an object-based checkpoint of the wrapper fails with an AttributeError that has the other name",
    ),
    "_is_default": (
        "keras.src.utils.python_utils",
        "a Keras 3 that reads another takes empty hooks for a user's, and starts no batch before the last has ended",
    ),
    "_supports_tf_logs": (_CALLBACKS, "a tf_keras that reads another makes NumPy arrays of the logs of each batch"),
    "_implements_train_batch_hooks": (_CALLBACKS, _FIT_FAILS),
    "_implements_test_batch_hooks": (_CALLBACKS, _FIT_FAILS),
    "_implements_predict_batch_hooks": (_CALLBACKS, _FIT_FAILS),
}
