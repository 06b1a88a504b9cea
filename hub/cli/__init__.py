"""The command line. It formats and decides nothing of its own: it asks the running daemon, or edits files by `config`.

`main` is the way in. A module with `add_commands` is a family of commands; `base` is what they share. Parts of some are
`adding` (what `hubd add` was told), `drafts` (a changed configuration, shown or saved), `editor` (`hubd edit`),
`choosing` (which hosts are meant), `diffs` (what changes in a file), `planned` (what is done about a host's file) and
`import_words` (what an import says). Commands import what they need when they run: `hubd version` must not pay for
trio. Data goes to stdout, everything else to stderr; `base.Told` says the same to programs as one JSON object.
"""
