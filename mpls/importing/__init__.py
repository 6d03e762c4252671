"""What code gets when it imports a module or reads an attribute; nothing here imports TensorFlow."""
