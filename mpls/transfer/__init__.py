"""State of optimizers on its way: from live ones and from records of files, into live ones of any Keras family.

For code in this package and its siblings: `load.load_record(record, optimizer, variables)`.
"""
