"""Texts of the command line, from the answers of the control socket. Pure.

`status`, `answers` (logs, tools, results) and `cache` have a function for each command; `tables` formats columns, times
and sizes.
Names, errors and results come from servers, so control characters are shown, not obeyed.
"""
