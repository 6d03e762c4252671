"""What TensorFlow 1.15 to 2.21 computed, replayed against mpls."""
