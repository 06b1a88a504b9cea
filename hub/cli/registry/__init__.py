"""Registries of servers on the command line: `hubd search`, `hubd add NAME`, `hubd outdated`, `hubd update NAME`.

`client` (one request and its answer) and `lookup` (a server by its name, in all registries of the configuration) ask;
`choosing` (which registry, which way to run it) and `asking` (what has to be said) talk to a person; `search`,
`outdated`, `adding` and `updating` are the commands; their parsers are `add`'s (`hub.cli.configuration`).
What a registry's words mean, and what is made of them, is decided in `config.registry`.

Nothing is written before a person has seen the whole command, or `--yes` was given. The daemon has no part in it, and
no model: neither can add a server.
"""
