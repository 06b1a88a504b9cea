"""What the hub was told, where its files are, and what it remembers. Knows nothing of MCP messages.

Read in this order: `schema` (the frozen structs), `load` (a file becomes a `HubConfig`), then as needed `mcpservers`
(JSON files of hosts), `variables` (`${VAR}` and friends), `check` (what types cannot say), `names` (server ids),
`source` (reading a file safely, finding the line of a key), `places` and `paths` (directories and sockets), `state`
(what is remembered between runs).

What always holds: a `HubConfig` has been checked as a whole or does not exist; a wrong file is one `ConfigError` that
names the file, the line or key, and what to write instead; secrets are `Secret` from the moment they are read.
"""
