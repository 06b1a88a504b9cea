"""The command line. It formats, and decides nothing of its own: it asks the running daemon, or edits files by `config`.

`main` is the way in, `parser` the table of all commands with their help, `subcommand` what all commands share. A
module for each family of commands, loaded once a command of it is asked for: `hub_commands` (serve, status, cache,
...), `tool_commands` (tools), `client` (call, read, prompt, ...: the command line as a host), `sign_in` (auth, logout),
`adding` (add), `editing` (remove, ...), `editor` (edit), `config` (show), `secret_commands` (secret), `token_commands`
(token), `environment` (env), `completion` (in shells), `registry` (search, outdated, update), `setup`, `install`,
`importing`, `profiles`, `service`, `doctor`. Parts of these:

- `clock`; `keyboard`: waiting for what a person types, or for Ctrl-C
- `drafts`: a changed configuration, shown or saved
- `server_watch`: waiting until servers are connected
- `start_hub` (in the background), `force_stop` (of one that hangs), `last_log` (of one that has ended)
- `served`: the servers that work through the hub
- `host_entries`, `host_changes`: what hosts are to have, and the change of their files
- `turn`: one command at a time moves servers between hosts and the hub
- `host_permissions`: rules of hosts that need another spelling
- `lost_servers`: what hosts start beside the hub, and what none starts once it is removed from the hub
- `import_choices`, `import_writes`, `import_originals`: what an import takes, writes, and takes out of hosts
- `change_report` and `import_report`: what was done, and why
- `host_selection`
- `service_manager`: systemd
- `checks` and `repairs` are the doctor's, `render` turns answers into text

The boundary is `parser.Commands`: modules of commands import at their top what they need, and nothing loads them before
one of their commands runs: `hubd --help` must not pay for trio. Data goes to stdout, everything else
to stderr; `subcommand.Output` says the same to programs as one JSON object.

`shell_variables` keeps as secrets what only the shell has and servers need.
"""
