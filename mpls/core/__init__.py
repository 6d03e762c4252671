"""What loss scaling is: the update rule, gradient arithmetic, trackable state and the scaled step.

Nothing here knows an optimizer; the families in `mpls.v1` and `mpls.keras` build on it.
"""
