"""Hints: after an uncaught error, name the option that would have avoided it, if that is certain."""
