"""What the hub was told, where its files are, and what it remembers. Knows nothing of MCP messages.

`schema` has the settings, `directories` and `paths` the places, `loading` reads all files into one `HubConfig`,
`identity` says what makes two upstreams the same, `diff` what a change means for what runs, `watch` that files changed.
`effective` and `describe` show settings, `projects` and `trust` are about files of projects, `editing` changes our
files, `hosts` those of hosts; `files` replaces one file with a backup, `saved_state` is what lasts between runs,
`secret_detection` what looks like a secret, `names` the ids of servers, `errors` what is said about files, `leftovers`
what an interrupted run left.

What always holds: a `HubConfig` has been checked as a whole or does not exist; what is wrong is one `ConfigError` that
names each file, line and key, and what to write instead; secrets are `Secret` from the moment they are read.
"""
