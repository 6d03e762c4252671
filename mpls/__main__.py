"""`python -m mpls` is the command `mpls`."""

import os
import sys

# Python would look for modules in the current directory first, where the program may have a `random.py` of its own. The
# command `mpls` has its own directory there.
if not getattr(sys.flags, "safe_path", sys.flags.isolated):
    sys.path[0] = os.path.dirname(sys.executable or "")

from mpls.cli import main

status: int = main()
# With -i, Python shows a SystemExit like an error, before its prompt.
if status != 0:
    sys.exit(status)
