"""Registries of servers on the command line: `hubd search`, `hubd add NAME`, `hubd outdated`, `hubd update NAME`.

`commands` has the parsers. `known` (the registries of the configuration), `client` (one request and its answer),
`finding` (a server by its name, in all of them) ask; `choosing` (which registry, which way to run it), `asking` (what
has to be said) and `screens` (what people see) talk to a person; `searching`, `adding`, `outdated` and `updating` are
the commands. What a registry's words mean, and what is made of them, is decided in `config.registry`.

Nothing is written before a person has seen the whole command, or `--yes` was given. The daemon has no part in it, and
no model: neither can add a server.
"""
