"""What mpls knows of particular TensorFlow and Keras releases, private attributes among it; nothing else asks."""
