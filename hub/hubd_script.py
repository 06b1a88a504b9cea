#!python
"""The script that is installed as the command `hubd` in bin/, and starts `hub.__main__` isolated: an executable file of
our own instead of a generated one, because a module named `hub` in `PYTHONPATH` would be taken for ours before any code
of ours could prevent it."""

import os
import sys

if "PYTHONPATH" in os.environ and not sys.flags.isolated:
    os.execv(sys.executable, [sys.executable, "-I", __file__, *sys.argv[1:]])

from hub.__main__ import main

sys.exit(main())
