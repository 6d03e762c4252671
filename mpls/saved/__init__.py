"""Readers of the optimizers and loss scales in files, of every release and framework."""
