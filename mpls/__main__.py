"""`python -m mpls` is the command `mpls`."""

import sys

from mpls.cli import main

sys.exit(main())
