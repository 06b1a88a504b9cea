"""What the hub was told, where its files are, and what it remembers. Knows nothing of MCP messages.

Read in this order: `schema` (the frozen structs), `layers` (all files as one `Loaded`), `gather` (which files these
are), `load` (one file), then as needed `document` (TOML, JSON, YAML and the lines of their keys), `mcpservers` and
`hostentry` (files of hosts), `variables` (`${VAR}` and friends), `convert` (values become structs), `check` (what types
cannot say), `names` (server ids), `source` (reading a file safely).

Beside that: `projects` and `trust` (files of a project), `effective` and `describe` (what is shown of a configuration,
and its JSON Schema), `watch` and `diff` (changes while the hub runs), `edit` and its helpers (changing our files),
`hosts` and its helpers (files of hosts), `places` and `paths` (directories and sockets), `state` (what is remembered
between runs).

What always holds: a `HubConfig` has been checked as a whole or does not exist; what is wrong with files is one
`ConfigError` that names each file, line and key, and what to write instead; secrets are `Secret` from the moment they
are read.
"""
