"""Train a float16 network with the `fit` of Keras 3, without and with loss scaling, beside float32.

The twin of `keras_digits.py` on Keras 3: the same networks, optimizers and numbers.
`_digits.py` says why float16 gradients underflow in this job.
"""

from __future__ import annotations

import _keras_digits
import keras

if __name__ == "__main__":
    title = "Handwritten digits, Keras 3 under mixed_float16"
    _keras_digits.main(keras, __doc__, "out/keras3_digits.png", title)
