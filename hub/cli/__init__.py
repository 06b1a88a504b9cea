"""The command line. It formats and decides nothing of its own: it asks the running daemon, or edits files by `config`.

`main` is the way in; each further module is a family of commands and has `add_commands`. `base` is what they share.
Commands import what they need when they run: `hubd version` must not pay for trio. Data goes to stdout, everything else
to stderr.
"""
