"""The texts of the command line. Pure: the data is what the control socket answered.

`status`, `answers` (logs, tools, results) and `cache` have a function for each command, `tables` what they are made of.
Names, errors and results come from servers, so control characters are shown, not obeyed (SEC-54).
"""
