"""Seeing what happened to the loss scale: in the logs of `fit`, in sessions of TF 1, in `tf.summary` and in files.

An import of it loads no Keras.
"""

from mpls.core.counters import Stuck
from mpls.monitor.fit_callback import LossScaleCallback
from mpls.monitor.session_hook import LossScaleHook
from mpls.monitor.summaries import write_scalars

__all__ = ["LossScaleCallback", "LossScaleHook", "Stuck", "write_scalars"]
