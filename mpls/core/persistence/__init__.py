"""Saving and restoring the state of loss scales: object-based checkpoints, savers of TF 1, dicts."""
