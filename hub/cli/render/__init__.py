"""Texts of commands, made of the control socket's answers, and the screen that they are shown on.

`status`, `answers` (logs, tools, results), `costs` (tokens), `unused` (tools), `cache`, `sign_ins` and `findings` (of
the doctor) have a function for each command; `tables` formats columns, times and sizes, `last_words` finds the line of
an error that names its cause; `screen` knows the width and the colours of the terminal, and draws tables and lines that
change.
Names, errors and results come from servers, so control characters are shown, not obeyed.
"""
