"""Import hooks and module attributes that put the names back; nothing here imports TensorFlow."""
