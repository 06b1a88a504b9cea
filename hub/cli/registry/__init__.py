"""Registries of servers on the command line: `hubd search`, `hubd add NAME`, `hubd outdated`, `hubd update NAME`.

`client` asks: one request and its answer; `find_server` looks a server up by its name, in all registries of the
configuration, and has a person choose which one, and which way to run it; `search_and_outdated`, `add_from_registry`
(`answer_and_add`: what has to be said) and `update_command` are the commands; their parsers are `add`'s
(`hub.cli.configuration`).
What a registry's words mean, and what is made of them, is decided in `config.registry`.

Nothing is written before a person has seen the whole command, or `--yes` was given. The daemon has no part in it, and
no model: neither can add a server.
"""
