"""Moving the state of optimizers: from live optimizers or records of files into live optimizers of any Keras family.

`convert_state` in `convert.py` is for users, `load_record` in `load.py` for other packages of mpls.
"""
