"""The wrapper over the optimizers of Keras 3, `keras.optimizers.Optimizer`."""

from mpls.keras.keras3.adapter import Keras3Adapter

__all__ = ["Keras3Adapter"]
