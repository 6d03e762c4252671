"""Model files of tf_keras and Keras 3: loaded with all the state that they hold, and written whole or not at all."""
