"""Texts of commands, made of the control socket's answers, and the screen that they are shown on.

`status`, `costs` (tokens, and tools that nobody uses), `cache`, `calls` and `sign_ins` have a function for each
command; `words` has times, sizes, and the line of an error that names its cause. `blocks` are what these make: texts
with a style, and tables; `terminal` knows the width and the colours of the terminal and shows them, and `layout` makes
lines of them. Names, errors and results come from servers, so control characters are shown, not obeyed.
"""
