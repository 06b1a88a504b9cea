"""Configuration: its settings, its files, the files of hosts, and what is remembered. Knows nothing of MCP messages.

Read `settings` first, which declares every setting (of `setting_declarations`, with the `security_settings` of
sign-ins, access and rules, and `profile_settings`). `loading` makes one `HubConfig` of all files, with `diagnostics`,
`server_names` and `name_globs` (names that a setting chooses), `policy` (what rules are about); `registry` makes
entries of what registries say. `environment` decides which variables servers get. `file_watcher` notices changes,
`diff` says what a change means, and which upstreams are the same server. `show` shows settings. `projects` deals with
files of projects and which of them the user allows, `editing` with ours, `hosts` with those of hosts. `secrets` keeps
and detects secrets, `secret_references` says how texts name them. Below: `base_directories`, `private_directories`,
`hub_paths`, `safe_reading` (of files that nobody else may change), `atomic_writes` (replaces a file, with a backup),
`remembered_facts` (lasts between runs), `hubd_executable` (the path of our own command).

What always holds: a `HubConfig` was checked as a whole or does not exist; all mistakes are one `ConfigError`, which
names file, line, key and remedy; a secret is a `Secret` from the moment it is read.
"""
