"""The job that both examples do: the handwritten digits, the network and how it is trained.

Why float16 gradients underflow here, with nothing but textbook ingredients:

* The loss is the mean squared error over the whole training set and the ten outputs: what flows back from each output
  of each image is divided by 13,470, and is typically 1e-6.
* Sigmoid layers with truncated normal weights of standard deviation 0.1 pass on about a sixth of it: 2e-7, 4e-8 and
  6e-9 at the last, second and first hidden layer.
* The smallest positive float16 is 6e-8: half of what reaches the second layer becomes zero, and all that reaches the
  first.
* Weight decay shrinks a layer that gets no gradient, so that the next one gets less, and the network stays at chance
  level. Without weight decay it would only learn later.

With a scaled loss the same float16 network trains as in float32. Its scale starts too high, so that the first
gradients overflow: these steps are skipped, and the scale comes down until they fit. Later it grows after every 200
finite steps, until a growth overflows again.
"""

from __future__ import annotations

import os
from typing import NamedTuple

# Read when TensorFlow is loaded, which the programs do after this module. On CPUs with float16 instructions it leaves
# float16 layers to oneDNN, which has no fast kernel for a product with a bias: a step would take 0.4 s instead of 5 ms.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

PIXELS = 64
CLASSES = 10
HIDDEN_LAYERS = 3
WIDTH = 64
INITIAL_STDDEV = 0.1
LEARNING_RATE = 4.0  # of a loss that is averaged over ten outputs
MOMENTUM = 0.9
WEIGHT_DECAY = 2e-5  # times half the squared norm of the weight matrices
# Too high by a factor of 32, and growing ten times as fast as by default: what happens at the limit is to be seen.
INITIAL_SCALE = 2.0**30
GROWTH_STEPS = 200


class Digits(NamedTuple):
    """Images, flattened and with pixels from 0 to 1, and their labels."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load() -> Digits:
    """Load scikit-learn's 1,797 digits of 8 x 8 pixels, a quarter of them for testing."""
    images, labels = load_digits(return_X_y=True)
    train_images, test_images, train_labels, test_labels = train_test_split(
        (images / 16).astype(np.float32), labels, test_size=0.25, random_state=0, stratify=labels
    )
    return Digits(train_images, train_labels, test_images, test_labels)
