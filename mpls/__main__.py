"""`python -m mpls` is the command `mpls`."""

import sys

from mpls.cli import main

status = main()
# With -i, Python shows a SystemExit like an error, before its prompt.
if status != 0:
    sys.exit(status)
