"""The command line. It formats, and decides nothing of its own: it asks the running daemon, or edits files by `config`.

`main` is the way in, `parser` reads the command line by the table of commands in `help_texts`, `context` is what all
commands work with. A module for each family of commands, loaded once a command of it is asked for: `serve`,
`hub_commands` (status, cache, ...), `live` (logs), `tools_command` (tools), `client` (call, read, prompt, ...: the
command line as a host), `sign_in` (auth, logout), `configuration` (add, remove, edit, config, env, ...),
`secret_commands` (secret), `token_commands` (token), `completion` (in shells), `registry` (search, outdated, update),
`bundles` (add, update), `setup`, `hosts` (install, import), `profiles`, `rules` (policy, approvals, approve, pins,
audit), `service`, `doctor`, `check_command`.
Parts of these:

- `keyboard`: waiting for what a person types, or for Ctrl-C
- `await_server_starts`: waiting until servers are connected
- `shell_secrets`: variables that only this shell has, kept as secrets for servers
- `background_hub`: start of a hub in the background, end of one that hangs
- `systemd_units`: systemd
- `checks` are the doctor's, `render` turns answers into text

The boundary is `parser.Commands`: modules of commands import at their top what they need, and nothing loads them before
one of their commands runs: `hubd --help` must not pay for trio. Data goes to stdout, everything else
to stderr; `context.Output` says the same to programs as one JSON object.
"""
