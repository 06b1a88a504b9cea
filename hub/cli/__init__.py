"""The command line. It formats and decides nothing of its own: it asks the running daemon, or edits files by `config`.

`main` is the way in. A module with `add_commands` is a family of commands; `base` is what they share, and `adding`,
`choosing` and `diffs` are parts of some. Commands import what they need when they run: `hubd version` must not pay for
trio. Data goes to stdout, everything else to stderr; `base.Told` says the same to programs as one JSON object.
"""
