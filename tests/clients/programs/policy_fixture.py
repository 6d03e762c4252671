"""The unit tests of a layer, run under each policy and put back in tearDown. TF 2.2 to 2.4."""
import io
import sys
import unittest

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import global_policy, set_policy


class Attention(tf.keras.layers.Layer):
    def call(self, inputs):
        query, value = inputs
        scores = tf.matmul(query, value, transpose_b=True)
        mask = tf.constant(-1e4 if self._compute_dtype == "float16" else -1e9, scores.dtype)
        scores += mask * tf.cast(tf.eye(tf.shape(scores)[-1]), scores.dtype)
        return tf.matmul(tf.nn.softmax(scores), value)


class AttentionTest(unittest.TestCase):
    def tearDown(self):
        super(AttentionTest, self).tearDown()
        set_policy("float32")

    def run_layer(self):
        x = tf.constant(np.arange(6).reshape(3, 2) / 4.0, tf.float32)
        return Attention()([x, x])

    def test_float32(self):
        self.assertEqual(global_policy().name, "float32")
        output = self.run_layer()
        print("float32", output.dtype.name, np.round(output.numpy(), 4).tolist())

    def test_mixed(self):
        set_policy("mixed_float16")
        output = self.run_layer()
        self.assertEqual(output.dtype, tf.float16)
        print("mixed", output.dtype.name, np.round(output.numpy().astype("float64"), 1).tolist())


if __name__ == "__main__":
    result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(AttentionTest))
    print("ran", result.testsRun, "failed", len(result.failures) + len(result.errors))
    sys.exit(not result.wasSuccessful())
