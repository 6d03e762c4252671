"""The quick ways to compute a step: which of them is taken, and what each does."""
