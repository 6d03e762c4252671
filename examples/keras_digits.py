"""Train a float16 network with tf_keras' `fit`, without and with loss scaling, beside float32.

The twin of `tf1_digits.py` under the policy `mixed_float16`: the computations are in float16, the variables in float32.
`_digits.py` says why float16 gradients underflow in this job.
"""

from __future__ import annotations

import _keras_digits
import tf_keras

if __name__ == "__main__":
    title = "Handwritten digits, tf_keras under mixed_float16"
    _keras_digits.main(tf_keras, __doc__, "out/keras_digits.png", title)
