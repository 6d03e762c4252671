"""The quick ways to compute a step: which is taken, and what each does."""
