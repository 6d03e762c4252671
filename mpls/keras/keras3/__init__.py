"""The wrapper over the optimizers of Keras 3, `keras.optimizers.Optimizer`."""

from mpls.keras.keras3.family import Family

__all__ = ["Family"]
