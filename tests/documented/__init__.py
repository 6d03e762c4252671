"""Each statement and each example of the documented pages, a file for each page.

Statements that a recorded run checks are in `tests/golden` and `tests/api` alone: gates, slots and wrong arguments.
"""
