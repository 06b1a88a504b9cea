#!python
"""The script that is installed as the command `mcp-hubd`: `hubd` under the name of its package, since package runners
look for a command of that name (`uvx mcp-hubd`, `pipx run mcp-hubd`)."""

import os
import sys

HUBD = os.path.join(os.path.dirname(os.path.realpath(__file__)), "hubd")
os.execv(sys.executable, [sys.executable, "-I", HUBD, *sys.argv[1:]])
