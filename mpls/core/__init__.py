"""What loss scaling is: the update rule, gradient arithmetic, trackable state and the scaled step.

No class of an optimizer is imported here: the families in `mpls.v1` and `mpls.keras` hand in how gradients are applied.
"""
