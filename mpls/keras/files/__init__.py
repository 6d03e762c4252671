"""`load_model` and `save_model`: model files of tf_keras and Keras 3, with the state of optimizers and loss scales."""
