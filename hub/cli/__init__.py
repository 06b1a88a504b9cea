"""The command line. It formats, and decides nothing of its own: it asks the running daemon, or edits files by `config`.

`main` is the way in, and `subcommand` what the families of commands share: `hub_commands` (serve, status, call, ...),
`cache`, `editing` and `adding` (changes of the configuration), `editor` (`hubd edit`), `config` (show it), `hosts` and
`importing` (hosts' own files), `service`, `doctor`. Parts of them: `drafts` (a changed configuration, shown or saved),
`diffs`, `change_report` and `import_report` (what was done, and why), `host_selection`, `arguments` (of calls, from
words), `service_manager` (systemd). `checks` are the doctor's, `render` makes text of answers.

Commands import what they need when they run: `hubd version` must not pay for trio. Data goes to stdout, everything else
to stderr; `subcommand.Told` says the same to programs as one JSON object.
"""
