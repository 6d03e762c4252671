"""Names that TensorFlow removed and mpls does not put back, and where to find them now. Imports no TensorFlow."""

from __future__ import annotations

import functools

_SLIM = "the package tf-slim has {}, as {}"
_ADDONS = "{} went to the package tensorflow-addons, which has ended too: take {} into the program"

# The parts of tf.contrib, except mixed_precision.
_CONTRIB = {
    "slim": _SLIM.format("tf.contrib.slim", "tf_slim"),
    "layers": _SLIM.format("tf.contrib.layers", "tf_slim.layers"),
    "framework": "tf.compat.v1 has most of tf.contrib.framework, the package tf-slim arg_scope and model variables",
    "rnn": "tf.compat.v1.nn.rnn_cell has the cells of tf.contrib.rnn",
    "seq2seq": _ADDONS.format("tf.contrib.seq2seq", "what is used of it"),
    "crf": _ADDONS.format("tf.contrib.crf", "what is used of it"),
    "image": _ADDONS.format("tf.contrib.image", "what is used of it"),
    "opt": _ADDONS.format("tf.contrib.opt", "the optimizer"),
    "cudnn_rnn": "the LSTM and GRU layers of Keras use cuDNN by themselves, in place of tf.contrib.cudnn_rnn",
    "data": "tf.data has what tf.contrib.data had",
    "distribute": "tf.distribute has what tf.contrib.distribute had",
    "eager": "tf itself has what tf.contrib.eager had",
    "estimator": "tf.contrib.estimator is gone with tf.estimator; people use Keras, or loops of their own",
    "learn": "tf.contrib.learn was replaced by tf.estimator, which is gone too; people use Keras",
    "lite": "tf.lite has what tf.contrib.lite had",
    "lookup": "tf.lookup has what tf.contrib.lookup had",
    "keras": "tf.keras has what tf.contrib.keras had",
    "losses": "tf.compat.v1.losses has what tf.contrib.losses had",
    "metrics": "tf.compat.v1.metrics has most of what tf.contrib.metrics had",
    "quantize": "the package tensorflow-model-optimization does what tf.contrib.quantize did",
    "summary": "tf.summary has what tf.contrib.summary had",
    "tensorrt": "tf.experimental.tensorrt has what tf.contrib.tensorrt had",
    "tpu": "tf.compat.v1.tpu has what tf.contrib.tpu had, but for TPUEstimator, which is gone with tf.estimator",
    "training": "tf.contrib.training.HParams is a class to copy; the rest is in tf.compat.v1.train or gone",
}

_OTHER_CONTRIB = (
    "mpls has tf.contrib.mixed_precision of it (--contrib, in that full spelling), and other packages have other parts"
)
_ESTIMATOR = (
    "tf.estimator was removed in TF 2.16, and mpls cannot put it back; people use Keras, or a loop with "
    "tf.compat.v1.train.MonitoredTrainingSession, or stay with TF 2.15"
)
# Prefixes of paths that neither TF 2 nor tf.compat.v1 has.
_REMOVED = {
    "tensorflow_core": "tensorflow_core was the inside of TF 1.15 to 2.1; tensorflow has what was in it",
    "tf.estimator": _ESTIMATOR,
    "tf.python.estimator": _ESTIMATOR,
    "tf.examples": "tensorflow.examples was removed in TF 2; tf.keras.datasets has MNIST",
    "tf.python.training.tracking": "tensorflow.python.training.tracking is tensorflow.python.trackable since TF 2.10",
    "tf.python.distribute.distribution_strategy_context": "what was in distribution_strategy_context is in "
    "tensorflow.python.distribute.distribute_lib; tf.distribute has what is public of it",
    "tf.python.keras.utils.multi_gpu_utils": "multi_gpu_model was removed in TF 2.4; tf.distribute.MirroredStrategy "
    "does what it did",
    "tf.keras.utils.multi_gpu_model": "multi_gpu_model was removed in TF 2.4; tf.distribute.MirroredStrategy does what "
    "it did",
    "tf.keras.wrappers.scikit_learn": "the wrappers for scikit-learn were removed in TF 2.13; the package scikeras has "
    "them",
    "tf.keras.estimator": "tf.keras.estimator makes what tf.estimator trained, which was removed in TF 2.16; people "
    "train the Keras model itself",
    "tf.keras.experimental.export_saved_model": "export_saved_model was removed from Keras; model.save and "
    "tf.saved_model.save do what it did",
    "tf.keras.experimental.load_from_saved_model": "load_from_saved_model was removed from Keras; load_model and "
    "tf.saved_model.load do what it did",
    "tf.keras.experimental.PeepholeLSTMCell": "PeepholeLSTMCell was removed from Keras; the class is to be taken into "
    "the program",
    "tf.keras.experimental.LinearCosineDecay": "LinearCosineDecay was removed from Keras; "
    "tf.compat.v1.train.linear_cosine_decay has the same decay",
    "tf.keras.experimental.NoisyLinearCosineDecay": "NoisyLinearCosineDecay was removed from Keras; "
    "tf.compat.v1.train.noisy_linear_cosine_decay has the same decay",
}


# How paths in them may begin else.
_SPELLINGS = {"tf.compat.v1.": "tf.", "tf.compat.v2.": "tf.", "keras.": "tf.keras.", "tf_keras.": "tf.keras."}


@functools.cache
def removal_of(path: str) -> tuple[str, str] | None:
    """Return the removed prefix of a path, and a text about it; None if no known removal applies.

    Args:
        path: a path such as `tf.contrib.slim.conv2d`, whose removed prefix is `tf.contrib.slim`.
    """
    root = next((each for each in _SPELLINGS if path.startswith(each)), "")
    path = f"{_SPELLINGS.get(root, '')}{path.removeprefix(root)}"
    parts = path.split(".")
    if parts[:2] == ["tf", "contrib"] and parts[2:3] != ["mixed_precision"]:
        text = _CONTRIB.get(".".join(parts[2:3]), _OTHER_CONTRIB)
        return ".".join(parts[:3]), f"tf.contrib ended with TF 1.15; {text}"
    return next(((name, text) for name, text in _REMOVED.items() if f"{path}.".startswith(f"{name}.")), None)
