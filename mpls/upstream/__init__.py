"""Private parts of TensorFlow, tf_keras and Keras 3, and the releases that have them; other packages read them here."""
