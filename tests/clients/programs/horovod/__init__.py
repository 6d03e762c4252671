"""Stands in for Horovod in one process: each rank but the first has the gradients of the first, times two."""
