"""What records the steps of a training, inside of its program: on today's TensorFlow and, as one file, on old ones.

`one_file.py` joins the other modules to the file that `mpls trace --recorder` prints. They import nothing of mpls but
each other, keep to what Python 3.6 and TensorFlow 1.14 have, and define no name twice.
"""
