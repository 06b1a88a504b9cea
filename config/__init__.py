"""Configuration: its settings, its files, the files of hosts, and what is remembered. Knows nothing of MCP messages.

Read `settings` first, which declares every setting (of `setting` parts; sign-ins in `oauth_settings`, who is let in by
HTTP in `access_settings`, registries of servers in `registry_settings`, what is counted in `usage_settings`,
profiles in `profile_settings`);
`setting_facts` reads that for all others. `loading` makes one `HubConfig` of all files, with `errors`, `names` and
`name_globs` (names that a setting chooses); `registry` makes entries of what registries say. `environment` decides
which variables servers get. `watching` notices changes, `diff` says what a change means, and `identity` which upstreams
are the same server.
`effective`, `json_schema`, `server_environment` and `secret_detection` show settings. `projects` and `trust` deal with
files of projects, `editing` with ours, `hosts` with those of hosts. `secret_store` keeps secrets, in the
`system_keyring` (asked by `keyring_child`) or a file, `secret_uses` finds who uses them, `references` says how texts
name them and `deferred` puts their values in place, `fixed_values` those of arguments that profiles fix. Below:
`child_output` (runs a program), `directories`, `hub_paths`, `files` (replaces a file, with a backup, by a `new_file`),
`saved_state` (lasts between runs), `leftovers` (of a killed run), `program` (the path of our own command).

What always holds: a `HubConfig` was checked as a whole or does not exist; all mistakes are one `ConfigError`, which
names file, line, key and remedy; a secret is a `Secret` from the moment it is read.
"""
