"""Stands for a package that a test's process does without; see `tests/processes.py`."""

raise ModuleNotFoundError("jax is left out of this process, see tests/processes.py", name="jax")
